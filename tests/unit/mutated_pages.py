"""Random changes to the documentation pages of the tests: lines, blank lines, text, HTML, references to characters."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from documentation_pages import FORMS, PAGES

PIECES = (
    *("```", "# ", "### -field Axis", "-field", "|", "| --- |", "> ", "* ", "---", "===", "//", "\t", "\r"),
    *("\0", " " * 300),
    *("<pre>", "</pre>", "<table>", "<tr><td>", "</td>", "<!--", "-->", "<span>", '<span class="sxs-lookup">'),
    *("<a ", "<"),
    *("&", "&#", "&#x110000;", f"&#{'9' * 5000};", f"&#x{'f' * 5000};", "&lt;", "&nbsp;", "&notanentity;"),
    *("[", "]", "{", "}", "(", ")", "[" * 100, "{" * 100, "...", "1...", "..", "=", "==", "<=", " in [0, ", ","),
    *(":", "-"),
    *("9" * 101, "9" * 5000, "-1", "0", "1e999", "0x10", "4294967296", "1.5", "٣", "²"),
    *("InputTensor", "inputtensor", "OutputTensor.Sizes", "Axis", "Axis: 0", "output[...] = input[...]", "DataType"),
    *("DML_FEATURE_LEVEL_9_9", "DML_FEATURE_LEVEL_", "DML_GEMM_OPERATOR_DESC", "FLOAT32", "Float999", "INT4"),
    *("\u202e", "\u2028", "\u0000", "\ud800", "\ufeff", "İ", "ﬁ", "入力", "инпуттенсор", "é", "🙂", "\x1b[31m"),
)
"""Text that means something to the reader of pages, or that other readers stumble over."""


def mutated_pages(seed: int, count: int) -> Iterator[str]:
    """Yields `count` pages, each with up to thirty random changes. The same seed gives the same pages."""
    choose = random.Random(seed)
    texts = sorted(PAGES.values())
    for _ in range(count):
        text = choose.choice(texts)
        if choose.random() < 0.5:
            text = choose.choice(FORMS)(text)
        for _ in range(choose.randint(1, 30)):
            text = choose.choice(MUTATIONS)(choose, text)
        yield text


def _on_lines(change: Callable[[random.Random, list[str], int, int], None]) -> Callable[[random.Random, str], str]:
    """Makes a mutation of a change to a list of lines. The change gets the first line and the number of lines."""

    def mutation(choose: random.Random, text: str) -> str:
        lines = text.split("\n")
        change(choose, lines, choose.randrange(len(lines)), choose.randint(1, 8))
        return "\n".join(lines)

    return mutation


def _delete(choose: random.Random, lines: list[str], at: int, count: int) -> None:
    del lines[at : at + count]


def _duplicate(choose: random.Random, lines: list[str], at: int, count: int) -> None:
    lines[at:at] = lines[at : at + count] * choose.choice([1, 1, 1, 20])


def _move(choose: random.Random, lines: list[str], at: int, count: int) -> None:
    moved = lines[at : at + count]
    del lines[at : at + count]
    to = choose.randint(0, len(lines))
    lines[to:to] = moved


def _delete_blank(choose: random.Random, lines: list[str], at: int, count: int) -> None:
    end = at + 10 * count
    lines[at:end] = [line for line in lines[at:end] if line.strip()]


def _join(choose: random.Random, lines: list[str], at: int, count: int) -> None:
    lines[at : at + count] = [choose.choice(["", " "]).join(lines[at : at + count])]


def _splice(choose: random.Random, text: str) -> str:
    """Puts a piece somewhere, in place of up to ten characters."""
    at = choose.randint(0, len(text))
    return text[:at] + choose.choice(PIECES) + text[at + choose.choice([0, 0, 1, 10]) :]


def _replace_word(choose: random.Random, text: str) -> str:
    """Puts a word of a page in place of another one, everywhere or once."""
    words = text.split()
    if not words:
        return text
    old, new = choose.choice(words), choose.choice([*PIECES, choose.choice(words)])
    return text.replace(old, new, choose.choice([1, 1, 20]))


MUTATIONS = (*map(_on_lines, (_delete, _duplicate, _move, _delete_blank, _join)), _splice, _splice, _replace_word)
