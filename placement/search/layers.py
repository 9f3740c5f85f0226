"""Layers: groups that hand on much among themselves, as those of an unrolled network do.

Values come in turn, from the one that takes longest on the wire to the shortest. The maker of each and all its readers
become one layer, unless that had too much work. So what reads one weight is together, and then what is between its
readers. At last each group settles where it exchanges most, as ties between values of one size may have set it beside
the wrong ones.

Plain Python over arrays, to be compiled.
"""

from __future__ import annotations

from typing import NamedTuple

from simulator.columns import Ints

_ROUNDS = 2  # in which groups settle


class Nets(NamedTuple):
    """The values that groups hand on. Axes: V values, the dearest first, R readers, M groups."""

    maker: Ints  # [V] group
    wire_ns: Ints  # [V]
    first: Ints  # [V+1] first reader
    reader: Ints  # [R] group
    work_ns: Ints  # [M]
    near_first: Ints  # [M+1] first neighbour
    near: Ints  # [2 A] groups that hand it values or get some
    near_ns: Ints  # [2 A] how long these take on the wire


class Joined(NamedTuple):
    """The result of `join`, and its working memory. Axis: M groups."""

    root: Ints  # [M] the group that stands for the layer
    whole_ns: Ints  # [M] work of a layer, where its root is
    seen: Ints  # [M] working memory
    pull_ns: Ints  # [M] working memory, zeros
    cut_ns: Ints  # [1] what crosses, each value once for each layer


def root_of(root: Ints, group: int) -> int:
    """The group that stands for a layer."""
    while root[group] != group:
        root[group] = root[root[group]]
        group = root[group]
    return group


def join(nets: Nets, layers: Joined, most_ns: int) -> None:
    """Join groups to layers of so much work at most."""
    root, seen = layers.root, layers.seen
    for group in range(len(root)):
        root[group], seen[group], layers.whole_ns[group] = group, -1, nets.work_ns[group]
    for value in range(len(nets.maker)):
        to = root_of(root, nets.maker[value])
        seen[to] = value
        total = layers.whole_ns[to]
        for at in range(nets.first[value], nets.first[value + 1]):
            one = root_of(root, nets.reader[at])
            if seen[one] != value:
                seen[one] = value
                total += layers.whole_ns[one]
        if total <= most_ns:
            for at in range(nets.first[value], nets.first[value + 1]):
                root[root_of(root, nets.reader[at])] = to
            layers.whole_ns[to] = total
    for group in range(len(root)):
        root[group] = root_of(root, group)
    for _ in range(_ROUNDS):
        for group in range(len(root)):
            settle(nets, layers, group, most_ns + (most_ns >> 3))
    for group in range(len(root)):
        seen[group] = -1
    layers.cut_ns[0] = 0
    for value in range(len(nets.maker)):
        seen[root[nets.maker[value]]] = value
        for at in range(nets.first[value], nets.first[value + 1]):
            one = root[nets.reader[at]]
            if seen[one] != value:
                seen[one] = value
                layers.cut_ns[0] += nets.wire_ns[value]


def settle(nets: Nets, layers: Joined, group: int, most_ns: int) -> None:
    """Set a group into the layer with which it exchanges most, if there is room."""
    root, pull_ns = layers.root, layers.pull_ns
    low, high = nets.near_first[group], nets.near_first[group + 1]
    for at in range(low, high):
        pull_ns[root[nets.near[at]]] += nets.near_ns[at]
    here = root[group]
    best = here
    for at in range(low, high):
        there = root[nets.near[at]]
        if pull_ns[there] > pull_ns[best] and layers.whole_ns[there] + nets.work_ns[group] <= most_ns:
            best = there
    for at in range(low, high):
        pull_ns[root[nets.near[at]]] = 0
    if best != here:
        layers.whole_ns[here] -= nets.work_ns[group]
        layers.whole_ns[best] += nets.work_ns[group]
        root[group] = best
