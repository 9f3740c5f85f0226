"""In-graph replication: one client, one graph, a copy of forward and backward pass on each device.

    x ─▶ Split ─┬─▶ tower 0 (the original nodes) ─┐
                └─▶ tower_1/...                  ─┴─▶ AddN ─▶ / 2 ─▶ Apply

The pattern of TensorFlow's multi-GPU CIFAR-10 example: towers share the variables, their gradients are averaged and
applied once. What is fed is fed once, and split; what comes from a queue or an iterator each tower takes for itself.
Towers that do not wait for one another apply their own gradients and are stepped by threads of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.cluster.devicespec import parse
from simulator.graph.attributes import number, typed
from simulator.graph.dtypes import INT32
from simulator.graph.editor import Editor, Endpoint, edited
from simulator.graph.graph import Attrs, Graph
from simulator.graph.messages import AttrValue
from simulator.graph.tensors import SHAPES
from simulator.training.programs import setter
from simulator.training.programs.copying import (
    constant,
    copied,
    dtype_of,
    joined,
    new_op,
    read_by,
    reads,
    share_of,
    sum_of,
    times,
    unused_prefix,
)
from simulator.training.programs.setter import PsStrategy
from simulator.training.recognition.anatomy import Anatomy, Gradient
from simulator.training.recognition.clipping import as_computed
from simulator.training.recognition.parts import Parts, held_by, is_shared, parts_of
from simulator.training.recognition.variables import variable_shape


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the copies; the first is the original."""

    rows: Mapping[int, int]  # what it has of its own: row of the graph -> its row
    replaced: Mapping[Endpoint, Endpoint]  # what it reads in place of what is fed to all


def towers(
    graph: Graph,
    found: Anatomy,
    where: Sequence[str],
    *,
    ps: Sequence[str],
    home: str,
    average: str | None = None,
    strategy: PsStrategy = "round_robin",
    seed: int = 0,
) -> Graph:
    """The graph with a tower on each of the devices `where`, whose gradients are averaged and applied once.

    `ps` are the places of the variables, and `home` is where everything else stands. Gradients are averaged on the
    device `average`, None: where they are read, on that of their variable, or on `home` if clipped first.
    A sparse gradient is the rows of all towers, one below the other. Each tower works on as many examples as the graph
    did, so what is fed is so many times as large.
    """
    found = as_computed(graph, found)
    parts = parts_of(graph, found)
    devices = laid_out(graph, parts, where, ps=ps, home=home, strategy=strategy, seed=seed)
    editor = edited(replace(graph, requested=tuple(devices[0].values())), as_made=False)
    pieces = split_batch(editor, found, len(where), home)
    replicas = [Replica({row: row for row in parts.tower}, pieces[0])]
    for place, there in enumerate(devices[1:], 1):
        prefix, piece = unused_prefix(graph, f"tower_{place}"), pieces[place]
        replicas.append(Replica(copied(editor, parts.tower, prefix, there, piece, parts.written), piece))
    for gradient in found.gradients if len(where) > 1 else ():
        _average(editor, gradient, replicas, average or devices[0][int(graph.edge_dst[gradient.values])])
    return editor.built()


def apart(
    graph: Graph,
    found: Anatomy,
    where: Sequence[str],
    *,
    ps: Sequence[str],
    home: str,
    strategy: PsStrategy = "round_robin",
    seed: int = 0,
) -> tuple[Graph, tuple[str, ...]]:
    """The graph with towers that run by themselves and share state alone, and the prefix of each one's names."""
    parts = parts_of(graph, found)
    devices = laid_out(graph, parts, where, ps=ps, home=home, strategy=strategy, seed=seed)
    editor = edited(replace(graph, requested=tuple(devices[0].values())), as_made=False)
    prefixes = ("", *(unused_prefix(graph, f"tower_{place}") for place in range(1, len(where))))
    rows = [row for row in np.flatnonzero(found.step.runs).tolist() if not is_shared(graph, row)]
    for prefix, there in zip(prefixes[1:], devices[1:], strict=True):
        placed = {row: there.get(row, devices[0][row]) for row in rows}
        copied(editor, rows, prefix, placed)
    return editor.built(), prefixes


