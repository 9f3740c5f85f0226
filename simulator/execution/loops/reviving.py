"""What would make a dead op live: a walk back to the Switches and loops on which it hangs.

Where several inputs of an op are dead, all have to be live, so that one of them is followed; of a Merge any is enough,
so that all are. What is found is complete: without one of these changes the op stays dead.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from simulator.execution.loops.flow import Flow, Way
from simulator.execution.loops.liveness import arrived
from simulator.execution.loops.settling import Settled
from simulator.graph.control_flow import MERGES, NEXT_ITERATIONS, TRIGGERS


class Change(NamedTuple):
    """Another way of a predicate, or another count of a loop's trips."""

    name: str  # of the predicate, "node:port", or of the loop
    to: int  # 0 or 1, the number of a branch, a count
    loop: int  # the frame; 0: it is a predicate
    case: bool  # of a Case

    @property
    def way(self) -> str:
        """In words."""
        return f"branch {self.to}" if self.case else str(bool(self.to)).lower()


Place = tuple[int, int]  # an op and an iteration of its frame


def revivals(flow: Flow, settled: Settled, op: int, free: Collection[str]) -> list[Change]:
    """The changes of which one at least is needed to make an op outside of loops live, in order.

    `free` are the reasons for which something is as it is that may be changed.
    """
    found, seen = set[Change](), {(op, 0)}
    pending: list[Place] = [(op, 0)]
    while pending:
        at = pending.pop()
        for edge, place in _wanted(flow, settled, *at):
            source, before = flow.source[edge], _origin(flow, settled, edge, place)
            found.update(_turned(flow, settled, edge, before, free))
            for one in before:
                if not settled.state.live[source] >> one & 1 and (source, one) not in seen:
                    seen.add((source, one))
                    pending.append((source, one))
        if not settled.state.exists[flow.frame[at[0]]] >> at[1] & 1:
            for start in _begins(flow, settled, *at):
                if start not in seen:
                    seen.add(start)
                    pending.append(start)
    return sorted(found)


def _wanted(flow: Flow, settled: Settled, op: int, place: int) -> list[Place]:
    """Edges of which one has to bring more than it does, with the iteration."""
    lacking = []
    for edge in flow.inputs[op]:
        came, live = arrived(flow, settled.grids, settled.state, edge)
        enough = (
            came if flow.ops.kind[op] in TRIGGERS or (flow.ops.kind[op] in MERGES and not flow.data[edge]) else live
        )
        if not enough >> place & 1:
            lacking.append((edge, place))
    if flow.ops.kind[op] in MERGES:
        signals = [one for one in lacking if not flow.data[one[0]]]
        return signals[:1] or lacking
    return lacking[:1]


def _origin(flow: Flow, settled: Settled, edge: int, place: int) -> list[int]:
    """The iterations of an edge's source from which something could come."""
    way, sizes = flow.way[edge], settled.grids
    if way is Way.SAME:
        return [place]
    if way is Way.LEAVE:
        frame = flow.frame[flow.source[edge]]
        width = sizes.width[frame]
        begun = [one for one in range(width) if settled.state.exists[frame] >> (place * width + one) & 1]
        return sorted({place * width + max(begun, default=0), place * width + sizes.trips[frame]})
    width = sizes.width[flow.frame[flow.target[edge]]]
    if way is Way.NEXT:
        return [place - 1] if place % width else []
    return [place // width] if way is Way.EVERY or not place % width else []


def _turned(flow: Flow, settled: Settled, edge: int, places: list[int], free: Collection[str]) -> list[Change]:
    """What makes a Switch send its value along an edge that it does not send it along."""
    switch, port = flow.source[edge], flow.port[edge]
    sides, asks = settled.state.taken.get(switch), settled.branches.asks.get(switch)
    if sides is None or asks is None or not flow.data[edge] or asks.why not in free or port >= len(sides):
        return []
    lacking = [place for place in places if not sides[port] >> place & 1]
    if not lacking:
        return []
    case = flow.ops.kind[switch] == "_SwitchN"
    if not asks.loop:
        return [Change(asks.name, port if case else int(bool(port) is not asks.negated), 0, case)]
    if flow.frame[switch] != asks.loop:
        return []
    iteration = lacking[0] % settled.grids.width[asks.loop]
    return [Change(asks.name, iteration + int(bool(port) is not asks.negated), asks.loop, False)]


def _begins(flow: Flow, settled: Settled, op: int, place: int) -> list[Place]:
    """What begins an iteration: the NextIterations of the one before it, or the loop's Enters."""
    frame = flow.frame[op]
    width = settled.grids.width[frame]
    if place % width:
        return [
            (one, place - 1)
            for one, kind in enumerate(flow.ops.kind)
            if kind in NEXT_ITERATIONS and flow.frame[one] == frame
        ]
    return [(one, place // width) for one, leads in flow.child.items() if leads == frame]
