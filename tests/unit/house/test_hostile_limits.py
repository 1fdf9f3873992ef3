"""Input that would take much time or memory is refused by a limit, before it is looked at."""

import itertools
import json
from collections import Counter

import pytest
from dxdispatch_models import DESC, changed, gather, problem

from opmap import limits
from opmap.cases import selection
from opmap.cases.choice import read_choice
from opmap.cases.selection import Selection, case_ids
from opmap.errors import InputError
from opmap.files import parse_toml
from opmap.known.known_failures import load
from opmap.mapping.dxdispatch import read_model, resources
from opmap.tensors import DataType

pytestmark = pytest.mark.platform


class TestDxDispatch:
    """Limits of a DxDispatch JSON file."""

    @pytest.mark.parametrize("name", ["Sizes", "Strides", "Flags"])
    def test_sizes(self, name):
        """The lists of a tensor desc are refused before their product is computed."""
        values = ["NONE" if name == "Flags" else 1] * limits.MAX_SIZES
        _, message = problem(changed(*DESC, "InputTensor", name, to=[*values, values[0]]))
        assert f"must be at most {limits.MAX_SIZES} {name}, got {limits.MAX_SIZES + 1}" == message
        (dispatch,) = read_model(json.dumps(changed(*DESC, "InputTensor", name, to=values)))
        assert dispatch.error is None

    def test_commands(self, monkeypatch):
        """They are counted before the first one is read."""
        monkeypatch.setattr("opmap.mapping.dxdispatch.reading.MAX_COMMANDS", 3)
        model = gather()
        model["commands"] = model["commands"][:1] * 3
        assert 3 == len(read_model(json.dumps(model)))
        model["commands"].append(7)
        with pytest.raises(InputError, match=r"\$\.commands: must be at most 3 commands, got 4"):
            read_model(json.dumps(model))

    def test_brackets(self):
        """Objects and arrays are counted in the text, before it is parsed."""
        for bracket in ("{}", "[]"):
            with pytest.raises(InputError, match=f"must have at most {limits.MAX_BRACKETS} objects and arrays"):
                read_model(f"[{','.join([bracket] * limits.MAX_BRACKETS)}")

    def test_a_wrong_resource_is_read_once(self, monkeypatch):
        """All commands that bind it get the same error, which keeps nothing of what was read."""
        calls = Counter()
        to_bits = resources.to_bits

        def counted(data_type, numbers):
            calls[data_type] += 1
            return to_bits(data_type, numbers)

        monkeypatch.setattr("opmap.mapping.dxdispatch.resources.to_bits", counted)
        model = changed("resources", "input", "initialValues", to=[1, 2, 3, "x"])
        model["commands"] = model["commands"][:1] * 5
        errors = [dispatch.error for dispatch in read_model(json.dumps(model))]
        assert 1 == calls[DataType.FLOAT32]
        assert 1 == len(set(map(str, errors)))
        assert [(None, None)] * 5 == [(error.__traceback__, error.__context__) for error in errors]

    def test_names_in_messages(self):
        """A message lists the first ten names."""
        model = changed("commands", 0, "bindings", "OutputTensor", to="nowhere")
        model["resources"] |= {f"r{i}": {} for i in range(1_000)}
        _, message = problem(model)
        assert message.endswith("r5, r6 and 993 more")

    def test_values_of_sequences(self):
        """Integers go round, as DxDispatch computes them in the type's own arithmetic."""
        for data_type, start, delta, values in (
            ("INT8", 126, 1, [126, 127, -128, -127]),
            ("INT64", 2**63 - 1, 1, [2**63 - 1, -(2**63), 1 - 2**63, 2 - 2**63]),
            ("UINT64", 1, 2**64 - 1, [1, 0, 2**64 - 1, 2**64 - 2]),
            ("INT16", 3, -2, [3, 1, -1, -3]),
        ):
            sequence = {"valueStart": start, "valueDelta": delta, "valueCount": 4}
            model = changed("resources", "input", to={"initialValuesDataType": data_type, "initialValues": sequence})
            for name in ("InputTensor", "OutputTensor"):
                model["dispatchables"]["gather"]["desc"][name]["DataType"] = data_type
            (dispatch,) = read_model(json.dumps(model))
            assert values == list(dispatch.tensors["InputTensor"].values)

    def test_lines_of_a_bad_file(self, tmp_path, run_opmap):
        """`check` prints ten lines for a bad file and a count of the others; the next file has its own."""
        model = changed(*DESC, "Axis", to=-1)
        model["commands"] = model["commands"][:1] * 13
        files = [str(tmp_path / name) for name in ("a.json", "b.json", "c.json")]
        for name, commands in zip(files, (13, 10, 1), strict=True):
            content = json.dumps({**model, "commands": model["commands"][:commands]})
            (tmp_path / name).write_text(content, encoding="utf-8")
        lines = run_opmap(2, "check", *files, "--provider", "cpu").err.splitlines()
        assert [11, 10, 1] == [sum(file in line for line in lines) for file in files]
        assert f"opmap: {files[0]}: ... and 3 more" == lines[10]