def laid_out(
    graph: Graph,
    parts: Parts,
    where: Sequence[str],
    *,
    ps: Sequence[str],
    home: str,
    strategy: PsStrategy,
    seed: int,
) -> list[dict[int, str]]:
    """The device of every node with the first tower in it, then per further tower those of what it has of its own.

    The graph's own strings keep a node on a CPU; which GPU it names does not count, for that is the tower's to say.
    What works on shared state stands beside it.
    """
    bare = without_gpus(graph)
    whole = dict(enumerate(setter.devices(bare, ps=ps, worker=home, strategy=strategy, seed=seed)))
    own = (*parts.tower, *parts.aside)
    beside = {row: holder for row in own if (holder := held_by(graph, row)) is not None}
    laid = []
    for device in where:
        given = setter.devices(bare, ps=ps, worker=device, strategy=strategy, seed=seed)
        laid.append({row: whole[beside[row]] if row in beside else given[row] for row in own})
    return [{**whole, **laid[0]}, *laid[1:]]


def without_gpus(graph: Graph) -> Graph:
    """The graph with no node asking for a GPU."""
    specs = {text: parse(text) for text in set(graph.requested)}
    bare = {text: str(spec._replace(type=None, id=None)) for text, spec in specs.items() if spec.type == "GPU"}
    return replace(graph, requested=tuple([bare.get(text, text) for text in graph.requested]))


def split_batch(editor: Editor, found: Anatomy, count: int, device: str) -> list[dict[Endpoint, Endpoint]]:
    """Split what is fed; per tower what it reads in place of the whole. All that is not copied reads the first part."""
    graph = editor.given
    pieces: list[dict[Endpoint, Endpoint]] = [{} for _ in range(count)]
    for tensor in found.batched if count > 1 else ():
        node, dtype = int(graph.tensor_node[tensor]), int(graph.tensor_dtype[tensor])
        whole = graph.names[node]
        shapes = graph.tensor_shape[graph.tensor_ptr[node] : graph.tensor_ptr[node + 1]]
        editor.attrs[node], editor.shapes[node] = (
            _times(graph.attrs[node], count),
            [times(one, count) for one in shapes],
        )
        axis = constant(editor, f"split/{whole}/axis", 0, INT32, device)
        attrs = {**typed(dtype), "num_split": number(count)}
        shape = graph.tensor_shape[tensor]  # each tower works on a batch of its own
        split = new_op(editor, f"split/{whole}", "Split", [axis, node], device, attrs, [shape] * count)
        for place, piece in enumerate(pieces):
            piece[node, 0] = (split, place)
        for edge in graph.out_edge[graph.out_ptr[node] : graph.out_ptr[node + 1]].tolist():
            if graph.edge_tensor[edge] >= 0:
                reads(editor, edge, split)
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


def _average(editor: Editor, gradient: Gradient, replicas: Sequence[Replica], device: str) -> None:
    """Let an update take the mean of all towers' gradients."""
    graph = editor.given
    values, dtype = of_each(graph, gradient.values, replicas), dtype_of(graph, gradient.values)
    if len(set(values)) == 1 and gradient.indices is None:  # it is the same for all, for it is not copied
        return
    name = f"average/{graph.names[gradient.variable]}"
    shape = variable_shape(graph, gradient.variable) if gradient.indices is None else None
    if gradient.indices is None:
        total = sum_of(editor, f"{name}/sum", values, dtype, device, shape)
    else:
        total = gathered(editor, f"{name}/rows", gradient.values, replicas, device)
        numbers = gathered(editor, f"{name}/indices", gradient.indices, replicas, device)
        for edge in gradient.all_indices:
            reads(editor, edge, numbers)
    mean = share_of(editor, name, total, len(replicas), dtype, device, shape)
    for edge in gradient.all_values:
        reads(editor, edge, mean)


def gathered(editor: Editor, name: str, edge: int, replicas: Sequence[Replica], device: str) -> int:
    """The rows of what an edge carries in each replica, one below the other, on one device."""
    graph = editor.given
    shape = times(graph.tensor_shape[graph.edge_tensor[edge]], len(replicas))
    return joined(editor, name, of_each(graph, edge, replicas), dtype_of(graph, edge), device, shape)


def of_each(graph: Graph, edge: int, replicas: Sequence[Replica]) -> list[Endpoint]:
    """What an edge carries, of each replica."""
    row, port = at = read_by(graph, edge)
    return [(one.rows[row], port) if row in one.rows else one.replaced.get(at, at) for one in replicas]
