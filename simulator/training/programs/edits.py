"""Edits of a graph for replication: copies of parts of it under a prefix, and sums, means, splits and joins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.errors import UnsupportedError
from simulator.graph.attributes import (
    COLOCATION,
    NO_ATTRS,
    colocated_with,
    colocation,
    number,
    shaped,
    type_value,
    typed,
)
from simulator.graph.dataflow import depending_on
from simulator.graph.dtypes import BFLOAT16, DOUBLE, FLOAT, HALF, INT32, INT64, NAMES, base, number_of
from simulator.graph.editor import Editor, Endpoint, Output, edited
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.messages import AttrValue, Proto
from simulator.graph.op_classes import ENTERS, VARIABLES
from simulator.graph.step import choose_step
from simulator.graph.tensors import shape_message, tensor_sizes
from simulator.graph.traversal import PLACEHOLDERS
from simulator.shapes.dims import numbers
from simulator.shapes.propagation import infer

# DataType -> numpy's name of it; bfloat16 is the upper half of a float32
_NUMBERS = {FLOAT: "<f4", DOUBLE: "<f8", INT32: "<i4", INT64: "<i8", HALF: "<f2"} | {
    number_of("COMPLEX64"): "<c8",
    number_of("COMPLEX128"): "<c16",
}


def unused_prefix(graph: Graph, wanted: str) -> str:
    """ "wanted/", or with further "_" before the slash, so that no name of the graph begins with it."""
    scopes = {name.partition("/")[0] for name in graph.names}
    while wanted in scopes:
        wanted += "_"
    return f"{wanted}/"


def copied(
    editor: Editor,
    rows: Sequence[int],
    prefix: str,
    devices: Mapping[int, str],
    replaced: Mapping[Endpoint, Endpoint] = {},
    dropped: Collection[int] = (),
) -> dict[int, int]:
    """Append copies of the given graph's rows under a prefix, each with its device; row -> its copy.

    Copies read the copies of one another, the outputs in `replaced` in place of the originals, and else the same as the
    originals. They don't wait for the nodes in `dropped`. Loops get frames of their own, and variables storage of their
    own.
    """
    graph = editor.given
    mine = {graph.names[row] for row in rows}
    copies = {}
    for row in rows:
        attrs, name = _copied_attrs(graph, row, prefix, mine), editor.free(prefix + graph.names[row])
        copies[row] = editor.add(name, graph.ops[row], attrs=attrs, device=devices[row])
    editor.copied.update({copy: row for row, copy in copies.items()})
    source, tensor, port = graph.edge_src.tolist(), graph.edge_tensor.tolist(), graph.tensor_port.tolist()
    for row, copy in copies.items():
        for slot, edge in enumerate(graph.in_edges(row)):
            src = source[edge]
            if tensor[edge] >= 0:
                output = (src, port[tensor[edge]])
                editor.add_edge((copies[src], output[1]) if src in copies else replaced.get(output, output), copy, slot)
            elif src in copies or src not in dropped:
                editor.add_control_edge(copies.get(src, src), copy)
    return copies


def with_placeholders(graph: Graph, fed: Sequence[str]) -> Graph:
    """The graph with a placeholder for each tensor that is fed, which its readers read. Raises as `choose_step`.

    So each program of a training feeds it, as any placeholder.
    """
    given = map(graph.tensor_row, choose_step(graph, feeds=fed, fetches=fed).feeds) if fed else ()
    made = [tensor for tensor in given if graph.ops[graph.tensor_node[tensor]] not in PLACEHOLDERS]
    if not made:
        return graph
    editor = edited(graph, as_made=False)
    for tensor in made:
        shape, dtype = graph.tensor_shape[tensor], type_value(base(int(graph.tensor_dtype[tensor])))
        attrs = {"dtype": dtype, **({} if shape is None else {"shape": AttrValue(shape=shape_message(shape))})}
        name = editor.free(f"{graph.names[graph.tensor_node[tensor]]}/fed")
        new = editor.add(name, "Placeholder", attrs=attrs)
        editor.shapes[new] = [shape]
        for edge in graph.out_edges(int(graph.tensor_node[tensor])):
            if graph.edge_tensor[edge] == tensor:
                redirect(editor, edge, new)
    return editor.built()


def redirect(editor: Editor, edge: int, output: Output, copies: Mapping[int, int] = {}) -> None:
    """Let the input at an edge of the given graph come from another output; in the node's copy if `copies` has one."""
    row = int(editor.given.edge_dst[edge])
    editor.redirect_input(copies.get(row, row), edge - int(editor.given.in_ptr[row]), output)


def output_on(graph: Graph, edge: int) -> Endpoint:
    """The output that an edge carries."""
    return int(graph.edge_src[edge]), int(graph.tensor_port[graph.edge_tensor[edge]])


