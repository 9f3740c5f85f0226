"""Gradients as the backward pass computes them, before a graph clips or scales them by what all examples say.

    gradients ──╳──▶ norm of all ──▶ scale ─┐        replicas are averaged at ╳, as the whole batch would give them;
           └────╳─────────────────────▶ Mul ─┴▶ Apply     the clip is done once, as it is no linear function of them

What lies between is followed back from the update, element by element, and nothing of it may depend on examples but by
way of the gradients themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.graph.graph import Graph
from simulator.graph.step.fanin import PLACEHOLDERS
from simulator.training.recognition.anatomy import Anatomy, Gradient
from simulator.training.recognition.variables import VARIABLES

_SCALES = frozenset(("Mul", "MulNoNan", "RealDiv", "Div", "DivNoNan"))  # linear where the other input is a constant
_ADDS = frozenset(("Add", "AddV2", "AddN", "Sub"))
_BENDS = frozenset(("Minimum", "Maximum", "ClipByValue", "Sign", "Abs", "Sqrt", "Square", "Tanh"))
_PASSES = frozenset(("Identity", "StopGradient", "CheckNumerics", "Neg", "Cast"))


@dataclass(frozen=True, slots=True)
class _Way:
    """The edges on which a gradient comes to its update, the update's own first; those from `least` on lie before
    all that is not linear.
    """

    edges: tuple[int, ...]
    least: int


def as_computed(graph: Graph, found: Anatomy) -> Anatomy:
    """The same anatomy with each gradient where the backward pass hands it out, if what follows is not linear.

    A gradient stays where it enters its update if what is done with it on the way is linear, for then it is all the
    same, and if it can't be told apart from the backward pass.
    """
    live = _live(graph, found)
    ways = [_way(graph, one, live) for one in found.gradients]
    moving = {row for row, way in enumerate(ways) if way.least}
    while moving:
        for further in range(max(len(ways[row].edges) - ways[row].least for row in moving)):
            at = [min(way.least + further, len(way.edges) - 1) if row in moving else 0 for row, way in enumerate(ways)]
            cut = {int(graph.edge_tensor[way.edges[place]]) for way, place in zip(ways, at, strict=True)}
            between = {row: _between(graph, ways[row].edges[0], cut) for row in sorted(moving)}
            mixed = {row for row, nodes in between.items() if not _sources(graph, nodes).isdisjoint(live)}
            if not mixed:
                return replace(found, gradients=_moved(graph, found.gradients, ways, at, between))
        moving -= mixed
    return found


def _live(graph: Graph, found: Anatomy) -> frozenset[int]:
    """What depends on examples: all but what is made of constants, variables, and of what else is fed."""
    batched = {int(graph.tensor_node[tensor]) for tensor in found.batched}
    reached = {
        row
        for row, op in enumerate(graph.ops)
        if not any(graph.edge_tensor[edge] >= 0 for edge in range(graph.in_ptr[row], graph.in_ptr[row + 1]))
        and op not in VARIABLES
        and op != "Const"
        and (op not in PLACEHOLDERS or row in batched or not found.batched)
    }
    pending = list(reached)
    while pending:
        row = pending.pop()
        for edge in graph.out_edge[graph.out_ptr[row] : graph.out_ptr[row + 1]].tolist():
            reader = int(graph.edge_dst[edge])
            if graph.edge_tensor[edge] >= 0 and reader not in reached:
                reached.add(reader)
                pending.append(reader)
    return frozenset(reached)


def _way(graph: Graph, gradient: Gradient, live: frozenset[int]) -> _Way:
    edges, least = [gradient.values], 0
    while True:
        row = int(graph.edge_src[edges[-1]])
        inputs = [edge for edge in range(graph.in_ptr[row], graph.in_ptr[row + 1]) if graph.edge_tensor[edge] >= 0]
        moving = [edge for edge in inputs if int(graph.edge_src[edge]) in live]
        op = graph.ops[row]
        if op == "IdentityN":
            edges.append(int(graph.in_ptr[row]) + int(graph.tensor_port[graph.edge_tensor[edges[-1]]]))
            continue
        known = op in _PASSES or op in _BENDS or op in _SCALES or (op in _ADDS and len(moving) == 1)
        if not known or not moving:
            return _Way(tuple(edges), least)
        edges.append(_main(graph, edges[-1], moving))
        if op in _BENDS or len(moving) > 1:
            least = len(edges) - 1


def _main(graph: Graph, out: int, moving: Sequence[int]) -> int:
    """Of the inputs that depend on examples the one that is the gradient: of the result's shape, else the first."""
    shape = graph.tensor_shape[graph.edge_tensor[out]]
    alike = [edge for edge in moving if shape is not None and graph.tensor_shape[graph.edge_tensor[edge]] == shape]
    return (alike or list(moving))[0]


def _between(graph: Graph, edge: int, cut: set[int]) -> set[int]:
    """The nodes that an edge needs, up to the tensors at which gradients are cut."""
    pending, seen = [edge], set[int]()
    while pending:
        at = pending.pop()
        row = int(graph.edge_src[at])
        if int(graph.edge_tensor[at]) in cut or row in seen:
            continue
        seen.add(row)
        pending += [into for into in range(graph.in_ptr[row], graph.in_ptr[row + 1]) if graph.edge_tensor[into] >= 0]
    return seen


def _sources(graph: Graph, rows: set[int]) -> set[int]:
    """Those of the nodes that read no value."""
    return {
        row
        for row in rows
        if not any(graph.edge_tensor[edge] >= 0 for edge in range(graph.in_ptr[row], graph.in_ptr[row + 1]))
    }


def _moved(
    graph: Graph,
    gradients: Sequence[Gradient],
    ways: Sequence[_Way],
    at: Sequence[int],
    between: Mapping[int, set[int]],
) -> tuple[Gradient, ...]:
    inside = set().union(*between.values())

    def readers(edge: int) -> Iterator[int]:
        """Other edges on which what follows reads the same."""
        row = int(graph.edge_src[edge])
        for other in sorted(graph.out_edge[graph.out_ptr[row] : graph.out_ptr[row + 1]].tolist()):
            same = other != edge and graph.edge_tensor[other] == graph.edge_tensor[edge]
            if same and int(graph.edge_dst[other]) in inside:
                yield other

    made = []
    for one, way, place in zip(gradients, ways, at, strict=True):
        edge = way.edges[place]
        made.append(replace(one, values=edge, also=tuple(readers(edge))))
    return tuple(made)
