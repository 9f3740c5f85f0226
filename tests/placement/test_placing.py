"""place(): what it promises for every algorithm, graph and cluster."""

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from placement.algorithms import TABLE
from placement.algorithms.single import all_on, single
from placement.placing import ALGORITHMS, place
from placement.plan import Plan, fits, makespan, verdict
from placement.problem import pose
from simulator import assignment as why
from simulator.assignment import RULES, Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.cluster.devicespec import matches, parse
from simulator.columns import flags, ids, ints
from simulator.costs.table import CostTable
from simulator.errors import InfeasibleError, SimvizError
from simulator.execution import engine
from simulator.execution.preparing import prepare
from simulator.execution.simulate import simulate
from simulator.execution.tables import of_step
from simulator.graph import ops
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.partitioning.cut import partition
from simulator.placer.constraints import constrain
from tests.cluster.routes import route
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks, whole
from tests.strategies import BOOL, Rows, colocation, graphs, shapes_attr, type_attr, typed

CLUSTERS = ("2cpu", "1gpu", "3gpu", "ps=1,worker=1x1gpu", "ps=2,worker=2x2gpu")
REPLACEABLE = [name for name, entry in TABLE.items() if entry.replaceable]
HINTS = ("", "", "", "/cpu:0", "/device:GPU:0", "/device:GPU:1", "/device:CPU:*", "/gpu:7")


def priced(graph: Graph, cluster: Cluster, seed: int) -> CostTable:
    """Random costs, -1 where a kind's type has no kernel; some outputs without a known size."""
    draw = np.random.default_rng(seed)
    types = {device.kind: device.type for device in cluster.devices}
    run = draw.integers(0, 3000, (len(graph), len(cluster.kinds)))
    for node in range(len(graph)):
        kernels = {name for name, _ in ops.kernel_types(graph.ops[node], graph.attrs[node])}
        for column, kind in enumerate(cluster.kinds):
            if types[kind] not in kernels:
                run[node, column] = -1
    nothing = ints([0] * len(graph))
    return CostTable(cluster.kinds, run, nothing, nothing, ids([0] * len(graph)), nothing, nothing)


def reached(graph: Graph, cluster: Cluster, costs: CostTable, step: Step, placed: Assignment) -> int:
    tables = of_step(graph, step, cluster, costs)
    priority = None if placed.priority is None else placed.priority[tables.node]
    return engine.makespan(tables, tables.placed(placed.device), priority)


@st.composite
def cases(draw: st.DrawFn, /, **options: int) -> tuple[Graph, Cluster, CostTable]:
    graph = draw(graphs(devices=HINTS, colocations=True, **options))
    cluster = load_cluster(draw(st.sampled_from(CLUSTERS)))
    return graph, cluster, priced(graph, cluster, draw(st.integers(0, 99)))


# ---- laws -----------------------------------------------------------------------------------------------------------


@settings(max_examples=12)
@given(case=cases())
def test_groups_stay_whole_on_a_device_that_they_may_use(case: Any) -> None:
    graph, cluster, costs = case
    constraints, asked = constrain(graph, cluster), [parse(device) for device in graph.requested]
    kernels = [{name for name, _ in ops.kernel_types(*of)} for of in zip(graph.ops, graph.attrs, strict=True)]
    for algorithm in ALGORITHMS:
        note(algorithm)
        placed = place(graph, cluster, costs, step=whole(graph), algorithm=algorithm, fallback=False)
        assert placed.devices == tuple(device.name for device in cluster.devices)
        for members, allowed in zip(constraints.members, constraints.allowed, strict=True):
            assert len({placed.device[node] for node in members}) == 1
            assert placed.device[members[0]] in allowed
        for node, device in enumerate(placed.device):
            assert cluster.devices[device].type in kernels[node]
            got = parse(placed.name_of(node))
            assert matches(asked[node], got) is (placed.why[node] not in (why.RELAXED, why.OVERRULED))
            assert 0 <= placed.why[node] < len(RULES)


