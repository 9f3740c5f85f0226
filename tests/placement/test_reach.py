"""Of a large cluster the part within reach: TensorFlow places a graph on it as on the whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.placing import place
from placement.plan import Plan, verdict
from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.cluster.master import connected
from simulator.columns import ints
from simulator.errors import ClusterError, InfeasibleError
from simulator.execution.table_columns import cluster_columns
from simulator.graph.graph import Graph
from simulator.limits import PART, WHOLE_CLUSTER, raised
from simulator.placer.reach import within_reach
from tests.placement.problems import costs_of, problem_of, tasks, whole
from tests.strategies import Rows, graphs, typed

LARGE = "ps=2,worker=2040x7gpu"
WHOLE = [
    connected(load_cluster(text), master)
    for text, master in (
        ("ps=2,worker=3x2gpu", "worker:2"),
        ("3cpu,2gpu,ps=2x1gpu,worker=2", "ps:1"),
        ("worker=2x3v100,ps=4", "standin_client"),
    )
]


def placed(graph: Graph, on: Cluster, *, soft: bool) -> list[str] | str:
    """The devices that TensorFlow would choose, or what it would say."""
    costs = costs_of(on, [[0] * len(on.kinds)] * len(graph))
    try:
        found = place(graph, on, costs, step=whole(graph), algorithm="tensorflow", soft=soft)
    except InfeasibleError as error:
        return error.node or ""
    return [found.name_of(row) for row in range(len(graph))]


@given(graphs(), st.sampled_from(WHOLE), st.integers(1, 8), st.booleans())
def test_a_graph_is_placed_on_the_part_as_on_the_whole(graph: Graph, on: Cluster, enough: int, soft: bool) -> None:
    expected = placed(graph, on, soft=soft)
    with raised({"whole-cluster": 1, "part": enough}):
        if isinstance(expected, str):
            with pytest.raises(InfeasibleError) as refused:
                within_reach(graph, on, soft=soft)
            assert refused.value.node == (expected or None)
            return
        less = within_reach(graph, on, soft=soft)
    assert placed(graph, less, soft=soft) == expected
    assert less.client_task == on.client_task
    hosts = {device.host for device in less.devices}
    assert hosts >= {on.devices[on.client].host}
    for source in range(len(less)):  # the same routes, in time and links
        for target in range(len(less)):
            a, b = (on.index[less.devices[row].name] for row in (source, target))
            assert less.transfer_ns(source, target, 1000) == on.transfer_ns(a, b, 1000)


def test_what_a_graph_asks_for_and_whole_hosts_are_kept() -> None:
    rows = Rows()
    for name, device in (("far", "/job:worker/task:1999/gpu:3"), ("ps", "/job:ps/task:1")):
        rows.add(name, "Const", device=device, **typed("Const"))
    graph, on = rows.built(), load_cluster(LARGE)
    less = within_reach(graph, on)
    names = {device.short for device in less.devices}
    assert {"worker:1999/GPU:3", "worker:1999/CPU:0", "ps:1/CPU:0", "worker:0/CPU:0", "worker:29/GPU:6"} <= names
    assert PART.default <= len(less) < PART.default + 8
    assert less.name == f"{LARGE} ({len(less)} of 16,322 devices)"
    assert "of 16,322 devices this step may use" in less.notes[-1]
    assert len(less.links) < 4 * len(less)


def test_a_cluster_that_a_step_can_use_is_kept() -> None:
    many = Rows()
    for row in range(200):
        many.add(f"n{row}", "Relu" if row else "Const", [f"n{row - 1}"] if row else [], **typed("Relu"))
    for text, graph in (("4gpu", Rows().built()), ("worker=200x2gpu", many.built())):
        on = load_cluster(text)
        assert len(on) <= WHOLE_CLUSTER.default
        assert within_reach(graph, on) is on


def test_few_groups_get_few_of_a_thousand_hosts_of_each_kind() -> None:
    """A kind that comes last is not forgotten, and the note names the limit that brings more."""
    rows = Rows()
    for name in "abc":
        rows.add(name, "Const", **typed("Const"))
    less = within_reach(rows.built(), load_cluster("worker=400x1gpu,fast=40x2h100"))
    assert [less.tasks.count(f"/job:{job}/replica:0/task:0") for job in ("worker", "fast")] == [1, 1]
    jobs = [device.task.split("/")[1] for device in less.devices]
    assert jobs.count("job:fast") == 3 * 40
    assert 256 <= len(less) <= 256 + 3
    assert f"of 920 devices this step may use {len(less)}" in less.notes[-1]
    assert "--limit part=N" in less.notes[-1]
    less = within_reach(rows.built(), load_cluster(LARGE))
    assert "--limit whole-cluster=N" in less.notes[-1]


def test_a_host_with_wires_of_its_own_is_a_kind_of_its_own() -> None:
    rows = Rows()
    rows.add("a", "Const", **typed("Const"))
    on = load_cluster("worker=6")
    fast = [replace(link, bytes_per_s=10**11) if "worker5" in link.name else link for link in on.links]
    with raised({"part": 1}):
        assert [len(within_reach(rows.built(), one)) for one in (on, replace(on, links=tuple(fast)))] == [2, 3]


@settings(max_examples=12)
@given(st.data())
def test_the_best_placement_of_all_on_the_part_is_that_on_the_whole(data: st.DataObject) -> None:
    on = load_cluster(data.draw(st.sampled_from(("worker=5", "ps=4,worker=1", "worker=3x1gpu"))))
    on = replace(on, devices=tuple(replace(device, lanes=1) for device in on.devices))  # so that ops wait
    names = "abc"
    edges = st.dictionaries(
        st.sampled_from(list(combinations(names, 2))), st.sampled_from((None, 8, 50_000)), max_size=5
    )
    graph = tasks(data.draw(edges), names)
    at = data.draw(st.sampled_from(on.devices)).name
    graph = replace(graph, requested=(*graph.requested[:-1], at))
    run_ns = [[data.draw(st.sampled_from((1_000, 400_000, 500_000)))] * len(on.kinds) for _ in names]
    with raised({"part": 1}):
        less = within_reach(graph, on)
    assert best(graph, less, run_ns) == best(graph, on, run_ns)


def best(graph: Graph, on: Cluster, run_ns: list[list[int]]) -> int:
    """The shortest step of all placements."""
    problem = problem_of(graph, on, costs_of(on, run_ns))
    return min(verdict(problem, Plan(list(devices)))[1] for devices in product(*problem.allowed))


@pytest.mark.parametrize("limit", ["part", "whole-cluster"])
def test_all_limits_of_a_step_on_many_devices_are_named_at_once(limit: str) -> None:
    rows = Rows()
    for name in "abcdefgh":
        rows.add(name, "Const", **typed("Const"))
    graph, on = rows.built(), load_cluster("worker=10")
    lower = {"part": 2, "whole-cluster": 2, "step-devices": 4}
    with raised(lower):
        assert len(within_reach(graph, on)) == 2
    with (
        raised({**lower, limit: 10 - (limit == "part")}),  # a part of all is no part
        pytest.raises(ClusterError, match=r"--limit whole-cluster=N or part=N, --limit step-devices=N takes more"),
    ):
        within_reach(graph, on)
    with raised({**lower, limit: 10, "step-devices": 10}):
        assert len(within_reach(graph, on)) >= 8


def test_a_step_of_more_devices_than_memory_holds_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.execution.table_columns.free_bytes", lambda: 2**32)
    on = load_cluster("worker=5000")
    with raised({"step-devices": 5000}):
        with pytest.raises(ClusterError, match=r"4\.19 GiB .*4 GiB are free.*whole-cluster"):
            cluster_columns(on)
        assert len(cluster_columns(on, ints([1])).routes.links) == 1  # a few pairs need next to nothing
