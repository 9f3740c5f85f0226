"""A training laid out for the event loop and the controller: tasks, rules, and the memory in which they work.

`arrays` says what is what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simulator.columns import Flags, Ids, Ints, by_key, flags, ids, ints, pointers_of
from simulator.execution.arrays import (
    ASKS,
    NOWHERE,
    Flows,
    SharedLinks,
    State,
    Tasks,
    Threads,
    filled,
    listed,
)
from simulator.execution.discipline import discipline
from simulator.execution.engine import lowered_by, parts_of
from simulator.execution.flattening import rigid
from simulator.execution.options import SimulationOptions
from simulator.execution.task_graph import TaskGraph
from simulator.training.control import clocks
from simulator.training.control.arrays import (
    COLUMNS,
    FIRST,
    LAST,
    LIMIT,
    LOG_ROWS,
    NEXT_SAMPLE,
    SYNC_OP,
    TOTALS,
    WATCHED,
    WRITTEN,
    Clients,
    Control,
    DisturbanceRows,
    Rules,
    Work,
)
from simulator.training.control.synchronisation import patience_of
from simulator.training.recognition.sync_ops import COUNT, DEQUEUE, TAKE
from simulator.training.training import WAITING

if TYPE_CHECKING:
    from simulator.execution.tables import Tables
    from simulator.training.clients import CombinedTables
    from simulator.training.control.workload import Workload


@dataclass(frozen=True, eq=False)
class LoweredClients:
    """A training, lowered to tasks."""

    combined: CombinedTables
    lowered: TaskGraph
    order: int
    contention: str

    @cached_property
    def on_shared(self) -> Flags:
        """[J] whether a task is on a route whose links are shared: a flow."""
        return flags(self.lowered.tasks.resource >= self.combined.tables.routes.first_shared)

    @cached_property
    def taken(self) -> tuple[Ids, Ids]:
        """[W] the routes that transfers take, which are few of a large cluster's, and [X] the row of each one's."""
        routes, row = np.unique(self.lowered.transfers.route, return_inverse=True)
        return ids(routes), ids(row)

    @cached_property
    def crossed(self) -> Ints:
        """[2, pairs] each of the taken routes with each link on it."""
        links = self.combined.tables.routes.links.at(self.taken[0])
        return ints(np.stack([links.of, links.item]))


class LoopArrays(NamedTuple):
    """The arrays, or lists, that the loop reads and writes."""

    tasks: Tasks
    state: State
    threads: Threads
    flows: Flows
    shared: SharedLinks
    control: Control


def lower_clients(combined: CombinedTables, priority: Ints | None, options: SimulationOptions) -> LoweredClients:
    """Lower all clients' steps. Errors are those of `lowered_by`."""
    lowered, order = lowered_by(combined.tables, combined.device, priority, options, combined.op_ptr)
    return LoweredClients(combined, lowered, order, options.contention)


def begun(workload: Workload, given: LoweredClients, *, record: int) -> LoopArrays:
    """All that the loop and the controller read and write; nothing has happened yet.

    `record` is how many steps of each client are recorded.
    """
    tables, tasks = given.combined.tables, _with_timers(workload, given.lowered)
    rules = _rules(workload, given, tasks, record)
    parts = parts_of(tables, given.lowered, tasks, given.contention, given.order, _events(rules))
    sizes = _sizes(rules, tables)
    control = Control(rules, *(filled(kind, sizes) for kind in WRITTEN))
    sync, steps, took_ns = control.sync, control.steps, control.counters.took_ns
    for column in (sync.first_taker, sync.first_adder, steps.number, steps.cut_number, steps.going_on_ns):
        column[:] = -1
    took_ns[:] = tasks.length[: len(took_ns)]
    control.clocks.totals[clocks.AT_SLOWEST] = int(rules.clocks.clocked.sum())
    steps.totals[LIMIT], steps.totals[NEXT_SAMPLE] = workload.limit, 1
    own = Tasks(*map(np.array, tasks))  # may be written
    return LoopArrays(own, *parts, control)


def as_lists(made: LoopArrays) -> LoopArrays:
    """The same as lists, with a list of events for the event queue."""
    lists = LoopArrays(*map(listed, made))
    events: Any = []  # Any: a list in the place of an array
    return lists._replace(state=lists.state._replace(key=events))


def _with_timers(workload: Workload, lowered: TaskGraph) -> Tasks:
    """The tasks, with a timer for each synchronisation op and each crash behind the beginnings of steps; ENDs ask."""
    tasks, crashes = lowered.tasks, len(workload.disturbed.crashes)
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
        arrival=ids(np.append(tasks.arrival, nothing - 1)),
        next_from=ids(np.append(tasks.next_from, first)),
        next_to=ids(np.append(tasks.next_to, np.minimum(first + 1, begin + sync_ops))),
        successor=ids(np.append(tasks.successor, workload.sync_ops.op)),
        rank=ids(np.append(tasks.rank, nothing)),
    )


