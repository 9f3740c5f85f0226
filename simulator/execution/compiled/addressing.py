"""Tuples of arrays that compiled functions hand to each other by address.

numba hands a tuple of arrays over as seven numbers for each array: 1,800 of them at every call of a function of a
training's controller, which took most of the time to compile it and to run it. So a tuple that is declared as in
`execution.arrays` is laid out as a table once, when Python calls: of each array, in order, its address and its lengths.
From there on it is the address of this table, and used as any other tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from numba import from_dtype, types
from numba.core import cgutils
from numba.extending import (
    NativeValue,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import make_array, populate_array

from simulator.execution.declared import fields
from simulator.execution.layouts import MATRICES

_WORD = cgutils.intp_t  # of 64 bits, as all that is compiled here


class Addressed(types.NamedTuple):  # type: ignore[misc]  # numba has no types
    """The type of such a tuple; `places` are those of its elements in its table."""

    def __init__(self, elements: Sequence[Any], kind: type) -> None:
        super().__init__(elements, kind)
        self.name = kind.__name__  # short, as it is part of the names of all that is compiled for it
        *self.places, self.words = accumulate(map(_words, self.types), initial=0)
        typeof_impl.register(kind, _type_of)


def _words(element: Any) -> int:
    if isinstance(element, Addressed):
        return element.words
    words: int = 1 + getattr(element, "ndim", 0)  # of what is no array there is a type, too: it is refused by that
    return words


def _type_of(value: Any, context: Any) -> Addressed:
    """What numba asks for a value: whether a function is compiled for it."""
    return Addressed([typeof_impl(element, context) for element in value], type(value))


def tuple_of(kind: type, *, readonly: bool) -> Addressed:
    """The type of one of the tuples of arrays that are declared as in `execution.arrays`."""
    made = [
        tuple_of(element, readonly=readonly)
        if isinstance(element, type)
        else types.Array(from_dtype(element), 2 if name in MATRICES else 1, "C", readonly=readonly)
        for name, element in fields(kind).items()
    ]
    return Addressed(made, kind)


@register_model(Addressed)
class _Address(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Addressed) -> None:
        super().__init__(manager, kind, _WORD.as_pointer())


def _at(builder: Any, table: Any, place: int) -> Any:
    return builder.gep(table, [_WORD(place)])


@unbox(Addressed)  # type: ignore[untyped-decorator]
def _lay_out(kind: Addressed, value: Any, python: Any) -> Any:
    """A tuple comes from Python: its table, on the stack of the function that Python calls."""
    builder = python.builder
    table = cgutils.alloca_once(builder, _WORD, size=kind.words)
    failed = cgutils.alloca_once_value(builder, cgutils.false_bit)
    _enter(kind, value, python, table, failed)
    return NativeValue(table, is_error=builder.load(failed))


def _enter(kind: Addressed, value: Any, python: Any, table: Any, failed: Any) -> None:
    builder = python.builder
    for which, (element, place) in enumerate(zip(kind.types, kind.places, strict=True)):
        given, here = python.pyapi.tuple_getitem(value, which), _at(builder, table, place)
        if isinstance(element, Addressed):
            _enter(element, given, python, here, failed)
            continue
        native = python.unbox(element, given)
        with builder.if_then(native.is_error, likely=False):
            builder.store(cgutils.true_bit, failed)
        array = make_array(element)(python.context, builder, native.value)
        builder.store(builder.ptrtoint(array.data, _WORD), here)
        for axis, length in enumerate(cgutils.unpack_tuple(builder, array.shape, element.ndim)):
            builder.store(length, _at(builder, here, 1 + axis))


def _element(context: Any, builder: Any, kind: Addressed, table: Any, which: int) -> Any:
    element, here = kind.types[which], _at(builder, table, kind.places[which])
    if isinstance(element, Addressed):
        return here

    def entry(place: int, of: Any) -> Any:
        read = builder.load(builder.bitcast(_at(builder, here, place), of.as_pointer()))
        read.set_metadata("invariant.load", builder.module.add_metadata([]))  # so that it is read once and kept
        return read

    held = context.get_data_type(element.dtype)
    data, shape = entry(0, held.as_pointer()), [entry(1 + axis, _WORD) for axis in range(element.ndim)]
    width = _WORD(context.get_abi_sizeof(held))
    strides = [width] if element.ndim == 1 else [builder.mul(shape[1], width), width]
    array = make_array(element)(context, builder)
    populate_array(array, data, shape, strides, width, meminfo=None)
    return array._getvalue()


@lower_getattr_generic(Addressed)  # type: ignore[untyped-decorator]
def _attribute(context: Any, builder: Any, kind: Addressed, table: Any, name: str) -> Any:
    return _element(context, builder, kind, table, kind.fields.index(name))


@lower_builtin("static_getitem", Addressed, types.IntegerLiteral)  # type: ignore[untyped-decorator]
def _item(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return _element(context, builder, signature.args[0], *values)
