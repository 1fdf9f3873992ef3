"""What a provider does with invalid indices: as a table in the terminal, and as the document of `survey --json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..cases.invalid_indices import POSITIONS, simplest
from ..errors import printable
from ..judge.against import FINDINGS, WORDS, Answer, RuleRow
from ..judge.survey import NOT_ASKED, Observation, failures
from ..mapping.dxdispatch import model_json
from .documents import SurveyDocument, SurveyRow
from .sections import Section

MOST_SHOWN, MOST_VALUES = 10, 24
"""The most failures, and reasons not to ask, that are printed; and the most values of a tensor."""


def rows(observations: Sequence[Observation]) -> list[SurveyRow]:
    """Returns the table: operators, index types and invalid indices with the same answers share a row.

    The answers to one invalid index in different places, descriptors and data types are one if an explanation fits all
    of them. Otherwise each answer says for which of them it holds.
    """
    by_operator: dict[str, dict[tuple[str, str], list[Observation]]] = {}
    for observation in observations:
        key = _type(observation), observation.question.position
        by_operator.setdefault(f"DML_OPERATOR_{observation.question.desc.operator}", {}).setdefault(key, []).append(
            observation
        )
    tables: dict[tuple[SurveyRow, ...], list[str]] = {}
    for operator, groups in by_operator.items():
        tables.setdefault(tuple(_rows(groups)), []).append(operator)
    return [msgspec.structs.replace(row, operators=tuple(names)) for table, names in tables.items() for row in table]


def _rows(groups: dict[tuple[str, str], list[Observation]]) -> list[SurveyRow]:
    """Returns the rows of one operator, without its name, from its observations by index type and position."""
    positions: dict[tuple[str, str, bool], list[str]] = {}
    for (index_type, position), observations in groups.items():
        for answer, failed in _answers(observations):
            positions.setdefault((index_type, answer, failed), []).append(position)
    types: dict[tuple[tuple[str, ...], str, bool], list[str]] = {}
    for (index_type, answer, failed), names in positions.items():
        everywhere = all(name in names for other, name in groups if other == index_type)
        ordered = ("all",) if everywhere else tuple(name for name in POSITIONS if name in names)
        types.setdefault((ordered, answer, failed), []).append(index_type)
    return [SurveyRow((), tuple(names), ordered, answer, failed) for (ordered, answer, failed), names in types.items()]


def _answers(observations: Sequence[Observation]) -> list[tuple[str, bool]]:
    """Returns the answers to one invalid index of one operator in words, each with whether it is wrong somewhere."""
    answers: list[tuple[frozenset[str], list[Observation]]] = []
    for observation in observations:
        for i, (fits, some) in enumerate(answers):
            if fits & observation.fits:
                answers[i] = fits & observation.fits, [*some, observation]
                break
        else:
            answers.append((observation.fits, [observation]))
    words = []
    for fits, some in answers:
        where = f" ({_where(some, observations)})" if len(answers) > 1 else ""
        words.append((" or ".join(simplest(fits)) + where, bool(failures(some))))
    return words


def _where(some: Sequence[Observation], observations: Sequence[Observation]) -> str:
    """Returns the data types, places or sizes of `some` that the rest of the observations do not have."""
    rest = [observation for observation in observations if observation not in some]
    for name in (_data_type, _coordinate, _input):
        names = list(dict.fromkeys(map(name, some)))
        if {*names}.isdisjoint(map(name, rest)):
            return ", ".join(names)
    return f"{len(some)} of {len(observations)} cases"


def _data_type(observation: Observation) -> str:
    return observation.question.data.data_type.name


def _coordinate(observation: Observation) -> str:
    question = observation.question
    return f"index {question.coordinate + 1} of {question.tuple_size}"


def _input(observation: Observation) -> str:
    return f"input {list(observation.question.data.sizes)}"


def _type(observation: Observation) -> str:
    """Returns the type of the indices, and the type that they have when the operator's node reads them."""
    stored, read = observation.question.index_type, observation.index_type
    return stored.name if stored is read else f"{stored.name} as {read.name}"


# --- the terminal ---


def print_survey(console: Console, place: str, observations: Sequence[Observation]) -> None:
    """Prints the table, what was not asked and why, and the first failure of each operator and answer.

    `place` is the provider and its device class.
    """
    table = Table()
    for name in ("operator", "index type", "invalid index", "answer"):
        table.add_column(name, overflow="fold")
    before: tuple[str, ...] = ()
    for row in rows(observations):
        if before and before != row.operators:
            table.add_section()
        names = row.operators if row.operators != before else ()
        before = row.operators
        style = "red" if row.failed else "yellow" if NOT_ASKED in row.answer else "cyan"
        texts = (
            "\n".join(name.removeprefix("DML_OPERATOR_") for name in names),
            "\n".join(row.index_types),
            ", ".join(row.indices),
            row.answer,
        )
        table.add_row(*map(Text, texts[:-1]), Text(row.answer, style))
    console.print(Text(printable(f"invalid indices on {place}")), style="italic", soft_wrap=True)
    console.print(table)
    for line in _lines(place, observations):
        console.print(printable(line), style="bold", soft_wrap=True, highlight=False, markup=False)
    wrong: dict[tuple[str, str], list[Observation]] = {}
    for observation in failures(observations):
        key = observation.question.desc.operator, observation.answers[0]
        wrong.setdefault(key, []).append(observation)
    for (first, *more_failures), _ in zip(wrong.values(), range(MOST_SHOWN), strict=False):
        more = f" (and {len(more_failures)} more)" if more_failures else ""
        text = f"{_subject(first)}: {first.failure}{more}"
        console.print(printable(text), style="red", soft_wrap=True, highlight=False, markup=False)


