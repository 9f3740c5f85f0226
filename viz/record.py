"""The scene as one JSON object, for machines: format 1, as `docs/json.md` describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from simulator import __version__
from simulator.assignment import OVERRULED, RELAXED
from simulator.costs.table import MEASURED
from simulator.execution.memory import out_of_memory
from simulator.graph import ops
from simulator.graph.calling import calling
from viz import holding, tables
from viz.scene import Scene
from viz.training import figures

FORMAT = 1


def record(scene: Scene) -> Mapping[str, Any]:
    """The JSON object of a scene; every figure is an integer in the unit of its name. Any: JSON."""
    graph, step, cluster = scene.graph, scene.step, scene.cluster
    return {
        "format": FORMAT,
        "simviz": __version__,
        "graph": {
            "name": scene.title,
            "nodes": len(graph),
            "edges": len(graph.edge_src),
            "producer": graph.producer,
            "notes": list(graph.notes),
        },
        "step": {
            "rule": step.rule,
            "feeds": list(step.feeds),
            "fetches": list(step.fetches),
            "nodes": int(np.count_nonzero(step.runs)),
            "of": len(graph),
        },
        "cluster": {
            "name": cluster.name,
            "devices": [device.name for device in cluster.devices],
            "kinds": [device.kind for device in cluster.devices],
            "notes": list(cluster.notes),
        },
        "algorithm": {"asked": scene.assignment.asked, "used": scene.assignment.used},
        "simulation": asdict(tables.simulation(scene)),
        "placement": {name: scene.assignment.name_of(row) for row, name in enumerate(graph.names)},
        "transfers": transfers(scene),
        "makespan_ns": int(scene.trace.makespan),
        "lower_bound_ns": int(scene.lower_bound_ns),
        "devices": devices(scene),
        "out_of_memory": _out_of_memory(scene),
        "recv_scheduling": _late(scene),
        "pinned": _pinned(scene),
        "training": None if scene.training is None else figures.record(scene.training),
        "counts": counts(scene),
        "notes": tables.result_notes(scene),
        "check": scene.check,
    }


def _pinned(scene: Scene) -> Mapping[str, Any] | None:
    """What device strings hold on CPUs. Any: JSON."""
    held = scene.pinned
    if held is None:
        return None
    return {
        "critical_ns": dict(held.shares),
        "devices": list(held.devices),
        "device_strings": held.strings,
        "makespan_ns": {"with": held.makespan_ns, "without": held.without_ns},
    }


def transfers(scene: Scene) -> list[Mapping[str, Any]]:
    """The transfers between devices in order of (start, row). Any: JSON."""
    cut, trace = tables.transfers(scene), scene.trace
    starts, crossing, devices = trace.transfer_start_ns, trace.crossing_ns, scene.partitions.devices
    return [
        {
            "tensor": tables.tensor_label(scene, int(cut.tensor[row])),
            "from": devices[int(cut.src_device[row])],
            "to": devices[int(cut.dst_device[row])],
            "bytes": max(0, int(cut.nbytes[row])),
            "iteration": list(trace.iterations[trace.transfer_iteration[row]]),
            "asked_ns": int(trace.transfer_ready_ns[row]),
            "packed_ns": int(trace.pack_end_ns[row]),
            "start_ns": int(starts[row]),
            "crossing_ns": int(crossing[row]),
            "wire_end_ns": int(trace.wire_end_ns[row]),
            "end_ns": int(trace.transfer_end_ns[row]),
            "unpacked_ns": int(trace.unpack_end_ns[row]),
        }
        for row in np.argsort(starts, kind="stable").tolist()
    ]


def devices(scene: Scene) -> Mapping[str, Mapping[str, Any]]:
    """Busy time and memory of each device. Any: JSON."""
    peaks = {row.device: row for row in holding.peaks(scene)}
    return {
        scene.cluster.devices[row.device].name: {
            "busy_ns": row.busy_ns,
            "peak_bytes": row.peak_bytes,
            "capacity_bytes": row.capacity_bytes,
            "at_peak": _at_peak(peaks[row.device]) if row.device in peaks else None,
        }
        for row in tables.devices(scene)
    }


def _at_peak(row: holding.PeakRow) -> Mapping[str, Any]:
    return {
        "time_ns": row.time_ns,
        "cause": row.cause or None,
        "cause_bytes": row.cause_bytes,
        "kinds": dict(row.kinds),
        "live": [{"what": one.what, "kind": one.kind, "bytes": one.nbytes} for one in row.live],
        "rest": row.rest,
        "rest_bytes": row.rest_bytes,
    }


def _out_of_memory(scene: Scene) -> Mapping[str, Any] | None:
    full = out_of_memory(scene.trace, scene.partitions, scene.cluster)
    if full is None:
        return None
    return {
        "device": full.device,
        "time_ns": full.time_ns,
        "needed_bytes": full.needed_bytes,
        "free_bytes": full.free_bytes,
        "live": [{"what": what, "bytes": nbytes} for what, nbytes in full.live],
        "message": str(full),
    }


def _late(scene: Scene) -> Mapping[str, Any] | None:
    row = holding.late(scene)
    if row is None:
        return None
    names = [device.name for device in scene.cluster.devices]

    def pair(values: tuple[int, int]) -> Mapping[str, int]:
        return dict(zip(("without", "with"), values, strict=True))

    return {
        "rule": row.rule,
        "delayed": row.delayed,
        "transfers": row.transfers,
        "makespan_ns": pair(row.makespan_ns),
        "held_byte_ns": pair(row.held_byte_ns),
        "peak_bytes": {name: pair(values) for name, values in zip(names, row.peak_bytes, strict=True)},
    }


def counts(scene: Scene) -> Mapping[str, int]:
    """What was filled in, guessed or relaxed, over the nodes that run (tensors for shapes)."""
    runs = scene.step.runs
    graph = scene.graph
    unknown_ops = sum(
        not ops.known(graph.ops[row]) and graph.ops[row] not in graph.library for row in range(len(graph))
    )
    return {
        "fallback_costs": sum(count for _, count in tables.fallbacks(scene)),
        "measured_costs": int(np.count_nonzero(scene.costs.source[runs] == MEASURED)),
        "unknown_shapes": sum(count for _, count in tables.unknown_shapes(scene)),
        "unknown_ops": unknown_ops,
        "kept_calls": len(calling(graph, np.flatnonzero(runs).tolist())),
        "relaxed_devices": int(np.count_nonzero(scene.assignment.why == RELAXED)),
        "overruled_devices": int(np.count_nonzero(scene.assignment.why == OVERRULED)),
        "loop_back_edges": int(np.count_nonzero(graph.edge_back & runs[graph.edge_dst])),
    }


def to_json(scene: Scene) -> str:
    """The object as deterministic text with a final newline."""
    return json.dumps(record(scene), ensure_ascii=False, indent=1) + "\n"
