"""Holds the rules of the documentation against what DirectML itself accepts, and shows what it computes there."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

import msgspec

from ..cases.rule_breaks import Question
from ..engines.arrays import from_array
from ..engines.direct import DirectProvider
from ..engines.steps import Compile
from ..engines.worker import WorkerLost
from ..errors import ProviderError
from ..mapping.dxdispatch import desc_json
from ..tensors import from_bits, plain

COMPILE: tuple[Compile, ...] = get_args(Compile)
WORDS: Mapping[Compile, str] = {"operator": "CompileOperator", "graph": "CompileGraph"}
"""How DirectML is asked to compile, each with the call that does it."""

RULE_DISAGREES = "rule-disagrees"
COMPILE_DISAGREES = "compile-disagrees"
VALUE_DISAGREES = "value-disagrees"

FINDINGS = {
    RULE_DISAGREES: "the rules allow the descriptor and DirectML refuses it, or the reverse",
    COMPILE_DISAGREES: "CompileOperator and CompileGraph do not do the same",
    VALUE_DISAGREES: "the rules allow the descriptor, and DirectML computes something else than the page's pseudocode",
}
"""The findings, each in a sentence."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What DirectML makes of a descriptor: the error if it is refused, the values of its outputs if it was run."""

    refused: str | None = None
    lost: bool = False
    output: list[int | float | str] | None = None


class RuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """One descriptor: the broken rules, DirectML's answers, and what is found.

    `inputs` are the values of its inputs if it was run.
    """

    source: str
    operator: str
    rules: list[str]
    desc: Mapping[str, object]
    inputs: Mapping[str, list[int | float | str]]
    answers: Mapping[Compile, Answer]
    findings: list[str]


def rule_rows(provider: DirectProvider, questions: Iterable[Question]) -> Iterator[RuleRow]:
    """Asks DirectML about each descriptor, as an operator and as a graph."""
    for question in questions:
        desc = question.desc
        answers = {compile: _answer(provider, question, compile) for compile in COMPILE}
        rules = list(dict.fromkeys(violation.rule for violation in desc.violations()))
        inputs = {}
        if any(answer.output for answer in answers.values()):
            inputs = {name: [plain(v) for v in tensor.values] for name, tensor in question.values().items()}
        yield RuleRow(
            source=question.source,
            operator=desc.operator,
            rules=rules,
            desc=desc_json(desc)["desc"],
            inputs=inputs,
            answers=answers,
            findings=list(_findings(question, rules, answers)),
        )


def _answer(provider: DirectProvider, question: Question, compile: Compile) -> Answer:
    try:
        result = provider.run_descriptor(question.desc, None, compile=compile)
        if result.error is None and question.runnable:
            result = provider.run_descriptor(question.desc, question.values(), compile=compile)
    except ProviderError as error:
        return Answer(refused=str(error), lost=isinstance(error, WorkerLost))
    output: list[int | float | str] = [result.malformed] if result.malformed else []
    output += [plain(value) for array in result.outputs.values() for value in from_array(array).values]
    return Answer(refused=result.error, lost=result.unsupported, output=output or None)


def _findings(question: Question, rules: list[str], answers: Mapping[Compile, Answer]) -> Iterator[str]:
    """Gives the findings about one descriptor. An answer that was lost says nothing about the rules."""
    if any(bool(answer.refused) == (not rules) and not answer.lost for answer in answers.values()):
        yield RULE_DISAGREES
    if len({(bool(answer.refused), tuple(answer.output or ())) for answer in answers.values()}) > 1:
        yield COMPILE_DISAGREES
    if not rules:
        wanted = [value for field in question.desc.outputs for value in _values(question, field)]
        for answer in answers.values():
            if answer.output is not None and answer.output != wanted:
                yield VALUE_DISAGREES
                return


def _values(question: Question, output: str) -> list[int | float | str]:
    """Returns the documented values of an output."""
    desc = question.desc.of_output(output)
    bits, data_type = desc.interpret(question.values()), desc.output.data_type
    return [plain(v) for v in from_bits(data_type, array(data_type.bits_code, [b or 0 for b in bits]))]
