"""Signals that hold iterations back, as ops of no length and edges that no device sends to another.

A loop has at most `parallel_iterations` iterations in flight: iteration i + P begins when iteration i has ended, that
is when all of its ops and the loops in it have, and all iterations before it. What a loop reads from outside is there
when an iteration begins, and it begins with the first value that its NextIterations bring. Dead Exits come out when the
loop has ended (`IncrementIteration`, `CleanupIterations` and `DeleteFrame` in
`tensorflow/core/common_runtime/propagator_state.cc`). Each device holds back its own iterations.

    ops of i ──▶ end i ──▶ begin i + P ──▶ what reads only from outside
                   └─────▶ Merges of i + P
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from simulator.columns import Flags
from simulator.execution.loops import masks
from simulator.execution.loops.delivery import Delivered, dead_exits
from simulator.execution.loops.flow import Flow, Way
from simulator.execution.loops.layout import Column, Layout
from simulator.execution.loops.liveness import Grids, Liveness
from simulator.graph.control_flow import MERGES, NEXT_ITERATIONS


@dataclass(frozen=True, eq=False)
class Signals:
    """Ops that stand for no node. Axes: s signals, e edges; instances are numbered first, signals after them."""

    like: Column  # [s] an op of the loop, on whose device the signal is
    tag: Column  # [s] as Layout.tag
    first: Flags  # [s] comes with the first of the values that it waits for
    source: Column  # [e] instance or signal
    target: Column  # [e] instance or signal
    value: Flags  # [e] one of those values


@dataclass(frozen=True, eq=False)
class _Draft:
    """Signals while they are found."""

    count: int  # instances
    like: list[Column] = field(default_factory=list)
    tag: list[Column] = field(default_factory=list)
    first: list[Flags] = field(default_factory=list)
    edges: list[tuple[Column, Column, bool]] = field(default_factory=list)

    def add(self, like: int, tags: Column, *, first: bool) -> Column:
        """The numbers of new signals."""
        begin = self.count + sum(map(len, self.tag))
        self.like.append(np.full(len(tags), like))
        self.tag.append(tags)
        self.first.append(np.full(len(tags), first))
        return np.arange(begin, begin + len(tags))

    def join(self, source: Column, target: Column, *, value: bool = False) -> None:
        """Edges between instances and signals."""
        self.edges.append((source, target, value))


@dataclass(frozen=True, eq=False)
class _Loop:
    """One frame. Axes: p iterations around it, w iterations of its own."""

    row: int
    ops: Column
    group: Column  # [ops] device
    exists: Flags  # [p, w]
    last: Column  # [p] the last that exists
    need: Flags  # [p, w] iterations whose end is waited for


def find_signals(
    flow: Flow,
    grids: Grids,
    state: Liveness,
    layout: Layout,
    given: Delivered,
    group: Sequence[int],
) -> Signals:
    """The signals of all loops; `group` is the device of each op."""
    draft = _Draft(len(layout.op))
    where = np.array(group, np.int64)
    waiting = np.array([kind not in MERGES for kind in flow.ops.kind], bool)
    same = np.array([way is Way.SAME for way in flow.way], bool)
    kept = same[given.edge] & waiting[layout.op[given.target]]
    followed = np.zeros(len(layout.op), np.bool_)  # instances that another of their iteration waits for
    followed[given.source[kept]] = True
    ends: dict[tuple[int, int], Column] = {}  # (frame, device) -> [p, w] number of the signal, -1: none
    needs: dict[int, Flags] = {}
    for loop in _loops(flow, grids, state, layout, given, where, needs):
        needs[loop.row] = loop.need
        for device in np.unique(loop.group).tolist():
            ops = loop.ops[loop.group == device]
            end = _ends(flow, layout, draft, loop, ops, device, followed, where, ends)
            ends[loop.row, device] = end
            _begins(flow, layout, draft, loop, ops, end)
            _hold_back(flow, layout, given, draft, loop, device, where, end)
    nothing = np.zeros(0, np.int64)
    return Signals(
        like=np.concatenate([nothing, *draft.like]),
        tag=np.concatenate([nothing, *draft.tag]),
        first=np.concatenate([np.zeros(0, np.bool_), *draft.first]),
        source=np.concatenate([nothing, *(edge[0] for edge in draft.edges)]),
        target=np.concatenate([nothing, *(edge[1] for edge in draft.edges)]),
        value=np.concatenate([np.zeros(0, np.bool_), *(np.full(len(edge[0]), edge[2]) for edge in draft.edges)]),
    )


def _loops(
    flow: Flow,
    grids: Grids,
    state: Liveness,
    layout: Layout,
    given: Delivered,
    where: Column,
    needs: dict[int, Flags],
) -> Iterator[_Loop]:
    """The loops, each after the one around it, with the iterations whose end somebody waits for."""
    frame = np.array(flow.frame, np.int64)
    dead = given.take(dead_exits(flow, layout, given))
    left = frame[layout.op[dead.source]]
    for row in range(1, len(flow.frames)):
        outer, width = grids.outer[row], grids.width[row]
        exists = masks.rows([state.exists[row]], outer * width).reshape(outer, width)
        last = np.maximum(exists.sum(axis=1) - 1, 0)
        need = np.zeros_like(exists)
        parallel = max(flow.frames[row].parallel, 1)
        if parallel < width:
            need[:, : width - parallel] = exists[:, parallel:]
        need[dead.place[left == row], last[dead.place[left == row]]] = True
        around = needs.get(flow.frames[row].parent)
        if around is not None:
            asked = np.flatnonzero(around.reshape(-1) & exists[:, 0])
            need[asked, last[asked]] = True
        need = np.logical_or.accumulate(need[:, ::-1], axis=1)[:, ::-1] & exists
        ops = np.flatnonzero(frame == row)
        yield _Loop(row, ops, where[ops], exists, last, need)


def _ends(
    flow: Flow,
    layout: Layout,
    draft: _Draft,
    loop: _Loop,
    ops: Column,
    device: int,
    followed: Flags,
    where: Column,
    ends: dict[tuple[int, int], Column],
) -> Column:
    """[p, w] the signals that an iteration has ended on a device, -1 where nobody waits for it."""
    width = loop.need.shape[1]
    end = np.full(loop.need.shape, -1)
    flat = end.reshape(-1)
    places = np.flatnonzero(loop.need)
    if not len(places):
        return end
    flat[places] = draft.add(_representative(flow, ops), layout.tag_of[loop.row][places], first=False)
    plain = np.array([op for op in ops.tolist() if op not in flow.child], np.int64)  # for an Enter its loop answers
    instances = layout.at[layout.begin[plain][:, None] + places]
    row, column = np.nonzero((instances >= 0) & ~followed[instances])
    draft.join(instances[row, column], flat[places[column]])
    entered = places[places % width == 0]
    for op in [op for op, frame in flow.child.items() if frame == loop.row and where[op] == device]:
        instances = layout.at[layout.begin[op] + entered // width]
        draft.join(instances[instances >= 0], flat[entered[instances >= 0]])
    later = places[places % width > 0]
    draft.join(flat[later - 1], flat[later])
    around = ends.get((flow.frames[loop.row].parent, device))
    if around is not None:
        asked = np.flatnonzero((around.reshape(-1) >= 0) & loop.exists[:, 0])
        draft.join(end[asked, loop.last[asked]], around.reshape(-1)[asked])
    return end


def _begins(flow: Flow, layout: Layout, draft: _Draft, loop: _Loop, ops: Column, end: Column) -> None:
    """Signals that an iteration begins on a device, for ops that read from outside the loop alone."""
    width = loop.need.shape[1]
    begin = np.full(loop.need.shape, -1)
    following = np.array([op for op in ops.tolist() if flow.ops.kind[op] in NEXT_ITERATIONS], np.int64)
    readers = np.array([op for op in ops.tolist() if _reads_from_outside(flow, op)], np.int64)
    if not len(readers) or not len(following):
        return
    places = np.flatnonzero(loop.exists)
    places = places[places % width > 0]
    flat = begin.reshape(-1)
    flat[places] = draft.add(_representative(flow, ops), layout.tag_of[loop.row][places], first=True)
    for op in following.tolist():
        before = layout.at[layout.begin[op] + places - 1]
        alive = (before >= 0) & layout.live[before]
        draft.join(before[alive], flat[places[alive]], value=True)
    for op in readers.tolist():
        instances = layout.at[layout.begin[op] + places]
        draft.join(flat[places[instances >= 0]], instances[instances >= 0])
    parallel = max(flow.frames[loop.row].parallel, 1)
    if parallel < width:
        row, iteration = np.nonzero(begin[:, parallel:] >= 0)
        draft.join(end[row, iteration], begin[row, iteration + parallel])


def _reads_from_outside(flow: Flow, op: int) -> bool:
    """Whether all that an op reads comes from constant Enters."""
    return bool(flow.inputs[op]) and all(flow.way[edge] is Way.EVERY for edge in flow.inputs[op])


def _hold_back(
    flow: Flow, layout: Layout, given: Delivered, draft: _Draft, loop: _Loop, device: int, where: Column, end: Column
) -> None:
    """What waits for an end: what a NextIteration leads to, and what comes out of a loop dead."""
    width, parallel = loop.need.shape[1], max(flow.frames[loop.row].parallel, 1)
    frame = np.array(flow.frame, np.int64)
    source, target = layout.op[given.source], layout.op[given.target]
    way = np.array([one is Way.NEXT for one in flow.way], bool)
    mine = way[given.edge] & (frame[target] == loop.row) & (where[target] == device)
    instance, first = np.unique(given.target[mine], return_index=True)
    place = given.place[mine][first]
    late = place % width >= parallel
    draft.join(end.reshape(-1)[place[late] - parallel], instance[late])
    dead = dead_exits(flow, layout, given) & (frame[source] == loop.row) & (where[source] == device)
    pairs = np.unique(np.stack([given.place[dead], given.target[dead]]), axis=1)
    draft.join(end[pairs[0], loop.last[pairs[0]]], pairs[1])


def _representative(flow: Flow, ops: Column) -> int:
    """The op on whose device a loop's signals are: its first Merge there."""
    return next((op for op in ops.tolist() if flow.ops.kind[op] in MERGES), int(ops[0]))