@settings(max_examples=12)
@given(case=cases())
def test_nothing_is_slower_than_a_single_device(case: Any) -> None:
    graph, cluster, costs = case
    step = whole(graph)
    alone = place(graph, cluster, costs, step=step, algorithm="single")
    alone_ns = reached(graph, cluster, costs, step, alone)
    for algorithm in REPLACEABLE:
        note(algorithm)
        ours = place(graph, cluster, costs, step=step, algorithm=algorithm)
        assert ours.asked == algorithm
        assert reached(graph, cluster, costs, step, ours) <= alone_ns
        if ours.used == "single":
            assert ours.device.tolist() == alone.device.tolist()
            assert any("the result of single" in said for said in ours.notes)
        else:
            raw = place(graph, cluster, costs, step=step, algorithm=algorithm, fallback=False)
            assert ours.device.tolist() == raw.device.tolist()


@settings(max_examples=12)
@given(case=cases(max_nodes=4))
def test_nothing_beats_the_optimum_of_all_placements_and_orders(case: Any) -> None:
    graph, cluster, costs = case
    step = whole(graph)
    problem = problem_of(graph, cluster, costs)
    optimum = min(
        makespan(problem, Plan(list(device), [0] * len(device), None, list(order)))
        for device in itertools.product(*problem.allowed)
        for order in itertools.permutations(range(len(graph)))
    )
    for algorithm in ALGORITHMS:
        placed = place(graph, cluster, costs, step=step, algorithm=algorithm, fallback=False)
        assert reached(graph, cluster, costs, step, placed) >= optimum


@given(case=cases())
def test_single_is_the_best_device_though_it_leaves_out_twins(case: Any) -> None:
    problem = problem_of(*case)
    ends = [makespan(problem, all_on(problem, device)) for device in range(len(problem.capacity))]
    assert single(problem).device == all_on(problem, ends.index(min(ends))).device


@settings(max_examples=12)
@given(case=cases(max_nodes=12))
def test_other_names_give_the_same_placement(case: Any) -> None:
    graph, cluster, costs = case
    if any("_class" in attrs for attrs in graph.attrs):  # the keys would have to change with the names
        graph = replace(graph, attrs=tuple({k: v for k, v in a.items() if k != "_class"} for a in graph.attrs))
    renamed = replace(graph, names=tuple(f"x{len(graph) - row}" for row in range(len(graph))))
    for algorithm in ALGORITHMS:
        if algorithm in ("search", "exact"):  # one sets groups of like names side by side, the other begins from it
            continue
        note(algorithm)
        one = place(graph, cluster, costs, step=whole(graph), algorithm=algorithm)
        two = place(renamed, cluster, costs, step=whole(graph), algorithm=algorithm)
        assert one.device.tolist() == two.device.tolist()
        assert one.why.tolist() == two.why.tolist()
        assert (one.priority is None) is (two.priority is None)


@settings(max_examples=15)
@given(case=cases(), runs=st.integers(0, 2**25))
def test_nodes_that_do_not_run_are_placed_too(case: Any, runs: int) -> None:
    graph, cluster, costs = case
    chosen = flags([runs >> (row % 25) & 1 for row in range(len(graph))])
    # what runs must have its inputs, unless they are fed: close the set under predecessors
    runs_now = np.array(chosen)
    for node in reversed(graph.order.tolist()):
        if runs_now[node]:
            runs_now[graph.edge_src[graph.in_ptr[node] : graph.in_ptr[node + 1]]] = True
    step = Step((), (), flags(runs_now), "some of it")
    constraints = constrain(graph, cluster)
    for algorithm in REPLACEABLE:
        placed = place(graph, cluster, costs, step=step, algorithm=algorithm, fallback=False)
        for row, members in enumerate(constraints.members):
            if not runs_now[list(members)].any():
                assert {placed.device[node] for node in members} == {constraints.allowed[row][0]}
                kept = {why.NOT_RUN, why.RELAXED, why.OVERRULED}
                assert set(placed.why[list(members)].tolist()) <= kept


