"""What came along the edges: from which instance to which, and whether it was live."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.columns import Flags
from simulator.execution.loops import masks
from simulator.execution.loops.flow import Flow, Way
from simulator.execution.loops.layout import Column, Layout
from simulator.execution.loops.liveness import Grids, Liveness, arrived
from simulator.graph.control_flow import EXITS, MERGES


@dataclass(frozen=True, eq=False)
class Delivered:
    """One row for each value or signal that came to an op that ran."""

    edge: Column  # of the flow
    source: Column  # instance
    target: Column  # instance
    place: Column  # iteration of the target's frame
    live: Flags

    def __len__(self) -> int:
        return len(self.edge)

    def take(self, rows: Flags) -> Delivered:
        """Those rows."""
        return Delivered(self.edge[rows], self.source[rows], self.target[rows], self.place[rows], self.live[rows])


def deliver(flow: Flow, grids: Grids, state: Liveness, layout: Layout) -> tuple[Delivered, Delivered]:
    """What is waited for, in order of (target, edge); and the dead values that a live Merge does not wait for."""
    of_frame: list[list[int]] = [[] for _ in flow.frames]
    for edge, op in enumerate(flow.target):
        of_frame[flow.frame[op]].append(edge)
    parts = [_into(flow, grids, state, layout, row, edges) for row, edges in enumerate(of_frame) if edges]
    if not parts:
        nothing = np.zeros(0, np.int64)
        none = Delivered(nothing, nothing, nothing, nothing, np.zeros(0, np.bool_))
        return none, none
    whole = Delivered(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    merge = np.array([kind in MERGES for kind in flow.ops.kind], bool)
    carries = np.array(flow.data, bool)
    lost = merge[layout.op[whole.target]] & layout.live[whole.target] & carries[whole.edge] & ~whole.live
    waited = whole.take(~lost)
    order = np.lexsort((waited.edge, waited.target))
    return (
        Delivered(
            waited.edge[order], waited.source[order], waited.target[order], waited.place[order], waited.live[order]
        ),
        whole.take(lost),
    )


def _into(
    flow: Flow, grids: Grids, state: Liveness, layout: Layout, frame: int, edges: list[int]
) -> tuple[Column, Column, Column, Column, Flags]:
    """What came into one frame's ops: edge, source, target, place, live."""
    came, alive = [], []
    for edge in edges:
        ran, live = arrived(flow, grids, state, edge)
        here = state.ran[flow.target[edge]]
        came.append(ran & here)
        alive.append(live & here)
    count = grids.size[frame]
    local, place = np.nonzero(masks.rows(came, count))
    is_live = masks.rows(alive, count)[local, place]
    rows = np.array(edges, np.int64)[local]
    source = np.array(flow.source, np.int64)[rows]
    target = layout.instance(np.array(flow.target, np.int64)[rows], place)
    way = np.array([_CODE[flow.way[one]] for one in edges], np.int64)[local]
    origin = np.where(way == _CODE[Way.NEXT], place - 1, place)
    outside = (way == _CODE[Way.ONCE]) | (way == _CODE[Way.EVERY])
    origin = np.where(outside, place // grids.width[frame], origin)
    for row in np.unique(source[way == _CODE[Way.LEAVE]]).tolist():
        mine = source == row
        origin[mine] = _left_from(flow, grids, state, row)[place[mine]]
    return rows, layout.instance(source, origin), target, place, is_live


_CODE = {way: code for code, way in enumerate(Way)}


def _left_from(flow: Flow, grids: Grids, state: Liveness, op: int) -> Column:
    """Per iteration around a loop, the place of the loop from which an Exit leaves: live, or else in the last one."""
    frame = flow.frame[op]
    outer, width = grids.outer[frame], grids.width[frame]
    live, exists = masks.rows([state.live[op], state.exists[frame]], outer * width).reshape(2, outer, width)
    iteration = np.where(live.any(axis=1), live.argmax(axis=1), np.maximum(exists.sum(axis=1) - 1, 0))
    found: Column = np.arange(outer) * width + iteration
    return found


def dead_exits(flow: Flow, layout: Layout, given: Delivered) -> Flags:
    """[rows] what comes out of a loop dead."""
    leaves = np.array([kind in EXITS for kind in flow.ops.kind], bool)
    return leaves[layout.op[given.source]] & ~given.live
