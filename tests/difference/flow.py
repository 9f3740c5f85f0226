"""Patterns of control flow as version 1 writes it: conditionals, loops, one within the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simulator.graph.dtypes import BOOL, FLOAT, INT32, STRING
from tests.difference.sketch import INT64, NUMBERS, Sketch, Value, constant
from tests.difference.state import UNKNOWN

Step = Callable[[Sketch], None]
PASSED = (*NUMBERS, BOOL, STRING)
DEEPEST = 3


def branch(sketch: Sketch, step: Step) -> None:
    """A conditional: values that are switched, a body on each side, and their merges."""
    test = sketch.take(BOOL, fits=0)
    pivot = sketch.node("Switch", [test, test])
    sides = [sketch.node("Identity", [pivot[port]]) for port in (0, 1)]
    given = [sketch.take(*PASSED) for _ in range(sketch.random.randint(1, 3))]
    switched = [sketch.node("Switch", [value, test], gives=value.shape) for value in given]
    ends: list[list[Value]] = []
    for port, side in enumerate(sides):
        with sketch.inside(side[0].node, [pair[port] for pair in switched]) as scope:
            for _ in range(sketch.random.randint(0, 3)):
                step(sketch)
            ends.append(_of_types(sketch, scope.values, [value.dtype for value in given]))
        sketch.here.nodes.extend(scope.nodes)
    for no, yes in zip(*ends, strict=True):
        sketch.give(Value(sketch.node("Merge", [no, yes])[0].text, no.dtype))


def _of_types(sketch: Sketch, values: Sequence[Value], dtypes: Sequence[int]) -> list[Value]:
    """A value of each type, the later ones preferred."""
    return [sketch.random.choice([value for value in values if value.dtype == dtype][-4:]) for dtype in dtypes]


def ref_branch(sketch: Sketch) -> None:
    """A reference that is switched and merged."""
    variable = sketch.node("VariableV2", dtype=FLOAT, shape=UNKNOWN)[0]
    pair = sketch.node("RefSwitch", [variable, sketch.take(BOOL, fits=0)])
    sketch.node("Assign", [pair[1], sketch.take(FLOAT)])
    sketch.give(*sketch.node("Identity", [pair[0]]))
    if sketch.chance(0.5):
        merged = sketch.node("RefMerge", pair)
        sketch.give(*sketch.node("Identity", [merged[0]]))


def loop(sketch: Sketch, step: Step) -> None:
    """A loop over one to three values, with invariants, a random body, perhaps with loops and conditionals inside."""
    at = sketch.name("while")
    frame: dict[str, Any] = {"frame_name": at, "parallel_iterations": sketch.random.choice([1, 10])}
    count = sketch.random.randint(1, 3)
    starts = [sketch.take(FLOAT, INT32, INT64), *(sketch.take(*PASSED) for _ in range(count - 1))]
    enters = [_entered(sketch, value, is_constant=False, **frame) for value in starts]
    fixed = [
        _entered(sketch, sketch.take(*PASSED), is_constant=True, **frame) for _ in range(sketch.random.randint(0, 2))
    ]
    handles = [
        _entered(sketch, handle, is_constant=True, **frame)
        for handle in sketch.handles(FLOAT)[-1:]
        if sketch.chance(0.5)
    ]
    with sketch.inside("", [*fixed]) as scope:
        scope.handles[FLOAT] = handles
        backs = [f"{at}/next{number}" for number in range(count)]
        merges = [
            Value(sketch.node("Merge", [enter], also=[back], N=2)[0].text, enter.dtype)
            for enter, back in zip(enters, backs, strict=True)
        ]
        scope.pivot = merges[0].node
        scope.values += merges
        limit = sketch.node("Const", gives=0, **constant(merges[0].dtype))[0]
        test = sketch.node("Less", [merges[0], limit])[0]
        going = sketch.node("LoopCond", [test])[0]
        pairs = [sketch.node("Switch", [merge, going]) for merge in merges]
        bodies = [sketch.node("Identity", [pair[1]])[0] for pair in pairs]
        scope.pivot = bodies[0].node
        scope.nodes = [body.node for body in bodies]
        scope.values[:] = [*fixed, *bodies]
        for _ in range(sketch.random.randint(0, 5)):
            step(sketch)
        given = _of_types(sketch, scope.values, [start.dtype for start in starts])
        for value, back in zip(given, backs, strict=True):
            sketch.node("NextIteration", [value], name=back)
        exits = []
        for pair in pairs:  # what they wait for is inside, and nothing there waits for them
            exits += sketch.node("Exit", [pair[0]])
            scope.nodes.remove(exits[-1].node)
    for left in exits:
        # Were a Switch to read the Exit itself, the order in which TensorFlow moves the two would be by chance
        sketch.give(*sketch.node(sketch.random.choice(["Identity", "Snapshot"]), [left]))


def _entered(sketch: Sketch, value: Value, op: str = "Enter", **attrs: Any) -> Value:
    """The value inside; nothing outside waits for it."""
    made = sketch.node(op, [value], **attrs)[0]
    sketch.here.nodes.remove(made.node)
    return made


def ref_loop(sketch: Sketch) -> None:
    """A reference that enters a loop."""
    variable = sketch.node("VariableV2", dtype=FLOAT, shape=UNKNOWN)[0]
    at = sketch.name("refs")
    start = sketch.take(FLOAT)
    enter = _entered(sketch, start, frame_name=at)
    entered = _entered(sketch, variable, "RefEnter", frame_name=at, is_constant=True)
    with sketch.inside("", []):
        merge = sketch.node("Merge", [enter], also=[f"{at}/next"], N=2)[0]
        test = sketch.node("IsFinite", [merge])[0]
        pair = sketch.node("Switch", [merge, sketch.node("LoopCond", [test])[0]])
        added = sketch.node("AssignAdd", [entered, pair[1]])[0]
        sketch.node("NextIteration", [Value(added.text, FLOAT)], name=f"{at}/next")
        left = sketch.node("Exit", [pair[0]])[0]
    sketch.give(*sketch.node("Identity", [left]))
