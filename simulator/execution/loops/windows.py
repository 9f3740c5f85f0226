"""Signals that hold iterations back, as ops of no length and edges that no device sends to another.

A loop has at most P = `parallel_iterations` iterations in flight: iteration i + P begins when iteration i has ended. An
iteration has ended when all of its ops, the loops in it and all iterations before it have. An iteration begins with the
first value that a NextIteration brings; the values that the loop reads from outside are there by then. Dead Exits come
out when the loop has ended. Each device holds back its own iterations (`IncrementIteration`, `CleanupIterations` and
`DeleteFrame` in `tensorflow/core/common_runtime/propagator_state.cc`).

    ops of i ──▶ end of i ──▶ begin of i + P ──▶ ops that read only from outside
                     └──────▶ Merges of i + P
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.columns import Flags, Ints
from simulator.execution.loops.frames import EdgeKind, Flow
from simulator.execution.loops.instances import Delivered, Instances, dead_exits
from simulator.execution.loops.iterations import IterationSpace
from simulator.execution.loops.liveness import Liveness
from simulator.graph.op_classes import MERGES, NEXT_ITERATIONS


@dataclass(frozen=True, eq=False)
class Signals:
    """Ops that stand for no node. Axes: s signals, e edges; instances are numbered first, signals after them."""

    like: Ints  # [s] an op of the loop, on whose device the signal is
    tag: Ints  # [s] as Instances.tag
    first: Flags  # [s] comes with the first of the values that it waits for
    source: Ints  # [e] instance or signal
    target: Ints  # [e] instance or signal
    value: Flags  # [e] one of those values


@dataclass(frozen=True, eq=False)
class _Loop:
    """One frame. Axes: p iterations around it, w iterations of its own."""

    row: int
    space: IterationSpace
    parallel: int
    ops: Ints
    exists: Flags  # [p, w]
    last: Ints  # [p] the last that exists
    need: Flags  # [p, w] iterations whose end is waited for


def find_signals(state: Liveness, instances: Instances, given: Delivered, device: Sequence[int]) -> Signals:
    """The signals of all loops; `device` is that of each op."""
    windows = _Windows(state, instances, given, device)
    for row in range(1, len(state.flow.frames)):  # each after the one around it
        loop = windows.loop(row)
        for one in np.unique(windows.device[loop.ops]).tolist():
            windows.add_loop(loop, one)
    return windows.signals()


class _Windows:
    """The signals found so far."""

    def __init__(self, state: Liveness, instances: Instances, given: Delivered, device: Sequence[int]) -> None:
        self.flow: Flow = state.flow
        self.state, self.instances, self.given = state, instances, given
        self.device = np.array(device, np.int64)
        self.frame = np.array(state.flow.frame, np.int64)
        kind = np.array(state.flow.edge_kind, np.int64)[given.edge]
        waits = np.array([one not in MERGES for one in state.flow.ops.kind], bool)[instances.op[given.target]]
        self.followed = np.zeros(len(instances.op), np.bool_)  # another instance of the same iteration waits for it
        self.followed[given.source[(kind == EdgeKind.SAME) & waits]] = True
        self.back = given.take(kind == EdgeKind.NEXT_ITERATION)
        self.dead = given.take(dead_exits(state, instances, given))
        self.needs: dict[int, Flags] = {}  # by frame, as _Loop.need
        self.ends: dict[tuple[int, int], Ints] = {}  # (frame, device) -> [p, w] number of the signal, -1: none
        self.count = len(instances.op)
        self.ops: list[tuple[Ints, Ints, Flags]] = []  # like, tag, first
        self.edges: list[tuple[Ints, Ints, Flags]] = []  # source, target, value

    def signals(self) -> Signals:
        """All of them."""
        none = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_)
        like, tag, first = (np.concatenate(columns) for columns in zip(none, *self.ops, strict=True))
        source, target, value = (np.concatenate(columns) for columns in zip(none, *self.edges, strict=True))
        return Signals(like, tag, first, source, target, value)

    def loop(self, row: int) -> _Loop:
        """A loop, with the iterations whose end some op or the loop around it waits for."""
        space, frame = self.state.spaces[row], self.flow.frames[row]
        parallel = max(frame.parallel, 1)
        exists = space.grid(self.state.exists[row])
        last = np.maximum(exists.sum(axis=1) - 1, 0)
        need = np.zeros_like(exists)
        if parallel < space.width:
            need[:, : space.width - parallel] = exists[:, parallel:]
        left = self.dead.place[self.frame[self.instances.op[self.dead.source]] == row]
        need[left, last[left]] = True
        around = self.needs.get(frame.parent)
        if around is not None:
            inner = np.flatnonzero(around.reshape(-1) & exists[:, 0])
            need[inner, last[inner]] = True
        need = np.logical_or.accumulate(need[:, ::-1], axis=1)[:, ::-1] & exists
        self.needs[row] = need
        return _Loop(row, space, parallel, np.flatnonzero(self.frame == row), exists, last, need)

    def add_loop(self, loop: _Loop, device: int) -> None:
        """The signals of a loop on one of its devices."""
        ops = loop.ops[self.device[loop.ops] == device]
        end = self._add_ends(loop, ops, device)
        self.ends[loop.row, device] = end
        self._add_begins(loop, ops, end)
        self._hold_back(loop, device, end)

    def _add(self, loop: _Loop, ops: Ints, places: Ints, *, first: bool) -> Ints:
        """The numbers of new signals; they are on the device of the loop's first Merge there."""
        like = next((op for op in ops.tolist() if self.flow.ops.kind[op] in MERGES), int(ops[0]))
        tags = self.instances.tag_of[loop.row][places]
        self.ops.append((np.full(len(tags), like), tags, np.full(len(tags), first)))
        self.count += len(tags)
        return np.arange(self.count - len(tags), self.count)

    def _join(self, source: Ints, target: Ints, *, value: bool = False) -> None:
        """Edges between instances and signals."""
        self.edges.append((source, target, np.full(len(source), value)))

    def _add_ends(self, loop: _Loop, ops: Ints, device: int) -> Ints:
        """[p, w] the signals that an iteration has ended on a device, -1 where nothing waits for it."""
        width, instances = loop.space.width, self.instances
        end = np.full(loop.need.shape, -1)
        flat = end.reshape(-1)
        places = np.flatnonzero(loop.need)
        if not len(places):
            return end
        flat[places] = self._add(loop, ops, places, first=False)
        plain = np.array([op for op in ops.tolist() if op not in self.flow.child], np.int64)
        found = instances.at(plain[:, None], places)
        row, column = np.nonzero((found >= 0) & ~self.followed[found])
        self._join(found[row, column], flat[places[column]])
        entered = places[places % width == 0]
        for op in [op for op, frame in self.flow.child.items() if frame == loop.row and self.device[op] == device]:
            found = instances.at(op, entered // width)
            self._join(found[found >= 0], flat[entered[found >= 0]])
        later = places[places % width > 0]
        self._join(flat[later - 1], flat[later])
        around = self.ends.get((self.flow.frames[loop.row].parent, device))
        if around is not None:
            inner = np.flatnonzero((around.reshape(-1) >= 0) & loop.exists[:, 0])
            self._join(end[inner, loop.last[inner]], around.reshape(-1)[inner])
        return end

    def _add_begins(self, loop: _Loop, ops: Ints, end: Ints) -> None:
        """Signals that an iteration begins on a device, for ops that read from outside the loop alone."""
        instances = self.instances
        following = [op for op in ops.tolist() if self.flow.ops.kind[op] in NEXT_ITERATIONS]
        readers = [op for op in ops.tolist() if self._reads_from_outside(op)]
        if not readers or not following:
            return
        begin = np.full(loop.need.shape, -1)
        flat = begin.reshape(-1)
        places = np.flatnonzero(loop.exists)
        places = places[places % loop.space.width > 0]
        flat[places] = self._add(loop, ops, places, first=True)
        for op in following:
            before = instances.at(op, places - 1)
            alive = (before >= 0) & instances.live[before]
            self._join(before[alive], flat[places[alive]], value=True)
        for op in readers:
            found = instances.at(op, places)
            self._join(flat[places[found >= 0]], found[found >= 0])
        if loop.parallel < loop.space.width:
            row, iteration = np.nonzero(begin[:, loop.parallel :] >= 0)
            self._join(end[row, iteration], begin[row, iteration + loop.parallel])

    def _reads_from_outside(self, op: int) -> bool:
        """Tell whether all inputs of an op come from constant Enters."""
        edges = self.flow.inputs[op]
        return bool(edges) and all(self.flow.edge_kind[edge] is EdgeKind.CONSTANT_ENTER for edge in edges)

    def _hold_back(self, loop: _Loop, device: int, end: Ints) -> None:
        """Edges from ends to the ops that a NextIteration or a dead Exit leads to."""
        target = self.instances.op[self.back.target]
        mine = (self.frame[target] == loop.row) & (self.device[target] == device)
        instance, first = np.unique(self.back.target[mine], return_index=True)
        place = self.back.place[mine][first]
        late = place % loop.space.width >= loop.parallel
        self._join(end.reshape(-1)[place[late] - loop.parallel], instance[late])
        source = self.instances.op[self.dead.source]
        mine = (self.frame[source] == loop.row) & (self.device[source] == device)
        pairs = np.unique(np.stack([self.dead.place[mine], self.dead.target[mine]]), axis=1)
        self._join(end[pairs[0], loop.last[pairs[0]]], pairs[1])
