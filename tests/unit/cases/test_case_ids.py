"""Case ids: what their parts mean, how a case is found by its id in every tier, and the commands that take an id."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest

from opmap.cases import selection
from opmap.cases.case import INDEX_PATHS, case_id, shape_word
from opmap.cases.catalogue import catalogue
from opmap.cases.choice import choice_of
from opmap.cases.parameters import filled_case
from opmap.cases.selection import Selection, case_ids, find_case, find_cases
from opmap.cases.values import DATA_PATTERNS, FAR, INDEX_PATTERNS
from opmap.cli import main
from opmap.engines.providers import open_provider
from opmap.errors import InputError
from opmap.limits import MAX_GLOB
from opmap.manual.case_ids import MEANING
from opmap.mapping.dxdispatch import model_json
from opmap.operators import OPERATORS
from opmap.session import ValidationRun
from opmap.session.options import SessionOptions
from opmap.spec import all_specs
from opmap.tensors import from_bits

EXAMPLE = re.search(r" the example (\S+):", MEANING)[1]
SMOKE = "gather/example.1"
STANDARD = "gather/int64/d7.axis0.k0/uint32.identity.init/special.534a68"
FULL = "gather/float64/d6.axis0.k1/uint64.asc/addr.9a525c"
CONTRACT = "contract/empty/nd"
PROBE = "probe/gather/bool"

REPOSITORY = Path(__file__).resolve().parents[3]


class TestMeaning:
    """`opmap validate --help-all` explains an id in the words of the code that makes ids."""

    TEXT = " ".join(MEANING.split())

    def test_of_each_part(self):
        """The explained parts are those of the case itself, and together they are its id."""
        case = find_case(EXAMPLE)
        desc, data = case.desc, case.desc.tensors[case.desc.data_tensors()[0]]
        (indices,) = desc.index_tensors()
        digest = EXAMPLE.rpartition(".")[2]
        parts = [
            desc.operator.lower(),
            data.data_type.name.lower(),
            shape_word(data.dimension_count, desc.short_names(), desc.numbers),
            f"{desc.tensors[indices].data_type.name.lower()}.{case.index_pattern}",
            f".{case.variant}",
            case.data_pattern,
            digest,
        ]

        assert parts == re.findall(r"^  (\S+) {2,}\S", MEANING, re.MULTILINE)
        assert EXAMPLE == "{}/{}/{}/{}{}/{}.{}".format(*parts)
        assert EXAMPLE == case_id(desc, case.index_pattern, case.data_pattern, case.variant)

    def test_of_each_word(self):
        """The lists of index patterns, of data patterns and of places of the indices are complete."""
        listed = {
            "pattern": self.listed("their pattern: ", " .init "),
            "path": self.listed("come from: ", "; without"),
            "data": self.listed("pattern of the data: ", " 60f52e "),
        }

        assert {*INDEX_PATTERNS, FAR} == listed["pattern"]
        assert {*INDEX_PATHS.values()} - {"plain"} == listed["path"]
        assert {*DATA_PATTERNS} == listed["data"]

    def test_of_each_number(self):
        """Every number of an operator is explained by its word and its name."""
        fields = {(field.short, field.name) for spec in all_specs() for field in spec.fields if field.short}
        text = " ".join(self.TEXT.split())
        for word, name in fields - {("n", "InputCount"), ("n", "OutputCount")}:
            assert re.search(rf"\b{word}\b.* {name}\b", text), name
        assert "n is the number of tensors" in self.TEXT

    def listed(self, begin, end):
        """Returns the words between two texts, without what stands in parentheses."""
        part = self.TEXT.partition(begin)[2].partition(end)[0]
        return {word.strip() for word in re.sub(r"\([^)]*\)", "", part).split(",")}

    @pytest.mark.skipif(not (REPOSITORY / ".github").is_dir(), reason="only the tests are here")
    def test_in_the_documents(self):
        """Every id in the README and the page about cases is the id of a case."""
        texts = [(REPOSITORY / name).read_text(encoding="utf-8") for name in ("README.md", "opmap/manual/cases.md")]
        for text in texts:
            ids = re.findall(r"opmap (?:explain|map|validate --case) (gather[\w.-]*/[^\s`]+)", text)
            assert ids == [find_case(id).id for id in ids]
        assert EXAMPLE in texts[1]


class TestTiers:
    """A case is found by its id in every tier, in the smallest tier that has all ids."""

    @pytest.mark.parametrize(
        "ids, tier, found",
        [
            ([SMOKE], "smoke", "smoke"),
            ([STANDARD], "smoke", "standard"),
            ([FULL, SMOKE], "smoke", "full"),
            ([FULL], "standard", "full"),
            ([SMOKE], "full", "full"),
            ([SMOKE], "contract", "smoke"),
            ([CONTRACT], "smoke", "contract"),
            ([CONTRACT, SMOKE], "standard", "full"),
            ([PROBE], "smoke", "smoke"),
            ([PROBE, STANDARD], "contract", "standard"),
            ([f"{FULL}/default-attribute"], "smoke", "full"),
        ],
    )
    def test_found(self, ids, tier, found):
        """The tier that was asked for is kept if it has all ids."""
        result, cases = find_cases(ids, tier)

        assert (found, {id for id in ids if not id.startswith("probe/") and not id.startswith("contract/")}) == (
            result,
            {case.id for case in cases},
        )

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_chosen(self, operator):
        """A chosen case is found by its id."""
        ids = [f"{operator.lower()}/{id}" for _, id in choice_of(operator).parts["chosen"][-2:]]
        assert ids == [case.id for id in ids for case in catalogue("standard", [id])]

    def test_nothing_is_built_in_vain(self, monkeypatch):
        """Of the chosen cases only the wanted one is built; of the small scope only those with its data type and its
        shape.
        """
        built = []

        def build(desc, id):
            built.append(filled_case(desc, id))
            return built[-1]

        monkeypatch.setattr("opmap.cases.catalogue.filled_case", build)
        monkeypatch.setattr("opmap.cases.parameters.filled_case", build)
        wanted = "gather/float32/d4.axis1.k2/int64.neg/addr.000000"
        assert [] == list(catalogue("standard", ["gather/none", "gather/example.99", STANDARD.replace("534a68", "0")]))
        assert [] == built
        assert [STANDARD] == [case.id for case in catalogue("standard", [STANDARD])] == [case.id for case in built]
        built.clear()
        assert [] == list(catalogue("full", [wanted]))
        assert built and {"gather/float32/d4.axis1.k2"} == {case.id.rpartition("/int")[0] for case in built}

    def test_order(self):
        """The cases come in the order of the catalogue; with a filter, a case must match both."""
        ids = [STANDARD, "gather/example.2", SMOKE]

        assert [SMOKE, "gather/example.2", STANDARD] == [case.id for case in Selection(ids=ids).cases()]
        assert [STANDARD] == [case.id for case in Selection(ids=ids, globs=["*/int64/*"]).cases()]
        with pytest.raises(InputError, match=r"--filter must match a case, got 'gather_nd/\*'"):
            Selection(ids=ids, globs=["gather_nd/*"]).cases()

    def test_probes(self):
        """Ids of probes and contract probes select these, and no case."""
        chosen = Selection(ids=[CONTRACT, PROBE])

        assert [] == chosen.cases()
        assert [PROBE, CONTRACT] == [probe.id for probe in chosen.probes(open_provider("cpu"))]
        assert [SMOKE] == [case.id for case in Selection(ids=[SMOKE, PROBE], tier="contract").cases()]
        assert [True, False, True, False] == [
            Selection(ids=ids, tier=tier).only_contract
            for ids, tier in (([CONTRACT], "smoke"), ([CONTRACT, SMOKE], "contract"), ([], "contract"), ([], "full"))
        ]


class TestUnknown:
    """An id that exists nowhere gives one line with the nearest ids."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "id, nearest",
        [
            ("gather/exmple.1", "gather/example.1, "),
            (EXAMPLE.replace("60f52e", "60f52f"), f"{EXAMPLE}, "),
            ("gather/example.1/own-queu", "gather/example.1/own-queue, "),
            ("probe/gather/boole", "probe/gather/bool, "),
            ("contract/empty/n", "contract/empty/nd, "),
        ],
    )
    def test_nearest(self, id, nearest):
        """The most similar id comes first, also among variants and probes."""
        with pytest.raises(InputError) as caught:
            find_cases([SMOKE, id])
        assert str(caught.value).startswith(f"must be the id of a case, got {id!r} (the nearest: {nearest}")
        assert str(caught.value).count(", ") <= 3

    def test_name_of_a_file(self):
        """A name without a slash is like no id: none is called the nearest."""
        with pytest.raises(
            InputError, match="got 'dispatch' \\(no file has this name either; opmap validate --list prints ids\\)"
        ):
            find_case("dispatch")

    def test_no_long_id_is_compared(self, monkeypatch):
        """An id longer than MAX_GLOB is refused before anything is built."""
        monkeypatch.setattr(selection, "catalogue", None)
        for find in (find_case, lambda id: case_ids([id])):
            with pytest.raises(InputError, match=f"at most {MAX_GLOB} characters, got {MAX_GLOB + 1}"):
                find("a" * (MAX_GLOB + 1))


