"""The way into the compiled director: a crew's whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numba import boolean, int32, int64, types, void

from simulator.columns import ids, ints
from simulator.execution.compiled.addressing import Addressed, tuple_of
from simulator.execution.compiled.kernel import made
from simulator.execution.compiled.loop import loop
from simulator.execution.flat import CODES, LATEST, NEVER, Flat, Work
from simulator.execution.flattening import begun_on, flattened
from simulator.execution.flattening import work as work_of
from simulator.execution.wiring import ranks
from simulator.training.compiled import TRAINING
from simulator.training.compiled.arrays import (
    COLUMNS,
    COUNTED,
    DONE,
    DROPPED,
    LIMIT,
    MILESTONE,
    MORE,
    ROUNDS,
    ROUNDS_AT_ONCE,
    STEPS,
    UPDATES,
    WRITTEN,
    Rules,
    Team,
)
from simulator.training.compiled.director import DIRECTION
from simulator.training.compiled.laying import cut_short, rules_of, spent, team_of, timers_of
from simulator.training.crew.goal import Goal
from simulator.training.crew.ledger import Ledger, Noted, under_way
from simulator.training.crew.milestones import Milestones
from simulator.training.crew.recording import Recorder, Times
from simulator.training.disturbances.noise import MAX_FACTOR

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.execution.engine import Prepared
    from simulator.training.crew.combining import Crew, Joined

_MANY_ROUNDS = 2**30  # after so many they are counted anew, as 32 bits hold them
_LOOP = loop(True, DIRECTION)


def _signature() -> object:
    """The one type of `play`."""
    flat, work = tuple_of(Flat, readonly=True), tuple_of(Work, readonly=False)
    parts = [tuple_of(Rules, readonly=True), *(tuple_of(kind, readonly=False) for kind in WRITTEN)]
    rows, tail = types.Array(int32, 1, "C", readonly=True), types.Array(int64, 1, "C", readonly=True)
    return void(flat, work, Addressed(parts, Team), rows, int64, rows, tail, boolean, int64[::1])


def _play(
    flat: Flat,
    work: Work,
    team: Team,
    device: Ids,
    order: int,
    ops: Ids,
    nothing: Ints,
    noting: bool,
    result: Ints,
) -> None:
    """Go on with the run without Python's lock; `result` [1]: why it stopped."""
    result[0] = _LOOP(flat, work, device, order, ops, nothing, NEVER, noting, team)


play, kept = made(_play, _signature(), TRAINING)


def run(
    crew: Crew,
    laid: Joined,
    given: Prepared,
    priority: Ints | None = None,
    *,
    order: str,
    contention: str,
    record: int = 0,
    goal: Goal | None = None,
) -> Noted | None:
    """The same as `train.run`; None for what is left to the specification: it hangs, or its times are too long."""
    if not _is_countable(crew, given):
        return None
    tables, flat = laid.tables, flattened(laid.tables, contention)
    carried = given.crossing.tensor
    ledger = Ledger(crew, tables.ways, given.crossing, tables.tensor_bytes[carried], given.wiring, given.wires)
    rules, goal = rules_of(crew, laid, given, ledger.shared, record=record), goal or Goal(crew.limit)
    team, work = team_of(rules, flat), work_of(flat, timers_of(rules))
    first = np.searchsorted(tables.tensor_op[carried], crew.op_ptr)
    recorder = Recorder(crew.op_ptr.tolist(), first.tolist(), given.wires.held_ptr, record)
    links = ids(np.diff(given.wires.held_ptr))
    ops = ids(np.argsort(ranks(tables, priority)) if order == "priority" and priority is not None else [])
    why, milestones, steps = np.array([MORE]), Milestones(), team.steps

    def noted() -> Noted:
        end_ns = int(steps.progress[0])
        ledger.lost, ledger.cut = steps.lost.tolist(), cut_short(team)
        left = under_way(steps.running.tolist(), steps.number.tolist(), steps.begin_ns.tolist(), end_ns)
        whole, marks = spent(ledger, team, flat, work, laid.device), tuple(milestones.kept)
        waits = ints(team.feeds.for_ns.copy())
        return Noted(ledger, int(steps.totals[DROPPED]), recorder, end_ns, left, whole, marks, waits)

    while why[0] == MORE:
        team = _until(team, goal.limit)
        steps.totals[ROUNDS] = ROUNDS_AT_ONCE
        noting = bool((steps.number < record).any())
        play(flat, work, team, laid.device, CODES[order], ops, ints([]), noting, why)
        _take_away(team, work, flat, ledger, recorder, links, own_lanes=order == "tensorflow")
        if steps.totals[COUNTED] >= milestones.next:
            milestones.note(spent(ledger, team, flat, work, laid.device))
            steps.totals[MILESTONE] = milestones.next
            goal.tell(int(steps.totals[COUNTED]))
        if why[0] == DONE and goal.put_off(noted):
            why[0], steps.progress[4] = MORE, 0
    return noted() if why[0] == DONE else None


