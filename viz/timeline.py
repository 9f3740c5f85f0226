"""Draw a step as Chrome trace events, for Perfetto (ui.perfetto.dev) and chrome://tracing.

A process per task with a thread per lane of its devices, one process for the links with a thread each, arrows from
the op that made a value over its transfer to the first op that reads it, and a memory counter per device. The format
is that of "Trace Event Format" (Google, 2016): complete events X, or instants i where something takes no time, metadata
M, counters C, flows s t f; `ts` and `dur` are microseconds, so a nanosecond is the third decimal.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from simulator.assignment import RULES
from simulator.costs.rules import category
from simulator.costs.table import SOURCES
from simulator.execution.trace import PACK, UNPACK, WIRE
from viz.figures import devices_of_nodes, notes, slice_nodes, tagged, tensor_label, transfers
from viz.formats.trace_events import MAX_BYTES, Args, Event, micros, named_places, slice_of, written
from viz.handling import Handling, critical_stretches, handling
from viz.palette import PACKING, UNPACKING
from viz.scene import Scene
from viz.tracks import Carried, Place, link_threads, link_tracks, processes, threads


@dataclass(frozen=True, slots=True)
class _Stage:
    """A scene and where all of it is drawn."""

    scene: Scene
    work: Handling
    lanes: Mapping[tuple[int, int], Place]  # of (device, lane)
    carried: Carried
    links: Mapping[tuple[int, int], Place]  # of (link, track)


def draw_timeline(scene: Scene, *, max_bytes: int = MAX_BYTES) -> str:
    """JSON text of the trace; where it would exceed max_bytes, events are left out and `otherData` says how many.

    Arrows and counters go first; slices are in order of start, so what is missing is missing at the end.
    """
    work, carried = handling(scene), link_tracks(scene)
    stage = _Stage(scene, work, threads(scene, work), carried, link_threads(scene, carried))
    parts = (
        named_places(scene.cluster, stage.lanes, stage.links),
        _slices(stage),
        _work(stage),
        _transfers(stage),
        _flows(stage),
        _counters(scene),
    )
    other: Args = {
        "title": scene.title,
        "algorithm": scene.assignment.used,
        "makespan_ns": scene.trace.makespan,
    }
    return written(chain.from_iterable(parts), other, notes(scene), max_bytes=max_bytes)


def _slices(stage: _Stage) -> Iterator[Event]:
    scene = stage.scene
    graph, trace, costs, placed = scene.graph, scene.trace, scene.costs, scene.assignment
    critical = set() if trace.critical is None else set(trace.critical.tolist())
    kind = {op: category(op) for op in dict.fromkeys(graph.ops)}
    times = (trace.ready_ns, trace.start_ns, trace.end_ns)
    columns = (slice_nodes(scene), trace.iteration, trace.device, trace.lane, *times)
    for row, (node, tag, device, lane, ready, start, end) in enumerate(
        zip(*(c.tolist() for c in columns), strict=True)
    ):
        first, last = graph.tensor_ptr[node], graph.tensor_ptr[node + 1]
        iteration = trace.iterations[tag]
        args: Args = {
            "op": graph.ops[node],
            "output bytes": int(np.maximum(graph.tensor_bytes[first:last], 0).sum()),
            "why here": RULES[placed.why[node]],
            "cost": SOURCES[costs.source[node]],
            "waited ns": start - ready,
        }
        if iteration:
            args["iteration"] = ", ".join(map(str, iteration))
        if row in critical:
            args["critical path"] = "yes"
        name = tagged(graph.names[node], iteration)
        yield slice_of(name, kind[graph.ops[node]], stage.lanes[device, lane], start, end, args)


def _told(scene: Scene) -> list[tuple[str, Args]]:
    """The name of each transfer, and what is to be said of it on its wires and at both ends."""
    cut, trace, devices = transfers(scene), scene.trace, scene.cluster.devices
    columns = {
        "bytes": cut.nbytes,
        "asked ns": trace.transfer_ready_ns,
        "packed ns": trace.pack_end_ns,
        "on the wire ns": trace.transfer_start_ns,
        "off the wire ns": trace.wire_end_ns,
        "arrives ns": trace.transfer_end_ns,
        "unpacked ns": trace.unpack_end_ns,
        "waited ns": trace.wire_end_ns - trace.crossing_ns - trace.pack_end_ns,
    }
    rows = zip(*(c.tolist() for c in columns.values()), strict=True)
    figures = [dict(zip(columns, row, strict=True)) for row in rows]
    told: list[tuple[str, Args]] = []
    for row, (tensor, tag, src, dst) in enumerate(
        zip(cut.tensor.tolist(), trace.transfer_iteration.tolist(), cut.src_device, cut.dst_device, strict=True)
    ):
        name = tagged(tensor_label(scene, tensor), trace.iterations[tag])
        told.append((name, {"from": devices[src].name, "to": devices[dst].name, **figures[row]}))
    return told


def _work(stage: _Stage) -> Iterator[Event]:
    work, told, critical = stage.work, _told(stage.scene), critical_stretches(stage.scene)
    columns = (work.transfer, work.packs, work.device, work.lane, work.ready_ns, work.start_ns, work.end_ns)
    for transfer, packs, device, lane, ready, start, end in zip(*(c.tolist() for c in columns), strict=True):
        name, args = told[transfer]
        args = {**args, "waited ns": start - ready}
        if (transfer, PACK if packs else UNPACK) in critical:
            args["critical path"] = "yes"
        verb, kind = ("send", PACKING) if packs else ("receive", UNPACKING)
        yield slice_of(f"{verb} {name}", kind, stage.lanes[device, lane], start, end, args)


def _transfers(stage: _Stage) -> Iterator[Event]:
    """Each on its links while they are its own, or shared; its latency is in no slice, but the arrow to its reader."""
    told, critical = _told(stage.scene), critical_stretches(stage.scene)
    for link, bars in stage.carried.items():
        for bar in bars:
            name, args = told[bar.transfer]
            if (bar.transfer, WIRE) in critical:
                args = {**args, "critical path": "yes"}
            yield slice_of(name, "transfer", stage.links[link, bar.track], bar.start, bar.end, args)


def _flows(stage: _Stage) -> Iterator[Event]:
    """Arrows maker -> packing -> transfer -> unpacking -> first reader.

    An arrow binds to the slice that its time lies in, or to the instant that is there. In a loop the maker is that of
    the transfer's iteration, or, where a value comes from another one, the last that had ended; the reader is the first
    that starts afterwards.
    """
    scene, trace, cut = stage.scene, stage.scene.trace, transfers(stage.scene)
    bars = [(-bar.start, bar.transfer, (link, bar.track)) for link, on in stage.carried.items() for bar in on]
    first = {transfer: stage.links[place] for _, transfer, place in sorted(bars)}
    slices: dict[tuple[int, int], list[int]] = {}  # (node, device) -> in order of start
    for row, key in enumerate(zip(slice_nodes(scene).tolist(), trace.device.tolist(), strict=True)):
        slices.setdefault(key, []).append(row)
    start, end, tag = trace.start_ns.tolist(), trace.end_ns.tolist(), trace.iteration.tolist()
    exact = {(*key, tag[row]): row for key, rows in slices.items() for row in rows}
    stops = _stops(stage, first)
    readers = _readers(scene)
    for transfer in sorted(first):
        tensor, src, dst = (int(column[transfer]) for column in (cut.tensor, cut.src_device, cut.dst_device))
        asked, came = int(trace.transfer_ready_ns[transfer]), int(trace.unpack_end_ns[transfer])
        key = int(scene.graph.tensor_node[tensor]) if tensor >= 0 else -1 - tensor, src
        made = slices.get(key, [])
        ended = bisect_right(made, asked, key=end.__getitem__)
        mine = exact.get((*key, int(trace.transfer_iteration[transfer])), -1)
        reading = [slices.get((node, dst), []) for node in readers.get((tensor, dst), ())]
        found = [rows[at] for rows in reading if (at := bisect_left(rows, came, key=start.__getitem__)) < len(rows)]
        if not ended or not found:
            continue
        maker, reader = (
            mine if mine >= 0 and end[mine] <= asked else made[ended - 1],
            min(found, key=lambda row: (start[row], row)),
        )
        last = max(start[maker], end[maker] - 1)
        common: Event = {"cat": "transfer", "name": "transfer", "id": transfer}
        for phase, place, when in (
            ("s", stage.lanes[src, int(trace.lane[maker])], last),
            *(("t", place, when) for when, place in stops[transfer]),
            ("f", stage.lanes[dst, int(trace.lane[reader])], start[reader]),
        ):
            bound: Event = {"bp": "e"} if phase == "f" else {}
            yield {**common, **bound, "ph": phase, "pid": place[0], "tid": place[1], "ts": micros(when)}


def _stops(stage: _Stage, wires: Mapping[int, Place]) -> dict[int, list[tuple[int, Place]]]:
    """When each transfer begins to be packed, to be on its first link, and to be unpacked, and where that is drawn."""
    begin, work = stage.scene.trace.transfer_start_ns, stage.work
    stops = {transfer: [(int(begin[transfer]), place)] for transfer, place in wires.items()}
    columns = (work.transfer, work.packs, work.device, work.lane, work.start_ns)
    for transfer, packs, device, lane, start in zip(*(c.tolist() for c in columns), strict=True):
        stops[transfer].insert(0 if packs else len(stops[transfer]), (start, stage.lanes[device, lane]))
    return stops


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
    process = processes(cluster)
    for row, device in enumerate(cluster.devices):
        name, pid = f"memory {device.short}", process[device.task]
        yield _counter(name, pid, 0, int(trace.resident_bytes[row]))
    columns = (trace.memory_device, trace.memory_time_ns, trace.memory_bytes)
    for row, time, level in zip(*(column.tolist() for column in columns), strict=True):
        device = cluster.devices[row]
        yield _counter(f"memory {device.short}", process[device.task], time, level)


def _counter(name: str, pid: int, time_ns: int, level: int) -> Event:
    return {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": micros(time_ns), "args": {"bytes": level}}
