"""Loops that never end, and how many of their iterations begin all the same.

A loop that is entered waits for all of its Enters, dead or live; where one never comes, the loop never ends, and no
more does the iteration around it. Iterations are given up in order, so that `parallel_iterations` are in flight for
good: the next one is put off for ever, and nothing dead comes out. The step ends, as nobody is left to run
(`num_pending_inputs`, `IsIterationDone` and `next_iter_roots` of
`tensorflow/core/common_runtime/propagator_state.cc`; the Enters are those of all devices here).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.execution.loops import masks
from simulator.execution.loops.flow import Flow


@dataclass(frozen=True)
class Stalls:
    """Axis: F frames. Without any, every loop that is entered ends."""

    most: dict[int, list[int]]  # frame -> per iteration around it how many of its own begin at most
    endless: dict[int, int]  # frame -> iterations around it in which it never ends

    def begun(self, frame: int, given: int, outer: int, width: int) -> int:
        """The given iterations of a frame that begin."""
        if frame not in self.most:
            return given
        may = np.arange(width) < np.array(self.most[frame])[:, None]
        return given & masks.mask(may.reshape(outer * width))

    def put_off(self, frame: int, outer: int, width: int) -> int:
        """Last iterations of a frame after which none begins, though something goes on."""
        if frame not in self.most:
            return 0
        held = np.zeros((outer, width), np.bool_)
        held[:, -1] = np.array(self.most[frame]) <= width
        return masks.mask(held.reshape(-1))


NO_STALLS = Stalls({}, {})


def find_stalls(
    flow: Flow, outer: Sequence[int], width: Sequence[int], ran: Sequence[int], exists: Sequence[int]
) -> Stalls:
    """The loops that never end, given where everything runs; `outer` and `width` as in Grids."""
    most, endless = dict[int, list[int]](), dict[int, int]()
    stuck = [0] * len(flow.frames)  # iterations that never end, as they wait for a loop in them
    enters: list[list[int]] = [[] for _ in flow.frames]
    for op, frame in flow.child.items():
        enters[frame].append(op)
    for frame in range(len(flow.frames) - 1, 0, -1):  # what is inside first
        came = [ran[op] for op in enters[frame]]
        every, some = masks.full(outer[frame]), 0
        for one in came:
            every, some = every & one, some | one
        lacking, held = some & ~every, stuck[frame] & exists[frame]
        never = lacking | masks.any_of(held, outer[frame], width[frame])
        if never:
            endless[frame] = never
            stuck[flow.frames[frame].parent] |= never
            most[frame] = _most(lacking, held, outer[frame], width[frame], max(flow.frames[frame].parallel, 1))
    return Stalls(most, endless)


def _most(lacking: int, held: int, outer: int, width: int, parallel: int) -> list[int]:
    """[outer] how many iterations begin at most: those before the first that never ends, and as many as may be open."""
    rows = masks.rows([held], outer * width)[0].reshape(outer, width)
    first = np.where(rows.any(axis=1), rows.argmax(axis=1), np.iinfo(np.int64).max - parallel)
    first[masks.rows([lacking], outer)[0]] = 0
    found: list[int] = (first + parallel).tolist()
    return found
