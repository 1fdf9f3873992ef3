"""The options of a run: one table, from which the command line, the pytest plugin and `SessionOptions` itself are made.

Light to import, so that `--help` is quick: this module loads neither NumPy nor ONNX. A dataclass takes longer to load
than all else that `--help` needs, so there is none.
"""

from __future__ import annotations

import os
from argparse import SUPPRESS
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ..errors import InputError, printable, shown
from ..reports.again import again_words, command_line
from ..vocabulary import TIERS, Tier
from .option_types import count, feature_level, number, optional, pair, path, seconds, shard

if TYPE_CHECKING:
    from ..mapping import IndexConversion

PYTEST = "pytest"
"""What stands for the pytest plugin among the commands."""


class Group(NamedTuple):
    """Options that stand together in the help of a command, under a title. `commands` have all of them."""

    title: str = ""
    commands: Sequence[str] = ()


RUN = (PYTEST, "validate", "diagnose")
JUDGING = Group("", (*RUN, "check", "survey"))
CASES = Group("which cases", RUN)
HOW = Group("how they are run", RUN)
TOGETHER = Group("how they are run", ("validate", "diagnose"))
DIRECTML = Group(
    "where and how the DirectML execution provider runs", (*JUDGING.commands, "export", "fuzz", "versions")
)
WRITTEN = Group("what is written", ("validate", "diagnose"))


class Option(NamedTuple):
    """One option, for argparse and for pytest.

    - `default`: an option that is False takes no value; one that is () may be repeated, and has a list of values.
    - `type` turns the text into the value, or raises ArgumentTypeError. If there are `choices`, the value is one of
      them.
    - `also`: commands that have this option, beside those of its group.
    - `nargs`: how many words the option takes, if it stands on the command line without its name: "1", "?" or "+".
    - `instead`: of the options of a command that have the same text here, only one can be given.
    - `rare`: --help leaves it out, --help-all shows it.
    - `pytest_note` is added to the help under pytest.
    """

    default: object
    help: str
    type: Callable[[str], object] = str
    metavar: str | None = None
    group: Group = Group()
    also: Sequence[str] = ()
    choices: Sequence[str] | None = None
    nargs: str = ""
    short: tuple[str, ...] = ()
    required: bool = False
    instead: str = ""
    rare: bool = False
    pytest_note: str = ""

    def add(self, add_option: Callable[..., object], name: str, prefix: str = "--", **changes: object) -> None:
        """Declares the option with `add_option`: argparse's `add_argument` or pytest's `addoption`.

        `changes` replaces keywords of the declaration.
        """
        keywords: dict[str, object] = {"help": self.help, "default": self.default}
        if self.default is False:
            keywords["action"] = "store_true"
        else:
            keywords |= {"type": self.type, "metavar": self.metavar, "choices": self.choices}
            note = ""
            if self.default == ():
                keywords |= {"default": []} if self.nargs else {"action": "append", "default": []}
                note = "" if self.nargs else "; may be repeated"
            elif isinstance(self.default, (str, int, float)):
                note = f" (default: {str(self.default).removesuffix('.0')})"
            keywords["help"] = self.help if self.help == SUPPRESS else f"{self.help}{note}"
        if self.nargs:
            add_option(name, **keywords | ({} if self.nargs == "1" else {"nargs": self.nargs}) | changes)
        else:
            keywords |= {"required": True} if self.required else {}
            add_option(*self.short, f"{prefix}{name.replace('_', '-')}", **keywords | changes)


def option(*given: Any, **named: Any) -> Any:
    """Returns an Option as the default of a field, which has the type of the option's value."""
    return Option(*given, **named)