class TestToml:
    """Limits of a TOML text, which hold for known failures and for the spec of an operator."""

    DEEP = limits.MAX_NESTING
    PARTS = limits.MAX_KEY_PARTS

    @pytest.mark.parametrize(
        "text",
        [
            f"a = {'[' * DEEP}{']' * DEEP}",
            f"{'.'.join('a' * PARTS)} = 1",
            f"[{'.'.join('a' * (PARTS - 1))}]\nb.c = 1",
            "a = [" + "1.5, " * 1_000 + "]",
            "a = [" + "'.', " * 1_000 + "]",
            "a = ['" + "[" * 1_000 + "']",
            'a = ["' + r"\"[" * 1_000 + '"]',
            'a = """\n' + '["" [[' * 1_000 + '"""',
            "a = '''\n" + "['' [[" * 1_000 + "'''",
            "# " + "[" * 1_000 + "\na = [] # ' [[\n" * 1,
            f'"{"." * 1_000}".b = 1',
            f"a = [{'[],' * 1_000}]",
        ],
        ids=itertools.count(),
    )
    def test_within(self, text):
        """What stands in a text or in a comment does not count."""
        assert parse_toml(text)

    @pytest.mark.parametrize(
        "text",
        [
            "a = " + "[" * 100_000,
            "a = " + "{a = " * 100_000,
            f"a = {'[' * (DEEP + 1)}{']' * (DEEP + 1)}",
            'a = ["""a"""", ' + "[" * 100_000,
            "a = ['''a'''', " + "[" * 100_000,
            'a = ["""""", ' + "[" * 100_000,
            "a = ['', " + "[" * 100_000,
            "a = [ # '\n" + "[" * 100_000,
        ],
        ids=itertools.count(),
    )
    def test_nesting(self, text):
        """It is counted before the parser calls itself."""
        with pytest.raises(InputError, match=f"must be nested at most {self.DEEP} deep"):
            parse_toml(text)

    @pytest.mark.parametrize("part", ["a", "'a'", '"a.a"', "a-b", "1", "'.'"])
    @pytest.mark.parametrize("form", ["{} = 1", "[{}]", "[[{}]]", "a = {{{} = 1}}"])
    @pytest.mark.parametrize("dot", [".", " . "])
    def test_keys(self, part, form, dot):
        """The parser takes time and memory for each pair of parts."""
        text = form.format(dot.join([part] * 20_000))
        with pytest.raises(InputError, match=f"a key must have at most {self.PARTS} parts, got 20000"):
            parse_toml(text)

    def test_size(self, monkeypatch):
        monkeypatch.setattr("opmap.files.MAX_TOML_BYTES", 10)
        assert {"a": "23456"} == parse_toml("a='23456'\n")
        with pytest.raises(InputError, match="must be at most 10 characters of TOML, got 11"):
            parse_toml("a='234567'\n")


