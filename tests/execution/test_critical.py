"""The critical path explains the whole makespan."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Link
from simulator.execution.critical import critical_path
from simulator.execution.engine import StepRun, run
from simulator.execution.laws import task_laws
from simulator.execution.tables import of_step
from simulator.execution.trace import Kind
from tests.execution.cases import apart, attrs_of, cluster, costs, crowded, dags, whole, worlds
from tests.execution.test_engine import story
from tests.strategies import Rows


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_each_task_on_the_path_ends_when_the_next_starts(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, rows, how = data.draw(worlds(graph))
    tables = of_step(graph, whole(graph), on, priced)
    assert_explains(run(tables, rows, options=how))


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_so_it_is_where_transfers_wait_for_one_link_after_the_other(data: st.DataObject) -> None:
    graph, on, times, rows = data.draw(crowded())
    assert_explains(run(of_step(graph, whole(graph), on, costs(graph, on, times)), rows))


def assert_explains(ran: StepRun) -> None:
    """The first starts with the step, the last ends with it, and each ends when the next starts."""
    path, tasks = critical_path(ran.tasks).tolist(), ran.tasks
    assert list(task_laws(tasks)) == []
    assert tasks.start_ns[path[0]] == 0
    assert tasks.end_ns[path[-1]] == ran.makespan
    assert all(tasks.end_ns[task] == tasks.start_ns[after] for task, after in pairwise(path))
    assert len(set(path)) == len(path)


def test_a_busy_lane_and_a_busy_link_are_to_blame() -> None:
    nodes = ("x = Const", "a = Neg x", "b = Neg x", "c = Neg a", "d = Neg b")
    graph = story(*nodes).built()
    on = apart(2)
    tables = of_step(graph, whole(graph), on, costs(graph, on, [0, 10, 20, 5, 5]))
    outcome = run(tables, [0, 0, 0, 1, 1])
    tasks = outcome.tasks
    # b waits for a's lane; b's transfer for the bytes of a's on the link (30 < 110), and not for its latency
    path = critical_path(tasks)
    assert tasks.kind[path].tolist() == [Kind.OP, Kind.OP, Kind.LINK, Kind.LINK, Kind.LATENCY, Kind.OP]
    assert [tables.names[op] for op in path[[0, 1, 5]]] == ["x", "a", "d"]
    assert tasks.of[path[2:5]].tolist() == [0, 1, 1]
    assert outcome.makespan == 10 + 100 + 100 + 100 + 5


def test_a_transfer_may_be_on_the_path_for_two_of_its_links() -> None:
    """x goes over a, c and b, and y, behind it on a, over b alone: as w keeps c until 300, y overtakes x on b."""
    links = [Link(name, 0, 10**9) for name in "abc"]
    on = cluster([f"{name}:0/CPU:0" for name in "pqrst"], links, {(0, 1): (0, 2, 1), (0, 2): (0, 1), (3, 4): (2,)})
    made = Rows()
    for name, size in (("w", 75), ("x", 25), ("y", 62)):
        made.add(name, "Const", **attrs_of("Const", 1, size))
        made.add(f"read_{name}", "Neg", [name], **attrs_of("Neg", 1, 1))
    graph = made.built()
    rows = {"x": 0, "read_x": 1, "y": 0, "read_y": 2, "w": 3, "read_w": 4}
    tables = of_step(graph, whole(graph), on, costs(graph, on, 0))
    outcome = run(tables, [rows[name] for name in graph.names])
    senders = tables.tensor_op[outcome.transfers.tensor]
    path = critical_path(outcome.tasks)
    wires = [tables.names[senders[outcome.tasks.of[task]]] for task in path if outcome.tasks.kind[task] == Kind.LINK]
    assert wires == ["x", "y", "x"]  # a until 100, b until 348, b until 448
    assert outcome.makespan == 100 + 248 + 100
    assert_explains(outcome)
