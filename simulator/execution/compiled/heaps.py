"""Heaps and sorting in arrays that are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.kernel import inner

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints


@inner
def row(number: int) -> int:
    """A row that is not negative, which spares the check whether it counts from the end."""
    known: int = np.int64(np.uint32(number))
    return known


@inner
def sort(values: Ids | Ints, count: int) -> None:
    """Sort the first values: by insertion, as they are few or nearly in order; by heap where that takes long."""
    budget = 16 * count
    for i in range(1, count):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
        budget -= i - j
        if budget < 0:
            break
    if budget >= 0:
        return
    for turn in range(2 * count - 1):  # first build the heap, from the last parent up; then take the largest, in turn
        size = min(count, 2 * count - 1 - turn)
        root = max(count - 1 - turn, 0)
        value = values[root]
        if turn >= count:
            value = values[size]
            values[size] = values[0]
        child = 2 * root + 1
        while child < size:
            if child + 1 < size and values[child + 1] > values[child]:
                child += 1
            if values[child] <= value:
                break
            values[root] = values[child]
            root = child
            child = 2 * root + 1
        values[root] = value


@inner
def rise(key: Ints, task: Ids, size: int, when: int, what: int) -> int:
    """Add an entry to a heap by key; its new size."""
    hole = row(size)
    while hole > 0:
        above = row((hole - 1) >> 1)
        if key[above] <= when:
            break
        key[hole], task[hole] = key[above], task[above]
        hole = above
    key[hole], task[hole] = when, what
    return size + 1


@inner
def sink(key: Ints, task: Ids, size: int, when: int, what: int) -> None:
    """Put an entry in the place of the first."""
    hole, child = np.int64(0), np.int64(1)
    while child < size:
        child = row(child + (child + 1 < size and key[child + 1] < key[child]))
        if key[child] >= when:
            break
        key[hole], task[hole] = key[child], task[child]
        hole = child
        child = row(2 * hole + 1)
    key[hole], task[hole] = when, what
