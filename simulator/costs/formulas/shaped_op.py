"""An op with its shapes, the argument of all formulas, and the formulas that many ops share.

A formula takes a `ShapedOp` and returns a count: arithmetic operations, or bytes. Unknown dimensions count 1 and an
unknown rank counts as a scalar, as in `tensorflow/core/grappler/costs/op_level_cost_estimator.cc`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod
from typing import TypeAlias

from simulator.graph.attributes import is_true
from simulator.graph.graph import Attrs, Shape


@dataclass(frozen=True, slots=True)
class ShapedOp:
    """One op with the shapes of its data inputs and outputs."""

    op: str
    inputs: tuple[Shape | None, ...]
    outputs: tuple[Shape | None, ...]
    input_bytes: tuple[int, ...]  # 0 where unknown, or for a handle
    output_bytes: tuple[int, ...]
    attrs: Attrs
    input_types: tuple[int, ...] = ()  # DataType, +100 for a reference, 0 unknown
    output_types: tuple[int, ...] = ()
    channels_first: bool = False  # a session does so in float32, whatever the attribute says (estimates/layout.py)
    leaping: bool = False  # a slice that takes every other number or so, or backwards


_SHORT_ROW, _MANY = 1000, 100  # rows of which TopK sorts all, and how many taken numbers make it sort longer ones
_INDEX_BYTES = 4
_MAX_NUMBERS = 16  # more than any op's list of sizes has
Formula: TypeAlias = Callable[[ShapedOp], int]


def elements(shape: Shape | None) -> int:
    """Number of elements; unknown dimensions count 1."""
    return prod([size if size >= 0 else 1 for size in shape]) if shape else 1


def dims(shape: Shape | None, rank: int) -> tuple[int, ...]:
    """The last `rank` dimensions, unknown and missing ones as 1."""
    known = [size if size >= 0 else 1 for size in shape or ()][-rank:]
    return (1,) * (rank - len(known)) + tuple(known)


def matrices(shape: Shape | None) -> tuple[int, int, int]:
    """(Number, rows, columns) of a batch of matrices."""
    rows, columns = dims(shape, 2)
    return elements((shape or ())[:-2]), rows, columns


def at(shapes: tuple[Shape | None, ...], slot: int) -> Shape | None:
    """The shape in that slot, unknown if the node has fewer."""
    return shapes[slot] if -len(shapes) <= slot < len(shapes) else None


def flag(instance: ShapedOp, name: str, default: bool = False) -> bool:
    """A boolean attribute."""
    return is_true(instance.attrs, name, default)


def numbers(instance: ShapedOp, name: str) -> list[int]:
    """An attribute that is a list of integers, one per dimension; empty where the node lacks it."""
    value = instance.attrs.get(name)
    return [] if value is None else [int(number) for number in value.list.i[:_MAX_NUMBERS]]


def largest(instance: ShapedOp) -> int:
    """Elements of the largest input or output."""
    return max(map(elements, instance.inputs + instance.outputs), default=1)


def broadcast(instance: ShapedOp) -> int:
    """Elements of the largest input or output; where no output's shape is known, of the inputs' broadcast shape.

    A known output counts, as not every second input broadcasts from the last dimension (a bias in NCHW).
    """
    count = largest(instance)
    known = any(shape is not None and -1 not in shape for shape in instance.outputs)
    if len(instance.inputs) > 1 and count > 1 and not known:
        rank = max(len(shape or ()) for shape in instance.inputs)
        count = max(count, prod(map(max, zip(*(dims(shape, rank) for shape in instance.inputs), strict=True))))
    return count


# --- work ------------------------------------------------------------------------------------------------------------


def nothing(instance: ShapedOp) -> int:
    """No arithmetic, or no bytes."""
    return 0


def each(operations: int) -> Formula:
    """Count `operations` per element of the output, or of the largest input where that is larger."""
    return lambda instance: operations * broadcast(instance)


def each_largest(operations: int) -> Formula:
    """Count `operations` per element of the largest input or output; lists of indices do not broadcast."""
    return lambda instance: operations * largest(instance)


def each_output(operations: int) -> Formula:
    """Count `operations` per element of the outputs."""
    return lambda instance: operations * sum(map(elements, instance.outputs))


def each_input(operations: int) -> Formula:
    """Count `operations` per element of the largest input."""
    return lambda instance: operations * max(map(elements, instance.inputs), default=1)


def add_all(instance: ShapedOp) -> int:
    """AddN: one addition less than there are inputs, per element."""
    return max(0, len(instance.inputs) - 1) * largest(instance)


def sort(instance: ShapedOp) -> int:
    """Comparisons to sort the elements of the largest input: n log2 n."""
    count = max(map(elements, instance.inputs), default=1)
    return count * count.bit_length()


def radix_sort(instance: ShapedOp) -> tuple[int, int] | None:
    """Kernels of a GPU's sort of rows, and tensors of the input's size that they move; None: a TopK that sorts nothing.

    Each pass reads the keys to count their digits, then reads and writes keys and indices. TensorFlow's TopK sorts so,
    but for a few numbers of long rows (tensorflow/core/kernels/topk_op_gpu.h). CUB sorts rows by 6 bits at a time,
    bytes by 5 (dispatch_radix_sort.cuh). One block sorts a row, so few rows take longer than this says.
    """
    row, taken = ((at(shapes, 0) or (-1,))[-1] for shapes in (instance.inputs, instance.outputs))
    if row <= 0 or not (row <= _SHORT_ROW or taken in (-1, row) or taken >= _MANY):
        return None
    key = max(1, sum(instance.input_bytes[:1]) // max(1, elements(at(instance.inputs, 0))))
    digits = ceil(8 * key / (6 if key > 1 else 5))
    moved = digits * (3 * key + 2 * _INDEX_BYTES) + _INDEX_BYTES  # the indices are written first
    return digits + 1 + (0 if taken == row else 2), ceil(moved / key)


# --- bytes -----------------------------------------------------------------------------------------------------------


def tensors(instance: ShapedOp) -> int:
    """Every input is read once, every output written once."""
    return sum(instance.input_bytes) + sum(instance.output_bytes)


def written(instance: ShapedOp) -> int:
    """Every output is written; the inputs are negligible."""
    return sum(instance.output_bytes)


def read(instance: ShapedOp) -> int:
    """Every input is read; nothing is written."""
    return sum(instance.input_bytes)


def gathered(instance: ShapedOp) -> int:
    """Taken elements are read and written, indices read: twice the output, and the inputs after the first."""
    return 2 * sum(instance.output_bytes) + sum(instance.input_bytes[1:])


def picked(operations: int) -> Formula:
    """Count `operations` per element of the rows that the second input picks from the first."""
    return lambda instance: operations * elements(at(instance.inputs, 1)) * elements((at(instance.inputs, 0) or ())[1:])


def segmented(instance: ShapedOp) -> int:
    """The picked rows of the first input are read, and the output is written."""
    rows = max(1, (at(instance.inputs, 0) or (1,))[0])
    row_bytes = sum(instance.input_bytes[:1]) // rows
    return elements(at(instance.inputs, 1)) * row_bytes + sum(instance.output_bytes) + sum(instance.input_bytes[1:])


def scattered(instance: ShapedOp) -> int:
    """Rows are read and written, updates (the last input) and indices read."""
    return sum(instance.input_bytes[1:]) + 2 * instance.input_bytes[-1] if len(instance.inputs) > 1 else 0


def value(times: int) -> Formula:
    """A multiple of the bytes of the second input, the value of a variable."""
    return lambda instance: times * (instance.input_bytes[1] if len(instance.input_bytes) > 1 else 0)


def stored(instance: ShapedOp) -> int:
    """The last input is read, and written to its place in a variable."""
    return 2 * sum(instance.input_bytes[-1:])


def updated(slots: int) -> Formula:
    """An optimizer's update: its slots (the first inputs, the variable too) are read and written, the gradient read."""
    return lambda instance: (2 * slots + 1) * max(instance.input_bytes[slots:], default=0)


def per_gradient(slots: int, operations: int) -> Formula:
    """Count `operations` per element of the gradient, the largest input behind the slots."""
    return lambda instance: operations * max(map(elements, instance.inputs[slots:]), default=1)


def rewritten(instance: ShapedOp) -> int:
    """The outputs are read from where they were kept, and written."""
    return 2 * sum(instance.output_bytes)


def copied(instance: ShapedOp) -> int:
    """The inputs are read, and written to where they are kept."""
    return 2 * sum(instance.input_bytes)


def accumulated(instance: ShapedOp) -> int:
    """A gradient is read and added to a sum, which is read and written."""
    return 3 * max(instance.input_bytes, default=0)
