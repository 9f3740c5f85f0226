"""Patterns that compute: arithmetic, text, metadata, constants, whatever host memory and kernels make special."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.graph.dtypes import BOOL, FLOAT, INT32, STRING
from simulator.graph.messages import AttrValue
from tests.difference.sketch import DOUBLE, INT64, LOOSE, NUMBERS, UNTOLD, Sketch, Value, beside, constant

ANY = (*NUMBERS, BOOL, STRING)


def unary(sketch: Sketch) -> None:
    given = sketch.take(*NUMBERS)
    op = sketch.random.choice(["Neg", "Abs", "Square", "Identity", "StopGradient", "Snapshot", "ZerosLike", "Relu"])
    sketch.give(*sketch.node(op, [given], gives=given.shape))


def binary(sketch: Sketch) -> None:
    first = sketch.take(*NUMBERS)
    other = sketch.take(first.dtype, fits=beside(first.shape))
    op = sketch.random.choice(["AddV2", "Mul", "Sub", "Maximum", "FloorDiv", "SquaredDifference"])
    both = UNTOLD if UNTOLD in (first.shape, other.shape) else max(first.shape, other.shape)
    both = LOOSE if LOOSE in (first.shape, other.shape) else both
    sketch.give(*sketch.node(op, [first, other], gives=both))


def square(sketch: Sketch) -> None:
    """One tensor read twice by one node."""
    given = sketch.take(*NUMBERS)
    sketch.give(*sketch.node("Mul", [given, given], gives=given.shape))


def many(sketch: Sketch) -> None:
    given = [first := sketch.take(*NUMBERS)]
    while sketch.chance(0.7) and len(given) < 12:
        given.append(sketch.take(first.dtype, fits=first.shape) if sketch.chance(0.7) else first)
    op = sketch.random.choice(["AddN", "Pack", "IdentityN"])
    given = [value for value in given if value.shape == first.shape != UNTOLD or value is first or op == "IdentityN"]
    sketch.give(*sketch.node(op, given, gives=first.shape if op == "AddN" else UNTOLD))


def compare(sketch: Sketch) -> None:
    first = sketch.take(*NUMBERS)
    other = sketch.take(first.dtype, fits=beside(first.shape))
    sketch.give(*sketch.node(sketch.random.choice(["Less", "Equal", "GreaterEqual"]), [first, other]))


def logic(sketch: Sketch) -> None:
    first = sketch.take(BOOL)
    if sketch.chance(0.5):
        sketch.give(*sketch.node("LogicalNot", [first], gives=first.shape))
    else:
        sketch.give(*sketch.node("LogicalAnd", [first, first], gives=first.shape))


def cast(sketch: Sketch) -> None:
    given = sketch.take(*NUMBERS)
    sketch.give(*sketch.node("Cast", [given], DstT=sketch.random.choice(NUMBERS), gives=given.shape))


def metadata(sketch: Sketch) -> None:
    """Shape, Size and Rank follow what they describe, ShapeN does not."""
    given = sketch.take(*ANY)
    op = sketch.random.choice(["Shape", "Size", "Rank", "ShapeN"])
    kinds: dict[str, Any] = {} if op == "Rank" else {"out_type": sketch.random.choice([INT32, INT64])}
    several = [given, given] if op == "ShapeN" and sketch.chance(0.5) else [given]
    for value in sketch.node(op, several, **kinds):
        if op in ("Size", "Rank"):
            sketch.give(Value(value.text, value.dtype, 0))
        elif given.shape == LOOSE and sketch.chance(0.6):
            sketch.give(*sketch.node("Reshape", [given, value]) if op == "Shape" else ())
            sketch.give(*sketch.node("Identity", [value]))


def identities(sketch: Sketch) -> None:
    """Identities in a row, between equal and different requests."""
    given = sketch.take(*ANY)
    ends = [sketch.random.choice(sketch.requests)] * 2
    if sketch.chance(0.4):
        ends = [sketch.random.choice(sketch.requests), ""]
    given = sketch.node("Identity", [given], device=ends[0], gives=given.shape)[0]
    for _ in range(sketch.random.randint(1, 3)):
        given = sketch.node("Identity", [given], device="", gives=given.shape)[0]
        if sketch.chance(0.2):
            sketch.give(given)
    last = sketch.node(sketch.random.choice(["Identity", "Snapshot"]), [given], device=ends[1], gives=given.shape)
    sketch.give(*last)


def shared_constant(sketch: Sketch) -> None:
    """A constant with many readers: small ones are copied to them, and above eight edges their order is by chance."""
    dtype = sketch.random.choice([FLOAT, INT32, STRING, BOOL, INT64])
    size = sketch.random.choice([0, 0, 0, 16, 17])
    made = sketch.node("Const", gives=size, **constant(dtype, size))[0]
    for _ in range(sketch.random.choice([1, 2, 3, 4, 5, 6, 9, 12])):
        sketch.give(*sketch.node("Identity" if sketch.chance(0.8) else "IdentityN", [made], gives=size))
    if sketch.chance(0.2):
        sketch.node("NoOp", waits=[made.node])
    sketch.give(made)


def text(sketch: Sketch) -> None:
    given = sketch.take(*ANY)
    written = given if given.dtype == STRING else sketch.node("AsString", [given], gives=given.shape)[0]
    sketch.give(written)
    op = sketch.random.choice(["StringJoin", "StringLength", "StringToHashBucketFast", "StringToNumber", "Identity"])
    options: dict[str, Any] = {"num_buckets": 7} if "Hash" in op else {}
    if op == "StringToNumber":
        options = {"out_type": FLOAT}
    read = [written, written] if op == "StringJoin" else [written]
    sketch.give(*sketch.node(op, read, gives=given.shape, **options))


def host_arguments(sketch: Sketch) -> None:
    """Ops that read small integers in host memory."""
    given, number = sketch.take(*NUMBERS, fits=LOOSE), sketch.take(INT32, fits=LOOSE)
    made = {
        "Reshape": [given, number],
        "Fill": [number, sketch.take(FLOAT, fits=0)],
        "Tile": [given, number],
        "ExpandDims": [given, sketch.source(INT32)],
        "Sum": [given, number],
        "ConcatV2": [given, given, sketch.source(INT32)],
        "Range": [number, number, number],
        "GatherV2": [given, number, sketch.source(INT32)],
        "StridedSlice": [given, number, number, number],
        "Transpose": [given, number],
        "Where": [sketch.take(BOOL, fits=LOOSE)],
        "Unique": [given],
        "TopKV2": [given, number],
        "BroadcastGradientArgs": [number, number],
        "Pad": [given, number],
        "Size": [given],
    }
    op = sketch.random.choice(sorted(made))
    sketch.give(*sketch.node(op, made[op]))


def gather_text(sketch: Sketch) -> None:
    given, number = sketch.take(STRING, FLOAT, fits=LOOSE), sketch.take(INT32, INT64, fits=LOOSE)
    sketch.give(*sketch.node("GatherNd", [given, number]))


def chance_source(sketch: Sketch) -> None:
    """What draws numbers or tells the time: with inputs, or out of nothing."""
    op = sketch.random.choice(["Timestamp", "StatelessRandomGetAlg", "RandomStandardNormal", "RandomUniformInt"])
    if op == "RandomStandardNormal":
        made = sketch.node(op, [sketch.take(INT32, fits=LOOSE)], dtype=FLOAT)
    elif op == "RandomUniformInt":
        bound = sketch.take(INT32, fits=0)
        made = sketch.node(op, [sketch.take(INT32, fits=LOOSE), bound, bound])
    else:
        made = sketch.node(op, gives=0)
    sketch.give(*made)


def barrier(sketch: Sketch) -> None:
    """A node that only waits, for many."""
    there = sketch.here.nodes
    count = min(len(there), sketch.random.choice([1, 2, 3, 5, 8, 11]))
    made = sketch.random.choice(["NoOp", "NoOp", "ControlTrigger", "Const"])
    given = constant(FLOAT) if made == "Const" else {}
    values = sketch.node(made, waits=sketch.random.sample(there, count), gives=0, **given)
    sketch.give(*values)


def checked(sketch: Sketch) -> None:
    test = sketch.take(BOOL, fits=0)
    if sketch.chance(0.5):
        sketch.node("Assert", [test, sketch.take(*ANY)])
    else:
        sketch.give(*sketch.node("CheckNumerics", [sketch.take(FLOAT, DOUBLE)], message="m"))


def rewritten(sketch: Sketch) -> None:
    """Ops that a session rewrites before it places: their inputs come as soon as they can."""
    count = sketch.random.randint(1, 4)
    if sketch.chance(0.5):
        dtype = sketch.random.choice([FLOAT, DOUBLE, INT64])
        given = [sketch.take(dtype, fits=0) for _ in range(count)]
        sketch.give(*sketch.node("AccumulateNV2", given, shape=AttrValue(shape={}), gives=0))
    else:
        given = [sketch.take(FLOAT, INT32, fits=LOOSE)] * count
        shape = AttrValue(shape={"dim": [{"size": count}, {"size": 2}]})
        sketch.give(*sketch.node("ParallelConcat", given, shape=shape))


PATTERNS: dict[str, tuple[Callable[[Sketch], None], ...]] = {
    "arithmetic": (unary, unary, binary, binary, square, many, compare, logic, cast),
    "text": (text, gather_text),
    "metadata": (metadata,),
    "identities": (identities,),
    "constants": (shared_constant,),
    "host memory": (host_arguments,),
    "sources": (chance_source,),
    "control edges": (barrier, checked),
    "rewritten ops": (rewritten,),
}
