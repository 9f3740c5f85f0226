"""Minimum cuts of groups in two halves: each group pays for its half, each value once for each way that it crosses.

    near half ══(its price in the far half)══ group ══(its price in the near half)══ far half
                                                ║ value
    near half ══(its price in the far half)══ group ══(its price in the near half)══ far half

The cheapest cut is the assignment of least total price to two processors. Source: Stone, "Multiprocessor scheduling
with the aid of network flow algorithms", IEEE TSE 3(1), 1977.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.bounds.flow import Network
from simulator.columns import Flags, Ints, by_key, positions

ENDLESS = 2**61  # a capacity that no flow fills; prices of all groups and values together are less
_LOOKS = 300  # times that a cut may look at each arc: those of real steps take up to 22, a chain of n ops may take n


class Values(NamedTuple):
    """Values that groups hand on. Axes: Y values, X readers; G groups, and G stands for the near half, G + 1: far."""

    maker: Ints  # [Y] group
    value: Ints  # [X] in ascending order
    reader: Ints  # [X] group, once for each value


class Cut(NamedTuple):
    """A cut of least capacity."""

    far: Flags  # [N] on the last node's side; nothing where the cut took too long
    flow: int  # its capacity, or less where it took too long
    looks: int  # at arcs


def halves(dearer: Ints, values: Values, forth: Ints, back: Ints) -> Cut:
    """The groups [G] to put in the far half, of those that are `dearer` there by so much, or cheaper: less than 0.

    A value costs `forth` where its maker is near and some reader is far, and `back` the other way round.
    """
    groups = len(dearer)
    maker, value, reader = values
    several = np.bincount(value, minlength=len(maker)) > 1
    hub = groups + 2 * np.cumsum(several) - 2  # a value of several readers has two nodes, one for each way
    source = groups + 2 * int(several.sum())
    maker, reader = (np.where(end < groups, end, end - groups + source) for end in (maker, reader))
    one, many, first = ~several[value], several[value], maker[several]
    group = np.arange(groups)
    alone = value[one]
    none, endless = (np.full(many.sum(), of, np.int64) for of in (0, ENDLESS))
    arcs = (
        (maker[alone], reader[one], forth[alone], back[alone]),
        (first, hub[several], forth[several], none[: len(first)]),
        (hub[value[many]], reader[many], endless, none),
        (reader[many], hub[value[many]] + 1, endless, none),
        (hub[several] + 1, first, back[several], none[: len(first)]),
        (np.full(groups, source), group, dearer.clip(0), np.zeros(groups, np.int64)),
        (group, np.full(groups, source + 1), (-dearer).clip(0), np.zeros(groups, np.int64)),
    )
    tail, head, out, home = map(np.concatenate, zip(*arcs, strict=True))
    found = least_cut(tail, head, out, home, source + 2)
    return found._replace(far=found.far[:groups])


def least_cut(tail: Ints, head: Ints, forth: Ints, back: Ints, nodes: int) -> Cut:
    """A cut that parts the last node from the one before it. Arcs have capacities forth and back."""
    from simulator.bounds.compiled import cut  # late: it loads LLVM

    some = np.flatnonzero((forth > 0) | (back > 0))
    order, first = by_key(np.concatenate([tail[some], head[some]]), nodes)
    place = positions(order, len(order))
    network = Network(
        first=first.astype(np.int64),
        head=np.concatenate([head[some], tail[some]])[order],
        reverse=np.concatenate([place[len(some) :], place[: len(some)]])[order],
        left=np.concatenate([forth[some], back[some]])[order],
        level=np.zeros(nodes, np.int64),
        current=np.zeros(nodes, np.int64),
        queue=np.zeros(nodes, np.int64),
        looks=np.zeros(1, np.int64),
        flow=np.zeros(1, np.int64),
    )
    cut(network, _LOOKS * (len(network.head) + nodes))
    whole = network.level[-1] < 0
    return Cut((network.level < 0) & whole, int(network.flow[0]), int(network.looks[0]))
