"""The workload of a run: all its clients, what each step does besides taking time, and what the clients wait for.

A step counts updates, reads trained variables, and uses accumulators, queues and inputs. From the first op on that
reads a trained variable, the values that a step computes grow stale.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.errors import ClusterError, SimvizError
from simulator.graph import registry
from simulator.graph.op_classes import ENTERS, SWITCHES
from simulator.training.clients.client_tables import Client, CombinedTables, original
from simulator.training.clients.operations import COUNT, DEQUEUE, DRAW, ENQUEUE, READ
from simulator.training.clients.resources import Key, Synchronising, find, joined, moved
from simulator.training.inputs.pipeline import NO_INPUTS, Pipelines
from simulator.training.recognition.anatomy import trained
from simulator.training.recognition.variables import VARIABLES
from simulator.training.regimes import FREE, NO_RULE, ClockRule

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph
    from simulator.partitioning import Partitions
    from simulator.training.disturbances.disturbed import Disturbed
    from simulator.units import Nanos

_SyncOp: TypeAlias = tuple[int, int, int, int, int]  # a row of `SyncOps`


class SyncOps(NamedTuple):
    """Ops that do more than take time, sorted by op; the ENDs are not among them. Axis: M of them."""

    op: Ids  # row of the combined tables
    kind: Ids  # APPLY .. READ
    sync_resource: Ids  # row of `SyncResources`, of DRAW row of `Producers`; -1 for COUNT and READ
    amount: Ints  # gradients that a take waits for, tokens that are added or taken, elements that are drawn
    reserve: Ints  # tokens that must remain in the queue


class SyncResources(NamedTuple):
    """Accumulators and queues, which clients share. Axis: H of them."""

    names: tuple[str, ...]  # for messages
    queue: Flags  # a queue of tokens; not: an accumulator
    capacity: Ints  # of a queue; -1: without bound
    tokens: Ints  # in a queue when the run begins, all of step 0
    task: Ids  # row of Cluster.tasks that keeps it


class Producers(NamedTuple):
    """Inputs that may run dry: each is filled by threads of its own (`control.inputs`). Axis: I inputs."""

    names: tuple[str, ...]
    threads: Ids  # that make items at once
    period_ns: Ints  # a thread takes for an item
    item: Ints  # elements of an item
    capacity: Ints  # elements for which there is room; -1: without bound
    reserve: Ints  # elements that must remain, fewer than there is room for
    task: Ids  # row of Cluster.tasks that makes them
    kept_by: Ids  # row of Cluster.tasks that keeps them
    start_ns: Ints  # the threads begin


_NOTHING = ints([])
NO_PRODUCERS = Producers((), ids([]), _NOTHING, _NOTHING, _NOTHING, _NOTHING, ids([]), ids([]), _NOTHING)


class ClockLatency(NamedTuple):
    """The latency of a clock message to and from the task that keeps all clocks. Axis: C clients."""

    to_server_ns: Ints
    from_server_ns: Ints


@dataclass(frozen=True, eq=False)
class Workload:
    """All clients of a run, and all that they wait for. Axes: C clients, D devices, K tasks of the cluster."""

    names: tuple[str, ...]  # [C]
    op_ptr: Ids  # [C+1] rows of the combined tables; the last of each client is its END
    task: Ids  # [C] row of Cluster.tasks: its session's master
    task_of: Ids  # [D] row of Cluster.tasks
    start_ns: Ints  # [C] its session starts
    gap_ns: Ints  # [C] from the end of a step to the next
    clock_latency: ClockLatency  # of messages about the workers' clocks
    clocked: Flags  # [C] its steps are training steps
    counts: Flags  # [C] the end of its step is an update
    background: Flags  # [C] background traffic: the run does not wait for it
    examples: Ints  # [C] that a step works on; 0: unknown
    sync_ops: SyncOps
    sync_resources: SyncResources
    limit: int  # updates after which the run ends
    producers: Producers = NO_PRODUCERS
    clock_rule: ClockRule = NO_RULE  # how workers wait for the slowest of them
    keeps_variables: Flags | None = None  # [K] tasks that keep variables; None: none does
    disturbed: Disturbed | None = None  # noise, pauses and crashes
    seed: int = 0  # of the noise
    notes: tuple[str, ...] = ()  # what was assumed of queues

    def __len__(self) -> int:
        return len(self.names)


def workload_of(
    clients: Sequence[Client],
    combined: CombinedTables,
    cluster: Cluster,
    start_ns: Ints,
    *,
    steps: int,
    tokens: int,
    clock_rule: ClockRule = NO_RULE,
    inputs: Pipelines = NO_INPUTS,
) -> Workload:
    """The workload of these clients, until each has taken `steps` steps on average, or made as many common updates.

    A client that makes the updates for others alone counts them. Without one, each worker's step is an update, or each
    run of the nodes that its program names. `tokens` are at first in the queues from which workers take what such a
    client adds; `inputs` may run dry. Raises SimvizError where no client counts, or where a node that counts does not
    run.
    """
    roles = [client.program.role for client in clients]
    apart = "updates" in roles
    counting = [_counting(client, clients, apart=apart) for client in clients]
    found = synchronisers(clients, cluster)
    sync_ops, sync_resources = _sync_ops(clients, found, combined, cluster, counting, tokens, inputs)
    by_end = [names == () for names in counting]
    if not any(by_end) and COUNT not in sync_ops.kind:
        raise SimvizError("No client counts an update of the global step, so that the run would never end.")
    row = {task: k for k, task in enumerate(cluster.tasks)}
    keeps_variables, nothing = _keeps_variables(clients, cluster), ints(np.zeros(len(clients)))
    return Workload(
        names=tuple(client.program.name for client in clients),
        op_ptr=combined.op_ptr,
        task=ids([row[client.program.task] for client in clients]),
        task_of=ids(cluster.task_of),
        start_ns=start_ns,
        gap_ns=ints([client.program.gap_ns or 0 for client in clients]),
        clock_latency=_clock_latency(clients, combined, sync_ops, keeps_variables, cluster)
        if clock_rule.code != FREE
        else ClockLatency(nothing, nothing),
        clocked=flags([role == "worker" for role in roles]),
        counts=flags(by_end),
        background=flags([role == "traffic" for role in roles]),
        examples=ints([client.program.examples for client in clients]),
        sync_ops=sync_ops,
        sync_resources=sync_resources,
        producers=_producers(inputs, cluster, start_ns),
        limit=steps if apart else steps * roles.count("worker"),
        clock_rule=clock_rule,
        keeps_variables=keeps_variables,
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
    )


def _counting(client: Client, clients: Sequence[Client], *, apart: bool) -> tuple[str, ...] | None:
    """The nodes by which a client counts updates; (): the end of its step; None: it counts none."""
    if client.program.role in ("reader", "traffic") or (apart and client.program.role == "worker"):
        return None
    return original(client, clients).program.counts


def _sync_ops(
    clients: Sequence[Client],
    synchronising: Sequence[Synchronising],
    combined: CombinedTables,
    cluster: Cluster,
    counting: Sequence[tuple[str, ...] | None],
    tokens: int,
    inputs: Pipelines,
) -> tuple[SyncOps, SyncResources]:
    row_of: dict[Key, int] = {}
    capacity: list[int] = []
    users: list[set[tuple[str, int]]] = []  # of each: roles of clients, with kinds of their ops
    rows: list[_SyncOp] = []
    known: dict[int, Ids] = {}
    for c, (client, found, names) in enumerate(zip(clients, synchronising, counting, strict=True)):
        ops = _ops_of(combined, c)
        kinds = zip(found.rows.tolist(), found.kind.tolist(), found.key, found.amount.tolist(), strict=True)
        for (node, kind, key, amount), room, reserve in zip(
            kinds, found.capacity.tolist(), found.reserve.tolist(), strict=True
        ):
            if key not in row_of:
                row_of[key] = len(row_of)
                capacity.append(room)
                users.append(set())
            users[row_of[key]].add((client.program.role, kind))
            rows += [(op, kind, row_of[key], amount, reserve) for op in ops.get(node, ())]
        for name in names or ():
            node = client.partitions.graph.index.get(name, -1)
            if not ops.get(node):
                raise SimvizError(f"{client.program.name} counts updates by {name!r}, which its step does not run.")
            rows += [(op, COUNT, -1, 0, 0) for op in ops[node]]
        for draw in inputs.draws[c] if c < len(inputs.draws) else ():
            rows += [(op, DRAW, draw.input, draw.amount, 0) for op in ops.get(draw.node, ())]
        if names is not None:
            rows += _reading(client, ops, known, {row[0] for row in rows})
    column = np.array(sorted(rows), np.int64).reshape(len(rows), 5).T
    sync_ops = SyncOps(ids(column[0]), ids(column[1]), ids(column[2]), ints(column[3]), ints(column[4]))
    passed_on = {("worker", DEQUEUE), ("updates", ENQUEUE)}
    task = {name: cluster.task_of[row] for name, row in cluster.index.items()}
    sync_resources = SyncResources(
        names=tuple(f"{key.family} {key.name!r} on {key.device}" for key in row_of),
        queue=flags([key.family != "accumulator" for key in row_of]),
        capacity=ints(capacity),
        tokens=ints([tokens if passed_on <= found else 0 for found in users]),
        task=ids([task[key.device] for key in row_of]),
    )
    return sync_ops, sync_resources


def _producers(inputs: Pipelines, cluster: Cluster, start_ns: Ints) -> Producers:
    """The inputs as the controller reads them; threads begin with the first session that fills the input."""
    made = [one.producer for one in inputs.pipelines]
    return Producers(
        names=tuple(one.key.name for one in inputs.pipelines),
        threads=ids([one.threads for one in made]),
        period_ns=ints([one.period_ns for one in made]),
        item=ints([one.item for one in made]),
        capacity=ints([one.capacity for one in inputs.pipelines]),
        reserve=ints([one.reserve for one in inputs.pipelines]),
        task=ids([cluster.task_of[one.device] for one in inputs.pipelines]),
        kept_by=ids([cluster.task_of[one.kept_by] for one in inputs.pipelines]),
        start_ns=ints([min(int(start_ns[c]) for c in one.clients) for one in inputs.pipelines]),
    )


def _reading(
    client: Client, ops: Mapping[int, Sequence[int]], known: dict[int, Ids], others: Collection[int]
) -> list[_SyncOp]:
    """The rows of ops that read; what synchronises or counts does not. `known` has those of pieces that were met."""
    pieces = client.partitions
    if id(pieces) not in known:
        known[id(pieces)] = reads(pieces)
    found = (op for node in known[id(pieces)].tolist() for op in ops.get(node, ()))
    return [(op, READ, -1, 0, 0) for op in found if op not in others]


def _clock_latency(
    clients: Sequence[Client], combined: CombinedTables, sync_ops: SyncOps, keeps_variables: Flags, cluster: Cluster
) -> ClockLatency:
    kept_by = cluster.tasks[clock_server(sync_ops, combined.device, keeps_variables, cluster)]
    return clock_latency([client.program.task for client in clients], kept_by, cluster)


def _ops_of(combined: CombinedTables, client: int) -> dict[int, list[int]]:
    """The ops of each node of a client's pieces that runs."""
    a, b = combined.op_ptr[client : client + 2].tolist()
    found: dict[int, list[int]] = {}
    for op in (a + np.flatnonzero(~combined.tables.silent[a:b])).tolist():
        found.setdefault(int(combined.tables.node[op]), []).append(op)
    return found


