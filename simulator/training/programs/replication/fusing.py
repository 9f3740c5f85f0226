"""Gradients fused into buckets for an all-reduce: many small messages become a few, each with its latency once.

    g_3 ─▶ flat ─┐                        ┌─▶ cut ─▶ as g_3
    g_2 ─▶ flat ─┴─▶ one tensor ─reduced──┴─▶ cut ─▶ as g_2        g_1 in the next bucket

Buckets are filled from the last gradient to the first, for a backward pass makes them in about that order, as far as
the given bytes go: Horovod's fusion threshold (Sergeev and Del Balso, 2018), `bytes_per_pack` of tf.distribute's
CommunicationOptions. What is larger than a bucket goes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from simulator.graph.dtypes import INT32, SIZE
from simulator.graph.inlining.attributes import number, typed
from simulator.graph.messages import AttrValue
from simulator.training.programs.replication.collectives import Reduced, reshaped
from simulator.training.programs.replication.copying import Draft, joined
from simulator.units import Bytes

Collective: TypeAlias = Callable[[Draft, Reduced], list[str]]


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


def reduce_together(draft: Draft, name: str, given: Sequence[Reduced], collective: Collective) -> list[list[str]]:
    """Reduce several as one tensor; for each of them the result on each device."""
    if len(given) == 1:
        return [collective(draft, given[0])]
    first, sizes = given[0], [prod(one.shape) for one in given]
    whole = []
    for place, device in enumerate(first.devices):
        flat = [
            reshaped(draft, f"{one.name}/fused_{place}", one.values[place], (size,), one.dtype, device)
            for one, size in zip(given, sizes, strict=True)
        ]
        whole.append(joined(draft, f"{name}/whole_{place}", flat, first.dtype, device, (sum(sizes),)))
    means = collective(draft, replace(first, name=name, values=whole, shape=(sum(sizes),)))
    results: list[list[str]] = [[] for _ in given]
    for place, (mean, device) in enumerate(zip(means, first.devices, strict=True)):
        inputs = [
            mean,
            draft.constant(f"{name}/parts_{place}/sizes", sizes, INT32, device),
            draft.constant(f"{name}/parts_{place}/axis", 0, INT32, device),
        ]
        attrs = {**typed(first.dtype), "Tlen": AttrValue(type=INT32), "num_split": number(len(sizes))}
        cut = draft.add(f"{name}/parts_{place}", "SplitV", inputs, device, attrs, [(size,) for size in sizes])
        for port, (one, result) in enumerate(zip(given, results, strict=True)):
            part = f"{cut}:{port}" if port else cut
            result.append(reshaped(draft, f"{one.name}/part_{place}", part, one.shape, one.dtype, device))
    return results
