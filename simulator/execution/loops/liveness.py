"""Liveness: the iterations in which each op runs, and those in which its values are live or dead.

The rules, after `PropagateOutputs`, `ActivateNodes` and `is_control_trigger` of
`tensorflow/core/common_runtime/propagator_state.cc`:

    an op             runs when all its inputs came; it is live when they all are
    a ControlTrigger  is live whenever it runs, so that the ops after a branch in a gradient's loop run either way
    a Merge           runs at its first live value, or when all its values are dead, or with one value from a dead
                      Enter, so that a loop on the path not taken ends; its control inputs only have to have come
    a Switch          has dead values on the sides not taken
    a Recv            is dead as its Send
    a NextIteration   passes nothing on when dead, which ends the loop
    an Exit           comes out dead when the loop has ended, if it ever does

Values on back edges are assumed to be live at first, and the ops are gone through again until assumption and result
agree. The iterations of all loops unrolled form a graph without cycles, so there is one answer. A loop needs two rounds
or three, unless it loses some of its variables meanwhile.

Some loops never end (a stall). A loop that is entered waits for all of its Enters, dead or live. Where one never comes,
neither the loop nor the iteration around it ends. Iterations end in order, so `parallel_iterations` stay in flight, the
next one never begins, and no dead Exit comes out. The step ends when no op is left to run. The Enters are those of all
devices here (`num_pending_inputs`, `IsIterationDone` and `next_iter_roots` of the same file).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from simulator.errors import UnsupportedError
from simulator.execution.loops.frames import EdgeKind, Flow
from simulator.execution.loops.iterations import IterationSpace, mask, rows
from simulator.graph.op_classes import ENTERS, MERGES, NEXT_ITERATIONS, SWITCHES, TRIGGERS

MAX_ROUNDS = 100  # a graph that needs more was made to need more


@dataclass(frozen=True)
class Stalls:
    """The loops that never end, and how many of their iterations begin all the same."""

    begun: dict[int, list[int]] = field(default_factory=dict)  # frame -> per entry the iterations that may begin
    endless: dict[int, int] = field(default_factory=dict)  # frame -> entries that never end


@dataclass(frozen=True, eq=False)
class Liveness:
    """Bits are iterations of the frame in which the op runs. Axes: n ops, F frames."""

    flow: Flow
    spaces: list[IterationSpace]  # [F]
    ran: list[int]  # [n] dead or live
    live: list[int]  # [n]
    exists: list[int]  # [F] iterations that begin
    taken: dict[int, list[int]]  # Switch -> per output the iterations in which its value goes there
    stalls: Stalls = field(default_factory=Stalls)

    def live_port(self, op: int, port: int) -> int:
        """The iterations in which an output of the op is live."""
        sides = self.taken.get(op)
        if sides is None:
            return self.live[op]
        return self.live[op] & sides[port] if 0 <= port < len(sides) else 0

    def arrived(self, edge: int) -> tuple[int, int]:
        """The target's iterations in which anything comes along an edge, and those in which it is live."""
        op, kind = self.flow.source[edge], self.flow.edge_kind[edge]
        ran = self.ran[op]
        live = self.live_port(op, self.flow.port[edge]) if self.flow.data[edge] else self.live[op]
        if kind is EdgeKind.SAME:
            return ran, live
        frame = self.flow.frame[op]
        space = self.spaces[frame]
        if kind is EdgeKind.NEXT_ITERATION:
            came = space.following(live)
            return came, came
        if kind is EdgeKind.EXIT:
            out = space.any_of(live)
            dead = space.any_of(ran & space.last(self.exists[frame])) & ~self.stalls.endless.get(frame, 0)
            return out | dead, out
        inner = self.spaces[self.flow.child[op]]
        move = inner.first if kind is EdgeKind.ENTER else inner.every
        return move(ran), move(live)


def find_liveness(flow: Flow, spaces: list[IterationSpace], taken: dict[int, list[int]]) -> Liveness:
    """The liveness under these trips and sides. Raises UnsupportedError where MAX_ROUNDS rounds do not suffice."""
    state = Liveness(
        flow=flow,
        spaces=spaces,
        ran=[spaces[frame].all for frame in flow.frame],
        live=[spaces[frame].all for frame in flow.frame],
        exists=[space.all for space in spaces],
        taken=taken,
    )
    for op in _next_iterations(flow):  # the last iteration does not go on
        space = spaces[flow.frame[op]]
        state.live[op] &= ~space.at(space.width - 1)
    varying = _varying(flow)
    back_sources = sorted({flow.source[edge] for edge, back in enumerate(flow.edges.back.tolist()) if back})
    for _ in range(MAX_ROUNDS):
        before = [(state.ran[op], state.live[op]) for op in back_sources], list(state.exists)
        for op in varying:
            state.ran[op], state.live[op] = _evaluate(state, op)
        _find_iterations(state)
        if before == ([(state.ran[op], state.live[op]) for op in back_sources], state.exists):
            stalls = _find_stalls(state)
            if stalls == state.stalls:
                return state
            state = replace(state, stalls=stalls)
    raise UnsupportedError(
        f"The loops of this step lose their variables in a way that is not understood within {MAX_ROUNDS} rounds; "
        "look for a NextIteration whose value comes from one side of a Switch alone."
    )