class _Table(NamedTuple):
    """The options of a run. The default of each field is its Option; the type is that of the option's value."""

    provider: str = option(
        "auto",
        "auto, dml, cpu, an execution provider by ONNX Runtime's name, directml (DirectML itself, without ONNX "
        "Runtime), fault:NAME, or MODULE:NAME",
        metavar="NAME",
        group=JUDGING,
        also=("fuzz",),
    )
    require_provider: bool = option(False, "fail if a case is not run on the provider", group=JUDGING)
    feature_level: str | None = option(
        None,
        "judge by this DML_FEATURE_LEVEL, for example 2_1 (default: the newest)",
        feature_level,
        "L",
        JUDGING,
        ("build", "export"),
        rare=True,
    )
    index_conversion: IndexConversion | None = option(
        None,
        "where to convert indices whose type ONNX does not take: in the graph, on the host before the run, or as "
        "the DirectML EP supports it best (default: graph; on DirectML directml)",
        choices=("graph", "host", "directml"),
        group=JUDGING,
        also=("build", "export"),
        rare=True,
    )
    provider_option: Sequence[tuple[str, str]] = option(
        (),
        "an option of the execution provider, for example backend_type=htp",
        pair,
        "K=V",
        JUDGING,
        ("export", "fuzz"),
        rare=True,
    )
    session_option: Sequence[tuple[str, str]] = option(
        (),
        "a session configuration entry, for example session.disable_cpu_ep_fallback=0",
        pair,
        "K=V",
        JUDGING,
        ("export", "fuzz"),
        rare=True,
    )
    ep_library: Sequence[tuple[str, str]] = option(
        (),
        "a plugin EP library, which ONNX Runtime registers under NAME; --provider then names its EP",
        pair,
        "NAME=PATH",
        JUDGING,
        ("export", "fuzz"),
        rare=True,
    )
    in_process: bool = option(
        False,
        "MODULE:NAME: run it in this process, for debugging; a crash then ends the run, and there is no time limit",
        group=JUDGING,
        also=("export",),
        rare=True,
    )
    wanted: Sequence[str] = option(
        (),
        "the id of a case or probe of any tier, a glob over the ids of the tier, or a file with one of these per line "
        "(default: all of the tier)",
        metavar="ID|GLOB|FILE",
        also=("validate", "build"),
        nargs="*",
    )
    operator: Sequence[str] = option(
        (),
        "all cases of this operator (DirectML's or ONNX's name), in addition to the ids",
        metavar="NAME",
        group=CASES,
        also=("build",),
    )
    tier: Tier = option(
        TIERS[0],
        "how many cases: each of smoke, standard and full contains the one before; contract has the contract probes "
        "alone, full has them too",
        choices=TIERS,
        group=CASES,
        also=("build",),
    )
    filter: Sequence[str] = option((), "only those whose id matches", metavar="GLOB", group=CASES, also=("build",))
    case: Sequence[str] = option(
        (),
        "only the case or probe with this id, of any tier, or with the ids in a file, one per line (PowerShell "
        "needs quotes: '@FILE')",
        metavar="ID|@FILE",
        group=CASES,
        pytest_note="; for a file write --opmap-case=@FILE",
        rare=True,
    )
    failed_of: str | None = option(None, "only the cases that failed in this results bundle", path, "BUNDLE", CASES)
    shard: tuple[int, int] = option((1, 1), "only part I of N parts of the cases", shard, "I/N", CASES)
    known_failures: str | None = option(
        None,
        "a TOML file of known failures: they do not fail the run",
        path,
        "FILE",
        HOW,
    )
    baseline: str | None = option(
        None,
        "compare with an earlier results bundle, or the newest of a folder that fits: its failures are known",
        path,
        "BUNDLE",
        HOW,
    )
    no_shipped_known_failures: bool = option(
        False,
        "the known defects of the DirectML EP fail the run too (opmap known lists them)",
        group=HOW,
        also=("check", "fuzz"),
        rare=True,
    )
    rerun_dangerous: bool = option(
        False,
        "also run what is known to hang or to lose the device; Windows stops after five hangs in a minute",
        group=HOW,
        also=("check", "survey", "export", "fuzz"),
        rare=True,
    )
    allow_flaky: int = option(
        0,
        "the run is green with up to N cases that failed and then passed when they were run again",
        number,
        "N",
        TOGETHER,
        rare=True,
    )
    repeat: int = option(1, "run each case N times; a case with different results is flaky", count, "N", HOW, rare=True)
    shuffle: int | None = option(
        None, "run the cases in a random order; the same seed gives the same order", number, "SEED", HOW, rare=True
    )
    max_failures: int | None = option(None, "stop after N failed cases", count, "N", HOW, rare=True)
    pack: int = option(
        1,
        "put up to N independent cases into one model and session (see opmap manual variants)",
        count,
        "N",
        TOGETHER,
        rare=True,
    )
    fresh_sessions: bool = option(
        False,
        "give each case a session of its own; by default cases that have the same model share one",
        group=TOGETHER,
        rare=True,
    )
    adapter: str | None = option(
        None, "DirectML: use the adapter whose name contains this text, in any case", optional, "SUBSTRING", DIRECTML
    )
    device_id: int | None = option(
        None,
        "use the adapter, or the device of a plugin EP, with this number (opmap doctor lists them)",
        number,
        "N",
        DIRECTML,
        rare=True,
    )
    disable_metacommands: bool = option(
        False, "DirectML: do not use the driver's own kernels", group=DIRECTML, rare=True
    )
    timeout_per_case: float = option(
        30.0,
        "time limit of each step of a case in seconds, for a provider in a worker process",
        seconds,
        "S",
        DIRECTML,
        rare=True,
    )
    start_timeout: float = option(
        120.0,
        "time limit of the start of a provider in seconds, in a worker process",
        seconds,
        "S",
        DIRECTML,
        rare=True,
    )
    dml_runtime: str | None = option(
        None,
        "DirectML on Linux: the folder that tools/dml_linux set up (default: OPMAP_DML_RUNTIME)",
        metavar="DIR",
        group=DIRECTML,
    )
    runtime: str | None = option(
        None,
        "DirectML on Linux: the pair of ONNX Runtime and DirectML.dll in that folder, such as 1.30.0-1.12.1 (opmap "
        "doctor lists them; default: the folder's own)",
        optional,
        "NAME",
        DIRECTML,
        rare=True,
    )
    report: str | None = option(
        None, "write the results bundle into this new folder", path, "DIR", WRITTEN, (PYTEST,), instead="bundle"
    )
    resume: str | None = option(
        None, "continue the interrupted run of this bundle", path, "DIR", WRITTEN, instead="bundle"
    )


