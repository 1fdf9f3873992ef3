"""`--jobs N`: the cases of a run are judged in N processes, each with a session of its own. The results are the same.

The records come in the order in which one process would give them. So progress, `--max-failures`, Ctrl-C and `--resume` work
as with one process.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TypeAlias

import msgspec

from ..catalogue.case import Case
from ..engines.machine.garbage import collect_less_often
from ..engines.pool import Ended, Pool, Processes
from ..engines.providers import ProviderMissing
from ..engines.sessions import CPU
from ..engines.worker import HANG_LIMIT, WorkerCrashed
from ..errors import InputError
from ..judge.ahead import MOST_CASES, MOST_ELEMENTS
from ..judge.items import Item, Judging, operator_of
from ..judge.judge import Outcome, decide
from ..judge.record import Record
from ..judge.session_batcher import only_here
from ..vocabulary import Stage, Verdict
from . import Session
from .options import SessionOptions

_Results: TypeAlias = list[tuple[Record, float]]
"""The record of each item, and how many seconds it took."""

_Block: TypeAlias = list[list[Item]]
"""Groups of items that follow each other. The items of a group run in one session."""

_Arguments: TypeAlias = tuple[SessionOptions, bool, Path]
"""The arguments of `_in_process`."""


def started(jobs: int) -> AbstractContextManager[Processes | None]:
    """Returns the context with the processes for a run, for `judging`. They load opmap while this process lists the cases."""
    return nullcontext() if jobs == 1 else Processes(_in_process, jobs)


def judging(session: Session, jobs: int, processes: Processes | None = None) -> AbstractContextManager[Judging | None]:
    """Returns the context in which a run is judged. It gives what `Session.judge_all` takes: None for one process.

    `processes` are those that were started before. Raises InputError if there are several jobs, and the provider is neither
    the CPU EP nor one that is no ONNX Runtime's EP.
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
    options = session.options._replace(provider=name, report=None, resume=None, write_known_failures=None)
    seconds: dict[str, float] = {}
    blocks, ready = _blocks(session.left), deque[tuple[Record, float]]()
    with tempfile.TemporaryDirectory(prefix="opmap-", ignore_cleanup_errors=True) as folder:
        arguments = (options, session.brief, Path(folder) / "hangs")
        with Pool(_in_process, arguments, blocks, jobs, processes=processes) as pool:
            answers = iter(zip(blocks, pool, strict=True))

            def judge(item: Item) -> Record:
                if not ready:
                    block, answer = next(answers)
                    ready.extend(
                        _without_crash(session, arguments, block, answer.how) if isinstance(answer, Ended) else answer
                    )
                record, seconds[item.id] = ready.popleft()
                assert record.case == item.id, "the answers come in the order of the items"
                return record

            yield Judging(judge, seconds)


def _blocks(groups: _Block) -> list[_Block]:
    """Returns the groups in blocks of neighbours. A process judges a block at a time.

    Neighbours often have one descriptor, which is worked out once in a process. A large case is in a block of its own.
    """
    blocks: list[_Block] = []
    left = 0.0
    for group in groups:
        elements = sum(item.desc.element_count for item in group if isinstance(item, Case))
        size = len(group) / MOST_CASES + elements / MOST_ELEMENTS
        if size > left or not blocks:
            blocks.append([])
            left = 1.0
        blocks[-1].append(group)
        left -= size
    return blocks


@contextmanager
def _in_process(options: SessionOptions, brief: bool, hangs: Path) -> Iterator[Callable[[_Block], _Results]]:
    """Opens the session of one process. Gives the function that judges a block. All processes count hangs in one file.

    Raises InputError if the provider cannot be opened once more, because it can be used by one process only.
    """
    collect_less_often()
    HANG_LIMIT.share(hangs)
    with Session(options, brief=brief) as session:
        missing = session.open()
        if isinstance(missing, ProviderMissing):
            raise InputError(
                f"--jobs needs a provider that several processes can open, got {options.provider}: {missing}"
            )
        yield session.judge_groups


def _without_crash(session: Session, arguments: _Arguments, block: _Block, how: str) -> _Results:
    """Judges a block again in new processes, after its process ended: each group alone, or each item of a single group.

    If no process ends now, the items failed only together. One record says so: that of the first case that passes, or
    of the first item if none passes.
    """
    (first, *_), *more = block
    if not more and len(block[0]) == 1:
        return [(_crashed(session, first, how), 0.0)]
    parts: list[_Block] = [[group] for group in block] if more else [[[item]] for item in block[0]]
    results: _Results = []
    again = False
    with Pool(_in_process, arguments, parts, 1) as pool:
        for part, answer in zip(parts, pool, strict=True):
            again = again or isinstance(answer, Ended)
            results += _without_crash(session, arguments, part, answer.how) if isinstance(answer, Ended) else answer
    items = [item for group in block for item in group]
    if not again:  # one failure is reported once
        at = next((at for at, (record, _) in enumerate(results) if record.verdict == Verdict.PASS), 0)
        record, seconds = results[at]
        other_ids = [item.id for item in items if item is not items[at]]
        only_batched = only_here(
            _crashed(session, items[at], how, "this or one of them"), record, other_ids, place="process"
        )
        if record.verdict != Verdict.PASS:
            only_batched = msgspec.structs.replace(
                only_batched, message=f"{only_batched.message}; without them {record.verdict}: {record.message}"
            )
        results[at] = only_batched, seconds
    return results


def _crashed(session: Session, item: Item, how: str, judged: str = "this") -> Record:
    """Returns the record of an item during which its process ended. `judged` says in words what the process judged."""
    provider = session.provider
    assert provider is not None, "a missing provider judges nothing"
    error = WorkerCrashed(f"the process {how} while it judged {judged}", stage=Stage.RUN)
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
