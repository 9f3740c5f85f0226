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
from typing import NamedTuple, TypeAlias

from simulator.errors import GraphError
from simulator.graph import registry
from simulator.graph.dtypes import INT32, REF, RESOURCE, STRING
from simulator.graph.graph import Attrs
from simulator.graph.messages import Proto
from simulator.graph.registry import Argument, FunctionMessage, Kernel, OpFacts, Plain, registered

# --- registration ----------------------------------------------------------------------------------------------------


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


# --- attributes ------------------------------------------------------------------------------------------------------


Values: TypeAlias = tuple[Plain, ...]
Reader: TypeAlias = Callable[[Proto], Plain]  # of an AttrValue message
Wanted: TypeAlias = tuple[tuple[str, Reader, Plain], ...]  # name, how to read it, what it is when absent


def reader_of_list(field: str) -> Reader:
    """How to read one field of a list attribute."""
    read = attrgetter(f"list.{field}")
    return lambda value: tuple(read(value)) if value.HasField("list") else None


def _scalar(field: str) -> Reader:
    read: Reader = attrgetter(field)
    return lambda value: read(value) if value.HasField(field) else None


def text(value: Proto) -> Plain:
    """A string attribute."""
    return str(value.s.decode("latin-1")) if value.HasField("s") else None


def texts(value: Proto) -> Plain:
    """A list of strings."""
    return tuple(item.decode("latin-1") for item in value.list.s) if value.HasField("list") else None


_READERS: Mapping[str, Reader] = {
    "type": lambda value: value.type or None,
    "int": _scalar("i"),
    "bool": _scalar("b"),
    "string": text,
    "list(type)": reader_of_list("type"),
    "list(int)": reader_of_list("i"),
    "list(bool)": reader_of_list("b"),
    "list(string)": texts,
}


def plain(value: Proto) -> Plain:
    """An AttrValue of any kind as `defaults` has it; a tensor or function, on which no rule depends, as its text."""
    kind = value.WhichOneof("value")
    if kind == "list":
        return tuple(_item(field.name, item) for field, items in value.list.ListFields() for item in items)
    return None if kind is None else _item(kind, getattr(value, kind))


def _item(kind: str, item: Proto) -> Plain:
    if kind == "s":
        return str(item.decode("latin-1"))
    if kind == "shape":
        return None if item.unknown_rank else tuple(dim.size for dim in item.dim)
    found: Plain = item if kind in {"i", "f", "b", "type"} else str(item)
    return found


def wanted(given: OpFacts, names: tuple[str, ...]) -> Wanted:
    """How to read those attributes of that op; one of another kind, or undeclared, is taken for a type."""
    readers = (_READERS.get(given.attrs.get(name, ""), _READERS["type"]) for name in names)
    return tuple((name, read, given.defaults.get(name)) for name, read in zip(names, readers, strict=True))


def values(given: Wanted, attrs: Attrs) -> Values:
    """The values of those attributes; None: absent and without a default, or not of the kind that it should be."""
    found = []
    for name, read, default in given:
        value = attrs.get(name)
        found.append(default if value is None else read(value))
    return tuple(found)


# --- arguments -------------------------------------------------------------------------------------------------------


Types: TypeAlias = tuple[int, ...]
Ranges: TypeAlias = tuple[tuple[str, int, int], ...]
Library: TypeAlias = Mapping[str, FunctionMessage]

MAX_ARGUMENTS = 65_536  # tensors that one op may take or give; the largest known graphs stay below a thousandth of it


def inputs(op: str, attrs: Attrs, library: Library) -> Types | None:
    """DataType per data input, +100 for a reference, 0 where unknown.

    None: the op is unknown, or an attribute that says how many inputs there are is missing.
    Raises GraphError when the node claims more than MAX_ARGUMENTS.
    """
    if registry.facts(op) is not None:
        return input_types(op, values(signature_attrs(op), attrs))
    return _called(op, attrs, library, "inputs")


def outputs(op: str, attrs: Attrs, library: Library) -> Types | None:
    """DataType per output; otherwise as `inputs`."""
    if registry.facts(op) is not None:
        return output_types(op, values(signature_attrs(op), attrs))
    return _called(op, attrs, library, "outputs")


