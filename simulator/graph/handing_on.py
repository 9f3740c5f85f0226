"""Ops that hand an input on where there is nothing to change: no kernel starts, and all outputs share its buffer.

The kernels set their outputs from the input in a sum over axes of one element, and in a transpose that moves none. They
do so in a tile of one copy, and for whole rows from a first to a last. Sources, in tensorflow/core/kernels:
reduction_ops_common.h, transpose_op.cc, tile_ops.cc, broadcast_to_op.h, slice_op.cc, strided_slice_op.cc, split_op.cc,
split_v_op.cc, unpack_op.cc, pack_op.cc, pad_op.cc, mirror_pad_op.cc, cast_op.cc, aggregate_ops.cc; for rows,
framework/tensor.h (IsInnerDimsSizeAligned).

A side of unknown size counts as one of many elements, equal to other such sides, as times are lower bounds then. A
kernel is taken to run where a rank or an order is unknown, unless the op hands on inputs of any shape. Such inputs are
the only summand, the only part, and that of a cast to the same type. So is the input of a sum over who knows how many
axes.

A read of a variable hands its buffer on, and an assignment hands its value's buffer to the variable. Some ops take or
change rows of a variable. From then on each read and each assignment copies all of it
(kernels/resource_variable_ops.cc, EnsureSparseVariableAccess of training_op_helpers.h).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from simulator.columns import Ids, ids
from simulator.graph.const_values import CARRIERS, MOST_CARRIERS, composed
from simulator.graph.dataflow import values_in
from simulator.graph.dtypes import RESOURCE, SIZE, base
from simulator.graph.graph import Attrs, Graph, Shape

NONE, COPIED = -1, -2  # of `handed_on`: as the op always does; its output is a copy of what such ops hand on
_ALIGNED_BYTES = 64  # EIGEN_MAX_ALIGN_BYTES of the wheel: a shared buffer begins at a multiple of it


_MANY = _ALIGNED_BYTES * 1_000_003  # the elements of a side of unknown size: as no known one has, in whole rows


class _Op(NamedTuple):
    """An op whose ranks are known, with `_MANY` for an unknown side."""

    taken: Shape  # of the input that may be handed on
    given: tuple[Shape, ...]
    row_bytes: int  # of that input, from one index of its first dimension to the next
    attrs: Attrs
    constant: Callable[[int], Sequence[float] | None]  # the elements of an input, if it is a constant


def handed_on(graph: Graph) -> Ids:
    """[N] the data input whose buffer all outputs of a node are, or `NONE`; ops that always hand on are left out.

    A read or an assignment of a variable that copies it is `COPIED`.
    """
    found = np.full(len(graph), NONE, np.int32)
    found[[node for node, op in enumerate(graph.ops) if op == "AssignVariableOp"]] = _ASSIGNED
    found[_copying(graph)] = COPIED
    outputs = graph.tensor_ptr.tolist()
    for node, op in enumerate(graph.ops):
        if op not in _RULES and op not in _OF_ANY_SHAPE:
            continue
        taken = [int(graph.edge_tensor[edge]) for edge in values_in(graph, node)]
        given = range(outputs[node], outputs[node + 1])
        if op in _OF_ANY_SHAPE:
            slot, always = _OF_ANY_SHAPE[op]
            if slot < len(taken) and given and always(graph, taken, given):
                found[node] = slot
                continue
        if op in _RULES:
            slot, hands_on = _RULES[op]
            one = _op(graph, node, taken, slot, given)
            if one is not None and hands_on(one):
                found[node] = slot
    return ids(found)


_WHOLE = frozenset(("ReadVariableOp", "AssignVariableOp"))
_ASSIGNED = 1  # the input that an assignment hands to its variable


def _copying(graph: Graph) -> list[int]:
    """The reads and assignments of variables of which some op takes or changes rows."""
    changing = {op for op in set(graph.ops) if _BY_ROWS.fullmatch(op)}
    by_rows = [node for node, op in enumerate(graph.ops) if op in changing]
    if not by_rows:
        return []
    whole = [node for node, op in enumerate(graph.ops) if op in _WHOLE]
    handle_of = {
        (node, tensor): _variable(graph, tensor)
        for node in (*by_rows, *whole)
        for edge in values_in(graph, node)
        if graph.tensor_dtype[tensor := int(graph.edge_tensor[edge])] == RESOURCE
    }
    taken = {handle for (node, _), handle in handle_of.items() if graph.ops[node] not in _WHOLE}
    return [node for (node, _), handle in handle_of.items() if graph.ops[node] in _WHOLE and handle in taken]


def _variable(graph: Graph, tensor: int) -> object:
    """The variable of a handle, equal for all handles of it: by its name, or the node that has it from outside."""
    node = int(graph.tensor_node[tensor])
    for _ in range(MOST_CARRIERS):
        if graph.ops[node] not in CARRIERS | {"Switch"}:
            break
        node = int(graph.edge_src[graph.in_ptr[node]])
    attrs = graph.attrs[node]
    named = [attrs[name].s if name in attrs else b"" for name in ("container", "shared_name")]
    return tuple(named) if named[1] else node


# ops that make a variable's reads and assignments copies, as a session says (tests/oracle/test_copied_reads.py)
_BY_ROWS = re.compile(r"Resource(Gather(Nd)?|Scatter\w+|SparseApply\w+|StridedSliceAssign)")


def _op(graph: Graph, node: int, taken: Sequence[int], slot: int, given: range) -> _Op | None:
    if len(taken) <= slot or not given:
        return None
    mine, *made = (_sides(graph.tensor_shape[tensor]) for tensor in (taken[slot], *given))
    known = [shape for shape in made if shape is not None]
    if mine is None or len(known) < len(made):
        return None
    return _Op(
        taken=mine,
        given=tuple(known),
        row_bytes=SIZE.get(base(int(graph.tensor_dtype[taken[slot]])), 0) * prod(mine[1:]) if mine and mine[0] else 0,
        attrs=graph.attrs[node],
        constant=lambda at: composed(graph, taken[at]) if at < len(taken) else None,
    )


def _sides(shape: Shape | None) -> Shape | None:
    return None if shape is None else tuple(_MANY if side < 0 else side for side in shape)


# --- rules -----------------------------------------------------------------------------------------------------------


def _reduced(op: _Op) -> bool:
    """Each axis that goes has one element."""
    return prod(op.taken) == prod(op.given[0])


def _same(op: _Op) -> bool:
    return op.taken == op.given[0]


def _transposed(op: _Op) -> bool:
    """Axes of more than one element keep their order."""
    sizes = [size for size in op.taken if size != 1]
    order = op.constant(1)
    if order is None:  # axes of different sizes show their order
        told = [size for size in sizes if size != _MANY]
        return sizes == [size for size in op.given[0] if size != 1] and len(set(told)) == len(told)
    axes = [int(axis) % len(op.taken) for axis in order]
    moved = [axis for axis in axes if op.taken[axis] != 1]
    return moved == sorted(moved)


def _rows(op: _Op) -> bool:
    """Rows of the first dimension, whole, and each where a buffer may begin."""
    if any(len(shape) != len(op.taken) or shape[1:] != op.taken[1:] for shape in op.given):
        return False
    return len(op.taken) > 1 and _aligned(op)


def _aligned(op: _Op) -> bool:
    return op.row_bytes > 0 and op.row_bytes % _ALIGNED_BYTES == 0


def _sliced(op: _Op) -> bool:
    return _same(op) or _rows(op)


def _strided(op: _Op) -> bool:
    """All, some rows, or one row, and nothing else changes."""
    steps = op.constant(3)
    if steps is None or any(step != 1 for step in steps):
        return False
    if prod(op.taken) == prod(op.given[0]):
        return True
    dropped, added = (int(op.attrs[name].i) if name in op.attrs else 0 for name in _MASKS)
    if dropped == 1 and not added:
        return op.given[0] == op.taken[1:] and len(op.taken) > 1 and _aligned(op)
    return not dropped and not added and _rows(op)


_MASKS = ("shrink_axis_mask", "new_axis_mask")


def _unpacked(op: _Op) -> bool:
    axis = int(op.attrs["axis"].i) if "axis" in op.attrs else 0
    return axis in (0, -len(op.taken)) and len(op.taken) > 1 and _aligned(op)


def _alone(graph: Graph, taken: Sequence[int], given: range) -> bool:
    return len(taken) == 1


def _whole(graph: Graph, taken: Sequence[int], given: range) -> bool:
    """One part is all."""
    return len(given) == 1


def _of_same_type(graph: Graph, taken: Sequence[int], given: range) -> bool:
    return base(int(graph.tensor_dtype[taken[0]])) == base(int(graph.tensor_dtype[given.start]))


def _over_any(graph: Graph, taken: Sequence[int], given: range) -> bool:
    """There may be no axes: neither their number nor the sizes of input and output tell."""
    axes = graph.tensor_shape[taken[1]] if len(taken) > 1 else ()
    if axes is not None and -1 not in axes:
        return False
    mine, made = graph.tensor_shape[taken[0]], graph.tensor_shape[given.start]
    return mine is None or made is None or (len(mine) == len(made) and -1 in (*mine, *made))


_REDUCING = ("Sum", "Prod", "Max", "Min", "Mean", "All", "Any")
_RULES: Mapping[str, tuple[int, Callable[[_Op], bool]]] = {  # op -> the input that may be handed on, and when it is
    **dict.fromkeys(_REDUCING, (0, _reduced)),
    **dict.fromkeys(["Tile", "BroadcastTo", "Pad", "PadV2", "MirrorPad"], (0, _same)),
    "Transpose": (0, _transposed),
    "Slice": (0, _sliced),
    "StridedSlice": (0, _strided),
    "Split": (1, _rows),
    "SplitV": (0, _rows),
    "Unpack": (0, _unpacked),
}
# op -> the input that is handed on whatever its shape, and when it is
_OF_ANY_SHAPE: Mapping[str, tuple[int, Callable[[Graph, Sequence[int], range], bool]]] = {
    **dict.fromkeys(["Pack", "AddN"], (0, _alone)),
    "Split": (1, _whole),
    "SplitV": (0, _whole),
    "Cast": (0, _of_same_type),
    **dict.fromkeys(_REDUCING, (0, _over_any)),
}


# --- outputs over inputs ---------------------------------------------------------------------------------------------

# Ops that write an output over an input which nobody else needs any more. Their kernels ask for it by
# `forward_input_or_allocate_output` (core/framework/op_kernel.cc), which grants the buffer of the first input of the
# same type and number of elements to which no other reference is left. Which ops ask, and about which inputs, was found
# by sessions of TensorFlow 2.21 op by op, on a CPU (tests/oracle/test_reuse.py). The kernels of GPUs are mostly of the
# same classes. MaxPoolGrad asks on a CPU alone and is left out.


class Reuse(NamedTuple):
    """The output that may be written over an input, and the inputs about which the kernel asks, in order."""

    port: int = 0
    first: int = 0
    last: int = 0


_ALL = 2**31 - 1


_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e "
    "BesselK1 BesselK1e BesselY0 BesselY1 Ceil Conj Cos Cosh Dawsn Digamma Erf Erfc Erfinv Exp Expint Expm1 Floor "
    "FresnelCos FresnelSin Inv Invert Lgamma Log Log1p LogicalNot Ndtri Neg Reciprocal Rint Round Rsqrt Sigmoid Sign "
    "Sin Sinh Spence Sqrt Square Tan Tanh Elu LeakyRelu Relu Relu6 Selu Softplus Softsign FakeQuantWithMinMaxArgs "
    "BiasAdd BiasAddV1 ClipByValue Softmax LogSoftmax OnesLike ZerosLike AdjustHue IsotonicRegression "
    "MatrixBandPart MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 Cholesky MatrixInverse MatrixLogarithm "
    "MatrixSquareRoot Lu Qr InplaceAdd InplaceSub InplaceUpdate ScatterNdNonAliasingAdd TensorStridedSliceUpdate"
)
_BINARY = (
    "Add AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor Div DivNoNan Equal FloorDiv FloorMod Igamma IgammaGradA Igammac "
    "InvGrad LeftShift LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan NextAfter NotEqual Polygamma Pow "
    "RandomGammaGrad RealDiv ReciprocalGrad RightShift RsqrtGrad SigmoidGrad SqrtGrad SquaredDifference Sub TanhGrad "
    "TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta EluGrad LeakyReluGrad Relu6Grad ReluGrad SeluGrad SoftplusGrad "
    "SoftsignGrad FakeQuantWithMinMaxArgsGradient CholeskyGrad"
)
REUSES: Mapping[str, Reuse] = {
    **dict.fromkeys(_UNARY.split(), Reuse()),
    **dict.fromkeys(_BINARY.split(), Reuse(last=1)),
    **dict.fromkeys(("Select", "SelectV2"), Reuse(first=1, last=2)),
    **dict.fromkeys(("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"), Reuse(port=1)),
    "AddN": Reuse(last=_ALL),
}
