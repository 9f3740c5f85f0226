"""What passes between the client and a step: the tensors that it hands in, and those that it gets back.

    producer ─╳─▶ reader                 producer ───▶ reader
    client ──fed──▶ reader                   └──fetched──▶ client

A fed tensor comes from the client and no longer from its producer, which then runs only if something else needs it. The
rules are those of `tensorflow/core/graph/subgraph.cc`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.columns import Flags, Ids, flags, ids
from simulator.graph.graph import Graph
from simulator.graph.step.choosing import Step
from simulator.graph.step.fanin import PLACEHOLDERS


@dataclass(frozen=True, eq=False)
class Exchange:
    """Axes: F fed tensors that something reads, R fetched tensors, E edges of the graph."""

    fed: Ids  # [F] tensor, in order of the step's feeds
    fed_place: Ids  # [F] position among the step's feeds
    fetched: Ids  # [R] tensor, in order of the step's fetches
    of_edge: Ids  # [E] row of `fed` that the edge comes from, -1: it comes from its own source, or does not exist
    edges: Ids  # [..] the edges of the step, ascending
    replaced: Flags  # [N] fed placeholders: the client takes over their control edges too

    @property
    def tensors(self) -> Ids:
        """[F + R] the fed tensors, then the fetched ones."""
        return ids(np.concatenate([self.fed, self.fetched]))


def exchange(graph: Graph, step: Step) -> Exchange:
    """What the client and the step exchange.

    A fed tensor takes over the data edges of its producer's output; of a placeholder also the control edges, for that
    does not run any more. What nothing reads is not taken in at all. A fetch without a port is no tensor: its node has
    to run, and that is all.
    """
    given = [_tensor(graph, name) for name in step.feeds]
    by_tensor = np.full(len(graph.tensor_node) + 1, -1)  # the last row answers for control edges
    by_tensor[given] = np.arange(len(given))
    by_node = np.full(len(graph), -1)
    for row, tensor in enumerate(given):
        if graph.ops[node := int(graph.tensor_node[tensor])] in PLACEHOLDERS:
            by_node[node] = row
    place = np.where(graph.edge_tensor < 0, by_node[graph.edge_src], by_tensor[graph.edge_tensor])
    alive = step.runs[graph.edge_dst] & ((place >= 0) | step.runs[graph.edge_src])
    read = np.unique(place[alive & (place >= 0)])
    row_of = np.full(len(given) + 1, -1)
    row_of[read] = np.arange(len(read))
    return Exchange(
        fed=ids([given[at] for at in read.tolist()]),
        fed_place=ids(read),
        fetched=ids([_tensor(graph, name) for name in step.fetches if is_tensor(graph, name)]),
        of_edge=ids(row_of[np.where(alive, place, -1)]),
        edges=ids(np.flatnonzero(alive)),
        replaced=flags(by_node >= 0),
    )


def is_tensor(graph: Graph, fetch: str) -> bool:
    """Whether a fetch of a Step is a tensor, "node:port", and not a node that only has to run."""
    return ":" in fetch and fetch not in graph.index


def _tensor(graph: Graph, name: str) -> int:
    node, _, port = name.rpartition(":")
    return int(graph.tensor_ptr[graph.row(node)]) + int(port)
