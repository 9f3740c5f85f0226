"""The laws of a trace, each checked from the trace and the pieces alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.execution.laws_of_order import order_laws
from simulator.execution.trace import Trace

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
