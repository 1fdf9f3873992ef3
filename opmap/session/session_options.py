"""What a run was asked for, as the command line and the pytest plugin read it."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, printable
from ..mapping import IndexConversion
from ..vocabulary import TIERS, Tier


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """What was asked for. Each field is the option of this name (see `opmap validate --help`)."""

    provider: str = "auto"
    require_provider: bool = False
    feature_level: str | None = None
    index_conversion: IndexConversion | None = None
    tier: Tier = TIERS[0]
    filter: Sequence[str] = ()
    case: Sequence[str] = ()
    shard: tuple[int, int] = (1, 1)
    known_failures: str | None = None
    no_shipped_known_failures: bool = False
    rerun_dangerous: bool = False
    write_known_failures: str | None = None
    repeat: int = 1
    shuffle: int | None = None
    pack: int = 1
    fresh_sessions: bool = False
    max_failures: int | None = None
    report: str | None = None
    resume: str | None = None
    adapter: str | None = None
    device_id: int | None = None
    disable_metacommands: bool = False
    debug_layer: bool = False
    timeout_per_case: float = 30.0
    dml_runtime: str | None = None
    in_process: bool = False
    provider_option: Sequence[tuple[str, str]] = ()
    session_option: Sequence[tuple[str, str]] = ()
    ep_library: Sequence[tuple[str, str]] = ()

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> SessionOptions:
        """Returns the options from parsed values by their names. A missing value, or None, is the default."""
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**{name: values[name] for name in names if values.get(name) is not None})

    def check(self) -> None:
        """Raises InputError if options contradict each other."""
        if self.pack == 1:
            return
        if self.fresh_sessions:
            raise InputError(
                "--pack puts cases into one session, and --fresh-sessions gives each its own: use one of them"
            )
        if self.provider.lower() == "directml" or self.provider.startswith("fault:"):
            raise InputError(f"--pack needs a provider that runs models, got {self.provider}, which runs cases")

    @property
    def place(self) -> dict[str, Any]:
        """The keyword options of `open_provider`."""
        return {
            "adapter": self.adapter,
            "device_id": self.device_id,
            "disable_metacommands": self.disable_metacommands,
            "debug_layer": self.debug_layer,
            "timeout": self.timeout_per_case,
            "dml_runtime": self.dml_runtime,
            "in_process": self.in_process,
            "provider_options": dict(self.provider_option),
            "session_options": dict(self.session_option),
            "libraries": {name: os.path.abspath(path) for name, path in self.ep_library},
        }

    @property
    def of_runtime(self) -> dict[str, list[str]]:
        """What ONNX Runtime's sessions are created with, as `run.json` holds it: `K=V` by the option's name."""
        names = ("provider_option", "session_option", "ep_library")
        return {name: sorted(map("=".join, dict(getattr(self, name)).items())) for name in names}

    @property
    def selected(self) -> dict[str, object]:
        """What of the options must be the same when a run is continued, as `run.json` holds it."""
        names = [
            *("no_shipped_known_failures", "rerun_dangerous", "repeat", "shuffle", "pack", "fresh_sessions", "tier"),
            *("feature_level", "index_conversion", "adapter", "device_id", "disable_metacommands", "debug_layer"),
        ]
        return {
            **{name: getattr(self, name) for name in names},
            "filter": [printable(glob) for glob in self.filter],
            "shard": "/".join(map(str, self.shard)),
            **self.of_runtime,
        }

    def again(self, case: str, file: str | None, batched_with: Sequence[str] = ()) -> str:
        """Returns the command that runs a case again: of a file, or of the catalogue together with the cases that it was batched with."""
        words = ["opmap", "validate"] if file is None else ["opmap", "check", file]
        words += ["--provider", self.provider]
        if batched_with:
            words += [word for id in batched_with for word in ("--case", id)]
            words += ["--pack", str(self.pack)] if self.pack > 1 else []
        for name in ("dml_runtime", "adapter", "device_id"):
            value = getattr(self, name)
            words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
        for name, pairs in self.of_runtime.items():
            words += [word for pair in pairs for word in (f"--{name.replace('_', '-')}", pair)]
        return shlex.join(words if file is not None else [*words, "--case", case])
