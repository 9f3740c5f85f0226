"""The edges of a graph while it is cut, as columns. Nodes that the cut adds are numbered after those of the graph."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.graph.building import without_twins
from simulator.graph.editor import CONTROL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.graph.graph import Graph
    from simulator.graph.step import Exchange

Column: TypeAlias = npt.NDArray[np.int64]
FIRST_ID = 3  # edges 0, 1 and 2 join TensorFlow's own source and sink
LAST = 2**31  # the slot of a control edge: after all data


@dataclass(frozen=True, eq=False)
class Edges:
    """One row per edge, in any order."""

    src: Column  # node
    port: Column  # of the source, CONTROL
    dst: Column  # node
    slot: Column  # of the destination, LAST for control
    id: Column  # TensorFlow's edge id (semantics: creation order, renumbered after pruning)
    back: npt.NDArray[np.bool_]  # closes a loop
    loop: npt.NDArray[np.bool_]  # control edge from a control loop's Merge, which a Recv may take over

    def __len__(self) -> int:
        return len(self.src)

    def take(self, rows: npt.NDArray[np.generic]) -> Edges:
        """Those rows, in that order; a mask works too."""
        return Edges(*(getattr(self, column.name)[rows] for column in fields(self)))

    def join(self, *others: Edges) -> Edges:
        """These edges, then the others."""
        tables = (self, *others)
        return Edges(*(np.concatenate([getattr(table, c.name) for table in tables]) for c in fields(self)))


def new_edges(src: Column, port: Column | int, dst: Column, slot: Column | int, number: Column | int = 0) -> Edges:
    """Edges from columns, `number` being their ids; a single number stands for a whole column."""
    none = np.zeros(len(dst), bool)
    port, slot, number = (np.broadcast_to(column, len(dst)) for column in (port, slot, number))
    return Edges(src, port, dst, slot, number, none, none)


def waits(pairs: Iterable[tuple[int, int]], number: int = 0) -> Edges:
    """Control edges (source, destination), all with one id: their order is that in which they are given."""
    src, dst = np.array(list(pairs), np.int64).reshape(-1, 2).T
    return new_edges(src, CONTROL, dst, LAST, number)


def edges_of(graph: Graph) -> Edges:
    """The edges of a graph in their order, each control edge once; ids are rows of the graph's edges."""
    edge = without_twins(graph.edge_src, graph.edge_dst, graph.edge_tensor < 0, len(graph))
    src, dst, tensor = (column[edge].astype(np.int64) for column in (graph.edge_src, graph.edge_dst, graph.edge_tensor))
    control = tensor < 0
    ports = np.append(graph.tensor_port, 0).astype(np.int64)  # never empty: control edges ask for row 0
    port = np.where(control, CONTROL, ports[np.maximum(tensor, 0)])
    none = np.zeros(len(edge), bool)
    return Edges(
        src, port, dst, np.where(control, LAST, edge - graph.in_ptr[dst]), edge, np.asarray(graph.edge_back)[edge], none
    )


def step_edges(graph: Graph, client: Exchange) -> Edges:
    """The edges of the step; what the client hands in comes from node N + its row in `client.fed`.

    Ids are in the order of creation, with gaps; the copying of constants closes them.
    """
    runs = np.zeros(len(graph.edge_src), bool)
    runs[client.edges] = True
    whole = edges_of(graph)
    whole = whole.take(runs[whole.id])
    fed = client.of_edge[whole.id]
    return replace(
        whole,
        src=np.where(fed < 0, whole.src, len(graph) + fed),
        port=np.where(fed < 0, whole.port, np.minimum(whole.port, 0)),
        id=FIRST_ID + graph.creation.edge[whole.id].astype(np.int64),
    )
