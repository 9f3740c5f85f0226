"""Which device types have a kernel for a node, and which of its inputs and outputs that kernel keeps in host memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from simulator.graph.dtypes import INT32, REF, RESOURCE, STRING
from simulator.graph.graph import Attrs
from simulator.graph.ops import registry
from simulator.graph.ops.attributes import Values, Wanted, reader_of_list, text, values, wanted
from simulator.graph.ops.registry import Kernel, Plain, registered
from simulator.graph.ops.signatures import (
    Library,
    Ranges,
    Types,
    by_name,
    input_types,
    inputs,
    output_types,
    outputs,
    ranges_of,
    signature_attrs,
)

# Both the priority order of TensorFlow's device factories (GPU 210, CPU 60) and the types that are modelled.
DEVICE_TYPES = ("GPU", "CPU")
# common_runtime's IsFunctionCallOp: ops whose memory kinds follow from the types alone, like a library function's.
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient", "StatelessWhile", "While"})
_LABEL = "_kernel"
_HOST_INPUTS, _HOST_OUTPUTS = "_input_hostmem", "_output_hostmem"
_LISTED = reader_of_list("i")
_NOTHING: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())


class Support(NamedTuple):
    """What the kernel registry says of a node."""

    types: tuple[tuple[str, int], ...]  # device types that have a kernel for it, with its priority; best first
    elsewhere: bool = False  # kernels are registered for these types, but for other values of the attributes
    undeclared: str = ""  # an attribute that decides between kernels and that the op does not have


def kernel_types(op: str, attrs: Attrs) -> tuple[tuple[str, int], ...]:
    """Device types that have a kernel for the node, with the kernel's priority; best first; () means none."""
    return support(op, attrs).types


def support(op: str, attrs: Attrs, present: tuple[str, ...] = DEVICE_TYPES) -> Support:
    """Which of the device types that are present have a kernel for the node.

    TensorFlow's SupportedDeviceTypesForNode (common_runtime, framework/op_kernel.cc): by kernel priority, then in the
    order of `present`. An op that is not registered (a function, a custom op) may run on any. Two kernels of equal
    priority that match are an error in TensorFlow; its registry has no such pair.
    """
    if registry.facts(op) is None:
        return Support(tuple((device_type, 0) for device_type in present))
    return _support(op, values(kernel_attrs(op), attrs), present)


def host_memory(op: str, attrs: Attrs, device_type: str, library: Library) -> tuple[frozenset[int], frozenset[int]]:
    """Input slots and output ports that live in host memory when the node runs on a device of that type.

    TensorFlow's MemoryTypesForNode (framework/memory_types.cc): the kernel's host_memory_arg, strings and resources,
    the lists `_input_hostmem` and `_output_hostmem`; for a call, or without a kernel, int32 too. Nothing is known of
    an unknown op's slots: both sets are empty then.
    """
    if registry.facts(op) is not None:
        return _host_memory(op, device_type, values(signature_attrs(op), attrs), values(_host_attrs(op), attrs))
    given, taken = inputs(op, attrs, library), outputs(op, attrs, library)
    if given is None or taken is None:
        return _NOTHING
    more = [_LISTED(attrs[name]) if name in attrs else None for name in (_HOST_INPUTS, _HOST_OUTPUTS)]
    return _best_effort(given, more[0]), _best_effort(taken, more[1])


@lru_cache(maxsize=4096)
def kernel_attrs(op: str) -> Wanted:
    """The attributes on which the choice of a registered op's kernel depends; the label comes last."""
    given = registered(op)
    names = sorted({name for kernel in given.kernels for name, _ in kernel.constraints})
    return (*wanted(given, tuple(names)), (_LABEL, text, ""))


@lru_cache(maxsize=4096)
def _host_attrs(op: str) -> Wanted:
    extra = tuple((name, reader_of_list("i"), ()) for name in (_HOST_INPUTS, _HOST_OUTPUTS))
    return (*kernel_attrs(op), *extra)


