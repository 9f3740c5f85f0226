"""Sessions start when the last task that they wait for is up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulator
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import parse
from simulator.columns import ints
from simulator.errors import ClusterError
from simulator.graph.building import build
from simulator.training.clients import starts, waits_for
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.disturbances.disturbed import disturb
from simulator.training.programs.program import Program

GRAPH = build([], [], [], [], [])


def program(task: str, *filters: str) -> Program:
    job, _, number = task.partition(":")
    return Program(task, f"/job:{job}/replica:0/task:{number}", GRAPH, (), filters=filters)


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return simulator.load_cluster("ps=1,worker=3")


def test_a_session_waits_for_all_tasks_but_those_filtered_out(cluster: Cluster) -> None:
    """ps:0 is up at 2, worker:0 at 0, worker:1 at 1, worker:2 at 9: only who filters worker:2 out starts earlier."""
    programs = [
        program("worker:0"),
        program("worker:0", "/job:ps", "/job:worker/task:0"),
        program("worker:1", "/job:ps", "/job:worker/task:1"),
        program("worker:2", "/job:ps", "/job:worker/task:1"),  # its own task is not filtered out
        program("worker:0", "/job:worker/task:0/cpu:3"),  # device types do not count
        program("worker:1", "/task:1"),
    ]
    found = starts(programs, cluster, ints([2, 0, 1, 9]))
    assert found.session_ns.tolist() == [9, 2, 2, 9, 0, 1]
    assert found.waited_for.tolist() == [3, 0, 0, 3, -1, 2]


def test_late_tasks_of_a_run_delay_the_sessions(cluster: Cluster) -> None:
    up_ns = disturb([read_disturbance("worker:*=late:1 s"), read_disturbance("worker:2=late:3 s")], cluster).up_ns
    found = starts([program("worker:0"), program("worker:1", "/job:ps")], cluster, up_ns)
    assert found.session_ns.tolist() == [3 * 10**9, 10**9]
    assert found.waited_for.tolist() == [3, 2]


def test_filters_match_as_tensorflow_matches_them() -> None:
    task = parse("/job:worker/replica:0/task:3")
    assert all(waits_for(task, [one]) for one in ("", "/job:worker", "/job:*/task:3", "/task:3", "/job:worker/gpu:0"))
    assert not any(waits_for(task, [one]) for one in ("/job:ps", "/job:worker/task:30", "/replica:1", "/job:Worker"))
    assert waits_for(task, [])
    assert waits_for(task, ["/job:ps", "/job:worker"])


@given(st.lists(st.integers(0, 5), min_size=4, max_size=4), st.integers(0, 2), st.lists(st.integers(0, 2), max_size=3))
def test_the_start_is_the_largest_of_what_is_waited_for(up: list[int], own: int, filtered: list[int]) -> None:
    cluster = simulator.load_cluster("ps=1,worker=3")
    one = program(f"worker:{own}", *(f"/job:worker/task:{k}" for k in filtered))
    asked = {own + 1, *(k + 1 for k in filtered)} if filtered else {0, 1, 2, 3}
    found = starts([one], cluster, ints(up))
    assert found.session_ns.tolist() == [max(up[k] for k in asked)]
    last = found.waited_for.tolist()[0]
    assert last in asked if max(up[k] for k in asked) else last == -1
    assert last < 0 or up[last] == found.session_ns[0]


def test_errors_name_the_program_and_the_filter(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match=r"worker:7 has its session at .*; give a cluster with that task"):
        starts([program("worker:7")], cluster, ints([0, 0, 0, 0]))
    with pytest.raises(ClusterError, match="Malformed device specification 'job:ps'"):
        starts([program("worker:0", "job:ps")], cluster, ints([0, 0, 0, 0]))
