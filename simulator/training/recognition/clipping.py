"""Gradients as the backward pass computes them, before a graph clips or scales them by the norm of all.

    gradients ──╳──▶ norm of all ──▶ scale ─┐        replicas are averaged at ╳, as the whole batch would give them;
           └────╳─────────────────────▶ Mul ─┴▶ Apply     the clip is done once, as it is no linear function of them

The ops between are followed back from the update, element by element. They may depend on examples only through the
gradients themselves. A branch that is taken only if all gradients are finite is such an op, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.columns import Flags
from simulator.graph.dataflow import depending_on, values_in, values_out
from simulator.graph.graph import Graph
from simulator.graph.op_classes import SWITCHES
from simulator.graph.traversal import PLACEHOLDERS, closure
from simulator.training.recognition.anatomy import Anatomy, Gradient
from simulator.training.recognition.variable_flow import origins_of_examples

_SCALES = frozenset(("Mul", "MulNoNan", "RealDiv", "Div", "DivNoNan"))  # linear where the other input is a constant
_ADDS = frozenset(("Add", "AddV2", "AddN", "Sub"))
_BENDS = frozenset(("Minimum", "Maximum", "ClipByValue", "Sign", "Abs", "Sqrt", "Square", "Tanh"))
_PASSES = frozenset(("Identity", "StopGradient", "CheckNumerics", "Neg", "Cast"))


@dataclass(frozen=True, slots=True)
class _Path:
    """The edges on which a gradient comes to its update."""

    edges: tuple[int, ...]  # the update's own first
    least: int  # index of the first edge that lies before all that is not linear


def as_computed(graph: Graph, found: Anatomy) -> Anatomy:
    """The same anatomy with each gradient where the backward pass hands it out, if later ops are not linear in it.

    A gradient stays where it enters its update if all ops before that are linear, as the mean is the same then. It also
    stays if those ops can't be distinguished from the backward pass.
    """
    live = _live(graph, found)
    paths = [_path(graph, one, live) for one in found.gradients]
    moving = {row for row, path in enumerate(paths) if path.least}
    while moving:
        for further in range(max(len(paths[row].edges) - paths[row].least for row in moving)):
            at = [min(one.least + further, len(one.edges) - 1) if row in moving else 0 for row, one in enumerate(paths)]
            cut = {int(graph.edge_tensor[path.edges[place]]) for path, place in zip(paths, at, strict=True)}
            first = {row: paths[row].edges[0] for row in sorted(moving)}
            inside = _between(graph, first.values(), cut)
            mixed = _mixed(graph, first, inside, cut, live)
            if not mixed:
                return replace(found, gradients=_moved(graph, found.gradients, paths, at, inside))
        moving -= mixed
    return found


def _live(graph: Graph, found: Anatomy) -> Flags:
    """[N] whether a node depends on examples: on more than constants, variables and fed tensors without a batch."""
    batched = {int(graph.tensor_node[tensor]) for tensor in found.batched}
    return depending_on(
        graph,
        (
            row
            for row in origins_of_examples(graph)
            if graph.ops[row] not in PLACEHOLDERS or row in batched or not found.batched
        ),
    )


def _path(graph: Graph, gradient: Gradient, live: Flags) -> _Path:
    edges, least = [gradient.values[0]], 0
    while True:
        row = int(graph.edge_src[edges[-1]])
        moving = [edge for edge in values_in(graph, row) if live[graph.edge_src[edge]]]
        op, first = graph.ops[row], int(graph.in_ptr[row])
        if op == "IdentityN":
            edges.append(first + int(graph.tensor_port[graph.edge_tensor[edges[-1]]]))
            continue
        if op in SWITCHES and live[graph.edge_src[first]]:
            edges.append(first)
            least = len(edges) - 1 if len(moving) > 1 else least  # the examples decide whether there is an update
            continue
        known = op in _PASSES or op in _BENDS or op in _SCALES or (op in _ADDS and len(moving) == 1)
        if not known or not moving:
            return _Path(tuple(edges), least)
        edges.append(_main(graph, edges[-1], moving))
        if op in _BENDS or len(moving) > 1:
            least = len(edges) - 1


def _main(graph: Graph, out: int, moving: Sequence[int]) -> int:
    """The input that is the gradient, of those that depend on examples: of the result's shape, else the first."""
    shape = graph.tensor_shape[graph.edge_tensor[out]]
    same = [edge for edge in moving if shape is not None and graph.tensor_shape[graph.edge_tensor[edge]] == shape]
    return (same or list(moving))[0]


def _between(graph: Graph, edges: Iterable[int], cut: set[int]) -> set[int]:
    """The nodes that edges need, up to the tensors at which gradients are cut."""
    return closure(_makers(graph, edges, cut), lambda row: _makers(graph, values_in(graph, row), cut))


def _makers(graph: Graph, edges: Iterable[int], cut: set[int]) -> list[int]:
    """The nodes from which edges come, but for those that carry a tensor at which gradients are cut."""
    return [int(graph.edge_src[at]) for at in edges if int(graph.edge_tensor[at]) not in cut]


def _mixed(graph: Graph, first: Mapping[int, int], inside: set[int], cut: set[int], live: Flags) -> set[int]:
    """The gradients, each with its update's own edge, that also need examples by nodes inside, as of a placeholder."""

    def readers(row: int) -> list[int]:
        edges = [edge for edge in values_out(graph, row) if int(graph.edge_tensor[edge]) not in cut]
        return [at for at in map(int, graph.edge_dst[edges]) if at in inside]

    behind = closure((row for row in inside if live[row] and not values_in(graph, row)), readers)
    return {row for row, edge in first.items() if not behind.isdisjoint(_makers(graph, [edge], cut))}


def _moved(
    graph: Graph,
    gradients: Sequence[Gradient],
    paths: Sequence[_Path],
    at: Sequence[int],
    inside: set[int],
) -> tuple[Gradient, ...]:

    def readers(edge: int) -> Iterator[int]:
        """Other edges that carry the same tensor to the ops between."""
        row = int(graph.edge_src[edge])
        for other in values_out(graph, row):
            same = other != edge and graph.edge_tensor[other] == graph.edge_tensor[edge]
            if same and int(graph.edge_dst[other]) in inside:
                yield other

    made = []
    for one, path, place in zip(gradients, paths, at, strict=True):
        edge = path.edges[place]
        own = (edge,) if place else one.values
        made.append(replace(one, values=tuple(dict.fromkeys((*own, *readers(edge))))))
    return tuple(made)
