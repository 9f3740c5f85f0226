"""Lower bounds: worked by hand, and never above what a simulation takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import bounds
from simulator.bounds import Bound, bound, lower_bound
from simulator.bounds.demands import Priced
from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.protocols import Protocol
from simulator.columns import ids
from simulator.costs.table import CostTable
from simulator.execution.engine import makespan
from simulator.execution.evaluate import evaluate
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.execution.simulate import simulate
from simulator.execution.tables import of_step
from simulator.graph.graph import Graph
from simulator.partitioning.cut import partition
from simulator.placer.constraints import constrain
from tests.execution.cases import (
    apart,
    assigned,
    attrs_of,
    cluster,
    costs,
    dags,
    sizes,
    steps,
    whole,
    with_chips,
    worlds,
)
from tests.execution.loops.cases import number
from tests.strategies import INT32, Rows, shapes_attr, type_attr, typed


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
    for lanes, least in ((1, 50), (2, 25), (5, 10)):
        on = apart(2, lanes=lanes)
        assert lower_bound(graph, on, costs(graph, on, 10), step=whole(graph)) == least


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


def test_a_small_constant_is_copied_to_the_processors_that_read_it() -> None:
    draft = Rows()
    number(draft, "c", 3)
    for name in ("beside", "away"):
        draft.add(name, "Neg", ["c"], T=type_attr(INT32), _output_shapes=shapes_attr(()))
    graph, on = draft.built(), apart(2)
    rules = replace(constrain(graph, on), allowed=((0,), (0,), (1,)))
    given = costs(graph, on, [0, 10, 10])
    tables = of_step(graph, whole(graph), on, given)
    assert makespan(tables, tables.placed(ids([0, 0, 1]))) == 10
    assert lower_bound(graph, on, given, step=whole(graph), constraints=rules) == 10


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_no_assignment_beats_the_bound(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, rows, how = data.draw(worlds(graph))
    step = data.draw(steps(graph))
    tables = of_step(graph, step, on, priced)
    assert lower_bound(graph, on, priced, step=step) <= makespan(tables, tables.placed(ids(rows)), options=how)


# --- constraints, contention and ancestors ----------------------------------------------------------------------------


def bounded(graph: Graph, on: Cluster, priced: CostTable, allowed: Sequence[tuple[int, ...]] = (), **how: Any) -> Bound:
    """The bound of a step of everything, with the devices that each node may use."""
    rules = constrain(graph, on)
    rules = replace(
        rules, allowed=tuple(allowed[members[0]] for members in rules.members) if allowed else rules.allowed
    )
    return bound(graph, on, priced, step=whole(graph), constraints=rules, **how)


def test_a_value_has_to_cross_where_its_ends_share_no_device() -> None:
    graph, on = chain("Neg", "Neg").built(), apart(2)
    priced = costs(graph, on, 10)
    assert bounded(graph, on, priced).ns == 20
    found = bounded(graph, on, priced, [(0, 1), (0,), (1,)])
    assert found == Bound(10 + 100 + 4 + 10, "the longest path")


def test_small_ops_stay_together_where_a_transfer_takes_longer_than_they_do() -> None:
    draft = chain("Neg")
    for at in range(3):
        draft.add(f"p{at}", "Neg", ["n0"], **attrs_of("Neg"))
    draft.add("end", "AddN", [f"p{at}" for at in range(3)], **attrs_of("AddN", 3))
    graph, on = draft.built(), apart(3)
    priced = costs(graph, on, 10)
    assert bounded(graph, on, priced, depth=0).ns == 30
    assert bounded(graph, on, priced).ns == 50  # one after the other; apart they would take 30 + 2 * 104


def test_work_that_may_only_be_done_by_one_device_is_its_own() -> None:
    draft = Rows()
    for at in range(4):
        draft.add(f"p{at}", "VariableV2", **attrs_of("Const"))
    graph, on = draft.built(), apart(3)
    priced = costs(graph, on, 10)
    found = bounded(graph, on, priced, [(2,), (2,), (2,), (0, 1, 2)])
    assert found == Bound(30, "the work of w:2/CPU:0")


def test_classes_of_different_speed_share_work_by_their_prices() -> None:
    """A fast device does an op in 10, a slow one in 30: of 4 ops 3 go to the fast one, which takes 30."""
    draft = Rows()
    for at in range(4):
        draft.add(f"p{at}", "VariableV2", **attrs_of("Const"))
    graph, on = draft.built(), cluster(["w:0/CPU:0", "w:0/GPU:0"])
    assert 29 <= bounded(graph, on, costs(graph, on, [[30, 10]] * 4)).ns <= 30


def test_bytes_that_must_cross_take_their_link() -> None:
    draft = Rows()
    for at in range(5):
        draft.add(f"v{at}", "VariableV2", **attrs_of("Const", 1, 250))
        draft.add(f"r{at}", "Neg", [f"v{at}"], **attrs_of("Neg", 1, 250))
    graph, on = draft.built(), apart(2, lanes=9)
    priced, allowed = costs(graph, on, 10), [(0,), (1,)] * 5
    found = bounded(graph, on, priced, allowed, options=SimulationOptions(contention="serial"))
    assert found == Bound(10 + 5000 + 10, "the bytes on w:0/CPU:0>w:1/CPU:0")
    assert bounded(graph, on, priced, allowed).ns == 10 + 1100 + 10  # each as if alone


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_no_allowed_assignment_beats_the_bound(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, _, how = data.draw(worlds(graph))
    step, rules = data.draw(steps(graph)), constrain(graph, on)
    some = st.sets(st.integers(0, len(on) - 1), min_size=1).map(lambda found: tuple(sorted(found)))
    few = data.draw(st.lists(some, min_size=1, max_size=3))
    allowed = [data.draw(st.sampled_from(few)) for _ in rules.members]
    of_group = [data.draw(st.sampled_from(devices)) for devices in allowed]
    rows = [of_group[group] for group in rules.group.tolist()]
    prepared = prepare(graph, step, on, priced)
    tables = prepared.tables
    ends = makespan(tables, tables.placed(ids(rows)), options=how)
    rules, depth = replace(rules, allowed=tuple(allowed)), data.draw(st.sampled_from([0, 1, 3, 64]))
    found = bound(
        graph,
        on,
        priced,
        step=step,
        prepared=prepared,
        constraints=rules,
        options=how,
        depth=depth,
    )
    assert found.ns <= ends
    with patch.object(bounds, "priced_bound", lambda *_: Priced(0, -1)):  # which machine code alone finds
        machine = bound(graph, on, priced, step=step, constraints=rules, options=how, compiled=True)
    assert machine == bound(graph, on, priced, step=step, constraints=rules, options=how, depth=64)
    assert machine.ns >= found.ns


@settings(deadline=None, max_examples=16)
@given(st.data())
def test_the_best_of_all_assignments_of_a_small_graph_is_no_less_than_the_bound(data: st.DataObject) -> None:
    graph = data.draw(dags(max_nodes=5))
    on, priced, _, how = data.draw(worlds(graph))
    step = data.draw(steps(graph))
    prepared = prepare(graph, step, on, priced)
    tables = prepared.tables
    every = product(range(len(on)), repeat=len(graph))
    best = min(makespan(tables, tables.placed(ids(rows)), options=how) for rows in islice(every, 1024))
    found = bound(graph, on, priced, step=step, prepared=prepared, options=how)
    assert len(on) ** len(graph) > 1024 or found.ns <= best


@settings(deadline=None, max_examples=25)
@given(sizes(), st.integers(1, 1000))
def test_copies_within_a_gpu_do_not_beat_the_bound(case: tuple[Graph, Cluster, list[int]], run_ns: int) -> None:
    graph, on, rows = case
    times = [run_ns * (1 + 30 * (kind == "CPU")) for kind in on.kinds]
    priced, step = costs(graph, on, [times] * len(graph)), whole(graph)
    prepared = prepare(graph, step, on, priced, SimulationOptions(contention="none"))
    every = [rows, *([device] * len(graph) for device in range(len(on)))]
    every += [[at % len(on) for at in range(first, first + len(graph))] for first in range(len(on))]
    least = int(evaluate(prepared, every, flavour="local").min())
    assert bound(graph, on, priced, step=step, prepared=prepared).ns <= least


def test_a_chain_through_both_memories_of_a_gpu_takes_its_copies() -> None:
    on = with_chips(cluster(["w:0/CPU:0", "w:0/GPU:0"]))
    rows = Rows()
    rows.add("x", "Const", **typed("Const", (9, 9)))
    rows.add("size", "Shape", ["x"], T=type_attr(), out_type=type_attr(INT32), _output_shapes=shapes_attr((2,)))
    rows.add("real", "Cast", ["size"], SrcT=type_attr(INT32), DstT=type_attr(), _output_shapes=shapes_attr((2,)))
    graph = rows.built()
    fast = costs(graph, on, [[10**9 * (kind == "CPU") + 1000 for kind in on.kinds]] * 3)
    step = whole(graph)
    trace = simulate(partition(graph, assigned(on, [1, 1, 1]), on, step=step), on, fast)
    assert trace.makespan == 1000 + (1000 + 10_000) + 100 + 8 + 1000
    assert bound(graph, on, fast, step=step).ns == trace.makespan
