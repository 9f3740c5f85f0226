"""Loading of a graph as in the command: it is read, its calls are expanded, it is lowered, and shapes are found.

source ──read_graph──▶ as it stands ──flat──▶ as TensorFlow places it ──with_shapes──▶ Graph
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from simulator.cluster.device_strings import without_devices
from simulator.graph.captured import fed_shapes, own_variables
from simulator.graph.graph import Graph, Shape
from simulator.graph.importer import read_graph
from simulator.graph.inlining.expanding import inline, lower
from simulator.observed.fitting import fitted
from simulator.observed.observed_step import ObservedStep
from simulator.shapes.filling import with_shapes


def load(
    source: object,
    *,
    batch: int | None = None,
    feeds: Mapping[str, Shape] = MappingProxyType({}),
    keep_calls: bool = False,
    ignore_devices: bool = False,
    observed: ObservedStep | None = None,
) -> Graph:
    """Load a graph, ready for placement and simulation.

    `source` is anything that `read_graph` takes: a path, bytes, a message, a `tf.Graph`, a concrete function, a Graph.
    Calls are expanded, and functional control flow is lowered, as by `inline` and `lower`. With `keep_calls` a call
    stays a single node, as for TensorFlow's placer, and its body takes no time. `ignore_devices` drops the graph's
    device strings first, as by `without_devices`. `batch` and `feeds` (tensor name -> shape) give the sizes of tensors,
    as in `with_shapes`; the others follow from these by the rules of their ops. Variables that a function captures, of
    known shape or with one in `feeds`, become its own (`own_variables`). `observed` is a step of this graph that
    really ran (`observe_step`, `read_observed`): its tensors have the shapes that they had then.

    A Graph that was loaded before keeps the shapes that it has. Raises GraphError as `read_graph`, `inline` and
    `with_shapes` do, and for an observed step of another graph or batch.
    """
    graph = flat(source, keep_calls=keep_calls, ignore_devices=ignore_devices)
    graph, feeds = own_variables(graph, feeds), fed_shapes(graph, feeds)
    if observed is not None:
        return fitted(graph, observed, batch=batch, feeds=feeds)
    return with_shapes(graph, batch=batch, feeds=feeds)


def flat(
    source: object,
    *,
    keep_calls: bool = False,
    ignore_devices: bool = False,
    change: Callable[[Graph], Graph] = lambda graph: graph,
) -> Graph:
    """The graph without calls, or with `keep_calls` as TensorFlow places it, with the shapes of the source.

    `change` is made before TensorFlow would get the graph: calls are expanded, but control flow is not lowered yet.
    """
    graph = read_graph(source)
    if ignore_devices:
        graph = without_devices(graph)
    return lower(change(graph if keep_calls else inline(graph)))
