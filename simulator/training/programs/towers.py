"""In-graph replication: one client, one graph, a copy of forward and backward pass on each device.

    x ─▶ Split ─┬─▶ tower 0 (the original nodes) ─┐
                └─▶ tower_1/...                  ─┴─▶ AddN ─▶ / 2 ─▶ Apply

This is the pattern of TensorFlow's multi-GPU CIFAR-10 example: towers share the variables, and their gradients are
averaged and applied once. Fed tensors are fed once and split; each tower takes from queues and iterators for itself.
Towers that do not wait for one another apply their own gradients, and a thread of its own steps each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.cluster.device_strings import with_devices
from simulator.cluster.devicespec import parse
from simulator.graph.attributes import number, typed
from simulator.graph.dataflow import values_out
from simulator.graph.editor import Editor, Endpoint, edited
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.messages import AttrValue
from simulator.graph.tensors import SHAPES, shape_of
from simulator.training.programs.edits import (
    TensorOps,
    copied,
    dtype_of,
    output_on,
    redirect,
    reshaped,
    shape_on,
    times,
    unused_prefix,
)
from simulator.training.programs.rows_of_all import with_rows_of_all
from simulator.training.programs.setter import Setter
from simulator.training.recognition.anatomy import Anatomy, Gradient
from simulator.training.recognition.clipping import as_computed
from simulator.training.recognition.late_gradients import check_no_loop, check_one_update
from simulator.training.recognition.parts import Parts, parts_of
from simulator.training.recognition.sharing import held_by, is_shared
from simulator.training.recognition.variables import variable_shape


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the copies; the first is the original."""

    rows: Mapping[int, int]  # its own nodes: row of the graph -> its row
    replaced: Mapping[Endpoint, Endpoint]  # fed to all -> its own part


def towers(
    graph: Graph,
    found: Anatomy,
    where: Sequence[str],
    setter: Setter,
    *,
    home: str,
    average: str | None = None,
) -> Graph:
    """The graph with a tower on each of the devices `where`, whose gradients are averaged and applied once.

    The setter places variables; nodes of no tower stand on `home`. Gradients are averaged on the device `average`;
    None: where they are read, on that of their variable, or on `home` if clipped first. A sparse gradient is the rows
    of all towers, one below the other. Each tower works on as many examples as the given graph, so fed batches are so
    many times as large. Raises GraphError for a gradient behind another
    update of the step, or in a loop.
    """
    found = as_computed(graph, found)
    parts = parts_of(graph, found)
    check_no_loop(graph, found, "towers, each with a loop of its own, can't average it; train it by async or ssp")
    said = "towers can't average all gradients at once; train it by async, ssp or --replicate allreduce:ring"
    check_one_update(graph, found, frozenset(parts.update), said)
    graph = with_rows_of_all(graph, found, parts.update, len(where))
    devices = _laid_out(graph, parts, where, setter, home=home)
    editor = edited(replace(graph, requested=tuple(devices[0].values())), as_made=False)
    pieces = split_batch(editor, found, len(where), home)
    replicas = [Replica({row: row for row in parts.tower}, pieces[0])]
    awaited_once = parts.written - parts.read_anew
    for place, there in enumerate(devices[1:], 1):
        prefix, piece = unused_prefix(graph, f"tower_{place}"), pieces[place]
        replicas.append(Replica(copied(editor, parts.tower, prefix, there, piece, awaited_once), piece))
    joined = list[int]()
    for gradient in found.gradients if len(where) > 1 else ():
        device = average or devices[0][int(graph.edge_dst[gradient.values[0]])]
        joined += _average(editor, gradient, replicas, device)
    return reshaped(editor.built(), joined)


def apart(
    graph: Graph, found: Anatomy, where: Sequence[str], setter: Setter, *, home: str
) -> tuple[Graph, tuple[str, ...]]:
    """The graph with towers that run by themselves and share only state, and the prefix of each tower's names."""
    parts = parts_of(graph, found)
    devices = _laid_out(graph, parts, where, setter, home=home)
    editor = edited(replace(graph, requested=tuple(devices[0].values())), as_made=False)
    prefixes = ("", *(unused_prefix(graph, f"tower_{place}") for place in range(1, len(where))))
    rows = [row for row in np.flatnonzero(found.step.runs).tolist() if not is_shared(graph, row)]
    for prefix, there in zip(prefixes[1:], devices[1:], strict=True):
        placed = {row: there.get(row, devices[0][row]) for row in rows}
        copied(editor, rows, prefix, placed)
    return editor.built(), prefixes


