"""All-reduce in place of parameter servers: every device has its own variables, and all make the same update.

    x ─▶ Split ─┬─▶ original nodes ─▶ gradients ─┐             ┌─▶ Apply on w
                └─▶ replica_1/...   ─▶ gradients ─┴─all-reduce──┴─▶ replica_1/... Apply on replica_1/w

One client runs all replicas, as with TensorFlow's MirroredStrategy. Writes to a variable outside of the step, such as
its first value or one from a checkpoint, are made to all its copies. An all-reduce is made of plain ops: each device
has a tensor, and in the end each has the mean of all.

    ring          each tensor in n chunks; chunk j goes round from device j, growing, then once more, finished:
                  2 (n - 1) steps, in each of which every device sends one chunk of bytes / n
                  (Patarasuk and Yuan, Journal of Parallel and Distributed Computing 69, 2009)
    tree          sums go up a binary tree, the result down: 2 (n - 1) transfers of all bytes in 2 floor(log2 n) steps
    hierarchical  the first device of each task sums up its task, a ring joins the tasks, each task hands on the result

A device passes a chunk on by an Identity; otherwise the chunk would come straight from the device that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from simulator.cluster.devicespec import parse
from simulator.errors import GraphError
from simulator.graph.dataflow import source_of
from simulator.graph.dtypes import SIZE
from simulator.graph.editor import Editor, Output, edited
from simulator.graph.graph import Graph, Shape
from simulator.graph.op_classes import VARIABLES
from simulator.training.programs.edits import TensorOps, copied, dtype_of, redirect, reshaped, unused_prefix
from simulator.training.programs.rows_of_all import with_rows_of_all
from simulator.training.programs.setter import Setter
from simulator.training.programs.towers import Replica, gathered, mean_shape, of_each, split_batch, without_gpus
from simulator.training.recognition.anatomy import Anatomy, Gradient
from simulator.training.recognition.clipping import as_computed
from simulator.training.recognition.parts import parts_of
from simulator.training.recognition.sharing import held_by, is_read, is_shared, is_write
from simulator.units import Bytes


def mirrored(
    graph: Graph, found: Anatomy, where: Sequence[str], *, home: str, collective: str, fuse: Bytes = 0
) -> tuple[Graph, tuple[str, ...]]:
    """The graph with a replica on each of the devices `where`, and the fetches that run all of them.

    Other nodes stand on `home`. Dense gradients are reduced by the `collective`, a key of COLLECTIVES, fused into
    buckets of `fuse` bytes (0: each alone). Of sparse ones every device gathers all rows. Raises GraphError where a
    variable does not say its shape.
    """
    # each replica has all that runs of its own, variables included, but for feeds and other state
    runs = np.flatnonzero(found.step.runs).tolist()
    rows = frozenset(at for at in runs if graph.ops[at] in VARIABLES or is_read(graph, at) or not is_shared(graph, at))
    found = as_computed(graph, found)
    graph = with_rows_of_all(graph, found, parts_of(graph, found).update, len(where))
    others = (row for row in range(len(graph)) if row not in rows and is_write(graph, row))
    writes = [row for row in others if source_of(graph, row) in rows]
    devices = _laid_out(graph, rows, writes, where, home)
    editor = edited(replace(graph, requested=tuple(devices[0])), as_made=False)
    prefixes = ["", *(unused_prefix(graph, f"replica_{number}") for number in range(1, len(where)))]
    pieces = split_batch(editor, found, len(where), home)
    replicas = [Replica({row: row for row in rows}, pieces[0])]
    own = sorted({*rows, *writes})
    for prefix, there, piece in zip(prefixes[1:], devices[1:], pieces[1:], strict=True):
        replicas.append(Replica(copied(editor, own, prefix, dict(enumerate(there)), piece), piece))
    _wait_for_all(editor, writes, replicas[1:])
    trained = found.gradients if len(where) > 1 else ()
    joined = [row for one in trained if one.indices for row in _gather(editor, one, replicas, where)]
    dense = [one for one in trained if not one.indices]
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
    return reshaped(editor.built(), joined), tuple(fetches)


def _laid_out(
    graph: Graph, rows: frozenset[int], writes: Sequence[int], where: Sequence[str], home: str
) -> list[list[str]]:
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
        for row in writes:  # a write outside of the step stands beside its variable
            ours[row] = ours[source_of(graph, row)]
        laid.append(ours)
    return laid


def _wait_for_all(editor: Editor, writes: Sequence[int], replicas: Sequence[Replica]) -> None:
    """Let nodes that wait for a write to a variable wait for those to its copies, too."""
    graph = editor.given
    for row in writes:
        for edge in graph.out_edges(row):
            if graph.edge_tensor[edge] < 0:
                reader = int(graph.edge_dst[edge])
                for one in replicas:
                    editor.add_control_edge(one.rows[row], reader)


def _given(graph: Graph, gradient: Gradient, replicas: Sequence[Replica], where: Sequence[str]) -> Reduced:
    """A dense gradient of all replicas."""
    values, dtype = of_each(graph, gradient.values[0], replicas), dtype_of(graph, gradient.values[0])
    name = f"allreduce/{graph.names[gradient.variable]}"
    return Reduced(name, values, where, dtype, _shape(graph, gradient), len(replicas))


def _read(editor: Editor, gradient: Gradient, replicas: Sequence[Replica], means: Sequence[Output]) -> None:
    """Let every replica's update read its mean."""
    for one, mean in zip(replicas, means, strict=True):
        for edge in gradient.values:
            redirect(editor, edge, mean, one.rows)


