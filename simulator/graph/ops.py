"""Facts about ops: the types of inputs and outputs, the device types with a kernel, the slots in host memory.

The facts come from the registries of one TensorFlow release (graph/registry.py). An attribute that a node lacks counts
as the op's default. Where there is no default, it matches every kernel; `missing_attrs` lists such attributes. Answers
are cached per op and values of the attributes that matter, in which the thousands of nodes of a graph differ little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, TypeAlias, TypeVar

from simulator import limits
from simulator.errors import GraphError
from simulator.graph import registry
from simulator.graph.dtypes import INT32, NAMES, REF, RESOURCE, STRING
from simulator.graph.graph import Attrs, Graph
from simulator.graph.messages import Proto
from simulator.graph.registry import Argument, FunctionMessage, Kernel, OpFacts, Plain
from simulator.limits import Limit
from simulator.wording import counted

_Answer = TypeVar("_Answer")


def of_nodes(answer: Callable[[str, Attrs], _Answer], graph: Graph) -> list[_Answer]:
    """[N] `answer(op, attrs)` for each node, asked once for all nodes of one op that share their attributes."""
    return list(map(of_alike(answer, graph).__getitem__, graph.alike[1].tolist()))


def of_alike(answer: Callable[[str, Attrs], _Answer], graph: Graph) -> list[_Answer]:
    """`answer(op, attrs)` for each different pair of them, in the order of `Graph.alike`."""
    return [answer(graph.ops[row], graph.attrs[row]) for row in graph.alike[0].tolist()]


# --- registration ----------------------------------------------------------------------------------------------------


def known(op: str) -> bool:
    """Tell whether TensorFlow registers the op; library functions and custom ops are not registered."""
    return registry.facts(op) is not None


def is_stateful(op: str) -> bool:
    """Tell whether the op's registration says that it has state; False for an op that is not registered."""
    found = registry.facts(op)
    return found is not None and found.stateful


def defaults(op: str) -> Mapping[str, Plain]:
    """The op's default attribute values; dtypes are DataType numbers, lists and shapes tuples, None an unknown rank."""
    found = registry.facts(op)
    return found.defaults if found else {}


def missing_attrs(op: str, attrs: Attrs) -> tuple[str, ...]:
    """The sorted attributes that the op requires and the node lacks; they count as matching every kernel."""
    found = registry.facts(op)
    return tuple(name for name in _required(found) if attrs.get(name) is None) if found else ()


@lru_cache(maxsize=4096)
def _required(given: OpFacts) -> tuple[str, ...]:
    needed = {name for name, _, default in (*_signature_attrs(given), *_kernel_attrs(given)) if default is None}
    return tuple(sorted(needed))


# --- attributes ------------------------------------------------------------------------------------------------------


PlainValues: TypeAlias = tuple[Plain, ...]
Reader: TypeAlias = Callable[[Proto], Plain]  # of an AttrValue message
Wanted: TypeAlias = tuple[tuple[str, Reader, Plain], ...]  # name, reader, default


def _list_of(field: str) -> Reader:
    read = attrgetter(f"list.{field}")
    return lambda value: tuple(read(value)) if value.HasField("list") else None


def _scalar(field: str) -> Reader:
    read: Reader = attrgetter(field)
    return lambda value: read(value) if value.HasField(field) else None


def _text(value: Proto) -> Plain:
    return str(value.s.decode("latin-1")) if value.HasField("s") else None


def _texts(value: Proto) -> Plain:
    return tuple(item.decode("latin-1") for item in value.list.s) if value.HasField("list") else None


_READERS: Mapping[str, Reader] = {
    "type": lambda value: value.type or None,
    "int": _scalar("i"),
    "bool": _scalar("b"),
    "string": _text,
    "list(type)": _list_of("type"),
    "list(int)": _list_of("i"),
    "list(bool)": _list_of("b"),
    "list(string)": _texts,
}


def plain(value: Proto) -> Plain:
    """An AttrValue of any kind in the form of `defaults`; a tensor or function, on which no rule depends, as text."""
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


def _wanted(given: OpFacts, names: Iterable[str]) -> Wanted:
    """The readers of those attributes of the op; an attribute of another kind, or undeclared, is read as a type."""
    return tuple([(n, _READERS.get(given.attrs.get(n, ""), _READERS["type"]), given.defaults.get(n)) for n in names])