def _laid_out(graph: Graph, parts: Parts, where: Sequence[str], setter: Setter, *, home: str) -> list[dict[int, str]]:
    """The devices of all nodes, with those of the first tower; then, per further tower, those of its own nodes.

    The graph's own strings keep a node on a CPU; a GPU's number in them does not count, as each tower has its own GPU.
    Nodes that use shared state stand beside it.
    """
    bare = without_gpus(graph)
    whole = dict(enumerate(setter.devices(bare, home)))
    own = (*parts.tower, *parts.aside)
    beside = {row: holder for row in own if (holder := held_by(graph, row)) is not None}
    laid = []
    for device in where:
        given = setter.devices(bare, device)
        laid.append({row: whole[beside[row]] if row in beside else given[row] for row in own})
    return [{**whole, **laid[0]}, *laid[1:]]


def without_gpus(graph: Graph) -> Graph:
    """The graph with no node asking for a GPU."""

    def bare(text: str) -> str:
        spec = parse(text)
        return str(spec.without_device()) if spec.type == "GPU" else text

    return with_devices(graph, bare)


def split_batch(editor: Editor, found: Anatomy, count: int, device: str) -> list[dict[Endpoint, Endpoint]]:
    """Split fed batches; per tower the parts that it reads in place of the whole. Shared nodes read the first part."""
    graph = editor.given
    pieces: list[dict[Endpoint, Endpoint]] = [{} for _ in range(count)]
    for tensor in found.batched if count > 1 else ():
        node, dtype = int(graph.tensor_node[tensor]), int(graph.tensor_dtype[tensor])
        whole = graph.names[node]
        editor.attrs[node] = _times(graph.attrs[node], count)
        editor.shapes[node] = [times(graph.tensor_shape[one], count) for one in graph.outputs(node)]
        ops = TensorOps(editor, device)
        axis = ops.constant(f"split/{whole}/axis", 0)
        attrs = {**typed(dtype), "num_split": number(count)}
        shape = graph.tensor_shape[tensor]  # each tower works on a batch of its own
        split = ops.add(f"split/{whole}", "Split", [axis, node], attrs, [shape] * count)
        for place, piece in enumerate(pieces):
            piece[node, 0] = (split, place)
        for edge in values_out(graph, node):
            redirect(editor, edge, split)
    return pieces


def _times(attrs: Attrs, count: int) -> Attrs:
    """A placeholder's attributes with the first dimension so many times as large, where it is not open."""
    made = dict(attrs)
    for key in ("shape", SHAPES):
        if key in made:
            value = AttrValue()
            value.CopyFrom(made[key])
            for shape in [value.shape] if key == "shape" else value.list.shape:
                for dim in shape.dim[:1]:
                    dim.size = dim.size * count if dim.size > 0 else dim.size
            made[key] = value
    return made


def _average(editor: Editor, gradient: Gradient, replicas: Sequence[Replica], device: str) -> list[int]:
    """Let an update take the mean of all towers' gradients; return what has the rows of all of them."""
    graph, edge = editor.given, gradient.values[0]
    values, ops = of_each(graph, edge, replicas), TensorOps(editor, device, dtype_of(graph, edge))
    if len(set(values)) == 1 and not gradient.indices:  # it is the same for all, as it is not copied
        return []
    joined, name = list[int](), f"average/{graph.names[gradient.variable]}"
    shape = mean_shape(graph, gradient, replicas)
    if not gradient.indices:
        total = ops.sum(f"{name}/sum", values, shape)
    else:
        total = gathered(editor, f"{name}/rows", edge, replicas, device)
        numbers = gathered(editor, f"{name}/indices", gradient.indices[0], replicas, device)
        for reading in gradient.indices:
            redirect(editor, reading, numbers)
        joined += [total, numbers]
    mean = ops.share(name, total, len(replicas), shape)
    for reading in gradient.values:
        redirect(editor, reading, mean)
    return joined


def gathered(editor: Editor, name: str, edge: int, replicas: Sequence[Replica], device: str) -> int:
    """The rows that an edge carries in each replica, one below the other, on one device."""
    graph = editor.given
    values = of_each(graph, edge, replicas)
    row, port = values[0]
    shape, said = shape_on(graph, edge), editor.attrs[row].get(SHAPES)
    if row >= len(graph) and said is not None:  # it reads a part of what the edge carries
        shape = shape_of(said.list.shape[port])
    return TensorOps(editor, device, dtype_of(graph, edge)).concat(name, values, times(shape, len(replicas)))


def mean_shape(graph: Graph, gradient: Gradient, replicas: Sequence[Replica] = ()) -> Shape | None:
    """The shape of a gradient's mean over replicas, of a sparse one with the rows of all; None: the rank is unknown.

    A dense one has that of its variable where the graph does not say it. Not each value that comes by examples has
    that, such as the counts by which a codebook is updated.
    """
    shape = shape_on(graph, gradient.values[0])
    if gradient.indices:
        return times(shape, len(replicas))
    return variable_shape(graph, gradient.variable) if shape is None or -1 in shape else shape


def of_each(graph: Graph, edge: int, replicas: Sequence[Replica]) -> list[Endpoint]:
    """The output that an edge carries in each replica."""
    row, port = at = output_on(graph, edge)
    return [(one.rows[row], port) if row in one.rows else one.replaced.get(at, at) for one in replicas]
