"""The parts of a step that is divided into microbatches: what is copied, what is split, what is shared.

    batch ─▶ Split ─┬─▶ microbatch 0 (the original nodes) ─▶ gradients ─┐
                    └─▶ microbatch_1/...                  ─▶ gradients ─┴─▶ sum ─▶ / 2 ─▶ Apply
    variables ─────────▶ read once, by all

Two graphs say what depends on the batch: the given one, and the same one with the batch of a microbatch. What differs
between them, and what depends on that, is copied. All that comes before keeps the whole batch, and is split.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from simulator.errors import GraphError
from simulator.graph.attributes import shaped
from simulator.graph.const_values import packed
from simulator.graph.dataflow import depending_on, readers
from simulator.graph.editor import Endpoint
from simulator.graph.graph import Attrs, Graph
from simulator.graph.op_classes import CONTROL_FLOW
from simulator.graph.tensors import SHAPES, shape_message, shape_of, tensor_sizes
from simulator.graph.traversal import closure, fan_out
from simulator.shapes.filling import with_shapes
from simulator.shapes.ragged import row_splits
from simulator.training.pipelines.combining import combined, pairs
from simulator.training.pipelines.means import Batches, check_mean, check_powers, divisors_in, numbers_in
from simulator.training.recognition.anatomy import Anatomy, anatomy
from simulator.training.recognition.batch import brings_examples
from simulator.training.recognition.clipping import as_computed
from simulator.training.recognition.parts import Parts, parts_of
from simulator.training.recognition.sharing import is_shared, is_write
from simulator.wording import counted

_STORES = ("TensorArray", "Stack", "Barrier")


@dataclass(frozen=True, eq=False)
class Division:
    """A step that can be divided; rows of `graph`, whose copied part works on one microbatch."""

    graph: Graph
    found: Anatomy
    count: int  # of microbatches
    examples: int  # of each
    tower: tuple[int, ...]  # nodes that gradients need, without those that bring examples
    copied: tuple[int, ...]  # those of the tower that depend on the batch
    aside: tuple[int, ...]  # other nodes of the step that depend on it: they see the first microbatch
    comparing: tuple[int, ...]  # copied ones that compare each example with all others, such as products of embeddings
    combining: tuple[int, ...]  # copied ones by which an example gets something of others, such as their variance
    written: Collection[int]  # writes for which the first microbatch alone waits
    cut: Mapping[Endpoint, int]  # output -> axis along which it is split
    readers: tuple[int, ...]  # edges that read a part of such an output


def divide(whole: Graph, count: int, *, batch: int | None = None, fetch: Sequence[str] | None = None) -> Division:
    """Divide the batch of a training graph by `count`.

    `batch` is the number of examples of a step, where the graph does not say. Raises GraphError for a graph without
    gradients, and for a batch that is unknown or no multiple of `count`. So it does for loops, branches and arrays in
    the part that would be copied. It also does for a loss that is no mean over the batch.
    """
    examples = anatomy(whole, fetches=fetch).batch or batch or 0
    if not examples:
        raise GraphError(f"{whole.source} does not say how many examples a step has; give the batch, as by --batch 64.")
    if examples % count:
        held = counted(examples, "example")
        raise GraphError(f"a batch of {held} can't be divided into {count} equal microbatches; give a divisor of it.")
    small = _smaller(whole, examples, examples // count)
    if not any(was != now for was, now in zip(whole.tensor_shape, small.tensor_shape, strict=True)):
        held = counted(examples, "example")
        raise GraphError(f"{whole.source}: nothing depends on a batch of {held}; give its own batch.")
    found = as_computed(small, anatomy(small, fetches=fetch))
    parts = parts_of(small, found)
    tower = _tower(small, found, parts)
    late = _late(small, found, tower)
    mixed = _mixed(whole, small, late)
    cut, reading = _cut(whole, small, late, count)
    copied = _depending(whole, small, tower, [int(small.edge_dst[edge]) for edge in reading])
    _refuse(small, copied)
    numbers = numbers_in(small, copied, reading)
    divisors = divisors_in(whole, small, tower, late, examples, examples // count)
    check_mean(small, tower, numbers | set(divisors))
    batches = Batches(whole, small, copied, numbers, examples, count)
    check_powers(batches, tower, divisors)
    attrs = list(mixed.attrs)
    for row, value in divisors.items():
        attrs[row] = _constant(attrs[row], value)
    others = {*tower, *parts.update, *parts.written}
    aside = tuple(row for row in late if found.step.runs[row] and row not in others)
    return Division(
        graph=replace(mixed, attrs=tuple(attrs)),
        found=found,
        count=count,
        examples=examples // count,
        tower=tower,
        copied=copied,
        aside=aside,
        comparing=pairs(batches),
        combining=combined(batches),
        written=parts.written,
        cut=cut,
        readers=reading,
    )


def _smaller(whole: Graph, examples: int, fewer: int) -> Graph:
    """The graph with another batch, whether its file fixes one or leaves it open."""
    feeds, fixed = {}, False
    if splits := row_splits(whole, whole.tensor_shape):
        name = whole.tensor_name(min(splits))
        raise GraphError(
            f"{whole.source}: {name!r} are the row splits of a ragged tensor, which no op divides among microbatches; "
            "ask for none, or give all rows one length.",
            node=name,
        )
    for row in range(len(whole)):
        span = whole.outputs(row) if brings_examples(whole, row) else ()
        for port, tensor in enumerate(span):
            shape = whole.tensor_shape[tensor]
            if shape and shape[0] == examples and min(shape) < 0:
                name = whole.names[row]
                raise GraphError(f"{whole.source}: {name!r} leaves its shape open; feed it, as by --feed.", node=name)
            if shape and shape[0] == examples:
                if _open(whole.attrs[row], port):
                    feeds[f"{whole.names[row]}:{port}"] = (fewer, *shape[1:])
                else:
                    fixed = True
    if fixed:  # what is fixed changes all that is tied to it
        return with_shapes(whole, batch=fewer)
    try:
        return with_shapes(whole, batch=fewer, feeds=feeds)
    except GraphError:  # a number of the file may be the batch by chance
        with suppress(GraphError):
            return with_shapes(whole, feeds=feeds)
        raise


def _open(attrs: Attrs, port: int) -> bool:
    """Tell whether a placeholder or iterator declares the first dimension of an output open."""
    declared = [attrs["shape"].shape] if "shape" in attrs else []
    declared = [*attrs["output_shapes"].list.shape] if "output_shapes" in attrs else declared
    if port >= len(declared):
        return False
    shape = shape_of(declared[port])
    return shape is None or shape[:1] == (-1,)


def _tower(graph: Graph, found: Anatomy, parts: Parts) -> tuple[int, ...]:
    """The nodes that gradients need, back to those that bring examples."""
    own = {row for row in parts.tower if not brings_examples(graph, row)}
    ends = [int(graph.edge_src[edge]) for one in found.gradients for edge in (*one.values, *one.indices)]
    needed = closure((row for row in ends if row in own), lambda row: (at for at in graph.sources(row) if at in own))
    return tuple(sorted(needed))


def _late(graph: Graph, found: Anatomy, tower: Sequence[int]) -> tuple[int, ...]:
    """The rows that work on a microbatch: the tower, what depends on it, and what these alone read.

    The update takes the gradients of all microbatches, so that what is computed of them is of the whole batch. So is
    what only waits for it, such as the constants of a branch.
    """
    entered = [int(graph.edge_dst[edge]) for one in found.gradients for edge in (*one.values, *one.indices)]
    whole, waiting, seen = depending_on(graph, entered), set(fan_out(graph, entered)), depending_on(graph, tower)
    late = {row for row in fan_out(graph, tower) if not whole[row] and (seen[row] or row not in waiting)}
    for row in reversed(graph.topological.tolist()):
        reading = readers(graph, row)
        if reading and late.issuperset(reading) and not (brings_examples(graph, row) or is_shared(graph, row)):
            late.add(row)
    return tuple(sorted(late))


def _mixed(whole: Graph, small: Graph, late: Iterable[int]) -> Graph:
    """The graph of the small batch in these rows, of the whole one in all others, each saying its own shapes."""
    attrs, shapes = list(whole.attrs), list(whole.tensor_shape)
    first = whole.tensor_ptr.tolist()
    for row in late:
        attrs[row] = small.attrs[row]
        span = slice(first[row], first[row + 1])
        shapes[span] = small.tensor_shape[span]
    for row, own in enumerate(attrs):
        known = shapes[first[row] : first[row + 1]]
        if SHAPES in own and known != [shape_of(one) for one in own[SHAPES].list.shape]:  # it had another batch
            said = shaped([None if shape is None else shape_message(shape) for shape in known])
            attrs[row] = {**{key: value for key, value in own.items() if key != SHAPES}, **said}
    sizes, _ = tensor_sizes(whole.tensor_dtype.tolist(), shapes)
    return replace(whole, attrs=tuple(attrs), tensor_shape=tuple(shapes), tensor_bytes=sizes)


def _cut(whole: Graph, small: Graph, late: Sequence[int], count: int) -> tuple[dict[Endpoint, int], tuple[int, ...]]:
    """The outputs to split, each with its axis, and the edges that read a part of one.

    They lead from what keeps the whole batch to what works on a microbatch.
    """
    cut: dict[Endpoint, int] = {}
    reading = []
    after = np.zeros(len(small), bool)
    after[list(late)] = True
    for edge in np.flatnonzero(~after[small.edge_src] & after[small.edge_dst] & (small.edge_tensor >= 0)).tolist():
        tensor = int(small.edge_tensor[edge])
        was, now = whole.tensor_shape[tensor], small.tensor_shape[tensor]
        if was == now:
            continue
        axes = [at for at, (one, other) in enumerate(zip(was or (), now or (), strict=False)) if one != other]
        if was is None or now is None or len(axes) != 1 or was[axes[0]] != count * now[axes[0]]:
            name = small.tensor_name(tensor)
            raise GraphError(
                f"{small.source}: {name!r} has the shape {was or 'unknown'} for the whole batch and {now or 'unknown'} "
                "for a microbatch, so it can't be split along one dimension.",
                node=name.rpartition(":")[0],
            )
        cut[int(small.edge_src[edge]), int(small.tensor_port[tensor])] = axes[0]
        reading.append(edge)
    return cut, tuple(reading)


def _differs(whole: Graph, small: Graph, row: int) -> bool:
    span = slice(int(small.tensor_ptr[row]), int(small.tensor_ptr[row + 1]))
    return whole.tensor_shape[span] != small.tensor_shape[span] or (
        whole.attrs[row] is not small.attrs[row] and dict(whole.attrs[row]) != dict(small.attrs[row])
    )


def _depending(whole: Graph, small: Graph, tower: Sequence[int], reading: Sequence[int]) -> tuple[int, ...]:
    """The rows of the tower that depend on the batch."""
    inside = set(tower)
    first = {row for row in tower if _differs(whole, small, row)} | (inside & set(reading))
    return tuple(
        sorted(
            closure(first, lambda row: (at for at in map(int, small.edge_dst[small.out_edges(row)]) if at in inside))
        )
    )


def _refuse(graph: Graph, copied: Sequence[int]) -> None:
    for row in copied:
        op, name = graph.ops[row], graph.names[row]
        if op in CONTROL_FLOW or op.startswith(_STORES):
            raise GraphError(
                f"{graph.source}: {name!r} ({op}) belongs to a loop or branch over the examples. A step is divided "
                "into microbatches only where all that is copied runs once.",
                node=name,
            )
        if is_write(graph, row):
            raise GraphError(
                f"{graph.source}: {name!r} ({op}) writes a variable whose new value the gradients need, and each "
                "microbatch would write it again.",
                node=name,
            )


def _constant(attrs: Attrs, number: float) -> Attrs:
    """The attributes of a constant with another value."""
    value = type(attrs["value"])()
    value.CopyFrom(attrs["value"])
    packed(value.tensor, [number])
    return {**attrs, "value": value}
