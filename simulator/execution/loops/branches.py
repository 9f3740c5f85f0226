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
from simulator.execution.loops.flow import Flow
from simulator.execution.loops.liveness import Grids
from simulator.execution.loops.trips import NAMED, find_conditions
from simulator.execution.loops.values import MAX_DEPTH, PASSED_ON, Values, always, followed, linear
from simulator.graph.control_flow import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES
from simulator.partitioning.naming import fed_name
from simulator.partitioning.partitions import RECVS, SENDS
from simulator.units import is_whole
from simulator.wording import near, printable, some

Choice: TypeAlias = "bool | float | int"
Output: TypeAlias = "tuple[int, int]"  # op and port

_VALUES = PASSED_ON - {"LoopCond"}


@dataclass(frozen=True, slots=True)
class _Predicate:
    """What a Switch asks, followed back."""

    origin: Output  # what decides
    negated: bool  # the Switch is told the opposite
    names: Mapping[str, bool]  # nodes and tensors on the way -> whether they are the opposite of the origin


def find_branches(
    flow: Flow, grids: Grids, values: Values, branches: Mapping[str, Choice] | None, seed: int
) -> tuple[dict[int, list[int]], list[str]]:
    """Switch -> per output the iterations in which its value goes there; and notes on how that was found.

    Raises SimvizError for a predicate that the step does not have, a loop's condition, or a choice that is none.
    """
    conditions = {output: frame for frame, output in find_conditions(flow).items()}
    switches = [op for op, kind in enumerate(flow.ops.kind) if kind in SWITCHES]
    predicates = {op: found for op in switches if (found := _followed(flow, conditions, op)) is not None}
    asked = _asked(flow, conditions, predicates, branches or {})
    taken, said = dict[int, list[int]](), dict[str, dict[str, str]]()
    for op in switches:
        found = predicates.get(op)
        sides = _sides(flow, op)
        if found is None:  # a Switch without a predicate is in no graph that TensorFlow takes
            taken[op] = [masks.full(grids.size[flow.frame[op]])] * sides
        elif (frame := _loop_of(flow, conditions, found.origin)) is not None:
            more = masks.full(grids.size[frame]) & ~masks.column(
                grids.outer[frame], grids.width[frame], grids.width[frame] - 1
            )
            taken[op] = _both(flow, grids, frame, flow.frame[op], more, found.negated)
        else:
            frame, name = _frame_of(flow, found.origin), _label(flow, found.origin)
            why, choice = _chosen(flow, values, found, asked, case=flow.ops.kind[op] == "_SwitchN")
            said.setdefault(why, {})[name] = f"'{printable(name)}' {_spelled(choice)}"
            if flow.ops.kind[op] == "_SwitchN":
                taken[op] = _cases(flow, op, sides, int(choice), grids)
            else:
                held = _drawn(name, float(choice), grids.size[frame], seed)
                taken[op] = _both(flow, grids, frame, flow.frame[op], held, found.negated)
    return taken, _notes(said, seed)


def _sides(flow: Flow, op: int) -> int:
    outs = flow.attrs(op).get("num_outs")
    return max(int(outs.i), 1) if flow.ops.kind[op] == "_SwitchN" and outs is not None else 2


def _followed(flow: Flow, conditions: Mapping[Output, int], switch: int) -> _Predicate | None:
    """The predicate of a Switch, through everything that passes it on unchanged or negated."""
    at, negated = flow.value(switch, 1), False
    if at is None:
        return None
    seen: dict[str, bool] = {}
    for _ in range(MAX_DEPTH):
        for name in _names(flow, at):
            seen.setdefault(name, negated)
        kind, further = flow.ops.kind[at[0]], None
        if _loop_of(flow, conditions, at) is None:
            if kind in _VALUES or kind in ENTERS or kind == "LogicalNot":
                further = flow.value(at[0])
            elif kind in MERGES:
                further = _unchanged(flow, at[0])
        if further is None:
            break
        at, negated = further, negated is not (kind == "LogicalNot")
    return _Predicate(at, negated, {name: turned is not negated for name, turned in seen.items()})


def _unchanged(flow: Flow, merge: int) -> Output | None:
    """What goes into a loop variable that never changes, else None."""
    given = [at for slot in (0, 1) if (at := flow.value(merge, slot)) is not None]
    enters = [at for at in given if flow.ops.kind[at[0]] in ENTERS]
    back = [followed(flow, at, _VALUES | NEXT_ITERATIONS) for at in given if at not in enters]
    return enters[0] if len(enters) == 1 and back == [(merge, 0)] else None