def _keeps_variables(clients: Sequence[Client], cluster: Cluster) -> Flags:
    """[K] tasks on which there is a variable."""
    keeps_variables = np.zeros(len(cluster.tasks), bool)
    task_of = np.array(cluster.task_of)
    known: dict[int, Ids] = {}
    for client in clients:
        pieces = client.partitions
        if id(pieces) not in known:
            kept = [row for row, op in enumerate(pieces.graph.ops) if op in VARIABLES]
            known[id(pieces)] = ids(pieces.device[kept])
        where = known[id(pieces)]
        keeps_variables[task_of[where if client.devices is None else client.devices[where]]] = True
    return flags(keeps_variables)


def synchronisers(clients: Sequence[Client], cluster: Cluster) -> tuple[Synchronising, ...]:
    """The synchronising ops of each client, with the resources on its own devices."""
    known: dict[int, Synchronising] = {}
    found = []
    for client in clients:
        if id(client.partitions) not in known:
            known[id(client.partitions)] = find(client.partitions)
        own = known[id(client.partitions)]
        if client.devices is not None:
            own = moved(own, [cluster.devices[row].name for row in client.devices.tolist()])
        found.append(own)
    return joined(found)


_HANDLE = "VarHandleOp"
_HANDING_ON = ENTERS | SWITCHES | {"RefIdentity"}
_BY_HANDLE = frozenset(("ReadVariableOp", "_ReadVariablesOp", "ResourceGather", "ResourceGatherNd"))


