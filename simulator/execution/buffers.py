"""Which outputs take memory of their own, which pass a buffer on, and which constants are copied to their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.graph.control_flow import MERGES
from simulator.graph.dtypes import REF
from simulator.partitioning.replication import is_small

if TYPE_CHECKING:
    from simulator.costs.table import CostTable
    from simulator.execution.assembling import Edges, Layout, Ops
    from simulator.graph.graph import Graph

OWN, RESIDENT = -1, -2  # Tables.forwards: a buffer of its own; memory that is there before and after the step

# Output 0 (of a Switch every output) is the buffer of input 0: the kernels set their output from their input without
# allocating (kernels/identity_op.cc, reshape_op.cc, control_flow_ops.cc, resource_variable_ops.cc, sendrecv_ops.cc).
_FORWARDS = frozenset(
    (
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
        "Switch",
        "RefSwitch",
        "_SwitchN",
        "Merge",
        "RefMerge",
        "Enter",
        "RefEnter",
        "Exit",
        "RefExit",
        "NextIteration",
        "RefNextIteration",
        "LoopCond",
        "RefIdentity",
        "ReadVariableOp",
        "EnsureShape",
        "_Send",
        "_Recv",
        "_HostSend",
        "_HostRecv",
    )
)
_FORWARDS_EACH = frozenset({"IdentityN"})  # output i is input i
_RESIDENT = frozenset(
    (
        "Const",
        "HostConst",
        "Variable",
        "VariableV2",
        "TemporaryVariable",
        "VarHandleOp",
        "AutoReloadVariable",
        "_VarHandlesOp",
        "ImmutableConst",
    )
)


class Buffers(TypedDict):
    """Columns of `Tables` that say what memory the step takes."""

    scratch_bytes: Ints
    resident_bytes: Ints
    forwards: Ids
    replicable: Flags


def buffers(
    graph: Graph, ops: Ops, edges: Edges, columns: Layout, tensor_of: npt.NDArray[np.int64], costs: CostTable
) -> Buffers:
    """The memory columns; `tensor_of` is the tensor of each given edge."""
    resident = np.where(ops.inserted, 0, costs.resident_bytes[ops.cost_row])
    copies = ops.inserted & np.array(
        [op == "Const" for op in ops.kind], bool
    )  # also what a control edge sends: 0 bytes
    resident[copies] = np.maximum(graph.tensor_bytes[graph.tensor_ptr[ops.node[copies]]], 0)
    held = np.array([op in _RESIDENT for op in ops.kind], bool) | (resident > 0)
    forwards = _forwards(graph, ops, edges, columns, tensor_of)
    reference = np.zeros(len(forwards), bool)
    reference[tensor_of[edges.apart]] = True
    forwards[held[columns["tensor_op"]] | reference] = RESIDENT
    scratch = costs.scratch_bytes[ops.cost_row] + np.where(held, 0, _unread(graph, ops, columns))
    return Buffers(
        scratch_bytes=ints(np.where(ops.inserted, 0, scratch)),
        resident_bytes=ints(resident),
        forwards=ids(forwards),
        replicable=flags(_replicable(graph, ops, edges, columns, tensor_of)),
    )


def _forwards(
    graph: Graph, ops: Ops, edges: Edges, columns: Layout, tensor_of: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """[T] the input tensor whose buffer each tensor passes on, or OWN."""
    inputs: dict[int, list[int]] = {}  # op that forwards -> tensors of its data inputs, in order of slot
    passes = np.array([op in _FORWARDS or op in _FORWARDS_EACH for op in ops.kind], bool)
    for edge in np.flatnonzero(passes[edges.target] & (edges.row >= 0)).tolist():
        inputs.setdefault(int(edges.target[edge]), []).append(int(tensor_of[edge]))
    forwards = np.full(len(columns["tensor_op"]), OWN, np.int64)
    rows = columns["tensor_row"]
    for tensor in np.flatnonzero(passes[columns["tensor_op"]] & (rows >= 0)).tolist():
        op = int(columns["tensor_op"][tensor])
        given = inputs.get(op, ())
        slot = _passed(ops.kind[op], int(graph.tensor_port[rows[tensor]]))
        if 0 <= slot < len(given):
            forwards[tensor] = given[slot]
    return forwards


def _passed(kind: str, port: int) -> int:
    """The slot of the input whose buffer this output is, -1: it is none of them, as the number of a Merge's input."""
    if kind in _FORWARDS_EACH:
        return port
    return 0 if kind in _FORWARDS and not (kind in MERGES and port) else -1


def _unread(graph: Graph, ops: Ops, columns: Layout) -> npt.NDArray[np.int64]:
    """[n] bytes of the outputs that nobody reads: they are freed when the op ends, like scratch."""
    unread = graph.tensor_bytes > 0
    rows, makers = columns["tensor_row"], columns["tensor_op"]
    values = np.flatnonzero(rows >= 0)
    made = ops.row_op[graph.tensor_node[rows[values]]] == makers[values]  # not what the client hands in instead
    unread[rows[values[made]]] = False
    unread &= graph.tensor_dtype < REF
    op = ops.row_op[graph.tensor_node]
    unread &= op >= 0  # the others do not run
    loose = np.flatnonzero(unread)
    places = zip(op[loose].tolist(), graph.tensor_port[loose].tolist(), strict=True)
    unread[loose] = [_passed(ops.kind[maker], port) < 0 for maker, port in places]
    return np.bincount(op[unread], graph.tensor_bytes[unread], minlength=len(ops.kind)).astype(np.int64)


def _replicable(
    graph: Graph, ops: Ops, edges: Edges, columns: Layout, tensor_of: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """[T] constants that the cut may copy to their readers (partitioning/replication.py), and that wait for nothing.

    Those with control inputs are left out here: their copies would wait for them at each place where they are read.
    """
    few = np.zeros(len(columns["tensor_op"]), bool)
    readers = np.bincount(tensor_of, minlength=len(few))
    waits = np.zeros(len(ops.kind), bool)
    waits[edges.target] = True
    controls = np.zeros(len(ops.kind), bool)
    controls[edges.source[edges.row < 0]] = True
    for tensor, op in enumerate(columns["tensor_op"].tolist()):
        if ops.kind[op] == "Const" and readers[tensor] > 1 and not (waits[op] or controls[op]):
            few[tensor] = is_small(graph, int(ops.node[op]))
    return few
