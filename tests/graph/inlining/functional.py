"""Graphs with functions for the tests, and two ways to compute them: by calling, and by running the flat graph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from simulator.graph.building import build
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue, FunctionDef
from tests.strategies import type_attr, types_attr

FLOAT, INT32, BOOL = 1, 3, 10
BINARY: dict[str, Callable[[int, int], int]] = {
    "AddV2": lambda a, b: a + b,
    "Mul": lambda a, b: a * b,
    "Sub": lambda a, b: a - b,
}
Written: TypeAlias = tuple[Any, ...]  # name, op, inputs, attributes and perhaps a device
RESULT = "z"  # the output argument of all of them


def calls(name: str) -> Any:
    made = AttrValue()
    made.func.name = name
    return made


def function(
    name: str,
    arguments: Sequence[str],
    nodes: Sequence[Written],
    results: Sequence[str],
    *,
    effects: Sequence[str] = (),
) -> Any:
    """A FunctionDef over floats; nodes are (name, op, inputs, attributes[, device])."""
    made = FunctionDef()
    made.signature.name = name
    for argument in arguments:
        made.signature.input_arg.add(name=argument, type=FLOAT)
    for node in nodes:
        written = made.node_def.add(name=node[0], op=node[1], input=node[2], device=node[4] if len(node) > 4 else "")
        for key, value in node[3].items():
            written.attr[key].CopyFrom(value)
    for at, result in enumerate(results):
        made.signature.output_arg.add(name=f"r{at}", type=FLOAT)
        made.ret[f"r{at}"] = result
    for effect in effects:
        made.signature.control_output.append(effect)
        made.control_ret[effect] = effect
    return made


def graph(
    nodes: Sequence[Written],
    functions: Sequence[Any] = (),
    **rest: Any,
) -> Graph:
    """A Graph from (name, op, inputs, attributes[, device])."""
    made = build(
        [node[0] for node in nodes],
        [node[1] for node in nodes],
        [node[4] if len(node) > 4 else "" for node in nodes],
        [node[2] for node in nodes],
        [node[3] for node in nodes],
        library={function.signature.name: function for function in functions},
    )
    return replace(made, **rest)


T = {"T": type_attr(FLOAT)}
PLACEHOLDER = {"dtype": type_attr(FLOAT)}


def call(name: str, inputs: int, results: int = 1) -> dict[str, Any]:
    """The attributes of a PartitionedCall."""
    return {"f": calls(name), "Tin": types_attr(*[FLOAT] * inputs), "Tout": types_attr(*[FLOAT] * results)}


def conditional(then: str, other: str, inputs: int, results: int = 1) -> dict[str, Any]:
    """The attributes of a StatelessIf on a bool."""
    given = {"then_branch": calls(then), "else_branch": calls(other), "Tcond": type_attr(BOOL)}
    return {**given, "Tin": types_attr(*[FLOAT] * inputs), "Tout": types_attr(*[FLOAT] * results)}


# ---- computing ---------------------------------------------------------------------------------------------------


def by_calling(made: Graph, fed: Mapping[str, int]) -> dict[str, list[int]]:
    """Node name -> values of all nodes of a graph with functions, computed as one reads it."""
    found: dict[str, list[int]] = {}
    for row in made.order.tolist():
        node = made.node(row)
        given = [found[name.split(":")[0]][int([*name.split(":"), "0"][1])] for name in node.inputs if name[0] != "^"]
        found[node.name] = [fed[node.name]] if node.name in fed else _computed(node.op, node.attrs, given, made.library)
    return found


def _computed(op: str, attrs: Any, given: Sequence[int], library: Mapping[str, Any]) -> list[int]:
    if op in BINARY:
        return [BINARY[op](*given)]
    if op == "PartitionedCall":
        return _called(library[attrs["f"].func.name], given, library)
    branch = attrs["then_branch" if given[0] else "else_branch"]
    return _called(library[branch.func.name], given[1:], library)


def _called(body: Any, given: Sequence[int], library: Mapping[str, Any]) -> list[int]:
    found = {argument.name: [value] for argument, value in zip(body.signature.input_arg, given, strict=True)}

    def value(text: str) -> int:
        name, *rest = text.split(":")
        return found[name][_port(rest)]

    for node in body.node_def:
        found[node.name] = _computed(node.op, node.attr, [value(text) for text in node.input], library)
    return [value(body.ret[result.name]) for result in body.signature.output_arg]


def _port(rest: Sequence[str]) -> int:
    return int(rest[1]) if rest else 0


def by_running(made: Graph, fed: Mapping[str, int]) -> dict[str, list[Any]]:
    """Node name -> values of all nodes of a flat graph without loops, by TensorFlow's rules for dead values (None)."""
    found: dict[str, list[Any]] = {}
    for row in made.order.tolist():
        node = made.node(row)
        waits = [found[name[1:]] for name in node.inputs if name[0] == "^"]
        given = [found[name.split(":")[0]][int([*name.split(":"), "0"][1])] for name in node.inputs if name[0] != "^"]
        dead = any(None in values for values in waits)
        if node.name in fed:
            found[node.name] = [fed[node.name]]
        elif node.op == "Merge":
            alive = [value for value in given if value is not None]
            found[node.name] = [alive[0], 0] if alive else [None, None]  # whatever became of what it waits for
        elif dead or None in given:
            found[node.name] = [None] * max(1, made.tensor_ptr[row + 1] - made.tensor_ptr[row])
        elif node.op == "Switch":
            found[node.name] = [None, given[0]] if given[1] else [given[0], None]
        else:
            found[node.name] = [BINARY[node.op](*given)] if node.op in BINARY else given or ["ran"]
    return found
