"""What the report holds: a scene as columns of plain numbers and strings, ready for JSON.

Columns keep the order and the row numbers of the values that they come from, so that the page's code can be read
beside them. Strings that repeat (ops, dtypes, shapes) are written once and referred to by number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import numpy as np

from simulator.assignment import RULES
from simulator.columns import Ids
from simulator.costs.categories import category
from simulator.costs.table import SOURCES
from simulator.execution.memory import out_of_memory
from simulator.graph import dtypes
from simulator.graph.step import exchange
from viz import checked, content_of_time, holding, tables
from viz.arranging import arrange_items
from viz.content_of_time import Json
from viz.folding import Folding, fold
from viz.palette import CATEGORY_COLOURS, device_colours
from viz.scene import Scene
from viz.training import content

FORMAT = 1
FLOATS = {"half": "float16", "float": "float32", "double": "float64"}  # what Python programs call them


def contents(scene: Scene) -> dict[str, Json]:
    """Everything that the page shows."""
    folding = fold(scene.graph)
    return {
        "format": FORMAT,
        "title": scene.title,
        "summary": _summary(scene),
        "cluster": _cluster(scene),
        "categories": {"names": list(CATEGORY_COLOURS), "colours": list(CATEGORY_COLOURS.values())},
        "rules": list(RULES),
        "sources": list(SOURCES),
        "nodes": _nodes(scene),
        "tensors": _tensors(scene),
        "edges": _edges(scene),
        "tree": _tree(scene, folding),
        "slices": content_of_time.slices(scene),
        "work": content_of_time.work(scene),
        "transfers": content_of_time.transfers(scene),
        "memory": content_of_time.memory(scene),
        "critical": None if scene.trace.critical is None else scene.trace.critical.tolist(),
        "tables": _tables(scene),
        "check": _plain(checked.told(scene)),
        "training": None if scene.training is None else content.contents(scene.training, scene.cluster),
    }


def _plain(value: object, depth: int = 6) -> Json:
    """A value of the check as JSON; what JSON does not know becomes text."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if depth and isinstance(value, dict):
        return {str(key): _plain(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value]
    return str(value)


def _summary(scene: Scene) -> Json:
    step = scene.step
    return {
        "makespan_ns": scene.trace.makespan,
        "lower_bound_ns": scene.lower_bound_ns,
        "moved_bytes": tables.moved_bytes(scene),
        "transfers": len(scene.trace.transfer),
        "nodes": len(scene.graph),
        "running": int(step.runs.sum()),
        "rule": step.rule,
        "feeds": list(step.feeds),
        "fetches": list(step.fetches),
        "asked": scene.assignment.asked,
        "used": scene.assignment.used,
        "simulation": asdict(tables.simulation(scene)),
    }


def _cluster(scene: Scene) -> Json:
    cluster = scene.cluster
    one_task = len(cluster.tasks) == 1  # then "GPU:0" says it all
    devices: list[Json] = [
        {
            "name": device.name,
            "short": device.short.rpartition("/")[2] if one_task else device.short,
            "kind": device.kind,
            "memory_bytes": device.memory_bytes,
            "lanes": device.lanes,
        }
        for device in cluster.devices
    ]
    return {
        "name": cluster.name,
        "tasks": len(cluster.tasks),
        "devices": devices,
        "colours": list(device_colours(cluster.devices)),
        "links": [{"name": k.name, "latency_ns": k.latency_ns, "bytes_per_s": k.bytes_per_s} for k in cluster.links],
    }


def _numbered(values: Iterable[str]) -> tuple[list[str], list[int]]:
    """The different strings in order of first appearance, and the number of each value."""
    table: dict[str, int] = {}
    rows = [table.setdefault(value, len(table)) for value in values]
    return list(table), rows


def _nodes(scene: Scene) -> Json:
    graph, costs, placed = scene.graph, scene.costs, scene.assignment
    ops, op = _numbered(graph.ops)
    asked, requested = _numbered(graph.requested)
    device = tables.devices_of_nodes(scene)
    known = {name: row for row, name in enumerate(CATEGORY_COLOURS)}
    kind_of = np.array(scene.cluster.kind_of, np.int64)
    return {
        "names": list(graph.names),
        "ops": ops,
        "op": op,
        "category": [known[category(name)] for name in ops],
        "asked": asked,
        "requested": requested,
        "device": device.tolist(),
        "moved": np.flatnonzero(device != placed.device).tolist(),
        "why": placed.why.tolist(),
        "runs": tables.taking_part(scene).astype(int).tolist(),
        "fed": tables.fed_nodes(scene).tolist(),
        "cost_ns": costs.run_ns[np.arange(len(graph)), kind_of[device]].tolist() if len(graph) else [],
        "source": costs.source.tolist(),
        "flops": costs.flops.tolist(),
        "moved_bytes": costs.moved_bytes.tolist(),
        "scratch_bytes": costs.scratch_bytes.tolist(),
        "resident_bytes": costs.resident_bytes.tolist(),
    }


def _tensors(scene: Scene) -> Json:
    graph = scene.graph
    shapes, shape = _numbered(map(_shown_shape, graph.tensor_shape))
    types, dtype = _numbered(map(_shown_dtype, graph.tensor_dtype.tolist()))
    return {
        "ptr": graph.tensor_ptr.tolist(),
        "shapes": shapes,
        "shape": shape,
        "dtypes": types,
        "dtype": dtype,
        "bytes": graph.tensor_bytes.tolist(),
    }


def _shown_shape(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return "unknown shape"
    return "[" + ", ".join("?" if size < 0 else str(size) for size in shape) + "]"


def _shown_dtype(dtype: int) -> str:
    if not dtypes.base(dtype):
        return "unknown type"
    enum = dtypes.NAMES.get(dtypes.base(dtype), "unknown type").removeprefix("DT_").lower()
    name = FLOATS.get(enum, enum)
    return f"{name} reference" if dtype > dtypes.REF else name


def _edges(scene: Scene) -> Json:
    graph, taken = scene.graph, scene.trace.transfer[::-1]
    first = np.full(len(scene.partitions.key) + 1, -1)  # row of the trace, for a loop's of its first iteration
    first[taken] = np.arange(len(taken))[::-1]
    return {
        "src": graph.edge_src.tolist(),
        "dst": graph.edge_dst.tolist(),
        "tensor": graph.edge_tensor.tolist(),
        "back": np.flatnonzero(graph.edge_back).tolist(),
        "transfer": first[pair_of_edges(scene)].tolist(),
    }


def pair_of_edges(scene: Scene) -> Ids:
    """[E] the partitions' transfer that brings an edge's value to its consumer's device, -1 where it does not cross."""
    graph, cut, device = scene.graph, scene.partitions, tables.devices_of_nodes(scene)
    client = exchange(graph, scene.step)
    source = np.where(client.of_edge < 0, device[graph.edge_src], scene.cluster.client)
    carried = np.where(graph.edge_tensor >= 0, graph.edge_tensor, -1 - graph.edge_src).astype(np.int64)
    target = device[graph.edge_dst]
    count = len(scene.cluster)
    crossing = np.zeros(len(carried), bool)
    crossing[client.edges] = (source != target)[client.edges]
    found = np.full(len(carried), -1, np.int64)
    keys = cut.tensor.astype(np.int64) * count + cut.dst_device
    if len(keys):
        order = np.argsort(keys, kind="stable")
        wanted = carried * count + target
        at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
        rows = order[at]
        hit = crossing & (keys[rows] == wanted)
        found[hit] = rows[hit]
    return found.astype(np.int32)


def _tree(scene: Scene, folding: Folding) -> Json:
    column, row = arrange_items(scene, folding)
    return {
        "labels": list(folding.labels),
        "series": np.flatnonzero(folding.series).tolist(),
        "parent": folding.parent.tolist(),
        "hubs": np.flatnonzero(folding.hub).tolist(),
        "column": column,
        "row": row,
    }


def _tables(scene: Scene) -> Json:
    return {
        "devices": [asdict(row) for row in tables.devices(scene)],
        "peaks": [_plain(asdict(row)) for row in holding.peaks(scene)],
        "full": None if (full := out_of_memory(scene.trace, scene.partitions, scene.cluster)) is None else str(full),
        "late": None if (late := holding.late(scene)) is None else _plain(asdict(late)),
        "categories": [[name, *row] for name, row in tables.time_by_category(scene).items()],
        "transfers": [row.transfer for row in tables.longest_transfers(scene)],
        "ops": tables.largest_ops(scene),
        "critical": [[share.what, share.nanos] for share in tables.critical_shares(scene)],
        "fallbacks": [[op, count] for op, count in tables.fallbacks(scene)],
        "unknown": [[op, count] for op, count in tables.unknown_shapes(scene)],
        "notes": list(tables.notes(scene)),
    }
