"""Datasets by hand, as TensorFlow's Python would write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.graph.messages import AttrValue, FunctionDef
from tests.strategies import FLOAT, Rows, shapes_attr, type_attr, types_attr
from tests.training.queues import INT64, const, text

WIDTH = 8


def outputs(*shapes: Sequence[int] | None) -> dict[str, Any]:
    """The attributes of a dataset or iterator of elements of these shapes."""
    return {"output_types": types_attr(*[FLOAT] * len(shapes)), "output_shapes": shapes_attr(*shapes)}


def source(rows: Rows, name: str = "source", shape: Sequence[int] = (WIDTH,), op: str = "TensorDataset") -> str:
    bounds = ("start", "stop", "step") if op == "RangeDataset" else ()
    given = [rows.add(f"{name}/{one}", "Placeholder", dtype=type_attr(INT64)) for one in bounds]
    return rows.add(name, op, given, **outputs(shape))


def sleeping(rows: Rows, of: str, micros: int) -> str:
    """Each element takes so many microseconds."""
    const(rows, f"{of}/micros", micros, device="", dtype=INT64)
    return rows.add(f"{of}/slow", "ExperimentalSleepDataset", [of, f"{of}/micros"], **outputs((WIDTH,)))


def batch(
    rows: Rows, of: str, size: int, *, name: str = "batch", shape: Sequence[int] | None = None, op: str = ""
) -> str:
    """Batches of so many elements, of which the file leaves the last one open."""
    const(rows, f"{name}/size", size, device="", dtype=INT64)
    const(rows, f"{name}/drop", 0, device="")
    inputs = [of, f"{name}/size", f"{name}/drop"]
    return rows.add(name, op or "BatchDatasetV2", inputs, **outputs((-1, WIDTH) if shape is None else shape))


def same(rows: Rows, of: str, *, name: str, op: str = "PrefetchDataset", shape: Sequence[int] = (-1, WIDTH)) -> str:
    const(rows, f"{name}/count", 2, device="", dtype=INT64)
    return rows.add(name, op, [of, f"{name}/count"], **outputs(shape))


def mapped(rows: Rows, of: str, function: str, *, name: str = "map", shape: Sequence[int] = (-1, WIDTH)) -> str:
    called = AttrValue()
    called.func.name = function
    return rows.add(name, "MapDataset", [of], f=called, Targuments=types_attr(), **outputs(shape))


def squared(name: str, op: str = "Square") -> Any:
    """A function of one tensor."""
    made = FunctionDef()
    made.signature.name = name
    made.signature.input_arg.add(name="x", type=FLOAT)
    made.signature.output_arg.add(name="y", type=FLOAT)
    made.node_def.add(name="made", op=op, input=["x"]).attr["T"].CopyFrom(type_attr())
    made.ret["y"] = "made:y:0"
    return made


def filled(name: str, *sides: int) -> Any:
    """A function that makes a tensor of this shape, whatever it is given."""
    made = squared(name, "Identity")
    node = made.node_def[0]
    node.op, node.attr["dtype"].type, node.attr["value"].tensor.dtype = "Const", FLOAT, FLOAT
    del node.input[:], node.attr["T"]
    for side in sides:
        node.attr["value"].tensor.tensor_shape.dim.add(size=side)
    node.attr["value"].tensor.float_val.append(0)
    made.ret["y"] = "made:output:0"
    return made


def iterated(rows: Rows, dataset: str, *, name: str = "", shape: Sequence[int] = (-1, WIDTH)) -> str:
    """What an iterator over the dataset hands out."""
    names = text(""), text("")
    rows.add(f"iterator{name}", "IteratorV2", shared_name=names[0], container=names[1], **outputs(shape))
    rows.add(f"start{name}", "MakeIterator", [dataset, f"iterator{name}"])
    known = {"_output_shapes": shapes_attr(shape)}
    return rows.add(f"next{name}", "IteratorGetNext", [f"iterator{name}"], **outputs(shape), **known)
