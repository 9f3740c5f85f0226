"""Lower bounds: worked by hand, and never above what a simulation takes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.bounds import lower_bound
from simulator.cluster.cluster import Link
from simulator.cluster.protocols import Protocol
from simulator.columns import ids
from simulator.execution.engine import makespan
from simulator.execution.tables import of_step
from tests.execution.cases import apart, attrs_of, cluster, costs, dags, steps, whole, worlds
from tests.strategies import Rows


def chain(*ops: str) -> Rows:
    draft = Rows()
    draft.add("x", "Placeholder", **attrs_of("Placeholder"))
    for at, op in enumerate(ops):
        draft.add(f"n{at}", op, [f"n{at - 1}" if at else "x"], **attrs_of(op))
    return draft


def test_a_chain_takes_its_sum() -> None:
    graph = chain("Neg", "Neg", "Neg").built()
    assert lower_bound(graph, apart(3), costs(graph, apart(3), 10), step=whole(graph)) == 30


def test_parallel_work_must_fit_the_lanes() -> None:
    draft = chain("Neg")
    for at in range(4):
        draft.add(f"p{at}", "Neg", ["x"], **attrs_of("Neg"))
    graph = draft.built()
    for lanes, bound in ((1, 25), (2, 13), (5, 10)):
        on = apart(2, lanes=lanes)
        assert lower_bound(graph, on, costs(graph, on, 10), step=whole(graph)) == bound


def test_the_fastest_kind_with_a_kernel_counts() -> None:
    graph = chain("Neg", "Neg").built()
    on = cluster(["w:0/CPU:0", "w:0/GPU:0"])
    priced = costs(graph, on, [[0, 0], [50, 7], [50, -1]])
    assert lower_bound(graph, on, priced, step=whole(graph)) == 100  # 57 if the way were free


def test_a_change_of_kind_pays_the_fastest_way() -> None:
    graph = chain("Neg", "Neg", "Neg").built()  # of 4 bytes each
    links = [Link("slow", 50, 10**9), Link("fast", 20, 10**9)]
    on = cluster(
        ["w:0/CPU:0", "w:0/GPU:0", "w:0/GPU:1"], links, {(0, 1): (0,), (0, 2): (1,), (1, 0): (0,), (2, 0): (1,)}
    )
    priced = costs(graph, on, [[0, 0], [9, -1], [50, 7], [9, -1]])
    assert lower_bound(graph, on, priced, step=whole(graph)) == 9 + 50 + 9
    priced = costs(graph, on, [[0, 0], [9, -1], [60, 7], [9, -1]])
    assert lower_bound(graph, on, priced, step=whole(graph)) == 9 + (20 + 4) + 7 + (20 + 4) + 9


def test_work_that_only_some_devices_can_do_is_bounded_by_their_lanes() -> None:
    draft = chain("Neg")
    draft.add("p", "Neg", ["x"], **attrs_of("Neg"))
    graph = draft.built()
    on = cluster(["w:0/CPU:0", "w:0/GPU:0", "w:0/GPU:1"])
    assert lower_bound(graph, on, costs(graph, on, [[0, 0], [50, -1], [50, -1]]), step=whole(graph)) == 100


def test_a_merge_waits_for_its_first_input_only() -> None:
    draft = chain("Neg", "Neg")
    draft.add("m", "Merge", ["n1", "x"], **attrs_of("Merge", 2))
    draft.add("end", "Neg", ["m"], **attrs_of("Neg"))
    graph = draft.built()
    priced = costs(graph, apart(1, lanes=9), [0, 10, 10, 1, 1])
    assert lower_bound(graph, apart(1, lanes=9), priced, step=whole(graph)) == 20


def test_a_change_of_kind_is_packed_and_unpacked() -> None:
    graph = chain("Neg").built()  # of 4 bytes
    link, protocol = Link("wire", 20, 10**9), Protocol("copies", 0, 30, 40, 500, 1250, latency_ns=3)
    on = cluster(["v:0/CPU:0", "w:0/CPU:0"], [link], {(0, 1): (0,), (1, 0): (0,)})
    other = replace(on.devices[1], kind="other")
    on = replace(on, devices=(on.devices[0], other), between_tasks=protocol)
    priced = costs(graph, on, [[0, 0], [-1, 7]])  # x is the client's, on the first
    assert lower_bound(graph, on, priced, step=whole(graph)) == (30 + 2) + (20 + 4 + 3) + (40 + 5) + 7


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_no_assignment_beats_the_bound(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, rows, how = data.draw(worlds(graph))
    step = data.draw(steps(graph))
    tables = of_step(graph, step, on, priced)
    assert lower_bound(graph, on, priced, step=step) <= makespan(tables, tables.placed(ids(rows)), **how)
