"""The critical path explains the whole makespan."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Link
from simulator.execution.critical import critical_path
from simulator.execution.engine import Outcome, run
from simulator.execution.tables import Tables, of_step
from simulator.execution.trace import LATENCY, WIRE, transfer_of
from tests.execution.cases import apart, attrs_of, cluster, costs, crowded, dags, runs, whole
from tests.execution.test_engine import story
from tests.strategies import Rows


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_each_task_on_the_path_ends_when_the_next_starts(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, rows = data.draw(runs(graph))
    tables = of_step(graph, whole(graph), on, priced)
    outcome = run(tables, rows)
    path = critical_path(tables, outcome)

    assert_explains(tables, outcome, path)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_so_it_is_where_transfers_wait_for_one_link_after_the_other(data: st.DataObject) -> None:
    graph, on, times, rows = data.draw(crowded())
    tables = of_step(graph, whole(graph), on, costs(graph, on, times))
    outcome = run(tables, rows)
    assert_explains(tables, outcome, critical_path(tables, outcome))


def assert_explains(tables: Tables, outcome: Outcome, path: list[tuple[int, int]]) -> None:
    """Each begins where the one before ends, the first with the step; a wire with the hold of one of its links."""
    nexts = [*(begin for _, begin in path[1:]), outcome.makespan]
    assert path[0][1] == 0
    for (task, begin), end in zip(path, nexts, strict=True):
        spans = [times_of(tables, outcome, task)]
        if task < 0 and transfer_of(task)[1] == WIRE:
            a, b = outcome.hold_ptr[transfer_of(task)[0] :][:2]
            spans += zip(outcome.hold_start_ns[a:b].tolist(), outcome.hold_end_ns[a:b].tolist(), strict=True)
        assert (begin, end) in spans
    tasks = Counter(task for task, _ in path)
    assert all(count == 1 or (task < 0 and transfer_of(task)[1] == WIRE) for task, count in tasks.items())


def times_of(tables: Tables, outcome: Outcome, task: int) -> tuple[int, int]:
    if task >= 0:
        return int(outcome.start_ns[task]), int(outcome.end_ns[task])
    transfer, stretch = transfer_of(task)
    asked, route = outcome.transfer_ready_ns, outcome.transfers.route
    begins = (
        asked - tables.routes.request_ns[route],
        outcome.pack_start_ns,
        outcome.transfer_start_ns,
        outcome.wire_end_ns,
        outcome.unpack_start_ns,
    )
    ends = asked, outcome.pack_end_ns, outcome.wire_end_ns, outcome.transfer_end_ns, outcome.unpack_end_ns
    return int(begins[stretch][transfer]), int(ends[stretch][transfer])


def test_a_busy_lane_and_a_busy_link_are_to_blame() -> None:
    nodes = ("x = Const", "a = Neg x", "b = Neg x", "c = Neg a", "d = Neg b")
    graph = story(*nodes).built()
    on = apart(2)
    tables = of_step(graph, whole(graph), on, costs(graph, on, [0, 10, 20, 5, 5]))
    outcome = run(tables, [0, 0, 0, 1, 1])
    # b waits for a's lane; b's transfer for the bytes of a's on the link (30 < 110), and not for its latency
    path = critical_path(tables, outcome)
    assert [tables.names[task] for task, _ in path if task >= 0] == ["x", "a", "d"]
    assert [transfer_of(task) for task, _ in path if task < 0] == [(0, WIRE), (1, WIRE), (1, LATENCY)]
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
    path = critical_path(tables, outcome)
    wires = [tables.names[senders[transfer_of(task)[0]]] for task, _ in path if task < 0]
    assert wires == ["x", "y", "x"]  # a until 100, b until 348, b until 448
    assert outcome.makespan == 100 + 248 + 100
    assert_explains(tables, outcome, path)