def reads(partitions: Partitions) -> Ids:
    """The rows of the pieces' graph that read a variable to which the pieces apply a gradient, ascending.

    A variable with a handle is read by the ops for that. One with a reference is read by whoever takes its value and
    not the reference: mostly an Identity beside it, but also a Send, where the reader is on another device. So a value
    is as old as the op on the variable's device that took it, however long it is on its way.
    """
    graph, found = partitions.graph, set()
    for variable in trained(graph):
        handle = graph.ops[variable] == _HANDLE
        pending, seen = [variable], {variable}
        while pending:
            at = pending.pop()
            for edge in graph.out_edge[graph.out_ptr[at] : graph.out_ptr[at + 1]].tolist():
                reader = int(graph.edge_dst[edge])
                if graph.edge_tensor[edge] < 0 or reader in seen:
                    continue
                seen.add(reader)
                op = graph.ops[reader]
                if op in _HANDING_ON or (handle and op == "Identity"):
                    pending.append(reader)
                elif op in _BY_HANDLE if handle else _takes_values(graph, reader):
                    found.add(reader)
    return ids(sorted(found))


def _takes_values(graph: Graph, row: int) -> bool:
    """Whether none of its inputs is a reference by the op's registration; what has none, as a Send, takes values."""
    facts = registry.facts(graph.ops[row])
    return facts is None or not any(argument.is_ref for argument in facts.inputs)


def clock_server(sync_ops: SyncOps, device: Ids, keeps_variables: Flags, cluster: Cluster) -> int:
    """The task that keeps the clocks: where updates are counted, else the first with variables, else the first."""
    counting = sync_ops.op[sync_ops.kind == COUNT]
    return cluster.task_of[device[counting[0]]] if len(counting) else int(np.argmax(keeps_variables))


def clock_latency(tasks: Sequence[str], kept_by: str, cluster: Cluster) -> ClockLatency:
    """From and to the task of each client. Raises ClusterError where one has no route to the task that keeps clocks."""
    hub = _cpu(kept_by, cluster)
    ends = {task: _cpu(task, cluster) for task in dict.fromkeys(tasks)}
    to_server = {task: _message_ns(end, hub, cluster) for task, end in ends.items()}
    from_server = {task: _message_ns(hub, end, cluster) for task, end in ends.items()}
    return ClockLatency(ints([to_server[task] for task in tasks]), ints([from_server[task] for task in tasks]))


def _cpu(task: str, cluster: Cluster) -> int:
    return replace(cluster, master=task).client


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
