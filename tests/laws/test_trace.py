"""The laws of a trace hold for every cut of every graph; and the checker sees what is broken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.bounds import lower_bound
from simulator.cluster.contention import CONTENTIONS
from simulator.columns import ids, ints
from simulator.execution.laws import check_trace, task_laws
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.execution.trace import Kind, Trace, TraceTasks
from simulator.partitioning.cut import partition
from simulator.partitioning.levels import FLAVOURS
from simulator.partitioning.partitions import Partitions
from tests.execution.cases import apart, assigned, costs, runs, steps, whole
from tests.strategies import Rows, graphs, loop, typed


@settings(deadline=None, max_examples=35)
@given(st.data())
def test_every_trace_is_lawful_and_no_faster_than_the_bound(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    on, priced, rows = data.draw(runs(graph))
    step = data.draw(steps(graph))
    pieces = partition(
        graph, assigned(on, rows), on, legal=False, step=step, flavour=data.draw(st.sampled_from(FLAVOURS))
    )
    order = data.draw(st.sampled_from(["fifo", "tensorflow"]))
    trace = simulate(
        pieces, on, priced, SimulationOptions(order=order, contention=data.draw(st.sampled_from(CONTENTIONS)))
    )
    assert trace.order == order
    assert check_trace(trace, pieces, on) == []
    assert lower_bound(graph, on, priced, step=step) <= trace.makespan
    assert (np.lexsort((trace.ops.lane, trace.ops.device, trace.ops.start_ns)) == np.arange(len(trace.ops.node))).all()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 1), min_size=10, max_size=10))
def test_a_loop_runs_once_wherever_it_is_cut(rows: list[int]) -> None:
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", (4,)))
    loop(draft, start="x")
    graph, on = draft.built(), apart(2)
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))
    trace = simulate(pieces, on, costs(graph, on, 10))
    assert check_trace(trace, pieces, on) == []
    assert trace.notes[0] == "Loops of unknown trips run once: 'while'."


def test_a_send_may_wait_for_the_executors_thread() -> None:
    draft = Rows()
    draft.add("v", "VariableV2", **typed("VariableV2", (4,)))
    draft.add("x", "Placeholder", **typed("Placeholder", (4,)))
    draft.add("a", "Identity", ["x"], **typed("Identity", (4,)))
    graph, on = draft.built(), apart(2)
    pieces = partition(graph, assigned(on, [0, 0, 1]), on, step=whole(graph))
    trace = simulate(pieces, on, costs(graph, on, 10), SimulationOptions(order="tensorflow"))
    assert trace.moments.asked_ns.tolist() == [10]  # v is first in the queue of the one thread
    assert check_trace(trace, pieces, on) == []


def example() -> tuple[Trace, Partitions]:
    draft = Rows()
    draft.add("x", "Const", **typed("Const", (25,)))
    draft.add("a", "Neg", ["x"], **typed("Neg", (25,)))
    draft.add("b", "Neg", ["a"], **typed("Neg", (25,)))
    draft.add("c", "Neg", ["a"], **typed("Neg", (25,)))
    graph, on = draft.built(), apart(2)
    pieces = partition(graph, assigned(on, [0, 0, 0, 1]), on, step=whole(graph))
    return simulate(pieces, on, costs(graph, on, 1000)), pieces


@pytest.mark.parametrize(
    ("kind", "column", "row", "value", "sentence"),
    [
        (Kind.OP, "start_ns", 2, 500, "before its inputs are there"),
        (Kind.OP, "start_ns", 2, 999, "overlap in lane"),
        (Kind.OP, "start_ns", 3, 1201, "when nothing leaves its resource"),
        (Kind.OP, "lane", 1, 3, "which it does not have"),
        (Kind.OP, "resource", 1, 1, "where it was not placed"),
        (Kind.OP, "ready_ns", 2, 10**6, "before it is ready"),
        (Kind.OP, "ready_ns", 2, 999, "but what it needs has come at 1000 ns"),
        (Kind.LATENCY, "end_ns", 0, 1100, "takes 100 ns instead of 200"),
        (Kind.LATENCY, "kind", 0, Kind.UNPACK, "does not take 0 and 0 ns"),
        (Kind.LINK, "start_ns", 0, 900, "are out of order"),
        (Kind.LINK, "end_ns", 0, 1150, "for 150 ns instead of 100"),
        (Kind.LINK, "kind", 0, Kind.FLOW, "does not hold the serial links of its route"),
        (Kind.LINK, "ready_ns", 0, 900, "is not asked for when it can be"),
    ],
)
def test_a_broken_task_is_seen(kind: Kind, column: str, row: int, value: int, sentence: str) -> None:
    trace, pieces = example()
    assert check_trace(trace, pieces, apart(2)) == []
    broken = getattr(trace.tasks, column).copy()
    broken[(trace.ops.task if kind == Kind.OP else trace.tasks.rows(kind))[row]] = value
    changed = replace(trace, tasks=replace(trace.tasks, **{column: broken}))
    assert any(sentence in found for found in check_trace(changed, pieces, apart(2)))


@pytest.mark.parametrize(
    ("column", "row", "value", "sentence"),
    [
        ("busy_ns", 0, 1, "is busy for 1 ns"),
        ("critical", 0, 1, "The critical path explains 3200 of 2200 ns."),
        ("memory_bytes", -1, 1, "ends with 1 bytes"),
        ("memory_bytes", 0, -1, "less than the 0"),
        ("peak_bytes", 0, 0, "peak of"),
    ],
)
def test_a_broken_trace_is_seen(column: str, row: int, value: int, sentence: str) -> None:
    trace, pieces = example()
    broken = getattr(trace, column).copy()
    broken[row] = value
    assert any(sentence in found for found in check_trace(replace(trace, **{column: broken}), pieces, apart(2)))


def test_who_overtakes_in_the_queue_of_a_link_is_seen() -> None:
    none = ids([])
    tasks = TraceTasks(
        kind=ids([Kind.LINK] * 2),
        of=ids([0, 1]),
        resource=ids([1, 1]),
        lane=ids([0, 0]),
        ready_ns=ints([0, 1]),
        start_ns=ints([11, 1]),
        end_ns=ints([21, 11]),
        need_ptr=ids([0, 0, 0]),
        need=none,
        event=none,
        devices=1,
    )
    assert list(task_laws(tasks)) == ["1 overtakes 0 in the queue of their link."]


def test_a_wrong_makespan_is_seen() -> None:
    trace, pieces = example()
    found = check_trace(replace(trace, makespan=1), pieces, apart(2))
    assert "The makespan is 1 ns, but the last end is at 2200 ns." in found