def _rules(workload: Workload, given: LoweredClients, tasks: Tasks, record: int) -> Rules:
    """All that the controller reads."""
    sync_ops, count = workload.sync_ops, len(workload)
    asks, takes = np.zeros(count, bool), np.zeros(count, bool)
    asks[sync_ops.client[sync_ops.kind == DEQUEUE]] = True
    takes[sync_ops.client[sync_ops.kind == TAKE]] = True
    timers = len(given.lowered.tasks.length) - count
    owner = _owners(workload, given, len(tasks.length), timers)
    links = alone_on(given.combined.tables, given.contention, given.taken[0])
    activity = int(len(workload.disturbed.crashes) > 0 or workload.background.any())
    seed = workload.seed - (1 << 64) if workload.seed >> 63 else workload.seed  # the same 64 bits
    made: Rules = rigid(
        Rules(
            clients=Clients(
                op_ptr=workload.op_ptr,
                sync_op_ptr=ids(np.searchsorted(sync_ops.op, workload.op_ptr)),
                start_ns=workload.starts.session_ns,
                gap_ns=workload.gap_ns,
                counts=workload.counts,
                background=workload.background,
                own_step=flags(~asks),
                chief=flags(takes),
                examples=workload.examples,
                gradients=workload.gradients,
            ),
            clocks=workload.clocks,
            work=_work(workload, given, tasks, owner, links),
            sync_ops=sync_ops,
            sync_resources=workload.sync_resources,
            run_ptr=_run_ptr(workload),
            inputs=workload.inputs,
            disturbances=_disturbances(workload, given, owner),
            task_of=workload.task_of,
            on_ptr=pointers_of(links),
            on=ids([link for of_route in links for link in of_route]),
            numbers=ints([seed, patience_of(workload), record, timers, activity]),
        )
    )
    return made


def _owners(workload: Workload, given: LoweredClients, count: int, timers: int) -> np.ndarray:
    """[J] the client of each of so many tasks; -1: none."""
    lowered, tables = given.lowered, given.combined.tables
    client_of = np.repeat(np.arange(len(workload)), np.diff(workload.op_ptr))
    owner = np.full(count, -1)
    owner[: len(client_of)] = client_of
    chain = np.flatnonzero(lowered.transfer >= 0)
    owner[chain] = client_of[tables.tensor_op[lowered.transfers.tensor]][lowered.transfer[chain]]
    of_timers = np.append(np.arange(len(workload)), workload.sync_ops.client)
    owner[timers : timers + len(of_timers)] = of_timers
    return owner


def alone_on(tables: Tables, contention: str, routes: Ids) -> list[tuple[int, ...]]:
    """[W] the links of each of these routes that a transfer does not hold: others may be on them at the same time."""
    held, links = discipline(tables.routes, contention).held, tables.routes.links
    return [tuple(link for link in links[route] if link not in held[route]) for route in routes.tolist()]


def _work(
    workload: Workload, given: LoweredClients, tasks: Tasks, owner: np.ndarray, links: Sequence[Sequence[int]]
) -> Work:
    lowered, transfers, sync_ops = given.lowered, given.lowered.transfers, workload.sync_ops
    role, sync_op_of = np.zeros(len(tasks.length), np.int64), np.full(len(tasks.length), -1)
    flows = given.on_shared[lowered.arrive]
    wire_ns = np.where(flows, 0, transfers.wire_ns)
    watched = np.array([len(of_route) > 0 for of_route in links], bool)[given.taken[1]] & (flows | (wire_ns > 0))
    role[lowered.wire] += FIRST
    role[lowered.arrive] += LAST
    role[np.where(flows, lowered.arrive, lowered.wire)[watched]] += WATCHED
    role[sync_ops.op] += SYNC_OP
    sync_op_of[sync_ops.op] = np.arange(len(sync_ops.op))
    sync_op_of[workload.op_ptr[1:] - 1] = len(sync_ops.op) + np.arange(len(workload))
    chain = np.flatnonzero(lowered.transfer >= 0)
    order, own_ptr = by_key(owner[chain], len(workload))
    request_ns = np.where(lowered.transfer >= 0, tasks.release_ns[: len(lowered.transfer)], 0)
    return Work(
        owner=ids(owner),
        role=ids(role),
        transfer=ids(np.append(lowered.transfer, np.full(len(role) - len(lowered.transfer), -1))),
        needs=tasks.needs,
        own_ptr=ids(own_ptr),
        own=ids(chain[order]),
        request_ns=ints(np.append(request_ns, np.zeros(len(role) - len(request_ns)))),
        sync_op_of=ids(sync_op_of),
        resource_of=ids(tasks.resource[sync_ops.op]),
        source=ids(workload.task_of[transfers.source]),
        target=ids(workload.task_of[transfers.target]),
        route=given.taken[1],
        nbytes=ints(given.combined.tables.tensor_bytes[transfers.tensor]),
        wire_ns=ints(wire_ns),
        flows=flags(flows),
    )


