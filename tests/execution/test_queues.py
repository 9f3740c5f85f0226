"""TensorFlow's executor: stories worked by hand, and what holds for every graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.cluster.protocols import Protocol
from simulator.errors import SimvizError
from simulator.execution.engine import StepRun, makespan, run
from simulator.execution.executor import INEXPENSIVE_NS
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_partitions, of_step
from simulator.execution.trace import Kind
from simulator.partitioning.cut import partition
from tests.execution.cases import apart, assigned, cluster, costs, dags, runs, whole
from tests.execution.tasks import starts
from tests.execution.test_engine import story

LONG = INEXPENSIVE_NS + 1


def played(on: Cluster, times: list[int], rows: list[int], *nodes: str) -> tuple[Tables, StepRun]:
    graph = story(*nodes).built()
    tables = of_step(graph, whole(graph), on, costs(graph, on, times))
    return tables, run(tables, rows, options=SimulationOptions(order="tensorflow"))


def in_order(tables: Tables, outcome: StepRun) -> str:
    """The names of ops that take time, in order of their starts."""
    ops = np.flatnonzero(~tables.instant)
    return " ".join(tables.names[op] for op in ops[np.argsort(outcome.start_ns[ops], kind="stable")].tolist())


def test_a_thread_goes_on_with_what_it_has_just_made_ready() -> None:
    # x makes a and b ready: its thread keeps b, the last, and goes on with b1. First ready, first served would take a.
    nodes = ("x = Const", "a = Neg x", "b = Neg x", "a1 = Neg a", "b1 = Neg b", "b2 = Neg b1")
    tables, outcome = played(apart(1), [0] + [LONG] * 5, [0] * 6, *nodes)
    assert in_order(tables, outcome) == "b b1 b2 a a1"


def test_of_several_expensive_ops_the_last_is_kept_and_the_others_go_in_front_of_the_pool() -> None:
    nodes = ("x = Const", "z = Neg x", "a = Neg x", "c1 = Neg a", "c2 = Neg a", "c3 = Neg a")
    tables, outcome = played(apart(1), [0] + [LONG] * 5, [0] * 6, *nodes)
    assert in_order(tables, outcome) == "a c3 c2 c1 z"  # c1 in front of z, then c2 in front of c1


def test_inexpensive_ops_come_first_and_leave_no_room_for_an_expensive_one() -> None:
    nodes = ("x = Const", "a = Neg x", "dear = Neg a", "cheap = Neg a", "same = Identity a", "next = Neg cheap")
    times = [0, LONG, LONG, INEXPENSIVE_NS, LONG, INEXPENSIVE_NS]  # Identity is inexpensive whatever it takes
    tables, outcome = played(apart(1), times, [0] * 6, *nodes)
    assert in_order(tables, outcome) == "a cheap same next dear"


def test_arrivals_go_to_the_end_of_the_pool() -> None:
    nodes = ("x = Const", "far = Neg x", "a = Neg x", "b = Neg x", "late = Neg far", "a1 = Neg a")
    tables, outcome = played(apart(2), [0, 1] + [LONG] * 4, [0, 1, 0, 0, 0, 0], *nodes)
    assert in_order(tables, outcome) == "b far a a1 late"


def test_a_step_begins_with_all_constants_and_then_with_the_last_variable() -> None:
    """As a trace of two workers has it, on both of them (decision 0055); each chain is run to its end."""
    nodes = ("v = VarHandleOp", "w = VarHandleOp", "a = Const", "b = Const", "a1 = Neg a", "b1 = Neg b")
    more = ("v1 = ReadVariableOp v", "w1 = ReadVariableOp w", "v2 = Neg v1", "w2 = Neg w1")
    for where in (0, 1):
        times = [1, 1, 0, 0, LONG, LONG, 1, 1, LONG, LONG]
        tables, outcome = played(apart(2), times, [where] * 10, *nodes, *more)
        assert in_order(tables, outcome) == "b1 a1 w w1 w2 v v1 v2"


def cut_and_played(on: Cluster, times: list[int], rows: list[int], *nodes: str) -> tuple[Tables, StepRun]:
    graph, options = story(*nodes).built(), SimulationOptions(order="tensorflow")
    pieces = partition(graph, assigned(on, rows), on, step=whole(graph), flavour="master")
    tables, devices = of_partitions(pieces, on, costs(graph, on, times), options)
    return tables, run(tables, devices, options=options)


def test_a_recv_is_posted_when_a_thread_comes_to_it() -> None:
    # The Recv stands in front of the pool. Constants come first, and of these the last keeps its thread for its reader.
    nodes = ("x = Const", "y = Neg x", "a = Const", "a1 = Neg a", "far = Neg y")
    on = replace(apart(2), between_tasks=Protocol("asks", request_ns=50))
    for times, asked in (([0, 1, 0, LONG, LONG], LONG), ([0, 1, 0, 1, LONG], 1)):
        _, outcome = cut_and_played(on, times, [0, 0, 1, 1, 1], *nodes)
        assert starts(outcome.tasks, Kind.REQUEST) == [asked]


def test_a_request_starves_while_its_worker_has_work() -> None:
    # It comes while y runs, and stands in the pool until y's thread is through with the whole chain.
    nodes = ("x = Const", "y = Neg x", "a1 = Neg y", "a2 = Neg a1", "a3 = Neg a2", "far = Neg y")
    on = replace(apart(2), between_tasks=Protocol("asks", request_ns=LONG // 2, send_ns=7))
    _, outcome = cut_and_played(on, [0] + [LONG] * 5, [0, 0, 0, 0, 0, 1], *nodes)
    assert starts(outcome.tasks, Kind.PACK) == [4 * LONG]


def test_what_arrives_is_unpacked_after_the_op_that_runs_and_before_all_that_wait() -> None:
    # far's answer comes while a1 runs. Its reader is an op like others and waits for the whole chain.
    nodes = ("x = Const", "a = Neg x", "far = Neg a", "back = Neg far", "a1 = Neg a", "a2 = Neg a1", "a3 = Neg a2")
    on = replace(apart(2), between_tasks=Protocol("busy", receive_ns=5))
    tables, outcome = played(on, [0, LONG, 1, LONG, LONG, LONG, LONG], [0, 0, 1, 0, 0, 0, 0], *nodes)
    assert in_order(tables, outcome) == "a a1 far a2 a3 back"
    assert outcome.start_ns[5] == 2 * LONG + 5  # far is unpacked
    assert outcome.ready_ns[3] == 2 * LONG + 5


def test_a_send_waits_for_its_thread_which_goes_on_with_what_else_it_made_ready() -> None:
    # As measured where the first of two workers keeps the variables: its whole tower runs before the second's begins.
    nodes = ("x = Const", "a = Neg x", "far = Neg a", "a1 = Neg a", "a2 = Neg a1", "a3 = Neg a2")
    on = replace(apart(2), between_tasks=Protocol("busy", send_ns=7))
    times, rows = [0] + [LONG] * 5, [0, 0, 1, 0, 0, 0]
    tables, outcome = played(on, times, rows, *nodes)
    assert in_order(tables, outcome) == "a a1 a2 a3 far"
    assert outcome.moments.asked_ns.tolist() == [LONG]
    assert starts(outcome.tasks, Kind.PACK) == [4 * LONG]
    # An inexpensive reader at home is no better: its thread does not come back to the pool before the chain has ended.
    tables, outcome = played(on, [0, LONG, LONG, 1, LONG, LONG], rows, *nodes)
    assert starts(outcome.tasks, Kind.PACK) == [3 * LONG + 1]


def test_a_send_with_which_an_op_ends_is_made_at_once_and_of_several_the_last() -> None:
    nodes = ("x = Const", "z = Neg x", "a = Neg x", "far = Neg a", "farther = Neg a")
    on = replace(apart(3), between_tasks=Protocol("busy", send_ns=7))
    _, outcome = played(on, [0] + [LONG] * 4, [0, 0, 0, 1, 2], *nodes)
    assert starts(outcome.tasks, Kind.PACK) == [LONG + 7, LONG]  # the first stands in front of the pool
    assert outcome.start_ns[1] == LONG + 14  # z was there before


def test_a_request_that_comes_after_the_value_is_answered_from_the_end_of_the_pool() -> None:
    nodes = ("x = Const", "y = Neg x", "z = Neg x", "a = Neg x", "far = Neg a")
    on = replace(apart(2), between_tasks=Protocol("busy", send_ns=7, request_ns=LONG + 1))
    _, outcome = played(on, [0] + [LONG] * 4, [0, 0, 0, 0, 1], *nodes)
    assert outcome.start_ns[1:4].tolist() == [2 * LONG, LONG, 0]
    assert starts(outcome.tasks, Kind.PACK) == [3 * LONG]
    on = replace(apart(2), between_tasks=Protocol("busy", send_ns=7, request_ns=LONG))
    _, outcome = played(on, [0] + [LONG] * 4, [0, 0, 0, 0, 1], *nodes)
    assert starts(outcome.tasks, Kind.PACK) == [LONG]  # it has come: the thread goes on with the Send


@pytest.mark.parametrize("several", [{"lanes": 2}, {"cores": 2}])
def test_another_thread_sends_where_there_is_one(several: dict[str, Any]) -> None:
    # Of two cores in one lane the message takes half of it, after the op that runs.
    nodes = ("x = Const", "a = Neg x", "far = Neg a", "a1 = Neg a", "a2 = Neg a1")
    on = replace(apart(2, **several), between_tasks=Protocol("busy", send_ns=8))
    tables, outcome = played(on, [0] + [LONG] * 4, [0, 0, 1, 0, 0], *nodes)
    assert starts(outcome.tasks, Kind.PACK) == [LONG]
    assert in_order(tables, outcome) == "a a1 far a2"


def test_threads_have_queues_of_their_own_and_share_the_pool() -> None:
    nodes = ("x = Const", "a = Neg x", "b = Neg x", "a1 = Neg a", "a2 = Neg a", "b1 = Neg b")
    _, outcome = played(apart(1, lanes=2), [0, LONG, 2 * LONG, LONG, LONG, LONG], [0] * 6, *nodes)
    # thread 0 keeps b, thread 1 takes a from the pool and keeps a2; a1 waits there until both have ended theirs
    assert outcome.start_ns.tolist()[1:] == [0, 0, 2 * LONG, LONG, 2 * LONG]
    assert outcome.tasks.lane[1:6].tolist() == [1, 0, 1, 1, 0]


def test_a_stream_runs_what_was_launched_first() -> None:
    # All of it is launched at once: a and b, then what waits for a, then for b. By ready time b1 would wait for c.
    nodes = ("x = Const", "a = Neg x", "b = Neg x", "c = Neg x", "a1 = Neg a", "b1 = Neg b", "b2 = Neg b1")
    on = cluster(["w:0/CPU:0", "w:0/GPU:0"])
    tables, outcome = played(on, [0, 5, 5, 5, 5, 5, 5], [1] * 7, *nodes)
    assert in_order(tables, outcome) == "a b c a1 b1 b2"
    assert outcome.ready_ns.tolist() == [0, 0, 0, 0, 5, 10, 25]  # inputs are there when their ops have ended
    assert outcome.end_ns.tolist() == [0, 5, 10, 15, 20, 25, 30]


def test_a_stream_launches_what_an_arrival_completes_when_it_arrives() -> None:
    nodes = ("x = Const", "cpu = Neg x", "a = Neg x", "a1 = AddN a cpu", "a2 = Neg a", "a3 = Neg a2")
    on = cluster(["w:0/CPU:0", "w:0/GPU:0"])  # 100 ns and 100 bytes: cpu arrives at 201
    tables, outcome = played(on, [0, 1, 150, 9, 60, 60], [0, 0, 1, 1, 1, 1], *nodes)
    # x arrives at 200: a, a2, a3 are launched; a1 only at 401, behind them
    assert in_order(tables, outcome) == "cpu a a2 a3 a1"


def test_a_gpus_transfers_wait_for_the_end_of_what_was_launched() -> None:
    nodes = ("x = Const", "a = Neg x", "gate = NoOp ^a", "cpu = Neg x ^gate")
    on = cluster(["w:0/CPU:0", "w:0/GPU:0"])
    _, outcome = played(on, [0, 250, 0, 7], [1, 1, 1, 0], *nodes)
    assert outcome.ready_ns[2] == 250
    assert outcome.start_ns[3] == 250 + 100  # the control edge takes the latency


@settings(deadline=None, max_examples=35)
@given(st.data())
def test_the_executor_keeps_lanes_busy_and_runs_everything_once(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, rows = data.draw(runs(graph))
    tables = of_step(graph, whole(graph), on, priced)
    outcome = run(tables, rows, options=SimulationOptions(order="tensorflow"))
    assert makespan(tables, rows, options=SimulationOptions(order="tensorflow")) == outcome.makespan
    assert (outcome.start_ns >= outcome.ready_ns).all()
    assume(not tables.routes.receive_ps_per_byte.any())  # else the work of transfers takes lanes, too
    for device in np.flatnonzero(tables.cpu & (tables.lanes == 1)).tolist():  # while an op waits, another one runs
        ops = np.flatnonzero((outcome.device == device) & (outcome.end_ns > outcome.start_ns))
        for op in ops.tolist():
            ready = outcome.ready_ns[op]
            running = (outcome.start_ns[ops] <= ready) & (outcome.end_ns[ops] > ready)
            assert running.any() or outcome.start_ns[op] == ready


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_one_op_at_a_time_is_the_same_in_every_order(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 8))
    nodes = ["n0 = Const", *(f"n{at} = Neg n{at - 1}" for at in range(1, length))]
    graph = story(*nodes).built()
    on, priced, rows = data.draw(runs(graph))
    tables = of_step(graph, whole(graph), on, priced)
    assert (
        run(tables, rows, options=SimulationOptions(order="tensorflow")).end_ns.tolist()
        == run(tables, rows).end_ns.tolist()
    )


def test_priorities_that_are_not_there_are_refused() -> None:
    graph, on = story("x = Const").built(), apart(1)
    tables = of_step(graph, whole(graph), on, costs(graph, on))
    with pytest.raises(SimvizError, match="There are no priorities"):
        run(tables, [0], options=SimulationOptions(order="priority"))
