"""The side that each Switch takes: as requested, as the graph's constants say, as observed, or the default.

A predicate is followed back to the op that decides it. The walk leads through ops that pass a value on, LogicalNot,
stacks that a gradient pops, and loops that do not change the value. All Switches with one predicate take the same side,
in every iteration in which it is computed anew. By default a predicate holds: assertions hold, a training step trains,
and a guarded op runs. The default branch of a Case is branch 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import NamedTuple
from zlib import crc32

import numpy as np

from simulator.columns import Ints
from simulator.errors import SimvizError
from simulator.execution.loops.entries import bodies
from simulator.execution.loops.frames import Flow, Output
from simulator.execution.loops.iterations import mask
from simulator.execution.loops.observations import observed_way, spread
from simulator.execution.loops.origins import HANDED_ON, MAX_DEPTH, initial, loop_invariant
from simulator.execution.loops.reasons import NAMED, Reason, UnknownNameError
from simulator.execution.loops.trips import find_conditions
from simulator.execution.loops.values import ValueColumns, column, have_equal_trips, popped, trips_of_entries
from simulator.execution.options import Choice, SimulationOptions
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS, fed_name
from simulator.units import is_whole
from simulator.wording import near, printable, some


@dataclass(frozen=True, slots=True)
class Predicate:
    """The predicate of a Switch, followed back to the op that decides it."""

    origin: Output
    loop: int  # the frame of the loop whose condition it is; 0: it decides a branch
    name: str  # "node:port" of the origin, or the name of the loop
    negated: bool  # the Switch reads the opposite of the origin
    names: Mapping[str, bool]  # names of nodes and tensors from Switch to origin -> the opposite of the origin
    stacks: tuple[tuple[int, int], ...]  # from origin to Switch: the frames of each push and its pop


class Decision(NamedTuple):
    """The value of a predicate: a truth, a probability, a share that was observed, a branch's number, or a column."""

    reason: Reason
    value: Choice | Fraction | Ints
    request: str = ""  # "NAME=CHOICE", if it was requested


@dataclass(frozen=True, eq=False)
class Branches:
    """The sides that all Switches take."""

    taken: dict[int, list[int]]  # Switch -> per output its live iterations
    predicates: Mapping[int, Predicate]  # by Switch
    decisions: dict[str, Decision]  # by the name of the predicate; the conditions of loops have none


def find_branches(columns: ValueColumns, options: SimulationOptions, chosen: Mapping[str, int]) -> Branches:
    """The sides of all Switches; `chosen` ones, by the name of the predicate, go before all others.

    Raises SimvizError for a predicate that the step does not have, a loop's condition, or a choice that is none.
    """
    flow, spaces = columns.values.flow, columns.spaces
    loops = {at: frame for frame, at in find_conditions(flow).items() if frame}
    loops |= {(op, 0): frame for op, frame in enumerate(flow.frame) if frame and flow.ops.kind[op] == "LoopCond"}
    switches = [op for op, kind in enumerate(flow.ops.kind) if kind in SWITCHES]
    predicates = {op: one for op in switches if (one := _predicate(columns, loops, op)) is not None}
    requested = _requested(flow, predicates, options.branches)
    taken, decisions = dict[int, list[int]](), dict[str, Decision]()
    merged = {op for op, one in predicates.items() if flow.ops.kind[one.origin[0]] in MERGES}
    for op in sorted(switches, key=lambda op: op in merged):  # the last ones depend on the sides of other Switches
        predicate, sides = predicates.get(op), _sides(flow, op)
        if predicate is None:  # in no graph that TensorFlow takes
            taken[op] = [spaces[flow.frame[op]].all] * sides
            continue
        if predicate.loop:
            frame = predicate.loop
            trips = trips_of_entries(columns, frame)
            value = (np.arange(spaces[frame].width) < trips[:, None]).reshape(-1).astype(np.int64)
        else:
            frame, name = flow.output_frame(predicate.origin[0]), predicate.name
            if name not in decisions:
                if op in merged:
                    columns.forget_unknown()
                is_case = flow.ops.kind[op] == "_SwitchN"
                alike = ((at, one.negated) for at, one in predicates.items() if one.origin == predicate.origin)
                seen = observed_way(flow, options.observed, alike, case=is_case)
                decisions[name] = _decide(columns, predicate, requested, chosen.get(name), seen, case=is_case)
            value = _by_iteration(columns, frame, name, decisions[name].value, options.seed)
            columns.known[predicate.origin] = value
        taken[op] = _taken(_at_switch(columns, predicate, value, frame, op), predicate.negated, sides)
    return Branches(taken, predicates, decisions)


