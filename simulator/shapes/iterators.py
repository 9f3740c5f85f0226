"""Iterators, and the datasets behind them: what a step takes from an iterator is an element of its dataset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from simulator.errors import GraphError
from simulator.graph.dataflow import source_of, sources_of
from simulator.graph.graph import Graph, Shape
from simulator.graph.tensors import completed, shape_of
from simulator.shapes.datasets import Elements, Functions, Shapes
from simulator.shapes.propagation import ITERATORS, edge_tensors
from simulator.shapes.rules import PASSING


def dataset_of(graph: Graph, iterator: int) -> tuple[Elements, int] | None:
    """The dataset behind the iterator of that row; None: it is not in the graph. Raises GraphError.

    Of several that are made into it in turn the first counts.
    """
    return _dataset_of(_all_elements(graph), _made_into(graph), iterator)


def handed_out(
    graph: Graph, believed: Sequence[Shape | None], given: Collection[int]
) -> tuple[dict[int, Shape], int | None]:
    """Shapes of tensors that iterators hand out with an unknown first dimension, as their datasets make them.

    Also the first dimension of the elements of all datasets of the graph, where they agree. Nothing is said of tensors
    that are `given`. `believed` [T] are shapes of the file.
    """
    declared = {row: _declared(graph, row, believed[row]) for row in edge_tensors(graph) if row not in given}
    edge = [row for row, shape in declared.items() if shape is None or (shape and shape[0] < 0)]
    if not edge:
        return {}, None
    made = _made(graph)
    shapes: dict[int, Shape] = {}
    for row in edge:
        node, port = int(graph.tensor_node[row]), int(graph.tensor_port[row])
        parts = made.get(_maker(graph, source_of(graph, node)), ()) if graph.ops[node] in ITERATORS else ()
        shape = completed(declared[row], parts[port]) if port < len(parts) else None
        if shape and shape[0] > 0:
            shapes[row] = shape
    sizes = {next((shape[0] for shape in parts if shape), -1) for parts in made.values()}
    return shapes, next(iter(sizes)) if len(sizes) == 1 and min(sizes) > 0 else None


def _made(graph: Graph) -> dict[int, Shapes]:
    """Iterator -> the shapes of an element of the dataset behind it."""
    made_into, every = _made_into(graph), _all_elements(graph)
    factories = [row for row, attrs in enumerate(graph.attrs) if "dataset_factory" in attrs]
    made: dict[int, Shapes] = {}
    for iterator in (*made_into, *factories):
        with suppress(GraphError):  # `inputs_of` reports it
            found = _dataset_of(every, made_into, iterator)
            made[iterator] = () if found is None else found[0].shapes(found[1])
    return made


def _declared(graph: Graph, row: int, believed: Shape | None) -> Shape | None:
    """The shape that is believed of a tensor, else the one that an iterator declares."""
    listed, port = graph.attrs[graph.tensor_node[row]].get("output_shapes"), int(graph.tensor_port[row])
    if believed is None and listed is not None and port < len(listed.list.shape):
        return shape_of(listed.list.shape[port])
    return believed


def _all_elements(graph: Graph) -> Elements:
    return Elements(graph, Functions(graph.library, graph.source))


def _dataset_of(every: Elements, made_into: Mapping[int, int], iterator: int) -> tuple[Elements, int] | None:
    factory = every.graph.attrs[iterator].get("dataset_factory")
    if factory is not None:
        return every.inside(factory.func)
    return (every, made_into[iterator]) if iterator in made_into else None


def _made_into(graph: Graph) -> dict[int, int]:
    """Iterator -> the dataset that is made into it first."""
    found: dict[int, int] = {}
    for row, op in enumerate(graph.ops):
        if op == "MakeIterator" and len(sources := sources_of(graph, row)) > 1:
            found.setdefault(_maker(graph, sources[1]), sources[0])
    return found


def _maker(graph: Graph, node: int) -> int:
    """The node that made what others hand on."""
    while graph.ops[node] in PASSING and (source := source_of(graph, node)) >= 0 and source != node:
        node = source
    return node
