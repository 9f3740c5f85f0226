"""Values that stacks, lists and arrays keep: in a loop with gradients these are most of its memory.

    forward    e ─▶ Push ─▶ list ─▶ Push ─▶ list ...        a value lives from its maker
    backward         ... list ─▶ Pop ─▶ list ─▶ Pop ─▶ e    until the last reader of what is popped

A list is a value (tensorflow/core/kernels/list_kernels.h). Each push makes a list that also keeps the older one, and a
pop hands out the older list and the newest value. A stack is a resource: pushes and pops are matched by their
iterations, the last first (stack.cc). An array is handed on as its flow; what is written lives as long as that
(tensor_array_ops.cc). Nobody looks at the place at which a list or an array is read. So what is read counts as a view
of the value that was added last, and all values live until the last read. A list that is made of the rows of a tensor
has copies of them, and so has an array.

A list that goes to another device is copied there with all that it holds, whenever it goes (`TensorListDeviceCopy` in
list_kernels.cc). What is taken out of it there is a part of that copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.graph.op_classes import STACK_POPS, STACK_PUSHES

if TYPE_CHECKING:
    from simulator.columns import Ints
    from simulator.execution.table_columns import LaidStep

LIST_POP, LIST_PUSH = "TensorListPopBack", "TensorListPushBack"

# op -> the slots of the list, or of the flow of an array, and of the value that is added; -1: there is none
_ADDS = {
    "EmptyTensorList": (-1, -1),
    "TensorListReserve": (-1, -1),
    "TensorListFromTensor": (-1, -1),
    LIST_PUSH: (0, 1),
    "TensorListSetItem": (0, 2),
    "TensorListResize": (0, -1),
    "TensorArrayV3": (-1, -1),
    "TensorArrayGradV3": (-1, -1),
    "TensorArrayWriteV3": (3, 2),
    "TensorArrayScatterV3": (3, -1),
    "TensorArraySplitV3": (3, -1),
}
# op -> the slot of the value of which each row is copied into the list or array
_COPIES = {"TensorListFromTensor": 0, "TensorArrayScatterV3": 2, "TensorArraySplitV3": 1}
_READS = {"TensorListGetItem": 0, "TensorArrayReadV3": 2}  # op -> the slot of the list or flow of which it reads a part
_OF_LISTS = frozenset(op for op in (*_ADDS, *_READS) if "TensorList" in op)
_NONE = -1


@dataclass(frozen=True, eq=False)
class Stored:
    """Given edges by which buffers came. Axis: T tensors; -1: none."""

    view: npt.NDArray[np.int64]  # [T] of which buffer it is a view, beside those that ops hand on
    older: npt.NDArray[np.int64]  # [T] the list to which something was added: this one keeps it
    added: npt.NDArray[np.int64]  # [T] the value that was added
    out_of: npt.NDArray[np.int64]  # [T] the list out of which a view was taken
    copied_bytes: npt.NDArray[np.int64]  # [T] of rows that were copied into it
    list_bytes: npt.NDArray[np.int64]  # [T] of all that a list holds; 0: it is none
    lists: npt.NDArray[np.bool_]  # [T] lists, as the ops put them out that make them or add to them


def stored(laid: LaidStep, nbytes: Ints, forwarded: npt.NDArray[np.int64]) -> Stored:
    """The values that lists, stacks and arrays keep. `nbytes` [T] are the bytes of values. `forwarded` [T] is the input
    tensor whose buffer each tensor is, less than 0: none.
    """
    count = len(laid.layout.tensor_op)
    view, older, added, out_of = np.full((4, count), _NONE, np.int64)
    copied_bytes, list_bytes = np.zeros((2, count), np.int64)
    found = Stored(view, older, added, out_of, copied_bytes, list_bytes, np.zeros(count, bool))
    storing = _ADDS.keys() | _READS.keys() | {LIST_POP} | STACK_PUSHES | STACK_POPS
    rows = np.flatnonzero(laid.ops.are(storing) & ~laid.ops.silent).tolist()
    if rows:
        _Storing(laid, nbytes, forwarded, rows, found).fill_in()
    return found


class _Storing:
    """Workings: the ops that store, with their inputs and outputs."""

    def __init__(
        self, laid: LaidStep, nbytes: Ints, forwarded: npt.NDArray[np.int64], rows: list[int], found: Stored
    ) -> None:
        ops, edges, layout = laid.ops, laid.edges, laid.layout
        self.ops, self.tensor_of, self.nbytes, self.rows, self.found = ops, laid.tensor_of, nbytes, rows, found
        self.passed = np.where(forwarded >= 0, forwarded, np.arange(len(forwarded)))  # whose buffer each tensor is
        while ((further := self.passed[self.passed]) != self.passed).any():  # a list may go round a loop for long
            self.passed = further
        self.tensor_op = layout.tensor_op
        wanted = np.zeros(len(ops.kind), bool)
        wanted[rows] = True
        self.inputs: dict[int, list[int]] = {op: [] for op in rows}  # data edges by slot
        for edge in np.flatnonzero(wanted[edges.target] & (edges.row >= 0) & ~edges.dead).tolist():
            self.inputs[int(edges.target[edge])].append(edge)
        self.outputs: dict[tuple[int, int], int] = {}
        made = np.flatnonzero(wanted[layout.tensor_op] & (layout.tensor_row >= 0))
        for tensor in made.tolist():
            port = int(laid.graph.tensor_port[layout.tensor_row[tensor]])
            self.outputs.setdefault((int(layout.tensor_op[tensor]), port), tensor)
        self.port = {tensor: port for (_, port), tensor in self.outputs.items()}
        self.roots: dict[int, int] = {}  # list -> the tensor that a storing op, or its maker, put out for it

    def fill_in(self) -> None:
        """Fill in what was found."""
        pushed: dict[int, list[int]] = {}  # stack -> pushes
        popped: dict[int, list[int]] = {}
        for op in self.rows:
            kind, given = self.ops.kind[op], self.inputs[op]
            if kind in _ADDS:
                for column, slot in zip((self.found.older, self.found.added), _ADDS[kind], strict=True):
                    if 0 <= slot < len(given) and (op, 0) in self.outputs:
                        column[self.outputs[op, 0]] = given[slot]
                if kind in _COPIES and len(given) > _COPIES[kind] and (op, 0) in self.outputs:
                    size = self.nbytes[self.tensor_of[given[_COPIES[kind]]]]
                    self.found.copied_bytes[self.outputs[op, 0]] = size
                if kind in _OF_LISTS and (op, 0) in self.outputs:
                    self.found.lists[self.outputs[op, 0]] = True
            elif kind in STACK_PUSHES | STACK_POPS and given:
                stack = self._passed(int(self.tensor_of[given[0]]))
                (pushed if kind in STACK_PUSHES else popped).setdefault(stack, []).append(op)
        for op in self.rows:
            kind, given = self.ops.kind[op], self.inputs[op]
            if kind == LIST_POP and given:
                self._pop(op)
            elif kind in _READS and len(given) > _READS[kind]:
                held = given[_READS[kind]]
                newest = self._newest(held)
                if newest >= 0:
                    self._see(op, 0, newest, held if kind in _OF_LISTS else _NONE)
        for stack, pushes in pushed.items():
            last_first = sorted((push for push in pushes if len(self.inputs[push]) > 1), key=self._when, reverse=True)
            for push in last_first:
                self._see(push, 0, self.inputs[push][1])
            for pop, push in zip(sorted(popped.get(stack, ()), key=self._when), last_first, strict=False):
                self._see(pop, 0, self.inputs[push][1])
        self._add_up()

    def _see(self, op: int, port: int, edge: int, out_of: int = _NONE) -> None:
        """An output is a view of what came by that edge, taken out of the list that came by the other."""
        if (op, port) in self.outputs:
            self.found.view[self.outputs[op, port]] = edge
            self.found.out_of[self.outputs[op, port]] = out_of

    def _add_up(self) -> None:
        """Find the bytes of each list, whoever hands it on: those of an older one, and of the value that was added."""
        lists, held = self.found.lists, self.found.list_bytes
        pending, known = np.flatnonzero(lists).tolist(), set[int]()
        while pending:
            one = pending[-1]
            edge, added = int(self.found.older[one]), int(self.found.added[one])
            older = self._root(int(self.tensor_of[edge])) if edge >= 0 else one
            if lists[older] and older not in known and older != one:
                pending.append(older)
                continue
            more = self.nbytes[self.tensor_of[added]] if added >= 0 else self.found.copied_bytes[one]
            held[one] = (older != one) * held[older] + more
            known.add(pending.pop())
        for op in self.rows:
            if self.ops.kind[op] == LIST_POP and (op, 0) in self.outputs:
                held[self.outputs[op, 0]] = held[self._root(self.outputs[op, 0])]
        held[:] = held[self.passed]

    def _when(self, op: int) -> tuple[int, ...]:
        return self.ops.iterations[self.ops.iteration[op]]

    def _passed(self, tensor: int) -> int:
        """The tensor whose buffer it is, as ops pass it on."""
        return int(self.passed[tensor])

    def _root(self, tensor: int) -> int:
        """The list that a tensor is, as a push or another maker put it out: a pop's older list is that of a push."""
        pending = [self._passed(tensor)]
        while pending:
            one = pending[-1]
            op = int(self.tensor_op[one])
            if one in self.roots:
                pending.pop()
            elif self.port.get(one) or self.ops.kind[op] != LIST_POP or not self.inputs[op]:
                self.roots[pending.pop()] = one
            elif (given := self._passed(int(self.tensor_of[self.inputs[op][0]]))) not in self.roots:
                pending.append(given)
            else:
                newest = int(self.found.older[self.roots[given]])
                if newest < 0:  # nothing is known to be in it
                    self.roots[pending.pop()] = one
                elif (older := self._passed(int(self.tensor_of[newest]))) in self.roots:
                    self.roots[pending.pop()] = self.roots[older]
                else:
                    pending.append(older)
        return self.roots[self._passed(tensor)]

    def _newest(self, edge: int) -> int:
        """The edge of the value that was added last to what came by an edge; -1: nobody knows of any. Where rows were
        copied into it, it is that edge itself.
        """
        root = self._root(int(self.tensor_of[edge]))
        while self.found.added[root] < 0 <= self.found.older[root] and not self.found.copied_bytes[root]:
            root = self._root(int(self.tensor_of[self.found.older[root]]))
        return edge if self.found.copied_bytes[root] else int(self.found.added[root])

    def _pop(self, op: int) -> None:
        """Note the outputs of a pop as views of what was pushed; of an unknown list the older one is a view of it."""
        given = self.inputs[op][0]
        root = self._root(int(self.tensor_of[given]))
        if self.ops.kind[int(self.tensor_op[root])] != LIST_PUSH:
            self._see(op, 0, given, given)
            if self.found.copied_bytes[root]:
                self._see(op, 1, given, given)
            return
        for port, column in enumerate((self.found.older, self.found.added)):
            if column[root] >= 0:
                self._see(op, port, int(column[root]), given)
