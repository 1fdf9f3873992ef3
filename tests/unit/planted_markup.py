"""A results bundle in which every text would do harm if it became a part of a page."""

from __future__ import annotations

import json
import re

from bundle_folders import agree

MARKUP = "<img src=x onerror=alert('{name}')></script><!--<script>'\"&{{{{ 7 * 7 }}}}\u2028"
"""A text that does harm if it becomes a part of the page."""


def mark(name: str) -> str:
    """Returns the text for the field of this name."""
    return MARKUP.format(name=name)


def planted(folder) -> set[str]:
    """Puts such a text into every field of a bundle that holds a text. Returns the names of the fields."""
    texts = ("provider", "platform", "package", "version", "device_class", "adapter_name", "driver", "tier", "adapter")
    selection = {
        **{name: mark(f"selection.{name}") for name in texts},
        "filter": [mark("filter")],
        "session_option": [mark("session option")],
        mark("option"): mark("value of an option"),
    }
    environment = {
        mark("fact"): {
            "value": {mark("key"): [{mark("inner key"): mark("inner value")}, mark("entry")]},
            "source": mark("source"),
            "error": None,
        },
        "one": {"value": None, "source": mark("source of none"), "error": mark("error")},
    }
    run = {
        "schema": "opmap-results/1",
        "selection": selection,
        "environment": environment,
        "problems": [mark("problem")],
    }
    names = ("file", "case", "operator", "variant", "rule", "error_at", "message", "descriptor")
    record = {
        **{name: mark(f"record.{name}") for name in names},
        **{name: selection[name] for name in ("provider", "device_class")},
        "verdict": "mismatch",
        "rules": [mark("rules")],
        "kinds": [mark("kinds")],
        "substitutions": [mark("substitutions")],
        "placement": {
            "proven": True,
            "source": mark("proof"),
            "nodes": [[mark("nodes")] * 2],
            "elsewhere": [mark("elsewhere")],
        },
        "path_proof": {"proven": True, "source": mark("path_proof")},
        "lowered_as": {"type": mark("lowered_as"), "desc": {}, "proof": mark("lowered_as")},
        "expected": {
            "DataType": mark("expected"),
            "Sizes": [1],
            "Values": None,
            "Bits": None,
            "Digest": mark("expected"),
        },
    }
    found = diagnosis(
        relation={
            "kind": mark("relation.kind"),
            "text": mark("relation"),
            "fault": mark("fault"),
            "ties": [mark("ties")],
            "explains": [5, 6],
        },
        smallest={
            "case": mark("smallest"),
            "text": mark("smallest.text"),
            "message": mark("smallest message"),
            "dxdispatch": {"x": mark("dxdispatch")},
        },
        operators=[mark("operators")],
        condition={
            "text": mark("condition"),
            "any": [[{"feature": mark("feature"), "is": mark("feature"), "value": 1}]],
        },
        stability="after",
        stability_text=mark("stability"),
        after=mark("after"),
        side=side(text=mark("side"), flips=[mark("flips")], left_out={mark("left_out"): mark("left_out")}),
        ids=[record["case"], mark("ids")],
        again=mark("again"),
    )
    documents = {
        "run.json": {**run, "totals": {"verdicts": {"mismatch": 1}, "exit_code": 1}},
        "results.jsonl": record,
        "diagnosis.json": found,
        "times.json": {"schema": "opmap-times/1", "seconds": {record["case"]: 1.0}},
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document) + "\n")
    agree(folder)
    return fields_in(json.dumps([*documents.values()], ensure_ascii=False))


def fields_in(text: str) -> set[str]:
    """Returns the names of the planted fields that a text holds."""
    return set(re.findall(r"onerror=alert\('([^']*)'\)", text))


def diagnosis(**changes) -> dict:
    """Returns a diagnosis with one group, of which these keys are changed."""
    group = {
        "cases": 3,
        "ids": [],
        "verdicts": ["mismatch"],
        "operators": ["DML_OPERATOR_GATHER"],
        "condition": None,
        "relation": {"kind": "a kind", "text": "the rule", "fault": None, "ties": [], "explains": [5, 6]},
        "stability": None,
        "stability_text": None,
        "after": None,
        "side": None,
        "smallest": smallest(),
        "asked": {"runs": 0, "failing": 0, "passing": 0},
        "again": "opmap validate",
    }
    return {"schema": "opmap-diagnosis/1", "provider": "a provider", "groups": [{**group, **changes}]}


def smallest(**changes) -> dict:
    """Returns the smallest case of a group, of which these keys are changed."""
    return {"case": "gather/example.1", "text": "its tensors", "message": None, "dxdispatch": None, **changes}


def side(**changes) -> dict:
    """Returns whose fault a group is, of which these keys are changed."""
    return {"odd_one_out": None, "text": "", "flips": [], "sides": [], "left_out": {}, **changes}
