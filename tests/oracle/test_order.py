"""The order "tensorflow" is that of a real session with one inter-op thread, op by op."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from simulator.execution.engine import StepRun, run
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_step
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.step import Step, choose_step
from simulator.oracle.timing import timed
from tests.execution.cases import apart, costs
from tests.strategies import Rows, typed

pytestmark = pytest.mark.tensorflow

SIDE = 60
MOST = 8  # edges out of one node: TensorFlow keeps the order of no more than these
TIMED = ("MatMul", "Identity", "AddV2")  # the executor passes NoOps without a line
EXPENSIVE_NS = 10_000  # of everything: so long does a new session take every kernel to be expensive that may be


BEGIN = ("x", "y", "z")


def drawn(seed: int, count: int, begin: Sequence[str] = BEGIN) -> Graph:
    """Products, sums and identities of what stands shortly before them, with control edges, behind what is fed."""
    chance = random.Random(seed)
    draft, readers = Rows(), dict.fromkeys(begin, 0)
    for name in begin:
        draft.add(name, "Placeholder", **typed("Placeholder", (SIDE, SIDE)))
    for at in range(count):
        free = [name for name in list(readers)[-10:] if readers[name] <= MOST - 3]  # one op adds three edges at most
        values = [name for name in free if draft.ops[draft.names.index(name)] != "NoOp"]
        op = chance.choice(["MatMul", "MatMul", "Identity", "AddV2", "NoOp"]) if values else "NoOp"
        inputs = [chance.choice(values) for _ in range({"Identity": 1, "NoOp": 0}.get(op, 2))]
        if op == "NoOp" or chance.random() < 0.2:
            inputs.append(f"^{chance.choice(free)}")
        for name in inputs:
            readers[name.lstrip("^")] += 1
        readers[f"n{at}"] = 0
        draft.add(f"n{at}", op, inputs, **({} if op == "NoOp" else typed(op, (SIDE, SIDE))))
    return draft.built()


def step_of(graph: Graph) -> Step:
    """All of it, with what begins fed."""
    fed = [name for name in BEGIN if name in graph.index]
    fetched = [name for name in graph.names if name not in fed]
    return choose_step(graph, feeds=[f"{name}:0" for name in fed], fetches=fetched)


def timed_ops(graph: Graph, tables: Tables, outcome: StepRun) -> list[str]:
    """The ops that the real session times, in the order of our starts."""
    order = np.argsort(outcome.start_ns, kind="stable").tolist()
    nodes = [int(tables.node[op]) for op in order if tables.bound[op] < 0]
    return [graph.names[node] for node in nodes if graph.ops[node] in TIMED]


def started(graph: Graph, step: Step) -> list[str]:
    """The same, in the order of a real session with one thread."""
    stats, why_not = timed(
        graph_def(graph), graph, step, counts={"CPU": 1, "GPU": 0}, threads=1, step_timeout_s=30, timeout_s=60
    )
    assert stats is not None, why_not
    lines = [line for device in stats.dev_stats for line in device.node_stats]
    lines.sort(key=lambda line: line.all_start_nanos)
    return [line.node_name for line in lines if graph.ops[graph.index.get(line.node_name, 0)] in TIMED]


@pytest.mark.parametrize("seed", range(3))
def test_one_thread_runs_in_the_order_that_we_say(seed: int) -> None:
    graph, on = drawn(seed, 120), apart(1)
    step = step_of(graph)
    tables = of_step(graph, step, on, costs(graph, on, EXPENSIVE_NS))
    ours = timed_ops(graph, tables, run(tables, [0] * len(tables), options=SimulationOptions(order="tensorflow")))
    assert len(ours) > 60
    assert ours == started(graph, step)
    assert ours != timed_ops(
        graph, tables, run(tables, [0] * len(tables))
    )  # first ready, first served is another order
