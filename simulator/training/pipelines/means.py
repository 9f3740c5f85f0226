"""Find by what a mean over the batch divides, and refuse a loss that is no such mean.

The gradient of a mean over the batch is the mean of those over microbatches, if each divides by its own number of
examples. TensorFlow takes that number from shapes, or writes it down as a constant where it is known beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.errors import GraphError
from simulator.graph.const_values import constant
from simulator.graph.dataflow import readers, values_in
from simulator.graph.dtypes import TRAINED
from simulator.graph.graph import Graph, Shape
from simulator.graph.tensors import SHAPES, shape_of
from simulator.graph.traversal import closure, fan_out

_SOFT = frozenset(("Softmax", "LogSoftmax"))  # over the last axis
SIZES = frozenset(("Shape", "ShapeN", "Size", "Rank", "OnesLike", "ZerosLike"))  # they read no element
_DIVISIONS = frozenset(("RealDiv", "Div", "DivNoNan"))
_PASSES = frozenset(("Cast", "Identity", "Reshape", "ExpandDims", "Prod"))  # of one number


@dataclass(frozen=True, eq=False)
class Batches:
    """A graph with a whole batch and the same with that of a microbatch; `copied` is what works on the latter."""

    whole: Graph
    small: Graph
    copied: Sequence[int]
    numbers: Collection[int]  # copied ones that depend on the number of examples, and on no example
    examples: int  # of the whole batch
    parts: int  # microbatches of it

    def axes(self, tensor: int) -> list[int]:
        """The axes of a tensor that follow the batch."""
        was, now = self.whole.tensor_shape[tensor] or (), self.small.tensor_shape[tensor] or ()
        return [at for at, (before, after) in enumerate(zip(was, now, strict=False)) if before != after]

    def across(self, row: int) -> bool:
        """Tell whether a node is a softmax over the examples."""
        taken = values_in(self.small, row)
        tensor = int(self.small.edge_tensor[taken[0]]) if self.small.ops[row] in _SOFT and taken else -1
        return tensor >= 0 and len(self.small.tensor_shape[tensor] or ()) - 1 in self.axes(tensor)

    def known(self, tensor: int) -> bool:
        """Tell whether the whole shape of a tensor is known in both."""
        shapes = (self.whole.tensor_shape[tensor], self.small.tensor_shape[tensor])
        return all(shape is not None and -1 not in shape for shape in shapes)


def numbers_in(graph: Graph, copied: Sequence[int], reading: Sequence[int]) -> set[int]:
    """The copied nodes that depend on the number of examples, and on no example."""
    inside = set(copied)
    heads = {int(graph.edge_dst[edge]) for edge in reading}
    heads |= {row for row in copied if graph.ops[row].startswith(("Random", "TruncatedNormal", "Stateless"))}
    heads = {row for row in heads if graph.ops[row] not in SIZES}
    moved = closure(
        heads & inside, lambda row: (at for at in readers(graph, row) if at in inside and graph.ops[at] not in SIZES)
    )
    return inside - moved


def divisors_in(
    whole: Graph, small: Graph, tower: Sequence[int], late: Sequence[int], examples: int, fewer: int
) -> dict[int, float]:
    """Constants by which a mean over the batch divides, with their values for a microbatch.

    No shape says so, as they are mere numbers. They are the elements of its input that make one of a Mean's output,
    where its gradient divides a tensor of that input's shape. Or they are the batch itself, by which a single number is
    divided. The file may have had another batch, which its own shapes show.
    """
    inside = set(late)
    means: dict[tuple[Shape | None, float], set[float | None]] = {((), float(examples)): {float(fewer)}}
    for row, op in enumerate(small.ops):  # the gradient may need none of it, so it need not be copied
        if op == "Mean":
            shape, share, before = _mean(whole, row)
            now = _mean(small, row)[1]
            for one in (share, before):  # None: it counts no examples
                means.setdefault((shape, one), set()).add(None if share == now else now)
    found: dict[int, float] = {}
    for row in tower:
        edges = values_in(small, row)
        if small.ops[row] not in _DIVISIONS or len(edges) < 2:
            continue
        divisor = _behind(small, int(small.edge_src[edges[1]]))
        numbers = constant(small, divisor)
        if numbers is None or len(numbers) != 1 or numbers != constant(whole, divisor):
            continue
        kinds = means.get((whole.tensor_shape[whole.edge_tensor[edges[0]]], numbers[0]), set())
        if len(kinds) > 1:
            raise GraphError(
                f"{small.source}: {small.names[row]!r} divides by {numbers[0]:g}, which may count examples or not.",
                node=small.names[row],
            )
        value = next(iter(kinds), None)
        if value is not None and inside.issuperset(readers(small, divisor)):
            found[divisor] = value
    return found


def _mean(graph: Graph, row: int) -> tuple[Shape | None, float, float]:
    """The shape of the input of a Mean, and how many of its elements make one: now, and by the shapes of the file."""
    edge = values_in(graph, row)[0]
    tensor = int(graph.edge_tensor[edge])
    shape, made = graph.tensor_shape[tensor], graph.tensor_shape[graph.tensor_ptr[row]]
    if shape is None or made is None:
        return None, 0.0, 0.0
    ones = max(float(np.prod(made)), 1.0)
    written = graph.attrs[int(graph.edge_src[edge])].get(SHAPES)
    port = int(graph.tensor_port[tensor])
    before = shape_of(written.list.shape[port]) if written is not None and port < len(written.list.shape) else None
    share = float(np.prod(shape)) / ones
    return shape, share, share if before is None or -1 in before else float(np.prod(before)) / ones


def _behind(graph: Graph, row: int) -> int:
    while graph.ops[row] in _PASSES and values_in(graph, row):
        row = int(graph.edge_src[values_in(graph, row)[0]])
    return row


def check_mean(graph: Graph, tower: Sequence[int], numbers: Collection[int]) -> None:
    """Refuse a step in which nothing is divided by the number of examples."""
    for row in tower:
        edges = values_in(graph, row)
        if graph.ops[row] in _DIVISIONS and len(edges) > 1:
            source = int(graph.edge_src[edges[1]])
            if source in numbers or _behind(graph, source) in numbers:
                return
    raise GraphError(
        f"{graph.source}: nothing is divided by the number of examples, so its loss is no mean over the batch. "
        "Gradients of microbatches are averaged, which is that of the batch for a mean alone."
    )


# ---- powers of the number of examples -------------------------------------------------------------------------------
# A power is like a unit: two values that are added have the same one.
#
#     off / examples [B, n]  ─▶  MatMul over the batch  ─▶  gradient [n, m]
#          examples^-1           one more: examples^0       as the mean of microbatches needs it

_ZERO = 1 << 20  # of no examples: it may be added to all
_HAND_ON = frozenset(
    """
    BroadcastTo Cast CheckNumerics ExpandDims Fill Identity Neg Pad PreventGradient Reshape Slice Squeeze StopGradient
    StridedSlice StridedSliceGrad Tile Transpose
    """.split()  # noqa: SIM905  # a list of quoted names would be twice as long
)
_MULTIPLY = frozenset(
    """
    BatchMatMul BatchMatMulV2 BatchMatMulV3 Conv2D Conv2DBackpropFilter Conv2DBackpropInput Einsum MatMul Mul MulNoNan
    """.split()  # noqa: SIM905  # as above
)
_ADD = frozenset(("Add", "AddN", "AddV2", "Sub"))
_CHOOSE = frozenset(("Select", "SelectV2", "ConcatV2", "Pack"))
_OF_SUMS = frozenset(("BiasAddGrad", "Mean", "Sum"))
_PICK = frozenset(("GatherV2", "StridedSlice"))
_SAME = frozenset(("Cast", "ExpandDims", "Identity", "Maximum", "Prod", "Reshape", "Squeeze"))  # Maximum: with one
_RATIOS = {"FloorDiv": -1, "Mul": 1, "RealDiv": -1}


def check_powers(of: Batches, tower: Collection[int], divisors: Mapping[int, float]) -> None:
    """Refuse a step that adds values of two powers of the number of examples, such as a sum of losses and a mean.

    Those are nodes of its tower. Where an op is none of those whose power is known, nothing is said of what follows.
    """
    graph, inside = of.small, set(tower)
    power: dict[int, int | None] = {}
    behind = set(fan_out(graph, divisors))

    def at(tensor: int) -> int | None:
        if tensor in power:
            return power[tensor]
        row = int(graph.tensor_node[tensor])
        found = _of_number(of, row, divisors)
        return None if row in behind and found != 1 else found  # some number is made of a divisor by other ops

    for row in graph.topological.tolist():
        if row not in inside:
            continue
        taken = [int(graph.edge_tensor[edge]) for edge in values_in(graph, row)]
        taken = [tensor for tensor in taken if int(graph.tensor_dtype[tensor]) in TRAINED]
        given = [at(tensor) for tensor in taken]
        found = {one for one in given if one not in (None, _ZERO)}
        still = any(graph.ops[_behind(graph, int(graph.tensor_node[tensor]))] == "Const" for tensor in taken)
        if graph.ops[row] in _ADD and len(found) > 1 and not still:  # a constant may be of any power, as an epsilon is
            name = graph.names[row]
            raise GraphError(
                f"{graph.source}: {name!r} adds what the number of examples divides and what it does not, so the loss "
                "is no mean over the batch. Gradients of microbatches are averaged, which is that of the batch for a "
                "mean alone.",
                node=name,
            )
        varying = any(of.axes(tensor) for tensor in taken)
        for tensor in graph.outputs(row):
            if not taken:
                power[tensor] = at(tensor)
            elif of.across(row):
                power[tensor] = None
            else:
                power[tensor] = _made(graph.ops[row], given, summed=varying and not of.axes(tensor))


def _of_number(of: Batches, row: int, divisors: Mapping[int, float]) -> int | None:
    """The power of what is not computed of examples."""
    if _behind(of.small, row) in divisors:
        return 1
    if of.small.ops[row] == "ZerosLike" or set(constant(of.small, row) or (1,)) == {0}:
        return _ZERO
    return _counted(of, row) if row in of.numbers else 0


def _counted(of: Batches, row: int) -> int | None:
    """The power of a number that is counted from shapes, such as the product of some of them."""
    graph = of.small
    taken = [int(graph.edge_tensor[edge]) for edge in values_in(graph, row)]
    rows = [int(graph.tensor_node[tensor]) for tensor in taken]
    op = graph.ops[row]
    if op == "Const" or row not in of.numbers:
        return 0
    if op == "Size" or (op == "Prod" and graph.ops[rows[0]] == "Shape"):
        tensor = taken[0] if op == "Size" else int(graph.edge_tensor[values_in(graph, rows[0])[0]])
        return len(of.axes(tensor)) if of.known(tensor) else None
    if op in _PICK and graph.ops[rows[0]] == "Shape":
        tensor, at = int(graph.edge_tensor[values_in(graph, rows[0])[0]]), _numbers(graph, rows[1])
        rank = len(graph.tensor_shape[tensor] or ())
        single = op == "GatherV2" or graph.tensor_shape[graph.tensor_ptr[row]] == ()
        if not at or not rank or not single or not of.known(tensor):
            return None
        return sum(int(one) % rank in of.axes(tensor) for one in at)
    if op in _SAME:
        return _counted(of, rows[0])
    if op in _RATIOS and len(rows) == 2:
        one, other = _counted(of, rows[0]), _counted(of, rows[1])
        return None if one is None or other is None else one + _RATIOS[op] * other
    return None


def _numbers(graph: Graph, row: int) -> list[float] | None:
    """The elements of a constant, also where TensorFlow counts axes from the start: (axes + rank) % rank."""
    for op in ("FloorMod", "AddV2"):
        if graph.ops[row] == op:
            row = int(graph.edge_src[values_in(graph, row)[0]])
    found = constant(graph, row)
    return None if found is None else [*found]


def _made(op: str, given: Sequence[int | None], *, summed: bool) -> int | None:
    """The power of what an op makes of such values; `summed`: over the examples. None: it is not known."""
    if None in given or not given:
        return None
    powers = [one for one in given if one is not None]
    real = [one for one in powers if one != _ZERO]
    if op in _ADD or op in _CHOOSE:
        return (real or [_ZERO])[0] if not summed and len(set(real)) < 2 else None
    if op in _HAND_ON:
        return powers[0] if not summed else None
    if op in _OF_SUMS:
        return powers[0] if powers[0] == _ZERO or op == "Mean" else powers[0] + summed
    if op in _MULTIPLY:
        return _ZERO if len(real) < len(powers) else sum(real) + summed
    if op in _DIVISIONS and len(powers) == 2 and not summed:
        return _ZERO if powers[0] == _ZERO else powers[0] - powers[1]
    if summed:
        return None
    moving = [one for one in real if one]
    if op.endswith("Grad") and len(moving) == 1:
        return moving[0]  # it is linear in a gradient
    return None if moving else 0
