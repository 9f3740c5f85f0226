"""Gradients that come too late to be averaged with all others of a step: behind an update, or made in a loop."""

from __future__ import annotations

from collections.abc import Collection

from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.graph.traversal import fan_out, loop_depths
from simulator.training.recognition.anatomy import Anatomy, Gradient


def check_one_update(graph: Graph, found: Anatomy, update: Collection[int], so: str) -> None:
    """Raise GraphError for a gradient behind an update of the same step; the error says what follows (`so`)."""
    for one in found.gradients:
        if (gradient := int(graph.edge_src[one.values[0]])) in update:
            others = (other for other in found.gradients if other.variable != one.variable)
            before = next((at for at in others if gradient in _behind(graph, at)), None)
            which = f"that of {graph.names[before.variable]!r}, " if before is not None else ""
            raise _late(graph, one, gradient, f"comes after another update of the step, {which}".rstrip(", "), so)


def check_no_loop(graph: Graph, found: Anatomy, so: str) -> None:
    """Raise GraphError for an update in a loop; the error says what follows (`so`)."""
    depths = loop_depths(graph)
    for one in found.gradients:
        if depths[gradient := int(graph.edge_src[one.values[0]])]:
            raise _late(graph, one, gradient, "is made in a loop", so)


def _behind(graph: Graph, one: Gradient) -> set[int]:
    """The nodes that wait for this gradient's update."""
    return set(fan_out(graph, [int(graph.edge_dst[one.values[0]])]))


def _late(graph: Graph, one: Gradient, gradient: int, why: str, so: str) -> GraphError:
    name, variable = graph.names[gradient], graph.names[one.variable]
    return GraphError(f"{graph.source}: {name!r}, which updates {variable!r}, {why}. So {so}.", node=name)
