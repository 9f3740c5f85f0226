"""A graph with another batch has the shapes of the graph that TensorFlow builds with that batch."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TypeAlias

import pytest

from simulator import SimulationOptions, choose_step, estimate, load_cluster
from simulator.execution.tables import of_step
from simulator.graph.graph import Graph
from simulator.loading import load
from simulator.oracle import child
from tests.execution.loops.cases import live_counts
from tests.oracle.two_batches import PROGRAMS

pytestmark = pytest.mark.tensorflow

Built: TypeAlias = Callable[[str], Mapping[int, bytes]]

HERE = load_cluster("cpu=1")
PAIRS = [(6, 8), (8, 6)]  # both are numbers of channels and units, too
# Built for one example, a gradient that sums over examples drops the sum: the graph is another one.
ALONE = ("attention", "words_1", "words_2", "unrolled", "synthetic", "queued", "generative", "MobileNetV3Small")
LOOPING = [f"{name}_{version}" for name in ("by_example", "by_part", "by_row", "words") for version in (1, 2)]


@pytest.fixture(scope="module")
def built() -> Iterator[Built]:
    """Each program with each batch, as TensorFlow builds it, by one process."""
    with child.conversation("tests.oracle.two_batches", keras=True) as ask:

        @cache
        def build(program: str) -> Mapping[int, bytes]:
            sizes = sorted({batch for pair in pairs_of(program) for batch in pair})
            question = json.dumps({"program": program, "batches": sizes}).encode()
            return dict(zip(sizes, map(base64.b64decode, json.loads(ask(question, 300.0))), strict=True))

        yield build


def pairs_of(program: str) -> list[tuple[int, int]]:
    return [*PAIRS, (1, 6)] if program in ALONE else PAIRS


def different(ours: Graph, theirs: Graph) -> list[str]:
    """Tensors of another shape, but for those that nobody reads."""
    assert len(ours) == len(theirs)
    read = {*ours.edge_tensor.tolist()}
    return [
        f"{ours.tensor_name(row)} ({ours.ops[ours.tensor_node[row]]}) is {a}, as built {b}"
        for row, (a, b) in enumerate(zip(ours.tensor_shape, theirs.tensor_shape, strict=True))
        if a != b and row in read
    ]


@pytest.mark.parametrize("program", PROGRAMS)
def test_shapes_are_those_of_the_graph_that_is_built_with_the_batch(program: str, built: Built) -> None:
    graphs = built(program)
    for old, new in pairs_of(program):
        assert different(load(graphs[old], batch=new), load(graphs[new])) == []


@pytest.mark.parametrize("program", LOOPING)
def test_loops_run_as_often_as_those_of_the_graph_that_is_built_with_the_batch(program: str, built: Built) -> None:
    """Loops over examples count them; a loop over words counts as many as before."""
    graphs = built(program)
    for old, new in PAIRS:
        ours, theirs = (
            of_step(graph, choose_step(graph), HERE, estimate(graph, HERE), SimulationOptions())
            for graph in (load(graphs[old], batch=new), load(graphs[new]))
        )
        assert live_counts(ours) == live_counts(theirs)
