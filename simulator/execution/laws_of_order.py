"""The laws of order: nothing runs before what it needs, in any iteration.

Found from the trace and the pieces alone, going back from what ran: what a node needs in one iteration of its loop,
what the cut inserted in between included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from simulator.execution.trace import Trace
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, TRIGGERS

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.partitioning import Partitions

Tag: TypeAlias = "tuple[int, ...]"
Instance: TypeAlias = "tuple[int, Tag]"  # node of the pieces, iteration of each loop around it


@dataclass(frozen=True, eq=False)
class _RecordedStep:
    """Workings: when everything is done that has been asked for so far; None: it never is, or it is dead."""

    partitions: Partitions
    done: dict[Instance, int | None]
    came: dict[Instance, int | None]  # Recv -> when its transfer ended; None: dead
    recvs: frozenset[int]
    left: dict[Instance, Tag]  # Exit, iteration around its loop -> the iteration of the loop from which it leaves
    looping: bool  # loops are unrolled


def order_laws(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[str]:
    """Sentences about what starts before what it needs, or without it, and transfers that are not asked for in time."""
    record = _record(trace, partitions)
    names, tags = partitions.graph.names, trace.iterations
    for node, tag, start in zip(trace.node.tolist(), trace.iteration.tolist(), trace.start_ns.tolist(), strict=True):
        needed = _needed(record, (node, tags[tag]))
        where = f" in iteration {list(tags[tag])}" if tags[tag] else ""
        if needed is None:
            yield f"{names[node]!r} runs{where}, though something that it waits for never comes."
        elif start < needed:
            yield f"{names[node]!r} starts at {start} ns{where}, before its inputs are there at {needed} ns."
    columns = (trace.transfer, trace.transfer_iteration, trace.transfer_dead, trace.transfer_ready_ns)
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
    rows = zip(trace.node.tolist(), trace.iteration.tolist(), trace.end_ns.tolist(), strict=True)
    done: dict[Instance, int | None] = {(node, tags[tag]): end for node, tag, end in rows}
    columns = (trace.transfer, trace.transfer_iteration, trace.transfer_dead, trace.unpack_end_ns)
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


def _inputs(record: _RecordedStep, reader: Instance) -> Iterator[tuple[Instance | None, bool]]:
    """What comes in, None where nothing does in this iteration; and whether it is a value."""
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


def _done(record: _RecordedStep, wanted: Instance) -> int | None:
    """When an instance is done; with a stack, as a loop's iterations follow each other."""
    stack, seen = [wanted], set[Instance]()
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


def _passed_on(record: _RecordedStep, one: Instance) -> int | None:
    """When what the cut inserted is done: with its inputs, a Recv with its transfer."""
    return record.came.get(one) if one[0] in record.recvs else _last(record, one)


def _needed(record: _RecordedStep, reader: Instance) -> int | None:
    """When the last needed input of an instance is there; None: it never is."""
    for source, _ in _inputs(record, reader):
        if source is not None:
            _done(record, source)
    return _last(record, reader)


def _last(record: _RecordedStep, reader: Instance) -> int | None:
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
