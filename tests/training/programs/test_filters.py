"""Device filters: their notation, the sessions that they are for, and refusals."""

from __future__ import annotations

import pytest

from placement import clients
from simulator import estimate_each, load_cluster
from simulator.cluster.cluster import Cluster
from simulator.errors import ClusterError, GraphError, InfeasibleError, SimvizError
from simulator.graph.building import build
from simulator.training.programs.filters import check_filters, filtered, read_filters, seen
from simulator.training.programs.program import Program


def program(task: str, device: str = "", *filters: str) -> Program:
    job, number = task.split(":")
    graph = build(["n"], ["NoOp"], [device], [[]], [{}])
    return Program(task, f"/job:{job}/replica:0/task:{number}", graph, ("n",), filters=filters)


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return load_cluster("ps=2,chief=1,worker=2")


def test_each_session_has_the_filters_of_its_job_or_the_common_ones(cluster: Cluster) -> None:
    wanted = [read_filters(text) for text in ("chief=/job:ps,/job:chief", "/job:ps, /job:{job}/task:{task}")]
    programs = [program("chief:0"), program("worker:0"), program("worker:1")]
    found = filtered(programs, wanted, cluster)
    check_filters(wanted, programs, cluster)
    assert [one.filters for one in found] == [
        ("/job:ps", "/job:chief"),
        ("/job:ps", "/job:worker/task:0"),
        ("/job:ps", "/job:worker/task:1"),
    ]
    assert seen(found[1], cluster) == {f"/job:{task}" for task in ("ps/replica:0/task:0", "ps/replica:0/task:1")} | {
        "/job:worker/replica:0/task:0"
    }
    assert filtered(programs, [wanted[0]], cluster)[1].filters == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker=", "empty filter"),
        ("", "empty filter"),
        ("/job:ps,,/job:worker", "empty filter"),
        ("/job:ps/foo", "cannot read '/foo'"),
        ("job:ps", "Malformed"),
        ("/job:{jobs}", "are the session's own"),
        ("/job:{0}", "are the session's own"),
    ],
)
def test_what_is_no_filter_is_refused(text: str, said: str) -> None:
    with pytest.raises(SimvizError, match=said):
        read_filters(text)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["wroker=/job:ps"], "Did you mean 'worker'"),
        (["ps=/job:ps"], "where no session is"),
        (["worker=/job:ps", "worker=/job:worker"], "given twice for the job 'worker'"),
        (["/job:ps", "/job:worker"], "given twice for all sessions"),
        (["worker=/job:ps,/job:chef"], "'/job:chef' matches no task"),
        (["worker=/job:worker/task:7"], "matches no task"),
    ],
)
def test_filters_of_which_nothing_would_come_are_refused(texts: list[str], said: str, cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match=said):
        check_filters([read_filters(text) for text in texts], [program("worker:0"), program("chief:0")], cluster)


def test_a_device_that_the_graph_asks_for_must_be_seen(cluster: Cluster) -> None:
    wanted = [read_filters("worker=/job:ps/task:0")]
    filtered([program("worker:1", "/job:ps/task:0"), program("worker:1", "/job:worker/task:1")], wanted, cluster)
    for device in ("/job:ps/task:1/cpu:0", "/job:worker/task:0"):
        with pytest.raises(GraphError, match="would not place it in the session of worker:1"):
            filtered([program("worker:1", device)], wanted, cluster)


def test_nothing_is_placed_where_the_session_does_not_see(cluster: Cluster) -> None:
    """The node asks for no job, and the placement has no rule for filters: it takes the first device there is."""
    asked = program("worker:1", "/task:0", "/job:ps")
    with pytest.raises(InfeasibleError, match="leave out chief:0/CPU:0, where 'n' is placed"):
        clients([asked], cluster, estimate_each([asked], cluster), algorithm="tensorflow")
