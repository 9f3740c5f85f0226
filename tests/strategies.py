"""Hypothesis strategies for graphs that TensorFlow would import, shared by all tests.

`graphs()` draws a Graph. Nodes are typed by real ops, so that types, kernels and shapes can be asked for; shapes are
written into `_output_shapes`, sometimes unknown. `rows()` draws the material of a graph before `build`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from simulator.graph.building import build
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue

FLOAT, INT32, BOOL = 1, 3, 10

# op -> how many data inputs it takes; "Switch" and "Split" have two outputs
ARITY = {
    "Const": 0,
    "Placeholder": 0,
    "VariableV2": 0,
    "Identity": 1,
    "Relu": 1,
    "Neg": 1,
    "MatMul": 2,
    "Mul": 2,
    "AddV2": 2,
    "NoOp": 0,
}
DEVICES = ("", "/cpu:0", "/device:GPU:0", "/device:GPU:1", "/job:ps/task:0", "/job:worker/task:0/device:GPU:0")


@dataclass
class Rows:
    """The columns of a graph before `build`."""

    names: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    inputs: list[list[str]] = field(default_factory=list)
    attrs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, op: str, inputs: Sequence[str] = (), *, device: str = "", **attrs: Any) -> str:
        """Append a node; attributes are AttrValue messages, see `float_attrs`. Returns the name."""
        self.names.append(name)
        self.ops.append(op)
        self.requested.append(device)
        self.inputs.append(list(inputs))
        self.attrs.append(dict(attrs))
        return name

    def built(self, library: Mapping[str, Any] = {}, source: str = "a graph in memory", **whole: Any) -> Graph:
        """The graph; `whole` are fields of it as a whole."""
        made = build(self.names, self.ops, self.requested, self.inputs, self.attrs, library=library, source=source)
        return replace(made, **whole)


def type_attr(dtype: int = FLOAT) -> Any:
    return AttrValue(type=dtype)


def types_attr(*dtypes: int) -> Any:
    """A list of types, which may be empty."""
    value = AttrValue()
    value.list.SetInParent()
    value.list.type.extend(dtypes)
    return value


def shape_attr(*sides: int) -> Any:
    """`shape`; without sides a scalar's."""
    value = AttrValue()
    value.shape.SetInParent()
    for side in sides:
        value.shape.dim.add(size=side)
    return value


def shapes_attr(*shapes: Sequence[int] | None) -> Any:
    """`_output_shapes` with those shapes; None: unknown rank."""
    value = AttrValue()
    value.list.SetInParent()
    for shape in shapes:
        made = value.list.shape.add()
        if shape is None:
            made.unknown_rank = True
        else:
            for size in shape:
                made.dim.add(size=size)
    return value


def colocation(*names: str) -> Any:
    """`_class` that wants the node beside those."""
    value = AttrValue()
    value.list.s.extend(f"loc:@{name}".encode() for name in names)
    return value


def typed(op: str, shape: Sequence[int] | None = ()) -> dict[str, Any]:
    """The attributes of a float op of `ARITY` with that output shape."""
    if op == "NoOp":
        return {}
    key = "dtype" if op in ("Const", "Placeholder", "VariableV2") else "T"
    attrs = {key: type_attr(), "_output_shapes": shapes_attr(shape)}
    if op in ("Placeholder", "VariableV2"):
        attrs["shape"] = AttrValue()
        attrs["shape"].shape.SetInParent()
    if op == "Const":
        attrs["value"] = AttrValue()
        attrs["value"].tensor.dtype = FLOAT
        attrs["value"].tensor.float_val.append(1.0)
        attrs["value"].tensor.tensor_shape.SetInParent()
        for size in shape or ():
            attrs["value"].tensor.tensor_shape.dim.add(size=max(size, 0))
    return attrs


SHAPES = st.one_of(
    st.none(), st.lists(st.one_of(st.integers(1, 64), st.just(-1)), max_size=3).map(tuple), st.just((256, 256))
)


@st.composite
def rows(
    draw: st.DrawFn,
    *,
    min_nodes: int = 1,
    max_nodes: int = 25,
    devices: Sequence[str] = ("",),
    known_shapes: bool = False,
    colocations: bool = False,
) -> Rows:
    """An acyclic graph of float ops with data and control edges, in topological order of its rows."""
    count = draw(st.integers(min_nodes, max_nodes))
    made = Rows()
    shapes = SHAPES.filter(lambda shape: shape is not None and -1 not in shape) if known_shapes else SHAPES
    givers: list[str] = []  # nodes with a data output
    for at in range(count):
        ops = [op for op, arity in ARITY.items() if arity == 0 or givers]
        op = draw(st.sampled_from(ops))
        name = draw(st.sampled_from(("", "a/", "a/b/", "c/"))) + f"n{at}"
        inputs = [draw(st.sampled_from(givers)) for _ in range(ARITY[op])]
        controls = draw(st.lists(st.sampled_from(made.names), max_size=2, unique=True)) if made.names else []
        attrs = typed(op, draw(shapes))
        if colocations and givers and draw(st.integers(0, 4)) == 0:
            attrs["_class"] = colocation(draw(st.sampled_from(givers)))
        made.add(name, op, [*inputs, *("^" + control for control in controls)], **attrs)
        made.requested[-1] = draw(st.sampled_from(devices))
        if op != "NoOp":
            givers.append(name)
    return made


def graphs(**options: Any) -> st.SearchStrategy[Graph]:
    """A built graph; the options are those of `rows`."""
    return rows(**options).map(Rows.built)


def loop(rows: Rows, *, prefix: str = "while", start: str, parallel: int = 10) -> str:
    """Append a counting loop over `start`; returns its Exit. The Merge stands before the NextIteration, as always."""
    frame = AttrValue(s=prefix.encode())
    shaped = typed("Identity", ())
    window = AttrValue(i=parallel)
    rows.add(f"{prefix}/Enter", "Enter", [start], frame_name=frame, parallel_iterations=window, **shaped)
    rows.add(
        f"{prefix}/Merge", "Merge", [f"{prefix}/Enter", f"{prefix}/NextIteration"], N=AttrValue(i=2), T=type_attr()
    )
    rows.add(f"{prefix}/limit", "Const", [f"^{prefix}/Merge"], **typed("Const"))
    rows.add(f"{prefix}/Less", "Less", [f"{prefix}/Merge", f"{prefix}/limit"], T=type_attr())
    rows.add(f"{prefix}/LoopCond", "LoopCond", [f"{prefix}/Less"])
    rows.add(f"{prefix}/Switch", "Switch", [f"{prefix}/Merge", f"{prefix}/LoopCond"], T=type_attr())
    rows.add(f"{prefix}/Neg", "Neg", [f"{prefix}/Switch:1"], **shaped)
    rows.add(f"{prefix}/NextIteration", "NextIteration", [f"{prefix}/Neg"], **shaped)
    return rows.add(f"{prefix}/Exit", "Exit", [f"{prefix}/Switch"], **shaped)
