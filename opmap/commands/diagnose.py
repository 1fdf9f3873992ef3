"""`opmap diagnose`: runs the cases of the catalogue, and asks the provider more until the cause of each failure is exact."""

from __future__ import annotations

from argparse import Namespace

from ..diagnosis.causes import causes
from ..diagnosis.diagnose import Diagnosis, check_stability, make_condition_exact, merged
from ..reporting.diagnosis import diagnosis_json, print_causes
from ..reporting.terminal import console, print_error, progress, stdout_for_json, write_json
from ..session import Session, SessionOptions
from ..verdicts.judge import Judge
from ..vocabulary import Verdict


def run(options: Namespace) -> int:
    """Runs the cases, and prints the cause of each group of failures. Returns the exit code of the run."""
    session = Session(SessionOptions.read(vars(options)))
    with progress(None, "choosing cases") as advance:
        session.choose(advance)
    with stdout_for_json(options.json), session:
        with progress(len(session.items), session.provider_name) as advance:
            session.judge_all(advance)
        diagnoses = _diagnoses(session, options.budget)
    for problem in session.problems:
        print_error(problem)
    exit_code = session.finish()
    if options.json:
        write_json(diagnosis_json(session.provider_name, diagnoses))
        return exit_code
    out = console()
    print_causes(out, diagnoses, session.again)
    for note in session.notes:
        out.print(note, style="bold", soft_wrap=True, highlight=False, markup=False)
    return exit_code


def _diagnoses(session: Session, budget: int) -> list[Diagnosis]:
    """Returns the causes of the failures. A cause that is always there is asked about, with at most `budget` new cases."""
    judge = session.open()
    if not isinstance(judge, Judge):
        return []
    found = causes(session.judged, session.calls)
    passing = [case for case, record in session.judged if record.verdict == Verdict.PASS]
    diagnoses = []
    with progress(len(found), "causes") as advance:
        while found:
            cause, *found = found
            dangerous = session.options.rerun_dangerous
            diagnosis = check_stability(cause, session.judged, session.calls, session.fresh, dangerous=dangerous)
            if diagnosis.stability is not None and diagnosis.stability.kind == "always":
                diagnosis = make_condition_exact(diagnosis, passing, judge, budget=budget)
                diagnosis, found = merged(diagnosis, found, session.calls)
            diagnoses.append(diagnosis)
            advance()
    return diagnoses
