"""`opmap rules`: lists the rules of the documentation, or shows one rule with an example that breaks it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from ...errors import InputError
from ...evidence.terminal import print_line, write_json
from ...spec import Spec, all_specs, tensor_rules


@dataclass(frozen=True)
class RuleEntry:
    """One rule as it is listed; the fields are the keys of the JSON document.

    `page` is None for a derived rule, and `check` is None for a rule that is written in Python. `breaks` names an example
    of an operator's page, and the fields to change in it.
    """

    id: str
    text: str
    page: str | None
    check: str | None
    derived: bool
    breaks: dict[str, Any]


def run(options: Namespace) -> int:
    """Prints the rules, or with --check-on how DirectML sees them. Raises InputError for an unknown rule id.

    Raises ProviderMissing if there is no DirectML.
    """
    if options.check_on:
        return _checked_on(options)
    entries = list(_entries())
    if options.id is not None:
        entries = [entry for entry in entries if entry.id == options.id.upper()]
        if not entries:
            raise InputError(f"rules: must be a rule id, as TENSOR.C1 (opmap rules lists them), got {options.id!r}")
    if options.json:
        write_json([asdict(entry) for entry in entries])
    elif options.id is None:
        for entry in entries:
            print_line(f"{entry.id:20} {entry.text}")
    else:
        _print_rule(entries[0])
    return 0


def _checked_on(options: Namespace) -> int:
    """Asks DirectML about descriptors that keep or break the rules, and prints its answers. Returns 0: nothing is judged."""
    from ...catalogue.rule_breaks import questions
    from ...engines import providers
    from ...engines.direct import DirectProvider
    from ...evidence.rule_table import RulesDocument, print_rules
    from ...judge.against import rule_rows
    from ...session.options import SessionOptions

    wanted = options.id and options.id.upper()
    chosen = [q for q in questions() if wanted is None or q.source == wanted]
    if not chosen:
        raise InputError(f"rules: must be a rule id, as TENSOR.C1 (opmap rules lists them), got {options.id!r}")
    opened = providers.open_provider(options.check_on, **SessionOptions.read(vars(options)).place)
    try:
        assert isinstance(opened.provider, DirectProvider), "--check-on takes directml only"
        if opened.device_class == "emulated":
            opened.provider.ignore_hangs()
        rows = list(rule_rows(opened.provider, chosen))
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


def _entries() -> Iterator[RuleEntry]:
    """Yields the rules of every tensor, then those of each operator."""
    tensors = tensor_rules()
    for rule in tensors.rules:
        yield RuleEntry(rule.id, rule.text, tensors.address, None, False, msgspec.to_builtins(rule.breaks))
    for spec in all_specs():
        yield from _operator_entries(spec.corrected)


def _operator_entries(spec: Spec) -> Iterator[RuleEntry]:
    for rule in spec.rules:
        page = None if rule.derived else f"{spec.page.address} (line {rule.line} at {spec.page.commit})"
        breaks = {**msgspec.to_builtins(rule.breaks), "operator": spec.name}
        yield RuleEntry(rule.id, rule.text, page, rule.check.strip(), rule.derived, breaks)


def _print_rule(rule: RuleEntry) -> None:
    print_line(f"{rule.id}  {rule.text}")
    if rule.check:
        print_line("states:")
        for text in rule.check.splitlines():
            print_line(f"  {text}")
    print_line(
        f"page: {rule.page or 'none: the rule is derived, and a descriptor that breaks it has no documented meaning'}"
    )
    changes = ", ".join(f"{name} = {value}" for name, value in rule.breaks["set"].items())
    print_line(f"broken by: example {rule.breaks['example']} of {rule.breaks['operator']}'s page with {changes}")