OPTIONS: Mapping[str, Option] = dict(_Table._field_defaults)
"""Each option of a run by its name."""

_DEFAULTS: dict[str, Any] = {name: row.default for name, row in OPTIONS.items()}


class SessionOptions(_Table):
    """What was asked for.

    Each field is the option of this name (see `opmap validate --help`). Name the fields that you give.
    """

    __slots__ = ()

    def __new__(cls, **given: Any) -> Self:
        """Returns the options that are given, and the defaults of all others."""
        return super().__new__(cls, **(_DEFAULTS | given))

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> SessionOptions:
        """Returns the options from parsed values by their names. A missing value, or None, is the default."""
        given: dict[str, Any] = {name: values[name] for name in cls._fields if values.get(name) is not None}
        given |= {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        return cls(**given)

    def check(self) -> None:
        """Raises InputError if options contradict each other."""
        if self.pack == 1:
            return
        if self.fresh_sessions:
            raise InputError(
                "--pack puts cases into one session, and --fresh-sessions gives each its own: use one of them"
            )
        if self.provider.lower() == "directml" or self.provider.startswith("fault:"):
            raise InputError(f"--pack needs a provider that runs models, got {shown(self.provider)}, which runs cases")

    @property
    def place(self) -> dict[str, Any]:
        """The keyword options of `open_provider`."""
        return {
            "adapter": self.adapter,
            "device_id": self.device_id,
            "disable_metacommands": self.disable_metacommands,
            "timeout": self.timeout_per_case,
            "start_timeout": self.start_timeout,
            "dml_runtime": self.dml_runtime,
            "runtime": self.runtime,
            "in_process": self.in_process,
            "provider_options": dict(self.provider_option),
            "session_options": dict(self.session_option),
            "libraries": {name: os.path.abspath(path) for name, path in self.ep_library},
        }

    @property
    def of_runtime(self) -> dict[str, list[str]]:
        """What ONNX Runtime's sessions are created with, as `run.json` holds it: `K=V` by the option's name."""
        names = ("provider_option", "session_option", "ep_library")
        return {name: sorted(map("=".join, dict(getattr(self.for_bundle, name)).items())) for name in names}

    @property
    def for_bundle(self) -> SessionOptions:
        """The options as a bundle shows them: of the path of a library the file name, whose digest is in the bundle."""
        return self._replace(ep_library=tuple((name, os.path.basename(path)) for name, path in self.ep_library))

    @property
    def selected(self) -> dict[str, object]:
        """What of the options must be the same when a run is continued, as `run.json` holds it."""
        names = [
            *("no_shipped_known_failures", "rerun_dangerous", "allow_flaky", "repeat", "shuffle", "pack"),
            *("fresh_sessions", "tier"),
            *("feature_level", "index_conversion", "adapter", "device_id", "disable_metacommands"),
        ]
        return {
            **{name: getattr(self, name) for name in names},
            "filter": [printable(glob) for glob in self.filter],
            "shard": "/".join(map(str, self.shard)),
            **self.of_runtime,
        }

    def again(
        self,
        case: str,
        file: str | None,
        batched_with: Sequence[str] = (),
        command: str | None = None,
        node: str | None = None,
    ) -> str:
        """Returns the command that runs a case again: of a file, or of the catalogue together with the cases that it
        was batched with.

        `command` takes the place of `check` or `validate`; `node` is the one of the file.
        """
        pack = self.pack if batched_with and self.pack > 1 else None
        more: dict[str, object] = {name: getattr(self, name) for name in ("provider", "dml_runtime", "runtime")}
        more["ep_library"] = [f"{name}={path}" for name, path in self.ep_library]
        cases = (*batched_with, case) if file is None else ()
        return command_line(
            again_words({**self.selected, **more, "pack": pack, "node": node}, *cases, file=file, command=command)
        )


def of_command(command: str, options: Mapping[str, Option]) -> dict[str, Option]:
    """Returns those of some options that a command has, by name. PYTEST stands for the pytest plugin."""
    return {name: row for name, row in options.items() if command in (*row.group.commands, *row.also)}


def add_pytest_options(add_option: Callable[..., object]) -> None:
    """Declares the options of the pytest plugin as `--opmap-NAME`. An option that is not given is None."""
    for name, row in of_command(PYTEST, OPTIONS).items():
        row._replace(help=row.help + row.pytest_note).add(add_option, name, "--opmap-", default=None)
