"""The laws of a trace, each checked from the trace and the pieces alone.

The laws of order say that nothing runs before the values that it needs, in any iteration. They go back from what ran to
the inputs of a node in one iteration of its loop, ops that the cut inserted in between included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.execution.trace import Trace
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, TRIGGERS

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.partitioning import Partitions


def check_trace(trace: Trace, partitions: Partitions, cluster: Cluster) -> list[str]:
    """Sentences about what is wrong, none if all laws hold.

    No two jobs overlap in a lane, and no two transfers on a serial link; a transfer holds the serial links of its route
    in order, each for its bytes at the link's own rate, and joins the line of each when the one before begins with it;
    no such link idles while somebody is in its line, and who joined first is first; a shared link never carries more
    than its rate over any interval; no transfer is faster than its route allows, and only lines and shared links make
    one slower: its bytes are through when the last of its links has had its time with them; nobody starts before its
    last needed input arrived (a Merge needs its first); no lane is busier than the makespan, the end of what ends
    last; memory is never below what is resident and ends there; the recorded peak is the curve's, or more for what
    lived for no time.
    """
    return [
        *_lanes(trace, partitions, cluster),
        *_links(trace, partitions, cluster),
        *_stretches(trace, partitions, cluster),
        *order_laws(trace, partitions, cluster),
        *_totals(trace, partitions, cluster),
        *_memory(trace, cluster),
    ]


def _overlaps(rows: list[tuple[int, int, str]]) -> Iterator[tuple[str, str]]:
    """Neighbours in time that overlap, of (start, end, name); what takes no time overlaps nothing."""
    lasting = sorted(row for row in rows if row[1] > row[0])
    for before, after in pairwise(lasting):
        if after[0] < before[1]:
            yield before[2], after[2]


def _lanes(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[str]:
    lanes: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    columns = (trace.node, trace.device, trace.lane, trace.start_ns, trace.end_ns)
    for node, device, lane, start, end in zip(*(column.tolist() for column in columns), strict=True):
        name = partitions.graph.names[node]
        lanes.setdefault((device, lane), []).append((start, end, name))
        if not 0 <= lane < cluster.devices[device].lanes:
            yield f"{name!r} runs in lane {lane} of {cluster.devices[device].name}, which it does not have."
        if device != partitions.device[node]:
            yield f"{name!r} runs on {cluster.devices[device].name}, where it was not placed."
    for end_of, devices, lane_of, starts, ends in (
        ("packing", partitions.src_device[trace.transfer], trace.pack_lane, trace.pack_start_ns, trace.pack_end_ns),
        (
            "unpacking",
            partitions.dst_device[trace.transfer],
            trace.unpack_lane,
            trace.unpack_start_ns,
            trace.unpack_end_ns,
        ),
    ):
        work = zip(cluster.home[devices].tolist(), lane_of.tolist(), starts.tolist(), ends.tolist(), strict=True)
        for transfer, (device, lane, start, end) in zip(trace.transfer.tolist(), work, strict=True):
            lanes.setdefault((device, lane), []).append((start, end, f"{end_of} {partitions.key[transfer]}"))
    for (device, lane), rows in lanes.items():
        for before, after in _overlaps(rows):
            yield f"{before!r} and {after!r} overlap in lane {lane} of {cluster.devices[device].name}."


def _links(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[str]:
    lines: dict[int, list[_Turn]] = {}
    shared: dict[int, list[tuple[int, int, int]]] = {}  # (bytes from, to, how many)
    rows = zip(trace.transfer.tolist(), _sizes(trace, partitions), _times(trace), _holds(trace), strict=True)
    for transfer, nbytes, (packed, start, through, end), holds in rows:
        key, source, target = (
            partitions.key[transfer], int(partitions.src_device[transfer]), int(partitions.dst_device[transfer])
        )  # fmt: skip
        least, latency = cluster.transfer_ns(source, target, nbytes), cluster.latency_ns(source, target, nbytes)
        route = cluster.routes[source][target] or ()
        kinds = {link: cluster.links[link].contention or trace.contention for link in route}
        if [link for link, _, _ in holds] != [link for link in route if kinds[link] == "serial"]:
            yield f"The transfer {key!r} does not hold the serial links of its route."
        begins = [begin for _, begin, _ in holds]
        if begins != sorted(begins) or start != min(begins, default=start):
            yield f"The transfer {key!r} is on its links out of order."
        leaves = max([start + least - latency, *(until for _, _, until in holds)])
        if end < leaves + latency or (end > leaves + latency and "fair" not in kinds.values()):
            yield f"The transfer {key!r} takes {end - start} ns instead of {leaves + latency - start}."
        leaves = end if not route or ("fair" in kinds.values() and nbytes) else leaves
        if through != leaves:
            yield f"The bytes of the transfer {key!r} are through at {through} ns instead of {leaves}."
        for (link, begin, until), joined in zip(holds, [packed, *begins], strict=False):
            lines.setdefault(link, []).append(_Turn(joined, begin, until, key))
            takes = -(-nbytes * 10**9 // cluster.links[link].bytes_per_s)
            if until - begin != takes:
                name = cluster.links[link].name
                yield f"The transfer {key!r} holds link {name!r} for {until - begin} ns instead of {takes}."
        for link in [link for link in route if kinds[link] == "fair"]:
            shared.setdefault(link, []).append((start + latency, end, nbytes))
    for link, turns in lines.items():
        yield from _line(turns, cluster.links[link].name)
    for link, flows in shared.items():
        if _too_much(np.array(flows), cluster.links[link].bytes_per_s):
            yield f"Link {cluster.links[link].name!r} carries more than its rate."


class _Turn(NamedTuple):
    """Workings: a transfer in the line of a serial link."""

    joined: int
    begin: int
    end: int
    key: str


def _line(turns: list[_Turn], name: str) -> Iterator[str]:
    """What is wrong with a serial link: nobody shares it or overtakes in its line, and it never idles beside one."""
    for earlier, later in pairwise(sorted(turns)):  # in order of joining
        if later.joined > earlier.joined and later.begin < earlier.begin:
            yield f"The transfer {later.key!r} overtakes {earlier.key!r} in the line of link {name!r}."
    until, last = 0, ""
    for turn in sorted(turns, key=lambda turn: (turn.begin, turn.end)):
        if turn.begin < until:
            yield f"The transfers {last!r} and {turn.key!r} overlap on link {name!r}."
        if turn.begin > max(until, turn.joined):
            yield f"Link {name!r} idles before {turn.begin} ns, though {turn.key!r} is in its line."
        if turn.end >= until:
            until, last = turn.end, turn.key


def _sizes(trace: Trace, partitions: Partitions) -> list[int]:
    """[X] bytes of each transfer; of those that are dead, or of unknown size, none."""
    sizes: list[int] = np.where(trace.transfer_dead, 0, np.maximum(partitions.nbytes[trace.transfer], 0)).tolist()
    return sizes


def _times(trace: Trace) -> list[tuple[int, int, int, int]]:
    columns = (trace.pack_end_ns, trace.transfer_start_ns, trace.wire_end_ns, trace.transfer_end_ns)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _holds(trace: Trace) -> list[list[tuple[int, int, int]]]:
    """[X] (link, from, to) of what each transfer holds."""
    rows = zip(trace.hold_link.tolist(), trace.hold_start_ns.tolist(), trace.hold_end_ns.tolist(), strict=True)
    every = list(rows)
    return [every[a:b] for a, b in pairwise(trace.hold_ptr.tolist())]


def _too_much(flows: npt.NDArray[np.int64], bytes_per_s: int) -> bool:
    """Whether flows (from, to, bytes) that lie within some interval have more bytes than the link carries in it."""
    flows = flows[np.argsort(flows[:, 1], kind="stable")]
    for begun in np.unique(flows[:, 0]).tolist():
        inside = flows[flows[:, 0] >= begun]
        if (np.cumsum(inside[:, 2]) * (10.0**9) > (inside[:, 1] - begun) * float(bytes_per_s) * (1 + 1e-12)).any():
            return True
    return False


def _stretches(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[str]:
    """A transfer's stretches follow each other, and its work takes as long as its protocol says."""
    columns = (
        trace.transfer_ready_ns, trace.pack_start_ns, trace.pack_end_ns, trace.transfer_start_ns,
        trace.wire_end_ns, trace.transfer_end_ns, trace.unpack_start_ns, trace.unpack_end_ns,
    )  # fmt: skip
    rows = zip(trace.transfer.tolist(), _sizes(trace, partitions), strict=True)
    for (transfer, nbytes), times in zip(rows, zip(*(column.tolist() for column in columns), strict=True), strict=True):
        source, target = int(partitions.src_device[transfer]), int(partitions.dst_device[transfer])
        if list(times) != sorted(times):
            yield f"The stretches of transfer {partitions.key[transfer]!r} are out of order."
        work = cluster.pack_ns(source, target, nbytes), cluster.unpack_ns(source, target, nbytes)
        if (times[2] - times[1], times[7] - times[6]) != work:
            yield f"The work for transfer {partitions.key[transfer]!r} does not take {work[0]} and {work[1]} ns."


def _totals(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[str]:
    last = max(trace.end_ns.max(initial=0), trace.unpack_end_ns.max(initial=0))
    if trace.makespan != last:
        yield f"The makespan is {trace.makespan} ns, but the last end is at {last} ns."
    busy = np.zeros(len(cluster), np.int64)
    np.add.at(busy, trace.device, trace.end_ns - trace.start_ns)
    np.add.at(busy, cluster.home[partitions.src_device[trace.transfer]], trace.pack_end_ns - trace.pack_start_ns)
    np.add.at(busy, cluster.home[partitions.dst_device[trace.transfer]], trace.unpack_end_ns - trace.unpack_start_ns)
    for device, spent in enumerate(busy.tolist()):
        room = trace.makespan * cluster.devices[device].lanes
        if spent != trace.busy_ns[device] or spent > room:
            name = cluster.devices[device].name
            yield f"{name} is busy for {trace.busy_ns[device]} ns; its ops take {spent} of {room} ns."
    if (trace.ready_ns > trace.start_ns).any() or (trace.transfer_ready_ns > trace.transfer_start_ns).any():
        yield "Something starts before it is ready."


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
