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
from simulator.execution.loops.predicates import Output, Predicate, follow, label, loop_of
from simulator.execution.loops.trips import NAMED, find_conditions
from simulator.execution.loops.values import Values
from simulator.graph.control_flow import SWITCHES
from simulator.units import is_whole
from simulator.wording import near, printable, some

Choice: TypeAlias = "bool | float | int"


def find_branches(
    flow: Flow, grids: Grids, values: Values, branches: Mapping[str, Choice] | None, seed: int
) -> tuple[dict[int, list[int]], list[str]]:
    """Switch -> per output the iterations in which its value goes there; and notes on how that was found.

    Raises SimvizError for a predicate that the step does not have, a loop's condition, or a choice that is none.
    """
    conditions = {output: frame for frame, output in find_conditions(flow).items()}
    switches = [op for op, kind in enumerate(flow.ops.kind) if kind in SWITCHES]
    predicates = {op: found for op in switches if (found := follow(flow, grids, values, conditions, op)) is not None}
    asked = _asked(flow, conditions, predicates, branches or {})
    columns = Columns(values, grids)
    taken, said = dict[int, list[int]](), dict[str, dict[str, str]]()
    for op in switches:
        found = predicates.get(op)
        sides = _sides(flow, op)
        if found is None:  # a Switch without a predicate is in no graph that TensorFlow takes
            taken[op] = [masks.full(grids.size[flow.frame[op]])] * sides
            continue
        frame = loop_of(flow, conditions, found.origin)
        if frame is not None:
            last = grids.width[frame] - 1
            way = (np.arange(grids.size[frame]) % grids.width[frame] < last).astype(np.int64)
        else:
            frame, name = flow.read_in(found.origin[0]), label(flow, found.origin)
            choice = _chosen(flow, columns, found, asked, case=flow.ops.kind[op] == "_SwitchN")
            way = _drawn(name, choice.way, grids.size[frame], seed)
            said.setdefault(choice.why, {})[name] = f"'{printable(name)}' {_spelled(choice.way)}"
        taken[op] = _ways(_at_switch(flow, grids, found, way, frame, flow.frame[op]), found.negated, sides)
    return taken, _notes(said, seed)


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
            raise SimvizError(f"No branch of the step goes by {name!r}; {said}.{near(name, list(known))}")


def _check_choice(flow: Flow, op: int, name: str, choice: Choice) -> None:
    if flow.ops.kind[op] == "_SwitchN":
        sides = _sides(flow, op)
        if not is_whole(choice) or not 0 <= choice < sides:
            raise SimvizError(f"{name!r} chooses among {sides} branches: give a number from 0 to {sides - 1}.")
    elif not _is_probability(choice):
        raise SimvizError(f"branches[{name!r}] is {choice!r}; give True, False or a probability between 0 and 1.")


def _is_probability(choice: object) -> bool:
    return isinstance(choice, Real) and 0 <= float(choice) <= 1


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which way a predicate goes: always, with a probability, or in each iteration."""

    why: str
    way: Choice | Column


def _chosen(
    flow: Flow, columns: Columns, found: Predicate, asked: Mapping[Output, tuple[Choice, bool]], *, case: bool
) -> _Choice:
    """The value of the origin: a truth or a probability, the number of a Case's branch, or a column of either."""
    if found.origin in asked:
        choice, turned = asked[found.origin]
        if turned and not case:
            choice = not choice if isinstance(choice, bool) else 1 - choice
        certain = case or isinstance(choice, bool) or choice in (0, 1)
        return _Choice("asked" if certain else "drawn", choice)
    told = column(columns, *found.origin)
    if told is None:
        return _Choice("usual", 0 if case else True)
    if (told == told[:1]).all():
        return _Choice("told", int(told[0]) if case else bool(told[0]))
    return _Choice("told", told)


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


def _notes(said: Mapping[str, Mapping[str, str]], seed: int) -> list[str]:
    heads = {
        "asked": "Predicates as asked",
        "drawn": f"Predicates drawn by chance (seed {seed})",
        "told": "Predicates that are constant",
        "usual": "Predicates that nothing tells are taken to hold, of a Case branch 0",
    }
    return [f"{head}: {some(sorted(said[why].values()), NAMED)}." for why, head in heads.items() if why in said]
