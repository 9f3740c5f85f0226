"""The laws of a trace, each checked from the trace and the pieces alone.

The laws of order say that nothing runs before the values that it needs, in any iteration. They go back from what ran to
the inputs of a node in one iteration of its loop. Ops that the cut inserted in between are included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.cluster.copies import dispatch_ns
from simulator.columns import Ints
from simulator.execution.trace import Event, Kind, Trace, TraceTasks
from simulator.graph.dtypes import VARIANT
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, TRIGGERS

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.partitioning.partitions import Partitions


def check_trace(trace: Trace, partitions: Partitions, cluster: Cluster) -> list[str]:
    """Sentences about what is wrong, none if all laws hold.

    - Tasks are as `task_laws` says. No lane is busier than the makespan, which is the last end, and which the critical
      path explains.
    - A transfer holds the serial links of its route in order, each for its bytes at the link's own rate. A shared link
      never carries more than its rate over any interval.
    - No transfer is faster than its route allows. Only queues and shared links make one slower: its bytes are through
      when the last of its links has had its time with them.
    - Nobody starts before the last needed input has arrived; a Merge needs its first.
    - Memory is never below what is resident, and ends there. The recorded peak is that of the curve, or more for what
      lived for no time.
    """
    return [
        *task_laws(trace.tasks, _named(trace, partitions)),
        *_devices(trace, partitions, cluster),
        *_transfers(trace, partitions, cluster),
        *order_laws(trace, partitions, cluster),
        *_totals(trace, cluster),
        *_memory(trace, cluster),
    ]


def task_laws(tasks: TraceTasks, name: Callable[[int], str] = str) -> Iterator[str]:
    """Sentences about what is wrong with tasks of one step, whatever they are; `name` says what a row is.

    A task is ready with the last event that it needs. It starts then, or when its resource is free. No two overlap in a
    lane or on a serial link. In the queue of a link nobody overtakes; so no link idles beside its queue.
    """
    length = tasks.end_ns - tasks.start_ns
    for row in np.flatnonzero((tasks.start_ns < tasks.ready_ns) | (length < 0)).tolist():
        yield f"{name(row)} starts before it is ready, or ends before it starts."
    came = np.where(tasks.event == Event.START, tasks.start_ns[tasks.need], tasks.end_ns[tasks.need])
    for row, (first, last) in enumerate(pairwise(tasks.need_ptr.tolist())):
        gates = tasks.event[first:last] == Event.FIRST
        needed = came[first:last][~gates].max(initial=0)
        needed = max(needed, came[first:last][gates].min()) if gates.any() else needed
        if last > first and tasks.ready_ns[row] != needed:
            yield f"{name(row)} is ready at {tasks.ready_ns[row]} ns, but what it needs has come at {needed} ns."
    held = np.flatnonzero(tasks.resource >= 0)
    lasting = held[length[held] > 0]
    left = set(zip(tasks.resource[lasting].tolist(), tasks.end_ns[lasting].tolist(), strict=True))
    for row in np.flatnonzero(tasks.start_ns > tasks.ready_ns).tolist():
        if (int(tasks.resource[row]), int(tasks.start_ns[row])) not in left:
            yield f"{name(row)} waits until {tasks.start_ns[row]} ns, when nothing leaves its resource."
    for before, after in _neighbours(tasks, lasting[tasks.lane[lasting] >= 0], tasks.start_ns):
        if tasks.start_ns[after] < tasks.end_ns[before]:
            yield f"{name(before)} and {name(after)} overlap in lane {tasks.lane[after]} of their resource."
    for before, after in _neighbours(tasks, held[tasks.resource[held] >= tasks.devices], tasks.ready_ns):
        if tasks.ready_ns[before] < tasks.ready_ns[after] and tasks.start_ns[after] < tasks.start_ns[before]:
            yield f"{name(after)} overtakes {name(before)} in the queue of their link."


def _neighbours(tasks: TraceTasks, rows: npt.NDArray[np.integer], by: Ints) -> Iterator[tuple[int, int]]:
    """Each of these tasks and the next in its lane or on its link, in the order of that column, then of starts."""
    rows = rows[np.lexsort((tasks.start_ns[rows], by[rows], tasks.lane[rows], tasks.resource[rows]))]
    for before, after in pairwise(rows.tolist()):
        if tasks.resource[before] == tasks.resource[after] and tasks.lane[before] == tasks.lane[after]:
            yield before, after


def _named(trace: Trace, partitions: Partitions) -> Callable[[int], str]:
    """The function that names a task."""

    def name(row: int) -> str:
        kind, of = Kind(trace.tasks.kind[row]), int(trace.tasks.of[row])
        if kind == Kind.OP:
            return repr(partitions.graph.names[trace.instances.node[of]])
        return f"{kind.name.lower()} of {partitions.key[trace.transfers.row[of]]!r}"

    return name


def _devices(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[str]:
    ops, names = trace.ops, partitions.graph.names
    for node, device in zip(ops.node.tolist(), ops.device.tolist(), strict=True):
        if device != partitions.device[node]:
            yield f"{names[node]!r} runs on {cluster.devices[device].name}, where it was not placed."
    tasks, name = trace.tasks, _named(trace, partitions)
    rows = np.flatnonzero((tasks.resource >= 0) & (tasks.resource < len(cluster)))
    lanes = np.array([device.lanes for device in cluster.devices])
    for row in rows[tasks.lane[rows] >= lanes[tasks.resource[rows]]].tolist():
        device = cluster.devices[tasks.resource[row]].name
        yield f"{name(row)} runs in lane {tasks.lane[row]} of {device}, which it does not have."


def _transfers(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[str]:
    """Faults of each transfer, and of the links that they share."""
    shared: dict[int, list[tuple[int, int, int]]] = {}  # (bytes from, to, how many)
    tasks, of, held = trace.tasks, trace.moments, _held(trace)
    moments = of.asked_ns, of.packed_ns, of.sent_ns, of.through_ns, of.arrived_ns, of.unpacked_ns
    works = _works(trace)
    sizes = np.maximum(trace.transfers.nbytes, 0).tolist()
    for row in np.flatnonzero(_other_sizes(trace, partitions)).tolist():
        key = partitions.key[trace.transfers.row[row]]
        yield f"The transfer {key!r} has {sizes[row]} bytes, not those of its tensor."
    for at, (row, nbytes) in enumerate(zip(trace.transfers.row.tolist(), sizes, strict=True)):
        times, key = [int(column[at]) for column in moments], partitions.key[row]
        _, _, start, through, end, _ = times
        source, target = int(partitions.src_device[row]), int(partitions.dst_device[row])
        least, latency = cluster.transfer_ns(source, target, nbytes), cluster.latency_ns(source, target, nbytes)
        work = [cluster.pack_ns(source, target, nbytes), cluster.unpack_ns(source, target, nbytes)]
        route = cluster.routes[source][target] or ()
        sender = int(partitions.device[partitions.send[row]])
        if route and cluster.task_of[source] == cluster.task_of[target]:  # also of a value in its host's memory
            work[0] = dispatch_ns(cluster.devices[sender].chip)
        kinds = {link: cluster.links[link].contention or trace.contention for link in route}
        if times != sorted(times):
            yield f"The stretches of transfer {key!r} are out of order."
        if works[at] != work:
            yield f"The work for transfer {key!r} does not take {work[0]} and {work[1]} ns."
        if set(held[at]) != {link for link in route if kinds[link] == "serial"}:
            yield f"The transfer {key!r} does not hold the serial links of its route."
        turns = [(link, held[at][link]) for link in route if link in held[at]]
        begins = [int(tasks.start_ns[task]) for _, task in turns]
        if begins != sorted(begins) or start != min(begins, default=start):
            yield f"The transfer {key!r} is on its links out of order."
        leaves = max([start + least - latency, *(int(tasks.end_ns[task]) for _, task in turns)])
        if end < leaves + latency or (end > leaves + latency and "fair" not in kinds.values()):
            yield f"The transfer {key!r} takes {end - start} ns instead of {leaves + latency - start}."
        leaves = end if not route or ("fair" in kinds.values() and nbytes) else leaves
        if through != leaves:
            yield f"The bytes of the transfer {key!r} are through at {through} ns instead of {leaves}."
        for link, task in turns:
            takes, lasts = (
                -(-nbytes * 10**9 // cluster.links[link].bytes_per_s),
                tasks.end_ns[task] - tasks.start_ns[task],
            )
            if lasts != takes:
                yield f"The transfer {key!r} holds link {cluster.links[link].name!r} for {lasts} ns instead of {takes}."
        for link in [link for link in route if kinds[link] == "fair"]:
            shared.setdefault(link, []).append((start + latency, end, nbytes))
    for link, flows in shared.items():
        if _too_much(np.array(flows), cluster.links[link].bytes_per_s):
            yield f"Link {cluster.links[link].name!r} carries more than its rate."


def _other_sizes(trace: Trace, partitions: Partitions) -> npt.NDArray[np.bool_]:
    """[X] transfers that have other bytes than their tensor, or some though they are dead. Lists hold ever more."""
    moved, graph = trace.transfers, partitions.graph
    lists = graph.tensor_dtype[graph.tensor_ptr[partitions.recv]] == VARIANT
    known = np.where(moved.dead, 0, partitions.nbytes[moved.row])
    other: npt.NDArray[np.bool_] = (moved.nbytes != known) & (moved.dead | ~lists[moved.row])
    return other


def _held(trace: Trace) -> list[dict[int, int]]:
    """[X] link -> the task in which each transfer holds it."""
    tasks, found = trace.tasks, [dict[int, int]() for _ in range(len(trace.transfers))]
    rows = tasks.rows(Kind.LINK)
    for row, of, link in zip(rows.tolist(), tasks.of[rows].tolist(), tasks.links(rows).tolist(), strict=True):
        found[of][link] = row
    return found


def _works(trace: Trace) -> list[list[int]]:
    """[X] for how long each transfer is packed and unpacked."""
    tasks, found = trace.tasks, np.zeros((len(trace.transfers), 2), np.int64)
    for at, kind in enumerate((Kind.PACK, Kind.UNPACK)):
        rows = tasks.rows(kind)
        found[tasks.of[rows], at] = tasks.end_ns[rows] - tasks.start_ns[rows]
    both: list[list[int]] = found.tolist()
    return both


def _too_much(flows: npt.NDArray[np.int64], bytes_per_s: int) -> bool:
    """Tell whether flows (from, to, bytes) within some interval have more bytes than the link carries in it."""
    flows = flows[np.argsort(flows[:, 1], kind="stable")]
    for begun in np.unique(flows[:, 0]).tolist():
        inside = flows[flows[:, 0] >= begun]
        if (np.cumsum(inside[:, 2]) * (10.0**9) > (inside[:, 1] - begun) * float(bytes_per_s) * (1 + 1e-12)).any():
            return True
    return False


def _totals(trace: Trace, cluster: Cluster) -> Iterator[str]:
    tasks = trace.tasks
    last = tasks.end_ns.max(initial=0)
    if trace.makespan != last:
        yield f"The makespan is {trace.makespan} ns, but the last end is at {last} ns."
    on = np.flatnonzero((tasks.resource >= 0) & (tasks.resource < len(cluster)))
    busy = np.zeros(len(cluster), np.int64)
    np.add.at(busy, tasks.resource[on], tasks.end_ns[on] - tasks.start_ns[on])
    for device, spent in enumerate(busy.tolist()):
        room = trace.makespan * cluster.devices[device].lanes
        if spent != trace.busy_ns[device] or spent > room:
            name = cluster.devices[device].name
            yield f"{name} is busy for {trace.busy_ns[device]} ns; its ops take {spent} of {room} ns."
    if trace.critical is not None and len(trace.critical):
        explained = int((tasks.end_ns[trace.critical] - tasks.start_ns[trace.critical]).sum())
        if explained != trace.makespan:
            yield f"The critical path explains {explained} of {trace.makespan} ns."


def _memory(trace: Trace, cluster: Cluster) -> Iterator[str]:
    if (np.diff(trace.memory_time_ns) < 0).any():
        yield "The memory curve is not in order of time."
    for device, resident in enumerate(trace.resident_bytes.tolist()):
        curve = trace.memory_bytes[trace.memory_device == device].tolist()
        name = cluster.devices[device].name
        if min(curve, default=resident) < resident:
            yield f"{name} holds {min(curve)} bytes, less than the {resident} that are resident."
        if curve and curve[-1] != resident:
            yield f"{name} ends with {curve[-1]} bytes instead of the {resident} that are resident."
        if trace.peak_bytes[device] < max(curve, default=resident):
            yield f"The peak of {name} is given as {trace.peak_bytes[device]} bytes, but it holds {max(curve)}."


Tag: TypeAlias = "tuple[int, ...]"
Firing: TypeAlias = "tuple[int, Tag]"  # node of the pieces, iteration of each loop around it


@dataclass(frozen=True, eq=False)
class _RecordedStep:
    """Workings: when everything is done that has been asked for so far; None: it never is, or it is dead."""

    partitions: Partitions
    done: dict[Firing, int | None]
    came: dict[Firing, int | None]  # Recv -> when its transfer ended; None: dead
    recvs: frozenset[int]
    left: dict[Firing, Tag]  # Exit, iteration around its loop -> the iteration of the loop from which it leaves
    looping: bool  # loops are unrolled


def order_laws(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[str]:
    """Sentences about what starts before what it needs, or without it, and transfers that are not asked for in time."""
    record = _record(trace, partitions)
    names, tags = partitions.graph.names, trace.iterations
    ops = trace.ops
    for node, tag, start in zip(ops.node.tolist(), ops.iteration.tolist(), ops.start_ns.tolist(), strict=True):
        needed = _needed(record, (node, tags[tag]))
        where = f" in iteration {list(tags[tag])}" if tags[tag] else ""
        if needed is None:
            yield f"{names[node]!r} runs{where}, though something that it waits for never comes."
        elif start < needed:
            yield f"{names[node]!r} starts at {start} ns{where}, before its inputs are there at {needed} ns."
    moved = trace.transfers
    columns = (moved.row, moved.iteration, moved.dead, trace.moments.asked_ns)
    for transfer, tag, dead, asked in zip(*(column.tolist() for column in columns), strict=True):
        sent = _done(record, (int(partitions.send[transfer]), tags[tag]))
        posted = _needed(record, (int(partitions.recv[transfer]), tags[tag]))
        source, target = int(partitions.src_device[transfer]), int(partitions.dst_device[transfer])
        if dead or posted is None:  # when what is dead was there is not in the trace
            continue
        known = posted + cluster.protocol(source, target).request_ns
        if sent is None:
            yield f"The transfer {partitions.key[transfer]!r} brings a value that never comes."
        elif asked < max(sent, known) or (asked > max(sent, known) and not (tags[tag] or trace.order == "tensorflow")):
            # an iteration may have to wait until it may begin, and a Send until a thread of the executor comes to it
            yield f"The transfer {partitions.key[transfer]!r} is not asked for when it can be."


def _record(trace: Trace, partitions: Partitions) -> _RecordedStep:
    tags = trace.iterations
    own, moved = trace.ops, trace.transfers
    rows = zip(own.node.tolist(), own.iteration.tolist(), own.end_ns.tolist(), strict=True)
    done: dict[Firing, int | None] = {(node, tags[tag]): end for node, tag, end in rows}
    columns = (moved.row, moved.iteration, moved.dead, trace.moments.unpacked_ns)
    arrived = zip(*(column.tolist() for column in columns), strict=True)
    ops = partitions.graph.ops
    return _RecordedStep(
        partitions=partitions,
        done=done,
        came={
            (int(partitions.recv[transfer]), tags[tag]): None if dead else end for transfer, tag, dead, end in arrived
        },
        recvs=frozenset(partitions.recv.tolist()),
        left={(node, tag[:-1]): tag for node, tag in done if ops[node] in EXITS and tag},
        looping=len(tags) > 1,
    )


def _inputs(record: _RecordedStep, reader: Firing) -> Iterator[tuple[Firing | None, bool]]:
    """The input's instance, None where nothing comes in this iteration; and whether it is a value."""
    graph, (node, tag) = record.partitions.graph, reader
    for edge in range(graph.in_ptr[node], graph.in_ptr[node + 1]):
        source, op = int(graph.edge_src[edge]), graph.ops[graph.edge_src[edge]]
        value = bool(graph.edge_tensor[edge] >= 0)
        if not record.looping:
            if not graph.edge_back[edge]:
                yield (source, tag), value
        elif op in ENTERS:
            constant = graph.attrs[source].get("is_constant")
            first = not tag[-1] or bool(constant is not None and constant.b)
            yield ((source, tag[:-1]) if first else None), value
        elif op in NEXT_ITERATIONS:
            yield ((source, (*tag[:-1], tag[-1] - 1)) if tag[-1] else None), value
        elif op in EXITS:
            left = record.left.get((source, tag))
            yield (None if left is None else (source, left)), value
        else:
            yield (source, tag), value


