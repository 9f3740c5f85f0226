"""Loops and branches as TensorFlow's Python front end writes them, for tests by hand and for a real session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from simulator.execution.tables import Tables
from simulator.graph.messages import AttrValue
from tests.strategies import BOOL, INT32, Rows, shapes_attr, type_attr, typed

Body = Callable[[str, str], str]  # value, node that runs once in each iteration -> the value's next state


def begun() -> Rows:
    """A graph of one fed scalar, "x"."""
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", ()))
    return rows


def number(rows: Rows, name: str, value: int, *controls: str, device: str = "") -> str:
    """A Const of one integer."""
    attr = AttrValue()
    attr.tensor.dtype = INT32
    attr.tensor.int_val.append(value)
    attr.tensor.tensor_shape.SetInParent()
    given = [f"^{control}" for control in controls]
    return rows.add(name, "Const", given, device=device, dtype=type_attr(INT32), value=attr, _output_shapes=scalars(1))


def scalars(count: int) -> object:
    """`_output_shapes` of that many scalars."""
    return shapes_attr(*[()] * count)


def predicate(rows: Rows, name: str = "p", device: str = "") -> str:
    """A placeholder of one truth."""
    shape = AttrValue()
    shape.shape.SetInParent()
    return rows.add(name, "Placeholder", device=device, dtype=type_attr(BOOL), shape=shape, _output_shapes=scalars(1))


def counting(
    rows: Rows,
    prefix: str,
    start: str,
    trips: int,
    body: Body | None = None,
    *,
    parallel: int = 10,
    device: str = "",
    compare: str = "Less",
    step: int = 1,
    first: int = 0,
    inside: str = "",
) -> str:
    """A loop over a float, which compares a counter of its own with a constant; returns the float's Exit.

    In another loop, its constants follow a node of that one (`inside`).
    """
    held = [inside] if inside else []
    frame = {"frame_name": AttrValue(s=prefix.encode()), "parallel_iterations": AttrValue(i=parallel)}
    whole, real = {"T": type_attr(INT32)}, {"T": type_attr()}

    def add(name: str, op: str, inputs: list[str], **attrs: object) -> str:
        return rows.add(f"{prefix}/{name}", op, inputs, device=device, **attrs)

    for kind, name, value in (
        (whole, "i", number(rows, f"{prefix}/first", first, *held, device=device)),
        (real, "x", start),
    ):
        add(
            f"{name}/Enter",
            "Enter",
            [value],
            **frame,
            is_constant=AttrValue(b=False),
            **kind,
            _output_shapes=scalars(1),
        )
        add(
            f"{name}/Merge", "Merge", [f"{prefix}/{name}/Enter", f"{prefix}/{name}/Next"],
            N=AttrValue(i=2), **kind, _output_shapes=scalars(2),
        )  # fmt: skip
    bound = number(rows, f"{prefix}/bound", trips, *held, device=device)
    add("bound/Enter", "Enter", [bound], **frame, is_constant=AttrValue(b=True), **whole, _output_shapes=scalars(1))
    add("compare", compare, [f"{prefix}/i/Merge", f"{prefix}/bound/Enter"], **whole, _output_shapes=scalars(1))
    add("LoopCond", "LoopCond", [f"{prefix}/compare"], _output_shapes=scalars(1))
    for kind, name in ((whole, "i"), (real, "x")):
        add(
            f"{name}/Switch",
            "Switch",
            [f"{prefix}/{name}/Merge", f"{prefix}/LoopCond"],
            **kind,
            _output_shapes=scalars(2),
        )
        add(f"{name}/Identity", "Identity", [f"{prefix}/{name}/Switch:1"], **kind, _output_shapes=scalars(1))
        add(f"{name}/Exit", "Exit", [f"{prefix}/{name}/Switch"], **kind, _output_shapes=scalars(1))
    one = number(rows, f"{prefix}/one", step, f"{prefix}/i/Identity", device=device)
    add("i/Add", "AddV2", [f"{prefix}/i/Identity", one], **whole, _output_shapes=scalars(1))
    add("i/Next", "NextIteration", [f"{prefix}/i/Add"], **whole, _output_shapes=scalars(1))
    if body is None:
        last = add("x/Neg", "Neg", [f"{prefix}/x/Identity"], **typed("Neg", ()))
    else:
        last = body(f"{prefix}/x/Identity", f"{prefix}/i/Identity")
    add("x/Next", "NextIteration", [last], **real, _output_shapes=scalars(1))
    return f"{prefix}/x/Exit"


def conditional(rows: Rows, prefix: str, value: str, pred: str, *, device: str = "", other: str = "") -> str:
    """Neg of the value where the predicate holds, else Relu of it, on another device; returns the Merge."""
    rows.add(f"{prefix}/Switch", "Switch", [value, pred], device=device, T=type_attr(), _output_shapes=scalars(2))
    rows.add(f"{prefix}/true", "Neg", [f"{prefix}/Switch:1"], device=device, **typed("Neg", ()))
    rows.add(f"{prefix}/false", "Relu", [f"{prefix}/Switch"], device=other or device, **typed("Relu", ()))
    return rows.add(
        f"{prefix}/Merge", "Merge", [f"{prefix}/false", f"{prefix}/true"], device=device,
        N=AttrValue(i=2), T=type_attr(), _output_shapes=scalars(2),
    )  # fmt: skip


def live_counts(tables: Tables) -> Counter[str]:
    """How often each node runs."""
    rows = np.flatnonzero(~tables.silent).tolist()
    return Counter(tables.names[row] for row in rows)
