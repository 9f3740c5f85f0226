"""Where a timeline draws what: a thread per lane of a device, and as many per link as transfers are on it at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np

from viz.handling import Handling
from viz.scene import Scene
from viz.tables import transfers

Place: TypeAlias = tuple[int, int]  # process, thread
Carried: TypeAlias = Mapping[int, Sequence[tuple[int, int]]]  # link -> (transfer, track) of all that it carried


def threads(scene: Scene, work: Handling) -> dict[tuple[int, int], Place]:
    """(device, lane) -> its process and thread. Processes are numbered from 1, the tasks in the cluster's order."""
    process = {task: number + 1 for number, task in enumerate(scene.cluster.tasks)}
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
    """What each link carried, in order of (start, end of its bytes); two overlap on no track. Link -1: handed over."""
    cut, trace, routes = transfers(scene), scene.trace, scene.cluster.routes
    starts, ends = trace.transfer_start_ns.tolist(), trace.wire_end_ns.tolist()
    src, dst = cut.src_device.tolist(), cut.dst_device.tolist()
    carried: dict[int, list[int]] = {}
    for transfer in np.lexsort((trace.wire_end_ns, trace.transfer_start_ns)).tolist():
        for link in routes[src[transfer]][dst[transfer]] or (-1,):
            carried.setdefault(link, []).append(transfer)
    return {
        link: list(zip(rows, tracks((starts[row], ends[row]) for row in rows), strict=True))
        for link, rows in carried.items()
    }


def link_threads(scene: Scene, carried: Carried) -> dict[tuple[int, int], Place]:
    """(link, track) -> its process and thread, links in the cluster's order, hand-overs last."""
    process = len(scene.cluster.tasks) + 1
    rows = {(link, track) for link, on in carried.items() for _, track in on}
    return {at: (process, number + 1) for number, at in enumerate(sorted(rows, key=lambda at: (at[0] < 0, at)))}
