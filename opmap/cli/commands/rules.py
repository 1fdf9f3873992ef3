"""`opmap rules`: lists the rules of the documentation, or shows one rule with an example that breaks it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from ...errors import InputError
from ...evidence.terminal import print_line, write_json
from ...spec import Rule, TensorRule, all_specs, tensor_rules

T = TypeVar("T")


def run(options: Namespace) -> int:
    """Prints the rules, or with --check-on what DirectML does with them. Raises InputError for an unknown rule id.

    Raises ProviderMissing if there is no DirectML.
    """
    if options.check_on:
        return _checked_on(options)
    entries = _chosen(_entries(), options.id, lambda entry: entry["id"])
    if options.json:
        write_json(entries)
    elif options.id is None:
        for entry in entries:
            print_line(f"{entry['id']:20} {entry['text']}")
    else:
        _print_rule(entries[0])
    return 0


def _chosen(entries: Iterable[T], id: str | None, id_of: Callable[[T], str]) -> list[T]:
    """Returns the entries of a rule, or all. Raises InputError if there is no such rule."""
    chosen = [entry for entry in entries if id is None or id_of(entry) == id.upper()]
    if not chosen:
        raise InputError(f"rules: must be a rule id, as TENSOR.C1 (opmap rules lists them), got {id!r}")
    return chosen


def _checked_on(options: Namespace) -> int:
    """Asks DirectML about descriptors that keep or break the rules, and prints its answers. Returns 0: nothing is judged."""
    from ...cases.rule_breaks import questions
    from ...engines import providers
    from ...engines.direct import DirectProvider
    from ...evidence.rule_table import RulesDocument, print_rules
    from ...judge.against import rule_rows
    from ...session.options import SessionOptions

    chosen = _chosen(questions(), options.id, lambda question: question.source)
    opened = providers.open_provider(options.check_on, **SessionOptions.read(vars(options)).place)
    try:
        assert isinstance(opened.runner, DirectProvider), "--check-on takes directml only"
        if opened.device_class == "emulated":
            opened.runner.ignore_hangs()
        rows = list(rule_rows(opened.runner, chosen))
        facts = opened.environment()
    finally:
        opened.close()
    document = RulesDocument(
        provider=opened.name,
        version=opened.version,
        adapter=opened.adapter,
        device_class=opened.device_class,
        feature_level=facts["directml_feature_level"].value if "directml_feature_level" in facts else None,
        data_types=facts["directml_data_types"].value if "directml_data_types" in facts else None,
        rows=rows,
    )
    if options.json:
        write_json(document)
    else:
        print_rules(document)
    return 0


def _entries() -> Iterator[dict[str, Any]]:
    """Gives the rules of every tensor, then those of each operator, as the JSON document has them.

    `page` is None for a derived rule, and `check` is None for a rule that is written in Python. `breaks` names an example
    of an operator's page, and the fields to change in it; None if no descriptor breaks the rule.
    """
    tensors = tensor_rules()
    for tensor_rule in tensors.rules:
        yield _entry(tensor_rule, None if tensor_rule.derived else tensors.address, None)
    for spec in all_specs():
        for rule in spec.corrected.rules:
            page = None if rule.derived else f"{spec.page.address} (line {rule.line} at {spec.page.commit})"
            entry = _entry(rule, page, rule.check.strip())
            yield {**entry, "breaks": rule.breaks and {**entry["breaks"], "operator": spec.name}}
        for o in spec.left_out:
            page = f"{spec.page.address} (line {o.line} at {spec.page.commit})"
            yield {"id": o.rule, "text": o.text, "page": page, "check": None, "derived": False, "breaks": None}


def _entry(rule: Rule | TensorRule, page: str | None, check: str | None) -> dict[str, Any]:
    breaks = msgspec.to_builtins(rule.breaks)
    return {"id": rule.id, "text": rule.text, "page": page, "check": check, "derived": rule.derived, "breaks": breaks}


def _print_rule(rule: Mapping[str, Any]) -> None:
    print_line(f"{rule['id']}  {rule['text']}")
    if rule["check"]:
        print_line("states:")
        for text in rule["check"].splitlines():
            print_line(f"  {text}")
    derived = "none: the rule is derived, and a descriptor that breaks it has no documented meaning"
    print_line(f"page: {rule['page'] or derived}")
    breaks = rule["breaks"]
    if breaks is None:
        print_line("broken by: nothing at the highest feature level")
        return
    changes = ", ".join(f"{name} = {value}" for name, value in breaks["set"].items())
    print_line(f"broken by: example {breaks['example']} of {breaks['operator']}'s page with {changes}")