def _gather(editor: Editor, gradient: Gradient, replicas: Sequence[Replica], where: Sequence[str]) -> list[int]:
    """Let every replica's update read the rows of all replicas, divided by their number; return what has these rows."""
    graph = editor.given
    dtype, name = dtype_of(graph, gradient.values[0]), f"allreduce/{graph.names[gradient.variable]}"
    means, joined, shape = [], list[int](), mean_shape(graph, gradient, replicas)
    for place, (one, device) in enumerate(zip(replicas, where, strict=True)):
        rows = gathered(editor, f"{name}/rows_{place}", gradient.values[0], replicas, device)
        means.append(TensorOps(editor, device, dtype).share(f"{name}/mean_{place}", rows, len(replicas), shape))
        numbers = gathered(editor, f"{name}/indices_{place}", gradient.indices[0], replicas, device)
        for edge in gradient.indices:
            redirect(editor, edge, numbers, one.rows)
        joined += [rows, numbers]
    _read(editor, gradient, replicas, means)
    return joined


def _shape(graph: Graph, gradient: Gradient) -> Shape:
    shape, name = mean_shape(graph, gradient), graph.names[gradient.variable]
    if shape is None or -1 in shape:
        raise GraphError(
            f"{graph.source}: the variable {name!r} does not say its shape, so its gradient can't be cut for an "
            "all-reduce; declare the shape, or replicate in-graph or between-graph.",
            node=name,
        )
    return shape


# ---- collectives ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reduced:
    """A tensor of one shape on each of several devices, to be reduced."""

    name: str  # prefix of the names of added nodes
    values: Sequence[Output]  # per device
    devices: Sequence[str]
    dtype: int
    shape: Shape
    count: int  # that the sum is divided by

    def ops(self, editor: Editor) -> list[TensorOps]:
        """Ops on each of the devices."""
        return [TensorOps(editor, device, self.dtype) for device in self.devices]


Collective: TypeAlias = Callable[[Editor, Reduced], list[Output]]