def _lines(place: str, observations: Sequence[Observation]) -> list[str]:
    reasons = Counter(observation.message or "" for observation in observations if not observation.answered)
    answered = len(observations) - reasons.total()
    lines = [f"{answered} of {len(observations)} questions answered on {place} (see opmap manual survey)"]
    return lines + [f"{NOT_ASKED}: {reason} ({count})" for reason, count in reasons.most_common(MOST_SHOWN)]


def _subject(observation: Observation) -> str:
    question = observation.question
    place = f", {_coordinate(observation)}" if question.tuple_size > 1 else ""
    types = f"{_data_type(observation)} data, {_type(observation)} indices"
    return f"{question.desc.operator}, {types}{place}, {question.position} = {question.index}"


# --- rules ---


def rules_section(place: str, rows: Sequence[RuleRow]) -> Section:
    """Returns the table of the rules against what the provider at `place` accepts, and what it computed for each
    descriptor with a finding.

    The columns `operator` and `graph` are about CompileOperator and CompileGraph.
    """
    table, lines = [], []
    for number, row in enumerate(rows, 1):
        about = row.source if row.source.startswith(f"{row.operator}.") else f"{row.operator} {row.source}"
        disagree = ", ".join(finding.removesuffix("-disagrees") for finding in row.findings)
        answers = [_word(row.answers[compile]) for compile in WORDS]
        table.append([str(number), about, "forbid" if row.rules else "allow", *answers, disagree])
        if row.findings:
            members = ", ".join(f"{name} {_member(value)}" for name, value in row.desc.items())
            lines += [f"{number}. {about}: {', '.join(row.findings)}", f"   {members}"]
            lines += [f"   breaks {', '.join(row.rules)}"] if row.rules else []
            lines += [f"   {name} = {_listed(values)}" for name, values in row.inputs.items()]
            lines += [f"   {word}: {_answer(row.answers[compile])}" for compile, word in WORDS.items()]
    lines += [f"{sum(finding in row.findings for row in rows)} {finding}: {text}" for finding, text in FINDINGS.items()]
    return Section(f"rules against {place}", ["", "descriptor", "rules", *WORDS, "disagree"], table, lines=lines)


def _word(answer: Answer) -> str:
    if answer.refused is None:
        return "accepts" if answer.output is None else "runs"
    return "lost" if answer.lost else "refuses"


def _answer(answer: Answer) -> str:
    return answer.refused or ("accepted, not run" if answer.output is None else f"output = {_listed(answer.output)}")


def _member(value: object) -> str:
    if not isinstance(value, dict):
        return str(value)
    members = [f"{k} {v}" for k, v in value.items() if k not in ("DataType", "Sizes")]
    return " ".join([str(value["DataType"]), "{" + ",".join(map(str, value["Sizes"])) + "}", *members])


def _listed(values: Sequence[object]) -> str:
    shown = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values[:MOST_VALUES])
    return f"[{shown}{', ...' if len(values) > MOST_VALUES else ''}]"


# --- JSON ---


def survey_document(
    provider: str, device_class: str | None, observations: Sequence[Observation], rules: list[RuleRow] | None = None
) -> SurveyDocument:
    """Returns the document that `survey --json` prints, and that survey.json of a results bundle holds."""
    return SurveyDocument(
        provider=provider,
        device_class=device_class,
        failures=len(failures(observations)),
        rows=rows(observations),
        observations=[_observation(observation) for observation in observations],
        rules=rules,
    )


def _observation(observation: Observation) -> dict[str, object]:
    question, case = observation.question, observation.question.case
    dxdispatch = model_json(case.id, case.desc, case.tensors) if observation.failure else None
    return {
        "operator": f"DML_OPERATOR_{question.desc.operator}",
        "data_type": _data_type(observation),
        "index_type": question.index_type.name,
        "read_as": observation.index_type.name,
        "sizes": {name: list(tensor.sizes) for name, tensor in question.desc.tensors.items()},
        "numbers": question.desc.numbers,
        "coordinate": question.coordinate,
        "tuple_size": question.tuple_size,
        "axis_length": question.size,
        "position": question.position,
        "index": question.index,
        "answers": observation.answers,
        "message": observation.message,
        "failure": observation.failure,
        "dxdispatch": dxdispatch,
    }
