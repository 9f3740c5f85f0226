"""Patterns of functions: calls in three forms, If, Case and While, to be lowered or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simulator.graph import ops
from simulator.graph.dtypes import BOOL, FLOAT, INT32, RESOURCE, STRING
from simulator.graph.messages import AttrValue, FunctionDef
from tests.difference.sketch import INT64, NUMBERS, Sketch, Value, func

Step = Callable[[Sketch], None]
LOWERED = "_lower_using_switch_merge"


def function(
    sketch: Sketch,
    takes: Sequence[int],
    gives: Sequence[int],
    step: Step | None = None,
    *,
    test: bool = False,
    handles: int = 0,
) -> str:
    """Add a function to the library and return its name; each result is of a type that it takes, or a constant.

    With `test` the function compares its first argument and gives a bool. The last `handles` arguments are resources
    of variables of floats. `step` draws the body, empty without.
    """
    name = f"f{len(sketch.library)}"
    sketch.library[name] = FunctionDef()  # its place is taken while the body is drawn
    body = Sketch(sketch.random, sketch.requests)
    body.library = sketch.library
    arguments = [Value(f"x{at}", dtype) for at, dtype in enumerate(takes)]
    with body.inside("", [value for value in arguments if value.dtype != RESOURCE]) as scope:
        if handles:
            scope.handles[FLOAT] = arguments[-handles:]
        if step is not None:
            for _ in range(sketch.random.randint(0, 4)):
                step(body)
        results = [body.node("Less", [arguments[0], arguments[0]])[0]] if test else _results(body, scope.values, gives)
    sketch.library[name] = _written(name, body, arguments, results)
    return name


def _results(body: Sketch, values: Sequence[Value], gives: Sequence[int]) -> list[Value]:
    found = []
    for dtype in gives:
        there = [value for value in values if value.dtype == dtype]
        found.append(body.random.choice(there[-4:]) if there else body.source(dtype))
    return found


def _written(name: str, body: Sketch, arguments: Sequence[Value], results: Sequence[Value]) -> Any:
    """The body as a FunctionDef, where an input is "node:argument:index"."""
    made = FunctionDef()
    made.signature.name = name
    for value in arguments:
        made.signature.input_arg.add(name=value.text, type=value.dtype)
    rows = body.rows
    ports = {}
    for at, (node, op, attrs) in enumerate(zip(rows.names, rows.ops, rows.attrs, strict=True)):
        ports[node] = ops.output_ranges(op, attrs, body.library) or ()
        stateful = ops.is_stateful(op)
        made.signature.is_stateful |= stateful
        written = made.node_def.add(name=node, op=op, device=rows.requested[at])
        written.input.extend(_input(text, ports) for text in rows.inputs[at])
        for key, value in attrs.items():
            written.attr[key].CopyFrom(value)
        if stateful and body.chance(0.7):
            made.signature.control_output.append(f"c{at}")
            made.control_ret[f"c{at}"] = node
    for at, value in enumerate(results):
        made.signature.output_arg.add(name=f"r{at}", type=value.dtype)
        made.ret[f"r{at}"] = _input(value.text, ports)
    return made


def _input(text: str, ports: dict[str, Any]) -> str:
    node, _, port = text.partition(":")
    if text.startswith("^") or node not in ports:  # a loop's back edge has one output; an argument has no port
        return text if text.startswith("^") or node.startswith("x") else f"{node}:output:0"
    at = int(port or 0)
    argument, first = next((name, first) for name, first, last in ports[node] if first <= at < last)
    return f"{node}:{argument}:{at - first}"


def _given(sketch: Sketch, *, handles: bool = True) -> tuple[list[Value], int]:
    """Values to hand in, and how many of the last ones are resources."""
    values = [sketch.take(*NUMBERS, BOOL, STRING) for _ in range(sketch.random.randint(1, 3))]
    there = sketch.handles(FLOAT) if handles else []
    passed = [sketch.random.choice(there) for _ in range(sketch.random.randint(0, 2))] if there else []
    return [*values, *passed], len(passed)


def _types(values: Sequence[Value]) -> list[int]:
    return [value.dtype for value in values]


def call(sketch: Sketch, step: Step) -> None:
    """A call by PartitionedCall, by StatefulPartitionedCall or by the function's own name, perhaps of one function."""
    given, handles = _given(sketch)
    gives = [sketch.random.choice([FLOAT, *_types(given[: len(given) - handles])]) for _ in range(2)]
    name = function(sketch, _types(given), gives, step, handles=handles)
    for _ in range(sketch.random.choice([1, 1, 2])):
        how = sketch.random.choice(["PartitionedCall", "StatefulPartitionedCall", name])
        if how == name:
            sketch.give(*sketch.node(name, given))
        else:
            sketch.give(*sketch.node(how, given, f=func(name), Tout=gives))