def _done(record: _RecordedStep, wanted: Firing) -> int | None:
    """The moment at which an instance is done; with a stack, as a loop's iterations follow each other."""
    stack, seen = [wanted], set[Firing]()
    while stack:
        one = stack[-1]
        if one in record.done:
            stack.pop()
        elif not record.partitions.inserted[one[0]]:
            record.done[one] = None  # it is not in the trace
        elif one in seen:
            record.done[one] = _passed_on(record, one)
        else:
            seen.add(one)
            stack += [source for source, _ in _inputs(record, one) if source is not None and source not in seen]
    return record.done[wanted]


def _passed_on(record: _RecordedStep, one: Firing) -> int | None:
    """The moment at which a node that the cut inserted is done: with its inputs, a Recv with its transfer."""
    return record.came.get(one) if one[0] in record.recvs else _last(record, one)


def _needed(record: _RecordedStep, reader: Firing) -> int | None:
    """The moment at which the last needed input of an instance is there; None: it never is."""
    for source, _ in _inputs(record, reader):
        if source is not None:
            _done(record, source)
    return _last(record, reader)


def _last(record: _RecordedStep, reader: Firing) -> int | None:
    """The same, where the inputs have been looked at; a Merge needs one value, dead control inputs do not stop it.

    A ControlTrigger runs whatever is dead; the moment at which it hears of that is not in the trace.
    """
    ends: dict[bool, list[int | None]] = {True: [], False: []}
    for source, value in _inputs(record, reader):
        ends[value].append(None if source is None else record.done.get(source))
    came = [when for both in ends.values() for when in both if when is not None]
    if record.partitions.graph.ops[reader[0]] in TRIGGERS:
        return max(came, default=0)
    if record.partitions.graph.ops[reader[0]] not in MERGES:
        return max(came, default=0) if len(came) == len(ends[True]) + len(ends[False]) else None
    values, controls = ([when for when in ends[kind] if when is not None] for kind in (True, False))
    return max([min(values), *controls]) if values else None