def _called(op: str, attrs: Attrs, library: Library, side: str) -> Types | None:
    """The types of a library function's arguments or results."""
    function = library.get(op)
    if function is None:
        return None
    given = registry.signature(function)
    return _function_types(given, side, values(_function_attrs(given), attrs))


def output_ranges(op: str, attrs: Attrs, library: Library) -> Ranges | None:
    """Per output argument its name, its first port and the port after its last: what "node:argument:index" means.

    None as for `inputs`.
    """
    if registry.facts(op) is not None:
        return _output_ranges(op, values(signature_attrs(op), attrs))
    function = library.get(op)
    if function is None:
        return None
    given = registry.signature(function)
    return ranges_of(given.outputs, values_of(given, attrs))


def _signature_names(given: OpFacts) -> tuple[str, ...]:
    args = (*given.inputs, *given.outputs)
    named = {name for arg in args for name in (arg.type_attr, arg.number_attr, arg.list_attr) if name}
    return tuple(sorted(named))


@lru_cache(maxsize=4096)
def signature_attrs(op: str) -> Wanted:
    """The attributes on which the number and types of a registered op's arguments depend."""
    return wanted(registered(op), _signature_names(registered(op)))


def _count(argument: Argument, value: Mapping[str, Plain]) -> int | None:
    """How many tensors an argument stands for; None when an attribute that says so is missing."""
    if argument.list_attr:
        types = value.get(argument.list_attr)
        return len(types) if isinstance(types, tuple) else None
    if not argument.number_attr:
        return 1
    number = value.get(argument.number_attr)
    return max(number, 0) if isinstance(number, int) else None


def ranges_of(arguments: tuple[Argument, ...], value: Mapping[str, Plain]) -> Ranges | None:
    """First and last + 1 slot per argument, given the attribute values; None when one that matters is unknown."""
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
    ranges = ranges_of(arguments, value)
    if ranges is None:
        return None
    flat: list[int] = []
    for argument, (_, first, last) in zip(arguments, ranges, strict=True):
        if argument.list_attr:
            types = value[argument.list_attr]
            assert isinstance(types, tuple), types  # it has been counted
        else:
            types = (value.get(argument.type_attr) if argument.type_attr else argument.dtype,) * (last - first)
        reference = REF if argument.is_ref else 0
        flat += [dtype + reference if isinstance(dtype, int) and dtype else 0 for dtype in types]
    return tuple(flat)


def by_name(op: str, found: Values) -> dict[str, Plain]:
    """The values of `signature_attrs(op)` by attribute name."""
    return {name: value for (name, _, _), value in zip(signature_attrs(op), found, strict=True)}


@lru_cache(maxsize=16_384)
def input_types(op: str, found: Values) -> Types | None:
    """`inputs` of a registered op from the values of its `signature_attrs`."""
    return _flat(registered(op).inputs, by_name(op, found))


@lru_cache(maxsize=16_384)
def output_types(op: str, found: Values) -> Types | None:
    """`outputs` of a registered op from the values of its `signature_attrs`."""
    return _flat(registered(op).outputs, by_name(op, found))


@lru_cache(maxsize=16_384)
def _output_ranges(op: str, found: Values) -> Ranges | None:
    return ranges_of(registered(op).outputs, by_name(op, found))


@lru_cache(maxsize=4096)
def _function_attrs(given: OpFacts) -> Wanted:
    return wanted(given, _signature_names(given))


def values_of(given: OpFacts, attrs: Attrs) -> dict[str, Plain]:
    """The values, in a call, of the attributes on which a function's arguments and results depend."""
    read = _function_attrs(given)
    return {name: value for (name, _, _), value in zip(read, values(read, attrs), strict=True)}


@lru_cache(maxsize=16_384)
def _function_types(given: OpFacts, side: str, found: Values) -> Types | None:
    value = {name: known for (name, _, _), known in zip(_function_attrs(given), found, strict=True)}
    return _flat(given.inputs if side == "inputs" else given.outputs, value)


# --- kernels and host memory -----------------------------------------------------------------------------------------


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