def times(shape: Shape | None, count: int) -> Shape | None:
    """The shape with its first dimension so many times as large; an open one stays open."""
    return shape if not shape or shape[0] < 0 else (shape[0] * count, *shape[1:])


def reshaped(graph: Graph, rows: Collection[int]) -> Graph:
    """The graph in which the shapes of all that depends on these nodes follow anew, such as that of more rows."""
    if not rows:
        return graph
    behind = (depending_on(graph, rows)[graph.tensor_node] & ~np.isin(graph.tensor_node, [*rows])).tolist()
    believed = [None if anew else shape for anew, shape in zip(behind, graph.tensor_shape, strict=True)]
    found = infer(graph, {}, believed).shapes
    shapes = [
        numbers(new) if anew else shape for anew, new, shape in zip(behind, found, graph.tensor_shape, strict=True)
    ]
    sizes, _ = tensor_sizes(graph.tensor_dtype.tolist(), shapes)
    return replace(graph, tensor_shape=tuple(shapes), tensor_bytes=sizes)


def dtype_of(graph: Graph, edge: int) -> int:
    """DataType of the tensor on an edge."""
    return base(int(graph.tensor_dtype[graph.edge_tensor[edge]]))


def shape_on(graph: Graph, edge: int) -> Shape | None:
    """The shape of the tensor on an edge; None: its rank is unknown."""
    known: Shape | None = graph.tensor_shape[graph.edge_tensor[edge]]
    return known


def _copied_attrs(graph: Graph, row: int, prefix: str, mine: Collection[str]) -> Attrs:
    attrs = dict(graph.attrs[row])
    others = colocated_with(graph.attrs[row])
    if any(name in mine for name in others):
        attrs[COLOCATION] = colocation([prefix + name if name in mine else name for name in others])
    for key in ("frame_name",) if graph.ops[row] in ENTERS else ("shared_name",) if graph.ops[row] in VARIABLES else ():
        if key in attrs and attrs[key].s:
            attrs[key] = AttrValue(s=prefix.encode() + attrs[key].s)
    return attrs


# ---- ops on tensors -------------------------------------------------------------------------------------------------


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
        kinds = {"SrcT": type_value(self.dtype), "DstT": type_value(dtype)}
        return value if dtype == self.dtype else self.add(name, "Cast", [value], kinds, [shape])

    def constant(self, name: str, values: int | Sequence[int], dtype: int = INT32) -> int:
        """A whole number, or a list of them. Raises UnsupportedError for a type without such numbers."""
        attrs = {"dtype": type_value(dtype), "value": _tensor(values, dtype)}
        return self.add(name, "Const", (), attrs, [np.shape(values)])

    def sum(self, name: str, parts: Sequence[Output], shape: Shape | None = None) -> int:
        """The sum of tensors of one shape."""
        return self.add(name, "AddN", parts, {**typed(self.dtype), "N": number(len(parts))}, [shape])

    def concat(self, name: str, parts: Sequence[Output], shape: Shape | None = None) -> int:
        """The rows of all parts, one below the other."""
        axis = self.constant(f"{name}/axis", 0)
        attrs = {**typed(self.dtype), "N": number(len(parts)), "Tidx": type_value(INT32)}
        return self.add(name, "ConcatV2", [*parts, axis], attrs, [shape])

    def share(self, name: str, whole: Output, count: int, shape: Shape | None = None) -> int:
        """A tensor divided by a number."""
        return self.apply(name, "RealDiv", [whole, self.constant(f"{name}/replicas", count, self.dtype)], shape)

    def reshape(self, name: str, value: Output, shape: Shape) -> int:
        """The same elements in another shape."""
        size = self.constant(f"{name}/shape", shape)
        return self.add(name, "Reshape", [value, size], {**typed(self.dtype), "Tshape": type_value(INT32)}, [shape])

    def cut(self, name: str, value: Output, sizes: Sequence[int]) -> list[Output]:
        """Consecutive parts of a list, of these sizes."""
        inputs = [value, self.constant(f"{name}/sizes", sizes), self.constant(f"{name}/axis", 0)]
        attrs = {**typed(self.dtype), "Tlen": type_value(INT32), "num_split": number(len(sizes))}
        made = self.add(name, "SplitV", inputs, attrs, [(size,) for size in sizes])
        return [(made, port) for port in range(len(sizes))]


def _tensor(values: int | Sequence[int], dtype: int) -> Proto:
    if dtype == BFLOAT16:
        content = (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    elif dtype in _NUMBERS:
        content = np.asarray(values, _NUMBERS[dtype]).tobytes()
    else:
        raise UnsupportedError(f"gradients of type {NAMES.get(dtype, dtype)} can't be averaged")
    made = AttrValue()
    made.tensor.dtype = dtype
    made.tensor.tensor_content = content
    made.tensor.tensor_shape.CopyFrom(shape_message(np.shape(values)))
    return made
