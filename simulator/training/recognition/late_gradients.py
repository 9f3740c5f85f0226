"""Gradients that come too late to be averaged with all others of a step: behind an update, or made in a loop."""

from __future__ import annotations

from collections.abc import Collection

from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.graph.traversal import loop_depths
from simulator.training.recognition.anatomy import Anatomy, Gradient


def check_one_update(graph: Graph, found: Anatomy, update: Collection[int], so: str) -> None:
    """Raise GraphError for a gradient behind an update of the same step; the error says what follows (`so`)."""
    for one in found.gradients:
        if (gradient := int(graph.edge_src[one.values[0]])) in update:
            raise _late(graph, one, gradient, "comes after another update of the step", so)


def check_no_loop(graph: Graph, found: Anatomy, so: str) -> None:
    """Raise GraphError for an update in a loop; the error says what follows (`so`)."""
    depths = loop_depths(graph)
    for one in found.gradients:
        if depths[gradient := int(graph.edge_src[one.values[0]])]:
            raise _late(graph, one, gradient, "is made in a loop", so)


def _late(graph: Graph, one: Gradient, gradient: int, why: str, so: str) -> GraphError:
    name, variable = graph.names[gradient], graph.names[one.variable]
    return GraphError(f"{graph.source}: {name!r}, which updates {variable!r}, {why}. So {so}.", node=name)
