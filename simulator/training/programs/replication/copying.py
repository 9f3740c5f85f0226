"""Copy parts of a graph under a prefix, and join what the copies compute."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.errors import UnsupportedError
from simulator.graph.building import build
from simulator.graph.control_flow import ENTERS
from simulator.graph.dtypes import INT32, NAMES, base
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.inlining.attributes import COLOCATION, number, shaped, texts, typed
from simulator.graph.messages import AttrValue, Proto, TensorShapeProto
from simulator.graph.tensors import tensor_sizes
from simulator.training.recognition.variables import VARIABLES, colocated_with

# DataType -> numpy's name of it; bfloat16 is the upper half of a float32
_NUMBERS = {1: "<f4", 2: "<f8", 3: "<i4", 8: "<c8", 9: "<i8", 18: "<c16", 19: "<f2"}
_BFLOAT16 = 14


@dataclass(frozen=True, slots=True)
class Draft:
    """The rows of a graph in the making: those of `graph` first, in its order, then what is added."""

    graph: Graph
    names: list[str]
    ops: list[str]
    devices: list[str]
    inputs: list[list[str]]  # as a NodeDef writes them
    attrs: list[Attrs]
    row_of: dict[str, int]
    origin: list[int]  # row of `graph` of which each is, or is a copy; -1: added
    larger: dict[int, int]  # row of `graph` -> how many times as large its first dimension is to be

    def add(
        self,
        name: str,
        op: str,
        inputs: Sequence[str],
        device: str,
        attrs: Attrs,
        shapes: Sequence[Shape | None] = (),
    ) -> str:
        """Append a node with the shapes of its outputs; it gets a further number if its name is taken.

        Returns its name.
        """
        free, again = name, 0
        while free in self.row_of:
            again += 1
            free = f"{name}_{again}"
        self.row_of[free] = len(self.names)
        self.names.append(free)
        self.ops.append(op)
        self.devices.append(device)
        self.inputs.append(list(inputs))
        self.origin.append(-1)
        self.attrs.append({**attrs, **shaped([_shape_message(shape) for shape in shapes])})
        return free

    def constant(self, name: str, values: int | Sequence[int], dtype: int, device: str) -> str:
        """A Const with a whole number, or a list of them. Raises UnsupportedError for a type without such numbers."""
        attrs = {"dtype": AttrValue(type=dtype), "value": _tensor(values, dtype)}
        return self.add(name, "Const", (), device, attrs, [np.shape(values)])

    def prefix(self, wanted: str) -> str:
        """ "wanted/", or with further "_" before the slash, so that no name of the graph begins with it."""
        scopes = {name.partition("/")[0] for name in self.graph.names}
        while wanted in scopes:
            wanted += "_"
        return f"{wanted}/"

    def copy(
        self,
        rows: Sequence[int],
        prefix: str,
        devices: Mapping[int, str],
        replaced: Mapping[str, str],
        dropped: Collection[int] = (),
    ) -> None:
        """Append copies of the graph's rows under a prefix, each with its device.

        They read one another's copies, what is in `replaced` (inputs as written) in place of the original, and all
        else as the original does; they don't wait for the nodes in `dropped`. Loops get frames of their own, and
        copied variables storage of their own.
        """
        graph, inside = self.graph, frozenset(rows)
        mine = {graph.names[row] for row in rows}
        for row in rows:
            inputs = []
            for edge, text in zip(range(graph.in_ptr[row], graph.in_ptr[row + 1]), graph.inputs_of(row), strict=True):
                source = int(graph.edge_src[edge])
                if source in inside:
                    text = f"^{prefix}{text[1:]}" if text.startswith("^") else prefix + text
                elif text.startswith("^") and source in dropped:
                    continue
                inputs.append(replaced.get(text, text))
            attrs = _copied_attrs(graph, row, prefix, mine)
            self.add(prefix + graph.names[row], graph.ops[row], inputs, devices[row], attrs)
            self.origin[-1] = row

    def reads(self, edge: int, text: str, prefix: str = "") -> None:
        """Let an input of the graph, or of the copy of its node under that prefix, come from elsewhere."""
        row = int(self.graph.edge_dst[edge])
        self.inputs[self.row_of[prefix + self.graph.names[row]]][edge - int(self.graph.in_ptr[row])] = text

    def built(self) -> Graph:
        """The graph; what belongs to the whole is as it was, and copies have the sizes of what they are copies of."""
        given = self.graph
        made = build(
            self.names,
            self.ops,
            self.devices,
            self.inputs,
            self.attrs,
            library=given.library,
            gradients=given.gradients,
            producer=given.producer,
            min_consumer=given.min_consumer,
            signatures=given.signatures,
            train_ops=given.train_ops,
            queue_runners=given.queue_runners,
            keeps_calls=given.keeps_calls,
            ends=given.ends,
            source=given.source,
            notes=given.notes,
        )
        shapes = list(made.tensor_shape)
        first, last = made.tensor_ptr.tolist(), given.tensor_ptr.tolist()
        for row, origin in enumerate(self.origin):
            if origin >= 0:
                shapes[first[row] : first[row + 1]] = given.tensor_shape[last[origin] : last[origin + 1]]
        for row, count in self.larger.items():
            shapes[first[row] : first[row + 1]] = [times(shape, count) for shape in shapes[first[row] : first[row + 1]]]
        sizes, _ = tensor_sizes(made.tensor_dtype.tolist(), shapes)
        copies = {
            name: given.copies.get(given.names[origin], given.names[origin])
            for name, origin in zip(self.names[len(given) :], self.origin[len(given) :], strict=True)
            if origin >= 0
        }
        return replace(made, tensor_shape=tuple(shapes), tensor_bytes=sizes, copies={**given.copies, **copies})


def times(shape: Shape | None, count: int) -> Shape | None:
    """The shape with its first dimension so many times as large; an open one stays open."""
    return shape if not shape or shape[0] < 0 else (shape[0] * count, *shape[1:])


def draft_of(graph: Graph, devices: Sequence[str]) -> Draft:
    """A draft that holds the graph with those devices."""
    inputs = [list(graph.inputs_of(row)) for row in range(len(graph))]
    names = list(graph.names)
    return Draft(
        graph,
        names,
        list(graph.ops),
        list(devices),
        inputs,
        list(graph.attrs),
        dict(graph.index),
        [*range(len(graph))],
        {},
    )


def dtype_of(graph: Graph, edge: int) -> int:
    """DataType of what an edge carries."""
    return base(int(graph.tensor_dtype[graph.edge_tensor[edge]]))


def sum_of(draft: Draft, name: str, parts: Sequence[str], dtype: int, device: str, shape: Shape | None = None) -> str:
    """The sum of tensors of one shape, on one device."""
    return draft.add(name, "AddN", parts, device, {**typed(dtype), "N": number(len(parts))}, [shape])


def joined(draft: Draft, name: str, parts: Sequence[str], dtype: int, device: str, shape: Shape | None = None) -> str:
    """The rows of all parts one below the other, on one device; `shape` is the result's."""
    axis = draft.constant(f"{name}/axis", 0, INT32, device)
    attrs = {**typed(dtype), "N": number(len(parts)), "Tidx": AttrValue(type=INT32)}
    return draft.add(name, "ConcatV2", [*parts, axis], device, attrs, [shape])


def share_of(
    draft: Draft, name: str, whole: str, count: int, dtype: int, device: str, shape: Shape | None = None
) -> str:
    """A tensor divided by a number, on one device."""
    divisor = draft.constant(f"{name}/replicas", count, dtype, device)
    return draft.add(name, "RealDiv", [whole, divisor], device, typed(dtype), [shape])


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
