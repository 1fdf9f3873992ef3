"""The first lines of a report: what was tested on what, and the verdict of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import cut, names
from ..judge.record import Record
from ..limits import MAX_SHOWN
from ..vocabulary import Verdict
from .documents import RunDocument


@dataclass(frozen=True)
class Heading:
    """What was tested on what, the `verdict` (`passed`, `failed`, `unfinished` or `not run`), and what to know of
    it.
    """

    verdict: str
    tested: str
    where: str
    result: str
    notes: Sequence[str]


def heading(run: RunDocument, records: Sequence[Record], causes: int) -> Heading:
    """Returns the heading of a run with so many causes of failures."""
    failed = sum(record.failed for record in records)
    probes = sum(record.is_probe or record.is_contract for record in records)
    tested = _number(len(records) - probes, "case") + (f" and {_number(probes, 'probe')}" if probes else "")
    tier = run.selection.get("tier")
    tested += f" of tier {cut(str(tier), MAX_SHOWN)}" if tier else ""
    of_causes = f", of {_number(causes, 'cause')}" if causes else ""
    flaky = sum(record.verdict is Verdict.FLAKY for record in records)
    failed -= flaky
    result = f"{failed:,} failed" if failed else "none failed"
    result += (f", {flaky:,} flaky" if flaky else "") + (of_causes if failed or flaky else "")
    verdict, notes = "failed" if run.exit_code or failed else "passed", []
    if run.totals is None or run.exit_code == 130:
        verdict = "unfinished"
        what = "has not ended" if run.totals is None else "was interrupted"
        notes.append(f"The run {what}: more cases may fail.")
    elif run.exit_code and not failed:
        notes.append("No case failed, but the run is red: see the page `results` of the manual for the reasons.")
    elif not failed and not any(record.ran for record in records):
        verdict, result = "not run", "none was run"
    classes = [str(run.selection.get("device_class") or "")]
    if not classes[0]:
        classes = sorted({record.device_class for record in records if record.device_class})
    if "emulated" in classes:
        notes.append("A device is emulated: its results say nothing about the driver of a GPU.")
    if "translated" in classes:
        notes.append("A device is translated: its results hold for its Vulkan driver, not for its driver on Windows.")
    return Heading(verdict, tested, ", ".join(_where(run, records, classes)), result, notes)


def _number(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _where(run: RunDocument, records: Sequence[Record], classes: Sequence[str]) -> list[str]:
    """Returns what was tested: provider, software, adapter and driver, and the kind of device."""
    asked = {name: str(value) for name, value in run.selection.items() if value is not None}
    ran_on = names(sorted({record.provider for record in records if record.provider}))
    provider = asked.get("provider") or ran_on or "an unknown provider"
    package = " ".join(asked[name] for name in ("package", "version") if name in asked)
    driver = f"driver {asked['driver']}" if "driver" in asked else None
    own_version = f"EP {asked['ep_version']}" if "ep_version" in asked else None
    parts = [provider, own_version, package, asked.get("adapter_name"), driver, asked.get("platform")]
    if classes:
        devices = " and ".join(classes[:3])
        article = "an" if devices.startswith("e") else "a"
        one = "a CPU" if devices == "cpu" else f"{article} {devices} device"
        parts.append(one if len(classes) == 1 else f"{devices} devices")
    return [cut(part, MAX_SHOWN) for part in parts if part]
