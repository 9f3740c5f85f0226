"""Lay a crew out for the compiled director, and take the memory in which it works (`arrays` says what is what)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.columns import Ids, flags, ids, ints
from simulator.execution.flattening import fresh, rigid
from simulator.training.compiled.arrays import (
    AT_SLOWEST,
    BOUND,
    COLUMNS,
    COUNTED,
    LOG_ROWS,
    MILESTONE,
    TOTALS,
    WRITTEN,
    Clients,
    Inputs,
    Marks,
    Meets,
    Objects,
    Rules,
    Team,
)
from simulator.training.crew.combining import COUNT
from simulator.training.crew.crashing import Crashes
from simulator.training.crew.hanging import Watch
from simulator.training.crew.synchronising import DEQUEUE, TAKE
from simulator.training.training import WAITING, CutShort

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.execution.engine import Prepared
    from simulator.execution.flat import Flat, Work
    from simulator.training.crew.combining import Crew, Joined
    from simulator.training.crew.ledger import Ledger
    from simulator.training.training import Spent


def rules_of(crew: Crew, laid: Joined, given: Prepared, links: Sequence[Sequence[int]], *, record: int) -> Rules:
    """What the director reads; `links` are those on which a transfer of each way is not alone."""
    count, marks = len(crew), crew.marks
    client_of = np.repeat(np.arange(count), np.diff(crew.op_ptr))
    mark_of = np.full(len(laid.tables), -1)
    mark_of[marks.op] = np.arange(len(marks.op))
    mark_of[crew.op_ptr[1:] - 1] = len(marks.op) + np.arange(count)
    of_mark = client_of[marks.op]
    asks, takes = np.zeros(count, bool), np.zeros(count, bool)
    asks[of_mark[marks.kind == DEQUEUE]] = True
    takes[of_mark[marks.kind == TAKE]] = True
    patience = Watch(crew, crew.limit).patience
    made: Rules = rigid(
        Rules(
            clients=Clients(
                op_ptr=crew.op_ptr,
                root_ptr=ids(np.searchsorted(given.wiring.roots, crew.op_ptr)),
                mark_ptr=ids(np.searchsorted(marks.op, crew.op_ptr)),
                start_ns=crew.start_ns,
                gap_ns=crew.gap_ns,
                tell_ns=crew.word.tell_ns,
                hear_ns=crew.word.hear_ns,
                clocked=crew.clocked,
                counts=crew.counts,
                idle=crew.idle,
                own_step=flags(~asks),
                chief=flags(takes),
                examples=crew.examples,
                client_of=ids(client_of),
                mark_of=ids(mark_of),
            ),
            marks=Marks(marks.op, ids(of_mark), marks.kind, marks.shared, marks.amount, marks.reserve),
            objects=_objects(crew),
            inputs=_inputs(crew),
            meets=_meets(crew, laid, given),
            task_of=crew.task_of,
            on_ptr=_pointers(links),
            on=ids([link for of_way in links for link in of_way]),
            numbers=ints(np.array([crew.limit, crew.bound, _signed(crew.seed), patience, record])),
        )
    )
    return made


def _signed(seed: int) -> int:
    """The same 64 bits."""
    return seed - (1 << 64) if seed >> 63 else seed


def _pointers(lists: Sequence[Sequence[int]]) -> Ids:
    return ids(np.cumsum([0, *map(len, lists)]))


def _objects(crew: Crew) -> Objects:
    """Rings have room for all runs: one is begun when the global step is another, or by the tokens of a session."""
    shared, crashes = crew.shared, 0 if crew.disturbed is None else len(crew.disturbed.crash_task)
    counted = len(crew) + int((crew.marks.kind == COUNT).sum())  # in the last round, beyond the limit
    most = (crew.limit + counted) * (crashes + 1) + (2 + int((crew.marks.kind == TAKE).sum())) * crashes + 3
    return Objects(
        queue=shared.queue,
        capacity=shared.capacity,
        tokens=shared.tokens,
        task=shared.task,
        run_ptr=ids(np.append(0, np.cumsum(np.where(shared.queue, most, 1)))),
    )


def _inputs(crew: Crew) -> Inputs:
    sources = crew.sources
    return Inputs(
        period_ns=sources.period_ns,
        item=sources.item,
        capacity=sources.capacity,
        reserve=sources.reserve,
        task=sources.task,
        kept_by=sources.kept_by,
        start_ns=sources.start_ns,
        thread_ptr=ids(np.append(0, np.cumsum(sources.threads))),
        place_ptr=ids(np.append(0, np.cumsum(np.maximum(sources.capacity, 0)))),
    )


def _meets(crew: Crew, laid: Joined, given: Prepared) -> Meets:
    disturbed, nothing, tasks = crew.disturbed, ints([]), int(crew.task_of.max(initial=0)) + 1
    if disturbed is None:
        none, never = ids(np.full(tasks, -1)), ints(np.zeros(tasks))
        empty = ids([])
        return Meets(empty, nothing, nothing, nothing, flags([]), ids([0]), empty, nothing, none, never, never, never)
    of_op = np.repeat(np.arange(len(crew)), np.diff(crew.op_ptr))
    of_transfer = of_op[laid.tables.tensor_op[given.crossing.tensor]]
    owner = np.concatenate([of_op, of_transfer, of_transfer, of_transfer]).tolist()
    crashes = Crashes(crew, given.wiring.device, owner, len(of_transfer))
    hit = crashes.clients if crashes.when else []
    every, when, task = disturbed.crash_checkpoint_ns, disturbed.crash_at_ns, disturbed.crash_task
    keeps = np.zeros(tasks, bool) if crew.keeps is None else np.asarray(crew.keeps)
    saves = (every > 0) & keeps[task]
    return Meets(
        crash_task=task,
        crash_at_ns=when,
        away_ns=ints(disturbed.crash_down_ns + disturbed.crash_restore_ns),
        checkpoint_ns=ints(np.where(saves, when // np.maximum(every, 1) * every, -1)),
        restores=flags(keeps[task] | np.isin(task, crew.shared.task)),
        hit_ptr=_pointers(hit),
        hit=ids([client for of_crash in hit for client in of_crash]),
        noise=ints(disturbed.noise.reshape(-1)),
        noise_of=disturbed.noise_of,
        phase_ns=disturbed.pause_phase_ns,
        period_ns=disturbed.pause_period_ns,
        length_ns=disturbed.pause_length_ns,
    )


def timers_of(rules: Rules) -> int:
    """How many tasks of the director's may be in the heap at once, and some that were put off by crashes."""
    clients, marks, crashes = len(rules.clients.gap_ns), len(rules.marks.op), len(rules.meets.crash_at_ns)
    return clients * (2 + 2 * crashes) + marks * (2 + crashes) + crashes + 1


