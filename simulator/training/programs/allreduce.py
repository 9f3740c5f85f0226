"""All-reduce in place of parameter servers: every device has its own variables, and all make the same update.

    x ─▶ Split ─┬─▶ original nodes ─▶ gradients ─┐             ┌─▶ Apply on w
                └─▶ replica_1/...   ─▶ gradients ─┴─all-reduce──┴─▶ replica_1/... Apply on replica_1/w

One client holds it all, as with TensorFlow's MirroredStrategy. What writes to a variable outside of the step, a first
value or one from a checkpoint, writes the same to all its copies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.errors import GraphError
from simulator.graph.graph import Graph, Shape
from simulator.training.programs import setter
from simulator.training.programs.collectives import COLLECTIVES, Reduced, buckets, reduce_together
from simulator.training.programs.replication.copying import Draft, draft_of, dtype_of, share_of
from simulator.training.programs.towers import Replica, gathered, of_each, split_batch, without_gpus
from simulator.training.recognition.anatomy import Anatomy, Gradient
from simulator.training.recognition.clipping import as_computed
from simulator.training.recognition.parts import held_by, is_read, is_shared, is_write
from simulator.training.recognition.variables import VARIABLES, variable_shape
from simulator.units import Bytes


def mirrored(
    graph: Graph, found: Anatomy, where: Sequence[str], *, home: str, collective: str, fuse: Bytes = 0
) -> tuple[Graph, tuple[str, ...]]:
    """The graph with a replica on each of the devices `where`, and what to fetch so that all of them run.

    `home` is where the rest stands. Dense gradients are reduced by the `collective`, a key of COLLECTIVES, fused into
    buckets of `fuse` bytes (0: each alone); of sparse ones every device gathers all rows. Raises GraphError where a
    variable does not say its shape.
    """
    found, rows = as_computed(graph, found), _own(graph, found)
    writes = [row for row in range(len(graph)) if row not in rows and _writes_to(graph, row, rows)]
    devices = _laid_out(graph, rows, where, home)
    draft = draft_of(graph, devices[0])
    prefixes = ["", *(draft.prefix(f"replica_{number}") for number in range(1, len(where)))]
    pieces = split_batch(draft, found, len(where), home)
    replicas = [Replica(prefix, frozenset(rows), piece) for prefix, piece in zip(prefixes, pieces, strict=True)]
    copied = sorted({*rows, *writes})
    for one, there in zip(replicas[1:], devices[1:], strict=True):
        draft.copy(copied, one.prefix, dict(enumerate(there)), one.replaced)
    _wait_for_all(draft, writes, prefixes[1:])
    if len(where) > 1:
        for gradient in found.gradients:
            if gradient.indices is not None:
                _gather(draft, gradient, replicas, where)
        dense = [gradient for gradient in found.gradients if gradient.indices is None]
        given = [_given(graph, gradient, replicas, where) for gradient in dense]
        for number, bucket in enumerate(buckets(given, fuse)):
            together = [given[place] for place in bucket]
            results = reduce_together(draft, f"allreduce/fused_{number}", together, COLLECTIVES[collective])
            for place, means in zip(bucket, results, strict=True):
                _read(draft, dense[place], replicas, means)
    names = {graph.names[row] for row in rows}
    fetches = [
        prefix + name
        for prefix in prefixes
        for name in found.step.fetches
        if not prefix or name.rpartition(":")[0] in names or name in names
    ]
    return draft.built(), tuple(fetches)


def _own(graph: Graph, found: Anatomy) -> frozenset[int]:
    """What each replica has of its own: all that runs, variables included, but for what is fed and what feeds it."""
    runs = np.flatnonzero(found.step.runs).tolist()
    return frozenset(
        row for row in runs if graph.ops[row] in VARIABLES or is_read(graph, row) or not is_shared(graph, row)
    )


def _writes_to(graph: Graph, row: int, rows: frozenset[int]) -> bool:
    return is_write(graph, row) and int(graph.edge_src[graph.in_ptr[row]]) in rows


def _laid_out(graph: Graph, rows: frozenset[int], where: Sequence[str], home: str) -> list[list[str]]:
    """[R][N] per replica the device of every node: its own for what it has, `home` for the rest."""
    bare = without_gpus(graph)
    rest = setter.devices(bare, ps=[where[0]], worker=home)
    holders = {row: holder for row in sorted(rows) if (holder := held_by(graph, row)) is not None}
    beside = {row: holder for row, holder in holders.items() if holder not in rows}
    laid = []
    for device in where:
        own = setter.devices(bare, ps=[device], worker=device)
        ours = [own[row] if row in rows else rest[row] for row in range(len(graph))]
        for row, holder in beside.items():
            ours[row] = rest[holder]
        laid.append(ours)
    for row in range(len(graph)):  # what writes from outside the step stands beside the variable that it writes to
        if row not in rows and _writes_to(graph, row, rows):
            for ours in laid:
                ours[row] = ours[int(graph.edge_src[graph.in_ptr[row]])]
    return laid


def _wait_for_all(draft: Draft, writes: Sequence[int], prefixes: Sequence[str]) -> None:
    """Let what waits for a write to a variable wait for those to its copies, too."""
    graph = draft.graph
    for row in writes:
        for edge in graph.out_edge[graph.out_ptr[row] : graph.out_ptr[row + 1]].tolist():
            if graph.edge_tensor[edge] < 0:
                reader = int(graph.edge_dst[edge])
                draft.inputs[reader] += [f"^{prefix}{graph.names[row]}" for prefix in prefixes]


def _given(graph: Graph, gradient: Gradient, replicas: Sequence[Replica], where: Sequence[str]) -> Reduced:
    """A dense gradient of all replicas."""
    values, dtype = of_each(graph, gradient.values, replicas), dtype_of(graph, gradient.values)
    name = f"allreduce/{graph.names[gradient.variable]}"
    return Reduced(name, values, where, dtype, _shape(graph, gradient.variable), len(replicas))


def _read(draft: Draft, gradient: Gradient, replicas: Sequence[Replica], means: Sequence[str]) -> None:
    """Let every replica's update take its mean."""
    for one, mean in zip(replicas, means, strict=True):
        for edge in gradient.all_values:
            draft.reads(edge, mean, one.prefix)


def _gather(draft: Draft, gradient: Gradient, replicas: Sequence[Replica], where: Sequence[str]) -> None:
    """Let every replica's update take the rows of all replicas, of which the mean is made."""
    graph = draft.graph
    assert gradient.indices is not None
    dtype, name = dtype_of(graph, gradient.values), f"allreduce/{graph.names[gradient.variable]}"
    means = []
    for place, (one, device) in enumerate(zip(replicas, where, strict=True)):
        rows = gathered(draft, f"{name}/rows_{place}", gradient.values, replicas, device)
        means.append(share_of(draft, f"{name}/mean_{place}", rows, len(replicas), dtype, device))
        numbers = gathered(draft, f"{name}/indices_{place}", gradient.indices, replicas, device)
        for edge in gradient.all_indices:
            draft.reads(edge, numbers, one.prefix)
    _read(draft, gradient, replicas, means)


def _shape(graph: Graph, variable: int) -> Shape:
    shape, name = variable_shape(graph, variable), graph.names[variable]
    if shape is None or -1 in shape:
        raise GraphError(
            f"{graph.source}: the variable {name!r} does not say its shape, so its gradient can't be cut for an "
            "all-reduce; declare the shape, or replicate in-graph or between-graph.",
            node=name,
        )
    return shape
