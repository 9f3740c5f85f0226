"""Instances: an op in an iteration in which it runs; and the values delivered from instance to instance.

Instances are numbered by the iteration in which their values are read, then by op. So transfers of one instant are
served in the same order, whether they go by the ops that made the values or by their Sends.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np

from simulator.columns import Flags, Ints
from simulator.execution.loops.frames import EdgeKind
from simulator.execution.loops.iterations import rows
from simulator.execution.loops.liveness import Liveness
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS

Tag: TypeAlias = "tuple[int, ...]"  # iteration of each loop around, the outermost first


@dataclass(frozen=True, eq=False)
class Instances:
    """Axes: n ops, m instances in order of (tag in which their values are read, op), F frames, I tags."""

    op: Ints  # [m]
    place: Ints  # [m] iteration of the op's frame, as a bit of its iteration space
    live: Flags  # [m]
    tag: Ints  # [m] row of `tags`
    tags: tuple[Tag, ...]  # [I] in order
    number: Ints  # [sum of sizes] instance of (op, place): number[begin[op] + place]; -1: it does not run
    begin: Ints  # [n]
    tag_of: list[Ints]  # [F] row of `tags` per place of the frame, -1: the iteration does not begin

    def at(self, op: Ints | int, place: Ints) -> Ints:
        """The instances of ops in iterations of their frames; -1 where they do not run."""
        found: Ints = self.number[self.begin[op] + place]
        return found


def number_instances(state: Liveness) -> Instances:
    """The instances of a step."""
    frame = np.array(state.flow.frame, np.int64)
    size = np.array([space.size for space in state.spaces], np.int64)[frame]
    begin = np.cumsum(size) - size
    tags, tag_of = _tags(state)
    found: list[tuple[Ints, Ints, Flags, Ints]] = []
    for row, space in enumerate(state.spaces):
        ops = np.flatnonzero(frame == row)
        if len(ops):
            ran = rows([state.ran[op] for op in ops.tolist()], space.size)
            live = rows([state.live[op] for op in ops.tolist()], space.size)
            local, place = np.nonzero(ran)
            found.append((ops[local], place, live[local, place], tag_of[row][place]))
    op, place, live, tag = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.lexsort((op, _read_tags(state, tag_of, op, place, tag)))
    op, place, live, tag = op[order], place[order], live[order], tag[order]
    number = np.full(int(size.sum()), -1)
    number[begin[op] + place] = np.arange(len(op))
    return Instances(op, place, live, tag, tags, number, begin, tag_of)


def _read_tags(state: Liveness, tag_of: list[Ints], op: Ints, place: Ints, tag: Ints) -> Ints:
    """The tag in which the values of each instance are read."""
    flow = state.flow
    found: Ints = tag.copy()
    grouped = np.argsort(op, kind="stable")
    begin = np.searchsorted(op[grouped], np.arange(len(flow.inputs) + 1))
    for one, kind in enumerate(flow.ops.kind):
        if kind not in ENTERS and kind not in EXITS and kind not in NEXT_ITERATIONS:
            continue
        mine = grouped[begin[one] : begin[one + 1]]
        frame = flow.frame[one]
        width = state.spaces[frame].width
        if kind in EXITS:
            found[mine] = tag_of[flow.frames[frame].parent][place[mine] // width]
        elif kind in ENTERS:
            found[mine] = tag_of[flow.child[one]][place[mine] * state.spaces[flow.child[one]].width]
        else:
            goes_on = mine[place[mine] % width < width - 1]
            after = tag_of[frame][place[goes_on] + 1]
            found[goes_on] = np.where(after < 0, tag[goes_on], after)
    return found


def _tags(state: Liveness) -> tuple[tuple[Tag, ...], list[Ints]]:
    """All tags in order, and the tag of each frame's places."""
    nests = [state.flow.loop_nest(row) for row in range(len(state.spaces))]
    deepest = max(1, *map(len, nests))
    begun = [np.flatnonzero(space.grid(exists)) for space, exists in zip(state.spaces, state.exists, strict=True)]
    digits = []
    for nest, places in zip(nests, begun, strict=True):
        table = np.full((len(places), deepest), -1)  # -1: no loop of this depth, which sorts first
        for depth in range(len(nest) - 1, -1, -1):
            places, table[:, depth] = np.divmod(places, state.spaces[nest[depth]].width)
        digits.append(table)
    table = np.concatenate(digits)
    order = np.lexsort(table.T[::-1])
    is_new = np.append(True, (table[order[1:]] != table[order[:-1]]).any(axis=1))
    row_of = np.empty(len(table), np.int64)
    row_of[order] = np.cumsum(is_new) - 1
    tag_of, first = [], 0
    for places, space in zip(begun, state.spaces, strict=True):
        column = np.full(space.size, -1)
        column[places] = row_of[first : first + len(places)]
        tag_of.append(column)
        first += len(places)
    return tuple(tuple(digit for digit in tag if digit >= 0) for tag in table[order[is_new]].tolist()), tag_of