def _next_iterations(flow: Flow) -> list[int]:
    return [op for op, kind in enumerate(flow.ops.kind) if kind in NEXT_ITERATIONS]


def _varying(flow: Flow) -> list[int]:
    """The ops that may be dead or run more than once, in order: all others simply run."""
    found = [False] * len(flow.inputs)
    order = []
    for op in flow.order:
        if flow.frame[op] or flow.ops.kind[op] in SWITCHES or any(found[flow.source[edge]] for edge in flow.inputs[op]):
            found[op] = True
            order.append(op)
    return order


def _evaluate(state: Liveness, op: int) -> tuple[int, int]:
    """The iterations in which an op runs, and those in which it is live."""
    kind, begun = state.flow.ops.kind[op], state.exists[state.flow.frame[op]]
    if kind in MERGES:
        return _evaluate_merge(state, op, begun)
    ran = live = begun
    for edge in state.flow.inputs[op]:
        came, alive = state.arrived(edge)
        ran &= came
        live &= alive
    return ran, ran if kind in TRIGGERS else live & ran


def _evaluate_merge(state: Liveness, op: int, begun: int) -> tuple[int, int]:
    flow = state.flow
    live, all_came, dead_enter = 0, begun, 0
    for edge in flow.inputs[op]:
        came, alive = state.arrived(edge)
        if not flow.data[edge]:
            begun &= came
            continue
        live |= alive
        all_came &= came
        if flow.ops.kind[flow.source[edge]] in ENTERS:
            dead_enter |= came & ~alive
    return (live | all_came | dead_enter) & begun, live & begun


def _find_iterations(state: Liveness) -> None:
    """A loop begins with any of its Enters and goes on with any live NextIteration."""
    begun = [1, *[0] * (len(state.spaces) - 1)]
    for op, frame in state.flow.child.items():
        begun[frame] |= state.spaces[frame].first(state.ran[op])
    for op in _next_iterations(state.flow):
        frame = state.flow.frame[op]
        begun[frame] |= state.spaces[frame].following(state.live[op])
    for frame, (found, space) in enumerate(zip(begun, state.spaces, strict=True)):
        if frame in state.stalls.begun:
            found &= mask(np.arange(space.width) < np.array(state.stalls.begun[frame])[:, None])
        state.exists[frame] = space.unbroken(found)


def overrun(state: Liveness) -> list[int]:
    """The frames that go on after their last iteration, as ops after a ControlTrigger may."""
    found = set[int]()
    for op in _next_iterations(state.flow):
        frame = state.flow.frame[op]
        last = _last(state, frame)
        if state.live[op] & last & state.exists[frame]:
            found.add(frame)
    return sorted(found)


def _last(state: Liveness, frame: int) -> int:
    """The last iteration of each entry, but where a stall keeps the next one from beginning."""
    space = state.spaces[frame]
    last = space.at(space.width - 1)
    if frame not in state.stalls.begun:
        return last
    stalled = np.zeros((space.outer, space.width), np.bool_)
    stalled[:, -1] = np.array(state.stalls.begun[frame]) <= space.width
    return last & ~mask(stalled)


def _find_stalls(state: Liveness) -> Stalls:
    """The loops that never end, given where everything runs."""
    flow, stalls = state.flow, Stalls()
    stuck = [0] * len(flow.frames)  # iterations that never end, since they wait for a loop in them
    enters: list[list[int]] = [[] for _ in flow.frames]
    for op, frame in flow.child.items():
        enters[frame].append(op)
    for frame in range(len(flow.frames) - 1, 0, -1):  # inner loops first
        space, every, some = state.spaces[frame], -1, 0
        for op in enters[frame]:
            every, some = every & state.ran[op], some | state.ran[op]
        lacking, waiting = some & ~every, stuck[frame] & state.exists[frame]
        never = lacking | space.any_of(waiting)
        if never:
            stalls.endless[frame] = never
            stuck[flow.frames[frame].parent] |= never
            stalls.begun[frame] = _may_begin(space, lacking, waiting, max(flow.frames[frame].parallel, 1))
    return stalls


def _may_begin(space: IterationSpace, lacking: int, waiting: int, parallel: int) -> list[int]:
    """[outer] the iterations that may begin: those before the first that never ends, and those in flight with it."""
    grid = space.grid(waiting)
    first = np.where(grid.any(axis=1), grid.argmax(axis=1), np.iinfo(np.int64).max - parallel)
    first[rows([lacking], space.outer)[0]] = 0
    found: list[int] = (first + parallel).tolist()
    return found