class TestValidate:
    """`opmap validate --case` needs no --tier."""

    def test_any_tier(self, capsysbinary):
        """Cases, probes and contract probes of several tiers run in one command."""
        options = [word for id in (FULL, STANDARD, PROBE, CONTRACT) for word in ("--case", id)]

        code = main(["validate", "--provider", "cpu", "--json", *options])

        document = json.loads(capsysbinary.readouterr().out)
        assert 0 == code
        assert [{STANDARD, FULL}, {PROBE}, {CONTRACT}] == [
            {record["case"] for record in document[key]} for key in ("cases", "probes", "contract")
        ]

    def test_again(self):
        """The command that runs a case again names no tier."""
        session = ValidationRun(SessionOptions(provider="cpu", tier="full", device_id=1))
        assert f"opmap validate --provider cpu --device-id 1 --case {FULL}" == session.again(find_case(FULL))
        options = SessionOptions(provider="cpu", provider_option=[("a", "b")], pack=8)
        words = "--provider cpu --provider-option a=b"
        assert f"opmap validate {words} --pack 8 --case y --case x" == options.again("x", None, ["y"])
        assert f"opmap check f.json {words}" == options.again("x", "f.json")


class TestExplain:
    """`opmap explain` takes an id in place of a file."""

    def test_a_case(self, run_opmap):
        """The tensors and the expanded line are shown, with one coordinate per dimension."""
        out = run_opmap(0, "explain", "gather/example.4", "--at", "1,0,1").out
        assert "  input    InputTensor FLOAT32 {1,3,3}\n" in out and "  Axis 2, IndexDimensions 2\n" in out
        assert "  output[a, b, c] = input[0, a, indices[0, b, c]]\n" in out
        assert "  output[1, 0, 1] = input[0, 1, indices[0, 0, 1] = 2] = 6.0\n" in out

    @pytest.mark.parametrize("name", OPERATORS)
    def test_every_operator(self, name, capsys):
        """The last element of the first example, of each output, is read down to its value."""
        case = find_case(f"{name.lower()}/example.1")
        for output, tensor in case.desc.outputs.items():
            bits = case.desc.of_output(output).interpret(case.tensors)[-1]
            value = "undefined" if bits is None else from_bits(tensor.data_type, [bits])[0]
            code = main(["explain", case.id, "--at", f"{output}:{','.join(str(size - 1) for size in tensor.sizes)}"])

            assert (0, f"= {value}") == (code, " ".join(capsys.readouterr().out.split()[-2:]))

    def test_a_file_comes_first(self, tmp_path, in_tmp_path, capsys):
        """An argument that exists is a file, also if it is the id of a case; a folder is none."""
        other = find_case("gather_nd/example.1")
        (tmp_path / "gather").mkdir()
        (tmp_path / SMOKE).write_text(json.dumps(model_json("x", other.desc, other.tensors)), encoding="utf-8")
        (tmp_path / "gather_nd" / "example.1").mkdir(parents=True)

        assert [0, 0] == [main(["explain", target]) for target in (SMOKE, "gather_nd/example.1")]
        assert 2 == capsys.readouterr().out.count("DML_OPERATOR_GATHER_ND ")