def conditional(sketch: Sketch, step: Step) -> None:
    given, handles = _given(sketch)
    gives = [sketch.random.choice([FLOAT, *_types(given[: len(given) - handles])]) for _ in range(2)]
    how = sketch.random.choice(["If", "StatelessIf", "Case", "StatelessCase"])
    bodies = [function(sketch, _types(given), gives, step, handles=handles) for _ in range(2)]
    lowered = {LOWERED: AttrValue(b=True)} if sketch.chance(0.7) else {}
    if how.endswith("If"):
        chosen = {"then_branch": func(bodies[0]), "else_branch": func(bodies[1])}
        made = sketch.node(how, [sketch.take(BOOL, fits=0), *given], Tout=gives, **chosen, **lowered)
    else:
        branches = AttrValue()
        for name in bodies:
            branches.list.func.add(name=name)
        made = sketch.node(how, [sketch.take(INT32, fits=0), *given], Tout=gives, branches=branches, **lowered)
    sketch.give(*made)


def repeat(sketch: Sketch, step: Step) -> None:
    """A While; resources go round as they came."""
    first = sketch.take(FLOAT, INT32, INT64)
    given, handles = _given(sketch)
    given = [first, *given]
    types = _types(given)
    test = function(sketch, types, [BOOL], test=True)
    body = _loop_body(sketch, types, handles, step)
    how = sketch.random.choice(["While", "StatelessWhile"])
    lowered = {LOWERED: AttrValue(b=True)} if sketch.chance(0.7) else {}
    made = sketch.node(how, given, cond=func(test), body=func(body), **lowered)
    sketch.give(*(value for value in made if value.dtype != RESOURCE))


def _loop_body(sketch: Sketch, types: Sequence[int], handles: int, step: Step) -> str:
    """A body that gives back its resources."""
    plain = [dtype for dtype in types if dtype != RESOURCE]
    name = function(sketch, types, plain, step, handles=handles)
    for at in range(handles):
        argument = len(plain) + at
        sketch.library[name].signature.output_arg.add(name=f"r{argument}", type=RESOURCE)
        sketch.library[name].ret[f"r{argument}"] = f"x{argument}"
    return name


def resource_call(sketch: Sketch) -> None:
    """A call that gives a resource: its body is looked into, and ties what hands in to what takes out."""
    given = sketch.handles(FLOAT)
    if not given:
        return
    name = identity_of_handle(sketch)
    how = sketch.random.choice(["PartitionedCall", "StatefulPartitionedCall"])
    handle = sketch.node(how, [sketch.random.choice(given)], f=func(name), Tout=[RESOURCE])[0]
    sketch.give(*sketch.node("ReadVariableOp", [handle], dtype=FLOAT))


def identity_of_handle(sketch: Sketch) -> str:
    """Add a function that gives back the resource that it takes."""
    name = f"f{len(sketch.library)}"
    made = FunctionDef()
    made.signature.name = name
    made.signature.input_arg.add(name="x0", type=RESOURCE)
    made.signature.output_arg.add(name="r0", type=RESOURCE)
    written = made.node_def.add(name="same", op="Identity", input=["x0"], device=sketch.random.choice(sketch.requests))
    written.attr["T"].type = RESOURCE
    made.ret["r0"] = "same:output:0"
    sketch.library[name] = made
    return name
