"""The workload of a run: all its clients, what each step does besides taking time, and what the clients wait for.

A step counts updates, reads trained variables, and uses accumulators, queues and inputs. From the first op on that
reads a trained variable, the values that a step computes grow stale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from simulator.cluster.master import session_devices
from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.errors import ClusterError, SimvizError
from simulator.graph.op_classes import VARIABLES
from simulator.training.clients import Client, CombinedTables, Starts, once_each, original
from simulator.training.control.arrays import Inputs, SyncOps, SyncResources
from simulator.training.control.clocks import ClockRows
from simulator.training.inputs.pipeline import NO_INPUTS, InputPipelines
from simulator.training.recognition.parts import reads
from simulator.training.recognition.sync_ops import (
    COUNT,
    DEQUEUE,
    DRAW,
    ENQUEUE,
    READ,
    ResourceKey,
    Synchronising,
    find,
    joined,
    moved,
)
from simulator.training.regimes import BOUNDED, NO_RULE, TOGETHER, ClockRule

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.training.disturbances.disturbed import Disturbed
    from simulator.units import Nanos

_Row: TypeAlias = tuple[int, int, int, int, int, int]  # of `SyncOps`


@dataclass(frozen=True, eq=False)
class Workload:
    """All clients of a run, and all that they wait for. Axes: C clients, D devices, K tasks of the cluster."""

    names: tuple[str, ...]  # [C]
    op_ptr: Ids  # [C+1] rows of the combined tables; the last of each client is its END
    task: Ids  # [C] row of Cluster.tasks: its session's master
    task_of: Ids  # [D] row of Cluster.tasks
    starts: Starts  # of the sessions
    gap_ns: Ints  # [C] from the end of a step to the next
    clocks: ClockRows  # the workers' clocks, and how workers wait for the slowest
    counts: Flags  # [C] the end of its step is an update
    background: Flags  # [C] background traffic: the run does not wait for it
    examples: Ints  # [C] that an update which it counts works on, or a step; 0: unknown
    gradients: Ints  # [C] that such an update applies, where no accumulator says it
    sync_ops: SyncOps
    sync_resources: SyncResources
    resource_names: tuple[str, ...]  # [H] of the accumulators and queues, for messages
    inputs: Inputs
    keeps_variables: Flags  # [K] there is a variable on the task
    disturbed: Disturbed  # noise, pauses and crashes
    limit: int  # updates after which the run ends
    seed: int = 0  # of the noise
    notes: tuple[str, ...] = ()  # what was assumed of queues

    def __len__(self) -> int:
        return len(self.names)


def workload_of(
    clients: Sequence[Client],
    combined: CombinedTables,
    starts: Starts,
    disturbed: Disturbed,
    *,
    steps: int,
    tokens: int,
    clock_rule: ClockRule = NO_RULE,
    inputs: InputPipelines = NO_INPUTS,
    seed: int = 0,
) -> Workload:
    """The workload of these clients, until each has taken `steps` steps on average, or made as many common updates.

    A client that makes the updates for others alone counts them, and so does the first of workers that are in step.
    Without one, each worker's step is an update, or each run of the nodes that its program names. `tokens` are at first
    in the queues from which workers take what such a client adds; `inputs` may run dry. Raises SimvizError where no
    client counts, or where a node that counts does not run.
    """
    cluster, roles = disturbed.cluster, [client.program.role for client in clients]
    together = clock_rule.code == TOGETHER
    first = roles.index("worker") if together else None
    counting = [
        _counting(client, clients, apart="updates" in roles) if first in (None, row) else None
        for row, client in enumerate(clients)
    ]
    examples = [_examples(client, _ops_of(combined, row), counting[row]) for row, client in enumerate(clients)]
    gradients = [client.program.replicas for client in clients]
    if first is not None:
        examples[first] = sum(of for of, role in zip(examples, roles, strict=True) if role == "worker")
        gradients[first] = roles.count("worker")
    found = synchronisers(clients, cluster)
    sync_ops, used = _sync_ops(clients, found, combined, counting, inputs)
    by_end = [names == () for names in counting]
    if not any(by_end) and COUNT not in sync_ops.kind:
        raise SimvizError(
            "No client counts an update of the global step, so that the run would never end; give a program `counts`."
        )
    row = cluster.task_index
    keeps_variables = _keeps_variables(clients, cluster)
    return Workload(
        names=tuple(client.program.name for client in clients),
        op_ptr=combined.op_ptr,
        task=ids([row[client.program.task] for client in clients]),
        task_of=ids(cluster.task_of),
        starts=starts,
        gap_ns=ints([client.program.gap_ns or 0 for client in clients]),
        clocks=_clocks(clients, combined, sync_ops, keeps_variables, cluster, clock_rule),
        counts=flags(by_end),
        background=flags([role == "traffic" for role in roles]),
        examples=ints(examples),
        gradients=ints(gradients),
        sync_ops=sync_ops,
        sync_resources=_sync_resources(used, cluster, tokens),
        resource_names=tuple(f"{key.family} {key.name!r} on {key.device}" for key in used),
        inputs=_inputs(inputs, cluster, starts.session_ns),
        keeps_variables=keeps_variables,
        disturbed=disturbed,
        limit=steps if "updates" in roles or together else steps * roles.count("worker"),
        seed=seed,
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
    )


def _counting(client: Client, clients: Sequence[Client], *, apart: bool) -> tuple[str, ...] | None:
    """The nodes by which a client counts updates; (): the end of its step; None: it counts none."""
    if client.program.role in ("reader", "traffic") or (apart and client.program.role == "worker"):
        return None
    return original(client, clients).program.counts


def _examples(client: Client, ops: Mapping[int, list[int]], counting: tuple[str, ...] | None) -> int:
    """The examples of an update that a client counts, or of a step; a loop takes some in each of its iterations."""
    index, program = client.partitions.graph.index, client.program
    taken = max((len(ops.get(index.get(name, -1), ())) for name in program.handing), default=1)
    updates = sum(len(ops.get(index.get(name, -1), ())) for name in counting or ())
    return program.examples * max(1, taken) // max(1, updates)


@dataclass(slots=True)
class _Use:
    """The use of an accumulator or a queue."""

    capacity: int
    users: set[tuple[str, int]] = field(default_factory=set)  # roles of clients, with kinds of their ops


def _sync_ops(
    clients: Sequence[Client],
    synchronising: Sequence[Synchronising],
    combined: CombinedTables,
    counting: Sequence[tuple[str, ...] | None],
    inputs: InputPipelines,
) -> tuple[SyncOps, dict[ResourceKey, _Use]]:
    """The synchronisation ops, and the accumulators and queues that they use, in order of rows."""
    used: dict[ResourceKey, _Use] = {}
    row_of: dict[ResourceKey, int] = {}
    rows: list[_Row] = []
    counts = [client for client, names in zip(clients, counting, strict=True) if names is not None]
    reading = iter(once_each(counts, lambda client: reads(client.partitions).tolist()))
    for c, (client, found, names) in enumerate(zip(clients, synchronising, counting, strict=True)):
        ops, own = _ops_of(combined, c), list[_Row]()
        for one in found.ops:
            row = row_of.setdefault(one.key, len(row_of))
            used.setdefault(one.key, _Use(one.capacity)).users.add((client.program.role, one.kind))
            own += [(op, c, one.kind, row, one.amount, one.reserve) for op in ops.get(one.row, ())]
        for name in names or ():
            node = client.partitions.graph.index.get(name, -1)
            if not ops.get(node):
                said = f"{client.program.name} counts updates by {name!r}, which its step does not run"
                raise SimvizError(f"{said}; fetch that node, too, or count by another.")
            own += [(op, c, COUNT, -1, 0, 0) for op in ops[node]]
        for draw in inputs.draws[c] if c < len(inputs.draws) else ():
            own += [(op, c, DRAW, draw.input, draw.amount, 0) for op in ops.get(draw.node, ())]
        if names is not None:
            others = {row[0] for row in own}  # what synchronises or counts does not read
            taking = (op for node in next(reading) for op in ops.get(node, ()))
            own += [(op, c, READ, -1, 0, 0) for op in taking if op not in others]
        rows += sorted(own)
    op, of, kind, resource, amount, reserve = np.array(rows, np.int64).reshape(len(rows), 6).T
    return SyncOps(ids(op), ids(of), ids(kind), ids(resource), ints(amount), ints(reserve)), used


def _sync_resources(used: Mapping[ResourceKey, _Use], cluster: Cluster, tokens: int) -> SyncResources:
    passed_on = {("worker", DEQUEUE), ("updates", ENQUEUE)}
    return SyncResources(
        queue=flags([key.family != "accumulator" for key in used]),
        capacity=ints([use.capacity for use in used.values()]),
        tokens=ints([tokens if passed_on <= use.users else 0 for use in used.values()]),
        task=ids([cluster.task_of[cluster.index[key.device]] for key in used]),
    )


def _inputs(inputs: InputPipelines, cluster: Cluster, start_ns: Ints) -> Inputs:
    """The inputs as the controller reads them; threads begin with the first session that fills the input."""
    given = inputs.pipelines
    made = [one.producer for one in given]
    return Inputs(
        thread_ptr=ids(np.cumsum([0, *(one.threads for one in made)])),
        period_ns=ints([one.period_ns for one in made]),
        item=ints([one.item for one in made]),
        capacity=ints([one.capacity for one in given]),
        reserve=ints([one.reserve for one in given]),
        task=ids([cluster.task_of[one.device] for one in given]),
        kept_by=ids([cluster.task_of[one.kept_by] for one in given]),
        start_ns=ints([min(int(start_ns[c]) for c in one.clients) for one in given]),
        place_ptr=ids(np.cumsum([0, *(max(0, one.capacity) for one in given)])),
    )


def _ops_of(combined: CombinedTables, client: int) -> dict[int, list[int]]:
    """The ops of each node of a client's pieces that runs."""
    a, b = combined.op_ptr[client : client + 2].tolist()
    found: dict[int, list[int]] = {}
    for op in (a + np.flatnonzero(~combined.tables.silent[a:b])).tolist():
        found.setdefault(int(combined.tables.node[op]), []).append(op)
    return found


