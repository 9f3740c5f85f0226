"""All-reduce as plain ops: each device has a tensor, and in the end each has the mean of all.

    ring          each tensor in n chunks; chunk j goes round from device j, growing, then once more, finished:
                  2 (n - 1) steps, in each of which every device sends one chunk of bytes / n
                  (Patarasuk and Yuan, Journal of Parallel and Distributed Computing 69, 2009)
    tree          sums go up a binary tree and the result goes down: 2 (n - 1) transfers of all bytes, in
                  2 floor(log2 n) steps
    hierarchical  the first device of each task sums up its task, a ring joins the tasks, each task hands on the result

Who only passes a chunk on does so by an Identity, for otherwise it would come from where it was made and not go round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from simulator.cluster.devicespec import parse
from simulator.graph.attributes import number, typed
from simulator.graph.dtypes import INT32, SIZE
from simulator.graph.editor import Editor, Output
from simulator.graph.graph import Shape
from simulator.graph.messages import AttrValue
from simulator.training.programs.copying import constant, joined, new_op, share_of, sum_of
from simulator.units import Bytes


@dataclass(frozen=True, slots=True)
class Reduced:
    """What is to be reduced: a tensor of one shape on each of several devices."""

    name: str  # prefix of the names of what is added
    values: Sequence[Output]  # per device
    devices: Sequence[str]
    dtype: int
    shape: Shape
    count: int  # that the sum is divided by


def ring(editor: Editor, given: Reduced) -> list[Output]:
    """Reduce by a ring of the devices in their order; a tensor of fewer elements than devices makes fewer chunks."""
    total, where = len(given.values), given.devices
    elements = prod(given.shape)
    chunks = max(1, min(total, elements))
    sizes = [elements // chunks + (place < elements % chunks) for place in range(chunks)]
    parts = [_cut(editor, given, place, sizes) for place in range(total)]
    had: list[list[Output]] = [[] for _ in range(total)]  # per device the finished chunks, in order
    for chunk in range(chunks):
        at, held = chunk, parts[chunk][chunk]
        for step in range(1, total):
            at = (chunk + step) % total
            name = f"{given.name}/chunk_{chunk}/sum_{step}"
            held = new_op(
                editor, name, "AddV2", [held, parts[at][chunk]], where[at], typed(given.dtype), [(sizes[chunk],)]
            )
        held = share_of(
            editor, f"{given.name}/chunk_{chunk}/mean", held, given.count, given.dtype, where[at], (sizes[chunk],)
        )
        had[at].append(held)
        for step in range(1, total):
            there = (at + step) % total
            held = _passed(editor, f"{given.name}/chunk_{chunk}/pass_{step}", held, given, there, (sizes[chunk],))
            had[there].append(held)
    return [_whole(editor, given, place, had[place]) for place in range(total)]


def tree(editor: Editor, given: Reduced) -> list[Output]:
    """Reduce by a binary tree of the devices: those of k are 2 k + 1 and 2 k + 2."""
    total = len(given.values)
    sums = list(given.values)
    for place in reversed(range(total)):
        below = [sums[child] for child in (2 * place + 1, 2 * place + 2) if child < total]
        if below:
            parts = [sums[place], *below]
            sums[place] = sum_of(
                editor, f"{given.name}/sum_{place}", parts, given.dtype, given.devices[place], given.shape
            )
    held: list[Output] = [
        share_of(editor, f"{given.name}/mean", sums[0], given.count, given.dtype, given.devices[0], given.shape)
    ]
    for place in range(1, total):
        held.append(_passed(editor, f"{given.name}/pass_{place}", held[(place - 1) // 2], given, place, given.shape))
    return held


def hierarchical(editor: Editor, given: Reduced) -> list[Output]:
    """Reduce within each task to its first device, by a ring between these, and hand on within each task."""
    places: dict[str, list[int]] = {}
    for place, device in enumerate(given.devices):
        places.setdefault(str(parse(device)._replace(type=None, id=None)), []).append(place)
    groups = list(places.values())
    sums = [
        given.values[group[0]]
        if len(group) == 1
        else sum_of(
            editor,
            f"{given.name}/task_{at}",
            [given.values[place] for place in group],
            given.dtype,
            given.devices[group[0]],
            given.shape,
        )
        for at, group in enumerate(groups)
    ]
    between = Reduced(
        given.name, sums, [given.devices[group[0]] for group in groups], given.dtype, given.shape, given.count
    )
    means = ring(editor, between)
    held = list(given.values)
    for group, mean in zip(groups, means, strict=True):
        held[group[0]] = mean
        for place in group[1:]:
            held[place] = _passed(editor, f"{given.name}/pass_{place}", mean, given, place, given.shape)
    return held


COLLECTIVES: Mapping[str, Callable[[Editor, Reduced], list[Output]]] = MappingProxyType(
    {"ring": ring, "tree": tree, "hierarchical": hierarchical}
)


def _passed(editor: Editor, name: str, held: Output, given: Reduced, place: int, shape: Shape) -> Output:
    return new_op(editor, name, "Identity", [held], given.devices[place], typed(given.dtype), [shape])


def _cut(editor: Editor, given: Reduced, place: int, sizes: Sequence[int]) -> list[Output]:
    """The chunks of one device's tensor."""
    device, name = given.devices[place], f"{given.name}/cut_{place}"
    flat = reshaped(editor, f"{name}/flat", given.values[place], (sum(sizes),), given.dtype, device)
    if len(sizes) == 1:
        return [flat]
    inputs = [
        flat,
        constant(editor, f"{name}/sizes", sizes, INT32, device),
        constant(editor, f"{name}/axis", 0, INT32, device),
    ]
    attrs = {**typed(given.dtype), "Tlen": AttrValue(type=INT32), "num_split": number(len(sizes))}
    cut = new_op(editor, name, "SplitV", inputs, device, attrs, [(size,) for size in sizes])
    return [(cut, port) for port in range(len(sizes))]


