"""Reads the data files of known defects, and makes the known failures of them that a run looks for.

    [[defects]]
    id = "fed-default-ignored"                  # for `opmap known ID`
    title = "the value fed for a default is ignored"
    kind = "silent"                             # silent, crash, hang or refusal
    source = "file and function in ONNX Runtime's sources"
    root = "uploads outlive their session"      # the mechanism, if other defects have it too
    issue = "https://..."                       # ONNX Runtime's issue, if there is one
    device_class = ["emulated"]                 # where it was seen
    control = "the same thing done in a way that works"
    reproducer = "contract/graphs/default-data-fed"  # the id of the case or probe that shows it shortest
    passes = ["contract/graphs/default-fed-unfused"]  # ids of cases or probes of the control
    sequences = [["default fed"]]               # what a sequence of `opmap fuzz` needs: features of each session
    shows = { silent = ["are zeros"] }          # of which texts a failure of such a sequence has one, by its kind
    seen.onnxruntime-directml = { versions = "==1.24.4" }
    seen.onnxruntime-windowsml = { repaired = "1.30.0" }
    pairs = [{ onnxruntime = "1.24.4", directml = "1.15.4", seen = "wrong" }]  # what opmap versions saw

    [[defects.fails]]                           # as in a file of known failures (see known_failures)
    case = "*/fed-data"
    verdict = "mismatch"
    message = "consistent with"

An entry of `fails` is one of known failures whose provider, package, versions, device class and reason are those of the
defect. Its `case` may be several globs. With `package`, the entry is for this package only. With
`provider = "directml"`, it is for DirectML without ONNX Runtime, and gives the versions of DirectML.dll itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
from packaging.specifiers import SpecifierSet

from ..engines.machine.facts import DeviceClass
from ..engines.sessions import DIRECTML
from ..errors import InputError, shown, similar
from .known_failures import KnownFailure

Kind = Literal["silent", "crash", "hang", "refusal"]
"""What a defect does: wrong values without an error; the end of the process; no answer; a valid model or call
refused."""

KINDS: Mapping[str, str] = {
    "silent": "wrong values, no error",
    "crash": "the process ends",
    "hang": "no answer",
    "refusal": "a valid model or call fails",
}
"""The kinds, each with its meaning."""


class Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a defect in one package: the range of versions that have it, and the first version without
    it.
    """

    versions: str | None = None
    repaired: str | None = None

    def __str__(self) -> str:
        repaired = f"repaired in {self.repaired}" if self.repaired else None
        return ", ".join(filter(None, (self.versions and self.versions.removeprefix("=="), repaired)))


Word = Literal["right", "wrong", "refused", "crash", "hang", "unstable", "not loadable", "no answer"]
"""What a pair of ONNX Runtime and DirectML.dll does. `unstable`: the runs differ. The last two say nothing about the
versions."""


class SeenOn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What was seen on a pair of ONNX Runtime and DirectML.dll."""

    onnxruntime: str
    directml: str
    seen: Word


class Defect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One defect of the DirectML EP.

    `seen` has the packages in which it was looked for, `pairs` what `opmap versions` saw.
    """

    id: str
    title: str
    kind: Kind
    source: str
    root: str | None = None
    issue: str | None = None
    device_class: tuple[DeviceClass, ...]
    control: str
    reproducer: str
    passes: tuple[str, ...]
    sequences: tuple[tuple[str, ...], ...] = ()
    shows: dict[Kind, tuple[str, ...]] = {}
    seen: dict[str, Seen]
    pairs: tuple[SeenOn, ...] = ()
    fails: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return self.id

    @property
    def shown(self) -> Mapping[Kind, tuple[str, ...]]:
        """Of which texts a failed sequence has one, by the kind of the failure.

        The messages of `fails` are the default.
        """
        return self.shows or {self.kind: tuple(dict.fromkeys(failure["message"] for failure in self.fails))}

    def seen_on(self, device_class: str | None, version: str | None) -> bool:
        """Returns whether the defect was seen on this class of devices, with this version of ONNX Runtime."""
        ranges = [seen.versions for seen in self.seen.values() if seen.versions]
        return device_class in self.device_class and any(version in SpecifierSet(r) for r in ranges if version)

    def known_failures(self) -> Iterator[KnownFailure]:
        """Gives an entry for each way in which the defect shows, on each package and device class where it was seen."""
        for keys in self.fails:
            places = [
                {"provider": DIRECTML, "package": package, "onnxruntime": seen.versions}
                for package, seen in self.seen.items()
                if seen.versions and keys.get("package", package) == package
            ]
            for place in [{}] if "provider" in keys else places:
                case = keys.get("case")
                cases = case if isinstance(case, list) else [case]
                for device_class, glob in itertools.product(self.device_class, cases):
                    reason = f"{self.title} (opmap known {self.id})"
                    more = {"case": glob, "device_class": device_class, "reason": reason}
                    yield msgspec.convert({**keys, **place, **more}, KnownFailure)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    defects: tuple[Defect, ...]


@cache
def defects() -> tuple[Defect, ...]:
    """Returns all known defects: those of one kind together, but each beside the first one of its mechanism."""
    all_defects: list[Defect] = []
    for path in sorted(files(__package__).iterdir(), key=lambda path: path.name):
        if path.name.endswith(".toml"):
            all_defects += msgspec.toml.decode(path.read_bytes(), type=_File).defects
    order = list(KINDS)
    all_defects.sort(key=lambda defect: order.index(defect.kind))
    first = {defect.root or defect.id: at for at, defect in reversed([*enumerate(all_defects)])}
    return tuple(sorted(all_defects, key=lambda defect: first[defect.root or defect.id]))


@cache
def shipped_failures() -> Sequence[KnownFailure]:
    """Returns the known failures of all defects."""
    return tuple(entry for defect in defects() for entry in defect.known_failures())


def find_defect(id: str) -> Defect:
    """Returns the defect with this id. Raises InputError with the nearest ids if there is none."""
    by_id = {defect.id: defect for defect in defects()}
    if id not in by_id:
        hint = similar(id, by_id) or "; opmap known lists them"
        raise InputError(f"known must be given the id of a defect, got {shown(id)}{hint}")
    return by_id[id]
