"""What the report holds of the timeline: slices, the work for transfers, transfers and memory, as columns for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TypeAlias

import numpy as np

from simulator.execution.trace import Trace
from viz import figures as tables
from viz.handling import handling
from viz.scene import Scene
from viz.tracks import turns

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"

MAX_MEMORY_POINTS = 50_000  # of all devices together; more are thinned, peaks kept
FEWEST_MEMORY_POINTS = 100  # of one device, however many there are


def slices(scene: Scene) -> Json:
    """What runs on the lanes of the devices, and the iterations of loops that it may belong to."""
    trace = scene.trace
    return {
        "node": tables.slice_nodes(scene).tolist(),
        "iteration": trace.iteration.tolist(),
        "iterations": [list(tag) for tag in trace.iterations],
        "device": trace.device.tolist(),
        "lane": trace.lane.tolist(),
        "ready_ns": trace.ready_ns.tolist(),
        "start_ns": trace.start_ns.tolist(),
        "end_ns": trace.end_ns.tolist(),
    }


def work(scene: Scene) -> Json:
    """Packing and unpacking, as `Handling` has them."""
    rows = handling(scene)
    return {field.name: getattr(rows, field.name).astype(int).tolist() for field in fields(rows)}


def transfers(scene: Scene) -> Json:
    """What crosses, when, and over which links: `end_ns` is when its bytes are off them, `came_ns` when it arrives.

    They take `crossing_ns` on each link from `start_ns`, but where `turns` has (transfer, link, begin, end).
    """
    cut, trace, routes = tables.transfers(scene), scene.trace, scene.cluster.routes
    used: dict[tuple[int, int], list[int]] = {}
    for src, dst in zip(cut.src_device.tolist(), cut.dst_device.tolist(), strict=True):
        used.setdefault((src, dst), list(routes[src][dst] or ()))
    return {
        "tensor": cut.tensor.tolist(),
        "src": cut.src_device.tolist(),
        "dst": cut.dst_device.tolist(),
        "bytes": cut.nbytes.tolist(),
        "pair": trace.transfer.tolist(),
        "iteration": trace.transfer_iteration.tolist(),
        "dead": np.flatnonzero(trace.transfer_dead).tolist(),
        "ready_ns": trace.transfer_ready_ns.tolist(),
        "packed_ns": trace.pack_end_ns.tolist(),
        "unpacked_ns": trace.unpack_end_ns.tolist(),
        "start_ns": trace.transfer_start_ns.tolist(),
        "crossing_ns": trace.crossing_ns.tolist(),
        "end_ns": trace.wire_end_ns.tolist(),
        "came_ns": trace.transfer_end_ns.tolist(),
        "turns": turn_rows(trace, range(len(trace.transfer))),
        "routes": [[src, dst, *links] for (src, dst), links in sorted(used.items())],
    }


def turn_rows(trace: Trace, shown: Sequence[int]) -> Json:
    """[transfer, link, begin, end] of `tracks.turns`, numbered as they are shown."""
    place = {transfer: number for number, transfer in enumerate(shown)}
    return [[place[transfer], link, *span] for (transfer, link), span in turns(trace).items() if transfer in place]


def memory(scene: Scene) -> Json:
    """Per device the times and levels of its memory curve."""
    trace = scene.trace
    most = max(MAX_MEMORY_POINTS // max(len(scene.cluster), 1), FEWEST_MEMORY_POINTS)
    curves: list[Json] = []
    for device in range(len(scene.cluster)):
        mine = np.flatnonzero(trace.memory_device == device)
        times, levels = trace.memory_time_ns[mine], trace.memory_bytes[mine]
        keep = _thinned(levels, most)
        curves.append({"time_ns": times[keep].tolist(), "bytes": levels[keep].tolist()})
    return {
        "curves": curves,
        "peak_bytes": trace.peak_bytes.tolist(),
        "resident_bytes": trace.resident_bytes.tolist(),
    }


def _thinned(
    levels: np.ndarray[tuple[int], np.dtype[np.int64]], most: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Rows to keep of a curve: all, or the lowest and highest of each of most/2 stretches."""
    if len(levels) <= most:
        return np.arange(len(levels))
    kept: set[int] = {0, len(levels) - 1}
    for stretch in np.array_split(np.arange(len(levels)), most // 2):
        kept.add(int(stretch[np.argmin(levels[stretch])]))
        kept.add(int(stretch[np.argmax(levels[stretch])]))
    return np.array(sorted(kept), np.int64)
