"""Which way each Switch goes: as asked, as the graph's constants say, or the way that is usual.

All Switches with one predicate go the same way, in every iteration in which it is computed anew. A predicate is
followed back, through what passes values on and through LogicalNot, to the op that decides. Where nothing says
anything, it holds: assertions hold, a training step trains, and what is guarded is done; of a Case, branch 0 runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias
from zlib import crc32

import numpy as np

from simulator.errors import SimvizError
from simulator.execution.loops import masks
from simulator.execution.loops.evaluating import Column, Columns, backwards, column
from simulator.execution.loops.flow import Flow
from simulator.execution.loops.layout import path_to
from simulator.execution.loops.liveness import Grids
from simulator.execution.loops.passing import Output
from simulator.execution.loops.predicates import Predicate, follow, label, loop_of
from simulator.execution.loops.trips import ASKED, CHOSEN, NAMED, TOLD, Trips, find_conditions
from simulator.execution.loops.values import Values
from simulator.graph.control_flow import MERGES, SWITCHES
from simulator.units import is_whole
from simulator.wording import near, printable, some

Choice: TypeAlias = "bool | float | int"

DRAWN, USUAL = "drawn", "usual"  # why a predicate goes its way, besides ASKED, TOLD and CHOSEN


class UnknownBranchError(SimvizError):
    """A way is given for a predicate that no Switch of the step asks."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True, slots=True)
class Asks:
    """What decides where a Switch's values go."""

    name: str  # of the predicate, "node:port", or of the loop
    why: str  # ASKED, DRAWN, TOLD, CHOSEN or USUAL; of a loop as in Trips
    negated: bool  # the Switch is told the opposite
    loop: int  # the frame that its condition keeps going; 0: it is a branch


@dataclass(frozen=True, eq=False)
class Branches:
    """Which way the values of every Switch go."""

    taken: dict[int, list[int]]  # Switch -> per output the iterations in which its value goes there
    asks: dict[int, Asks]  # Switch -> what decides
    ways: dict[str, tuple[str, Choice | Column]]  # predicate -> why, and which way it goes
    asked: dict[str, str]  # predicate -> "NAME=WAY", as it was asked for


def find_branches(
    flow: Flow,
    grids: Grids,
    values: Values,
    trips: Trips,
    branches: Mapping[str, Choice] | None,
    seed: int,
    chosen: Mapping[str, int],
) -> Branches:
    """The ways of all Switches; `chosen` ones, by the label of the predicate, go before all others.

    Raises SimvizError for a predicate that the step does not have, a loop's condition, or a choice that is none.
    """
    conditions = {output: frame for frame, output in find_conditions(flow).items()}
    switches = [op for op, kind in enumerate(flow.ops.kind) if kind in SWITCHES]
    predicates = {op: found for op in switches if (found := follow(flow, grids, values, conditions, op)) is not None}
    asked = _asked(flow, conditions, predicates, branches or {})
    columns = Columns(values, grids)
    result = Branches({}, {}, {}, {})
    for op in sorted(switches, key=lambda op: _is_mixed(flow, predicates.get(op))):  # which hand on what others chose
        found, sides = predicates.get(op), _sides(flow, op)
        if found is None:  # a Switch without a predicate is in no graph that TensorFlow takes
            result.taken[op] = [masks.full(grids.size[flow.frame[op]])] * sides
            continue
        loop = loop_of(flow, conditions, found.origin)
        if loop is not None:
            frame = loop
            way = (np.arange(grids.size[frame]) % grids.width[frame] < grids.trips[frame]).astype(np.int64)
            result.asks[op] = Asks(flow.frames[loop].name, trips.why[loop], found.negated, loop)
        else:
            frame, name = flow.read_in(found.origin[0]), label(flow, found.origin)
            if name not in result.ways:
                if _is_mixed(flow, found):
                    columns.forget_unknown()
                is_case = flow.ops.kind[op] == "_SwitchN"
                result.ways[name] = _chosen(columns, found, asked, chosen.get(name), case=is_case)
                given = next((one for one in branches or {} if one in found.names), None)
                if branches is not None and given is not None:
                    result.asked[name] = f"{given}={str(branches[given]).lower()}"
            why, choice = result.ways[name]
            way = _drawn(name, choice, grids.size[frame], seed)
            columns.known[found.origin] = way
            result.asks[op] = Asks(name, why, found.negated, 0)
        result.taken[op] = _ways(_at_switch(flow, grids, found, way, frame, flow.frame[op]), found.negated, sides)
    return result


def _is_mixed(flow: Flow, found: Predicate | None) -> bool:
    return found is not None and flow.ops.kind[found.origin[0]] in MERGES


def _sides(flow: Flow, op: int) -> int:
    outs = flow.attrs(op).get("num_outs")
    return max(int(outs.i), 1) if flow.ops.kind[op] == "_SwitchN" and outs is not None else 2


