"""From a case to a verdict: map, run, compare bit for bit with what the page's pseudocode gives."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..cases.case import Case
from ..descriptors import FEATURE_LEVELS, OperatorDesc
from ..dxdispatch import Dispatch, desc_json
from ..errors import MappingError, ProviderError
from ..execution.arrays import dtype_of, from_array, to_array, wrong_outputs
from ..execution.provider import origin
from ..execution.providers import OpenProvider
from ..mapping import IndexConversion, MappedModel, map_descriptor
from ..tensors import DataType, from_bits, plain
from .compare import differences, explain, undefined
from .record import LoweredRecord, PlacementRecord, Record, TensorRecord

MAX_LISTED = 10_000
"""Elements up to which a record lists an output in full."""

MAX_DIFFERENCES = 10
"""Differences that a record lists where the output is too large to be listed."""

_INT32 = 2**31


@dataclass(frozen=True)
class Judge:
    """Judges cases on one provider.

    `index_conversion` None means: in the graph, or as the DirectML EP does best there. With `brief`, what passed keeps a
    digest of its output in place of the values.
    """

    provider: OpenProvider
    feature_level: str = FEATURE_LEVELS[-1]
    index_conversion: IndexConversion | None = None
    brief: bool = False

    def __call__(self, case: Case) -> Record:
        """The record of one valid case. What the feature level does not support is `unsupported`; a provider's errors
        become verdicts, nothing is raised for them."""
        known = self._known(case)
        desc = case.desc
        violations = desc.violations(feature_level=self.feature_level)
        if violations:
            told = broken(violations, None)
            if all(desc.spec().rule(rule).check == "support" for rule in told["rules"]):
                told["verdict"] = "unsupported"
            return Record(**known, **told)
        expected = case.expected
        lacking = undefined(expected)
        try:
            mapped = map_descriptor(
                desc,
                index_conversion=self._conversion(),
                fits_int32=_fits_int32(case),
                index_path=case.index_path,
                values=case.tensors,
            )
        except MappingError as error:
            known["expected"] = self._tensor_record(desc, expected)
            return Record(**known, verdict="error", stage="map", message=str(error))
        known["substitutions"] = [str(s) for s in mapped.substitutions]
        known["lowered_as"] = LoweredRecord(**desc_json(mapped.lowered_as))
        try:
            outputs = self._run(case, mapped)
        except ProviderError as error:
            known["placement"] = self._placement()
            known["expected"] = self._tensor_record(desc, expected)
            if lacking and error.verdict == "error" and error.stage == "run":
                message = f"an index is out of range, and {self.provider.name} refused it: {error}"
                return Record(**known, verdict="observed", stage="run", message=message)
            return Record(
                **known, verdict=error.verdict, stage=error.stage, path=origin(str(error)), message=str(error)
            )
        placement = known["placement"] = self._placement()
        problem = wrong_outputs(outputs, dtype_of(desc.output.data_type), desc.output.sizes)
        if problem:
            known["expected"] = self._tensor_record(desc, expected)
            return Record(**known, verdict="mismatch", stage="compare", message=problem)
        actual = from_array(outputs[0])
        wrong = differences(expected, actual.bits)
        brief = self.brief and not wrong
        known["expected"] = self._tensor_record(desc, expected, wrong, brief=brief)
        known["actual"] = self._tensor_record(desc, actual.bits, wrong, brief=brief)
        if wrong:
            return Record(**known, verdict="mismatch", stage="compare", message=explain(case, expected, wrong, actual))
        if placement is None or not placement.proven:
            return Record(**known, verdict="fallback", message=self._unproven(placement))
        if lacking:
            message = f"{lacking} of {len(expected)} elements are read with an index out of range, and not judged"
            return Record(**known, verdict="observed", message=message)
        return Record(**known, verdict="pass")

    def dispatch(self, dispatch: Dispatch, file: str) -> Record:
        """The record of a dispatch command that was read from a file."""
        refusal = refuse(dispatch, file, provider=self.provider.name, feature_level=self.feature_level)
        return refusal or self(Case(dispatch.name, dispatch.desc, dispatch.tensors, file))

    # --- running ---

    def _known(self, case: Case) -> dict:
        return {
            "file": case.file,
            "case": case.id,
            "operator": f"DML_OPERATOR_{case.desc.operator}",
            "provider": self.provider.name,
            "device_class": self.provider.device_class,
        }

    def _conversion(self) -> IndexConversion:
        return self.index_conversion or ("directml" if self.provider.directml else "graph")

    def _run(self, case: Case, mapped: MappedModel) -> Sequence[np.ndarray]:
        if self.provider.runs_cases:
            return self.provider.run_case(case)
        feeds = {name: to_array(tensor) for name, tensor in mapped.feed(case.tensors).items()}
        return self.provider.run(mapped.model_bytes, feeds)

    def _placement(self) -> PlacementRecord | None:
        placement = self.provider.placement()
        if placement is None:
            return None
        return PlacementRecord(placement.proves(self.provider.name), placement.source, list(placement.nodes))

    def _unproven(self, placement: PlacementRecord | None) -> str:
        if placement is None or not placement.nodes:
            return f"nothing shows that a node ran on {self.provider.name}"
        elsewhere = ", ".join(f"{op} on {name}" for op, name in placement.nodes if name != self.provider.name)
        return f"asked for {self.provider.name}, got {elsewhere}"

    # --- recording ---

    def _tensor_record(
        self, desc: OperatorDesc, bits, wrong: Sequence[int] = (), *, brief: bool = False
    ) -> TensorRecord:
        """An output: listed in full, or where it is large or `brief`, as a digest with the first differences."""
        output = desc.output
        width = output.data_type.size * 2
        known = array(output.data_type.bits_code, bits if not undefined(bits) else [b or 0 for b in bits])
        if brief or len(bits) > MAX_LISTED:
            digest = hashlib.sha256(known).hexdigest()  # undefined elements as zero
            listed = [{"element": i, "Bits": f"{bits[i]:0{width}x}"} for i in wrong[:MAX_DIFFERENCES]]
            return TensorRecord(output.data_type.name, list(output.sizes), None, None, digest, listed)
        values = from_bits(output.data_type, known)
        return TensorRecord(
            output.data_type.name,
            list(output.sizes),
            [plain(v) if b is not None else None for v, b in zip(values, bits)],
            [f"{b:0{width}x}" if b is not None else None for b in bits],
        )


def refuse(dispatch: Dispatch, file: str, *, provider: str, feature_level: str) -> Record | None:
    """The record of a dispatch that no provider can be given: broken rules, or a file that cannot be used."""
    known = {"file": file, "case": dispatch.name, "operator": dispatch.operator, "provider": provider}
    violations = dispatch.desc.violations(feature_level=feature_level) if dispatch.desc else ()
    if violations:
        return Record(**known, **broken(violations, dispatch.path))
    if dispatch.error is not None:
        return Record(**known, verdict="error", stage="read", path=dispatch.error.path, message=dispatch.error.message)
    return None


def broken(violations, path: str | None) -> dict:
    """What a record says of broken rules."""
    first = violations[0]
    return {
        "verdict": "error",
        "stage": "validate",
        "rule": first.rule,
        "rules": list(dict.fromkeys(v.rule for v in violations)),
        "path": f"{path}.{first.subject}" if path else first.subject,
        "message": f"{first.message} ({first.rule})",
    }


def _fits_int32(case: Case) -> bool:
    tensors = [case.tensors[name] for name in case.desc.index_tensors()]
    return all(t.data_type is DataType.INT32 or (-_INT32 <= min(t.values) and max(t.values) < _INT32) for t in tensors)
