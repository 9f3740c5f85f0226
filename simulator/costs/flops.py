"""The cost table: for each op its category, the arithmetic that it does, and the bytes that it moves.

arithmetic.py     ops that compute                                   Conv2D, MatMul, Exp, Svd ..
housekeeping.py   ops that move, keep, pass on and wait              Concat, ApplyAdam, QueueDequeue, Switch ..
host.py           what kernels of scalar code take of one core       DecodeJpeg, Unique, LookupTableFind ..
formulas/         what a row's words mean, by family
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from simulator.costs.arithmetic import ARITHMETIC, ON_MATRIX_UNITS
from simulator.costs.formulas.convolution import unrolled
from simulator.costs.formulas.instance import nothing, tensors
from simulator.costs.host import HOST
from simulator.costs.housekeeping import HANDED_OVER, HOUSEKEEPING, OPAQUE
from simulator.costs.rule import OTHER, Rule


def _rules() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    on_matrix_units = frozenset(ON_MATRIX_UNITS.split())
    for category, flops, moved, attrs, ops in ARITHMETIC + HOUSEKEEPING:
        for op in ops.split():
            scratch = unrolled if op.startswith(("Conv2D", "Conv3D")) else nothing
            rules[op] = Rule(
                category,
                flops,
                moved,
                tuple(attrs.split()),
                scratch=scratch,
                on_matrix_units=op in on_matrix_units,
                counts_real="FFT" in op,
            )
    for category, ops in HANDED_OVER:
        for op in ops.split():
            rules[op] = Rule(category, nothing, nothing, launches=False)
    for op in OPAQUE.split():
        rules[op] = Rule(OTHER, nothing, tensors, opaque=True)
    for core_ps, parts, assumes, ops in HOST:
        for op in ops.split():
            rules[op] = rules[op]._replace(core_ps=core_ps, parts=parts, assumes=assumes)
    return rules


RULES: Mapping[str, Rule] = MappingProxyType(_rules())

FALLBACK_RULE = Rule(OTHER, nothing, tensors)
"""An op that is not in the table costs a launch and the bytes of its known inputs and outputs; it is counted."""

_DATASET = Rule(OTHER, nothing, nothing, launches=False)  # only describes a pipeline; nothing is computed in the step


def rule(op: str) -> Rule | None:
    """The row of an op, or None where the table has none."""
    found = RULES.get(op)
    return _DATASET if found is None and "Dataset" in op else found
