"""Where a timeline draws what: a thread per lane of a device, and as many per link as transfers are on it at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import Ids
from simulator.execution.trace import Trace
from viz.figures import transfers
from viz.handling import Handling
from viz.scene import Scene

Place: TypeAlias = tuple[int, int]  # process, thread

LINKS = "links"  # all of them are one process
_FIRST_PROCESS = 10_001  # above its threads: Perfetto takes the one of its process's number for the main thread


class Bar(NamedTuple):
    """The bytes of a transfer on one of its links."""

    transfer: int
    track: int
    start: int
    end: int


Carried: TypeAlias = Mapping[int, Sequence[Bar]]  # of each link all that it carried, in order of start


def processes(cluster: Cluster) -> dict[str, int]:
    """The process of each task, in the cluster's order, and last that of LINKS."""
    return {name: _FIRST_PROCESS + number for number, name in enumerate([*cluster.tasks, LINKS])}


def threads(scene: Scene, work: Handling) -> dict[tuple[int, int], Place]:
    """(device, lane) -> its process and thread."""
    process = processes(scene.cluster)
    lanes = np.zeros(len(scene.cluster), np.int64)
    np.maximum.at(lanes, scene.trace.device, scene.trace.lane + 1)
    np.maximum.at(lanes, work.device, work.lane + 1)
    found, next_thread = {}, dict.fromkeys(process.values(), 1)
    for row, device in enumerate(scene.cluster.devices):
        at = process[device.task]
        for lane in range(max(1, int(lanes[row]))):
            found[row, lane] = (at, next_thread[at])
            next_thread[at] += 1
    return found


def tracks(spans: Iterable[tuple[int, int]]) -> list[int]:
    """The track of each span (start, end), in order of start: the lowest on which no earlier one still lasts."""
    busy: list[tuple[int, int]] = []  # (end, track)
    idle: list[int] = []
    found = []
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heappush(idle, heappop(busy)[1])
        track = heappop(idle) if idle else len(busy)
        heappush(busy, (end, track))
        found.append(track)
    return found


def link_tracks(scene: Scene) -> Carried:
    """What each link of a scene carried, in order of (start, end of its bytes)."""
    cut = transfers(scene)
    return carried_by(scene.trace, scene.cluster, cut.src_device, cut.dst_device)


def carried_by(trace: Trace, cluster: Cluster, source: Ids, target: Ids) -> Carried:
    """The same, for transfers of a trace between these devices; two overlap on no track. Link -1: handed over.

    A transfer is on a serial link while it holds that, and on any other from its start, for as long as its bytes take.
    """
    own = turns(trace)
    found: dict[int, list[tuple[int, int, int]]] = {}
    columns = (trace.transfer_start_ns, trace.crossing_ns, source, target)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for transfer, (first, lasts, here, there) in enumerate(rows):
        for link in cluster.routes[here][there] or (-1,):
            start, end = own.get((transfer, link), (first, first + lasts))
            found.setdefault(link, []).append((start, end, transfer))
    for bars in found.values():
        bars.sort()
    return {
        link: [
            Bar(transfer, track, start, end)
            for (start, end, transfer), track in zip(bars, tracks(bar[:2] for bar in bars), strict=True)
        ]
        for link, bars in found.items()
    }


def turns(trace: Trace) -> dict[tuple[int, int], tuple[int, int]]:
    """From when until when links have a transfer, by (transfer, link), where that is not from its start for as long as
    its bytes take on its slowest link.
    """
    of = np.repeat(np.arange(len(trace.transfer)), np.diff(trace.hold_ptr))
    start, lasts = trace.transfer_start_ns[of], trace.crossing_ns[of]
    rows = np.flatnonzero((trace.hold_start_ns > start) | (trace.hold_end_ns < start + lasts))
    columns = (of[rows], trace.hold_link[rows], trace.hold_start_ns[rows], trace.hold_end_ns[rows])
    return {
        (transfer, link): (begin, end)
        for transfer, link, begin, end in zip(*(c.tolist() for c in columns), strict=True)
    }


def link_threads(scene: Scene, carried: Carried) -> dict[tuple[int, int], Place]:
    """(link, track) -> its process and thread, links in the cluster's order, hand-overs last."""
    process = processes(scene.cluster)[LINKS]
    rows = {(link, bar.track) for link, on in carried.items() for bar in on}
    return {at: (process, number + 1) for number, at in enumerate(sorted(rows, key=lambda at: (at[0] < 0, at)))}
