"""The texts of a timeline's slices, made when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from simulator.columns import Ids, alike, ids
from simulator.costs.rules import category
from simulator.execution.trace import Trace
from viz.figures import tagged
from viz.palette import PACKING, UNPACKING
from viz.transfers import DrawnClient

TRANSFER = "transfer"


class Label(NamedTuple):
    """The text of slices."""

    name: str
    op: str  # "" for a transfer and its work
    kind: str  # category of the op; PACKING, UNPACKING, "transfer", "step", ..


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
