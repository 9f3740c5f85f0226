"""A master sends a tensor to a task once, and its worker hands it on: the judge of plans knows that, and so do bounds.

`tests/laws/test_cut_and_whole.py` has the same law for cuts that hand nothing on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement import place
from placement.effort import Effort
from simulator import load
from simulator.bounds import lower_bound
from simulator.cluster.cluster import Link
from simulator.cluster.contention import CONTENTIONS
from simulator.cluster.description import load_cluster
from simulator.cluster.device_strings import without_devices
from simulator.columns import ids, ints
from simulator.costs.estimate import estimate
from simulator.execution.arrays import CODES
from simulator.execution.choosing import load as load_loop
from simulator.execution.evaluate import evaluate, evaluate_with_peaks
from simulator.execution.flattening import workspace
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import Prepared, prepare
from simulator.execution.simulate import simulate
from simulator.execution.transfers import hands_on
from simulator.graph.step import choose_step
from simulator.partitioning.cut import partition
from simulator.partitioning.levels import FLAVOURS
from tests.execution.cases import TWO_BY_TWO, assigned, cluster, costs, runs, steps, whole
from tests.strategies import Rows, typed
from tests.strategies import rows as drafts

PLAIN = SimulationOptions(engine="python")
ROOT = Path(__file__).parents[2]


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_plans_are_judged_by_the_cut_that_is_made_of_them(data: st.DataObject) -> None:
    graph = data.draw(drafts()).built()
    step = data.draw(st.just(whole(graph)) | steps(graph))
    on, priced, rows = data.draw(runs(graph))
    order, contention = data.draw(st.sampled_from(["fifo", "tensorflow"])), data.draw(st.sampled_from(CONTENTIONS))
    engine, seed = data.draw(st.sampled_from(["python", "compiled"])), data.draw(st.integers(0, 3))
    options = SimulationOptions(order, contention, engine=engine, seed=seed)
    flavour = data.draw(st.sampled_from(FLAVOURS))
    plans = [rows, [data.draw(st.integers(0, len(on) - 1)) for _ in range(len(graph))]]
    prepared = prepare(graph, step, on, priced, options)
    ends, peaks = evaluate_with_peaks(prepared, plans, flavour=flavour)
    assert evaluate(prepared, plans, flavour=flavour).tolist() == ends.tolist()
    bound = lower_bound(graph, on, priced, step=step, prepared=prepared)
    for plan, end, peak in zip(plans, ends.tolist(), peaks.tolist(), strict=True):
        pieces = partition(graph, assigned(on, plan), on, step=step, flavour=flavour, legal=False)
        trace = simulate(pieces, on, priced, options)
        assert (trace.makespan, trace.peak_bytes.tolist()) == (end, peak)
        assert bound <= end


def makespan_of_the_loop(prepared: Prepared, plan: Sequence[int], *, handing: bool = True) -> int:
    """The makespan by the compiled loop as a search has it: a task hands on what it gets."""
    tables, found, options = prepared.tables, np.zeros(1, np.int64), prepared.options
    assert prepared.given is not None
    task = prepared.given.cluster.task_of if handing else ()
    order = CODES[options.order_for(None)]
    with workspace(tables, options.contention, task=task) as own:
        device, columns, nobody = (
            prepared.devices(np.array(plan)),
            ids(np.arange(len(tables))),
            np.zeros((0, 0), np.int64),
        )
        ranked = ids(np.zeros((0, len(tables)), np.int32))
        own.run(load_loop().play, device[None], columns, ids([0]), order, ranked, ints([]), 2**62, 0, found, nobody)
    return int(found[0])


@pytest.mark.parametrize("order", ["fifo", "tensorflow"])
@pytest.mark.parametrize("described", ["worker=2x2gpu", "ps=1,worker=2x3gpu"])
def test_the_compiled_loop_hands_on_as_the_pieces_do(described: str, order: str) -> None:
    """Plans by chance, from a fixed seed: a tie may fall otherwise, which is rare."""
    graph, on = without_devices(load(ROOT / "examples" / "ps_training.pbtxt")), load_cluster(described)
    options = SimulationOptions(order, engine="python")
    prepared = prepare(graph, choose_step(graph), on, estimate(graph, on), options)
    chance = np.random.default_rng(7)
    plans = chance.integers(0, len(on), (20, len(graph)))
    handing = [hands_on(prepared.tables, prepared.devices(plan), ids(on.task_of)) for plan in plans]
    assert all(handing)
    assert [makespan_of_the_loop(prepared, plan) for plan in plans] == evaluate(prepared, plans).tolist()


def test_a_tensor_goes_to_a_task_once_and_is_handed_on_there() -> None:
    draft = Rows()
    draft.add("v", "Placeholder", **typed("Placeholder", (1000,)))
    for name in "xy":
        draft.add(name, "Neg", ["v"], **typed("Neg", (1000,)))
    graph, on = draft.built(), TWO_BY_TWO
    step, priced = whole(graph), costs(graph, on, [0, 1000, 1000])
    prepared, plan = prepare(graph, step, on, priced, PLAIN), [0, 2, 3]
    assert on.client == 0
    wire = 100 + 4000  # to the GPU that reads it first, and again from that to the other
    master = partition(graph, assigned(on, plan), on, step=step)
    local = partition(graph, assigned(on, plan), on, step=step, flavour="local")
    assert [(one.flavour, one.src_device.tolist(), one.dst_device.tolist()) for one in (master, local)] == [
        ("master", [0, 2], [2, 3]),
        ("local", [0, 0], [2, 3]),
    ]
    assert evaluate(prepared, [plan]).tolist() == [2 * wire + 1000]
    assert evaluate(prepared, [plan], flavour="local").tolist() == [wire + 1000]
    assert makespan_of_the_loop(prepared, plan) == 2 * wire + 1000
    assert hands_on(prepared.tables, prepared.tables.placed(ids(plan)), ids(on.task_of))
    assert not hands_on(prepared.tables, prepared.tables.placed(ids([0, 2, 2])), ids(on.task_of))


@pytest.mark.parametrize("flavour", ["auto", "local"])
def test_a_search_judges_what_it_shows(flavour: str) -> None:
    """A value must go to both GPUs of another task: a master sends it once, so it comes to the second one later."""
    draft = Rows()
    draft.add("v", "Placeholder", device="/job:a/task:0", **typed("Placeholder", (1000,)))
    for at in range(2):
        draft.add(f"x{at}", "Neg", ["v"], device=f"/job:b/device:GPU:{at}", **typed("Neg", (1000,)))
        draft.add(f"y{at}", "Neg", [f"x{at}"], device="/job:b", **typed("Neg", (1000,)))
    graph, on = draft.built(), TWO_BY_TWO
    step, priced = whole(graph), costs(graph, on, 1000)
    placed = place(graph, on, priced, step=step, flavour=flavour, effort=Effort(judged=30))
    assert placed.search is not None
    shown = evaluate(prepare(graph, step, on, priced, PLAIN), [placed.device.tolist()], flavour=flavour)
    assert placed.search.better[-1][2] == int(shown[0])


def test_a_reference_of_another_task_is_a_value_for_which_other_references_wait() -> None:
    draft = Rows()
    for name in "vw":
        draft.add(name, "VariableV2", **typed("VariableV2", (1000,)))
    draft.add("sum", "AddV2", ["v", "w"], **typed("AddV2", (1000,)))
    graph, on = draft.built(), TWO_BY_TWO
    step, priced, plan = whole(graph), costs(graph, on, 0), [2, 0, 3]
    prepared, wire = prepare(graph, step, on, priced, PLAIN), 100 + 4000
    for flavour, expected in (("local", wire), ("master", 2 * wire)):  # v's Recv waits for w, or both come at once
        pieces = partition(graph, assigned(on, plan), on, step=step, flavour=flavour, legal=False)
        assert simulate(pieces, on, priced).makespan == expected
        assert evaluate(prepared, [plan], flavour=flavour).tolist() == [expected]


def test_a_bound_knows_that_a_value_may_take_a_way_through_another_kind() -> None:
    """From the CPU of a to that of b directly is slow; by b's GPU, which reads it first in host memory, it is fast."""
    slow, fast = 10**6, 10**10
    links = [Link("slow", 0, slow), Link("in", 0, fast), Link("over", 0, fast)]
    on = cluster(
        ["a:0/CPU:0", "b:0/GPU:0", "c:0/GPU:0", "c:0/CPU:0"],
        links,
        {(0, 1): (0,), (0, 2): (0,), (0, 3): (0,), (1, 2): (1,), (2, 3): (2,), (1, 3): (0,)},
    )
    draft = Rows()
    draft.add("v", "Placeholder", **typed("Placeholder", (1000,)))
    draft.add("x", "Neg", ["v"], **typed("Neg", (1000,)))
    graph = draft.built()
    priced = costs(graph, on, 10)
    step = whole(graph)
    ends = evaluate(prepare(graph, step, on, priced, PLAIN), [[0, row] for row in range(4)])
    assert lower_bound(graph, on, priced, step=step) <= ends.min()


@pytest.mark.parametrize("described", ["2gpu", "ps=1,worker=1x2gpu"])
def test_by_default_the_cut_is_that_of_a_session_of_such_a_cluster(described: str) -> None:
    graph = Rows()
    graph.add("v", "VariableV2", **typed("VariableV2", (10,)))
    graph.add("x", "Neg", ["v"], **typed("Neg", (10,)))
    built, on = graph.built(), load_cluster(described)
    pieces = partition(built, assigned(on, [0, len(on) - 1]), on, step=whole(built))
    assert pieces.flavour == ("local" if described == "2gpu" else "master")
    assert any("_S" in name for name in pieces.graph.names) == (pieces.flavour == "master")
