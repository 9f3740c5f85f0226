"""Lay clients out for the controller, and take the memory in which it works (`arrays` says what is what)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.columns import Ids, flags, ids, ints
from simulator.execution.arrays import ASKS, NOWHERE, Tasks
from simulator.execution.flattening import rigid
from simulator.execution.routes import discipline
from simulator.training.clients.client_set import COUNT, DEQUEUE, TAKE
from simulator.training.control.arrays import (
    AT_SLOWEST,
    BOUND,
    COLUMNS,
    FIRST,
    LAST,
    LOG_ROWS,
    MARKED,
    MILESTONE,
    TOTALS,
    WATCHED,
    Clients,
    DisturbanceRows,
    Inputs,
    Objects,
    Rules,
    SyncOpRows,
    Work,
)
from simulator.training.control.deadlock import patience_of
from simulator.training.training import WAITING, CutShort

if TYPE_CHECKING:
    from simulator.execution.tables import Tables
    from simulator.execution.task_graph import TaskGraph
    from simulator.training.clients.client_set import ClientSet
    from simulator.training.control.arrays import Steps


def with_timers(client_set: ClientSet, lowered: TaskGraph) -> Tasks:
    """The tasks, with a timer for each marked op and each crash behind the beginnings of steps; ENDs ask."""
    tasks, crashes = lowered.tasks, 0 if client_set.disturbed is None else len(client_set.disturbed.crash_task)
    marks, begin = len(client_set.marks.op), len(tasks.successor)
    more = marks + crashes
    resource = np.append(tasks.resource, np.full(more, NOWHERE))
    resource[client_set.op_ptr[1:] - 1] = ASKS
    nothing = np.zeros(more, np.int64)
    first = begin + np.minimum(np.arange(more), marks)
    return tasks._replace(
        length=ints(np.append(tasks.length, nothing)),
        resource=ids(resource),
        lag_ns=ints(np.append(tasks.lag_ns, nothing)),
        release_ns=ints(np.append(tasks.release_ns, nothing)),
        needs=ids(np.append(tasks.needs, nothing)),
        onward=ids(np.append(tasks.onward, nothing - 1)),
        next_from=ids(np.append(tasks.next_from, first)),
        next_to=ids(np.append(tasks.next_to, np.minimum(first + 1, begin + marks))),
        successor=ids(np.append(tasks.successor, client_set.marks.op)),
        rank=ids(np.append(tasks.rank, nothing)),
    )


def rules_of(
    client_set: ClientSet, tables: Tables, lowered: TaskGraph, tasks: Tasks, contention: str, *, record: int
) -> Rules:
    """All that the controller reads; `record` is how many steps of each client are recorded."""
    count, marks = len(client_set), client_set.marks
    client_of = np.repeat(np.arange(count), np.diff(client_set.op_ptr))
    of_mark = client_of[marks.op]
    asks, takes = np.zeros(count, bool), np.zeros(count, bool)
    asks[of_mark[marks.kind == DEQUEUE]] = True
    takes[of_mark[marks.kind == TAKE]] = True
    of_transfer = client_of[tables.tensor_op[lowered.transfers.tensor]]
    timers = len(lowered.tasks.length) - count
    owner = np.full(len(tasks.length), -1)
    owner[: len(client_of)] = client_of
    chain = np.flatnonzero(lowered.transfer >= 0)
    owner[chain] = of_transfer[lowered.transfer[chain]]
    owner[timers : timers + count + len(marks.op)] = np.append(np.arange(count), of_mark)
    own = chain[np.argsort(owner[chain], kind="stable")]
    links = alone_on(tables, contention)
    crashes = client_set.disturbed is not None and len(client_set.disturbed.crash_task) > 0
    activity = int(crashes or client_set.idle.any())
    seed = client_set.seed - (1 << 64) if client_set.seed >> 63 else client_set.seed  # the same 64 bits
    made: Rules = rigid(
        Rules(
            clients=Clients(
                op_ptr=client_set.op_ptr,
                own_ptr=ids(np.searchsorted(owner[own], np.arange(count + 1))),
                own=ids(own),
                mark_ptr=ids(np.searchsorted(marks.op, client_set.op_ptr)),
                start_ns=client_set.start_ns,
                gap_ns=client_set.gap_ns,
                tell_ns=client_set.word.tell_ns,
                hear_ns=client_set.word.hear_ns,
                clocked=client_set.clocked,
                counts=client_set.counts,
                idle=client_set.idle,
                own_step=flags(~asks),
                chief=flags(takes),
                examples=client_set.examples,
            ),
            work=_work(client_set, tables, lowered, tasks, contention, owner, links),
            marks=SyncOpRows(
                op=marks.op,
                resource=ids(tasks.resource[marks.op]),
                client=ids(of_mark),
                kind=marks.kind,
                shared=marks.shared,
                amount=marks.amount,
                reserve=marks.reserve,
            ),
            objects=_objects(client_set),
            inputs=_inputs(client_set),
            disturbances=_meets(client_set, tables, lowered, owner),
            task_of=client_set.task_of,
            on_ptr=_pointers(links),
            on=ids([link for of_way in links for link in of_way]),
            numbers=ints(
                np.array([client_set.limit, client_set.bound, seed, patience_of(client_set), record, timers, activity])
            ),
        )
    )
    return made


def alone_on(tables: Tables, contention: str) -> list[tuple[int, ...]]:
    """[W] the links of each route that a transfer does not hold: others may be on them at the same time."""
    held = discipline(tables.routes, contention).held
    return [
        tuple(link for link in links if link not in mine) for links, mine in zip(tables.routes.links, held, strict=True)
    ]


def _work(
    client_set: ClientSet,
    tables: Tables,
    lowered: TaskGraph,
    tasks: Tasks,
    contention: str,
    owner: np.ndarray,
    links: Sequence[Sequence[int]],
) -> Work:
    crossing = lowered.transfers
    role, mark_of = np.zeros(len(tasks.length), np.int64), np.full(len(tasks.length), -1)
    flows = tasks.resource[lowered.arrive] >= len(tables.devices) + len(tables.routes.link_names)
    wire_ns = np.where(flows, 0, crossing.wire_ns)
    watched = np.array([len(of_way) > 0 for of_way in links], bool)[crossing.route] & (flows | (wire_ns > 0))
    role[lowered.wire] += FIRST
    role[lowered.arrive] += LAST
    role[np.where(flows, lowered.arrive, lowered.wire)[watched]] += WATCHED
    role[client_set.marks.op] += MARKED
    mark_of[client_set.marks.op] = np.arange(len(client_set.marks.op))
    mark_of[client_set.op_ptr[1:] - 1] = len(client_set.marks.op) + np.arange(len(client_set))
    request_ns = np.where(lowered.transfer >= 0, tasks.release_ns[: len(lowered.transfer)], 0)
    return Work(
        owner=ids(owner),
        role=ids(role),
        transfer=ids(np.append(lowered.transfer, np.full(len(role) - len(lowered.transfer), -1))),
        needs=tasks.needs,
        request_ns=ints(np.append(request_ns, np.zeros(len(role) - len(request_ns)))),
        mark_of=ids(mark_of),
        source=ids(client_set.task_of[crossing.source]),
        target=ids(client_set.task_of[crossing.target]),
        route=crossing.route,
        nbytes=ints(tables.tensor_bytes[crossing.tensor]),
        wire_ns=ints(wire_ns),
        flows=flags(flows),
    )


def _pointers(lists: Sequence[Sequence[int]]) -> Ids:
    return ids(np.cumsum([0, *map(len, lists)]))


def _objects(client_set: ClientSet) -> Objects:
    """Rings have room for all runs: one is begun when the global step is another, or by the tokens of a session."""
    shared, crashes = client_set.shared, 0 if client_set.disturbed is None else len(client_set.disturbed.crash_task)
    counted = len(client_set) + int((client_set.marks.kind == COUNT).sum())  # in the last round, beyond the limit
    most = (client_set.limit + counted) * (crashes + 1) + (2 + int((client_set.marks.kind == TAKE).sum())) * crashes + 3
    return Objects(
        queue=shared.queue,
        capacity=shared.capacity,
        tokens=shared.tokens,
        task=shared.task,
        run_ptr=ids(np.append(0, np.cumsum(np.where(shared.queue, most, 1)))),
    )


def _inputs(client_set: ClientSet) -> Inputs:
    sources = client_set.sources
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


def _meets(client_set: ClientSet, tables: Tables, lowered: TaskGraph, owner: np.ndarray) -> DisturbanceRows:
    disturbed, nothing, tasks = client_set.disturbed, ints([]), int(client_set.task_of.max(initial=0)) + 1
    if disturbed is None:
        none, never = ids(np.full(tasks, -1)), ints(np.zeros(tasks))
        empty = ids([])
        return DisturbanceRows(
            empty, nothing, nothing, nothing, flags([]), ids([0]), empty, nothing, none, never, never, never
        )
    hit = _hit(client_set, tables, lowered, owner) if len(disturbed.crash_task) else []
    every, when, task = disturbed.crash_checkpoint_ns, disturbed.crash_at_ns, disturbed.crash_task
    keeps = np.zeros(tasks, bool) if client_set.keeps is None else np.asarray(client_set.keeps)
    saves = (every > 0) & keeps[task]
    return DisturbanceRows(
        crash_task=task,
        crash_at_ns=when,
        away_ns=ints(disturbed.crash_down_ns + disturbed.crash_restore_ns),
        checkpoint_ns=ints(np.where(saves, when // np.maximum(every, 1) * every, -1)),
        restores=flags(keeps[task] | np.isin(task, client_set.shared.task)),
        hit_ptr=_pointers(hit),
        hit=ids([client for of_crash in hit for client in of_crash]),
        noise=ints(disturbed.noise.reshape(-1)),
        noise_of=disturbed.noise_of,
        phase_ns=disturbed.pause_phase_ns,
        period_ns=disturbed.pause_period_ns,
        length_ns=disturbed.pause_length_ns,
    )


def _hit(client_set: ClientSet, tables: Tables, lowered: TaskGraph, owner: np.ndarray) -> list[list[int]]:
    """[Z] the clients that each crash stops: with work on the task, be it that of an op or for a transfer, or with
    their session there.
    """
    assert client_set.disturbed is not None
    clients, crossing = len(client_set), lowered.transfers
    of_op, of_transfer = owner[: len(tables)], owner[lowered.first]
    works = (lowered.device, tables.home[crossing.source], tables.home[crossing.target])
    task = np.concatenate([*(client_set.task_of[device] for device in works), client_set.task]).astype(np.int64)
    client = np.concatenate([of_op, of_transfer, of_transfer, np.arange(clients)])
    found = np.unique(task * clients + client)
    return [(found[found // clients == died] % clients).tolist() for died in client_set.disturbed.crash_task.tolist()]


def sizes_of(rules: Rules, tables: Tables) -> dict[str, int]:
    """The sizes of the axes of all that the controller writes."""
    clients, marks, objects = len(rules.clients.gap_ns), len(rules.marks.op), len(rules.objects.queue)
    crashes, chiefs = len(rules.disturbances.crash_at_ns), int(rules.clients.chief.sum())
    who = marks + objects * (1 + chiefs * crashes)
    varies = len(rules.disturbances.noise) or rules.disturbances.length_ns.any()
    return {
        "6": 6,
        "1": 1,
        "C": clients,
        "M": marks,
        "M+C": marks + clients,
        "H": objects,
        "F": who,
        "2F": 2 * who,
        "K": len(rules.disturbances.noise_of),
        "3K": WAITING * len(rules.disturbances.noise_of),
        "D": len(tables.devices),
        "W": len(tables.routes.links),
        "L": len(tables.routes.link_names),
        "Z": crashes,
        "hits": len(rules.disturbances.hit),
        "2B+2": 2 * (max(0, int(rules.numbers[BOUND])) + 1),
        "totals": TOTALS,
        "I": len(rules.inputs.item),
        "threads": int(rules.inputs.thread_ptr[-1]),
        "places": int(rules.inputs.place_ptr[-1]),
        "runs": int(rules.objects.run_ptr[-1]),
        "log": COLUMNS * (LOG_ROWS + 2 * (clients + marks)),
        "took": len(rules.work.owner) if varies else 0,
    }


def events_of(rules: Rules) -> int:
    """How many events may be pending at once: of each task its start and its end, and timers that crashes put off."""
    clients, marks, crashes = len(rules.clients.gap_ns), len(rules.marks.op), len(rules.disturbances.crash_at_ns)
    return 2 * len(rules.work.owner) + clients * (2 + 2 * crashes) + marks * (2 + crashes) + crashes + 1


def initialise(written: Sequence[Any], rules: Rules, tasks: Tasks) -> None:  # Any: tuples of columns
    """Nothing has happened yet; `written` are lines, steps, sums and feeds."""
    lines, steps, sums, _ = written
    for column in (lines.taker, lines.adder, steps.number, steps.cut_number, steps.going_on_ns):
        column[:] = -1
    sums.took_ns[:] = tasks.length[: len(sums.took_ns)]
    steps.totals[AT_SLOWEST], steps.totals[MILESTONE] = int(rules.clients.clocked.sum()), 1


def cut_short(rules: Rules, steps: Steps) -> list[CutShort]:
    """The steps that crashes cut short."""
    disturbances, number = rules.disturbances, np.asarray(steps.cut_number)
    crash = np.repeat(np.arange(len(disturbances.crash_task)), np.diff(disturbances.hit_ptr))
    when = np.asarray(disturbances.crash_at_ns)[crash]
    columns = (np.asarray(disturbances.hit), number, np.asarray(steps.cut_start_ns), when, crash)
    return [CutShort(*row) for row in np.stack(columns, axis=1)[number >= 0].tolist()]
