"""Every kind of input from outside, and a mutator that makes hostile ones of valid ones.

The tests give each target a fixed number of mutated inputs; `tools/fuzz_inputs.py` goes on for as long as one likes. To
add a kind of input, add a `Target` to `TARGETS`.
"""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from documentation_pages import PAGES, review_page
from dxdispatch_models import gather, lying
from rich.console import Console

from opmap import spec
from opmap.cases.catalogue import check_choice
from opmap.cases.choice import read_choice
from opmap.cases.globs import matcher
from opmap.cases.selection import Selection, case_ids
from opmap.engines import frames
from opmap.engines.provider_facts import ProviderFacts
from opmap.engines.steps import Clear, Run
from opmap.errors import OpmapError
from opmap.judge.record import Record, TensorRecord
from opmap.known import known_failures
from opmap.limits import MAX_LINE
from opmap.mapping.dxdispatch import read
from opmap.mapping.dxdispatch.resources import npy_values
from opmap.operators import OPERATORS
from opmap.reports.bundle import Bundle
from opmap.reports.diff import ReadRun, compare
from opmap.reports.diff_view import diff_view
from opmap.reports.merge import Merging
from opmap.reports.sums import ids_digest
from opmap.reports.written_bundle import read_bundle
from opmap.spec import read_spec
from opmap.vocabulary import Verdict


@dataclass(frozen=True)
class Target:
    """One kind of input.

    `seeds` returns valid inputs; it may use an empty folder. `feed` gives one input to opmap; it may write files into a
    folder, and raises nothing but OpmapError. Its result does not matter.
    """

    name: str
    seeds: Callable[[Path], list[bytes]]
    feed: Callable[[bytes, Path], object]


def attack(target: Target, data: bytes, folder: Path) -> str | None:
    """Gives one input to a target. Returns the refusal, or None if the input was taken.

    Raises whatever is no OpmapError, and AssertionError if the refusal is not one short line.
    """
    try:
        target.feed(data, folder)
    except OpmapError as error:
        _check_line(error)
        return str(error)
    return None


def _check_line(error: OpmapError) -> None:
    text = str(error)
    assert text, "the refusal says nothing"
    assert "\n" not in text, "the refusal has several lines"
    assert len(text) < 25 * MAX_LINE, "the refusal is not cut"  # three parts, and an escaped character takes several


# --- the mutator ---

_NUMBERS = (
    *("0", "-0", "-1", "1.5", "1e999", "-1e-999", "NaN", "Infinity", "9" * 4300, "9" * 4301, "true"),
    *["0x" + "F" * 4000] * 10,  # Python reads it, but does not print it
    *(str(sign * 2**power) for power in (7, 8, 16, 24, 31, 32, 53, 63, 64, 128) for sign in (1, -1)),
)

