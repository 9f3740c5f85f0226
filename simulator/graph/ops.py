"""Facts about ops: their inputs and outputs, which device types have a kernel, what lives in host memory.

All of it comes from the registries of one TensorFlow release (graph/registry.py). An attribute that a node lacks
counts as the op's default; where there is none, as matching every kernel: `missing_attrs` says which ones, so that
callers can count them. Answers are remembered per op and values of the attributes that matter, because the thousands
of nodes of a graph differ in few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

from simulator.errors import GraphError
from simulator.graph import registry
from simulator.graph.graph import Attrs
from simulator.graph.registry import Argument, FunctionMessage, Kernel, OpFacts, Plain

Types: TypeAlias = tuple[int, ...]
Ranges: TypeAlias = tuple[tuple[str, int, int], ...]
Library: TypeAlias = Mapping[str, FunctionMessage]
Values: TypeAlias = tuple[Plain, ...]

MAX_ARGUMENTS = 65_536  # tensors that one op may take or give; the largest known graphs stay below a thousandth of it
REFERENCE = 100  # DataType of a reference = DataType of its value + this
INT32, STRING, RESOURCE = 3, 7, 20
# Both the priority order of TensorFlow's device factories (GPU 210, CPU 60) and the types that are modelled.
DEVICE_TYPES = ("GPU", "CPU")
# common_runtime's IsFunctionCallOp: ops whose memory kinds follow from the types alone, like a library function's.
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient", "While"})
_LABEL = "_kernel"
_HOST_INPUTS, _HOST_OUTPUTS = "_input_hostmem", "_output_hostmem"
_NOTHING: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())


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


def inputs(op: str, attrs: Attrs, library: Library) -> Types | None:
    """DataType per data input, +100 for a reference, 0 where unknown.

    None: the op is unknown, or an attribute that says how many inputs there are is missing.
    Raises GraphError when the node claims more than MAX_ARGUMENTS.
    """
    found = registry.facts(op)
    if found is not None:
        return _input_types(op, _values(_signature_attrs(op), attrs))
    function = library.get(op)
    if function is None:
        return None
    return _function_types(registry.signature(function), attrs, "inputs")


def outputs(op: str, attrs: Attrs, library: Library) -> Types | None:
    """DataType per output; otherwise as `inputs`."""
    found = registry.facts(op)
    if found is not None:
        return _output_types(op, _values(_signature_attrs(op), attrs))
    function = library.get(op)
    if function is None:
        return None
    return _function_types(registry.signature(function), attrs, "outputs")


def output_ranges(op: str, attrs: Attrs, library: Library) -> Ranges | None:
    """Per output argument its name, its first port and the port after its last: what "node:argument:index" means.

    None as for `inputs`.
    """
    found = registry.facts(op)
    if found is not None:
        return _output_ranges(op, _values(_signature_attrs(op), attrs))
    function = library.get(op)
    if function is None:
        return None
    given = registry.signature(function)
    return _ranges(given.outputs, _named(given, attrs))


def kernel_types(op: str, attrs: Attrs) -> tuple[tuple[str, int], ...]:
    """Device types that have a kernel for the node, with the kernel's priority; best first.

    TensorFlow's SupportedDeviceTypesForNode (common_runtime, framework/op_kernel.cc): by kernel priority, then GPU
    before CPU. An op that is not registered (a function, a custom op) may run on either; () means no kernel at all.
    """
    if registry.facts(op) is None:
        return tuple((device_type, 0) for device_type in DEVICE_TYPES)
    return _kernel_types(op, _values(_kernel_attrs(op), attrs))


def host_memory(op: str, attrs: Attrs, device_type: str, library: Library) -> tuple[frozenset[int], frozenset[int]]:
    """Input slots and output ports that live in host memory when the node runs on a device of that type.

    TensorFlow's MemoryTypesForNode (framework/memory_types.cc): the kernel's host_memory_arg, strings and resources,
    the lists `_input_hostmem` and `_output_hostmem`; for a call, or without a kernel, int32 too. Nothing is known of
    an unknown op's slots: both sets are empty then.
    """
    if registry.facts(op) is not None:
        return _host_memory(op, device_type, _values(_signature_attrs(op), attrs), _values(_host_attrs(op), attrs))
    given, taken = inputs(op, attrs, library), outputs(op, attrs, library)
    if given is None or taken is None:
        return _NOTHING
    return _best_effort(given, taken)


# ---- the attributes that matter, and reading them -----------------------------------------------------------------

Reader: TypeAlias = Callable[[Any], Plain]  # Any: an AttrValue message (see graph.Attrs)
Wanted: TypeAlias = tuple[tuple[str, Reader, Plain], ...]  # name, how to read it, what it is when absent


def _list(field: str) -> Reader:
    read = attrgetter(f"list.{field}")
    return lambda value: tuple(read(value)) if value.HasField("list") else None


def _scalar(field: str) -> Reader:
    read: Reader = attrgetter(field)
    return lambda value: read(value) if value.HasField(field) else None


def _text(value: Any) -> Plain:
    return str(value.s.decode("latin-1")) if value.HasField("s") else None


def _texts(value: Any) -> Plain:
    return tuple(item.decode("latin-1") for item in value.list.s) if value.HasField("list") else None


_READERS: Mapping[str, Reader] = {
    "type": lambda value: value.type or None,
    "int": _scalar("i"),
    "bool": _scalar("b"),
    "string": _text,
    "list(type)": _list("type"),
    "list(int)": _list("i"),
    "list(bool)": _list("b"),
    "list(string)": _texts,
}


def _wanted(given: OpFacts, names: tuple[str, ...]) -> Wanted:
    return tuple((name, _READERS[given.attrs.get(name, "type")], given.defaults.get(name)) for name in names)


def _values(wanted: Wanted, attrs: Attrs) -> Values:
    """The values of those attributes; None: absent and without a default, or not of the kind that it should be."""
    found = []
    for name, read, default in wanted:
        value = attrs.get(name)
        found.append(default if value is None else read(value))
    return tuple(found)


def _facts(op: str) -> OpFacts:
    found = registry.facts(op)
    assert found is not None, op  # callers have asked
    return found


def _signature_names(given: OpFacts) -> tuple[str, ...]:
    args = (*given.inputs, *given.outputs)
    named = {name for arg in args for name in (arg.type_attr, arg.number_attr, arg.list_attr) if name}
    return tuple(sorted(named))


@lru_cache(maxsize=4096)
def _signature_attrs(op: str) -> Wanted:
    return _wanted(_facts(op), _signature_names(_facts(op)))


@lru_cache(maxsize=4096)
def _kernel_attrs(op: str) -> Wanted:
    given = _facts(op)
    names = sorted({name for kernel in given.kernels for name, _ in kernel.constraints})
    return (*_wanted(given, tuple(names)), (_LABEL, _text, ""))


@lru_cache(maxsize=4096)
def _host_attrs(op: str) -> Wanted:
    extra = tuple((name, _list("i"), ()) for name in (_HOST_INPUTS, _HOST_OUTPUTS))
    return (*_kernel_attrs(op), *extra)


@lru_cache(maxsize=4096)
def _required(op: str) -> tuple[str, ...]:
    needed = {name for name, _, default in (*_signature_attrs(op), *_kernel_attrs(op)) if default is None}
    return tuple(sorted(needed))


# ---- inputs and outputs ---------------------------------------------------------------------------------------------


def _count(argument: Argument, value: Mapping[str, Plain]) -> int | None:
    """How many tensors an argument stands for; None when an attribute that says so is missing."""
    if argument.list_attr:
        types = value.get(argument.list_attr)
        return len(types) if isinstance(types, tuple) else None
    if not argument.number_attr:
        return 1
    number = value.get(argument.number_attr)
    return max(number, 0) if isinstance(number, int) else None


def _ranges(arguments: tuple[Argument, ...], value: Mapping[str, Plain]) -> Ranges | None:
    ranges = []
    at = 0
    for argument in arguments:
        number = _count(argument, value)
        if number is None:
            return None
        if at + number > MAX_ARGUMENTS:
            raise GraphError(
                f"A node claims more than {MAX_ARGUMENTS:,} tensors for the argument {argument.name!r} of its op; "
                f"check its attribute {argument.list_attr or argument.number_attr!r}."
            )
        ranges.append((argument.name, at, at + number))
        at += number
    return tuple(ranges)


def _flat(arguments: tuple[Argument, ...], value: Mapping[str, Plain]) -> Types | None:
    ranges = _ranges(arguments, value)
    if ranges is None:
        return None
    flat: list[int] = []
    for argument, (_, first, last) in zip(arguments, ranges, strict=True):
        if argument.list_attr:
            types = value[argument.list_attr]
            assert isinstance(types, tuple), types  # it has been counted
        else:
            types = (value.get(argument.type_attr) if argument.type_attr else argument.dtype,) * (last - first)
        reference = REFERENCE if argument.is_ref else 0
        flat += [dtype + reference if isinstance(dtype, int) and dtype else 0 for dtype in types]
    return tuple(flat)


def _by_name(op: str, values: Values) -> dict[str, Plain]:
    return {name: value for (name, _, _), value in zip(_signature_attrs(op), values, strict=True)}


@lru_cache(maxsize=16_384)
def _input_types(op: str, values: Values) -> Types | None:
    return _flat(_facts(op).inputs, _by_name(op, values))


@lru_cache(maxsize=16_384)
def _output_types(op: str, values: Values) -> Types | None:
    return _flat(_facts(op).outputs, _by_name(op, values))


@lru_cache(maxsize=16_384)
def _output_ranges(op: str, values: Values) -> Ranges | None:
    return _ranges(_facts(op).outputs, _by_name(op, values))


def _named(given: OpFacts, attrs: Attrs) -> dict[str, Plain]:
    names = _signature_names(given)
    return dict(zip(names, _values(_wanted(given, names), attrs), strict=True))


def _function_types(given: OpFacts, attrs: Attrs, side: str) -> Types | None:
    return _flat(given.inputs if side == "inputs" else given.outputs, _named(given, attrs))


# ---- kernels and memory kinds -----------------------------------------------------------------------------------


def _holds(value: Plain, allowed: frozenset[Plain]) -> bool:
    if value is None:  # unknown: counts as matching
        return True
    return all(item in allowed for item in value) if isinstance(value, tuple) else value in allowed


def _kernel(op: str, device_type: str, value: Mapping[str, Plain]) -> Kernel | None:
    """The registration that TensorFlow finds: of that device type, else of DEFAULT; the highest priority wins."""
    for wanted in (device_type, "DEFAULT"):
        matching = [
            kernel
            for kernel in _facts(op).kernels
            if kernel.device_type == wanted
            and kernel.label == value[_LABEL]
            and all(_holds(value[name], allowed) for name, allowed in kernel.constraints)
        ]
        if matching:
            return max(matching, key=lambda kernel: kernel.priority)
    return None


def _by_constraint(op: str, values: Values) -> dict[str, Plain]:
    named = {name: value for (name, _, _), value in zip(_kernel_attrs(op), values, strict=True)}
    named[_LABEL] = named[_LABEL] or ""
    return named


@lru_cache(maxsize=16_384)
def _kernel_types(op: str, values: Values) -> tuple[tuple[str, int], ...]:
    value = _by_constraint(op, values)
    found = ((device_type, _kernel(op, device_type, value)) for device_type in DEVICE_TYPES)
    supported = [(device_type, kernel.priority) for device_type, kernel in found if kernel]
    return tuple(sorted(supported, key=lambda pair: -pair[1]))


def _always_on_host(types: Types, *more: int) -> set[int]:
    return {slot for slot, dtype in enumerate(types) if dtype % REFERENCE in (STRING, RESOURCE, *more)}


def _best_effort(given: Types, taken: Types) -> tuple[frozenset[int], frozenset[int]]:
    return frozenset(_always_on_host(given, INT32)), frozenset(_always_on_host(taken, INT32))


@lru_cache(maxsize=16_384)
def _host_memory(op: str, device_type: str, signature: Values, values: Values) -> tuple[frozenset[int], frozenset[int]]:
    *constrained, host_inputs, host_outputs = values
    given, taken = _input_types(op, signature), _output_types(op, signature)
    if given is None or taken is None:
        return _NOTHING
    kernel = None if op in _CALLS else _kernel(op, device_type, _by_constraint(op, tuple(constrained)))
    if kernel is None:
        return _best_effort(given, taken)
    value = _by_name(op, signature)
    slots, ports = _always_on_host(given), _always_on_host(taken)
    for side, arguments, extra in ((slots, _facts(op).inputs, host_inputs), (ports, _facts(op).outputs, host_outputs)):
        for name, first, last in _ranges(arguments, value) or ():
            if name in kernel.host_memory:
                side.update(range(first, last))
        if isinstance(extra, tuple):
            side.update(slot for slot in extra if isinstance(slot, int))
    in_range = frozenset(slot for slot in slots if 0 <= slot < len(given))
    return in_range, frozenset(port for port in ports if 0 <= port < len(taken))