def _asked(
    flow: Flow, conditions: Mapping[Output, int], predicates: Mapping[int, Predicate], branches: Mapping[str, Choice]
) -> dict[Output, tuple[Choice, bool]]:
    """Origin -> what was asked for it, and whether that is meant the other way round."""
    known: dict[str, tuple[Output, bool, int]] = {}
    for op, predicate in predicates.items():
        for name, turned in predicate.names.items():
            known.setdefault(name, (predicate.origin, turned, op))
    looping = {name for name, (origin, _, _) in known.items() if loop_of(flow, conditions, origin) is not None}
    for name in branches:
        if name in looping:
            raise SimvizError(f"{name!r} is a loop's condition; say with trips how often the loop runs.")
    check_branches(branches, [name for name in known if name not in looping])
    found: dict[Output, tuple[Choice, bool]] = {}
    for name, choice in branches.items():
        origin, turned, op = known[name]
        _check_choice(flow, op, name, choice)
        if found.setdefault(origin, (choice, turned)) != (choice, turned):
            raise SimvizError(f"{name!r} and another of the names in branches are one predicate; give it once.")
    return found


def check_seed(seed: int) -> None:
    """Raise SimvizError for a seed from which nothing can be drawn."""
    if not is_whole(seed) or seed < 0:
        raise SimvizError(f"A seed is a whole number, 0 or more, not {seed!r}.")


def check_branches(branches: Mapping[str, Choice] | None, known: Collection[str]) -> None:
    """Raise SimvizError for a predicate that no Switch of the step asks."""
    for name in branches or {}:
        if name not in known:
            nodes = [repr(printable(one)) for one in known if ":" not in one]
            said = f"they go by {some(nodes, NAMED)}" if nodes else "it has none"
            said = f"No branch of the step goes by {name!r}; {said}.{near(name, list(known))}"
            raise UnknownBranchError(said, name)


def _check_choice(flow: Flow, op: int, name: str, choice: Choice) -> None:
    if flow.ops.kind[op] == "_SwitchN":
        sides = _sides(flow, op)
        if not is_whole(choice) or not 0 <= choice < sides:
            raise SimvizError(f"{name!r} chooses among {sides} branches: give a number from 0 to {sides - 1}.")
    elif not _is_probability(choice):
        raise SimvizError(f"branches[{name!r}] is {choice!r}; give True, False or a probability between 0 and 1.")


def _is_probability(choice: object) -> bool:
    return isinstance(choice, Real) and 0 <= float(choice) <= 1


def _chosen(
    columns: Columns, found: Predicate, asked: Mapping[Output, tuple[Choice, bool]], chosen: int | None, *, case: bool
) -> tuple[str, Choice | Column]:
    """Why, and the value of the origin: a truth or a probability, the number of a branch, or a column of either."""
    if chosen is not None:
        return CHOSEN, chosen if case else bool(chosen)
    if found.origin in asked:
        choice, turned = asked[found.origin]
        if turned and not case:
            choice = not choice if isinstance(choice, bool) else 1 - choice
        certain = case or isinstance(choice, bool) or choice in (0, 1)
        return ASKED if certain else DRAWN, choice
    told = column(columns, *found.origin)
    if told is None:
        return USUAL, 0 if case else True
    if (told == told[:1]).all():
        return TOLD, int(told[0]) if case else bool(told[0])
    return TOLD, told


def _spelled(way: Choice | Column) -> str:
    if isinstance(way, np.ndarray):
        return "as its iterations say"
    if isinstance(way, bool) or is_whole(way):
        return str(way).lower()
    return f"with probability {float(way):g}"


def _drawn(name: str, way: Choice | Column, count: int, seed: int) -> Column:
    """[count] the value of a predicate in each iteration; a draw depends on nothing but seed and name."""
    if isinstance(way, np.ndarray):
        return way
    if is_whole(way) or float(way) in (0.0, 1.0):
        return np.full(count, int(way))
    draw = np.random.default_rng([seed, crc32(name.encode("utf-8", "surrogatepass"))])
    return (draw.random(count) < float(way)).astype(np.int64)


def _at_switch(flow: Flow, grids: Grids, found: Predicate, way: Column, frame: int, inner: int) -> Column:
    """What a Switch in a frame is told where the origin's values are read in another one."""
    for pushed, popped in found.stacks:
        taken_back = backwards(flow, grids, _into(flow, grids, way, frame, pushed), pushed, popped)
        way, frame = way if taken_back is None else taken_back, popped
    return _into(flow, grids, way, frame, inner)


def _into(flow: Flow, grids: Grids, way: Column, frame: int, inner: int) -> Column:
    """A column of one frame in all iterations of a loop in it."""
    size = grids.size[inner]
    if frame in (0, *path_to(flow, inner)):
        return np.repeat(way, size // len(way))
    return np.resize(way, size)  # where two loops are mixed, which TensorFlow does not run


def _ways(way: Column, negated: bool, sides: int) -> list[int]:
    """Per output of a Switch the iterations in which its value goes there.

    An index that is none means the last output, as kernels/control_flow_ops.cc has it.
    """
    if sides == 2 and negated:
        way = 1 - way
    number = np.where((way < 0) | (way >= sides), sides - 1, way)
    return [masks.mask(number == side) for side in range(sides)]


def branch_notes(found: Branches, seed: int) -> list[str]:
    """Which way each predicate goes, and why; of those that were chosen `deciding` tells."""
    said: dict[str, list[str]] = {}
    for name, (why, way) in found.ways.items():
        said.setdefault(why, []).append(f"'{printable(name)}' {_spelled(way)}")
    heads = {
        ASKED: "Predicates as asked",
        DRAWN: f"Predicates drawn by chance (seed {seed})",
        TOLD: "Predicates that are constant",
        USUAL: "Predicates that nothing tells are taken to hold, of a Case branch 0",
    }
    return [f"{head}: {some(sorted(said[why]), NAMED)}." for why, head in heads.items() if why in said]
