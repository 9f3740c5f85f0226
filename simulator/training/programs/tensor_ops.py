"""Ops on tensors that replication adds to a graph: sums, means, splits, joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.errors import UnsupportedError
from simulator.graph.attributes import NO_ATTRS, number, shaped, typed
from simulator.graph.dtypes import INT32, NAMES
from simulator.graph.editor import Editor, Output
from simulator.graph.graph import Attrs, Shape
from simulator.graph.messages import AttrValue, Proto, TensorShapeProto

# DataType -> numpy's name of it; bfloat16 is the upper half of a float32
_NUMBERS = {1: "<f4", 2: "<f8", 3: "<i4", 8: "<c8", 9: "<i8", 18: "<c16", 19: "<f2"}
_BFLOAT16 = 14


@dataclass(frozen=True, slots=True)
class TensorOps:
    """Ops on one device, on tensors of one type. A name that is taken gets a further number.

    `shape` is that of a result; None: unknown.
    """

    editor: Editor
    device: str
    dtype: int = INT32
    prefix: str = ""  # of all names

    def add(
        self,
        name: str,
        op: str,
        inputs: Sequence[Output] = (),
        attrs: Attrs = NO_ATTRS,
        shapes: Sequence[Shape | None] = (),
        after: Sequence[int] = (),
    ) -> int:
        """Add a node with the shapes of its outputs, which waits for the nodes `after`."""
        known = shaped([None if shape is None else shape_message(shape) for shape in shapes])
        free = self.editor.free(self.prefix + name)
        return self.editor.add(free, op, inputs, after, {**attrs, **known}, device=self.device)

    def apply(
        self, name: str, op: str, inputs: Sequence[Output], shape: Shape | None, after: Sequence[int] = ()
    ) -> int:
        """An op whose only attribute is the type."""
        return self.add(name, op, inputs, typed(self.dtype), [shape], after)

    def cast(self, name: str, value: Output, dtype: int, shape: Shape | None) -> Output:
        """The same numbers in another type; the value itself if it has that type."""
        kinds = {"SrcT": AttrValue(type=self.dtype), "DstT": AttrValue(type=dtype)}
        return value if dtype == self.dtype else self.add(name, "Cast", [value], kinds, [shape])

    def constant(self, name: str, values: int | Sequence[int], dtype: int = INT32) -> int:
        """A whole number, or a list of them. Raises UnsupportedError for a type without such numbers."""
        attrs = {"dtype": AttrValue(type=dtype), "value": _tensor(values, dtype)}
        return self.add(name, "Const", (), attrs, [np.shape(values)])

    def sum(self, name: str, parts: Sequence[Output], shape: Shape | None = None) -> int:
        """The sum of tensors of one shape."""
        return self.add(name, "AddN", parts, {**typed(self.dtype), "N": number(len(parts))}, [shape])

    def concat(self, name: str, parts: Sequence[Output], shape: Shape | None = None) -> int:
        """The rows of all parts, one below the other."""
        axis = self.constant(f"{name}/axis", 0)
        attrs = {**typed(self.dtype), "N": number(len(parts)), "Tidx": AttrValue(type=INT32)}
        return self.add(name, "ConcatV2", [*parts, axis], attrs, [shape])

    def share(self, name: str, whole: Output, count: int, shape: Shape | None = None) -> int:
        """A tensor divided by a number."""
        return self.apply(name, "RealDiv", [whole, self.constant(f"{name}/replicas", count, self.dtype)], shape)

    def reshape(self, name: str, value: Output, shape: Shape) -> int:
        """The same elements in another shape."""
        size = self.constant(f"{name}/shape", shape)
        return self.add(name, "Reshape", [value, size], {**typed(self.dtype), "Tshape": AttrValue(type=INT32)}, [shape])

    def cut(self, name: str, value: Output, sizes: Sequence[int]) -> list[Output]:
        """Consecutive parts of a list, of these sizes."""
        inputs = [value, self.constant(f"{name}/sizes", sizes), self.constant(f"{name}/axis", 0)]
        attrs = {**typed(self.dtype), "Tlen": AttrValue(type=INT32), "num_split": number(len(sizes))}
        made = self.add(name, "SplitV", inputs, attrs, [(size,) for size in sizes])
        return [(made, port) for port in range(len(sizes))]


def shape_message(shape: Shape) -> Proto:
    """A shape as a TensorShapeProto."""
    return TensorShapeProto(dim=[{"size": size} for size in shape])


def _tensor(values: int | Sequence[int], dtype: int) -> Proto:
    if dtype == _BFLOAT16:
        content = (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    elif dtype in _NUMBERS:
        content = np.asarray(values, _NUMBERS[dtype]).tobytes()
    else:
        raise UnsupportedError(f"gradients of type {NAMES.get(dtype, dtype)} can't be averaged")
    made = AttrValue()
    made.tensor.dtype = dtype
    made.tensor.tensor_content = content
    made.tensor.tensor_shape.SetInParent()
    for size in np.shape(values):
        made.tensor.tensor_shape.dim.add(size=size)
    return made