def ring(editor: Editor, given: Reduced) -> list[Output]:
    """Reduce by a ring of the devices in their order; a tensor of fewer elements than devices makes fewer chunks."""
    total, ops = len(given.values), given.ops(editor)
    elements = prod(given.shape)
    chunks = max(1, min(total, elements))
    sizes = [elements // chunks + (place < elements % chunks) for place in range(chunks)]
    parts = [_chunks(one, f"{given.name}/cut_{row}", given.values[row], sizes) for row, one in enumerate(ops)]
    finished: list[list[Output]] = [[] for _ in range(total)]  # per device the finished chunks, in order
    for chunk, size in enumerate(sizes):
        name, at, held = f"{given.name}/chunk_{chunk}", chunk, parts[chunk][chunk]
        for step in range(1, total):
            at = (chunk + step) % total
            held = ops[at].apply(f"{name}/sum_{step}", "AddV2", [held, parts[at][chunk]], (size,))
        held = ops[at].share(f"{name}/mean", held, given.count, (size,))
        finished[at].append(held)
        for step in range(1, total):
            there = (at + step) % total
            held = ops[there].apply(f"{name}/pass_{step}", "Identity", [held], (size,))
            finished[there].append(held)
    return [_whole(one, f"{given.name}/result_{row}", finished[row], given.shape) for row, one in enumerate(ops)]


def tree(editor: Editor, given: Reduced) -> list[Output]:
    """Reduce by a binary tree of the devices: those of k are 2 k + 1 and 2 k + 2."""
    total, ops, sums = len(given.values), given.ops(editor), list(given.values)
    for place in reversed(range(total)):
        below = [sums[child] for child in (2 * place + 1, 2 * place + 2) if child < total]
        if below:
            sums[place] = ops[place].sum(f"{given.name}/sum_{place}", [sums[place], *below], given.shape)
    held: list[Output] = [ops[0].share(f"{given.name}/mean", sums[0], given.count, given.shape)]
    for place in range(1, total):
        held.append(ops[place].apply(f"{given.name}/pass_{place}", "Identity", [held[(place - 1) // 2]], given.shape))
    return held


def hierarchical(editor: Editor, given: Reduced) -> list[Output]:
    """Reduce within each task to its first device, by a ring between these, and hand on within each task."""
    places: dict[str, list[int]] = {}
    for place, device in enumerate(given.devices):
        places.setdefault(str(parse(device).without_device()), []).append(place)
    groups, ops, held = list(places.values()), given.ops(editor), list(given.values)
    sums = [
        held[group[0]]
        if len(group) == 1
        else ops[group[0]].sum(f"{given.name}/task_{at}", [held[place] for place in group], given.shape)
        for at, group in enumerate(groups)
    ]
    means = ring(editor, replace(given, values=sums, devices=[given.devices[group[0]] for group in groups]))
    for group, mean in zip(groups, means, strict=True):
        held[group[0]] = mean
        for place in group[1:]:
            held[place] = ops[place].apply(f"{given.name}/pass_{place}", "Identity", [mean], given.shape)
    return held


COLLECTIVES: Mapping[str, Collective] = MappingProxyType({"ring": ring, "tree": tree, "hierarchical": hierarchical})


def _chunks(ops: TensorOps, name: str, value: Output, sizes: Sequence[int]) -> list[Output]:
    """The chunks of one device's tensor."""
    flat = ops.reshape(f"{name}/flat", value, (sum(sizes),))
    return [flat] if len(sizes) == 1 else ops.cut(name, flat, sizes)


def _whole(ops: TensorOps, name: str, chunks: Sequence[Output], shape: Shape) -> Output:
    """The result on one device, made of its chunks in order."""
    flat = chunks[0] if len(chunks) == 1 else ops.concat(f"{name}/flat", chunks, (prod(shape),))
    return ops.reshape(name, flat, shape)


# ---- buckets of gradients -------------------------------------------------------------------------------------------
# A bucket turns many small messages into a few, each with its latency once.
#
#     g_3 ─▶ flat ─┐                        ┌─▶ cut ─▶ as g_3
#     g_2 ─▶ flat ─┴─▶ one tensor ─reduced──┴─▶ cut ─▶ as g_2        g_1 in the next bucket
#
# Buckets are filled from the last gradient to the first, as a backward pass makes them in about that order, up to the
# given bytes: Horovod's fusion threshold (Sergeev and Del Balso, 2018), `bytes_per_pack` of tf.distribute's
# CommunicationOptions. A gradient larger than a bucket goes alone.


def buckets(given: Sequence[Reduced], most: Bytes) -> list[list[int]]:
    """Rows of tensors that are reduced together: of one type, with at most so many bytes; `most` 0: each alone."""
    if not most:
        return [[place] for place in range(len(given))]
    made: list[list[int]] = []
    open_of: dict[int, tuple[list[int], int]] = {}  # by type: the bucket that is being filled, its bytes
    for place in reversed(range(len(given))):
        one = given[place]
        size = prod(one.shape) * SIZE[one.dtype]
        bucket, filled = open_of.get(one.dtype, ([], 0))
        if not bucket or filled + size > most:
            bucket, filled = [], 0
            made.append(bucket)
        bucket.append(place)
        open_of[one.dtype] = bucket, filled + size
    return made


def reduce_together(editor: Editor, name: str, given: Sequence[Reduced], collective: Collective) -> list[list[Output]]:
    """Reduce several tensors as one; for each of them the result on each device."""
    if len(given) == 1:
        return [collective(editor, given[0])]
    first, sizes = given[0], [prod(one.shape) for one in given]
    sized, ops = list(zip(given, sizes, strict=True)), first.ops(editor)
    whole = []
    for row, on in enumerate(ops):
        flat = [on.reshape(f"{one.name}/fused_{row}", one.values[row], (size,)) for one, size in sized]
        whole.append(on.concat(f"{name}/whole_{row}", flat, (sum(sizes),)))
    means = collective(editor, replace(first, name=name, values=whole, shape=(sum(sizes),)))
    results: list[list[Output]] = [[] for _ in given]
    for row, (mean, on) in enumerate(zip(means, ops, strict=True)):
        parts = on.cut(f"{name}/parts_{row}", mean, sizes)
        for part, one, result in zip(parts, given, results, strict=True):
            result.append(on.reshape(f"{one.name}/part_{row}", part, one.shape))
    return results
