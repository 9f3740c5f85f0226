"""Where every instance of an op stands: instances are ops in the iterations in which they run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags
from simulator.execution.loops import masks
from simulator.execution.loops.flow import Flow
from simulator.execution.loops.liveness import Grids, Liveness
from simulator.graph.control_flow import ENTERS, EXITS, NEXT_ITERATIONS

Column = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """Axes: n ops, m instances in order of (tag in which their values are read, op), F frames, I tags.

    So transfers of one instant are served in the same order whether they go by makers or by Sends.
    """

    op: Column  # [m]
    place: Column  # [m] iteration of the op's frame, as a bit of its masks
    live: Flags  # [m]
    tag: Column  # [m] row of `tags`
    tags: tuple[tuple[int, ...], ...]  # [I] iteration of each loop around, the outermost first; in order
    at: Column  # [sum of sizes] instance of (op, place): at[begin[op] + place]; -1: it does not run
    begin: Column  # [n]
    tag_of: list[Column]  # [F] per place of the frame its row of `tags`, -1: never begun

    def instance(self, op: Column, place: Column) -> Column:
        """The instances of ops at places of their frames."""
        found: Column = self.at[self.begin[op] + place]
        return found


def lay_out(flow: Flow, grids: Grids, state: Liveness) -> Layout:
    """Number the instances."""
    frame = np.array(flow.frame, np.int64)
    size = np.array(grids.size, np.int64)[frame]
    begin = np.cumsum(size) - size
    tags, tag_of = _tags(grids, state, flow)
    found: list[tuple[Column, Column, Flags, Column]] = []
    for row, count in enumerate(grids.size):
        ops = np.flatnonzero(frame == row)
        if len(ops):
            ran = masks.rows([state.ran[op] for op in ops.tolist()], count)
            live = masks.rows([state.live[op] for op in ops.tolist()], count)
            local, place = np.nonzero(ran)
            found.append((ops[local], place, live[local, place], tag_of[row][place]))
    op, place, live, tag = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.lexsort((op, _read_in(flow, grids, tag_of, op, place, tag)))
    op, place, live, tag = op[order], place[order], live[order], tag[order]
    at = np.full(int(size.sum()), -1)
    at[begin[op] + place] = np.arange(len(op))
    return Layout(op, place, live, tag, tags, at, begin, tag_of)


def _read_in(flow: Flow, grids: Grids, tag_of: list[Column], op: Column, place: Column, tag: Column) -> Column:
    """The tag in which the values of each instance are read."""
    found: Column = tag.copy()
    grouped = np.argsort(op, kind="stable")
    begin = np.searchsorted(op[grouped], np.arange(len(flow.inputs) + 1))
    for one, kind in enumerate(flow.ops.kind):
        if kind not in ENTERS and kind not in EXITS and kind not in NEXT_ITERATIONS:
            continue
        mine = grouped[begin[one] : begin[one + 1]]
        frame = flow.frame[one]
        if kind in EXITS:
            found[mine] = tag_of[flow.frames[frame].parent][place[mine] // grids.width[frame]]
        elif kind in ENTERS:
            found[mine] = tag_of[flow.child[one]][place[mine] * grids.width[flow.child[one]]]
        else:
            goes_on = mine[place[mine] % grids.width[frame] < grids.width[frame] - 1]
            after = tag_of[frame][place[goes_on] + 1]
            found[goes_on] = np.where(after < 0, tag[goes_on], after)
    return found


def _tags(grids: Grids, state: Liveness, flow: Flow) -> tuple[tuple[tuple[int, ...], ...], list[Column]]:
    """All tags in order, and the tag of each frame's places."""
    paths = [path_to(flow, row) for row in range(len(grids.size))]
    deepest = max(map(len, paths))
    digits, places = [], []
    for path, exists, count in zip(paths, state.exists, grids.size, strict=True):
        begun = np.flatnonzero(masks.rows([exists], count)[0])
        column = np.full((len(begun), deepest), -1)
        left = begun
        for depth in range(len(path) - 1, -1, -1):
            column[:, depth], left = left % grids.width[path[depth]], left // grids.width[path[depth]]
        digits.append(column)
        places.append(begun)
    table = np.concatenate(digits)
    order = np.lexsort(table.T[::-1]) if deepest else np.arange(len(table))
    new = np.ones(len(table), bool)
    new[1:] = (table[order[1:]] != table[order[:-1]]).any(axis=1)
    row_of = np.empty(len(table), np.int64)
    row_of[order] = np.cumsum(new) - 1
    ends = np.cumsum([len(begun) for begun in places])
    tag_of = []
    for begun, end, count in zip(places, ends.tolist(), grids.size, strict=True):
        tag_of.append(np.full(count, -1))
        tag_of[-1][begun] = row_of[end - len(begun) : end]
    distinct = table[order[new]]
    depths = (distinct >= 0).sum(axis=1).tolist()
    tags = tuple(tuple(tag[:depth]) for tag, depth in zip(distinct.tolist(), depths, strict=True))
    return tags, tag_of


def path_to(flow: Flow, frame: int) -> list[int]:
    """The loops around a frame, the outermost first, itself included; none for the root."""
    path = []
    while frame:
        path.append(frame)
        frame = flow.frames[frame].parent
    return path[::-1]