class TestKnownFailures:
    """Limits of an entry."""

    def write(self, tmp_path, *entries):
        """Writes a file of these entries, which have what is required."""
        required = {"case": "a", "provider": "*", "verdict": "error", "reason": "x"}
        lines = ['schema = "opmap-known-failures/1"']
        for keys in entries:
            lines += ["[[known]]", *(f"{key} = {json.dumps(value)}" for key, value in {**required, **keys}.items())]
        file = tmp_path / "known.toml"
        file.write_text("\n".join(lines), encoding="utf-8")
        return file

    @pytest.mark.parametrize("key", ["case", "variant", "provider", "adapter"])
    def test_globs(self, tmp_path, key):
        """To translate a glob takes time for each pair of brackets."""
        assert load(self.write(tmp_path, {key: "[" * limits.MAX_GLOB}))
        with pytest.raises(InputError, match=rf"known\[1\]\.{key}: must be at most {limits.MAX_GLOB}"):
            load(self.write(tmp_path, {}, {key: "[" * (limits.MAX_GLOB + 1)}))

    @pytest.mark.parametrize("key", ["message", "reason", "issue", "operator", "verdict"])
    def test_texts(self, tmp_path, key):
        """`message` is looked for in the message of every record."""
        with pytest.raises(InputError, match=rf"known\[0\]\.{key}: must be at most {limits.MAX_TEXT} characters"):
            load(self.write(tmp_path, {key: "x" * (limits.MAX_TEXT + 1)}))

    def test_many_globs(self, tmp_path, monkeypatch):
        """Each glob is compared with each case; entries without a glob are found by their id."""
        monkeypatch.setattr("opmap.known.known_failures.MAX_GLOBS", 2)
        assert 7 == len(load(self.write(tmp_path, {"case": "*"}, {"case": "a?"}, *[{}] * 5)))
        with pytest.raises(InputError, match="must have at most 2 entries with a glob or without a case, got 3"):
            load(self.write(tmp_path, {"case": "*"}, {"case": "a?"}, {"case": "[ab]"}))


class TestSelection:
    """Limits of --filter and --case."""

    def test_globs(self):
        Selection(globs=["[" * limits.MAX_GLOB] * limits.MAX_GLOBS)
        with pytest.raises(InputError, match=f"--filter must be a glob of at most {limits.MAX_GLOB} characters"):
            Selection(globs=["*", "[" * (limits.MAX_GLOB + 1)])
        with pytest.raises(InputError, match=f"--filter must be at most {limits.MAX_GLOBS} globs"):
            Selection(globs=["*"] * (limits.MAX_GLOBS + 1))

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a\n" * 4, "must hold at most 3 case ids"),
            ("\n" * 100 + "x" * (limits.MAX_GLOB + 1), f"must hold lines of at most {limits.MAX_GLOB} characters"),
            ("# only\n\n", "must hold a case id, got none"),
        ],
        ids=["many", "long", "none"],
    )
    def test_ids(self, tmp_path, monkeypatch, content, message):
        monkeypatch.setattr(selection, "MAX_IDS", 3)
        file = tmp_path / "ids.txt"
        file.write_text("# ids\na\r\n\n b \nc", encoding="utf-8")
        assert ["a", "b", "c"] == case_ids([f"@{file}"])
        file.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            case_ids([f"@{file}"])

    def test_ids_together(self, monkeypatch):
        monkeypatch.setattr(selection, "MAX_IDS", 3)
        assert 3 == len(case_ids("abc"))
        with pytest.raises(InputError, match="--case must be at most 3 ids, got 4"):
            case_ids("abcd")


class TestChoice:
    """The chosen cases of an operator from outside."""

    def read(self, tmp_path, **changes):
        file = tmp_path / "choice.json"
        file.write_text(json.dumps({"parts": {"random": [[0, "x"]]}, **changes}), encoding="utf-8")
        return read_choice(file)

    @pytest.mark.parametrize("number", [-1, 1.5, "1", [0]])
    def test_numbers(self, tmp_path, number):
        """Each case has the number of a descriptor."""
        assert [(0, "x")] == self.read(tmp_path).cases
        with pytest.raises(InputError, match=r"choice.json: Expected `int`.* - at `\$\.parts\[...\]\[0\]\[0\]`"):
            self.read(tmp_path, parts={"random": [[number, "x"]]})

    def test_many(self, tmp_path, monkeypatch):
        monkeypatch.setattr("opmap.cases.choice.MAX_BRACKETS", 9)
        with pytest.raises(InputError, match="must have at most 9 arrays and objects, got 1"):
            self.read(tmp_path, impossible_pairs=["["] * 10)
