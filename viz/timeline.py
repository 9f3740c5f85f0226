"""Draw a step as Chrome trace events, for Perfetto (ui.perfetto.dev) and chrome://tracing.

A process per task with a thread per lane of its devices, one process for the links with a thread each, arrows from
the op that made a value over its transfer to the first op that reads it, and a memory counter per device. The format
is that of "Trace Event Format" (Google, 2016): complete events X, metadata M, counters C, flows s t f; `ts` and `dur`
are microseconds, so a nanosecond is the third decimal.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

import numpy as np

from simulator.assignment import RULES
from simulator.costs.categories import category
from simulator.costs.table import SOURCES
from viz.scene import Scene
from viz.tables import devices_of_nodes, notes, slice_nodes, tensor_label, transfers

Event: TypeAlias = "dict[str, str | int | float | dict[str, str | int | float]]"
Place: TypeAlias = tuple[int, int]  # process, thread

MAX_BYTES = 200_000_000  # viewers fail on more
MAX_NAME = 400  # letters of a name that a viewer has to carry


def draw_timeline(scene: Scene, *, max_bytes: int = MAX_BYTES) -> str:
    """JSON text of the trace; where it would exceed max_bytes, events are left out and `otherData` says how many.

    Arrows and counters go first; slices are in order of start, so what is missing is missing at the end.
    """
    on_links = _link_places(scene)
    parts = (
        _names(scene, on_links),
        _slices(scene),
        _transfers(scene, on_links),
        _flows(scene, on_links),
        _counters(scene),
    )
    lines, room, left_out = [], max_bytes - 4096, 0
    for event in chain.from_iterable(parts):
        line = json.dumps(event, separators=(",", ":"))
        room -= len(line) + 2
        if room < 0:
            left_out += 1
        else:
            lines.append(line)
    other = {"title": scene.title[:MAX_NAME], "algorithm": scene.assignment.used, "makespan_ns": scene.trace.makespan}
    if left_out:
        other["left_out"] = f"{left_out} events, as the file would exceed {max_bytes} bytes"
    said = json.dumps({**other, "notes": "; ".join(notes(scene))[:2000]})
    body = ",\n".join(lines)
    return f'{{"displayTimeUnit":"ns","otherData":{said},"traceEvents":[\n{body}\n]}}\n'


def _micros(nanos: int) -> float:
    return nanos / 1000


def _duration(start: int, end: int) -> float:
    """The duration by which ts + dur is not after the end's own ts: a sum that rounds up would overlap what follows."""
    duration = _micros(end) - _micros(start)
    while _micros(start) + duration > _micros(end):  # at most the last digit
        duration = math.nextafter(duration, 0.0)
    return duration


def _cut(name: str) -> str:
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"


def _threads(scene: Scene) -> dict[tuple[int, int], Place]:
    """(device, lane) -> its process and thread. Processes are numbered from 1, the tasks in the cluster's order."""
    process = {task: number + 1 for number, task in enumerate(scene.cluster.tasks)}
    lanes = np.zeros(len(scene.cluster), np.int64)
    np.maximum.at(lanes, scene.trace.device, scene.trace.lane + 1)
    found, next_thread = {}, dict.fromkeys(process.values(), 1)
    for row, device in enumerate(scene.cluster.devices):
        at = process[device.task]
        for lane in range(max(1, int(lanes[row]))):
            found[row, lane] = (at, next_thread[at])
            next_thread[at] += 1
    return found


def _link_places(scene: Scene) -> dict[int, list[tuple[int, int]]]:
    """Link -> (transfer, track) of all that it carried; two transfers overlap on no track. Link -1: handed over."""
    cut, trace = transfers(scene), scene.trace
    order = np.argsort(trace.transfer_start_ns, kind="stable").tolist()
    starts, ends = trace.transfer_start_ns.tolist(), trace.transfer_end_ns.tolist()
    src, dst, routes = cut.src_device.tolist(), cut.dst_device.tolist(), scene.cluster.routes
    carried: dict[int, list[tuple[int, int]]] = {}
    free: dict[int, list[int]] = {}
    for transfer in order:
        for link in routes[src[transfer]][dst[transfer]] or (-1,):
            tracks = free.setdefault(link, [])
            track = next((at for at, until in enumerate(tracks) if until <= starts[transfer]), len(tracks))
            tracks[track : track + 1] = [ends[transfer]]
            carried.setdefault(link, []).append((transfer, track))
    return carried


