"""Let nodes of the pieces wait for others on their device: a control edge for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulator.errors import GraphError
from simulator.partitioning.assembling import assemble
from simulator.partitioning.draft import CONTROL, LAST, Added, wires
from simulator.partitioning.levels import wires_of
from simulator.partitioning.partitions import Partitions


def with_waits(partitions: Partitions, waits: Sequence[tuple[int, int]]) -> Partitions:
    """The same pieces, where of each (first, then) the second node waits for the end of the first.

    Both are rows of `partitions.graph`. The edges come after those that are there, in the given order. Raises
    GraphError for two nodes on different devices, and where nodes of one piece would wait for each other.
    """
    graph = partitions.graph
    for first, then in waits:
        if partitions.device[first] != partitions.device[then]:
            raise GraphError(
                f"{graph.names[then]!r} cannot wait for {graph.names[first]!r}, which is on another device; only a "
                "transfer joins devices.",
                node=graph.names[then],
            )
    made = wires((first, CONTROL, then, LAST, len(graph.edge_src) + at) for at, (first, then) in enumerate(waits))
    whole = wires_of(graph).join(made)
    return replace(
        partitions, graph=assemble(graph, Added(), whole, np.arange(len(graph), dtype=np.int64), graph.requested)
    )
