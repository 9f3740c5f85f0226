"""The scene as one JSON object, for machines: format 1, described in the README."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator import __version__
from simulator.assignment import OVERRULED, RELAXED
from simulator.costs.table import FALLBACK, MEASURED
from viz.scene import Scene

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
        "placement": {name: scene.assignment.name_of(row) for row, name in enumerate(graph.names)},
        "transfers": transfers(scene),
        "makespan_ns": int(scene.trace.makespan),
        "lower_bound_ns": int(scene.lower_bound_ns),
        "devices": devices(scene),
        "counts": counts(scene),
        "notes": [*scene.assignment.notes, *scene.costs.notes, *scene.trace.notes, *scene.notes],
        "check": scene.check,
    }


def tensor_label(scene: Scene, transfer: int) -> str:
    """ "node:port" of a transferred tensor, "^node" for a control edge."""
    row = int(scene.partitions.tensor[transfer])
    return scene.graph.tensor_name(row) if row >= 0 else f"^{scene.graph.names[-1 - row]}"


def transfers(scene: Scene) -> list[Mapping[str, Any]]:
    """The transfers between devices in order of (start, row). Any: JSON."""
    cut, trace = scene.partitions, scene.trace
    starts = trace.transfer_start_ns
    return [
        {
            "tensor": tensor_label(scene, row),
            "from": cut.devices[int(cut.src_device[row])],
            "to": cut.devices[int(cut.dst_device[row])],
            "bytes": max(0, int(cut.nbytes[row])),
            "start_ns": int(starts[row]),
            "end_ns": int(trace.transfer_end_ns[row]),
        }
        for row in np.argsort(starts, kind="stable").tolist()
        if cut.src_device[row] != cut.dst_device[row] and starts[row] >= 0
    ]


def devices(scene: Scene) -> Mapping[str, Mapping[str, int]]:
    """Busy time and peak memory of each device."""
    return {
        device.name: {
            "busy_ns": int(scene.trace.busy_ns[row]),
            "peak_bytes": int(scene.trace.peak_bytes[row]),
            "capacity_bytes": device.memory_bytes,
        }
        for row, device in enumerate(scene.cluster.devices)
    }


def counts(scene: Scene) -> Mapping[str, int]:
    """What was filled in, guessed or relaxed, over the nodes that run (tensors for shapes)."""
    from simulator.graph import ops
    from simulator.graph.shapes import unknown_shapes

    runs = scene.step.runs
    graph = scene.graph
    source = scene.costs.source[runs]
    unknown_ops = sum(
        not ops.known(graph.ops[row]) and graph.ops[row] not in graph.library for row in range(len(graph))
    )
    return {
        "fallback_costs": int(np.count_nonzero(source == FALLBACK)),
        "measured_costs": int(np.count_nonzero(source == MEASURED)),
        "unknown_shapes": sum(unknown_shapes(graph, scene.step).values()),
        "unknown_ops": unknown_ops,
        "relaxed_devices": int(np.count_nonzero(scene.assignment.why == RELAXED)),
        "overruled_devices": int(np.count_nonzero(scene.assignment.why == OVERRULED)),
        "loop_back_edges": int(np.count_nonzero(graph.edge_back & runs[graph.edge_dst])) if len(graph.edge_back) else 0,
    }


def to_json(scene: Scene) -> str:
    """The object as deterministic text with a final newline."""
    return json.dumps(record(scene), ensure_ascii=False, indent=1) + "\n"
