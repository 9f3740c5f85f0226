"""Choices of unknown predicates and trips, so that all fetches run.

A scenario is a set of such choices and the run of the step under it. By default predicates hold and loops run once.
Where a loop would never end, predicates in it get other values. Where a fetch is dead then, or never comes, a walk back
from it finds the Switches and loops that could bring it. Their other sides and counts are tried, the fewest changes
first, ties by name: so a step and its pieces agree. Targets, which only have to run, come after fetches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from simulator import limits
from simulator.errors import SimvizError, UnsupportedError
from simulator.execution.loops.frames import EdgeKind, Flow
from simulator.execution.loops.iterations import IterationSpace, iteration_spaces
from simulator.execution.loops.liveness import Liveness, find_liveness, overrun
from simulator.execution.loops.origins import LiveInputs, Merged, origin
from simulator.execution.loops.predicates import Branches, Predicate, find_branches, label
from simulator.execution.loops.reasons import NAMED, Reason, quoted
from simulator.execution.loops.trips import Trips, find_trips
from simulator.execution.loops.values import ValueColumns
from simulator.execution.options import SimulationOptions
from simulator.graph.op_classes import MERGES, NEXT_ITERATIONS, TRIGGERS
from simulator.partitioning.partitions import RECVS, SENDS
from simulator.wording import counted, printable, some

_MAX_ROUNDS = 10
_MAX_EXTRA = 20  # iterations after a loop's last one, besides those that are in flight at once
_MAX_IN_FLIGHT = 100
_MAX_SCENARIOS, _MAX_OPS = 200, 1_000_000  # tried for one step, and ops in all of them

OPEN = frozenset({Reason.DEFAULT})  # not determined by anything
OPTIONS = frozenset({Reason.REQUESTED, Reason.DRAWN})


class RequiredOp(NamedTuple):
    """An op outside of loops that should be live."""

    is_target: bool  # it only has to run: its value is not fetched
    name: str
    op: int


class Change(NamedTuple):
    """Another value of a predicate, or another trip count of a loop."""

    name: str  # of the predicate, "node:port", or of the loop
    to: int  # 0 or 1, the number of a branch, a count
    loop: int  # the frame; 0: it is a predicate
    case: bool  # of a Case


@dataclass(frozen=True, eq=False)
class Scenario:
    """The run of a step under given choices."""

    trips: Trips
    branches: Branches
    state: Liveness

    def reason(self, one: Predicate | Change) -> Reason:
        """The reason for the value of a predicate or the trips of a loop."""
        return self.trips.reason[one.loop] if one.loop else self.branches.decisions[one.name].reason


@dataclass(frozen=True, eq=False)
class Decided:
    """The scenario of a step, and the notes on how it was found."""

    scenario: Scenario
    dead_fetches: tuple[str, ...]  # dead whatever is chosen: TensorFlow refuses such a step
    notes: tuple[str, ...]


class EndlessError(UnsupportedError):
    """A loop never ends, with its predicates decided like this."""

    def __init__(self, message: str, frame: int, branches: Branches) -> None:
        super().__init__(message)
        self.frame = frame
        self.branches = branches


@dataclass(eq=False)
class _Scenarios:
    """The scenarios that were tried, each set of changes once, and the number that may still be tried."""

    flow: Flow
    run: Callable[[Mapping[str, int]], Scenario]
    left: int
    done: dict[tuple[Change, ...], Scenario | None] = field(default_factory=dict)
    endless: dict[tuple[Change, ...], EndlessError] = field(default_factory=dict)
    first: tuple[Change, ...] = ()  # the changes without which the step never ends

    def scenario(self, changes: tuple[Change, ...]) -> Scenario | None:
        """The scenario under these changes; None: there is none, or enough was tried."""
        if changes not in self.done:
            if self.left <= 0:
                return None
            self.left -= 1
            try:
                self.done[changes] = self.run({change.name: change.to for change in changes})
            except SimvizError as error:
                if isinstance(error, EndlessError):
                    self.endless[changes] = error
                elif not changes:
                    raise
                self.done[changes] = None
        return self.done[changes]


def decide(flow: Flow, options: SimulationOptions) -> Decided:
    """Find a scenario in which the fetches are live, if any choice of unknown predicates and trips makes them so.

    Raises SimvizError as `find_scenario` does, and where the requested trips or branches leave a fetch dead.
    """
    tried = _Scenarios(
        flow,
        lambda chosen: find_scenario(flow, options, chosen),
        min(_MAX_SCENARIOS, 1 + _MAX_OPS // max(len(flow.inputs), 1)),
    )
    tried.first = _fewest_changes((), lambda changes: _to_end(tried, changes)) or ()
    default, required = tried.scenario(tried.first), _required(flow)
    if default is None:
        raise tried.endless[()]
    if not _dead(default, required):
        return Decided(default, (), tuple(_change_notes(tried, tried.first, required)))
    changes, kept = _best(tried, required)
    scenario = tried.scenario(changes)
    assert scenario is not None
    gone = _dead(scenario, required)
    dead = [one for one in gone if not one.is_target]
    if dead:
        _check_options(tried, default, [one for one in required if not one.is_target], dead)
    notes = *_dead_notes(dead), *_change_notes(tried, changes, kept), *_idle_notes(gone)
    return Decided(scenario, tuple(one.name for one in dead), notes)


# One scenario


def find_scenario(flow: Flow, options: SimulationOptions, chosen: Mapping[str, int]) -> Scenario:
    """The requested scenario; `chosen` are trip counts and values of predicates that go before the request.

    It is found in rounds, for two reasons. A Merge passes on the value of the side that was taken, which depends on
    liveness. The loop of a gradient counts and compares such values. Besides, an op after a ControlTrigger may begin an
    iteration after the loop's last one. Where rounds come back to an earlier one, nothing is known of the Merges on
    which they differ.

    Raises SimvizError for names, counts and choices that are none and for trips beyond `limits.UNROLLED`. Raises
    EndlessError for a loop that goes on after its condition is false.
    """
    merged, extra, earlier = Merged(), [0] * len(flow.frames), list[Mapping[int, LiveInputs]]()
    for _ in range(_MAX_ROUNDS * (_MAX_EXTRA + _MAX_IN_FLIGHT)):
        count, values = find_trips(flow, options, merged, chosen, extra)
        spaces = iteration_spaces(flow, count.count, extra)
        _check_size(flow, spaces)
        sides = find_branches(ValueColumns(values, spaces), options, chosen)
        state = find_liveness(flow, spaces, sides.taken)
        going_on = overrun(state)
        if going_on:
            extra, earlier = [more + (row in going_on) for row, more in enumerate(extra)], []
            _check_extra(flow, extra, sides)
            continue
        asked, unsettled = sorted(merged.unknown - merged.unsettled), merged.unsettled
        inputs = {merge: found for merge in asked if (found := _live_inputs(state, merge))}
        if inputs == merged.inputs:
            break
        if inputs in earlier:
            turning = earlier[earlier.index(inputs) :]
            unsettled |= {merge for merge in asked if any(one.get(merge) != inputs.get(merge) for one in turning)}
            inputs, earlier = {merge: found for merge, found in inputs.items() if merge not in unsettled}, []
        earlier.append(inputs)
        merged = Merged(inputs, spaces, set(merged.unknown), unsettled)
    return Scenario(count, sides, state)


def _check_extra(flow: Flow, extra: list[int], sides: Branches) -> None:
    """Refuse a loop that never ends."""
    for row, more in enumerate(extra):
        if more > _MAX_EXTRA + min(flow.frames[row].parallel, _MAX_IN_FLIGHT):
            raise EndlessError(
                f"Loop {flow.loop(row)} goes on for ever after its condition is false: one of its "
                "NextIterations depends on constants alone or follows a ControlTrigger; give it a value of the loop.",
                row,
                sides,
            )


def _live_inputs(state: Liveness, merge: int) -> LiveInputs:
    """The values of a Merge that are ever live, with the iterations in which they are."""
    flow = state.flow
    return [
        ((flow.source[edge], flow.port[edge]), live)
        for edge in flow.inputs[merge]
        if flow.data[edge] and (live := state.arrived(edge)[1])
    ]


def _check_size(flow: Flow, spaces: Sequence[IterationSpace]) -> None:
    """Refuse more instances than fit, before any is made."""
    members = Counter(flow.frame)
    of_frame = [members[row] * space.size for row, space in enumerate(spaces)]
    if sum(of_frame[1:]) <= limits.UNROLLED.most:  # with few devices an op takes 300 bytes in tables, 700 while it runs
        return
    heaviest = max(range(1, len(of_frame)), key=lambda row: (of_frame[row], -row))
    row = max(flow.loop_nest(heaviest), key=lambda row: spaces[row].trips)
    raise SimvizError(
        f"Loop {flow.loop(row)} with {counted(spaces[row].trips, 'trip')} unrolls the step to "
        f"{sum(of_frame):,} ops, and {limits.UNROLLED.most:,} is the limit; ask for fewer trips, or "
        f"{limits.UNROLLED.remedy}."
    )


# The search over scenarios


def _required(flow: Flow) -> list[RequiredOp]:
    """The fetches by name, then the targets: ops whose values nothing reads."""
    found, read = list[RequiredOp](), set(flow.source)
    for op, kind in enumerate(flow.ops.kind):
        if flow.ops.bound[op] >= 0 and (kind == "_Retval" or kind in SENDS):
            at = origin(flow, flow.value(op), SENDS | RECVS)
            found.append(RequiredOp(False, label(flow, at) if at is not None else flow.ops.names[op], op))
        elif op not in read and not flow.frame[op] and not flow.ops.inserted[op]:
            found.append(RequiredOp(True, flow.ops.names[op], op))
    return sorted(found)


def _dead(scenario: Scenario, required: Iterable[RequiredOp]) -> list[RequiredOp]:
    return [one for one in required if not scenario.state.live[one.op]]


def _best(tried: _Scenarios, required: list[RequiredOp]) -> tuple[tuple[Change, ...], list[RequiredOp]]:
    """The changes with which all required ops are live, or one after the other as many as can be; and these ops."""
    found = _to_live(tried, required, OPEN)
    if found is not None:
        return found, required
    changes, kept = tried.first, list[RequiredOp]()
    default = tried.scenario(changes)
    dead = set(_dead(default, required)) if default is not None else set(required)
    for one in sorted(required, key=lambda one: (one.is_target, one in dead, one.name)):
        scenario = tried.scenario(changes)
        if scenario is not None and not _dead(scenario, [*kept, one]):
            kept.append(one)
        elif (found := _to_live(tried, [*kept, one], OPEN)) is not None:
            changes, kept = found, [*kept, one]
    return changes, kept


def _fewest_changes(
    start: tuple[Change, ...], further: Callable[[tuple[Change, ...]], Iterable[Change] | None]
) -> tuple[Change, ...] | None:
    """The fewest changes for which `further` gives None, of equal numbers the first; None: there are none.

    `further` gives the changes that may be added to a set of changes.
    """
    heap: list[tuple[int, tuple[Change, ...]]] = [(len(start), start)]
    seen: set[tuple[Change, ...]] = {start}
    while heap:
        _, changes = heappop(heap)
        added = further(changes)
        if added is None:
            return changes
        for change in added:
            more = tuple(sorted((*changes, change)))
            if more not in seen:
                seen.add(more)
                heappush(heap, (len(more), more))
    return None


def _to_end(tried: _Scenarios, changes: tuple[Change, ...]) -> list[Change] | None:
    """Other values for the predicates in a loop that never ends; None: the step ends."""
    if tried.scenario(changes) is not None:
        return None
    error = tried.endless.get(changes)
    if error is None:
        return []
    flow, found = tried.flow, set[Change]()
    for switch, predicate in error.branches.predicates.items():
        if predicate.loop or error.frame not in flow.loop_nest(flow.frame[switch]):
            continue
        decision = error.branches.decisions[predicate.name]
        if decision.reason in OPEN:
            case, sides = flow.ops.kind[switch] == "_SwitchN", len(error.branches.taken[switch])
            found |= {Change(predicate.name, to, 0, case) for to in range(sides) if to != decision.value}
    return sorted(found)


def _to_live(tried: _Scenarios, required: Sequence[RequiredOp], free: Collection[Reason]) -> tuple[Change, ...] | None:
    """The fewest changes with which these ops are live; None: there are none."""

    def further(changes: tuple[Change, ...]) -> list[Change] | None:
        scenario = tried.scenario(changes)
        if scenario is None:
            return []
        dead = _dead(scenario, required)
        made = {change.name for change in changes}
        return [change for change in _revivals(scenario, dead[0].op, free) if change.name not in made] if dead else None

    return _fewest_changes(tried.first, further)


def _check_options(tried: _Scenarios, default: Scenario, fetches: list[RequiredOp], dead: list[RequiredOp]) -> None:
    """Refuse options without which all fetches would run, as TensorFlow refuses the step."""
    found = _to_live(tried, fetches, OPEN | OPTIONS)
    guilty = [change for change in found or () if default.reason(change) in OPTIONS]
    if guilty:
        options = [_option(default, change) for change in guilty]
        raise SimvizError(
            f"The fetch {quoted(dead[0].name)} is dead with {some(options, NAMED)}, and TensorFlow refuses such a "
            "step (Retval does not have value); leave that out, or fetch something else."
        )


def _option(default: Scenario, change: Change) -> str:
    if change.loop:
        return f"--trips {printable(change.name)}={default.trips.count[change.loop]}"
    decision = default.branches.decisions[change.name]
    return f"--branch {printable(decision.request)}{', as it was drawn' if decision.reason is Reason.DRAWN else ''}"


# The changes that make a dead op live


def _revivals(scenario: Scenario, op: int, free: Collection[Reason]) -> list[Change]:
    """The changes of which one at least is needed to make an op outside of loops live, in order.

    Only decisions with one of the `free` reasons are changed. All inputs of an op have to become live, so the first
    dead one is followed back. Any input of a Merge is enough, so all are followed. The result is complete: without one
    of these changes the op stays dead.
    """
    flow, state = scenario.state.flow, scenario.state
    found, seen = set[Change](), {(op, 0)}
    pending = [(op, 0)]  # ops with an iteration of their frame
    while pending:
        at, place = pending.pop()
        starts = [] if state.exists[flow.frame[at]] >> place & 1 else _starts(state, at, place)
        for edge in _lacking(state, at, place):
            places = _source_places(state, edge, place)
            found.update(_turned(scenario, edge, places, free))
            starts += [(flow.source[edge], one) for one in places if not state.live[flow.source[edge]] >> one & 1]
        pending += [start for start in starts if start not in seen]
        seen.update(starts)
    return sorted(found)


def _lacking(state: Liveness, op: int, place: int) -> list[int]:
    """The edges of which one has to bring more than it does in this iteration."""
    flow, lacking = state.flow, []
    for edge in flow.inputs[op]:
        came, live = state.arrived(edge)
        is_signal = flow.ops.kind[op] in TRIGGERS or (flow.ops.kind[op] in MERGES and not flow.data[edge])
        if not (came if is_signal else live) >> place & 1:
            lacking.append(edge)
    if flow.ops.kind[op] in MERGES:
        return [edge for edge in lacking if not flow.data[edge]][:1] or lacking
    return lacking[:1]


def _source_places(state: Liveness, edge: int, place: int) -> list[int]:
    """The iterations of an edge's source from which something could come."""
    kind = state.flow.edge_kind[edge]
    if kind is EdgeKind.SAME:
        return [place]
    if kind is EdgeKind.EXIT:
        frame = state.flow.frame[state.flow.source[edge]]
        width, first = state.spaces[frame].width, place * state.spaces[frame].width
        begun = [one for one in range(width) if state.exists[frame] >> (first + one) & 1]
        return sorted({first + max(begun, default=0), first + state.spaces[frame].trips})
    width = state.spaces[state.flow.frame[state.flow.target[edge]]].width
    if kind is EdgeKind.NEXT_ITERATION:
        return [place - 1] if place % width else []
    return [place // width] if kind is EdgeKind.CONSTANT_ENTER or not place % width else []


def _turned(scenario: Scenario, edge: int, places: list[int], free: Collection[Reason]) -> list[Change]:
    """The change with which a Switch sends its value along an edge."""
    flow = scenario.state.flow
    switch, port = flow.source[edge], flow.port[edge]
    sides, predicate = scenario.state.taken.get(switch), scenario.branches.predicates.get(switch)
    if sides is None or predicate is None or not flow.data[edge] or port >= len(sides):
        return []
    if scenario.reason(predicate) not in free:
        return []
    lacking = [place for place in places if not sides[port] >> place & 1]
    if not lacking:
        return []
    case, holds = flow.ops.kind[switch] == "_SwitchN", int(bool(port) is not predicate.negated)
    if not predicate.loop:
        return [Change(predicate.name, port if case else holds, 0, case)]
    if flow.frame[switch] != predicate.loop:
        return []
    iteration = lacking[0] % scenario.state.spaces[predicate.loop].width
    return [Change(predicate.name, iteration + holds, predicate.loop, False)]


def _starts(state: Liveness, op: int, place: int) -> list[tuple[int, int]]:
    """The ops that begin an iteration: the NextIterations of the one before it, or the loop's Enters."""
    flow, frame = state.flow, state.flow.frame[op]
    width = state.spaces[frame].width
    if place % width:
        following = (one for one, kind in enumerate(flow.ops.kind) if kind in NEXT_ITERATIONS)
        return [(one, place - 1) for one in following if flow.frame[one] == frame]
    return [(one, place // width) for one, child in flow.child.items() if child == frame]


# Notes


def _dead_notes(dead: Sequence[RequiredOp]) -> list[str]:
    if not dead:
        return []
    names = some([quoted(one.name) for one in dead], NAMED)
    which = "the fetch" if len(dead) == 1 else "the fetches"
    return [
        f"TensorFlow refuses this step (Retval does not have value): whatever is chosen, {which} {names} "
        f"{'is' if len(dead) == 1 else 'are'} dead."
    ]


def _idle_notes(gone: Sequence[RequiredOp]) -> list[str]:
    names = [quoted(one.name) for one in gone if one.is_target]
    what = "does not run" if len(names) == 1 else "do not run"
    return [f"With these trips and branches {some(names, NAMED)} {what}."] if names else []


def _change_notes(tried: _Scenarios, changes: tuple[Change, ...], kept: Sequence[RequiredOp]) -> list[str]:
    """The changes, each with an op that is dead without it."""
    said = []
    for change in changes[:NAMED]:
        without = tried.scenario(tuple(one for one in changes if one != change))
        lost = next(iter(_dead(without, kept) if without is not None else []), None)
        why = "since the fetches run only then"
        if without is None and change in tried.first:
            why = "since the step never ends otherwise"
        if lost is not None:
            why = f"since {'' if lost.is_target else 'the fetch '}{quoted(lost.name)} runs only then"
        if change.loop:
            said.append(
                f"The trips of loop {quoted(change.name)} are unknown; taken {counted(change.to, 'time')}, {why}."
            )
        else:
            value = f"branch {change.to}" if change.case else str(bool(change.to)).lower()
            said.append(f"The predicate {quoted(change.name)} is unknown; taken {value}, {why}.")
    if len(changes) > NAMED:
        said.append(f"Chosen likewise: {len(changes) - NAMED} more.")
    return said