def team_of(rules: Rules, flat: Flat) -> Team:
    """The memory of a run: nothing has happened yet."""
    clients, marks, objects = len(rules.clients.gap_ns), len(rules.marks.op), len(rules.objects.queue)
    crashes, edges = len(rules.meets.crash_at_ns), len(flat.nodes.consumer)
    chiefs = int(rules.clients.chief.sum())
    who = marks + objects * (1 + chiefs * crashes)
    varies = len(rules.meets.noise) or rules.meets.length_ns.any()
    sizes = {
        "5": 5,
        "1": 1,
        "C": clients,
        "M": marks,
        "M+C": marks + clients,
        "H": objects,
        "F": who,
        "2F": 2 * who,
        "K": len(rules.meets.noise_of),
        "3K": WAITING * len(rules.meets.noise_of),
        "D": len(flat.places.lanes),
        "W": len(flat.places.latency_ns),
        "L": len(flat.shared.capacity),
        "Z": crashes,
        "hits": len(rules.meets.hit),
        "n": len(flat.nodes.waits),
        "2B+2": 2 * (max(0, int(rules.numbers[BOUND])) + 1),
        "E": edges,
        "totals": TOTALS,
        "I": len(rules.inputs.item),
        "threads": int(rules.inputs.thread_ptr[-1]),
        "places": int(rules.inputs.place_ptr[-1]),
        "runs": int(rules.objects.run_ptr[-1]),
        "log": COLUMNS * (LOG_ROWS + 2 * (clients + marks)),
        "took": len(flat.nodes.waits) + 2 * edges if varies else 0,
    }
    lines, steps, sums, feeds = fresh(WRITTEN, sizes)
    for line in (lines.taker, lines.adder):
        line[:] = -1
    steps.number[:] = steps.cut_number[:] = steps.going_on_ns[:] = -1
    steps.totals[AT_SLOWEST], steps.totals[MILESTONE] = rules.clients.clocked.sum(), 1
    return Team(rules, lines, steps, sums, feeds)


def cut_short(team: Team) -> list[CutShort]:
    """The steps that crashes cut short."""
    meets, steps = team.rules.meets, team.steps
    crash = np.repeat(np.arange(len(meets.crash_task)), np.diff(meets.hit_ptr))
    columns = (meets.hit, steps.cut_number, steps.cut_start_ns, meets.crash_at_ns[crash], crash)
    return [CutShort(*row) for row in np.stack(columns, axis=1)[steps.cut_number >= 0].tolist()]


def spent(ledger: Ledger, team: Team, flat: Flat, work: Work, device: Ids) -> Spent:
    """What was done until now, that which is under way included."""
    sums, queues, found, home = team.sums, work.queues, work.found, flat.places.home
    now, size = (int(progress) for progress in team.steps.progress[:2])
    n, edges = len(device), len(flat.nodes.consumer)
    key, task = queues.key[:size], queues.task[:size]
    busy_ns, message_ns = sums.busy_ns.copy(), sums.message_ns.copy()
    for low, where in ((0, device), (n, home[found.source_of]), (n + edges, home[found.target_of])):
        inside = (task >= low) & (task < low + len(where))
        np.subtract.at(busy_ns, where[task[inside] - low], key[inside] - now)
        if low:
            np.subtract.at(message_ns, where[task[inside] - low], key[inside] - now)
    ahead = sums.through_ns - now  # known already, or of flows not known yet
    link_ns = sums.link_ns - np.where(sums.on_link > 0, ahead, np.maximum(ahead, 0))
    link_ns += queues.promised_ns - np.maximum(queues.free_ns - now, 0)  # from now until then it is never idle
    under_way, task_ns = sums.under_way.reshape(WAITING, -1) > 0, sums.task_ns.reshape(WAITING, -1)
    counts = under_way & (np.cumsum(under_way, axis=0) == 1)  # of what is under way at a task, the first kind
    task_ns = task_ns + np.where(counts, now - sums.since_ns, 0)
    updates = int(team.steps.totals[COUNTED])
    return ledger.summed(updates, now, task_ns, (busy_ns, message_ns), sums.carried, link_ns)
