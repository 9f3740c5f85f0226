"""The texts of a timeline's slices, and the ends of its transfers. Texts are made when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np

from simulator.columns import Ids, Ints, alike, ids, ints
from simulator.costs.rules import category
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.partitioning.partitions import Partitions
from viz.figures import tagged
from viz.palette import PACKING, UNPACKING

TRANSFER = "transfer"


class Label(NamedTuple):
    """The text of slices."""

    name: str
    op: str  # "" for a transfer and its work
    kind: str  # category of the op; PACKING, UNPACKING, "transfer", "step", ..


class DrawnClient(NamedTuple):
    """A client of a trace, with the names of its graph and the places of its devices."""

    name: str
    graph: Graph
    partitions: Partitions
    devices: Ids | None = None  # [D] the cluster's device for each device of the partitions; None: the same


@dataclass(frozen=True, eq=False)
class DrawnTransfers:
    """The ends and sizes of the transfers of a trace. Axis: X."""

    source: Ids  # [X] device
    target: Ids  # [X] device
    nbytes: Ints  # [X] 0 for a dead one, -1 unknown


def transfers_of(trace: Trace, clients: Sequence[DrawnClient]) -> DrawnTransfers:
    """The ends and the size of each transfer of a trace."""
    source, target, nbytes = (np.zeros(len(trace.transfers.row), np.int64) for _ in range(3))
    for number, (_, _, pieces, devices) in enumerate(clients):
        rows = np.flatnonzero(trace.transfers.client == number)
        own = trace.transfers.row[rows]
        place = np.arange(len(pieces.devices)) if devices is None else devices
        source[rows], target[rows] = place[pieces.src_device[own]], place[pieces.dst_device[own]]
        nbytes[rows] = pieces.nbytes[own]
    return DrawnTransfers(ids(source), ids(target), ints(np.where(trace.transfers.dead, 0, nbytes)))


@dataclass(frozen=True, eq=False)
class Labels(Sequence[Label]):
    """The labels of a trace: those of ops, then of transfers on links, of the work that packs them, that unpacks them.

    A step of a million nodes has as many, of which a page shows a few at a time. Axes: A, B.
    """

    trace: Trace
    clients: Sequence[DrawnClient]
    op: Ids  # [A] an op of the trace with that label
    transfer: Ids  # [B] a transfer of the trace with that name

    @property
    def packing(self) -> int:
        """The distance from the label of a transfer to that of its packing."""
        return len(self.transfer)

    @property
    def unpacking(self) -> int:
        """The distance from the label of a transfer to that of its unpacking."""
        return 2 * len(self.transfer)

    def __len__(self) -> int:
        return len(self.op) + 3 * len(self.transfer)

    @overload
    def __getitem__(self, row: int) -> Label: ...

    @overload
    def __getitem__(self, row: slice) -> tuple[Label, ...]: ...

    def __getitem__(self, row: int | slice) -> Label | tuple[Label, ...]:
        rows = range(len(self))[row]
        return self._label(rows) if isinstance(rows, int) else tuple(map(self._label, rows))

    def _label(self, row: int) -> Label:
        if row < len(self.op):
            ops, at = self.trace.ops, self.op[row]
            _, graph, pieces, _ = self.clients[ops.client[at]]
            origin = pieces.origin[ops.node[at]]
            name = tagged(graph.names[origin], self.trace.iterations[ops.iteration[at]])
            return Label(name, graph.ops[origin], category(graph.ops[origin]))
        part, number = divmod(row - len(self.op), len(self.transfer))
        verb, kind = (("", TRANSFER), ("send ", PACKING), ("receive ", UNPACKING))[part]
        return Label(verb + self._name(self.transfer[number]), "", kind)

    def _name(self, transfer: int) -> str:
        """ "node:port#iteration" of a transfer."""
        moved = self.trace.transfers
        _, graph, pieces, _ = self.clients[moved.client[transfer]]
        tensor = int(pieces.tensor[moved.row[transfer]])
        name = graph.tensor_name(tensor) if tensor >= 0 else f"^{graph.names[-1 - tensor]}"
        return tagged(name, self.trace.iterations[moved.iteration[transfer]])


def labels_of(trace: Trace, clients: Sequence[DrawnClient]) -> tuple[Labels, Ids, Ids]:
    """The labels of a trace, with the row of each op and of each transfer.

    What runs in several steps, or in several clients of one program, has one label in all of them.
    """
    numbers: dict[int, int] = {}
    program = ids([numbers.setdefault(id(one.partitions), len(numbers)) for one in clients])
    ops, moved = trace.ops, trace.transfers
    op, of_op = alike(program[ops.client], ops.node, ops.iteration)
    transfer, of_transfer = alike(program[moved.client], moved.row, moved.iteration)
    return Labels(trace, clients, ids(op), ids(transfer)), ids(of_op), ids(len(op) + of_transfer)
