"""The working form of a graph while it is cut: the wires of the step, and the nodes that the cut adds.

Nodes keep their graph rows 0 .. N-1; what is added is numbered N, N+1, ... in order of creation. Nothing of this
leaves the package.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.graph.building import without_twins
from simulator.graph.dtypes import FLOAT
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.messages import AttrValue, Proto, TensorProto

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simulator.graph.step import Exchange

Column: TypeAlias = npt.NDArray[np.int64]
CONTROL = -1  # the port of a control wire
FIRST_ID = 3  # edges 0, 1 and 2 join TensorFlow's own source and sink
LAST = 2**31  # the slot of a control wire: after all data
Output: TypeAlias = tuple[int, Shape | None, int]  # dtype, shape, bytes
NodeRow: TypeAlias = tuple[str, str, Attrs, int, int, tuple[Output, ...]]  # the columns of Added
EMPTY: Output = (FLOAT, (0,), 0)  # what stands for a control edge


@dataclass(frozen=True, eq=False)
class Wires:
    """Edges of the step, one row each, in any order."""

    src: Column  # node
    port: Column  # of the source, CONTROL
    dst: Column  # node
    slot: Column  # of the destination, LAST for control
    id: Column  # TensorFlow's edge id (semantics: creation order, renumbered after pruning)
    back: npt.NDArray[np.bool_]  # closes a loop
    loop: npt.NDArray[np.bool_]  # control edge from a control loop's Merge, which a Recv may take over

    def __len__(self) -> int:
        return len(self.src)

    def take(self, rows: npt.NDArray[np.generic]) -> Wires:
        """Those rows, in that order; a mask works too."""
        columns = {column.name: getattr(self, column.name)[rows] for column in fields(self)}
        return Wires(**columns)

    def join(self, other: Wires) -> Wires:
        """These and the others."""
        columns = {c.name: np.concatenate([getattr(self, c.name), getattr(other, c.name)]) for c in fields(self)}
        return Wires(**columns)


@dataclass(frozen=True, eq=False)
class Added:
    """Nodes that the cut inserts, in order of creation; the lists grow while the passes run."""

    names: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    attrs: list[Attrs] = field(default_factory=list)
    origin: list[int] = field(default_factory=list)  # graph row that it serves
    device: list[int] = field(default_factory=list)
    outputs: list[tuple[Output, ...]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.names)

    def node(self, name: str, op: str, attrs: Attrs, origin: int, device: int, outputs: tuple[Output, ...] = ()) -> int:
        """Add one node; its number among the added ones."""
        self.extend([(name, op, attrs, origin, device, outputs)])
        return len(self.names) - 1

    def extend(self, rows: Sequence[NodeRow]) -> None:
        """Add many nodes."""
        for column, values in zip(fields(self), zip(*rows, strict=True), strict=bool(rows)):
            getattr(self, column.name).extend(values)


def wires(rows: Iterable[tuple[int, int, int, int, int]]) -> Wires:
    """Wires from rows (src, port, dst, slot, id)."""
    table = np.array(list(rows), np.int64).reshape(-1, 5)
    none = np.zeros(len(table), bool)
    return Wires(table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4], none, none)


def step_wires(graph: Graph, client: Exchange) -> Wires:
    """The edges of the step; what the client hands in comes from node N + its row in `client.fed`.

    Ids are in the order of creation, with gaps; `replicate` closes them. A control input that stands twice is one edge.
    """
    edge = edges_once(graph, client.edges)
    tensor = graph.edge_tensor[edge].astype(np.int64)
    fed = client.of_edge[edge]
    src, dst = np.where(fed < 0, graph.edge_src[edge], len(graph) + fed), graph.edge_dst[edge].astype(np.int64)
    ports = np.append(graph.tensor_port, 0)  # never empty: control wires ask for row 0
    port = np.where(fed < 0, ports[np.maximum(tensor, 0)], 0)
    return Wires(
        src=src.astype(np.int64),
        port=np.where(tensor < 0, CONTROL, port).astype(np.int64),
        dst=dst,
        slot=np.where(tensor < 0, LAST, edge - graph.in_ptr[dst]),
        id=FIRST_ID + graph.creation.edge[edge].astype(np.int64),
        back=graph.edge_back[edge],
        loop=np.zeros(len(edge), bool),
    )


def edges_once(graph: Graph, edge: npt.NDArray[np.integer]) -> Column:
    """The edges without control edges that are there already, which TensorFlow's importer leaves out."""
    src, dst, control = graph.edge_src[edge], graph.edge_dst[edge], graph.edge_tensor[edge] < 0
    return edge.astype(np.int64)[without_twins(src, dst, control, len(graph))]


@lru_cache(maxsize=256)
def type_attr(dtype: int) -> Proto:
    """An AttrValue that holds a type."""
    return AttrValue(type=dtype)


@lru_cache(maxsize=4096)
def text_attr(text: str) -> Proto:
    """An AttrValue that holds a string, remembered: for device names and the like."""
    return AttrValue(s=text.encode())


@lru_cache(maxsize=1)
def float_attrs() -> Attrs:
    """Attributes of an op that passes a float on."""
    return {"T": type_attr(FLOAT)}


@lru_cache(maxsize=1)
def empty_attrs() -> Attrs:
    """Attributes of the dummy Const that stands for a control edge: an empty float tensor."""
    nothing = TensorProto(dtype=FLOAT, tensor_shape={"dim": [{"size": 0}]})
    return {"dtype": type_attr(FLOAT), "value": AttrValue(tensor=nothing)}


def name_and_origin(graph: Graph, added: Added, node: int) -> tuple[str, int]:
    """Name of a node, and the graph row that it is or serves."""
    if node < len(graph):
        return graph.names[node], node
    return added.names[node - len(graph)], added.origin[node - len(graph)]