def _whole(editor: Editor, given: Reduced, place: int, chunks: Sequence[Output]) -> Output:
    """The result on one device out of its chunks, in order."""
    device, name = given.devices[place], f"{given.name}/result_{place}"
    whole = (
        chunks[0]
        if len(chunks) == 1
        else joined(editor, f"{name}/flat", chunks, given.dtype, device, (prod(given.shape),))
    )
    return reshaped(editor, name, whole, given.shape, given.dtype, device)


def reshaped(editor: Editor, name: str, value: Output, shape: Shape, dtype: int, device: str) -> Output:
    """The same elements in another shape, on one device."""
    size = constant(editor, f"{name}/shape", shape, INT32, device)
    return new_op(
        editor, name, "Reshape", [value, size], device, {**typed(dtype), "Tshape": AttrValue(type=INT32)}, [shape]
    )


# ---- buckets of gradients -------------------------------------------------------------------------------------------
# A bucket turns many small messages into a few, each with its latency once.
#
#     g_3 ─▶ flat ─┐                        ┌─▶ cut ─▶ as g_3
#     g_2 ─▶ flat ─┴─▶ one tensor ─reduced──┴─▶ cut ─▶ as g_2        g_1 in the next bucket
#
# Buckets are filled from the last gradient to the first, as a backward pass makes them in about that order, up to the
# given bytes: Horovod's fusion threshold (Sergeev and Del Balso, 2018), `bytes_per_pack` of tf.distribute's
# CommunicationOptions. A gradient larger than a bucket goes alone.


Collective: TypeAlias = Callable[[Editor, Reduced], list[Output]]


def buckets(given: Sequence[Reduced], most: Bytes) -> list[list[int]]:
    """Places of what is reduced together, of one type and no more bytes than that; `most` 0: each alone."""
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
    """Reduce several as one tensor; for each of them the result on each device."""
    if len(given) == 1:
        return [collective(editor, given[0])]
    first, sizes = given[0], [prod(one.shape) for one in given]
    whole = []
    for place, device in enumerate(first.devices):
        flat = [
            reshaped(editor, f"{one.name}/fused_{place}", one.values[place], (size,), one.dtype, device)
            for one, size in zip(given, sizes, strict=True)
        ]
        whole.append(joined(editor, f"{name}/whole_{place}", flat, first.dtype, device, (sum(sizes),)))
    means = collective(editor, replace(first, name=name, values=whole, shape=(sum(sizes),)))
    results: list[list[Output]] = [[] for _ in given]
    for place, (mean, device) in enumerate(zip(means, first.devices, strict=True)):
        inputs = [
            mean,
            constant(editor, f"{name}/parts_{place}/sizes", sizes, INT32, device),
            constant(editor, f"{name}/parts_{place}/axis", 0, INT32, device),
        ]
        attrs = {**typed(first.dtype), "Tlen": AttrValue(type=INT32), "num_split": number(len(sizes))}
        cut = new_op(editor, f"{name}/parts_{place}", "SplitV", inputs, device, attrs, [(size,) for size in sizes])
        for port, (one, result) in enumerate(zip(given, results, strict=True)):
            result.append(reshaped(editor, f"{one.name}/part_{place}", (cut, port), one.shape, one.dtype, device))
    return results