SCRIPT = """
import random
from tests.placement.test_placing import priced
from tests.placement.problems import whole
from tests.strategies import Rows, colocation, typed
from simulator.cluster.description import load_cluster
from placement.algorithms import exact
from placement.placing import ALGORITHMS, place
from placement.search import judge
judge._DEFAULT, exact.WORK = judge._DEFAULT / 100, exact.WORK / 80
draw, rows = random.Random(5), Rows()
for at in range(100):
    inputs = [f"n{draw.randrange(max(0, at - 9), at)}" for _ in range(2)] if at > 3 else []
    attrs = typed("Mul" if inputs else "Const", (draw.randrange(1, 300), 50))
    if at % 5 == 0 and at:
        attrs["_class"] = colocation(f"n{draw.randrange(at)}", "ghost" + str(at % 3))
    rows.add(f"n{at}", "Mul" if inputs else "Const", inputs, device=draw.choice(["", "", "/gpu:1", "/cpu:0"]), **attrs)
graph, cluster = rows.built(), load_cluster("ps=1,worker=2x2gpu")
for algorithm in ALGORITHMS:
    placed = place(graph, cluster, priced(graph, cluster, 3), step=whole(graph), algorithm=algorithm)
    print(algorithm, placed.used, placed.device.tolist(), placed.why.tolist(), placed.notes, placed.priority)
"""


