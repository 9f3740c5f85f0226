"""Sets of iterations as Python integers, one bit per iteration, and as rows of booleans.

A frame of `width` iterations inside a grid of `outer` ones has `outer * width` bits: bit `p * width + i` is iteration i
of the loop as it is entered from iteration p of what is around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from simulator.columns import Flags


def full(count: int) -> int:
    """All of `count` bits."""
    return (1 << count) - 1


def rows(masks: Sequence[int], count: int) -> Flags:
    """[masks, count] the bits of each."""
    size = (count + 7) // 8
    packed = np.frombuffer(b"".join([mask.to_bytes(size, "little") for mask in masks]), np.uint8)
    return np.unpackbits(packed.reshape(len(masks), size), axis=1, count=count, bitorder="little").view(np.bool_)


def mask(row: Flags) -> int:
    """A row of booleans as a mask."""
    return int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little")


@lru_cache(maxsize=64)
def first(given: int, outer: int, width: int) -> int:
    """Bits of the iterations around a loop, as bits of the loop's first iterations."""
    if width == 1 or not given:
        return given
    spread = np.zeros((outer, width), np.bool_)
    spread[:, 0] = rows([given], outer)[0]
    return mask(spread.reshape(-1))


def every(given: int, outer: int, width: int) -> int:
    """Bits of the iterations around a loop, as bits of all its iterations."""
    return first(given, outer, width) * full(width)


@lru_cache(maxsize=64)
def column(outer: int, width: int, at: int) -> int:
    """Iteration `at` of the loop, wherever it is entered from."""
    return first(full(outer), outer, width) << at


def following(given: int, outer: int, width: int) -> int:
    """Each iteration's successor; what would follow the last one is left out."""
    return (given & ~column(outer, width, width - 1)) << 1


@lru_cache(maxsize=64)
def any_of(given: int, outer: int, width: int) -> int:
    """The iterations around a loop in which any iteration of the loop is given."""
    if width == 1 or not given:
        return given
    return mask(rows([given], outer * width)[0].reshape(outer, width).any(axis=1))


@lru_cache(maxsize=64)
def unbroken(given: int, outer: int, width: int) -> int:
    """The given iterations that come before the first that is missing."""
    if width == 1 or given == full(outer * width):
        return given
    grid = rows([given], outer * width)[0].reshape(outer, width)
    return mask(np.logical_and.accumulate(grid, axis=1).reshape(-1))


def last(given: int, outer: int, width: int) -> int:
    """The last of each loop's iterations, of those that `unbroken` leaves."""
    return given & ~((given & ~column(outer, width, 0)) >> 1)
