"""Under TensorFlow's executor a step is judged by its tables as by its pieces: who posts its Recvs, and when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement import place
from placement.effort import Effort
from simulator import choose_step, estimate, load, load_cluster, partition, simulate
from simulator.cluster.cluster import Cluster
from simulator.cluster.device_strings import without_devices
from simulator.cluster.protocols import Protocol
from simulator.costs.table import CostTable
from simulator.execution.engine import makespan
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import cut_first, prepare
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from tests.execution.cases import apart, assigned, cluster, costs, steps, whole, worlds
from tests.execution.test_engine import story
from tests.laws.test_handing_on import makespan_of_the_loop
from tests.strategies import rows as drafts

ROOT = Path(__file__).parents[2]
EXECUTOR = SimulationOptions(order="tensorflow")


def shown(graph: Graph, plan: list[int], on: Cluster, priced: CostTable, step: Step, options: SimulationOptions) -> int:
    """The makespan of the pieces."""
    pieces = partition(graph, assigned(on, plan), on, step=step, flavour="local", legal=False)
    return simulate(pieces, on, priced, options).makespan


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_step_takes_as_long_as_its_pieces(data: st.DataObject) -> None:
    """But for plans that are cut first: some copy of a constant, or a Recv of a reference, waits for something."""
    graph = data.draw(drafts()).built()
    step = data.draw(st.just(whole(graph)) | steps(graph))
    on, priced, rows, options = data.draw(worlds(graph))
    options = replace(options, order="tensorflow", seed=data.draw(st.integers(0, 3)))
    prepared = prepare(graph, step, on, priced, options)
    for plan in (rows, data.draw(st.lists(st.integers(0, len(on) - 1), min_size=len(graph), max_size=len(graph)))):
        if cut_first(prepared, np.array([plan], np.int32), "local")[0]:
            continue
        expected = shown(graph, plan, on, priced, step, options)
        assert makespan_of_the_loop(prepared, plan, handing=False) == expected
        assert makespan(prepared.tables, prepared.devices(np.array(plan)), None, options) == expected


@pytest.mark.parametrize("described", ["4gpu", "worker=3"])
def test_plans_of_a_training_take_as_long_as_their_pieces(described: str) -> None:
    graph, on = without_devices(load(ROOT / "examples" / "ps_training.pbtxt")), load_cluster(described)
    step, priced = choose_step(graph), estimate(graph, on)
    prepared = prepare(graph, step, on, priced, EXECUTOR)
    plans = np.random.default_rng(3).integers(0, len(on), (12, len(graph)))
    found = [makespan_of_the_loop(prepared, plan, handing=False) for plan in plans]
    assert found == [shown(graph, plan.tolist(), on, priced, step, EXECUTOR) for plan in plans]
    known = prepare(graph, step, on, priced, SimulationOptions()).under(EXECUTOR)  # made for another order at first
    assert [makespan_of_the_loop(known, plan, handing=False) for plan in plans] == found


def test_a_recv_is_posted_when_a_thread_comes_to_it() -> None:
    """The only thread of w runs a and, as that is inexpensive, b; then it posts the Recv of v, which is there."""
    graph, on = (
        story("v = Variable", "a = Variable", "b = Neg a", "x = Neg v").built(),
        cluster(["v:0/CPU:0", "w:0/CPU:0"]),
    )
    rows, priced, step = [0, 1, 1, 1], costs(graph, on, [0, 1000, 1000, 10]), whole(graph)
    prepared, latency = prepare(graph, step, on, priced, EXECUTOR), 100  # v has no known size
    assert shown(graph, rows, on, priced, step, EXECUTOR) == 2000 + latency + 10
    assert makespan_of_the_loop(prepared, rows, handing=False) == 2000 + latency + 10


def test_a_plan_takes_as_long_after_others_have_run_in_the_same_memory() -> None:
    """The loop took tasks for the work of a thread that had been that in a plan before, and gave them its lane."""
    on = replace(apart(3), between_tasks=Protocol("asks", request_ns=150, send_ns=100))
    nodes = [f"v{at} = Variable" for at in range(4)]
    nodes += [f"x{at} = AddN v{at % 4}" + (f" x{at - 1}" if at % 3 else "") for at in range(8)]
    graph = story(*nodes).built()
    priced, step = costs(graph, on, 1000), whole(graph)
    prepared = prepare(graph, step, on, priced, EXECUTOR)
    plans = np.random.default_rng(1).integers(0, len(on), (10, len(graph)))
    found = [makespan_of_the_loop(prepared, plan, handing=False) for plan in plans]
    assert found == [shown(graph, plan.tolist(), on, priced, step, EXECUTOR) for plan in plans]


def test_each_gpu_comes_to_its_recvs_in_turn_in_a_step_too() -> None:
    """Twelve variables on the CPU, and a chain on the GPU that reads them in order: its copies come by chance."""
    nodes = [f"v{at} = Variable" for at in range(12)]
    nodes += [f"t{at} = AddN v{at}" + (f" t{at - 1}" if at else "") for at in range(12)]
    graph, on = story(*nodes, size=2500).built(), cluster(["w:0/CPU:0", "w:0/GPU:0"])
    rows, priced, step = [int(name.startswith("t")) for name in graph.names], costs(graph, on, 1000), whole(graph)
    found = set()
    for seed in range(4):
        options = SimulationOptions("tensorflow", seed=seed)
        prepared = prepare(graph, step, on, priced, options)
        found.add(makespan_of_the_loop(prepared, rows, handing=False))
        assert makespan_of_the_loop(prepared, rows, handing=False) == shown(graph, rows, on, priced, step, options)
    assert len(found) > 1


def test_a_search_says_what_its_plan_takes() -> None:
    """It said 858 us and showed 874 us, as it did not know the turns of four Recvs."""
    graph, on = without_devices(load(ROOT / "examples" / "ps_training.pbtxt")), load_cluster("4gpu")
    step, priced = choose_step(graph), estimate(graph, on)
    placed = place(graph, on, priced, step=step, options=EXECUTOR, effort=Effort(judged=300))
    assert placed.search is not None
    assert placed.search.better[-1][2] == shown(graph, placed.device.tolist(), on, priced, step, EXECUTOR)
