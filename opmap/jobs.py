"""`--jobs N`: the cases of a run are judged in N processes, each with a session of its own. The results are the same.

The records come in the order in which one process would give them. So progress, `--max-failures`, Ctrl-C and `--resume` work
as with one process.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

from .cases.case import Case
from .errors import InputError
from .execution.pool import Ended, Pool, Processes
from .execution.sessions import CPU
from .execution.worker import WorkerCrashed
from .session import Session
from .session_options import SessionOptions
from .verdicts.items import Item, Judging, operator_of
from .verdicts.judge import Outcome, decide
from .verdicts.record import Record
from .verdicts.together import only_here
from .vocabulary import Stage, Verdict

_Results: TypeAlias = list[tuple[Record, float]]
"""The record of each item, and how many seconds it took."""


def started(jobs: int) -> AbstractContextManager[Processes | None]:
    """Returns the context with the processes for a run, for `judging`. They load opmap while this process lists the cases."""
    return nullcontext() if jobs == 1 else Processes(_in_process, jobs)


def judging(session: Session, jobs: int, processes: Processes | None = None) -> AbstractContextManager[Judging | None]:
    """Returns the context in which a run is judged. It gives what `Session.judge_all` takes: None for one process.

    `processes` are those that were started before. Raises InputError if there are several jobs, and the provider is neither the CPU EP nor one that is no ONNX Runtime's EP.
    """
    provider = session.provider
    if jobs == 1 or provider is None:
        return nullcontext()
    if provider.direct or not (provider.name == CPU or provider.third_party):
        why = (
            "one adapter takes one process" if provider.directml or provider.direct else "one device takes one process"
        )
        raise InputError(f"--jobs is for the CPU EP, fault:NAME and MODULE:FACTORY, got {provider.name}: {why}")
    return _judging(session, jobs, processes)


@contextmanager
def _judging(session: Session, jobs: int, processes: Processes | None) -> Iterator[Judging]:
    provider = session.provider
    assert provider is not None, "a missing provider judges nothing"
    # `auto` would look for a DirectML adapter once more.
    name = session.options.provider if provider.third_party else CPU
    options = dataclasses.replace(session.options, provider=name, report=None, resume=None, write_known_failures=None)
    seconds: dict[str, float] = {}
    left, ready = session.left, deque[tuple[Record, float]]()
    arguments = (options, session.brief)
    with Pool(_in_process, arguments, left, jobs, weigh=_weight, processes=processes) as pool:
        answers = iter(zip(left, pool, strict=True))

        def judge(item: Item) -> Record:
            if not ready:
                group, answer = next(answers)
                ready.extend(
                    _without_crash(session, arguments, group, answer.how) if isinstance(answer, Ended) else answer
                )
            record, seconds[item.id] = ready.popleft()
            assert record.case == item.id, "the answers come in the order of the items"
            return record

        yield Judging(judge, seconds)


def _weight(group: Sequence[Item]) -> float:
    """Returns how much work a group is: 1 is some thirty small cases, or about a million elements."""
    cases = [item for item in group if isinstance(item, Case)]
    elements = sum(tensor.element_count for case in cases for tensor in case.desc.tensors.values())
    return (len(cases) + elements / 32_768) / 32 + (len(group) - len(cases))


@contextmanager
def _in_process(options: SessionOptions, brief: bool) -> Iterator[Callable[[Sequence[Item]], _Results]]:
    """Opens the session of one process. Gives the function that judges items which run in one session."""
    with Session(options, brief=brief) as session:
        session.open()
        yield session.judge_group


def _without_crash(
    session: Session, arguments: tuple[SessionOptions, bool], group: Sequence[Item], how: str
) -> _Results:
    """Judges each item of a group alone, in a new process, after a process ended while it judged the group."""
    if len(group) == 1:
        return [(_crashed(session, group[0], how), 0.0)]
    results: _Results = []
    with Pool(_in_process, arguments, [[item] for item in group], 1) as pool:
        for item, answer in zip(group, pool, strict=True):
            results += [(_crashed(session, item, answer.how), 0.0)] if isinstance(answer, Ended) else answer
    first, *others = group
    if isinstance(first, Case) and all(record.verdict == Verdict.PASS for record, _ in results):
        here = only_here(_crashed(session, first, how), results[0][0], [item.id for item in others])
        results[0] = here, results[0][1]  # one failure is told once
    return results


def _crashed(session: Session, item: Item, how: str) -> Record:
    """Returns the record of an item during which its process ended."""
    provider = session.provider
    assert provider is not None, "a missing provider judges nothing"
    error = WorkerCrashed(f"the process {how} while it judged this", stage=Stage.RUN)
    if isinstance(item, Case):
        record = decide(Outcome(case=item, round=item.round, error=error), provider, brief=session.brief)
    else:
        record = Record(
            case=item.id,
            operator=operator_of(item),
            verdict=error.verdict,
            stage=error.stage,
            message=str(error),
            provider=provider.name,
            device_class=provider.device_class,
        )
    return session.active_failures.settle(item, [record]) if session.active_failures else record