def _holds(value: Plain, allowed: frozenset[Plain]) -> bool:
    if value is None:  # unknown: counts as matching
        return True
    return all(item in allowed for item in value) if isinstance(value, tuple) else value in allowed


def _kernel(op: str, device_type: str, value: Mapping[str, Plain]) -> Kernel | None:
    """The registration that TensorFlow finds: of that device type, else of DEFAULT; the highest priority wins."""
    for registered_for in (device_type, "DEFAULT"):
        matching = [
            kernel
            for kernel in registered(op).kernels
            if kernel.device_type == registered_for
            and kernel.label == value[_LABEL]
            and all(_holds(value[name], allowed) for name, allowed in kernel.constraints)
        ]
        if matching:
            return max(matching, key=lambda kernel: kernel.priority)
    return None


def _by_constraint(op: str, values: Values) -> dict[str, Plain]:
    named = {name: value for (name, _, _), value in zip(kernel_attrs(op), values, strict=True)}
    named[_LABEL] = named[_LABEL] or ""
    return named


@lru_cache(maxsize=16_384)
def _support(op: str, values: Values, present: tuple[str, ...]) -> Support:
    value = _by_constraint(op, values)
    looked_at = [
        kernel
        for kernel in registered(op).kernels
        if kernel.label == value[_LABEL] and kernel.device_type in (*present, "DEFAULT")
    ]
    found = [(device_type, _kernel(op, device_type, value)) for device_type in present]
    types = [(device_type, kernel.priority) for device_type, kernel in found if kernel]
    return Support(
        types=tuple(sorted(types, key=lambda pair: -pair[1])),
        elsewhere=any(not _holds(value[name], allowed) for kernel in looked_at for name, allowed in kernel.constraints),
        undeclared=next((name for kernel in looked_at for name in [_undeclared(op, kernel, value)] if name), ""),
    )


def _undeclared(op: str, kernel: Kernel, value: Mapping[str, Plain]) -> str:
    """The attribute that the kernel asks for and no node of the op can have, unless another one rules it out before."""
    for name, allowed in kernel.constraints:
        if name not in registered(op).attrs and value[name] is None:
            return name
        if not _holds(value[name], allowed):
            return ""
    return ""


def _always_on_host(types: Types) -> set[int]:
    return {slot for slot, dtype in enumerate(types) if dtype % REF in (STRING, RESOURCE)}


def _best_effort(types: Types, extra: Plain = None) -> frozenset[int]:
    """What MemoryTypesForNode supposes of a node without a kernel: integers are on the host, references to them not."""
    return _slots(None, types, frozenset(), extra) | {slot for slot, dtype in enumerate(types) if dtype == INT32}


@lru_cache(maxsize=16_384)
def _host_memory(op: str, device_type: str, signature: Values, values: Values) -> tuple[frozenset[int], frozenset[int]]:
    *constrained, host_inputs, host_outputs = values
    given, taken = input_types(op, signature), output_types(op, signature)
    if given is None or taken is None:
        return _NOTHING
    kernel = None if op in _CALLS else _kernel(op, device_type, _by_constraint(op, tuple(constrained)))
    if kernel is None:
        return _best_effort(given, host_inputs), _best_effort(taken, host_outputs)
    value = by_name(op, signature)
    return (
        _slots(ranges_of(registered(op).inputs, value), given, kernel.host_memory, host_inputs),
        _slots(ranges_of(registered(op).outputs, value), taken, kernel.host_memory, host_outputs),
    )


def _slots(ranges: Ranges | None, types: Types, host: frozenset[str], extra: Plain) -> frozenset[int]:
    slots = _always_on_host(types)
    for name, first, last in ranges or ():
        if name in host:
            slots.update(range(first, last))
    if isinstance(extra, tuple):
        slots.update(slot for slot in extra if isinstance(slot, int) and 0 <= slot < len(types))
    return frozenset(slots)
