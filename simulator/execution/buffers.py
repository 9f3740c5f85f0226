"""Buffers of outputs: memory of their own, or that of an input; and constants that are copied to their readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, alike, flags, ids, ints
from simulator.execution.stored import stored
from simulator.graph.dtypes import REF
from simulator.graph.handing_on import COPIED, NONE, REUSES, Reuse
from simulator.graph.op_classes import CONSTANTS, CONTROL_FLOW, MERGES, VARIABLES
from simulator.partitioning.passes.replication import is_small

if TYPE_CHECKING:
    from simulator.costs.table import CostTable
    from simulator.execution.table_columns import LaidStep, Ops

OWN, RESIDENT = -1, -2  # Tables.forwards: a buffer of its own; memory that is there before and after the step

# Output 0 (of a Switch every output) is the buffer of input 0: the kernels set their output from their input without
# allocating (kernels/identity_op.cc, reshape_op.cc, control_flow_ops.cc, resource_variable_ops.cc, sendrecv_ops.cc).
_FORWARDS = CONTROL_FLOW | {
    "Identity",
    "Reshape",
    "Squeeze",
    "ExpandDims",
    "StopGradient",
    "PreventGradient",
    "Snapshot",
    "CheckNumerics",
    "PlaceholderWithDefault",
    "Bitcast",
    "LoopCond",
    "RefIdentity",
    "ReadVariableOp",
    "EnsureShape",
    "_Send",
    "_Recv",
    "_HostSend",
    "_HostRecv",
}
_FORWARDS_EACH = frozenset({"IdentityN"})  # output i is input i
_NEVER = Reuse(first=1, last=0)  # what no kernel asks for
_RESIDENT = CONSTANTS | VARIABLES | {"TemporaryVariable", "_VarHandlesOp", "ImmutableConst"}


@dataclass(frozen=True, eq=False)
class Buffers:
    """The memory that the step takes; part of `Tables`. Axes: n ops, T tensors, K pairs of a list and what it keeps, P
    of an output and an input that it may overwrite.
    """

    tensor_bytes: Ints  # [T] that go to another device: of a list all that it holds; 0 where unknown
    made_bytes: Ints  # [T] of a buffer of its own: of a list or array the rows that were copied into it
    scratch_bytes: Ints  # [n] held while the op runs, outputs that nobody reads included
    resident_bytes: Ints  # [n] held all the time on the op's device
    forwards: Ids  # [T] edge by which the buffer came that it passes on, to its op or to one that stored it; or OWN, ..
    out_of: Ids  # [T] edge of the list out of which what was stored was taken: on another device, of its copy there; -1
    keeper: Ids  # [K] list or array that keeps what came by an edge: an older one, or a value; ascending
    kept: Ids  # [K] the edge
    writer: Ids  # [P] op that may write an output over an input; ascending, then in the order in which it asks
    written: Ids  # [P] the output, -1: nobody reads it
    over: Ids  # [P] the edge by which the input comes
    replicable: Flags  # [T] a small constant that is copied to the CPUs where it is read instead of sent


def buffers(laid: LaidStep, costs: CostTable) -> Buffers:
    """The memory columns."""
    graph, ops, edges = laid.graph, laid.ops, laid.edges
    resident = np.where(ops.inserted, 0, costs.resident_bytes[ops.cost_row])
    copies = ops.inserted & ops.are({"Const"})  # also what a control edge sends: 0 bytes
    resident[copies] = np.maximum(graph.tensor_bytes[graph.tensor_ptr[ops.node[copies]]], 0)
    held = ops.are(_RESIDENT) | (resident > 0)
    resident[_repeated(ops, held)] = 0
    handed_on = np.full(len(ops.kind), NONE, np.int64)
    if costs.handed_on is not None:
        handed_on[~ops.inserted] = costs.handed_on[ops.cost_row[~ops.inserted]]
    forwarded = _forwarded(laid, handed_on)
    nbytes = edges.nbytes[laid.first_edge]
    keeping = stored(laid, nbytes, forwarded)
    number = _numbers(laid)
    forwards = number.of_input(forwarded)
    forwards = np.where((forwards == OWN) & (keeping.view >= 0), number.of_given(keeping.view), forwards)
    reference = np.zeros(len(forwards), bool)
    reference[laid.tensor_of[edges.apart]] = True
    forwards[held[laid.layout.tensor_op] | reference] = RESIDENT
    scratch = costs.scratch_bytes[ops.cost_row] + np.where(held, 0, _unread(laid, handed_on))
    reused = _reusable(laid, handed_on >= 0)
    older, added = np.flatnonzero(keeping.older >= 0), np.flatnonzero(keeping.added >= 0)
    by = np.argsort(np.concatenate([older, added]), kind="stable")
    return Buffers(
        tensor_bytes=ints(nbytes + keeping.list_bytes),
        made_bytes=ints(np.where(keeping.lists, 0, nbytes) + keeping.copied_bytes),
        scratch_bytes=ints(np.where(ops.inserted | ops.silent, 0, scratch)),
        resident_bytes=ints(resident),
        forwards=ids(forwards),
        out_of=ids(number.of_given(keeping.out_of)),
        keeper=ids(np.concatenate([older, added])[by]),
        kept=ids(number.of_given(np.concatenate([keeping.older[older], keeping.added[added]])[by])),
        writer=ids(reused.writer),
        written=ids(reused.written),
        over=ids(number.of_given(reused.over)),
        replicable=flags(_replicable(laid)),
    )


class _Numbers(NamedTuple):
    """The edges of the layout by their tensor and reader."""

    pairs: npt.NDArray[np.int64]  # [E] tensor * ops + reader, ascending
    given: npt.NDArray[np.int64]  # the same of each given edge
    tensor_op: Ids  # [T]
    ops: int

    def of_given(self, edge: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The edges that given edges became; those less than 0 stay."""
        found: npt.NDArray[np.int64] = edge.copy()
        real = edge >= 0
        found[real] = np.searchsorted(self.pairs, self.given[edge[real]])
        return found

    def of_input(self, tensor: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """[T] the edges by which tensors came to the op of each tensor; those less than 0 stay."""
        found: npt.NDArray[np.int64] = tensor.copy()
        real = np.flatnonzero(tensor >= 0)
        found[real] = np.searchsorted(self.pairs, tensor[real] * self.ops + self.tensor_op[real])
        return found


def _numbers(laid: LaidStep) -> _Numbers:
    layout, count = laid.layout, len(laid.ops.kind)
    tensor = np.repeat(np.arange(len(layout.tensor_op)), np.diff(layout.consumer_ptr))
    given = laid.tensor_of * count + laid.edges.target
    return _Numbers(tensor * count + layout.consumer, given, layout.tensor_op, count)


def _repeated(ops: Ops, held: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Further iterations of what is resident: all use the memory of the first."""
    rows = np.flatnonzero(held)
    return np.delete(rows, np.unique(ops.node[rows], return_index=True)[1])


def _forwarded(laid: LaidStep, handed_on: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[T] the input tensor whose buffer each tensor is, or OWN.

    `handed_on` [n] is the input that an op hands on, or `NONE`, or `COPIED`.
    """
    graph, ops, layout = laid.graph, laid.ops, laid.layout
    each = ops.are(_FORWARDS_EACH)
    passes = (ops.are(_FORWARDS) & (handed_on != COPIED)) | each | (handed_on >= 0)
    merges = ops.are(MERGES)
    given, first = laid.data_inputs(passes)
    forwarded = np.full(len(layout.tensor_op), OWN, np.int64)
    values = np.flatnonzero(passes[layout.tensor_op] & (layout.tensor_row >= 0))
    op, port = layout.tensor_op[values], graph.tensor_port[layout.tensor_row[values]]
    place = first[op] + np.where(each[op], port, np.maximum(handed_on[op], 0))
    real = (place < first[op + 1]) & ~(merges[op] & (port > 0))  # the number of a Merge's input is its own
    forwarded[values[real]] = laid.tensor_of[given[place[real]]]
    forwarded[laid.tensor_of[laid.edges.dead]] = OWN  # of no bytes
    return forwarded


def _unread(laid: LaidStep, handed_on: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[n] bytes of the outputs that nobody reads: they are freed when the op ends, like scratch."""
    graph, ops, layout = laid.graph, laid.ops, laid.layout
    passes, merges = (
        np.fromiter(map(kinds.__contains__, graph.ops), bool, len(graph))[graph.tensor_node]
        for kinds in (_FORWARDS | _FORWARDS_EACH, MERGES)
    )
    passes &= ~(merges & (graph.tensor_port > 0))  # the number of a Merge's input is its own
    copying = np.zeros(len(graph), bool)
    copying[ops.node[handed_on == COPIED]] = True
    passes &= ~copying[graph.tensor_node]
    own = np.where((graph.tensor_dtype < REF) & ~passes, np.maximum(graph.tensor_bytes, 0), 0)
    all_of = np.bincount(graph.tensor_node, own, minlength=len(graph)).astype(np.int64)
    read = np.flatnonzero((layout.tensor_row >= 0) & ~layout.stays)
    op, row = layout.tensor_op[read], layout.tensor_row[read]
    of_read = np.bincount(op, own[row], minlength=len(ops.kind)).astype(np.int64)
    return np.where(ops.inserted | (handed_on >= 0), 0, all_of[ops.node] - of_read)


def _replicable(laid: LaidStep) -> npt.NDArray[np.bool_]:
    """[T] constants that the cut may copy to their readers (partitioning/passes/replication.py); they wait for nothing.

    Those with control inputs are left out here: their copies would wait for them at each place where they are read.
    """
    ops, edges, tensor_op = laid.ops, laid.edges, laid.layout.tensor_op
    few = np.zeros(len(tensor_op), bool)
    readers = np.bincount(laid.tensor_of, minlength=len(few))
    free = ops.are({"Const"})
    free[edges.target] = False
    free[edges.source[edges.row < 0]] = False
    for tensor in np.flatnonzero(free[tensor_op] & (readers > 1)).tolist():
        few[tensor] = is_small(laid.graph, int(ops.node[tensor_op[tensor]]))
    return few


class _Reusable(NamedTuple):
    """Pairs of an output and an input of the same type and size, by op, then as its kernel asks. Axis: P."""

    writer: npt.NDArray[np.int64]  # [P] op
    written: npt.NDArray[np.int64]  # [P] its tensor, -1: nobody reads it
    over: npt.NDArray[np.int64]  # [P] given edge by which the input comes


def _reusable(laid: LaidStep, passes: npt.NDArray[np.bool_]) -> _Reusable:
    """The outputs that may be written over an input. Ops that hand one on, [n] `passes`, write nothing; one that an op
    reads twice is none.
    """
    graph, ops, edges, layout = laid.graph, laid.ops, laid.edges, laid.layout
    different, kind = ops.numbered
    asked = np.array([_NEVER, *(REUSES.get(one, _NEVER) for one in different)], np.int64)
    port, first, last = asked[np.where(passes, 0, kind + 1)].T
    given, begin = laid.data_inputs((first <= last) & ~ops.silent)
    op = edges.target[given].astype(np.int64)
    slot = np.arange(len(given)) - begin[op]
    place = alike(laid.tensor_of[given], op)[1]
    count = np.bincount(place)
    row, put_out = edges.row[given], graph.tensor_ptr[ops.node[op]] + port[op]
    fits = (first[op] <= slot) & (slot <= last[op]) & (count[place] == 1) & (graph.tensor_bytes[row] > 0)
    fits &= graph.tensor_bytes[row] == graph.tensor_bytes[put_out]
    fits &= graph.tensor_dtype[row] % REF == graph.tensor_dtype[put_out] % REF
    values = np.flatnonzero(layout.tensor_row >= 0)  # sorted by (op, port), and so by (op, row)
    rows = len(graph.tensor_bytes) + 1
    keys = layout.tensor_op[values].astype(np.int64) * rows + layout.tensor_row[values]
    wanted = op[fits] * rows + put_out[fits]
    found = np.append(values, -1)[np.searchsorted(keys, wanted)]
    is_read = np.append(keys, -1)[np.searchsorted(keys, wanted)] == wanted
    return _Reusable(op[fits], np.where(is_read, found, -1), given[fits])
