"""Latest ends of a step that was worked by hand."""

from __future__ import annotations

from simulator.execution.critical import latest_ends
from simulator.execution.engine import run
from simulator.execution.tables import of_step
from simulator.execution.trace import Kind
from tests.execution.cases import apart, costs, whole
from tests.execution.test_engine import story


def test_a_short_branch_may_end_as_late_as_its_transfer_still_arrives_in_time() -> None:
    """c needs a, which runs beside it until 500, and b, which ends at 10 and takes 200 ns to come."""
    graph, on = story("x = Const", "y = Const", "b = Neg x", "a = Neg y", "c = AddN a b").built(), apart(2)
    tables = of_step(graph, whole(graph), on, costs(graph, on, [0, 0, 10, 500, 5]))
    ran = run(tables, [0, 1, 0, 1, 1])
    tasks, latest = ran.tasks, latest_ends(ran.tasks)
    assert ran.makespan == 505
    assert latest[:5].tolist() == [290, 0, 300, 500, 505]
    assert latest[tasks.rows(Kind.LINK)].tolist() == [400]
    assert latest[tasks.rows(Kind.LATENCY)].tolist() == [500]


def test_who_was_first_in_a_lane_or_a_queue_makes_room_for_the_next() -> None:
    """b waits for the lane until a has ended, and its transfer for the link until a's bytes have left it."""
    graph, on = story("x = Const", "a = Neg x", "b = Neg x", "c = Neg a", "d = Neg b").built(), apart(2)
    tables = of_step(graph, whole(graph), on, costs(graph, on, [0, 10, 20, 5, 5]))
    ran = run(tables, [0, 0, 0, 1, 1])
    latest = latest_ends(ran.tasks)
    assert ran.end_ns.tolist() == [0, 10, 30, 215, 315]
    assert latest[:5].tolist() == [0, 10, 110, 310, 315]
