"""Read-only numpy columns: the material of every table in simviz."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import chain, pairwise
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Ids: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]

_COUNTED = 2**17  # rows from which on counting gains what it costs to import scipy
_FEW = 4  # different numbers for each row: counting takes memory for each, in 32 bits


def frozen(values: npt.ArrayLike | Iterable[int], dtype: type[np.generic]) -> npt.NDArray[np.generic]:
    """The values as a read-only array of the given type; an array that is read-only already is not copied."""
    given = values if hasattr(values, "__len__") else list(values)  # type: ignore[arg-type]  # then it is an iterator
    if isinstance(given, np.ndarray) and given.dtype == dtype and not given.flags.writeable:
        return given
    column = np.array(given, dtype=dtype)
    column.setflags(write=False)
    return column


def ints(values: npt.ArrayLike | Iterable[int]) -> Ints:
    """A read-only column of 64-bit integers: times in ns, sizes in bytes."""
    return frozen(values, np.int64)  # type: ignore[return-value]  # the dtype is fixed by the argument


def ids(values: npt.ArrayLike | Iterable[int]) -> Ids:
    """A read-only column of 32-bit row numbers."""
    return frozen(values, np.int32)  # type: ignore[return-value]  # the dtype is fixed by the argument


def flags(values: npt.ArrayLike | Iterable[int]) -> Flags:
    """A read-only column of booleans."""
    return frozen(values, np.bool_)  # type: ignore[return-value]  # the dtype is fixed by the argument


def positions(rows: Sequence[int] | npt.NDArray[np.integer], count: int) -> Ints:
    """[count] the place of each number in `rows`, -1 for one that is not there: the inverse of a choice or an order."""
    found = np.full(count, -1)
    found[rows] = np.arange(len(rows))
    return found


def pointers_of(lists: Sequence[Sequence[int]]) -> Ids:
    """[lists + 1] where each list begins, and the last ends, once they are laid out one after the other."""
    return ids(np.cumsum([0, *map(len, lists)]))


def pointers(keys: npt.NDArray[np.integer], count: int) -> Ids:
    """[count + 1] where the rows of each key from 0 on begin, once they are sorted by it."""
    return ids(np.append(0, np.cumsum(np.bincount(keys, minlength=count))))


def by_key(keys: npt.NDArray[np.integer], count: int) -> tuple[Ints, Ints]:
    """The rows in order of (key, row), and [count+1] where those of each key from 0 on begin."""
    order = stable_order(keys)
    return order, np.searchsorted(keys[order], np.arange(count + 1))


def topological(source: npt.NDArray[np.integer], target: npt.NDArray[np.integer], count: int) -> list[int]:
    """The rows from 0 on as they become ready: each after all rows from which an edge leads to it.

    A row on a cycle is left out, and so is all behind it.
    """
    waits = np.bincount(target, minlength=count).tolist()
    by_source, first = by_key(source, count)
    targets, begin = target[by_source].tolist(), first.tolist()
    order = [row for row, left in enumerate(waits) if not left]
    for row in order:  # grows in the loop
        for after in targets[begin[row] : begin[row + 1]]:
            waits[after] -= 1
            if not waits[after]:
                order.append(after)
    return order


def smallest_topological(
    waits: npt.NDArray[np.integer],
    source: npt.NDArray[np.integer],
    target: npt.NDArray[np.integer],
    merging: Flags | None = None,
) -> list[int]:
    """The rows, each after all rows from which an edge leads to it; among ready rows the smallest comes first.

    `waits` [rows] says how many edges a row waits for. Of those that are `merging` [E] only a row's first one counts. A
    row on a cycle is left out, and so is all behind it.
    """
    by_source, first = by_key(source, len(waits))
    targets = (target if merging is None else np.where(merging, ~target, target))[by_source].tolist()
    left, begin, merged = waits.tolist(), first.tolist(), set[int]()
    order: list[int] = []
    early: list[int] = []  # ready rows before the one that the scan has come to
    for row, pending in enumerate(left):  # which is changed in the loop
        if pending:
            continue
        early.append(row)
        while early:
            ready = heappop(early)
            order.append(ready)
            for after in targets[begin[ready] : begin[ready + 1]]:
                if after < 0:
                    after = ~after
                    if after in merged:
                        continue
                    merged.add(after)
                left[after] -= 1
                if after < row and not left[after]:
                    heappush(early, after)
    return order


def in_order(keys: Ints) -> tuple[Ints, Ints]:
    """The keys numbered from 0 by their first places, -1 for negative ones; and the first place of each number."""
    different, first, row = np.unique(keys, return_index=True, return_inverse=True)
    skipped = int(np.searchsorted(different, 0))
    order = np.argsort(first[skipped:])
    number = np.full(len(different), -1)
    number[skipped + order] = np.arange(len(order))
    return ints(number[row.reshape(-1)]), ints(first[skipped:][order])


def alike(*columns: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
    """The first row of each different row of the columns, by the first column, then the next; and each row's number.

    As `np.unique` of the columns as one array, in a tenth of its time.
    """
    order = stable_order(*columns)
    new = np.zeros(len(order), bool)
    new[:1] = True
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return ints(order[new]), ints(number)


def different(values: npt.NDArray[np.integer]) -> Ints:
    """Each value once, rising: as `np.unique`, which hashes a million numbers in forty times the time of a sort."""
    ordered = values.astype(np.int64)
    ordered.sort()
    new = np.ones(len(ordered), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return ints(ordered[new])


def stable_order(*columns: npt.NDArray[np.integer]) -> Ints:
    """The order of rows by the first column, then the next, then the row: as `np.lexsort`, in a sixth of its time.

    Many rows of few different numbers are counted, column by column, in a fifth of the time of their sort.
    """
    count, room = len(columns[0]), 2**63
    if count >= _COUNTED and (digits := _digits(columns, min(_FEW * count, 2**31 - 1))) is not None:
        return _counted(digits)
    key = np.zeros(count, np.int64)  # changed in place: a copy of millions of numbers takes as long as their sort
    for column in columns if count else ():
        low = int(column.min())
        span = int(column.max()) - low + 1
        room //= span
        if room < count:
            return np.lexsort(columns[::-1])
        key *= span  # numpy sorts plain 64-bit numbers with vector instructions, but no pairs
        key += column
        key -= low
    key *= count
    key += np.arange(count)
    key.sort()
    key %= max(count, 1)
    return key


def _digits(columns: Sequence[npt.NDArray[np.integer]], most: int) -> list[tuple[Ids, int]] | None:
    """Columns of numbers from 0 on, with their spans, by which rows sort one after the other; None: a span is over."""
    found: list[tuple[Ids, int]] = []
    for column in reversed(columns):
        low = int(column.min())
        span = int(column.max()) - low + 1
        if span > most:
            return None
        digit = (column - low).astype(np.int32)
        if found and span * found[-1][1] <= most:
            digit, span = digit * np.int32(found[-1][1]) + found[-1][0], span * found.pop()[1]
        found.append((digit, span))
    return found


def _counted(digits: Iterable[tuple[Ids, int]]) -> Ints:
    """The order of rows by digits, the last one first. Each is sorted as scipy transposes sparse matrices."""
    from scipy.sparse import csr_array

    order: Ints | None = None
    for digit, span in digits:
        keys, rows = digit if order is None else digit[order], len(digit)
        each = (np.zeros(rows, np.int8), keys, np.arange(rows + 1, dtype=np.int32))
        by_key = csr_array(each, shape=(rows, span)).tocsc().indices.astype(np.int64)
        order = by_key if order is None else order[by_key]
    assert order is not None
    return order


@dataclass(frozen=True, eq=False)
class Lists(Sequence[tuple[int, ...]]):
    """Lists of row numbers, one after the other in one column; they read as a sequence of tuples."""

    ptr: Ids  # [lists + 1] where each list begins in `item`, and the last ends
    item: Ids

    @cached_property
    def sizes(self) -> Ints:
        """[lists] the number of items of each."""
        return ints(np.diff(self.ptr))

    @cached_property
    def of(self) -> Ints:
        """The list of each item."""
        return ints(np.repeat(np.arange(len(self)), self.sizes))

    def where(self, kept: Flags) -> Lists:
        """The same lists with these items alone."""
        if kept.all():
            return self
        return Lists(pointers(self.of[kept], len(self)), ids(self.item[kept]))

    def at(self, rows: npt.NDArray[np.integer]) -> Lists:
        """Those lists, in that order; -1: an empty one."""
        first, size = (np.append(column, 0)[rows] for column in (self.ptr[:-1], self.sizes))
        ptr = np.append(0, np.cumsum(size))
        return Lists(ids(ptr), ids(self.item[np.repeat(first - ptr[:-1], size) + np.arange(ptr[-1])]))

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @overload
    def __getitem__(self, row: int) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, row: slice) -> tuple[tuple[int, ...], ...]: ...

    def __getitem__(self, row: int | slice) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
        rows = range(len(self))[row]
        if isinstance(rows, int):
            return tuple(self.item[self.ptr[rows] : self.ptr[rows + 1]].tolist())
        return tuple(self[one] for one in rows)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        items, ends = self.item.tolist(), self.ptr.tolist()
        return (tuple(items[begin:end]) for begin, end in pairwise(ends))


def lists(of: Iterable[Sequence[int]]) -> Lists:
    """The sequences as lists in columns."""
    given = of if isinstance(of, Sequence) else list(of)
    return Lists(pointers_of(given), ids(list(chain.from_iterable(given))))


def joined(*parts: Lists) -> Lists:
    """Each list of the first part, then that of the next at the same place, and so on."""
    ptr = np.sum([part.ptr.astype(np.int64) for part in parts], axis=0)
    item, begin = np.empty(int(ptr[-1]), np.int64), ptr[:-1].copy()
    for part in parts:
        item[np.repeat(begin - part.ptr[:-1], part.sizes) + np.arange(len(part.item))] = part.item
        begin += part.sizes
    return Lists(ids(ptr), ids(item))