def _values(wanted: Wanted, attrs: Attrs) -> PlainValues:
    """The values of those attributes; None where one is absent and has no default, or is of another kind."""
    found = []
    for name, read, default in wanted:
        value = attrs.get(name)
        found.append(default if value is None else read(value))
    return tuple(found)


# --- arguments -------------------------------------------------------------------------------------------------------


Types: TypeAlias = tuple[int, ...]
Ranges: TypeAlias = tuple[tuple[str, int, int], ...]
Library: TypeAlias = Mapping[str, FunctionMessage]

_INPUTS, _OUTPUTS = "inputs", "outputs"


class _Side(NamedTuple):
    """The inputs of a node, or its outputs."""

    types: Types
    ranges: Ranges


def inputs(op: str, attrs: Attrs, library: Library) -> Types | None:
    """DataType per data input, +100 for a reference, 0 where unknown.

    None: the op is unknown, or an attribute that gives the number of inputs is missing.
    Raises GraphError when the node claims more than `limits.INPUTS`; `check_inputs` has refused a claim without inputs.
    """
    found = _side_of(op, attrs, library, _INPUTS)
    return None if found is None else found.types


def outputs(op: str, attrs: Attrs, library: Library) -> Types | None:
    """DataType per output; otherwise as `inputs`. Raises GraphError when the node claims more than `limits.CLAIMED`."""
    found = _side_of(op, attrs, library, _OUTPUTS)
    return None if found is None else found.types


def check_inputs(op: str, attrs: Attrs, count: int) -> None:
    """Raise GraphError for a node with `count` data inputs that has too few of them, or claims too many.

    Too few are fewer than its op takes, as TensorFlow's importer says, too: what computes with a graph takes inputs by
    their places. Too many are more than these and more than `limits.CLAIMED`. So what a node takes to look at grows
    with its file, and not with a number in it.
    """
    given = registry.facts(op)
    if given is not None and given.inputs:
        numbers, least = _numbers(given)
        if count < least:
            raise GraphError(
                f"{op} takes {counted(least, 'input')}{' or more' * (least < len(given.inputs))}, and has {count}"
            )
        for argument, read in numbers:
            value = attrs.get(argument.number_attr)
            number = None if value is None else read(value)
            if isinstance(number, int) and number > max(limits.CLAIMED.most, count):
                raise _too_many(argument, limits.CLAIMED.most)


@lru_cache(maxsize=4096)
def _numbers(given: OpFacts) -> tuple[tuple[tuple[Argument, Reader], ...], int]:
    """The input arguments whose number of tensors an attribute gives, with the reader of that attribute; the others.

    Of the others it is the number, without lists, which may be empty.
    """
    numbers = tuple((one, _READERS["int"]) for one in given.inputs if one.number_attr)
    return numbers, sum(not (one.number_attr or one.list_attr) for one in given.inputs)


def output_ranges(op: str, attrs: Attrs, library: Library) -> Ranges | None:
    """Name, first port and port after the last of each output argument: the meaning of "node:argument:index".

    None as for `inputs`.
    """
    found = _side_of(op, attrs, library, _OUTPUTS)
    return None if found is None else found.ranges


def _signature(op: str, library: Library) -> OpFacts | None:
    """The arguments of a registered op or of a library function."""
    found = registry.facts(op)
    return registry.signature(library[op]) if found is None and op in library else found


@lru_cache(maxsize=4096)
def _signature_attrs(given: OpFacts) -> Wanted:
    """The attributes on which the number and types of an op's arguments depend."""
    args = (*given.inputs, *given.outputs)
    named = {name for arg in args for name in (arg.type_attr, arg.number_attr, arg.list_attr) if name}
    return _wanted(given, sorted(named))


def _by_name(wanted: Wanted, found: PlainValues) -> dict[str, Plain]:
    return {name: value for (name, _, _), value in zip(wanted, found, strict=True)}


def values_of(given: OpFacts, attrs: Attrs) -> dict[str, Plain]:
    """The values, in a call, of the attributes on which a function's arguments and results depend."""
    wanted = _signature_attrs(given)
    return _by_name(wanted, _values(wanted, attrs))


def _count(argument: Argument, value: Mapping[str, Plain]) -> int | None:
    """The number of tensors of an argument; None when the attribute that gives it is missing."""
    if argument.list_attr:
        types = value.get(argument.list_attr)
        return len(types) if isinstance(types, tuple) else None
    if not argument.number_attr:
        return 1
    number = value.get(argument.number_attr)
    return max(number, 0) if isinstance(number, int) else None


