"""What the Switches of a step ask: the output that decides, and all names by which a user may call it.

A predicate is followed back through what passes values on, through LogicalNot, out of the values that a branch of
version 2 hands to its gradient, off the stacks on which a loop keeps them for its gradient, and through the loops
that carry it round without changing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.execution.loops.flow import Flow
from simulator.execution.loops.layout import path_to
from simulator.execution.loops.liveness import Grids
from simulator.execution.loops.passing import MAX_DEPTH, PASSED_ON, Output, followed
from simulator.execution.loops.values import Values
from simulator.graph.control_flow import ENTERS, EXITS, MERGES, NEXT_ITERATIONS
from simulator.partitioning.naming import fed_name
from simulator.partitioning.partitions import RECVS, SENDS

_VALUES = PASSED_ON - {"LoopCond"}
_MAX_LOOPS = 10  # loops in loops that a value is followed through


@dataclass(frozen=True, slots=True)
class Predicate:
    """What a Switch asks, followed back."""

    origin: Output  # what decides
    negated: bool  # the Switch is told the opposite
    names: Mapping[str, bool]  # nodes and tensors on the way -> whether they are the opposite of the origin
    stacks: tuple[tuple[int, int], ...]  # on the way from origin to Switch: frames where it was pushed, and popped


def follow(flow: Flow, grids: Grids, values: Values, conditions: Mapping[Output, int], switch: int) -> Predicate | None:
    """The predicate of a Switch, through everything that passes it on unchanged or negated."""
    at, negated = flow.value(switch, 1), False
    if at is None:
        return None
    seen: dict[str, bool] = {}
    stacks: list[tuple[int, int]] = []
    for _ in range(MAX_DEPTH):
        for name in _names(flow, at):
            seen.setdefault(name, negated)
        kind, further = flow.ops.kind[at[0]], None
        if at in values.pops:
            further = values.pops[at]
            pair = flow.read_in(further[0]), flow.frame[at[0]]
            if not _alike(flow, grids, *pair):
                break
            stacks.append(pair)
        elif loop_of(flow, conditions, at) is None:
            if kind in _VALUES or kind in ENTERS or kind == "LogicalNot":
                further = flow.value(at[0])
            elif kind in EXITS:
                further = _entered(flow, at[0])
            elif kind in MERGES:
                further = _unchanged(flow, at[0]) or values.merged.only(flow, at[0])
        if further is None:
            break
        at, negated = further, negated is not (kind == "LogicalNot")
    names = {name: turned is not negated for name, turned in seen.items()}
    return Predicate(at, negated, names, tuple(reversed(stacks)))


def _alike(flow: Flow, grids: Grids, there: int, here: int) -> bool:
    """Whether as many loops are around both, which run as often."""
    trips = [[grids.trips[row] for row in path_to(flow, frame)] for frame in (there, here)]
    return trips[0] == trips[1]


def _unchanged(flow: Flow, merge: int, depth: int = 0) -> Output | None:
    """What goes into a loop variable that never changes, else None."""
    given = [at for slot in (0, 1) if (at := flow.value(merge, slot)) is not None]
    enters = [at for at in given if flow.ops.kind[at[0]] in ENTERS]
    back = [_brought_round(flow, at, depth) for at in given if at not in enters]
    return enters[0] if len(enters) == 1 and back == [(merge, 0)] else None


def _brought_round(flow: Flow, at: Output | None, depth: int) -> Output | None:
    """What comes round a loop, through the loops in it that do not change it."""
    for _ in range(MAX_DEPTH):
        at = followed(flow, at, _VALUES | NEXT_ITERATIONS)
        if at is None or flow.ops.kind[at[0]] not in EXITS:
            return at
        entered = _entered(flow, at[0], depth + 1)
        if entered is None:
            return at
        at = flow.value(entered[0])
    return None


def _entered(flow: Flow, exit_: int, depth: int = 0) -> Output | None:
    """The Enter of what an Exit hands out as it came in, whatever the loop's trips; None: it may have changed."""
    at = followed(flow, flow.value(exit_), _VALUES) if depth < _MAX_LOOPS else None
    if at is None or flow.ops.kind[at[0]] in ENTERS:
        return at
    return _unchanged(flow, at[0], depth) if flow.ops.kind[at[0]] in MERGES else None


def loop_of(flow: Flow, conditions: Mapping[Output, int], at: Output) -> int | None:
    """The loop that an output keeps going."""
    if flow.ops.kind[at[0]] == "LoopCond" and flow.frame[at[0]]:
        return flow.frame[at[0]]
    return conditions.get(at)


def label(flow: Flow, at: Output) -> str:
    """ "node:port" of an output, in the graph and in its pieces alike."""
    name, kind = flow.ops.names[at[0]], flow.ops.kind[at[0]]
    if kind == "_Arg" or (kind in RECVS and "tensor_name" in flow.attrs(at[0])):
        return fed_name(name.removesuffix(" (fed)"), flow.attrs(at[0]))
    return f"{name}:{at[1]}"


def _names(flow: Flow, at: Output) -> list[str]:
    """How a user may call an output; a pair that the cut made has no name of its own."""
    if flow.ops.kind[at[0]] in SENDS | RECVS and flow.value(at[0]) is not None:
        return []
    tensor = label(flow, at)
    return [tensor.rpartition(":")[0], tensor]
