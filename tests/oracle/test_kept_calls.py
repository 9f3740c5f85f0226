"""Shapes behind kept calls: those that TensorFlow infers, and those of the graph whose calls are expanded."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from simulator.graph.graph import Graph, Shape
from simulator.graph.messages import GraphDef
from simulator.loading import load
from simulator.oracle import child
from simulator.oracle.inference import compare_shapes
from tests.oracle.kept_calls import PROGRAMS

pytestmark = pytest.mark.tensorflow

Built: TypeAlias = Callable[[str], bytes]
BATCHES = (None, 6)


@pytest.fixture(scope="module")
def built() -> Iterator[Built]:
    with child.conversation("tests.oracle.kept_calls") as ask:
        yield lambda program: ask(program.encode(), 300.0)


def results(graph: Graph) -> dict[str, Shape | None]:
    return {name: graph.tensor_shape[graph.tensor_ptr[row]] for name, row in graph.index.items() if "out_" in name}


def unclaimed(raw: bytes) -> bytes:
    """The graph without the shapes that TensorFlow wrote into it."""
    message = GraphDef.FromString(raw)
    for nodes in (message.node, *(function.node_def for function in message.library.function)):
        for node in nodes:
            node.attr.pop("_output_shapes", None)
            if "output_shapes" in node.attr and node.op in ("If", "StatelessIf", "While", "StatelessWhile", "Case"):
                node.attr["output_shapes"].list.ClearField("shape")
    return bytes(message.SerializeToString())


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_shapes_behind_kept_calls_are_those_of_expanded_ones(program: str, batch: int | None, built: Built) -> None:
    raw = unclaimed(built(program))
    kept = load(raw, keep_calls=True, batch=batch)
    assert any(op in kept.library or "Call" in op or "If" in op or "While" in op for op in kept.ops)
    expanded = results(load(with_lowering(raw), batch=batch))
    for name, shape in results(kept).items():
        known = expanded[name]
        if program == "loop" and shape is not None and known is not None:  # trips of kept loops are not counted
            known = tuple([min(pair) for pair in zip(shape, known, strict=True)])
        assert shape == known, name


def with_lowering(raw: bytes) -> bytes:
    message = GraphDef.FromString(raw)
    for node in message.node:
        if node.op in ("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase"):
            node.attr["_lower_using_switch_merge"].b = True
    return bytes(message.SerializeToString())


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_shapes_behind_kept_calls_are_those_of_tensorflow(program: str, batch: int | None, built: Built) -> None:
    found, refused = compare_shapes(load(built(program), keep_calls=True, batch=batch))
    assert refused is None
    assert found.differences == ()
    assert found.of > 5