def _link_threads(scene: Scene, carried: dict[int, list[tuple[int, int]]]) -> dict[tuple[int, int], Place]:
    """(link, track) -> its process and thread, links in the cluster's order, hand-overs last."""
    process = len(scene.cluster.tasks) + 1
    tracks = sorted(
        {(link, track) for link, rows in carried.items() for _, track in rows}, key=lambda at: (at[0] < 0, at)
    )
    return {at: (process, number + 1) for number, at in enumerate(tracks)}


def _names(scene: Scene, carried: dict[int, list[tuple[int, int]]]) -> Iterator[Event]:
    cluster, threads = scene.cluster, _threads(scene)
    for number, task in enumerate([*cluster.tasks, "links"]):
        yield from _named("process", (number + 1, 0), _cut(task), number)
    for (device, lane), place in threads.items():
        short = cluster.devices[device].short
        yield from _named("thread", place, _cut(f"{short} lane {lane}" if lane else short), place[1])
    for (link, track), place in _link_threads(scene, carried).items():
        name = cluster.links[link].name if link >= 0 else "handed over in memory"
        yield from _named("thread", place, _cut(f"{name} ({track + 1})" if track else name), place[1])


def _named(what: str, place: Place, name: str, sort: int) -> Iterator[Event]:
    at: Event = {"ph": "M", "pid": place[0], "tid": place[1]}
    yield {**at, "name": f"{what}_name", "args": {"name": name}}
    yield {**at, "name": f"{what}_sort_index", "args": {"sort_index": sort}}


def _slices(scene: Scene) -> Iterator[Event]:
    graph, trace, costs, placed = scene.graph, scene.trace, scene.costs, scene.assignment
    threads = _threads(scene)
    critical = set() if trace.critical is None else set(trace.critical.tolist())
    kind = {op: category(op) for op in dict.fromkeys(graph.ops)}
    tags = trace.iterations
    columns = (
        slice_nodes(scene),
        trace.iteration,
        trace.device,
        trace.lane,
        trace.ready_ns,
        trace.start_ns,
        trace.end_ns,
    )
    for row, (node, iteration, device, lane, ready, start, end) in enumerate(
        zip(*(c.tolist() for c in columns), strict=True)
    ):
        pid, tid = threads[device, lane]
        first, last = graph.tensor_ptr[node], graph.tensor_ptr[node + 1]
        args: dict[str, str | int | float] = {
            "op": graph.ops[node],
            "output bytes": int(np.maximum(graph.tensor_bytes[first:last], 0).sum()),
            "why here": RULES[placed.why[node]],
            "cost": SOURCES[costs.source[node]],
            "waited ns": start - ready,
        }
        if tags[iteration]:
            args["iteration"] = ", ".join(map(str, tags[iteration]))
        if row in critical:
            args["critical path"] = "yes"
        yield {
            "ph": "X",
            "name": _cut(graph.names[node]),
            "cat": kind[graph.ops[node]],
            "pid": pid,
            "tid": tid,
            "ts": _micros(start),
            "dur": _duration(start, end),
            "args": args,
        }


def _transfers(scene: Scene, carried: dict[int, list[tuple[int, int]]]) -> Iterator[Event]:
    cut, trace, devices = transfers(scene), scene.trace, scene.cluster.devices
    threads = _link_threads(scene, carried)
    for link, rows in carried.items():
        for transfer, track in rows:
            pid, tid = threads[link, track]
            start, end = int(trace.transfer_start_ns[transfer]), int(trace.transfer_end_ns[transfer])
            yield {
                "ph": "X",
                "name": _cut(tensor_label(scene, int(cut.tensor[transfer]))),
                "cat": "transfer",
                "pid": pid,
                "tid": tid,
                "ts": _micros(start),
                "dur": _duration(start, end),
                "args": {
                    "from": devices[cut.src_device[transfer]].name,
                    "to": devices[cut.dst_device[transfer]].name,
                    "bytes": int(cut.nbytes[transfer]),
                    "waited ns": start - int(trace.transfer_ready_ns[transfer]),
                },
            }


