"""Tables of addresses: what Python hands to compiled code in place of arrays.

A tuple of arrays, declared as in `execution.arrays`, is laid out as a table once, when Python calls: of each array, in
order, its address and its lengths. From there on it is the address of this table (`translation.Table`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from simulator.columns import Ints
from simulator.execution.compiled.translation import Array, Table, column_types


def table_of(value: Any, kind: type, writes: Collection[type] = ()) -> Ints:  # Any: it is checked
    """The table of a tuple of arrays; it holds as long as the arrays do, which the caller keeps.

    Arrays of tuples of these kinds are written. Raises TypeError for another tuple, another type of elements, memory
    with gaps, and for what is read-only but written.
    """
    made: list[int] = []
    _enter(made, value, kind, writes)
    return np.array(made, np.int64)


def _enter(made: list[int], value: Any, kind: Any, writes: Collection[type]) -> None:
    types = column_types(kind)
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} stands in the place of a {kind.__name__}.")
    for (name, wanted), array in zip(types.items(), value, strict=True):
        if isinstance(wanted, Table):
            _enter(made, array, wanted.kind, writes)
        else:
            made += words_of(array, wanted, f"{kind.__name__}.{name}", written=kind in writes)


def words_of(array: Any, wanted: Array, name: str, *, written: bool) -> tuple[int, ...]:
    """The address of an array, and its lengths. Errors are those of `table_of`."""
    if not isinstance(array, np.ndarray) or array.ndim != wanted.axes or array.dtype.name != wanted.element:
        raise TypeError(f"{name} is no array of {wanted.element} with {wanted.axes} axes.")
    if not array.flags.c_contiguous or (written and not array.flags.writeable):
        raise TypeError(f"{name} has gaps, or is read-only and has to be written.")
    return (array.__array_interface__["data"][0], *array.shape)