def ranges_of(arguments: tuple[Argument, ...], value: Mapping[str, Plain], most: int) -> Ranges | None:
    """Name, first slot and slot after the last per argument, given the attribute values; None as for `inputs`.

    Raises GraphError for more than `most` in all.
    """
    ranges = []
    at = 0
    for argument in arguments:
        number = _count(argument, value)
        if number is None:
            return None
        if at + number > most:
            raise _too_many(argument, most)
        ranges.append((argument.name, at, at + number))
        at += number
    return tuple(ranges)


def _too_many(argument: Argument, most: int) -> GraphError:
    limit = limits.INPUTS if most == limits.INPUTS.most else limits.CLAIMED
    return GraphError(
        f"A node claims more than {most:,} tensors for the argument {argument.name!r} of its op; check its attribute "
        f"{argument.list_attr or argument.number_attr!r}. If it is right, {limit.remedy}."
    )


def _limit(given: OpFacts, side: str) -> Limit:
    """The limit of the tensors on that side: of inputs that `check_inputs`, which knows registered ops, has counted."""
    return limits.INPUTS if side == _INPUTS and registry.facts(given.name) is given else limits.CLAIMED


def _side_of(op: str, attrs: Attrs, library: Library, side: str) -> _Side | None:
    given = _signature(op, library)
    if given is None:
        return None
    return _laid_out(given, side, _values(_signature_attrs(given), attrs), _limit(given, side).most)


@lru_cache(maxsize=16_384)
def _laid_out(given: OpFacts, side: str, found: PlainValues, most: int) -> _Side | None:
    arguments, value = given.inputs if side == _INPUTS else given.outputs, _by_name(_signature_attrs(given), found)
    ranges = ranges_of(arguments, value, most)
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
        flat += [_type(dtype, reference) for dtype in types]
    return _Side(tuple(flat), ranges)


def _type(dtype: Plain, reference: int) -> int:
    """The type with the mark of a reference; 0 for a number that is no type's, of which a file may have any."""
    if not isinstance(dtype, int) or not dtype or dtype not in NAMES:
        return 0
    return dtype if dtype > REF else dtype + reference


# --- kernels ---------------------------------------------------------------------------------------------------------


# Both the priority order of TensorFlow's device factories (GPU 210, CPU 60) and the types that are modelled.
DEVICE_TYPES = ("GPU", "CPU")
_LABEL = "_kernel"


class Support(NamedTuple):
    """The kernel registry's answer for a node."""

    types: tuple[tuple[str, int], ...]  # device types that have a kernel for it, with its priority; best first
    elsewhere: bool = False  # kernels are registered for these types, but for other values of the attributes
    undeclared: str = ""  # an attribute that decides between kernels and that the op does not have


def kernel_types(op: str, attrs: Attrs) -> tuple[tuple[str, int], ...]:
    """Device types that have a kernel for the node, with the kernel's priority; best first; () means none."""
    return support(op, attrs).types


def support(op: str, attrs: Attrs, present: tuple[str, ...] = DEVICE_TYPES) -> Support:
    """Those of the device types present that have a kernel for the node.

    The order is that of TensorFlow's SupportedDeviceTypesForNode (common_runtime, framework/op_kernel.cc): by kernel
    priority, then as in `present`. An op that is not registered (a function, a custom op) may run on any type. Two
    matching kernels of equal priority are an error in TensorFlow; its registry has no such pair.
    """
    given = registry.facts(op)
    if given is None:
        return Support(tuple((device_type, 0) for device_type in present))
    return _support(given, _values(_kernel_attrs(given), attrs), present)


@lru_cache(maxsize=4096)
def _kernel_attrs(given: OpFacts) -> Wanted:
    """The attributes on which the choice of a kernel depends; the label comes last."""
    names = sorted({name for kernel in given.kernels for name, _ in kernel.constraints})
    return (*_wanted(given, names), (_LABEL, _text, ""))


@lru_cache(maxsize=16_384)
def _support(given: OpFacts, found: PlainValues, present: tuple[str, ...]) -> Support:
    value = _constrained(given, found)
    considered = [
        kernel
        for kernel in given.kernels
        if kernel.label == value[_LABEL] and kernel.device_type in (*present, "DEFAULT")
    ]
    chosen = [(device_type, _kernel(given, device_type, value)) for device_type in present]
    types = [(device_type, kernel.priority) for device_type, kernel in chosen if kernel]
    return Support(
        types=tuple(sorted(types, key=lambda pair: -pair[1])),
        elsewhere=any(
            not _holds(value[name], allowed) for kernel in considered for name, allowed in kernel.constraints
        ),
        undeclared=next(filter(None, [_undeclared(given, kernel, value) for kernel in considered]), ""),
    )