def _flows(scene: Scene, carried: dict[int, list[tuple[int, int]]]) -> Iterator[Event]:
    """Arrows maker -> transfer -> first reader; an arrow binds to the slice that its time lies in.

    In a loop the maker is the last slice that had ended, and the reader the first that starts afterwards.
    """
    cut, trace = transfers(scene), scene.trace
    threads, on_link = _threads(scene), _link_threads(scene, carried)
    place_of = {transfer: on_link[link, track] for link, rows in carried.items() for transfer, track in reversed(rows)}
    slices: dict[tuple[int, int], list[int]] = {}  # (node, device) -> in order of start
    for row, key in enumerate(zip(slice_nodes(scene).tolist(), trace.device.tolist(), strict=True)):
        slices.setdefault(key, []).append(row)
    start, end = trace.start_ns.tolist(), trace.end_ns.tolist()
    readers = _readers(scene)
    for transfer, place in sorted(place_of.items()):
        tensor, src, dst = (int(column[transfer]) for column in (cut.tensor, cut.src_device, cut.dst_device))
        begin, came = int(trace.transfer_start_ns[transfer]), int(trace.transfer_end_ns[transfer])
        made = slices.get((int(scene.graph.tensor_node[tensor]) if tensor >= 0 else -1 - tensor, src), [])
        ended = bisect_right(made, begin, key=end.__getitem__)
        reading = [slices.get((node, dst), []) for node in readers.get((tensor, dst), ())]
        found = [rows[at] for rows in reading if (at := bisect_left(rows, came, key=start.__getitem__)) < len(rows)]
        if not ended or not found:
            continue
        maker, reader = made[ended - 1], min(found, key=lambda row: (start[row], row))
        common: Event = {"cat": "transfer", "name": "transfer", "id": transfer}
        last = max(start[maker], end[maker] - 1)
        for phase, thread, when in (
            ("s", threads[src, int(trace.lane[maker])], last),
            ("t", place, begin),
            ("f", threads[dst, int(trace.lane[reader])], start[reader]),
        ):
            bound: Event = {"bp": "e"} if phase == "f" else {}
            yield {**common, **bound, "ph": phase, "pid": thread[0], "tid": thread[1], "ts": _micros(when)}


def _readers(scene: Scene) -> dict[tuple[int, int], list[int]]:
    """(tensor, or -1 - node for control; device) -> the nodes there that read it from elsewhere."""
    graph, device = scene.graph, devices_of_nodes(scene).tolist()
    carried = np.where(graph.edge_tensor >= 0, graph.edge_tensor, -1 - graph.edge_src).tolist()
    found: dict[tuple[int, int], list[int]] = {}
    for src, dst, tensor in zip(graph.edge_src.tolist(), graph.edge_dst.tolist(), carried, strict=True):
        if device[src] != device[dst]:
            found.setdefault((tensor, device[dst]), []).append(dst)
    return found


def _counters(scene: Scene) -> Iterable[Event]:
    trace, cluster = scene.trace, scene.cluster
    process = {task: number + 1 for number, task in enumerate(cluster.tasks)}
    for row, device in enumerate(cluster.devices):
        name, pid = f"memory {device.short}", process[device.task]
        yield _counter(name, pid, 0, int(trace.resident_bytes[row]))
    columns = (trace.memory_device, trace.memory_time_ns, trace.memory_bytes)
    for row, time, level in zip(*(column.tolist() for column in columns), strict=True):
        device = cluster.devices[row]
        yield _counter(f"memory {device.short}", process[device.task], time, level)


def _counter(name: str, pid: int, time_ns: int, level: int) -> Event:
    return {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": _micros(time_ns), "args": {"bytes": level}}
