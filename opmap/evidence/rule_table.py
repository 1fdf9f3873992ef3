"""The table of the rules against what DirectML itself accepts, below that of `opmap survey`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..judge.against import FINDINGS, WORDS, Answer, RuleRow
from .terminal import print_line, print_text


def print_rules(place: str, rows: Sequence[RuleRow]) -> None:
    """Prints the table of the rules against what the provider at `place` accepts, and below it what was computed for each descriptor with a finding.

    The columns `operator` and `graph` are about CompileOperator and CompileGraph.
    """
    print_text(f"rules against {place}")
    print_line(_line("", "descriptor", "rules", WORDS, "disagree"))
    for number, row in enumerate(rows, 1):
        answers = [_word(row.answers[compile]) for compile in WORDS]
        disagree = ", ".join(finding.removesuffix("-disagrees") for finding in row.findings)
        print_line(_line(str(number), _name(row), "forbid" if row.rules else "allow", answers, disagree))
    for number, row in enumerate(rows, 1):
        if row.findings:
            print_text(_details(number, row))
    counts = [f"{sum(finding in row.findings for row in rows)} {finding}: {FINDINGS[finding]}" for finding in FINDINGS]
    print_text("\n".join(counts))


def _line(number: str, name: str, rules: str, answers: Iterable[str], disagree: str) -> str:
    columns = "".join(f"{answer:9}" for answer in answers)
    return f"{number:>3} {name:50} {rules:7}{columns}{disagree}".rstrip()


def _word(answer: Answer) -> str:
    if answer.refused is None:
        return "accepts" if answer.output is None else "runs"
    return "lost" if answer.lost else "refuses"


def _name(row: RuleRow) -> str:
    """Returns what a row is about: the operator with an example or a rule of tensors, or the id of an operator's rule."""
    return row.source if row.source.startswith(f"{row.operator}.") else f"{row.operator} {row.source}"


def _details(number: int, row: RuleRow) -> str:
    """Returns the members of a descriptor, and what DirectML said and computed."""
    members = ", ".join(f"{name} {_member(value)}" for name, value in row.desc.items())
    lines = [f"{number}. {_name(row)}: {', '.join(row.findings) or 'as the rules say'}", f"   {members}"]
    lines += [f"   breaks {', '.join(row.rules)}"] if row.rules else []
    lines += [f"   {name} = {_listed(values)}" for name, values in row.inputs.items()]
    for compile, word in WORDS.items():
        answer = row.answers[compile]
        answer_text = answer.refused or (
            "accepted, not run" if answer.output is None else f"output = {_listed(answer.output)}"
        )
        lines.append(f"   {word}: {answer_text}")
    return "\n".join(lines)


def _member(value: object) -> str:
    if not isinstance(value, dict):
        return str(value)
    members = [f"{k} {v}" for k, v in value.items() if k not in ("DataType", "Sizes")]
    return " ".join([str(value["DataType"]), "{" + ",".join(map(str, value["Sizes"])) + "}", *members])


_SHOWN = 24


def _listed(values: Sequence[object]) -> str:
    shown = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values[:_SHOWN])
    return f"[{shown}{', ...' if len(values) > _SHOWN else ''}]"
