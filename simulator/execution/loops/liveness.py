"""Which values are live, dead or never come, in every iteration at once.

An op runs in an iteration when all its inputs came; it is live when they all are. A ControlTrigger is live all the
same, so that what a gradient's loop does after a branch is done whichever way was taken. A Merge runs at its first live
value, or when all its values are dead, or with one from a dead Enter, so that a loop on the path not taken ends; its
control inputs only have to have come. A Switch's value is dead on the sides not taken. A Recv is dead as its Send. A
dead NextIteration passes nothing on, which ends the loop, and a dead Exit comes out when the loop has ended, if it
ever does (`PropagateOutputs`, `ActivateNodes` and `is_control_trigger` of
`tensorflow/core/common_runtime/propagator_state.cc`).

What comes back over a loop's back edge is assumed to be live at first, and the ops are gone through again until the
assumption and the result agree. Without loops' iterations it is a graph without cycles, so that there is one answer;
a loop needs two rounds or three, unless it loses some of its variables on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulator.errors import UnsupportedError
from simulator.execution.loops import masks
from simulator.execution.loops.flow import Flow, Way
from simulator.execution.loops.stalling import NO_STALLS, Stalls, find_stalls
from simulator.graph.control_flow import ENTERS, MERGES, NEXT_ITERATIONS, SWITCHES, TRIGGERS

MAX_ROUNDS = 100  # a graph that needs more was made to need more


@dataclass(frozen=True, eq=False)
class Grids:
    """How many iterations there can be. Axis: frames."""

    width: list[int]  # iterations each time that the loop is entered, one more than trips at least; 1 for the root
    trips: list[int]  # how often the body runs each time; the root's 0
    outer: list[int]  # iterations around it
    size: list[int]  # outer * width


@dataclass(frozen=True, eq=False)
class Liveness:
    """Bits are iterations of the frame in which the op runs. Axes: n ops, F frames."""

    ran: list[int]  # [n] dead or live
    live: list[int]  # [n]
    exists: list[int]  # [F] iterations that begin
    taken: dict[int, list[int]]  # Switch -> per output the iterations in which its value goes there
    stalls: Stalls = NO_STALLS

    def live_port(self, op: int, port: int) -> int:
        """Where an output of the op is live."""
        sides = self.taken.get(op)
        if sides is None:
            return self.live[op]
        return self.live[op] & sides[port] if 0 <= port < len(sides) else 0


def liveness(flow: Flow, grids: Grids, taken: dict[int, list[int]]) -> Liveness:
    """The answer for the given trips and sides. Raises UnsupportedError where it is not found in MAX_ROUNDS rounds."""
    sizes = [grids.size[frame] for frame in flow.frame]
    state = Liveness(
        ran=[masks.full(size) for size in sizes],
        live=[masks.full(size) for size in sizes],
        exists=[masks.full(size) for size in grids.size],
        taken=taken,
    )
    for op in _loop_ends(flow):  # the last iteration does not go on
        frame = flow.frame[op]
        state.live[op] &= ~masks.column(grids.outer[frame], grids.width[frame], grids.width[frame] - 1)
    touched = _touched(flow)
    carriers = sorted({flow.source[edge] for edge, back in enumerate(flow.edges.back.tolist()) if back})
    for _ in range(MAX_ROUNDS):
        before = [(state.ran[op], state.live[op]) for op in carriers], list(state.exists)
        for op in touched:
            state.ran[op], state.live[op] = _settle(flow, grids, state, op)
        _find_iterations(flow, grids, state)
        if before == ([(state.ran[op], state.live[op]) for op in carriers], state.exists):
            stalls = find_stalls(flow, grids.outer, grids.width, state.ran, state.exists)
            if stalls == state.stalls:
                return state
            state = replace(state, stalls=stalls)
    raise UnsupportedError(
        f"The loops of this step lose their variables in a way that is not understood within {MAX_ROUNDS} rounds; "
        "look for a NextIteration whose value comes from one side of a Switch alone."
    )


def _loop_ends(flow: Flow) -> list[int]:
    return [op for op, kind in enumerate(flow.ops.kind) if kind in NEXT_ITERATIONS]


def _touched(flow: Flow) -> list[int]:
    """The ops that may be dead or run more than once, in order: all others simply run."""
    found = [False] * len(flow.inputs)
    order = []
    for op in flow.order:
        if flow.frame[op] or flow.ops.kind[op] in SWITCHES or any(found[flow.source[edge]] for edge in flow.inputs[op]):
            found[op] = True
            order.append(op)
    return order


def arrived(flow: Flow, grids: Grids, state: Liveness, edge: int) -> tuple[int, int]:
    """What comes along an edge, in iterations of its target: where anything does, and where it is live."""
    op, way = flow.source[edge], flow.way[edge]
    ran, live = state.ran[op], state.live_port(op, flow.port[edge]) if flow.data[edge] else state.live[op]
    if way is Way.SAME:
        return ran, live
    if way is Way.NEXT or way is Way.LEAVE:
        frame = flow.frame[op]
        outer, width = grids.outer[frame], grids.width[frame]
        if way is Way.NEXT:
            came = masks.following(live, outer, width)
            return came, came
        out = masks.any_of(live, outer, width)
        final = masks.last(state.exists[frame], outer, width)
        dead = masks.any_of(ran & final, outer, width) & ~state.stalls.endless.get(frame, 0)
        return out | dead, out
    frame = flow.child[op]
    move = masks.first if way is Way.ONCE else masks.every
    outer, width = grids.outer[frame], grids.width[frame]
    return move(ran, outer, width), move(live, outer, width)


def _settle(flow: Flow, grids: Grids, state: Liveness, op: int) -> tuple[int, int]:
    """Where an op runs and where it is live."""
    if flow.ops.kind[op] in MERGES:
        return _settle_merge(flow, grids, state, op)
    ran = live = state.exists[flow.frame[op]]
    for edge in flow.inputs[op]:
        came, alive = arrived(flow, grids, state, edge)
        ran &= came
        live &= alive
    return ran, ran if flow.ops.kind[op] in TRIGGERS else live & ran


def _settle_merge(flow: Flow, grids: Grids, state: Liveness, op: int) -> tuple[int, int]:
    begun = state.exists[flow.frame[op]]
    live, all_came, dead_enter = 0, begun, 0
    for edge in flow.inputs[op]:
        came, alive = arrived(flow, grids, state, edge)
        if not flow.data[edge]:
            begun &= came
            continue
        live |= alive
        all_came &= came
        if flow.ops.kind[flow.source[edge]] in ENTERS:
            dead_enter |= came & ~alive
    return (live | all_came | dead_enter) & begun, live & begun


def _find_iterations(flow: Flow, grids: Grids, state: Liveness) -> None:
    """A loop begins with any of its Enters and goes on with any live NextIteration."""
    begun = [0] * len(flow.frames)
    begun[0] = 1
    for op, frame in flow.child.items():
        begun[frame] |= masks.first(state.ran[op], grids.outer[frame], grids.width[frame])
    for op in _loop_ends(flow):
        frame = flow.frame[op]
        begun[frame] |= masks.following(state.live[op], grids.outer[frame], grids.width[frame])
    for frame, found in enumerate(begun):
        outer, width = grids.outer[frame], grids.width[frame]
        state.exists[frame] = masks.unbroken(state.stalls.begun(frame, found, outer, width), outer, width)


def overrun(flow: Flow, grids: Grids, state: Liveness) -> list[int]:
    """The frames of which something goes on after their last iteration, as what follows a ControlTrigger may."""
    found = []
    for op in _loop_ends(flow):
        frame = flow.frame[op]
        outer, width = grids.outer[frame], grids.width[frame]
        last = masks.column(outer, width, width - 1) & ~state.stalls.put_off(frame, outer, width)
        if state.live[op] & last & state.exists[frame]:
            found.append(frame)
    return sorted(set(found))


def grids(flow: Flow, trips: Sequence[int], more: Sequence[int]) -> Grids:
    """The iterations that there can be, given how often the body of each frame runs and how many begin after that."""
    width = [1, *(count + 1 + extra for count, extra in zip(trips[1:], more[1:], strict=True))]
    outer, size = [1], [1]
    for frame, row in enumerate(flow.frames[1:], 1):
        outer.append(size[row.parent])
        size.append(outer[frame] * width[frame])
    return Grids(width, list(trips), outer, size)