def _run_ptr(workload: Workload) -> Ids:
    """Rings have room for all runs: one is begun when the global step is another, or by the tokens of a session."""
    kind, crashes = workload.sync_ops.kind, len(workload.disturbed.crashes)
    counted = len(workload) + int((kind == COUNT).sum())  # in the last round, beyond the limit
    most = (workload.limit + counted) * (crashes + 1) + (2 + int((kind == TAKE).sum())) * crashes + 3
    return ids(np.append(0, np.cumsum(np.where(workload.sync_resources.queue, most, 1))))


def _disturbances(workload: Workload, given: LoweredClients, owner: np.ndarray) -> DisturbanceRows:
    disturbed, keeps = workload.disturbed, workload.keeps_variables
    hit = _stopped_clients(workload, given, owner) if disturbed.crashes else []
    task, crashes = disturbed.crash_tasks, [crash for _, crash in disturbed.crashes]
    saved = [one.at_ns // one.checkpoint_ns * one.checkpoint_ns if one.checkpoint_ns else -1 for one in crashes]
    return DisturbanceRows(
        crash_task=task,
        crash_at_ns=ints([one.at_ns for one in crashes]),
        away_ns=ints([one.back_ns - one.at_ns for one in crashes]),
        checkpoint_ns=ints(np.where(keeps[task], saved, -1)),
        restores=flags(keeps[task] | np.isin(task, workload.sync_resources.task)),
        hit_ptr=pointers_of(hit),
        hit=ids([client for of_crash in hit for client in of_crash]),
        noise=ints(disturbed.noise.reshape(-1)),
        noise_of=disturbed.noise_of,
        phase_ns=ints([one.phase_ns for one in disturbed.pauses]),
        period_ns=ints([one.period_ns for one in disturbed.pauses]),
        length_ns=ints([one.length_ns for one in disturbed.pauses]),
    )


def _stopped_clients(workload: Workload, given: LoweredClients, owner: np.ndarray) -> list[list[int]]:
    """[Z] the clients that each crash stops. They have work on the task, be it that of an op or for a transfer, or
    their session there.
    """
    clients, lowered, tables, transfers = len(workload), given.lowered, given.combined.tables, given.lowered.transfers
    of_op, of_transfer = owner[: len(tables)], owner[lowered.first]
    works = (lowered.device, tables.home[transfers.source], tables.home[transfers.target])
    task = np.concatenate([*(workload.task_of[device] for device in works), workload.task]).astype(np.int64)
    client = np.concatenate([of_op, of_transfer, of_transfer, np.arange(clients)])
    found = np.unique(task * clients + client)
    return [(found[found // clients == died] % clients).tolist() for died, _ in workload.disturbed.crashes]


def _sizes(rules: Rules, tables: Tables) -> dict[str, int]:
    """The sizes of the axes of all that the controller writes."""
    clients, sync_ops = len(rules.clients.gap_ns), len(rules.sync_ops.op)
    sync_resources = len(rules.sync_resources.queue)
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
        "W": len(rules.on_ptr) - 1,
        "L": len(tables.routes.link_names),
        "Z": crashes,
        "hits": len(rules.disturbances.hit),
        "clock totals": clocks.TOTALS,
        "2A+2": 2 * (int(rules.clocks.numbers[clocks.AHEAD]) + 1),
        "totals": TOTALS,
        "I": len(rules.inputs.item),
        "threads": int(rules.inputs.thread_ptr[-1]),
        "places": int(rules.inputs.place_ptr[-1]),
        "runs": int(rules.run_ptr[-1]),
        "log": COLUMNS * (LOG_ROWS + 2 * (clients + sync_ops)),
        "took": len(rules.work.owner) if varies else 0,
    }


def _events(rules: Rules) -> int:
    """The most events that may be pending at once: start and end of each task, and timers that crashes put off."""
    clients, sync_ops, crashes = len(rules.clients.gap_ns), len(rules.sync_ops.op), len(rules.disturbances.crash_at_ns)
    return 2 * len(rules.work.owner) + clients * (2 + 2 * crashes) + sync_ops * (2 + crashes) + crashes + 1
