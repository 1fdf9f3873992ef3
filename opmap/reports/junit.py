"""junit.xml: the records of a run for the pages of CI systems, in the form that all of them read."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from ..errors import printable
from ..judge.record import Record
from ..judge.tally import WHY_RED
from ..vocabulary import Standing, Verdict
from .documents import Part

_KINDS: dict[Standing, str] = {"failed": "failure", "broken": "error", "excused": "skipped", "not run": "skipped"}
"""The standing of a verdict -> what JUnit calls a test case that did not pass."""

_PROPERTIES = ("tier", "version", "package", "device_class", "adapter_name", "driver", "platform")


def junit(runs: Sequence[tuple[Part, Sequence[Record]]], problems: Sequence[str] = ()) -> str:
    """Returns the XML document, with a test suite per run and a test case per record.

    `problems` are those of a merged bundle: of its runs, and what was wrong with merging them. A run that is red
    although no case failed has a failed test case `run` more, which says why.
    """
    root = ET.Element("testsuites", name="opmap")
    root.extend(_suite(part, records) for part, records in runs)
    of_merging = problems[sum(len(part.problems) for part, _ in runs) :]
    if of_merging:
        root.append(_counted(ET.Element("testsuite", name="opmap merge"), list(map(_problem, of_merging))))
    ET.indent(root)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content.decode() + "\n"


def _suite(part: Part, records: Sequence[Record]) -> ET.Element:
    element = ET.Element("testsuite", name=printable(f"opmap on {part.selection.get('provider')}"))
    properties = ET.SubElement(element, "properties")
    for name in _PROPERTIES:
        if (value := part.selection.get(name)) is not None:
            ET.SubElement(properties, "property", name=name, value=printable(str(value)))
    problems = list(part.problems)
    if part.exit_code and not problems and not any(record.failed for record in records):
        problems = ["the run was interrupted" if part.exit_code == 130 else f"the run is red: {WHY_RED}"]
    return _counted(element, [*map(_case, records), *map(_problem, problems)])


def _counted(element: ET.Element, cases: Sequence[ET.Element]) -> ET.Element:
    """Returns a test suite with these test cases, and their number by result."""
    for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        element.set(plural, str(sum(case.find(kind) is not None for case in cases)))
    element.set("tests", str(len(cases)))
    element.extend(cases)
    return element


def _case(record: Record) -> ET.Element:
    operator = printable((record.operator or "?").removeprefix("DML_OPERATOR_"))
    case = ET.Element("testcase", classname=f"opmap.{operator}", name=printable(record.case or "?"))
    if record.verdict.standing == "right":
        return case
    kind = _KINDS[record.verdict.standing]
    stage = f" at {record.stage}" if record.stage and record.verdict == Verdict.ERROR else ""
    message = printable(f"{record.verdict}{stage}{f': {record.message}' if record.message else ''}")
    ET.SubElement(case, kind, {"message": message} | ({} if kind == "skipped" else {"type": str(record.verdict)}))
    return case


def _problem(message: str) -> ET.Element:
    case = ET.Element("testcase", classname="opmap", name="run")
    ET.SubElement(case, "failure", message=printable(message), type="run")
    return case
