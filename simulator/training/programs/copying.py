"""Copies of parts of a graph under a prefix, and the ops that join what the copies compute."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from simulator.errors import UnsupportedError
from simulator.graph.attributes import COLOCATION, number, shaped, texts, typed
from simulator.graph.dtypes import INT32, NAMES, base
from simulator.graph.editor import Editor, Endpoint, Output
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.messages import AttrValue, Proto, TensorShapeProto
from simulator.graph.op_classes import ENTERS
from simulator.training.recognition.variables import VARIABLES, colocated_with

# DataType -> numpy's name of it; bfloat16 is the upper half of a float32
_NUMBERS = {1: "<f4", 2: "<f8", 3: "<i4", 8: "<c8", 9: "<i8", 18: "<c16", 19: "<f2"}
_BFLOAT16 = 14


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

    They read one another's copies, what is in `replaced` in place of the original, and all else as the original does;
    they don't wait for the nodes in `dropped`. Loops get frames of their own, and copied variables storage of their
    own.
    """
    graph = editor.given
    mine = {graph.names[row] for row in rows}
    copies = {}
    for row in rows:
        attrs = _copied_attrs(graph, row, prefix, mine)
        copies[row] = editor.add(
            editor.free(prefix + graph.names[row]), graph.ops[row], attrs=attrs, device=devices[row]
        )
    editor.copied.update({copy: row for row, copy in copies.items()})
    source, tensor, first = graph.edge_src.tolist(), graph.edge_tensor.tolist(), graph.in_ptr.tolist()
    port = graph.tensor_port.tolist()
    for row, copy in copies.items():
        for slot, edge in enumerate(range(first[row], first[row + 1])):
            src = source[edge]
            if tensor[edge] >= 0:
                output = (src, port[tensor[edge]])
                editor.join((copies[src], output[1]) if src in copies else replaced.get(output, output), copy, slot)
            elif src in copies or src not in dropped:
                editor.wait(copies.get(src, src), copy)
    return copies


def reads(editor: Editor, edge: int, output: Output, copies: Mapping[int, int] = {}) -> None:
    """Let an input of the given graph, or of the copy of its node if it is in `copies`, come from elsewhere."""
    row = int(editor.given.edge_dst[edge])
    editor.lead(copies.get(row, row), edge - int(editor.given.in_ptr[row]), output)


def read_by(graph: Graph, edge: int) -> Endpoint:
    """The output that an edge carries."""
    return int(graph.edge_src[edge]), int(graph.tensor_port[graph.edge_tensor[edge]])


def new_op(
    editor: Editor,
    name: str,
    op: str,
    inputs: Sequence[Output],
    device: str,
    attrs: Attrs,
    shapes: Sequence[Shape | None] = (),
) -> int:
    """Add a node with the shapes of its outputs; it gets a further number if its name is taken."""
    known = shaped([_shape_message(shape) for shape in shapes])
    return editor.add(editor.free(name), op, inputs, attrs={**attrs, **known}, device=device)


def constant(editor: Editor, name: str, values: int | Sequence[int], dtype: int, device: str) -> int:
    """A Const with a whole number, or a list of them. Raises UnsupportedError for a type without such numbers."""
    attrs = {"dtype": AttrValue(type=dtype), "value": _tensor(values, dtype)}
    return new_op(editor, name, "Const", (), device, attrs, [np.shape(values)])


def times(shape: Shape | None, count: int) -> Shape | None:
    """The shape with its first dimension so many times as large; an open one stays open."""
    return shape if not shape or shape[0] < 0 else (shape[0] * count, *shape[1:])


def dtype_of(graph: Graph, edge: int) -> int:
    """DataType of what an edge carries."""
    return base(int(graph.tensor_dtype[graph.edge_tensor[edge]]))


def sum_of(
    editor: Editor, name: str, parts: Sequence[Output], dtype: int, device: str, shape: Shape | None = None
) -> int:
    """The sum of tensors of one shape, on one device."""
    return new_op(editor, name, "AddN", parts, device, {**typed(dtype), "N": number(len(parts))}, [shape])


def joined(
    editor: Editor, name: str, parts: Sequence[Output], dtype: int, device: str, shape: Shape | None = None
) -> int:
    """The rows of all parts one below the other, on one device; `shape` is the result's."""
    axis = constant(editor, f"{name}/axis", 0, INT32, device)
    attrs = {**typed(dtype), "N": number(len(parts)), "Tidx": AttrValue(type=INT32)}
    return new_op(editor, name, "ConcatV2", [*parts, axis], device, attrs, [shape])


def share_of(
    editor: Editor, name: str, whole: Output, count: int, dtype: int, device: str, shape: Shape | None = None
) -> int:
    """A tensor divided by a number, on one device."""
    divisor = constant(editor, f"{name}/replicas", count, dtype, device)
    return new_op(editor, name, "RealDiv", [whole, divisor], device, typed(dtype), [shape])


def _shape_message(shape: Shape | None) -> Proto | None:
    return None if shape is None else TensorShapeProto(dim=[{"size": size} for size in shape])


def _copied_attrs(graph: Graph, row: int, prefix: str, mine: Collection[str]) -> Attrs:
    attrs = dict(graph.attrs[row])
    others = colocated_with(graph, row)
    if any(name in mine for name in others):
        attrs[COLOCATION] = texts([f"loc:@{prefix + name if name in mine else name}" for name in others])
    for key in ("frame_name",) if graph.ops[row] in ENTERS else ("shared_name",) if graph.ops[row] in VARIABLES else ():
        if key in attrs and attrs[key].s:
            attrs[key] = AttrValue(s=prefix.encode() + attrs[key].s)
    return attrs


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
