"""Heaps of pairs in a stretch of two columns: the smallest key is first, of equal keys the smaller item."""

from __future__ import annotations

from simulator.columns import Ints


def push(keys: Ints, items: Ints, low: int, size: int, key: int, item: int) -> None:
    """Add a pair to the heap of so many pairs that begins at `low`."""
    hole = size
    while hole > 0:
        above = (hole - 1) >> 1
        if keys[low + above] < key or (keys[low + above] == key and items[low + above] < item):
            break
        keys[low + hole], items[low + hole] = keys[low + above], items[low + above]
        hole = above
    keys[low + hole], items[low + hole] = key, item


def pop(keys: Ints, items: Ints, low: int, size: int) -> None:
    """Drop the first of so many pairs."""
    key, item = keys[low + size - 1], items[low + size - 1]
    hole, child = 0, 1
    while child < size - 1:
        if child + 2 < size:
            one, other = low + child, low + child + 1
            if keys[other] < keys[one] or (keys[other] == keys[one] and items[other] < items[one]):
                child += 1
        if keys[low + child] > key or (keys[low + child] == key and items[low + child] > item):
            break
        keys[low + hole], items[low + hole] = keys[low + child], items[low + child]
        hole = child
        child = 2 * hole + 1
    keys[low + hole], items[low + hole] = key, item


def replace_first(values: Ints, low: int, high: int, value: int) -> None:
    """Put a value in the place of the least of a heap of plain numbers, which stands from `low` to `high`."""
    hole, child = 0, 1
    while low + child < high:
        if low + child + 1 < high and values[low + child + 1] < values[low + child]:
            child += 1
        if values[low + child] >= value:
            break
        values[low + hole] = values[low + child]
        hole = child
        child = 2 * hole + 1
    values[low + hole] = value