def _sides(flow: Flow, op: int) -> int:
    outs = flow.attrs(op).get("num_outs")
    return max(int(outs.i), 1) if flow.ops.kind[op] == "_SwitchN" and outs is not None else 2


# Predicates


def _predicate(columns: ValueColumns, loops: Mapping[Output, int], switch: int) -> Predicate | None:
    """The predicate of a Switch, through everything that passes it on unchanged or negated."""
    values, flow = columns.values, columns.values.flow
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
            pair = flow.output_frame(further[0]), flow.frame[at[0]]
            if not have_equal_trips(columns, *pair):
                break
            stacks.append(pair)
        elif at not in loops:
            if kind in HANDED_ON or kind in ENTERS or kind == "LogicalNot":
                further = flow.value(at[0])
            elif kind in EXITS:
                further = loop_invariant(flow, at[0])
            elif kind in MERGES:
                further = initial(flow, at[0]) or values.merged.only(flow, at[0])
        if further is None:
            break
        at, negated = further, negated is not (kind == "LogicalNot")
    loop = loops.get(at, 0)
    return Predicate(
        origin=at,
        loop=loop,
        name=flow.frames[loop].name if loop else label(flow, at),
        negated=negated,
        names={name: turned is not negated for name, turned in seen.items()},
        stacks=tuple(reversed(stacks)),
    )


def label(flow: Flow, at: Output) -> str:
    """ "node:port" of an output, the same in the graph and in its pieces."""
    name, kind = flow.ops.names[at[0]], flow.ops.kind[at[0]]
    if kind == "_Arg" or (kind in RECVS and "tensor_name" in flow.attrs(at[0])):
        return fed_name(name.removesuffix(" (fed)"), flow.attrs(at[0]))
    return f"{name}:{at[1]}"


def _names(flow: Flow, at: Output) -> list[str]:
    """The names by which a user may call an output; a pair that the cut made has none."""
    if flow.ops.kind[at[0]] in SENDS | RECVS and flow.value(at[0]) is not None:
        return []
    tensor = label(flow, at)
    return [tensor.rpartition(":")[0], tensor]


# Requests


class _Request(NamedTuple):
    choice: Choice
    turned: bool  # meant for the opposite of the origin
    name: str


def _requested(
    flow: Flow, predicates: Mapping[int, Predicate], branches: Mapping[str, Choice]
) -> dict[Output, _Request]:
    """The requested choices, by origin."""
    known: dict[str, tuple[int, Predicate]] = {}  # name -> the first Switch whose predicate goes by it
    for op, predicate in predicates.items():
        for name in predicate.names:
            known.setdefault(name, (op, predicate))
    for name in branches:
        if name in known and known[name][1].loop:
            raise SimvizError(f"{name!r} is a loop's condition; say with trips how often the loop runs.")
    check_branches(branches, [name for name, (_, predicate) in known.items() if not predicate.loop])
    found: dict[Output, _Request] = {}
    for name, choice in branches.items():
        op, predicate = known[name]
        _check_choice(flow, op, name, choice)
        request = _Request(choice, predicate.names[name], name)
        if found.setdefault(predicate.origin, request)[:2] != request[:2]:
            raise SimvizError(f"{name!r} and another of the names in branches are one predicate; give it once.")
    for name, (_, predicate) in known.items():  # a choice is that of all copies, but for those with another
        node, colon, port = name.partition(":")
        original = f"{flow.graph.copies.get(node, node)}{colon}{port}"
        if original in branches and not predicate.loop:
            found.setdefault(predicate.origin, _Request(branches[original], predicate.names[name], name))
    return found


def check_branches(branches: Mapping[str, Choice], known: Collection[str]) -> None:
    """Raise SimvizError for a predicate that no Switch of the step reads."""
    for name in branches:
        if name not in known:
            nodes = [repr(printable(one)) for one in known if ":" not in one]
            listed = f"its predicates are {some(nodes, NAMED)}" if nodes else "it has none"
            said = f"The step has no predicate {name!r}; {listed}.{near(name, list(known))}"
            raise UnknownNameError(said, "branches", name)


def _check_choice(flow: Flow, op: int, name: str, choice: Choice) -> None:
    if flow.ops.kind[op] == "_SwitchN":
        sides = _sides(flow, op)
        if not is_whole(choice) or not 0 <= choice < sides:
            raise SimvizError(f"{name!r} chooses among {sides} branches: give a number from 0 to {sides - 1}.")
    elif not _is_probability(choice):
        raise SimvizError(f"branches[{name!r}] is {choice!r}; give True, False or a probability between 0 and 1.")