def _loop_of(flow: Flow, conditions: Mapping[Output, int], at: Output) -> int | None:
    """The loop that an output keeps going."""
    if flow.ops.kind[at[0]] == "LoopCond" and flow.frame[at[0]]:
        return flow.frame[at[0]]
    return conditions.get(at)


def _frame_of(flow: Flow, at: Output) -> int:
    """The frame in which an output is read."""
    frame = flow.frame[at[0]]
    return flow.frames[frame].parent if flow.ops.kind[at[0]] in EXITS else frame


def _label(flow: Flow, at: Output) -> str:
    """ "node:port" of an output, in the graph and in its pieces alike."""
    name, kind = flow.ops.names[at[0]], flow.ops.kind[at[0]]
    if kind == "_Arg" or (kind in RECVS and "tensor_name" in flow.attrs(at[0])):
        return fed_name(name.removesuffix(" (fed)"), flow.attrs(at[0]))
    return f"{name}:{at[1]}"


def _names(flow: Flow, at: Output) -> list[str]:
    """How a user may call an output; a pair that the cut made has no name of its own."""
    if flow.ops.kind[at[0]] in SENDS | RECVS and flow.value(at[0]) is not None:
        return []
    tensor = _label(flow, at)
    return [tensor.rpartition(":")[0], tensor]


def _asked(
    flow: Flow, conditions: Mapping[Output, int], predicates: Mapping[int, _Predicate], branches: Mapping[str, Choice]
) -> dict[Output, tuple[Choice, bool]]:
    """Origin -> what was asked for it, and whether that is meant the other way round."""
    known: dict[str, tuple[Output, bool, int]] = {}
    for op, predicate in predicates.items():
        for name, turned in predicate.names.items():
            known.setdefault(name, (predicate.origin, turned, op))
    looping = {name for name, (origin, _, _) in known.items() if _loop_of(flow, conditions, origin) is not None}
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


def _chosen(
    flow: Flow, values: Values, found: _Predicate, asked: Mapping[Output, tuple[Choice, bool]], *, case: bool
) -> tuple[str, Choice]:
    """Why, and the value of the origin: a probability, or the number of a Case's branch."""
    if found.origin in asked:
        choice, turned = asked[found.origin]
        if case or not turned:
            why = "asked" if case or isinstance(choice, bool) or choice in (0, 1) else "drawn"
            return why, choice
        return ("asked" if choice in (0, 1) else "drawn"), 1 - choice if not isinstance(choice, bool) else not choice
    if case:
        known = linear(values, *found.origin)
        return ("told", known.start) if known is not None and known.step == 0 else ("usual", 0)
    same = always(values, *found.origin)
    return ("usual", True) if same is None else ("told", same)


def _spelled(choice: Choice) -> str:
    if isinstance(choice, bool) or is_whole(choice):
        return str(choice).lower()
    return f"with probability {float(choice):g}"


def _drawn(name: str, probability: float, count: int, seed: int) -> int:
    """The iterations in which a predicate holds; the draw depends on nothing but seed and name."""
    if probability in (0.0, 1.0):
        return masks.full(count) if probability else 0
    draw = np.random.default_rng([seed, crc32(name.encode("utf-8", "surrogatepass"))])
    return masks.mask(draw.random(count) < probability)


def _both(flow: Flow, grids: Grids, frame: int, inner: int, held: int, negated: bool) -> list[int]:
    """The iterations of an inner frame in which a Switch goes to its outputs 0 and 1."""
    path = []
    at = inner
    while at != frame and at:
        path.append(at)
        at = flow.frames[at].parent
    for row in reversed(path) if at == frame else ():
        held = masks.every(held, grids.outer[row], grids.width[row])
    whole = masks.full(grids.size[inner])
    held = (held & whole) ^ (whole if negated else 0)
    return [whole & ~held, held]


def _cases(flow: Flow, op: int, sides: int, choice: int, grids: Grids) -> list[int]:
    """All iterations to one side; an index that is none means the last one, as kernels/control_flow_ops.cc has it."""
    taken = choice if 0 <= choice < sides else sides - 1
    return [masks.full(grids.size[flow.frame[op]]) if side == taken else 0 for side in range(sides)]


def _notes(said: Mapping[str, Mapping[str, str]], seed: int) -> list[str]:
    heads = {
        "asked": "Predicates as asked",
        "drawn": f"Predicates drawn by chance (seed {seed})",
        "told": "Predicates that are constant",
        "usual": "Predicates that nothing tells are taken to hold, of a Case branch 0",
    }
    return [f"{head}: {some(sorted(said[why].values()), NAMED)}." for why, head in heads.items() if why in said]
