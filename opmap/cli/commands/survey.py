"""`opmap survey`: what a provider does where the pages give no value, and DirectML itself with descriptors that they
forbid."""

from __future__ import annotations

from argparse import Namespace

from ...cases import rule_breaks
from ...cases.invalid_indices import questions
from ...engines.direct import DirectProvider
from ...engines.worker import WorkerProvider
from ...errors import InputError
from ...judge.against import RuleRow, rule_rows
from ...judge.judge import Judge
from ...judge.survey import Observation, Survey, failures
from ...operators import OPERATORS
from ...reports.html_report import add_survey
from ...reports.survey import print_survey, rules_section, survey_document
from ...reports.terminal import console, print_error, print_line, progress, stdout_for_json, write_json
from ...reports.written_bundle import read_bundle
from ...session import ValidationRun
from ...session.options import SessionOptions


def run(options: Namespace) -> int:
    """Asks, prints the answers, adds them to a bundle if one is named, and returns the exit code.

    Raises InputError for bad options, and for a bundle that cannot be used.

    The exit code is 1 if an answer is wrong, or if nothing was answered. Ctrl-C ends the questions; the answers so far
    are printed.
    """
    bundle = read_bundle(options.report) if options.report else None
    for _ in bundle.read_records() if bundle else ():  # raises before the questions, which take minutes
        pass
    session = ValidationRun(SessionOptions.read({**vars(options), "report": None}))
    observations: list[Observation] = []
    rules: list[RuleRow] | None = None
    interrupted = False
    with stdout_for_json(options.json), session:
        judge = session.open()
        if bundle and bundle.asked("provider") != session.provider_name:
            message = f"must be a results bundle of {session.provider_name}, got one of {bundle.asked('provider')}"
            raise InputError(message, file=options.report)
        name, device_class = session.provider_name, None
        if isinstance(judge, Judge):
            device_class = judge.provider.device_class
            try:
                _ask(judge, observations, dangerous=options.rerun_dangerous)
                rules = _rules(judge)
            except KeyboardInterrupt:
                interrupted = True
        else:
            print_error(f"not run: {judge}")
    document = survey_document(name, device_class, observations, rules)
    place = f"{name} ({device_class})" if device_class else name
    if options.json:
        write_json(document)
    elif observations:
        print_survey(console(), place, observations)
        if rules is not None:
            rules_section(place, rules).print(console())
    if bundle and observations and not interrupted:
        report = add_survey(bundle, document)
        if not options.json:
            print_line(f"report: {report}")
    if interrupted:
        print_error("interrupted")
        return 130
    if not isinstance(judge, Judge):
        return int(options.require_provider)
    not_run = options.require_provider and any(o.not_run for o in observations)
    return int(bool(failures(observations)) or not_run or not any(o.answered for o in observations))


def _ask(judge: Judge, observations: list[Observation], *, dangerous: bool) -> None:
    """Asks all questions, and adds each answer to the observations."""
    provider = judge.provider
    if isinstance(provider.runner, WorkerProvider) and (dangerous or provider.device_class == "emulated"):
        provider.runner.ignore_hangs()
    all_questions = [question for operator in OPERATORS.values() for question in questions(operator)]
    survey = Survey(judge, dangerous=dangerous)
    with progress(len(all_questions), provider.name) as advance:
        for question in all_questions:
            observations.append(survey.ask(question))
            advance()


def _rules(judge: Judge) -> list[RuleRow] | None:
    """Asks DirectML itself about descriptors that keep or break the rules; no other provider takes a descriptor."""
    runner = judge.provider.runner
    if not isinstance(runner, DirectProvider):
        return None
    asked = list(rule_breaks.questions())
    rows = []
    with progress(len(asked), "rules") as advance:
        for row in rule_rows(runner, asked):
            rows.append(row)
            advance()
    return rows