def test_the_hash_seed_plays_no_part() -> None:
    told = []
    for seed in ("0", "12345"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(done.stdout)
    assert told[0] == told[1]
    assert told[0].count("\n") >= len(ALGORITHMS)


# ---- cases ----------------------------------------------------------------------------------------------------------


def placed_on(graph: Graph, cluster: Cluster, run_ns: Sequence[tuple[int, ...]], **options: Any) -> Assignment:
    resident = options.pop("resident", None)
    return place(graph, cluster, costs_of(cluster, run_ns, resident), step=whole(graph), **options)


def test_why_each_node_is_where_it_is() -> None:
    rows = Rows()
    rows.add("asks", "Task", device="/gpu:1")
    rows.add("near", "Task", _class=colocation("asks"))
    rows.add("free", "Task")
    rows.add("wants", "Task", device="/gpu:9")
    graph = rows.built()
    placed = placed_on(graph, cluster_of("cgg"), [(1, 1, 1)] * 4, algorithm="requested")
    assert placed.device.tolist() == [2, 2, 1, 1]
    assert placed.why.tolist() == [why.REQUESTED, why.COLOCATED, why.DEFAULT, why.RELAXED]


def test_what_a_reference_overrules_is_marked() -> None:
    rows = Rows()
    rows.add("v", "VariableV2", device="/job:ps/task:0", **typed("VariableV2"))
    rows.add("c", "Const", **typed("Const"))
    rows.add("set", "Assign", ["v", "c"], device="/job:worker/task:0", T=type_attr())
    graph, cluster = rows.built(), load_cluster("ps=1,worker=1")
    placed = place(graph, cluster, priced(graph, cluster, 0), step=whole(graph), algorithm="requested")
    assert placed.why[graph.row("set")] == why.OVERRULED
    assert placed.name_of(graph.row("set")).startswith("/job:ps")


def test_single_takes_the_cpu_of_the_task_where_there_is_no_kernel() -> None:
    rows = Rows()
    rows.add("math", "Task")
    rows.add("text", "Const", dtype=type_attr(7))  # a string: no GPU keeps one
    rows.add("elsewhere", "Task", device="/job:ps")
    graph, cluster = rows.built(), load_cluster("ps=1,worker=1x1gpu")
    cpu, gpu = cluster.kinds.index(cluster.devices[0].kind), cluster.kinds.index(cluster.devices[2].kind)
    costs = priced(graph, cluster, 0)
    run = costs.run_ns.copy()
    run[0, cpu], run[0, gpu], run[2, cpu] = 10**6, 1, 1
    placed = place(graph, cluster, replace(costs, run_ns=run), step=whole(graph), algorithm="single")
    assert [cluster.devices[d].short for d in placed.device] == ["worker:0/GPU:0", "worker:0/CPU:0", "ps:0/CPU:0"]
    assert placed.why.tolist() == [why.SINGLE, why.CPU_OF_TASK, why.REQUESTED]


def test_single_leaves_the_rest_in_the_task_of_its_device() -> None:
    """What asks for another GPU goes to that of the same task, not to the first task's; so equal tasks are one try."""
    rows = Rows()
    rows.add("free", "Task")
    rows.add("first", "Task", ["free"], device="/gpu:0")
    rows.add("second", "Task", ["free"], device="/gpu:1")
    rows.add("elsewhere", "Task", device="/job:ps")
    graph, cluster = rows.built(), load_cluster("ps=1,worker=2x2gpu")
    problem = problem_of(graph, cluster, priced(graph, cluster, 0))
    for device, row in enumerate(cluster.devices):
        near = row.task if "worker" in row.task else "/job:worker/replica:0/task:0"
        plan = all_on(problem, device)
        where = [cluster.devices[plan.device[group]] for group in problem.constraints.group.tolist()]
        assert [one.name for one in where[1:3]] == [f"{near}/device:GPU:{number}" for number in (0, 1)]
        assert where[0] is row
        assert "ps" in where[3].task


def test_single_is_tried_when_the_algorithm_runs_out_of_memory() -> None:
    # greedy puts `free` on the device on which it is faster, and then the only device of `bound` is full
    graph = replace(tasks({}, ["free", "bound"]), requested=("", "/cpu:0"))
    cluster = cluster_of("cc", memory=(10, 10))
    run, resident = [(1, 5), (1, 1)], (6, 6)
    with pytest.raises(InfeasibleError, match="No device has room for the 6 B that stay resident with 'bound'"):
        placed_on(graph, cluster, run, resident=resident, algorithm="whitepaper", fallback=False)
    placed = placed_on(graph, cluster, run, resident=resident, algorithm="whitepaper")
    assert (placed.used, placed.device.tolist()) == ("single", [1, 0])
    assert placed.notes[0].startswith("whitepaper ran out of memory, so this is the result of single: No device has")


def test_memory_is_no_reason_to_alter_what_was_requested() -> None:
    graph = tasks({}, ["a", "b"])
    cluster = cluster_of("cc", memory=(5, 5))
    placed = placed_on(graph, cluster, [(1, 1)] * 2, resident=(4, 99), algorithm="requested")
    assert placed.device.tolist() == [0, 0]
    said = r"Cannot place 'b': it keeps 99 B resident, and its largest possible device has 5 B\. Use devices with more"
    with pytest.raises(InfeasibleError, match=said):
        placed_on(graph, cluster, [(1, 1)] * 2, resident=(4, 99), algorithm="single")


def test_single_leaves_out_devices_that_do_not_hold_the_graph() -> None:
    graph = tasks({}, ["a", "b"])
    cluster = cluster_of("cc", memory=(5, 50))
    assert placed_on(graph, cluster, [(1, 9)] * 2, resident=(4, 4), algorithm="single").device.tolist() == [1, 1]
    with pytest.raises(InfeasibleError, match="No single device holds the graph: 8 B stay resident"):
        placed_on(graph, cluster_of("cc", memory=(5, 5)), [(1, 9)] * 2, resident=(4, 4), algorithm="single")
    asked = replace(graph, requested=("/cpu:0", "/cpu:0"))
    with pytest.raises(InfeasibleError, match="CPU:0 has 5 B, but 8 B stay resident there and may be on no other"):
        placed_on(asked, cluster, [(1, 9)] * 2, resident=(4, 4), algorithm="single")
    problem = problem_of(graph, cluster, costs_of(cluster, [(1, 9)] * 2, (4, 4)))
    assert fits(problem, [0, 1])
    assert not fits(problem, [0, 0])


def test_the_faster_single_device_is_returned_and_said() -> None:
    graph = tasks({("a", "b"): 0, ("c", "b"): 50}, ["a", "c", "b"])
    # greedy spreads a and c; bringing c's value back costs more than running both in a row
    cluster = cluster_of("cc")
    run = [(10, 99), (10, 11), (1, 99)]
    raw = placed_on(graph, cluster, run, algorithm="whitepaper", fallback=False)
    assert raw.device.tolist() == [0, 1, 0]
    placed = placed_on(graph, cluster, run, algorithm="whitepaper")
    assert (placed.asked, placed.used, placed.device.tolist()) == ("whitepaper", "single", [0, 0, 0])
    assert placed.notes == ("single takes 21 ns and whitepaper 62 ns, so this is the result of single",)


def test_an_unknown_algorithm_is_answered_with_the_known_ones() -> None:
    graph, cluster = tasks({}, ["a"]), cluster_of("c")
    with pytest.raises(SimvizError, match=r"choose one of tensorflow, requested, single.*Did you mean 'heft'"):
        placed_on(graph, cluster, [(1,)], algorithm="hefty")
    for none in (3, ["heft"]):
        with pytest.raises(SimvizError, match="There is no algorithm"):
            placed_on(graph, cluster, [(1,)], algorithm=none)


def test_an_empty_graph_is_placed() -> None:
    graph, cluster = tasks({}, []), cluster_of("cg")
    for algorithm in ALGORITHMS:
        assert len(placed_on(graph, cluster, [], algorithm=algorithm)) == 0


def test_devices_without_a_route_are_avoided() -> None:
    graph = tasks({("a", "b"): 10}, ["a", "b"])
    cluster = replace(cluster_of("cc"), routes=(((), None), (None, ())))
    assert placed_on(graph, cluster, [(5, 99), (9, 1)]).device.tolist() == [0, 0]
    assert placed_on(graph, cluster, [(5, 99), (9, 1)], algorithm="heft").device.tolist() == [0, 0]


def test_devices_of_a_kind_on_different_links_are_no_twins() -> None:
    graph = replace(tasks({("fixed", "free"): 100}, ["fixed", "free"]), requested=("/cpu:0", ""))
    cluster = cluster_of("cgg")
    slow, kind = route(cluster, 0, 1)[0], cluster.devices[1].kind
    links = tuple(replace(link, latency_ns=70 * (link is slow)) for link in cluster.links)
    devices = tuple(replace(device, kind=kind if device.type == "GPU" else device.kind) for device in cluster.devices)
    cluster = replace(cluster, links=links, devices=devices)
    placed = placed_on(graph, cluster, [(1, 1), (500, 9)], algorithm="single")
    assert placed.device.tolist() == [0, 2]


def test_a_plan_that_holds_the_steps_values_is_preferred_to_a_faster_one() -> None:
    # a's value and b's copy of it must be there together: the fast device has no room for that
    graph = tasks({("a", "b"): 60, ("b", "c"): 60}, ["a", "b", "c"])
    roomy = cluster_of("cc", memory=(1000, 1000))
    tight = cluster_of("cc", memory=(100, 1000))
    run = [(1, 5)] * 3
    for algorithm in ("single", "whitepaper", "heft", "cpop", "peft"):
        assert placed_on(graph, roomy, run, algorithm=algorithm).device.tolist() == [0, 0, 0]
        assert placed_on(graph, tight, run, algorithm=algorithm).device.tolist() == [1, 1, 1]
    said = placed_on(graph, tight, run, algorithm="whitepaper").notes
    assert said == ("whitepaper would run out of memory in the step, so this is the result of single",)
    problem = problem_of(graph, tight, costs_of(tight, run))
    assert [verdict(problem, all_on(problem, device)) for device in (0, 1)] == [(True, 3), (False, 15)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_control_flow_is_judged_where_the_cut_moves_it(algorithm: str) -> None:
    rows = Rows()
    rows.add("flag", "Placeholder", device="/job:worker", dtype=type_attr(BOOL))
    rows.add("x", "Placeholder", device="/job:worker", **typed("Placeholder", (1000,)))
    rows.add(
        "s", "Switch", ["x", "flag"], device="/job:ps", T=type_attr(), _output_shapes=shapes_attr((1000,), (1000,))
    )
    rows.add("a", "Neg", ["s"], device="/job:ps", **typed("Neg", (1000,)))
    rows.add("b", "Neg", ["s:1"], device="/job:ps", **typed("Neg", (1000,)))
    graph, cluster = rows.built(), load_cluster("ps=1,worker=1")
    costs, step = priced(graph, cluster, 3), replace(whole(graph), feeds=("flag:0", "x:0"))
    placed = place(graph, cluster, costs, step=step, algorithm=algorithm)
    pieces = partition(graph, placed, cluster, step=step)
    assert placed.name_of(2).startswith("/job:ps")
    assert pieces.devices[pieces.device[pieces.graph.index["s"]]].startswith("/job:worker"), (
        "beside what the client feeds"
    )

    prepared = prepare(graph, step, cluster, costs)
    assert prepared.moves == ((graph.row("s"), len(graph) + step.feeds.index("x:0")),)
    problem = pose(graph, prepared, cluster, constrain(graph, cluster))
    chosen = [int(placed.device[members[0]]) for members in problem.constraints.members]
    plan = Plan([*chosen, cluster.client, cluster.client], [])
    assert makespan(problem, plan) == simulate(pieces, cluster, costs).makespan
    assert makespan(replace(problem, prepared=replace(prepared, moves=())), plan) != makespan(problem, plan)
