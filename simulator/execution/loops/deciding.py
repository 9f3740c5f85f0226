"""Choose what nothing tells, so that all that is fetched runs: ways of predicates, trips of loops.

Usually predicates hold and loops run once. Where a loop would go on for ever, predicates in it go another way. Where a
fetch is dead then, or never comes, this walks back from it to the Switches and loops that could bring it and tries
their other ways, the fewest changes first, of equal numbers the first by name: the same for a step and for its pieces.
What only has to run counts as fetched, but comes second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from simulator.errors import SimvizError
from simulator.execution.loops.branches import DRAWN, USUAL, Choice
from simulator.execution.loops.flow import Flow
from simulator.execution.loops.layout import path_to
from simulator.execution.loops.passing import followed
from simulator.execution.loops.predicates import label
from simulator.execution.loops.reviving import Change, revivals
from simulator.execution.loops.settling import EndlessError, Settled, settle
from simulator.execution.loops.trips import ASKED, NAMED, UNKNOWN
from simulator.partitioning.partitions import RECVS, SENDS
from simulator.wording import counted, printable, some

OPEN = frozenset({USUAL, UNKNOWN})  # what nothing tells
OPTIONS = frozenset({ASKED, DRAWN})
_MOST_TRIALS, _MOST_OPS = 200, 1_000_000  # trials for one step, and ops in all of them


class Goal(NamedTuple):
    """An op outside of loops that should be live."""

    second: bool  # nobody gets its value: it only has to run
    name: str
    op: int


@dataclass(frozen=True, eq=False)
class Decided:
    """How the step runs, and what is to be said of it first."""

    settled: Settled
    dead_fetches: tuple[str, ...]  # whatever is chosen: TensorFlow refuses such a step
    notes: tuple[str, ...]


@dataclass(eq=False)
class _Trials:
    """What was tried, each set of changes once, and how much may still be."""

    run: Callable[[Mapping[str, int]], Settled]
    left: int
    done: dict[tuple[Change, ...], Settled | None] = field(default_factory=dict)
    endless: dict[tuple[Change, ...], EndlessError] = field(default_factory=dict)
    first: tuple[Change, ...] = ()  # the changes without which the step never ends

    def of(self, changes: tuple[Change, ...]) -> Settled | None:
        """How the step runs then; None: it does not, or enough was tried."""
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


def decide(flow: Flow, trips: Mapping[str, int] | None, branches: Mapping[str, Choice] | None, seed: int) -> Decided:
    """Settle the step so that what is fetched is live, if any choice of what nothing tells does it.

    Raises SimvizError as `settle` does, and where what was asked for with trips or branches leaves a fetch dead.
    """
    trials = _Trials(
        lambda chosen: settle(flow, trips, branches, seed, chosen),
        min(_MOST_TRIALS, 1 + _MOST_OPS // max(len(flow.inputs), 1)),
    )
    trials.first = _ending(flow, trials)
    usual, goals = trials.of(trials.first), _goals(flow)
    assert usual is not None
    if not _dead(usual, goals):
        return Decided(usual, (), tuple(_said_of_changes(trials, trials.first, goals)))
    changes, kept = _best(flow, trials, goals)
    settled = trials.of(changes)
    assert settled is not None
    gone = _dead(settled, goals)
    dead = [goal for goal in gone if not goal.second]
    if dead:
        _check_options(flow, trials, usual, [goal for goal in goals if not goal.second], dead)
    said = *_said_of_dead(dead), *_said_of_changes(trials, changes, kept), *_said_of_idle(gone)
    return Decided(settled, tuple(goal.name for goal in dead), said)


def _goals(flow: Flow) -> list[Goal]:
    """What the client gets, by name, then what nobody reads."""
    found, read = list[Goal](), set(flow.source)
    for op, kind in enumerate(flow.ops.kind):
        if flow.ops.bound[op] >= 0 and (kind == "_Retval" or kind in SENDS):
            at = followed(flow, flow.value(op), SENDS | RECVS)
            found.append(Goal(False, label(flow, at) if at is not None else flow.ops.names[op], op))
        elif op not in read and not flow.frame[op] and not flow.ops.inserted[op]:
            found.append(Goal(True, flow.ops.names[op], op))
    return sorted(found)


def _dead(settled: Settled, goals: Sequence[Goal]) -> list[Goal]:
    return [goal for goal in goals if not settled.state.live[goal.op]]


def _best(flow: Flow, trials: _Trials, goals: list[Goal]) -> tuple[tuple[Change, ...], list[Goal]]:
    """The changes with which all goals are live, or one after the other as many as can be; and these goals."""
    found = _search(flow, trials, goals, OPEN)
    if found is not None:
        return found, goals
    changes, kept = trials.first, list[Goal]()
    usual = trials.of(changes)
    dead = set(_dead(usual, goals)) if usual is not None else set(goals)
    for goal in sorted(goals, key=lambda goal: (goal.second, goal in dead, goal.name)):
        settled = trials.of(changes)
        if settled is not None and not _dead(settled, [*kept, goal]):
            kept.append(goal)
        elif (found := _search(flow, trials, [*kept, goal], OPEN)) is not None:
            changes, kept = found, [*kept, goal]
    return changes, kept


def _ending(flow: Flow, trials: _Trials) -> tuple[Change, ...]:
    """The fewest changes with which no loop goes on for ever. Raises EndlessError where there are none."""
    heap: list[tuple[int, tuple[Change, ...]]] = [(0, ())]
    seen: set[tuple[Change, ...]] = {()}
    while heap:
        count, changes = heappop(heap)
        if trials.of(changes) is not None:
            return changes
        for change in _otherwise(flow, trials.endless[changes]) if changes in trials.endless else ():
            further = tuple(sorted((*changes, change)))
            if further not in seen:
                seen.add(further)
                heappush(heap, (count + 1, further))
    raise trials.endless[()]


def _otherwise(flow: Flow, error: EndlessError) -> list[Change]:
    """The other ways of the predicates in a loop that nothing tells."""
    found = set[Change]()
    for switch, asks in error.branches.asks.items():
        if asks.why in OPEN and not asks.loop and error.frame in path_to(flow, flow.frame[switch]):
            _, way = error.branches.ways[asks.name]
            case, sides = flow.ops.kind[switch] == "_SwitchN", len(error.branches.taken[switch])
            found |= {Change(asks.name, to, 0, case) for to in range(sides) if to != way}
    return sorted(found)


def _search(flow: Flow, trials: _Trials, goals: Sequence[Goal], free: Collection[str]) -> tuple[Change, ...] | None:
    """The fewest changes with which these goals are live, of equal numbers the first; None: there are none."""
    heap: list[tuple[int, tuple[Change, ...]]] = [(len(trials.first), trials.first)]
    seen: set[tuple[Change, ...]] = {trials.first}
    while heap:
        count, changes = heappop(heap)
        settled = trials.of(changes)
        if settled is None:
            continue
        dead = _dead(settled, goals)
        if not dead:
            return changes
        made = {change.name for change in changes}
        for change in revivals(flow, settled, dead[0].op, free):
            further = tuple(sorted((*changes, change)))
            if change.name not in made and further not in seen:
                seen.add(further)
                heappush(heap, (count + 1, further))
    return None


def _check_options(flow: Flow, trials: _Trials, usual: Settled, goals: list[Goal], dead: list[Goal]) -> None:
    """Refuse options without which everything that is fetched would run, as TensorFlow refuses the step."""
    found = _search(flow, trials, goals, OPEN | OPTIONS)
    why = {frame.name: usual.trips.why[row] for row, frame in enumerate(flow.frames)}
    why |= {name: reason for name, (reason, _) in usual.branches.ways.items()}
    guilty = [change for change in found or () if why[change.name] in OPTIONS]
    if guilty:
        options = [_option(usual, change) for change in guilty]
        raise SimvizError(
            f"The fetch {_quoted(dead[0].name)} is dead with {some(options, NAMED)}, and TensorFlow refuses such a "
            "step (Retval does not have value); leave that out, or fetch something else."
        )


def _option(usual: Settled, change: Change) -> str:
    if change.loop:
        return f"--trips {printable(change.name)}={usual.trips.count[change.loop]}"
    why, _ = usual.branches.ways[change.name]
    return f"--branch {printable(usual.branches.asked[change.name])}{', as it was drawn' if why == DRAWN else ''}"


def _said_of_dead(dead: Sequence[Goal]) -> list[str]:
    if not dead:
        return []
    names = some([_quoted(goal.name) for goal in dead], NAMED)
    which = "the fetch" if len(dead) == 1 else "the fetches"
    return [
        f"TensorFlow refuses this step (Retval does not have value): whatever is chosen, {which} {names} "
        f"{'is' if len(dead) == 1 else 'are'} dead."
    ]


def _said_of_idle(gone: Sequence[Goal]) -> list[str]:
    names = [_quoted(goal.name) for goal in gone if goal.second]
    what = "does not run" if len(names) == 1 else "do not run"
    return [f"With these trips and branches {some(names, NAMED)} {what}."] if names else []


def _said_of_changes(trials: _Trials, changes: tuple[Change, ...], kept: Sequence[Goal]) -> list[str]:
    """What was chosen, each with a goal that is dead without it."""
    said = []
    for change in changes[:NAMED]:
        without = trials.of(tuple(one for one in changes if one != change))
        goal = next(iter(_dead(without, kept) if without is not None else []), None)
        why = "since all that is fetched runs only then"
        if without is None and change in trials.first:
            why = "since the step never ends otherwise"
        if goal is not None:
            why = f"since {'' if goal.second else 'the fetch '}{_quoted(goal.name)} runs only then"
        if change.loop:
            said.append(
                f"Nothing says how often loop {_quoted(change.name)} runs; taken {counted(change.to, 'time')}, {why}."
            )
        else:
            said.append(f"The predicate {_quoted(change.name)} is unknown; taken {change.way}, {why}.")
    if len(changes) > NAMED:
        said.append(f"{counted(len(changes) - NAMED, 'more predicate')} or loops were chosen alike.")
    return said


def _quoted(name: str) -> str:
    return f"'{printable(name)}'"