def _keeps_variables(clients: Sequence[Client], cluster: Cluster) -> Flags:
    """[K] tasks on which there is a variable."""

    def homes(client: Client) -> Ids:
        pieces = client.partitions
        return ids(pieces.device[[row for row, op in enumerate(pieces.graph.ops) if op in VARIABLES]])

    keeps_variables = np.zeros(len(cluster.tasks), bool)
    task_of = np.array(cluster.task_of)
    for client, where in zip(clients, once_each(clients, homes), strict=True):
        keeps_variables[task_of[client.on(where)]] = True
    return flags(keeps_variables)


def synchronisers(clients: Sequence[Client], cluster: Cluster) -> tuple[Synchronising, ...]:
    """The synchronising ops of each client, with the resources on its own devices."""
    names = cluster.device_names
    found = once_each(clients, lambda client: find(client.partitions))
    pairs = zip(clients, found, strict=True)
    return joined([own._replace(ops=moved(own.ops, client.devices, names)) for client, own in pairs])


def _clocks(
    clients: Sequence[Client],
    combined: CombinedTables,
    sync_ops: SyncOps,
    keeps_variables: Flags,
    cluster: Cluster,
    rule: ClockRule,
) -> ClockRows:
    """The workers' clocks, and the latency of a message about them to and from the task that keeps them.

    That is the task where updates are counted, else the first with variables, else the first. Raises ClusterError where
    a client has no route there.
    """
    to_server, from_server = np.zeros((2, len(clients)), np.int64)
    if rule.code == BOUNDED:
        counting = sync_ops.op[sync_ops.kind == COUNT]
        server = cluster.task_of[combined.device[counting[0]]] if len(counting) else int(np.argmax(keeps_variables))
        cpu = session_devices(cluster)
        hub = cpu[cluster.tasks[server]]
        for row, client in enumerate(clients):
            end = cpu[client.program.task]
            to_server[row], from_server[row] = _message_ns(end, hub, cluster), _message_ns(hub, end, cluster)
    clocked = flags([client.program.role == "worker" for client in clients])
    return ClockRows(ints([rule.code, rule.ahead, *rule.others]), clocked, ints(to_server), ints(from_server))


def _message_ns(source: int, target: int, cluster: Cluster) -> Nanos:
    """All that a message of no bytes takes that waits for nothing."""
    if source == target:
        return 0
    if cluster.routes[source][target] is None:
        start, end = cluster.devices[source].name, cluster.devices[target].name
        raise ClusterError(
            f"The cluster has no route from {start} to {end}, which messages about the workers' clocks would take; "
            "add a link, or train without a bound."
        )
    routes = (cluster.pack_ns, cluster.transfer_ns, cluster.unpack_ns)
    return sum(took(source, target, 0) for took in routes)
