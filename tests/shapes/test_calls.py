"""Kept calls: what a body hands back means the caller's symbols, and hostile functions end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf import text_format

from simulator.graph.graph import Graph, Shape
from simulator.graph.importer import read_graph
from simulator.graph.messages import GraphDef
from simulator.limits import raised
from simulator.loading import load
from simulator.shapes.propagation import infer

FUNCTION = """
function {
  signature {
    name: "NAME"
    input_arg { name: "x" type: DT_FLOAT }
    output_arg { name: "y" type: DT_FLOAT }
  }
  BODY
  ret { key: "y" value: "RESULT" }
}
"""


def function(name: str, nodes: Sequence[str], result: str) -> str:
    """A function of one float; a node is written "name op input input"."""
    body = ""
    for text in nodes:
        own, op, *inputs = text.split()
        given = "".join(f' input: "{one}"' for one in inputs)
        attrs = ' attr { key: "T" value { type: DT_FLOAT } }' if op[0].isupper() else ""
        body += f'  node_def {{ name: "{own}" op: "{op}"{given}{attrs} }}\n'
    return FUNCTION.replace("NAME", name).replace("BODY", body).replace("RESULT", result)


def calling(name: str, *functions: str, shape: str = "dim { size: -1 } dim { size: 4 }") -> Any:
    text = f"""
node {{
  name: "x" op: "Placeholder"
  attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} attr {{ key: "shape" value {{ shape {{ {shape} }} }} }}
}}
node {{ name: "call" op: "{name}" input: "x" }}
node {{ name: "after" op: "MatMul" input: "call" input: "call"
  attr {{ key: "T" value {{ type: DT_FLOAT }} }} attr {{ key: "transpose_a" value {{ b: true }} }} }}
versions {{ producer: 1882 }}
library {{ {"".join(functions)} }}
"""
    return text_format.Parse(text, GraphDef())


def shape_of(graph: Graph, node: str) -> Shape | None:
    return graph.tensor(int(graph.tensor_ptr[graph.row(node)])).shape


FROM_READER = (-1, -1)  # a product asks for a matrix
DOUBLE = function("double", ["a Square x", "b AddV2 a:y:0 x"], "b:z:0")


def test_a_batch_goes_through_a_call() -> None:
    graph = load(calling("double", DOUBLE), keep_calls=True, batch=7)
    assert shape_of(graph, "call") == (7, 4)
    assert shape_of(graph, "after") == (4, 4)


def test_an_unknown_dimension_that_goes_through_is_the_caller_s_own() -> None:
    graph = read_graph(calling("double", DOUBLE))
    found = infer(graph, {}, [(-1, 4), None, None])
    assert found.shapes[1] == found.shapes[0]


def test_a_function_that_calls_itself_hands_back_nothing() -> None:
    again = function("again", ["a again x", "b Square a:y:0"], "b:y:0")
    one = function("one", ["a other x"], "a:y:0")
    other = function("other", ["a one x"], "a:y:0")
    assert shape_of(load(calling("again", again), keep_calls=True), "call") == FROM_READER
    assert shape_of(load(calling("one", one, other), keep_calls=True), "call") == FROM_READER


def test_functions_that_call_each_other_twice_are_looked_at_so_often_and_no_more() -> None:
    """Each level calls the next one with two shapes, so the calls double with each."""
    levels = [
        function(f"f{at}", [f"a f{at + 1} x", "b Sum x x", f"c f{at + 1} b:output:0", "d AddV2 a:y:0 c:y:0"], "d:z:0")
        for at in range(40)
    ]
    with raised({"body-nodes": 100}):
        graph = load(calling("f0", *levels, DOUBLE.replace('"double"', '"f40"')), keep_calls=True)
    assert len(graph) == 3
    assert any("--limit body-nodes=N takes more" in note for note in graph.notes)


@pytest.mark.parametrize("result", ["a:y:0", "missing:y:0"])
def test_a_call_of_a_function_that_cannot_be_made_hands_back_nothing(result: str) -> None:
    broken = function("broken", ["a Square nothing"], result)
    assert shape_of(load(calling("broken", broken), keep_calls=True), "call") == FROM_READER