_TOKENS = (
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\x1b[2J", b"\r", b"\n", b'"', b"'", b'"""', b"'''"),
    *(b"\\", b"#"),
    *(b"[", b"]", b"{", b"}", b"[[", b"(", b")", b",", b":", b"=", b".", b"*", b"?", b"!", b"-", b"//", b"/*", b"null"),
    *(b"\\ud800", b"\\u0000", b"../", b"\xef\xbb\xbf", b"[" * 70, b'{"a":' * 70, b"a." * 70, b"[" * 5_000),
    *(b'{"a":' * 2_000, b"*?" * 60),
    *(number.encode() for number in _NUMBERS),
)


_WORDS = re.compile(rb'"[^"\n]*"|[\w.+-]+')
"""What a reader of text takes as one value or name."""


def mutate(seeds: list[bytes], source: random.Random) -> bytes:
    """Returns one of the seeds with a few changes: half of them change bytes, half of them change whole words."""
    data = source.choice(seeds)
    for _ in range(source.choice((1, 1, 1, 2, 3, 5))):
        data = source.choice((_change_bytes, _change_word))(data, seeds, source)
    return data


def _change_bytes(data: bytes, seeds: list[bytes], source: random.Random) -> bytes:
    start = source.randrange(len(data) + 1)
    end = min(len(data), start + source.choice((0, 1, 1, 2, 4, 8, 32, 200)))
    other = source.choice(seeds)
    at = source.randrange(len(other) + 1)
    new = source.choice(
        (
            source.randbytes(end - start),
            b"",
            source.choice(_TOKENS),
            data[start:end] * source.choice((2, 10, 100)),
            other[at : at + source.choice((1, 10, 100))],
        )
    )
    return data[:start] + new + data[end:]


def _change_word(data: bytes, seeds: list[bytes], source: random.Random) -> bytes:
    words = list(_WORDS.finditer(data))
    if not words:
        return data
    start, end = source.choice(words).span()
    other = source.choice(_WORDS.findall(source.choice(seeds)) or [b"0"])
    new = source.choice(
        (
            source.choice(_NUMBERS).encode(),
            other,
            source.choice((b'""', b"[]", b"{}", b"null", b"[[]]", b'"%s"' % other)),
            b"[%s]" % b",".join([other] * source.choice((1, 9, 100))),
            b'{"%s": 1}' % other.strip(b'"'),
            data[start:end] * 100,
        )
    )
    return data[:start] + new + data[end:]


# --- the targets ---


def _file(data: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _json_seeds(_: Path) -> list[bytes]:
    sequence, strided, typed = gather(), gather(), gather()
    sequence["resources"]["indices"]["initialValues"] = {"valueStart": 0, "valueDelta": 1, "valueCount": 5}
    sequence["resources"]["input"] |= {"sizeInBytes": 32, "initialValuesOffsetInBytes": 16}
    sequence["commands"][0]["bindings"]["InputTensor"] = {"name": "input", "elementOffset": 4, "elementSizeInBytes": 4}
    strided["dispatchables"]["gather"]["desc"]["InputTensor"] |= {
        "Strides": [0],
        "DimensionCount": 1,
        "TotalTensorSizeInBytes": 16,
        "GuaranteedBaseOffsetAlignment": 16,
        "Flags": ["NONE"],
    }
    typed["resources"]["input"] = {"initialValues": [{"type": "FLOAT32", "value": value} for value in (1, "NaN", 3, 4)]}
    typed["resources"]["indices"]["initialValues"] = {"sourcePath": "indices.npy"}
    return [json.dumps(model).encode() for model in (gather(), sequence, strided, typed)]


def _feed_json(data: bytes, folder: Path) -> None:
    if not (folder / "indices.npy").exists():
        np.save(folder / "indices.npy", np.arange(5, dtype=np.uint32))
    for dispatch in read(_file(data, folder, "model.json")):
        if dispatch.error is not None:
            _check_line(dispatch.error)
        elif dispatch.desc is not None:
            for violation in dispatch.desc.violations():
                assert "\n" not in str(violation)
            if dispatch.tensors and dispatch.desc.output.element_count < 10_000:
                dispatch.desc.interpret(dispatch.tensors)


def _npy_seeds(_: Path) -> list[bytes]:
    arrays = (
        np.arange(4, dtype="<f4"),
        np.arange(6, dtype=">i8").reshape(2, 3),
        np.asfortranarray(np.eye(3, dtype="<u2")),
    )
    streams = [io.BytesIO() for _ in arrays]
    for stream, array in zip(streams, arrays, strict=True):
        np.save(stream, array)
    return [stream.getvalue() for stream in streams]


def _npy_header_seeds(_: Path) -> list[bytes]:
    return [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }",
        b"{'shape': (16,), 'descr': '|u1', 'fortran_order': True}",
    ]


def _feed_npy_header(data: bytes, _: Path) -> object:
    """Puts a header into a file that promises its right length."""
    return npy_values(lying(header=data.decode("latin-1"), version=b"\x02\x00"), None, path="$")


def _known_seeds(_: Path) -> list[bytes]:
    docstring = known_failures.__doc__ or ""
    example = "\n".join(line.strip() for line in docstring.splitlines() if line.startswith("    "))
    return [
        example.encode(),
        b'schema = "opmap-known-failures/1"\n[[known]]\ncase = "*"\nprovider = "cpu"\nverdict = "error"\nreason = """\nx"""\n',
        b"schema = 'opmap-known-failures/1'\ncase_ids = 1\nknown = [{case = 'a', provider = '*', verdict = 'error', reason = 'x'}]\n",
    ]


def _spec_seeds(_: Path) -> list[bytes]:
    return [Path(spec.__file__).with_name("gather.toml").read_bytes()]


def _choice_seeds(_: Path) -> list[bytes]:
    tensor = ["FLOAT32", [1, 2]]
    document = {
        "descriptors": [[tensor, ["INT64", [1, 2]], tensor, 1]],
        "parts": {"examples": [[0, "example.1"]], "classes": [[0, "float32/d2.axis1/int64.neg/addr.c2b9a6"]]},
        "variants": {"variants of smoke": {"if": [1]}},
        "impossible_pairs": ["rank 1, type INT8"],
        "possible_triples": 0,
    }
    return [json.dumps(document).encode()]


def _feed_choice(data: bytes, folder: Path) -> None:
    choice = read_choice(_file(data, folder, "choice.json"))
    assert all(number >= 0 for number, _ in choice.cases)
    check_choice(OPERATORS["GATHER_ELEMENTS"], choice)


_PREFIX = struct.Struct("<4sIIQ")


def _frame_seeds(_: Path) -> list[bytes]:
    messages = (
        frames.Perform(
            Run(session="s", feeds={"a": np.arange(6, dtype=np.int64).reshape(2, 3), "b": np.array(1.5)}), 1.0
        ),
        frames.Perform(Clear(), 1.0),
        frames.Hello(ProviderFacts("CPUExecutionProvider", "1.24.1", "hardware"), pid=7),
        frames.Refused("there is no adapter"),
    )
    streams = [io.BytesIO() for _ in messages]
    for stream, message in zip(streams, messages, strict=True):
        frames.write(stream, frames.encode(message))
    return [stream.getvalue() for stream in streams]


def _feed_frames(data: bytes, _: Path) -> None:
    stream = io.BytesIO(data)
    while frames.read(stream) is not None:
        pass


def _header_seeds(folder: Path) -> list[bytes]:
    return [frame[_PREFIX.size : frame.rindex(b"}") + 1] for frame in _frame_seeds(folder)]


def _feed_header(data: bytes, folder: Path) -> None:
    """Puts a header into a frame that promises the right lengths."""
    body = bytes(56 if b"sizes" in data else 0)
    _feed_frames(_PREFIX.pack(frames.MAGIC, frames.VERSION, len(data), len(body)) + data + body, folder)


def _ids_seeds(_: Path) -> list[bytes]:
    return [
        b"# ids\ngather/example.1\n\ngather/float32/d4.axis1.k2/int64.wrap/addr.abcdef\n",
        b"gather/*\n*[!a-z]?/[]]*\n",
    ]


def _feed_ids(data: bytes, folder: Path) -> None:
    ids = case_ids([f"@{_file(data, folder, 'ids.txt')}"])
    selection = Selection(globs=ids)
    matcher(selection.globs)("gather/float32/d4.axis1.k2/int64.wrap/addr.abcdef")


_SELECTION = {"ids": "0", "provider": "CPUExecutionProvider", "repeat": 1}
_IDS = ["case/0", "case/1"]


def _feed_page(data: bytes, _: Path) -> None:
    review_page(data.decode("utf-8", "replace"), "page")


def _open_bundle(folder: Path, *, resume: bool = False) -> Bundle:
    return Bundle(folder, _SELECTION, ids=_IDS, resume=resume)


def _bundle_folder(folder: Path) -> Path:
    """Returns the folder of an interrupted run."""
    folder = folder / "bundle"
    shutil.rmtree(folder, ignore_errors=True)
    bundle = _open_bundle(folder)
    tensor = TensorRecord("UINT8", [2], [7, 1], ["07", "01"])
    records = [Record(case=id, verdict=Verdict.PASS, actual=tensor, message="a text") for id in _IDS]
    for record in records:
        bundle.add(record)
    bundle.complete(records, 130)
    bundle.release()
    return folder


def _feed_bundle(folder: Path) -> None:
    bundle = _open_bundle(folder, resume=True)
    bundle.complete(bundle.done, 0)
    bundle.release()


def _bundle_target(name: str) -> Target:
    """Returns the target for one file of a results bundle; the other file is good."""

    def seeds(folder: Path) -> list[bytes]:
        return [(_bundle_folder(folder) / name).read_bytes()]

    def feed(data: bytes, folder: Path) -> None:
        bundle = _bundle_folder(folder)
        (bundle / name).write_bytes(data)
        _feed_bundle(bundle)

    return Target(name, seeds, feed)


_MERGED = {
    "schema": "opmap-results/1",
    "selection": {"provider": "p", "shard": "1/1"},
    "parts": [
        {
            "selection": {"provider": "p", "adapter_name": name, "shard": "1/2"},
            "environment": {
                "packages": {"value": {"onnx": "1"}, "source": "s"},
                "loaded_modules": {
                    "value": [{"path": "a\\\\b.dll", "file_version": "1", "sha256": "0a"}],
                    "source": "s",
                },
                "adapters": {"value": [{"name": name, "driver_version": {"value": "3"}}], "source": "s"},
            },
            "problems": ["a"],
            "totals": {"verdicts": {"pass": 1}, "exit_code": 1, "ids": ids_digest({"shard": "1/2"}, [id])},
            "records": 1,
        }
        for name, id in zip("ab", _IDS, strict=True)
    ],
}

_GROUP = {
    "cases": 1,
    "ids": ["case/0"],
    "verdicts": ["mismatch"],
    "operators": ["o"],
    "condition": {"text": "t", "any": [[{"feature": "axis", "is": ">=", "value": 1}]]},
    "relation": {"kind": "shift", "fault": None, "ties": [], "text": "by 1", "explains": [1, 2]},
    "stability": "always",
    "stability_text": "always",
    "after": None,
    "side": None,
    "smallest": {"case": "case/0", "text": "t", "message": None, "dxdispatch": {}},
    "asked": {"runs": 0, "failing": 0, "passing": 0},
    "again": "opmap",
}


def _written_target(name: str, document: object) -> Target:
    """Returns the target for one file of a bundle that is merged, and compared with a good one."""

    def feed(data: bytes, folder: Path) -> None:
        good = _bundle_folder(folder)
        bad = folder / "bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        if name == "results.jsonl":  # of a run that goes on: no totals contradict it
            (bad / "run.json").write_text('{"schema": "opmap-results/1", "selection": {}}', encoding="utf-8")
        (bad / name).write_bytes(data)
        bundles = [read_bundle(good), read_bundle(bad)]
        view = diff_view(compare(*map(ReadRun, bundles)))
        view.markdown()
        view.print(Console(file=io.StringIO()))
        shutil.rmtree(folder / "merged", ignore_errors=True)
        Merging(bundles).write(folder / "merged")

    return Target(f"written {name}", lambda _: [json.dumps(document).encode() + b"\n"], feed)


_MISMATCH = {"case": "case/0", "verdict": "mismatch", "stage": "compare", "message": "m", "provider": "p"} | {
    "actual": {"DataType": "UINT8", "Sizes": [1], "Values": [1], "Bits": ["07"], "Digest": None, "Differences": None}
}

TARGETS = {
    target.name: target
    for target in (
        Target("json", _json_seeds, _feed_json),
        Target("npy", _npy_seeds, lambda data, _: npy_values(data, None, path="$")),
        Target("npy-headers", _npy_header_seeds, _feed_npy_header),
        Target("known-failures", _known_seeds, lambda data, folder: known_failures.load(_file(data, folder, "k.toml"))),
        Target("spec", _spec_seeds, lambda data, folder: read_spec(_file(data, folder, "s.toml"))),
        Target("choice", _choice_seeds, _feed_choice),
        Target("page", lambda _: [page.encode() for page in PAGES.values()], _feed_page),
        Target("frames", _frame_seeds, _feed_frames),
        Target("frame-headers", _header_seeds, _feed_header),
        Target("ids", _ids_seeds, _feed_ids),
        _bundle_target("run.json"),
        _bundle_target("results.jsonl"),
        _written_target("run.json", _MERGED),
        _written_target("diagnosis.json", {"schema": "opmap-diagnosis/1", "provider": "p", "groups": [_GROUP]}),
        _written_target("results.jsonl", _MISMATCH),
    )
}