def _constrained(given: OpFacts, found: PlainValues) -> dict[str, Plain]:
    value = _by_name(_kernel_attrs(given), found)
    return {**value, _LABEL: value[_LABEL] or ""}


def _holds(value: Plain, allowed: frozenset[Plain]) -> bool:
    if value is None:  # unknown: counts as matching
        return True
    return all(item in allowed for item in value) if isinstance(value, tuple) else value in allowed


def _kernel(given: OpFacts, device_type: str, value: Mapping[str, Plain]) -> Kernel | None:
    """The registration that TensorFlow finds: of that device type, else of DEFAULT; the highest priority wins."""
    for registered_for in (device_type, "DEFAULT"):
        matching = [
            kernel
            for kernel in given.kernels
            if kernel.device_type == registered_for
            and kernel.label == value[_LABEL]
            and all(_holds(value[name], allowed) for name, allowed in kernel.constraints)
        ]
        if matching:
            return max(matching, key=lambda kernel: kernel.priority)
    return None


def _undeclared(given: OpFacts, kernel: Kernel, value: Mapping[str, Plain]) -> str:
    """The attribute that the kernel asks for and no node of the op can have, unless another one rules it out before."""
    for name, allowed in kernel.constraints:
        if name not in given.attrs and value[name] is None:
            return name
        if not _holds(value[name], allowed):
            return ""
    return ""


# --- host memory -----------------------------------------------------------------------------------------------------


# common_runtime's IsFunctionCallOp: ops whose memory kinds follow from the types alone, like a library function's.
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient", "StatelessWhile", "While"})
_LISTED = tuple((name, _list_of("i"), ()) for name in ("_input_hostmem", "_output_hostmem"))
Slots: TypeAlias = tuple[frozenset[int], frozenset[int]]
_NOTHING: Slots = (frozenset(), frozenset())


def host_memory(op: str, attrs: Attrs, device_type: str, library: Library) -> Slots:
    """Input slots and output ports that live in host memory when the node runs on a device of that type.

    They are those of TensorFlow's MemoryTypesForNode (framework/memory_types.cc): the kernel's host_memory_arg, strings
    and resources, and the lists `_input_hostmem` and `_output_hostmem`. For a call, or without a kernel, int32 is there
    too. Both sets are empty for an unknown op.
    """
    given = _signature(op, library)
    if given is None:
        return _NOTHING
    kernel = () if registry.facts(op) is None else _values(_kernel_attrs(given), attrs)
    return _host_memory(given, device_type, _values(_signature_attrs(given), attrs), kernel, _values(_LISTED, attrs))


@lru_cache(maxsize=16_384)
def _host_memory(
    given: OpFacts, device_type: str, signature: PlainValues, constrained: PlainValues, listed: PlainValues
) -> Slots:
    found = None
    if constrained and given.name not in _CALLS:  # a library function has no kernels
        found = _kernel(given, device_type, _constrained(given, constrained))
    slots = []
    for side, more in zip((_INPUTS, _OUTPUTS), listed, strict=True):
        tensors = _laid_out(given, side, signature, _limit(given, side).end)  # `inputs` and `outputs` have counted them
        if tensors is None:
            return _NOTHING
        slots.append(_slots(tensors, found.host_memory if found else None, more))
    return slots[0], slots[1]


def _slots(tensors: _Side, host: frozenset[str] | None, listed: Plain) -> frozenset[int]:
    """The slots in host memory; `host` names the kernel's arguments there, None without a kernel.

    MemoryTypesForNode supposes without one that integers are there, but not references to integers.
    """
    types = tensors.types
    slots = {slot for slot, dtype in enumerate(types) if dtype % REF in (STRING, RESOURCE)}
    if host is None:
        slots |= {slot for slot, dtype in enumerate(types) if dtype == INT32}
    for name, first, last in tensors.ranges:
        if host and name in host:
            slots.update(range(first, last))
    if isinstance(listed, tuple):
        slots.update(slot for slot in listed if isinstance(slot, int) and 0 <= slot < len(types))
    return frozenset(slots)
