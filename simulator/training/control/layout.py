"""Lay clients out for the controller, and take the memory in which it works (`arrays` says what is what)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.columns import Ids, flags, ids, ints
from simulator.execution.arrays import ASKS, NOWHERE, Tasks
from simulator.execution.flattening import rigid
from simulator.execution.routes import discipline
from simulator.training.clients.operations import COUNT, DEQUEUE, TAKE
from simulator.training.control import clocks
from simulator.training.control.arrays import (
    COLUMNS,
    FIRST,
    LAST,
    LOG_ROWS,
    NEXT_SAMPLE,
    SYNC_OP,
    TOTALS,
    WATCHED,
    Clients,
    DisturbanceRows,
    Inputs,
    Rules,
    SyncOpRows,
    SyncResourceRows,
    Work,
)
from simulator.training.control.clocks import ClockRows
from simulator.training.control.deadlock import patience_of
from simulator.training.training import WAITING, CutShort

if TYPE_CHECKING:
    from simulator.execution.tables import Tables
    from simulator.execution.task_graph import TaskGraph
    from simulator.training.clients.workload import Workload
    from simulator.training.control.arrays import Steps


def with_timers(workload: Workload, lowered: TaskGraph) -> Tasks:
    """The tasks, with a timer for each synchronisation op and each crash behind the beginnings of steps; ENDs ask."""
    tasks, crashes = lowered.tasks, 0 if workload.disturbed is None else len(workload.disturbed.crash_task)
    sync_ops, begin = len(workload.sync_ops.op), len(tasks.successor)
    more = sync_ops + crashes
    resource = np.append(tasks.resource, np.full(more, NOWHERE))
    resource[workload.op_ptr[1:] - 1] = ASKS
    nothing = np.zeros(more, np.int64)
    first = begin + np.minimum(np.arange(more), sync_ops)
    return tasks._replace(
        length=ints(np.append(tasks.length, nothing)),
        resource=ids(resource),
        lag_ns=ints(np.append(tasks.lag_ns, nothing)),
        release_ns=ints(np.append(tasks.release_ns, nothing)),
        needs=ids(np.append(tasks.needs, nothing)),
        onward=ids(np.append(tasks.onward, nothing - 1)),
        next_from=ids(np.append(tasks.next_from, first)),
        next_to=ids(np.append(tasks.next_to, np.minimum(first + 1, begin + sync_ops))),
        successor=ids(np.append(tasks.successor, workload.sync_ops.op)),
        rank=ids(np.append(tasks.rank, nothing)),
    )


def rules_of(
    workload: Workload, tables: Tables, lowered: TaskGraph, tasks: Tasks, contention: str, *, record: int
) -> Rules:
    """All that the controller reads; `record` is how many steps of each client are recorded."""
    count, sync_ops, rule = len(workload), workload.sync_ops, workload.clock_rule
    client_of = np.repeat(np.arange(count), np.diff(workload.op_ptr))
    of_sync_op = client_of[sync_ops.op]
    asks, takes = np.zeros(count, bool), np.zeros(count, bool)
    asks[of_sync_op[sync_ops.kind == DEQUEUE]] = True
    takes[of_sync_op[sync_ops.kind == TAKE]] = True
    of_transfer = client_of[tables.tensor_op[lowered.transfers.tensor]]
    timers = len(lowered.tasks.length) - count
    owner = np.full(len(tasks.length), -1)
    owner[: len(client_of)] = client_of
    chain = np.flatnonzero(lowered.transfer >= 0)
    owner[chain] = of_transfer[lowered.transfer[chain]]
    owner[timers : timers + count + len(sync_ops.op)] = np.append(np.arange(count), of_sync_op)
    own = chain[np.argsort(owner[chain], kind="stable")]
    links = alone_on(tables, contention)
    crashes = workload.disturbed is not None and len(workload.disturbed.crash_task) > 0
    activity = int(crashes or workload.background.any())
    seed = workload.seed - (1 << 64) if workload.seed >> 63 else workload.seed  # the same 64 bits
    made: Rules = rigid(
        Rules(
            clients=Clients(
                op_ptr=workload.op_ptr,
                own_ptr=ids(np.searchsorted(owner[own], np.arange(count + 1))),
                own=ids(own),
                sync_op_ptr=ids(np.searchsorted(sync_ops.op, workload.op_ptr)),
                start_ns=workload.start_ns,
                gap_ns=workload.gap_ns,
                counts=workload.counts,
                background=workload.background,
                own_step=flags(~asks),
                chief=flags(takes),
                examples=workload.examples,
            ),
            clocks=ClockRows(
                numbers=ints([rule.code, rule.ahead, *rule.others]),
                clocked=workload.clocked,
                to_server_ns=workload.clock_latency.to_server_ns,
                from_server_ns=workload.clock_latency.from_server_ns,
            ),
            work=_work(workload, tables, lowered, tasks, owner, links),
            sync_ops=SyncOpRows(
                op=sync_ops.op,
                resource=ids(tasks.resource[sync_ops.op]),
                client=ids(of_sync_op),
                kind=sync_ops.kind,
                sync_resource=sync_ops.sync_resource,
                amount=sync_ops.amount,
                reserve=sync_ops.reserve,
            ),
            sync_resources=_sync_resources(workload),
            inputs=_inputs(workload),
            disturbances=_disturbances(workload, tables, lowered, owner),
            task_of=workload.task_of,
            on_ptr=_pointers(links),
            on=ids([link for of_route in links for link in of_route]),
            numbers=ints(np.array([workload.limit, seed, patience_of(workload), record, timers, activity])),
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
    workload: Workload,
    tables: Tables,
    lowered: TaskGraph,
    tasks: Tasks,
    owner: np.ndarray,
    links: Sequence[Sequence[int]],
) -> Work:
    transfers = lowered.transfers
    role, sync_op_of = np.zeros(len(tasks.length), np.int64), np.full(len(tasks.length), -1)
    flows = tasks.resource[lowered.arrive] >= len(tables.devices) + len(tables.routes.link_names)
    wire_ns = np.where(flows, 0, transfers.wire_ns)
    watched = np.array([len(of_route) > 0 for of_route in links], bool)[transfers.route] & (flows | (wire_ns > 0))
    role[lowered.wire] += FIRST
    role[lowered.arrive] += LAST
    role[np.where(flows, lowered.arrive, lowered.wire)[watched]] += WATCHED
    role[workload.sync_ops.op] += SYNC_OP
    sync_op_of[workload.sync_ops.op] = np.arange(len(workload.sync_ops.op))
    sync_op_of[workload.op_ptr[1:] - 1] = len(workload.sync_ops.op) + np.arange(len(workload))
    request_ns = np.where(lowered.transfer >= 0, tasks.release_ns[: len(lowered.transfer)], 0)
    return Work(
        owner=ids(owner),
        role=ids(role),
        transfer=ids(np.append(lowered.transfer, np.full(len(role) - len(lowered.transfer), -1))),
        needs=tasks.needs,
        request_ns=ints(np.append(request_ns, np.zeros(len(role) - len(request_ns)))),
        sync_op_of=ids(sync_op_of),
        source=ids(workload.task_of[transfers.source]),
        target=ids(workload.task_of[transfers.target]),
        route=transfers.route,
        nbytes=ints(tables.tensor_bytes[transfers.tensor]),
        wire_ns=ints(wire_ns),
        flows=flags(flows),
    )


def _pointers(lists: Sequence[Sequence[int]]) -> Ids:
    return ids(np.cumsum([0, *map(len, lists)]))


def _sync_resources(workload: Workload) -> SyncResourceRows:
    """Rings have room for all runs: one is begun when the global step is another, or by the tokens of a session."""
    resources, crashes = (
        workload.sync_resources,
        0 if workload.disturbed is None else len(workload.disturbed.crash_task),
    )
    counted = len(workload) + int((workload.sync_ops.kind == COUNT).sum())  # in the last round, beyond the limit
    most = (workload.limit + counted) * (crashes + 1) + (2 + int((workload.sync_ops.kind == TAKE).sum())) * crashes + 3
    return SyncResourceRows(
        queue=resources.queue,
        capacity=resources.capacity,
        tokens=resources.tokens,
        task=resources.task,
        run_ptr=ids(np.append(0, np.cumsum(np.where(resources.queue, most, 1)))),
    )


def _inputs(workload: Workload) -> Inputs:
    producers = workload.producers
    return Inputs(
        period_ns=producers.period_ns,
        item=producers.item,
        capacity=producers.capacity,
        reserve=producers.reserve,
        task=producers.task,
        kept_by=producers.kept_by,
        start_ns=producers.start_ns,
        thread_ptr=ids(np.append(0, np.cumsum(producers.threads))),
        place_ptr=ids(np.append(0, np.cumsum(np.maximum(producers.capacity, 0)))),
    )


def _disturbances(workload: Workload, tables: Tables, lowered: TaskGraph, owner: np.ndarray) -> DisturbanceRows:
    disturbed, nothing, tasks = workload.disturbed, ints([]), int(workload.task_of.max(initial=0)) + 1
    if disturbed is None:
        none, never = ids(np.full(tasks, -1)), ints(np.zeros(tasks))
        empty = ids([])
        return DisturbanceRows(
            empty, nothing, nothing, nothing, flags([]), ids([0]), empty, nothing, none, never, never, never
        )
    hit = _stopped_clients(workload, tables, lowered, owner) if len(disturbed.crash_task) else []
    every, when, task = disturbed.crash_checkpoint_ns, disturbed.crash_at_ns, disturbed.crash_task
    keeps = np.zeros(tasks, bool) if workload.keeps_variables is None else np.asarray(workload.keeps_variables)
    saves = (every > 0) & keeps[task]
    return DisturbanceRows(
        crash_task=task,
        crash_at_ns=when,
        away_ns=ints(disturbed.crash_down_ns + disturbed.crash_restore_ns),
        checkpoint_ns=ints(np.where(saves, when // np.maximum(every, 1) * every, -1)),
        restores=flags(keeps[task] | np.isin(task, workload.sync_resources.task)),
        hit_ptr=_pointers(hit),
        hit=ids([client for of_crash in hit for client in of_crash]),
        noise=ints(disturbed.noise.reshape(-1)),
        noise_of=disturbed.noise_of,
        phase_ns=disturbed.pause_phase_ns,
        period_ns=disturbed.pause_period_ns,
        length_ns=disturbed.pause_length_ns,
    )


def _stopped_clients(workload: Workload, tables: Tables, lowered: TaskGraph, owner: np.ndarray) -> list[list[int]]:
    """[Z] the clients that each crash stops: with work on the task, be it that of an op or for a transfer, or with
    their session there.
    """
    assert workload.disturbed is not None
    clients, transfers = len(workload), lowered.transfers
    of_op, of_transfer = owner[: len(tables)], owner[lowered.first]
    works = (lowered.device, tables.home[transfers.source], tables.home[transfers.target])
    task = np.concatenate([*(workload.task_of[device] for device in works), workload.task]).astype(np.int64)
    client = np.concatenate([of_op, of_transfer, of_transfer, np.arange(clients)])
    found = np.unique(task * clients + client)
    return [(found[found // clients == died] % clients).tolist() for died in workload.disturbed.crash_task.tolist()]


def sizes_of(rules: Rules, tables: Tables) -> dict[str, int]:
    """The sizes of the axes of all that the controller writes."""
    clients, sync_ops, sync_resources = (
        len(rules.clients.gap_ns),
        len(rules.sync_ops.op),
        len(rules.sync_resources.queue),
    )
    crashes, chiefs = len(rules.disturbances.crash_at_ns), int(rules.clients.chief.sum())
    who = sync_ops + sync_resources * (1 + chiefs * crashes)
    varies = len(rules.disturbances.noise) or rules.disturbances.length_ns.any()
    return {
        "6": 6,
        "1": 1,
        "C": clients,
        "M": sync_ops,
        "M+C": sync_ops + clients,
        "H": sync_resources,
        "F": who,
        "2F": 2 * who,
        "K": len(rules.disturbances.noise_of),
        "3K": WAITING * len(rules.disturbances.noise_of),
        "D": len(tables.devices),
        "W": len(tables.routes.links),
        "L": len(tables.routes.link_names),
        "Z": crashes,
        "hits": len(rules.disturbances.hit),
        "clock totals": clocks.TOTALS,
        "2A+2": 2 * (int(rules.clocks.numbers[clocks.AHEAD]) + 1),
        "totals": TOTALS,
        "I": len(rules.inputs.item),
        "threads": int(rules.inputs.thread_ptr[-1]),
        "places": int(rules.inputs.place_ptr[-1]),
        "runs": int(rules.sync_resources.run_ptr[-1]),
        "log": COLUMNS * (LOG_ROWS + 2 * (clients + sync_ops)),
        "took": len(rules.work.owner) if varies else 0,
    }


def events_of(rules: Rules) -> int:
    """The most events that may be pending at once: start and end of each task, and timers that crashes put off."""
    clients, sync_ops, crashes = len(rules.clients.gap_ns), len(rules.sync_ops.op), len(rules.disturbances.crash_at_ns)
    return 2 * len(rules.work.owner) + clients * (2 + 2 * crashes) + sync_ops * (2 + crashes) + crashes + 1


def initialise(written: Sequence[Any], rules: Rules, tasks: Tasks) -> None:  # Any: tuples of columns
    """Nothing has happened yet; `written` are the parts of `Control` after the rules."""
    sync, clock_state, steps, counters, _ = written
    for column in (sync.first_taker, sync.first_adder, steps.number, steps.cut_number, steps.going_on_ns):
        column[:] = -1
    counters.took_ns[:] = tasks.length[: len(counters.took_ns)]
    clock_state.totals[clocks.AT_SLOWEST], steps.totals[NEXT_SAMPLE] = int(rules.clocks.clocked.sum()), 1


def cut_short(rules: Rules, steps: Steps) -> list[CutShort]:
    """The steps that crashes cut short."""
    disturbances, number = rules.disturbances, np.asarray(steps.cut_number)
    crash = np.repeat(np.arange(len(disturbances.crash_task)), np.diff(disturbances.hit_ptr))
    when = np.asarray(disturbances.crash_at_ns)[crash]
    columns = (np.asarray(disturbances.hit), number, np.asarray(steps.cut_start_ns), when, crash)
    return [CutShort(*row) for row in np.stack(columns, axis=1)[number >= 0].tolist()]
