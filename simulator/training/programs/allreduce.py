"""All-reduce in place of parameter servers: every device has its own variables, and all make the same update.

    x ─▶ Split ─┬─▶ original nodes ─▶ gradients ─┐             ┌─▶ Apply on w
                └─▶ replica_1/...   ─▶ gradients ─┴─all-reduce──┴─▶ replica_1/... Apply on replica_1/w

One client runs all replicas, as with TensorFlow's MirroredStrategy. Writes to a variable outside of the step, such as
its first value or one from a checkpoint, are made to all its copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulator.errors import GraphError
from simulator.graph.editor import Editor, Output, edited
from simulator.graph.graph import Graph, Shape
from simulator.training.programs.collectives import COLLECTIVES, Reduced, buckets, reduce_together
from simulator.training.programs.copying import copied, dtype_of, redirect, unused_prefix
from simulator.training.programs.setter import Setter
from simulator.training.programs.tensor_ops import TensorOps
from simulator.training.programs.towers import Replica, gathered, of_each, split_batch, without_gpus
from simulator.training.recognition.anatomy import Anatomy, Gradient
from simulator.training.recognition.clipping import as_computed
from simulator.training.recognition.parts import held_by, is_read, is_shared, is_write
from simulator.training.recognition.variables import VARIABLES, variable_shape
from simulator.units import Bytes


def mirrored(
    graph: Graph, found: Anatomy, where: Sequence[str], *, home: str, collective: str, fuse: Bytes = 0
) -> tuple[Graph, tuple[str, ...]]:
    """The graph with a replica on each of the devices `where`, and the fetches that run all of them.

    Other nodes stand on `home`. Dense gradients are reduced by the `collective`, a key of COLLECTIVES, fused into
    buckets of `fuse` bytes (0: each alone); of sparse ones every device gathers all rows. Raises GraphError where a
    variable does not say its shape.
    """
    found, rows = as_computed(graph, found), _own(graph, found)
    writes = [row for row in range(len(graph)) if row not in rows and _writes_to(graph, row, rows)]
    devices = _laid_out(graph, rows, where, home)
    editor = edited(replace(graph, requested=tuple(devices[0])), as_made=False)
    prefixes = ["", *(unused_prefix(graph, f"replica_{number}") for number in range(1, len(where)))]
    pieces = split_batch(editor, found, len(where), home)
    replicas = [Replica({row: row for row in rows}, pieces[0])]
    own = sorted({*rows, *writes})
    for prefix, there, piece in zip(prefixes[1:], devices[1:], pieces[1:], strict=True):
        replicas.append(Replica(copied(editor, own, prefix, dict(enumerate(there)), piece), piece))
    _wait_for_all(editor, writes, replicas[1:])
    if len(where) > 1:
        for gradient in found.gradients:
            if gradient.indices:
                _gather(editor, gradient, replicas, where)
        dense = [gradient for gradient in found.gradients if not gradient.indices]
        given = [_given(graph, gradient, replicas, where) for gradient in dense]
        for number, bucket in enumerate(buckets(given, fuse)):
            together = [given[place] for place in bucket]
            results = reduce_together(editor, f"allreduce/fused_{number}", together, COLLECTIVES[collective])
            for place, means in zip(bucket, results, strict=True):
                _read(editor, dense[place], replicas, means)
    names = {graph.names[row] for row in rows}
    fetches = [
        prefix + name
        for prefix in prefixes
        for name in found.step.fetches
        if not prefix or name.rpartition(":")[0] in names or name in names
    ]
    return editor.built(), tuple(fetches)


def _own(graph: Graph, found: Anatomy) -> frozenset[int]:
    """The nodes that each replica has of its own: all that run, variables included, but for feeds and other state."""
    runs = np.flatnonzero(found.step.runs).tolist()
    return frozenset(
        row for row in runs if graph.ops[row] in VARIABLES or is_read(graph, row) or not is_shared(graph, row)
    )


def _writes_to(graph: Graph, row: int, rows: frozenset[int]) -> bool:
    return is_write(graph, row) and int(graph.edge_src[graph.in_ptr[row]]) in rows


def _laid_out(graph: Graph, rows: frozenset[int], where: Sequence[str], home: str) -> list[list[str]]:
    """[R][N] the device of every node, per replica: the replica's for its own nodes, `home` for the rest."""
    bare = without_gpus(graph)
    rest = Setter([where[0]]).devices(bare, home)
    holders = {row: holder for row in sorted(rows) if (holder := held_by(graph, row)) is not None}
    beside = {row: holder for row, holder in holders.items() if holder not in rows}
    laid = []
    for device in where:
        own = Setter([device]).devices(bare, device)
        ours = [own[row] if row in rows else rest[row] for row in range(len(graph))]
        for row, holder in beside.items():
            ours[row] = rest[holder]
        laid.append(ours)
    for row in range(len(graph)):  # a write outside of the step stands beside its variable
        if row not in rows and _writes_to(graph, row, rows):
            for ours in laid:
                ours[row] = ours[int(graph.edge_src[graph.in_ptr[row]])]
    return laid


def _wait_for_all(editor: Editor, writes: Sequence[int], replicas: Sequence[Replica]) -> None:
    """Let nodes that wait for a write to a variable wait for those to its copies, too."""
    graph = editor.given
    for row in writes:
        for edge in graph.out_edge[graph.out_ptr[row] : graph.out_ptr[row + 1]].tolist():
            if graph.edge_tensor[edge] < 0:
                reader = int(graph.edge_dst[edge])
                for one in replicas:
                    editor.wait(one.rows[row], reader)


def _given(graph: Graph, gradient: Gradient, replicas: Sequence[Replica], where: Sequence[str]) -> Reduced:
    """A dense gradient of all replicas."""
    values, dtype = of_each(graph, gradient.values[0], replicas), dtype_of(graph, gradient.values[0])
    name = f"allreduce/{graph.names[gradient.variable]}"
    return Reduced(name, values, where, dtype, _shape(graph, gradient.variable), len(replicas))


def _read(editor: Editor, gradient: Gradient, replicas: Sequence[Replica], means: Sequence[Output]) -> None:
    """Let every replica's update read its mean."""
    for one, mean in zip(replicas, means, strict=True):
        for edge in gradient.values:
            redirect(editor, edge, mean, one.rows)


def _gather(editor: Editor, gradient: Gradient, replicas: Sequence[Replica], where: Sequence[str]) -> None:
    """Let every replica's update read the rows of all replicas, divided by their number."""
    graph = editor.given
    dtype, name = dtype_of(graph, gradient.values[0]), f"allreduce/{graph.names[gradient.variable]}"
    means = []
    for place, (one, device) in enumerate(zip(replicas, where, strict=True)):
        rows = gathered(editor, f"{name}/rows_{place}", gradient.values[0], replicas, device)
        means.append(TensorOps(editor, device, dtype).share(f"{name}/mean_{place}", rows, len(replicas)))
        numbers = gathered(editor, f"{name}/indices_{place}", gradient.indices[0], replicas, device)
        for edge in gradient.indices:
            redirect(editor, edge, numbers, one.rows)
    _read(editor, gradient, replicas, means)


def _shape(graph: Graph, variable: int) -> Shape:
    shape, name = variable_shape(graph, variable), graph.names[variable]
    if shape is None or -1 in shape:
        raise GraphError(
            f"{graph.source}: the variable {name!r} does not say its shape, so its gradient can't be cut for an "
            "all-reduce; declare the shape, or replicate in-graph or between-graph.",
            node=name,
        )
    return shape
