"""Facts about ops: their inputs and outputs, which device types have a kernel, what lives in host memory.

All of it comes from the registries of one TensorFlow release (graph/ops/registry.py). An attribute that a node lacks
counts as the op's default; where there is none, as matching every kernel: `missing_attrs` says which ones, so that
callers can count them. Answers are remembered per op and values of the attributes that matter, because the thousands
of nodes of a graph differ in few of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from simulator.graph.graph import Attrs
from simulator.graph.ops import registry
from simulator.graph.ops.kernels import DEVICE_TYPES, Support, host_memory, kernel_attrs, kernel_types, support
from simulator.graph.ops.registry import Plain
from simulator.graph.ops.signatures import MAX_ARGUMENTS, inputs, output_ranges, outputs, signature_attrs

__all__ = [
    "DEVICE_TYPES",
    "MAX_ARGUMENTS",
    "Support",
    "defaults",
    "host_memory",
    "inputs",
    "is_stateful",
    "kernel_types",
    "known",
    "missing_attrs",
    "output_ranges",
    "outputs",
    "support",
]


def known(op: str) -> bool:
    """Whether TensorFlow registers the op; library functions and custom ops are not registered."""
    return registry.facts(op) is not None


def is_stateful(op: str) -> bool:
    """Whether the op's registration says that it has state; False for an op that is not registered."""
    found = registry.facts(op)
    return found is not None and found.stateful


def defaults(op: str) -> Mapping[str, Plain]:
    """The op's default attribute values; dtypes are DataType numbers, lists and shapes tuples, None an unknown rank."""
    found = registry.facts(op)
    return found.defaults if found else {}


def missing_attrs(op: str, attrs: Attrs) -> tuple[str, ...]:
    """Attributes that the op requires and the node lacks, sorted: those that count as matching every kernel."""
    found = registry.facts(op)
    if found is None:
        return ()
    return tuple(name for name in _required(op) if attrs.get(name) is None)


@lru_cache(maxsize=4096)
def _required(op: str) -> tuple[str, ...]:
    needed = {name for name, _, default in (*signature_attrs(op), *kernel_attrs(op)) if default is None}
    return tuple(sorted(needed))
