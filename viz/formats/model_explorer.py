"""The placed graph for Google's Model Explorer: a folder with the graph and files of node data, all JSON.

Model Explorer has a place for figures of nodes beside the graph, "node data". Each figure has a file, by which it
colours nodes and adds up layers. Here they are the time, what each op makes, and the device, in the colours of the
report. Transfers are an "edge overlay" of the graph. The forms are those of `graph_builder.py` and
`node_data_builder.py` in the package ai-edge-model-explorer 0.1.34, whose names of fields are theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from simulator.costs.rules import category
from simulator.graph.tensors import SHAPES
from simulator.wording import printable
from viz.attributes import shown_dtype, shown_shape, shown_value
from viz.figures import bytes_by_pair, devices_of_nodes, node_ns, pair_of_edges, taking_part
from viz.palette import device_colours
from viz.scene import Scene

GRAPH = "graph"  # the name of the one graph, by which node data finds it
_HEAT = ({"stop": 0, "bgColor": "#fff7e6"}, {"stop": 1, "bgColor": "#d55e00"})
_MOVED = "#d55e00"  # the colour of transfers in the report
_MIB = 1 << 20
_MS = 1_000_000  # nanoseconds


def model_explorer_files(scene: Scene) -> dict[str, bytes]:
    """`graph.json`, and `time_ms.json`, `made_mib.json` and `device.json` with node data.

    A node is in the layers of its scope; one that is itself a scope is in its own layer. Its time is that of all its
    runs in the step. What it makes are its outputs of known size, once. Node data is of nodes that take part.
    """
    graph = scene.graph
    part = np.flatnonzero(taking_part(scene)).tolist()
    took, made = node_ns(scene), np.zeros(len(graph), np.int64)
    np.add.at(made, graph.tensor_node, np.maximum(graph.tensor_bytes, 0))
    device, colours = devices_of_nodes(scene).tolist(), device_colours(scene.cluster.devices)
    shorts = [one.short for one in scene.cluster.devices]
    return {
        "graph.json": _json({"label": printable(scene.title), "graphs": [_graph(scene)]}),
        "time_ms.json": _heat("time, ms", part, lambda row: int(took[row]) / _MS),
        "made_mib.json": _heat("made, MiB", part, lambda row: int(made[row]) / _MIB),
        "device.json": _node_data(
            "device",
            {str(row): {"value": shorts[device[row]], "bgColor": colours[device[row]]} for row in part},
            showExpandedSummaryOnGroupNode=True,
        ),
    }


def _heat(name: str, part: list[int], figure: Callable[[int], float]) -> bytes:
    return _node_data(name, {str(row): {"value": figure(row)} for row in part}, gradient=_HEAT)


def _node_data(name: str, results: dict[str, Any], **look: object) -> bytes:
    return _json({GRAPH: {"name": name, "results": results, **look}})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _graph(scene: Scene) -> dict[str, Any]:
    graph = scene.graph
    device, layers = devices_of_nodes(scene).tolist(), _layers(graph.names)
    names = scene.cluster.device_names
    nodes: list[dict[str, Any]] = [  # Any: texts and lists of records, as JSON has them
        {
            "id": str(row),
            "label": printable(name.rpartition("/")[2]),
            "namespace": printable(layers[row]),
            "attrs": _attributes(scene, row, names[device[row]]),
            "incomingEdges": [],
            "outputsMetadata": list(_outputs(scene, row)),
        }
        for row, name in enumerate(graph.names)
    ]
    for source, target, tensor, slot in _edges(scene):
        nodes[target]["incomingEdges"].append(
            {"sourceNodeId": str(source), "sourceNodeOutputId": tensor, "targetNodeInputId": slot}
        )
    return {
        "id": GRAPH,
        "nodes": nodes,
        "groupNodeAttributes": {
            "": {"cluster": printable(scene.cluster.name), "makespan ms": f"{scene.trace.makespan / _MS:g}"}
        },
        "tasksData": {"edgeOverlaysDataListLeftPane": [_transfers(scene)], "edgeOverlaysDataListRightPane": []},
    }


def _layers(names: tuple[str, ...]) -> list[str]:
    """The layer of each node: its scope, or its own name where that is a scope of others."""
    scopes = {scope for name in names for scope in _scopes(name)}
    return [name if name in scopes else name.rpartition("/")[0] for name in names]


def _scopes(name: str) -> Iterator[str]:
    while name := name.rpartition("/")[0]:
        yield name


def _attributes(scene: Scene, row: int, device: str) -> list[dict[str, str]]:
    graph = scene.graph
    own = graph.attrs[row]
    attributes = {
        "name": graph.names[row],
        "op": graph.ops[row],
        "category": category(graph.ops[row]),
        "device": device,
        "requested device": graph.requested[row],
        **{name: shown_value(own[name]) for name in sorted(own) if name != SHAPES},
    }
    return [{"key": printable(key), "value": printable(value)} for key, value in attributes.items() if value]


def _outputs(scene: Scene, row: int) -> Iterator[dict[str, Any]]:
    """The outputs of a node, each with its type, shape and, where it is known, size."""
    graph = scene.graph
    for port, tensor in enumerate(graph.outputs(row)):
        said = f"{shown_dtype(int(graph.tensor_dtype[tensor]))} {shown_shape(graph.tensor_shape[tensor])}"
        attributes = [{"key": "tensor_shape", "value": said}]
        if (size := int(graph.tensor_bytes[tensor])) >= 0:
            attributes.append({"key": "bytes", "value": f"{size:,}"})
        yield {"id": str(port), "attrs": attributes}


def _edges(scene: Scene) -> Iterator[tuple[int, int, str, str]]:
    """(source, target, output, input) of each edge; "control" is the output of a control edge."""
    graph = scene.graph
    slots = [0] * len(graph)
    columns = (graph.edge_src, graph.edge_dst, graph.edge_tensor)
    for source, target, tensor in zip(*(column.tolist() for column in columns), strict=True):
        output = str(tensor - int(graph.tensor_ptr[source])) if tensor >= 0 else "control"
        yield source, target, output, str(slots[target])
        slots[target] += 1


def _transfers(scene: Scene) -> dict[str, Any]:
    """An overlay of the edges that cross devices, each with the bytes that its transfer moves in the step."""
    graph, pairs, moved = scene.graph, pair_of_edges(scene), bytes_by_pair(scene)
    crossing: dict[tuple[int, int], int] = {}  # a pair of nodes may have several edges
    for edge in np.flatnonzero(pairs >= 0).tolist():
        ends = (int(graph.edge_src[edge]), int(graph.edge_dst[edge]))
        crossing[ends] = crossing.get(ends, 0) + max(int(moved[pairs[edge]]), 0)
    edges = [
        {"sourceNodeId": str(source), "targetNodeId": str(target), "label": f"{nbytes:,} B"}
        for (source, target), nbytes in crossing.items()
    ]
    return {
        "name": "simviz",
        "type": "edge_overlays",
        "overlays": [{"name": "transfers", "edgeColor": _MOVED, "edgeWidth": 2, "edges": edges}],
    }
