"""Sets of iterations as Python integers, one bit per iteration.

A loop of `width` iterations inside a frame of `outer` ones has `outer * width` bits. Bit `p * width + i` is iteration i
of the loop as it is entered from iteration p of the frame around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from simulator.columns import Flags
from simulator.execution.loops.frames import Flow


class IterationSpace(NamedTuple):
    """The iterations that one frame may have. Bits of the frame around it are called `around`, its own `given`."""

    outer: int  # iterations of the frame around it
    width: int  # iterations each time that the loop is entered, one more than trips at least; 1 for the root
    trips: int  # how often the body runs each time; the root's 0

    @property
    def size(self) -> int:
        """The number of bits."""
        return self.outer * self.width

    @property
    def all(self) -> int:
        """All bits."""
        return _full(self.size)

    def grid(self, given: int) -> Flags:
        """[outer, width] the bits."""
        return rows([given], self.size).reshape(self.outer, self.width)

    @lru_cache(maxsize=64)  # noqa: B019 - a space is a value: equal ones share their entries
    def first(self, around: int) -> int:
        """The first iteration of each given entry into the loop."""
        if self.width == 1 or not around:
            return around
        spread = np.zeros((self.outer, self.width), np.bool_)
        spread[:, 0] = rows([around], self.outer)[0]
        return mask(spread)

    def every(self, around: int) -> int:
        """All iterations of each given entry into the loop."""
        return self.first(around) * _full(self.width)

    @lru_cache(maxsize=64)  # noqa: B019 - a space is a value: equal ones share their entries
    def at(self, index: int) -> int:
        """Iteration `index` of every entry into the loop."""
        return self.first(_full(self.outer)) << index

    def following(self, given: int) -> int:
        """Each iteration's successor; the last one has none."""
        return (given & ~self.at(self.width - 1)) << 1

    @lru_cache(maxsize=64)  # noqa: B019 - a space is a value: equal ones share their entries
    def any_of(self, given: int) -> int:
        """The iterations around the loop in which any iteration of the loop is given."""
        return given if self.width == 1 or not given else mask(np.logical_or.reduce(self.grid(given), axis=1))

    @lru_cache(maxsize=64)  # noqa: B019 - a space is a value: equal ones share their entries
    def unbroken(self, given: int) -> int:
        """The given iterations that come before the first that is missing."""
        if self.width == 1 or given == self.all:
            return given
        return mask(np.logical_and.accumulate(self.grid(given), axis=1))

    def last(self, given: int) -> int:
        """The last iteration of each entry, of those that `unbroken` leaves."""
        return given & ~((given & ~self.at(0)) >> 1)


def iteration_spaces(flow: Flow, trips: Sequence[int], extra: Sequence[int]) -> list[IterationSpace]:
    """The space of each frame, by how often its body runs and how many iterations begin after that."""
    spaces = [IterationSpace(outer=1, width=1, trips=trips[0])]
    for frame, count, more in zip(flow.frames[1:], trips[1:], extra[1:], strict=True):
        spaces.append(IterationSpace(outer=spaces[frame.parent].size, width=count + 1 + more, trips=count))
    return spaces


def rows(masks: Sequence[int], count: int) -> Flags:
    """[masks, count] the bits of each."""
    size = (count + 7) // 8
    packed = np.frombuffer(b"".join([given.to_bytes(size, "little") for given in masks]), np.uint8)
    return np.unpackbits(packed.reshape(len(masks), size), axis=1, count=count, bitorder="little").view(np.bool_)


def mask(given: Flags) -> int:
    """Booleans as bits, in the order of their memory."""
    return int.from_bytes(np.packbits(given, bitorder="little").tobytes(), "little")


def _full(count: int) -> int:
    return (1 << count) - 1
