"""A step that is prepared for many assignments: the device of each op, also where the client holds some of them."""

from __future__ import annotations

import numpy as np
import pytest

from placement.placing import place
from simulator import choose_step, estimate, load, load_cluster, lower_bound, partition, simulate
from simulator.errors import SimvizError
from simulator.execution.evaluate import evaluate
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.execution.tables import of_partitions
from tests.execution.cases import apart, assigned, costs, whole
from tests.strategies import Rows, loop, typed

SMALL = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "y" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
"""


@pytest.mark.parametrize("cluster", ["1gpu", "8gpu", "ps=7,worker=4x3gpu", "worker=40,ps=2", "chief=6x4h100,ps=9"])
def test_a_cluster_may_have_more_devices_than_the_graph_has_nodes(cluster: str, tmp_path: object) -> None:
    graph = load(_written(tmp_path))
    step, on = choose_step(graph), load_cluster(cluster)
    costs = estimate(graph, on)
    prepared = prepare(graph, step, on, costs)
    assignment = place(graph, on, costs, step=step, algorithm="single")
    pieces = partition(graph, assignment, on, step=step)
    assert (prepared.column < 0).any()  # what the client feeds and fetches
    assert set(prepared.devices(np.asarray(assignment.device)).tolist()) <= set(range(len(on.devices)))
    assert len(of_partitions(pieces, on, costs)) >= len(graph)


@pytest.mark.parametrize("moved", [("while/Neg",), ("while/Merge",), ("while/Enter", "while/limit"), ("x",), ()])
def test_a_loop_across_devices_takes_as_long_as_its_pieces(moved: tuple[str, ...]) -> None:
    """Each Recv in an iteration waits for the control loop of its device, which the tables do not know."""
    made = Rows()
    made.add("x", "Neg", ["begin"], **typed("Neg"))
    made.add("begin", "Const", **typed("Const"))
    loop(made, start="x")
    graph = made.built()
    on = load_cluster("worker=2")  # gRPC works for each message, that of a predicate included
    priced, step = costs(graph, on), choose_step(graph)
    options = SimulationOptions(trips={"while": 5})
    rows = [int(name in moved) for name in graph.names]
    pieces = partition(graph, assigned(on, rows), on, step=step)
    takes_ns = simulate(pieces, on, priced, options).makespan
    prepared = prepare(graph, step, on, priced, options)
    assert evaluate(prepared, [rows]).tolist() == [takes_ns]


@pytest.mark.parametrize("order", ["fifo", "tensorflow"])
def test_copies_of_a_constant_wait_where_they_are_read(order: str) -> None:
    """A signal comes to the other CPU, and not the constant, which would take as long as its 40 bytes."""
    made = Rows()
    made.add("a", "Placeholder", **typed("Placeholder"))
    made.add("b", "Neg", ["a"], **typed("Neg"))
    made.add("c", "Const", ["^b"], **typed("Const", (10,)))
    for name in "xy":
        made.add(name, "Neg", ["c"], **typed("Neg", (10,)))
    graph, on = made.built(), apart(2)
    priced, step, rows = costs(graph, on, 1000), whole(graph), [0, 0, 0, 0, 1]
    options = SimulationOptions(order)
    pieces = partition(graph, assigned(on, rows), on, step=step)
    takes_ns = simulate(pieces, on, priced, options).makespan
    assert takes_ns == 1000 + 100 + 1000
    assert evaluate(prepare(graph, step, on, priced, options), [rows]).tolist() == [takes_ns]


def _written(folder: object) -> str:
    path = f"{folder}/small.pbtxt"
    with open(path, "w", encoding="utf-8") as file:
        file.write(SMALL)
    return path


@pytest.mark.parametrize("other", ["4gpu", "ps=1,worker=2x1gpu", "ps=1,chief=1x1gpu,worker=1x1gpu"])
def test_a_step_prepared_for_other_devices_is_refused_where_it_is_handed_in(other: str) -> None:
    """As many devices under other names were taken for the same, and a step was placed by routes of the others."""
    rows = Rows()
    rows.add("a", "Const", **typed("Const", (4,)))
    graph = rows.built()
    step, on, there = choose_step(graph, fetches=["a"]), load_cluster("ps=1,worker=2x1gpu"), load_cluster(other)
    priced = estimate(graph, there)
    ready = prepare(graph, step, on, estimate(graph, on))
    if on.devices == there.devices:
        assert place(graph, there, priced, step=step, prepared=ready, algorithm="single").used == "single"
        return
    with pytest.raises(SimvizError, match=r"The prepared step is of 5 devices, which are not the 5 of .*; prepare it"):
        place(graph, there, priced, step=step, prepared=ready, algorithm="single")
    with pytest.raises(SimvizError, match="which are not the 5 of"):
        lower_bound(graph, there, priced, step=step, prepared=ready)
