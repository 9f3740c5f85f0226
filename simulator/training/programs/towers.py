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
from simulator.graph.dtypes import INT32
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining.attributes import number, typed
from simulator.graph.messages import AttrValue
from simulator.graph.tensors import SHAPES
from simulator.training.programs import setter
from simulator.training.programs.replication.copying import Draft, draft_of, dtype_of, joined, share_of, sum_of, times
from simulator.training.programs.setter import PsStrategy
from simulator.training.recognition.anatomy import Anatomy, Gradient
from simulator.training.recognition.clipping import as_computed
from simulator.training.recognition.parts import Parts, held_by, is_shared, parts_of
from simulator.training.recognition.variables import variable_shape


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the copies; the first is the original."""

    prefix: str  # of its names
    rows: frozenset[int]  # what it has of its own
    replaced: Mapping[str, str]  # what it reads in place of what is fed to all


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
    draft = draft_of(graph, list(devices[0].values()))
    prefixes = ["", *(draft.prefix(f"tower_{number}") for number in range(1, len(where)))]
    pieces = split_batch(draft, found, len(where), home)
    replicas = [Replica(prefix, frozenset(parts.tower), piece) for prefix, piece in zip(prefixes, pieces, strict=True)]
    for one, there in zip(replicas[1:], devices[1:], strict=True):
        draft.copy(parts.tower, one.prefix, there, one.replaced, parts.written)
    for gradient in found.gradients if len(where) > 1 else ():
        _average(draft, gradient, replicas, average or devices[0][int(graph.edge_dst[gradient.values])])
    return draft.built()


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
    draft = draft_of(graph, list(devices[0].values()))
    prefixes = ("", *(draft.prefix(f"tower_{number}") for number in range(1, len(where))))
    rows = [row for row in np.flatnonzero(found.step.runs).tolist() if not is_shared(graph, row)]
    for prefix, there in zip(prefixes[1:], devices[1:], strict=True):
        placed = {row: there.get(row, devices[0][row]) for row in rows}
        draft.copy(rows, prefix, placed, {})
    return draft.built(), prefixes


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


def split_batch(draft: Draft, found: Anatomy, count: int, device: str) -> list[dict[str, str]]:
    """Split what is fed; per tower what it reads in place of the whole. All that is not copied reads the first part."""
    graph = draft.graph
    pieces: list[dict[str, str]] = [{} for _ in range(count)]
    for tensor in found.batched if count > 1 else ():
        node, dtype = int(graph.tensor_node[tensor]), int(graph.tensor_dtype[tensor])
        whole = graph.names[node]
        draft.attrs[node], draft.larger[node] = _times(graph.attrs[node], count), count
        axis = draft.constant(f"split/{whole}/axis", 0, INT32, device)
        attrs = {**typed(dtype), "num_split": number(count)}
        shape = graph.tensor_shape[tensor]  # each tower works on a batch of its own
        split = draft.add(f"split/{whole}", "Split", [axis, whole], device, attrs, [shape] * count)
        for place, piece in enumerate(pieces):
            piece[whole] = f"{split}:{place}" if place else split
        for edge in graph.out_edge[graph.out_ptr[node] : graph.out_ptr[node + 1]].tolist():
            if graph.edge_tensor[edge] >= 0:
                draft.reads(edge, split)
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


def _average(draft: Draft, gradient: Gradient, replicas: Sequence[Replica], device: str) -> None:
    """Let an update take the mean of all towers' gradients."""
    graph = draft.graph
    values, dtype = of_each(graph, gradient.values, replicas), dtype_of(graph, gradient.values)
    if len(set(values)) == 1 and gradient.indices is None:  # it is the same for all, for it is not copied
        return
    name = f"average/{graph.names[gradient.variable]}"
    shape = variable_shape(graph, gradient.variable) if gradient.indices is None else None
    if gradient.indices is None:
        total = sum_of(draft, f"{name}/sum", values, dtype, device, shape)
    else:
        total = gathered(draft, f"{name}/rows", gradient.values, replicas, device)
        numbers = gathered(draft, f"{name}/indices", gradient.indices, replicas, device)
        for edge in gradient.all_indices:
            draft.reads(edge, numbers)
    mean = share_of(draft, name, total, len(replicas), dtype, device, shape)
    for edge in gradient.all_values:
        draft.reads(edge, mean)


def gathered(draft: Draft, name: str, edge: int, replicas: Sequence[Replica], device: str) -> str:
    """The rows of what an edge carries in each replica, one below the other, on one device."""
    graph = draft.graph
    shape = times(graph.tensor_shape[graph.edge_tensor[edge]], len(replicas))
    return joined(draft, name, of_each(graph, edge, replicas), dtype_of(graph, edge), device, shape)


def of_each(graph: Graph, edge: int, replicas: Sequence[Replica]) -> list[str]:
    """What an edge carries, of each replica."""
    source = int(graph.edge_src[edge])
    text = graph.tensor_name(int(graph.edge_tensor[edge])).removesuffix(":0")
    return [one.prefix + text if source in one.rows else one.replaced.get(text, text) for one in replicas]
