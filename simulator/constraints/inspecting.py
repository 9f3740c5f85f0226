"""What the body of a call ties together outside of it (§3.6).

A call that hands back a resource hides where the resource comes from, so TensorFlow's placer looks into the function
(`tensorflow/core/common_runtime/inspecting_placer.cc`): it groups the nodes of the body as those of a graph, and what
shares a group there, as an argument or as a result, shares one outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.cluster.devicespec import DeviceSpec
from simulator.constraints.initialising import DeviceTypes
from simulator.errors import GraphError, InfeasibleError
from simulator.graph import ops
from simulator.graph.building import build
from simulator.graph.calling import PARTITIONED
from simulator.graph.dtypes import RESOURCE
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining import isolated
from simulator.graph.inlining.bodies import Body, instantiate
from simulator.graph.inlining.draft import MAX_DEPTH
from simulator.graph.messages import AttrValue


@dataclass(frozen=True, slots=True)
class Tied:
    """What stands in one group inside of a call's body, and what that group may use."""

    arguments: tuple[int, ...]  # slots
    results: tuple[int, ...]  # ports
    requested: DeviceSpec
    resource: DeviceSpec
    types: DeviceTypes


def inspected(graph: Graph) -> list[int]:
    """The calls that hand back a resource and that some data edge leads to or from, in the order of looking into them.

    TensorFlow keeps them in a set of pointers, which gives the one back first that it met last, as long as it holds few
    (two of a dozen may share a bucket, which no one can know). It matters where calls contradict each other.
    """
    if PARTITIONED.isdisjoint(graph.ops):
        return []
    calls = {row for row, op in enumerate(graph.ops) if op in PARTITIONED and _hands_back_resource(graph, row)}
    data = np.flatnonzero(graph.edge_tensor >= 0)
    edges = data[np.argsort(graph.creation.edge[data])]
    met = zip(graph.edge_src[edges].tolist(), graph.edge_dst[edges].tolist(), strict=True)
    first = dict.fromkeys(source if source in calls else target for source, target in met)
    return [row for row in reversed(first) if row in calls]


def require_functions(graph: Graph) -> None:
    """Raise GraphError for a call of a function that the library lacks: no session takes such a graph."""
    for row in np.flatnonzero([op in PARTITIONED for op in graph.ops]).tolist():
        name, _ = _called(graph, row)
        if name not in graph.library:
            raise GraphError(
                f"Failed to find function {name!r} in the library of {graph.source}; {graph.names[row]!r} calls it. "
                "Write the graph with its functions."
            )


def _called(graph: Graph, row: int) -> tuple[str, Attrs]:
    function = graph.attrs[row]["f"].func if "f" in graph.attrs[row] else AttrValue().func
    return function.name, function.attr


def signature(graph: Graph, row: int) -> tuple[str, bytes]:
    """The same for calls of the same function with the same attributes."""
    function = graph.attrs[row]["f"].func
    return function.name, bytes(function.SerializeToString(deterministic=True))


def _hands_back_resource(graph: Graph, row: int) -> bool:
    name, attrs = _called(graph, row)
    return RESOURCE in (ops.outputs(name, attrs, graph.library) or ())


def body_of(graph: Graph, row: int, callers: tuple[str, ...]) -> tuple[str, Graph, list[int], list[int]]:
    """The function that a node calls, its body as the placer looks at it, and there the rows of arguments and results.

    Raises InfeasibleError for a function that stands among its callers, as TensorFlow does, and GraphError where more
    than MAX_DEPTH calls lie within each other.
    """
    name, attrs = _called(graph, row)
    body = instantiate(graph.library[name], attrs, graph.library, graph.source)
    if len(callers) > MAX_DEPTH:
        raise GraphError(
            f"More than {MAX_DEPTH} calls that hand back resources lie within each other, down to {name!r}."
        )
    if name in callers:
        raise InfeasibleError(
            f"Recursive function calls are not supported. Node {graph.names[row]!r} calls the function {name!r}, which "
            f"is already being looked into: {' -> '.join((*callers, name))}.",
            node=graph.names[row],
            members=(graph.names[row],),
        )
    count, rows = len(body.argument_types), len(body.graph)
    whole = isolated(_with_results(body, graph))  # which appends nodes
    return name, whole, list(range(count)), list(range(rows, rows + len(body.results)))


def _with_results(body: Body, graph: Graph) -> Graph:
    """The body with a `_Retval` node per result; rows keep their numbers."""
    inner = body.graph
    taken, names = set(inner.names), []
    for port in range(len(body.results)):
        name = f"result_{port}_RetVal"
        while name in taken:
            name += "_"
        names.append(name)
    return build(
        (*inner.names, *names),
        (*inner.ops, *["_Retval"] * len(names)),
        (*inner.requested, *[""] * len(names)),
        [
            *(inner.inputs_of(row) for row in range(len(inner))),
            *([f"{inner.names[row]}:{port}"] for row, port in body.results),
        ],
        (*inner.attrs, *({"T": AttrValue(type=dtype)} for dtype in body.result_types)),
        library=graph.library,
        source=inner.source,
    )