@dataclass(frozen=True, eq=False)
class Delivered:
    """One row for each value or control signal that came to an op that ran."""

    edge: Ints  # of the flow
    source: Ints  # instance
    target: Ints  # instance
    place: Ints  # iteration of the target's frame
    live: Flags

    def __len__(self) -> int:
        return len(self.edge)

    def take(self, which: Flags | Ints) -> Delivered:
        """The given rows."""
        return Delivered(*(getattr(self, one.name)[which] for one in fields(self)))


def deliver(state: Liveness, instances: Instances) -> tuple[Delivered, Delivered]:
    """The values that are waited for, by (target, edge); and the dead ones that a live Merge does not wait for."""
    flow = state.flow
    of_frame: list[list[int]] = [[] for _ in flow.frames]
    for edge, op in enumerate(flow.target):
        of_frame[flow.frame[op]].append(edge)
    nothing = np.zeros(0, np.int64)
    parts = [(nothing, nothing, nothing, nothing, np.zeros(0, np.bool_))]
    parts += [_into(state, instances, frame, edges) for frame, edges in enumerate(of_frame) if edges]
    whole = Delivered(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    merge = np.array([kind in MERGES for kind in flow.ops.kind], bool)
    data = np.array(flow.data, bool)
    lost = merge[instances.op[whole.target]] & instances.live[whole.target] & data[whole.edge] & ~whole.live
    waited = whole.take(~lost)
    return waited.take(np.lexsort((waited.edge, waited.target))), whole.take(lost)


def _into(state: Liveness, instances: Instances, frame: int, edges: list[int]) -> tuple[Ints, Ints, Ints, Ints, Flags]:
    """The values that came to one frame's ops, as the columns of `Delivered`."""
    flow, space = state.flow, state.spaces[frame]
    came, alive = [], []
    for edge in edges:
        ran, live = state.arrived(edge)
        here = state.ran[flow.target[edge]]
        came.append(ran & here)
        alive.append(live & here)
    local, place = np.nonzero(rows(came, space.size))
    is_live = rows(alive, space.size)[local, place]
    row = np.array(edges, np.int64)[local]
    source = np.array(flow.source, np.int64)[row]
    target = instances.at(np.array(flow.target, np.int64)[row], place)
    kind = np.array([flow.edge_kind[one] for one in edges], np.int64)[local]
    origin = np.where(kind == EdgeKind.NEXT_ITERATION, place - 1, place)
    entered = (kind == EdgeKind.ENTER) | (kind == EdgeKind.CONSTANT_ENTER)
    origin = np.where(entered, place // space.width, origin)
    for op in np.unique(source[kind == EdgeKind.EXIT]).tolist():
        mine = source == op
        origin[mine] = _left_from(state, op)[place[mine]]
    return row, instances.at(source, origin), target, place, is_live


def _left_from(state: Liveness, op: int) -> Ints:
    """Per iteration around a loop, the place from which an Exit leaves: where it is live, or else the last one."""
    frame = state.flow.frame[op]
    space = state.spaces[frame]
    live, exists = space.grid(state.live[op]), space.grid(state.exists[frame])
    iteration = np.where(live.any(axis=1), live.argmax(axis=1), np.maximum(exists.sum(axis=1) - 1, 0))
    found: Ints = np.arange(space.outer) * space.width + iteration
    return found


def dead_exits(state: Liveness, instances: Instances, given: Delivered) -> Flags:
    """[rows] the values that come out of a loop dead."""
    leaves = np.array([kind in EXITS for kind in state.flow.ops.kind], bool)
    return leaves[instances.op[given.source]] & ~given.live