def _is_probability(choice: object) -> bool:
    return isinstance(choice, Real) and 0 <= float(choice) <= 1


# Decisions


def _decide(
    columns: ValueColumns,
    predicate: Predicate,
    requested: Mapping[Output, _Request],
    chosen: int | None,
    seen: Choice | Fraction | None,
    *,
    case: bool,
) -> Decision:
    """The value of a predicate's origin."""
    if chosen is not None:
        return Decision(Reason.CHOSEN, chosen if case else bool(chosen))
    if predicate.origin in requested:
        choice, turned, name = requested[predicate.origin]
        request = f"{name}={str(choice).lower()}"
        if turned and not case:
            choice = not choice if isinstance(choice, bool) else 1 - choice
        certain = case or isinstance(choice, bool) or choice in (0, 1)
        return Decision(Reason.REQUESTED if certain else Reason.DRAWN, choice, request)
    known = column(columns, *predicate.origin)
    if known is None and seen is not None:
        return Decision(Reason.OBSERVED, seen)
    if known is None:
        return Decision(Reason.DEFAULT, 0 if case else True)
    if (known == known[:1]).all():
        return Decision(Reason.KNOWN, int(known[0]) if case else bool(known[0]))
    return Decision(Reason.KNOWN, known)


def _by_iteration(columns: ValueColumns, frame: int, name: str, value: Choice | Fraction | Ints, seed: int) -> Ints:
    """[iterations] the value of a predicate in each iteration; a draw depends on nothing but seed and name."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Fraction):
        runs = bodies(columns, columns.values.flow.loop_nest(frame))
        return spread(value, runs if runs.any() else np.ones_like(runs))
    count = columns.spaces[frame].size
    if is_whole(value) or float(value) in (0.0, 1.0):
        return np.full(count, int(value))
    draw = np.random.default_rng([seed, crc32(name.encode("utf-8", "surrogatepass"))])
    return (draw.random(count) < float(value)).astype(np.int64)


def _at_switch(columns: ValueColumns, predicate: Predicate, value: Ints, frame: int, switch: int) -> Ints:
    """The values that a Switch reads, given those of the origin, which are read in `frame`."""
    for push, pop in predicate.stacks:
        pushed = _spread(columns, value, frame, push)
        reverse = popped(columns, pushed, push, pop)
        value, frame = value if reverse is None else reverse, pop
    return _spread(columns, value, frame, columns.values.flow.frame[switch])


def _spread(columns: ValueColumns, value: Ints, frame: int, inner: int) -> Ints:
    """A column of one frame in all iterations of a loop in it."""
    size = columns.spaces[inner].size
    if frame in (0, *columns.values.flow.loop_nest(inner)):
        return np.repeat(value, size // len(value))
    return np.resize(value, size)  # two loops are mixed, which TensorFlow does not run


def _taken(value: Ints, negated: bool, sides: int) -> list[int]:
    """The live iterations of each output of a Switch.

    An index out of range means the last output, as in `kernels/control_flow_ops.cc`.
    """
    if sides == 2 and negated:
        value = 1 - value
    side = np.where((value < 0) | (value >= sides), sides - 1, value)
    return [mask(side == one) for one in range(sides)]


def branch_notes(found: Branches, seed: int, live: Sequence[int]) -> list[str]:
    """A note per reason, with the predicates and their values; those that were chosen have notes of their own.

    Those of Switches that are dead whenever they run decide nothing, given the iterations in which each op is `live`.
    """
    notes, deciding = [], {one.name for op, one in found.predicates.items() if live[op]}
    for reason, head in (
        (Reason.REQUESTED, "Predicates as asked"),
        (Reason.DRAWN, f"Predicates drawn by chance (seed {seed})"),
        (Reason.KNOWN, "Predicates that are constant"),
        (Reason.OBSERVED, "Predicates as observed"),
        (Reason.DEFAULT, "Unknown predicates are taken as true, unknown cases as branch 0"),
    ):
        said = [
            f"'{printable(name)}' {_spelled(one.value)}"
            for name, one in found.decisions.items()
            if one.reason is reason and name in deciding
        ]
        if said:
            notes.append(f"{head}: {some(sorted(said), NAMED)}.")
    return notes


def _spelled(value: Choice | Fraction | Ints) -> str:
    if isinstance(value, Fraction):
        return f"in {value.numerator} of {value.denominator} iterations"
    if isinstance(value, np.ndarray):
        return "as its iterations say"
    if isinstance(value, bool) or is_whole(value):
        return str(value).lower()
    return f"with probability {float(value):g}"