class TestBuild:
    """`opmap build` writes the model of a case in its variant."""

    def test_init(self, tmp_path, capsys):
        """If the case's indices are an initializer, they are one in the model, and no test data is fed for them."""
        assert 0 == main(["build", EXAMPLE, "-o", str(tmp_path / "out")])

        (folder,) = [path for path in (tmp_path / "out").iterdir() if path.is_dir()]
        assert ["InputTensor"] == [value.name for value in onnx.load(folder / "model.onnx").graph.input]
        files = sorted(path.name for path in (folder / "test_data_set_0").iterdir())
        assert ["input_0.pb", "output_0.pb"] == files
        assert "  variant      init: The indices are initializers" in capsys.readouterr().out

    def test_files_and_outputs(self, tmp_path, capsysbinary):
        """Files beside the model are written too, and a further output gets its expected values."""
        assert 0 == main(["build", f"{SMOKE}/external", "-o", str(tmp_path / "model.onnx"), "--json"])
        (model,) = json.loads(capsysbinary.readouterr().out)["models"].values()
        assert "external" == model["variant"]
        onnx.checker.check_model(tmp_path / "model.onnx")

        assert 0 == main(["build", f"{SMOKE}/second-output", "-o", str(tmp_path / "two")])
        assert [*(tmp_path / "two").rglob("test_data_set_0/output_1.pb")]

    def test_feature_level(self, tmp_path, refusal):
        """The descriptor must keep the rules of the feature level, as that of a file must."""
        line = refusal("build", SMOKE, "-o", tmp_path / "x.onnx", "--feature-level", "1_0")
        assert "gather/example.1: InputTensor.Sizes: must be of 4 dimensions" in line
