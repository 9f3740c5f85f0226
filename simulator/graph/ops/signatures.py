"""What an op or library function takes and gives: a DataType per input and output, a range of ports per argument."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from simulator.errors import GraphError
from simulator.graph.dtypes import REF
from simulator.graph.graph import Attrs
from simulator.graph.ops import registry
from simulator.graph.ops.attributes import Values, Wanted, values, wanted
from simulator.graph.ops.registry import Argument, FunctionMessage, OpFacts, Plain, registered

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