def _until(team: Team, limit: int) -> Team:
    """With another number of updates to be made."""
    numbers = np.array(team.rules.numbers)
    numbers[LIMIT] = limit
    numbers.setflags(write=False)
    return team._replace(rules=team.rules._replace(numbers=numbers))


def _is_countable(crew: Crew, given: Prepared) -> bool:
    """Whether 64 bits hold all times."""
    longest, disturbed = max(given.wiring.run_ns, default=0), crew.disturbed
    longest = max(longest, int(crew.sources.period_ns.max(initial=0)))
    latest = int(max(crew.start_ns.max(initial=0), crew.gap_ns.max(initial=0)))
    if disturbed is None:
        return latest < LATEST
    if len(disturbed.noise):
        longest *= MAX_FACTOR
    latest = max(latest, int(disturbed.crash_at_ns.max(initial=0)), int(disturbed.pause_phase_ns.max(initial=0)))
    for period, length in zip(disturbed.pause_period_ns.tolist(), disturbed.pause_length_ns.tolist(), strict=True):
        longest = max(longest, longest * period // (period - length) + period if period else longest + length)
    return max(latest, longest) < LATEST


def _take_away(
    team: Team, work: Work, flat: Flat, ledger: Ledger, recorder: Recorder, links: Ids, *, own_lanes: bool
) -> None:
    """Enter the steps and updates that were noted, so that there is room for others.

    `links` [X] is how many each transfer holds.
    """
    totals, progress = team.steps.totals, team.steps.progress
    steps = team.steps.steps[: COLUMNS * totals[STEPS]].reshape(-1, COLUMNS)
    updates = team.steps.updates[: COLUMNS * totals[UPDATES]].reshape(-1, COLUMNS)[:, : COLUMNS - 1]
    ledger.steps += [(a, b, c, d, e, f) for a, b, c, d, e, f in steps.tolist()]
    ledger.updates += [(a, b, c, d, e) for a, b, c, d, e in updates.tolist()]
    finished = [(client, number) for client, number in steps[:, :2].tolist() if number < recorder.steps]
    times = _times(team, work, flat, links, own_lanes=own_lanes) if finished else None
    for client, number in finished:
        assert times is not None
        recorder.note(client, number, times)
    totals[STEPS], totals[UPDATES] = 0, 0
    if progress[4] == MORE:
        progress[4] = 0
    if progress[2] > _MANY_ROUNDS:
        progress[2] = 1
        work.pending.merged[:] = work.pending.merged > 0
        work.round.touched_in[:] = work.fair.seen[:] = work.fair.link_seen[:] = 0


def _times(team: Team, work: Work, flat: Flat, links: Ids, *, own_lanes: bool) -> Times:
    n, edges, noted = len(flat.nodes.waits), len(flat.nodes.consumer), work.record
    took = team.sums.took_ns if len(team.sums.took_ns) else work.found.took_ns
    return Times(
        ready=noted.ready_ns,
        start=_padded(noted.start_ns, n + 2 * edges),
        took=_padded(took, n + 2 * edges),
        lane=_padded(work.threads.lane, n + 2 * edges) if own_lanes else None,
        asked=noted.asked_ns,
        sent=noted.sent_ns,
        came=noted.came_ns,
        begun_on=begun_on(work.lines, noted.sent_ns, ids(range(len(links))), links)[1],
        packs=n,
        unpacks=n + edges,
    )


def _padded(column: npt.NDArray[np.integer], length: int) -> npt.NDArray[np.integer]:
    """With zeros for the work of transfers where no protocol has any."""
    return column if len(column) == length else np.append(column, np.zeros(length - len(column), column.dtype))
