"""Graphs that name their jobs become the programs of a cluster's workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.cluster.description import load_cluster
from simulator.errors import ClusterError, GraphError, InfeasibleError, SimvizError
from simulator.graph.editor import edited
from simulator.graph.graph import Graph
from simulator.graph.importer import read_graph
from simulator.training.programs.distributed import distributed
from simulator.training.programs.program import Program
from simulator.training.recognition.sync_ops import APPLY, DEQUEUE, ENQUEUE, TAKE, find, joined
from simulator.training.recognition.variables import variable_of
from simulator.training.regimes import Regime
from tests.strategies import Rows, type_attr, typed
from tests.training.queues import INT64, const, cut, gradient, number, queue, synchronised, types, variable

PS_TRAINING = Path(__file__).parents[3] / "examples" / "ps_training.pbtxt"


def script(*, ps: str = "/job:ps/task:0", worker: str = "/job:worker/task:0", towers: int = 1) -> Graph:
    """One variable, its gradient on a worker or on several, its update and a global step."""
    rows = Rows()
    variable(rows, "w", device=ps)
    variable(rows, "global_step", dtype=INT64, device=ps)
    parts = []
    for at in range(towers):
        where = worker.replace("task:0", f"task:{at}")
        given = gradient(rows, f"x{at}", device=where)
        parts.append(rows.add(f"g{at}", "Mul", ["w", given], device=f"{where}/cpu:0", T=type_attr()))
    total = rows.add("sum", "AddN", parts, device=ps, T=type_attr(), N=number(towers)) if towers > 1 else parts[0]
    rows.add("rate", "Const", device=ps, **typed("Const", ()))
    rows.add("update", "ApplyGradientDescent", ["w", "rate", total], device=ps, T=type_attr())
    one = const(rows, "one", 1, dtype=INT64, device=ps)
    rows.add("train", "AssignAdd", ["global_step", one, "^update"], device=ps, T=type_attr(INT64))
    return rows.built()


def listed(made: tuple[Program, ...]) -> list[tuple[str, str, int | None]]:
    return [(program.name, program.role, program.like) for program in made]


def asked(program: Program) -> dict[str, str]:
    return dict(zip(program.graph.names, program.graph.requested, strict=True))


def test_a_workers_graph_becomes_a_graph_for_each_worker() -> None:
    made = distributed(read_graph(PS_TRAINING), load_cluster("ps=2,worker=3"))
    assert listed(made) == [("worker:0", "worker", None), ("worker:1", "worker", 0), ("worker:2", "worker", 0)]
    assert [program.task for program in made] == [f"/job:worker/replica:0/task:{at}" for at in range(3)]
    assert {program.fetches for program in made} == {("train",)}
    assert {program.counts for program in made} == {("train",)}
    assert {program.feeds for program in made} == {("images:0", "labels:0")}
    assert {program.examples for program in made} == {64}
    for at, program in enumerate(made):
        tasks = {text.partition("/device")[0] for text in asked(program).values()} - {""}
        assert tasks == {"/job:ps/task:0", "/job:ps/task:1", f"/job:worker/task:{at}"}
        assert program.graph.names == made[0].graph.names


def test_what_is_written_for_another_task_moves_to_the_first() -> None:
    made = distributed(script(worker="/job:worker/replica:0/task:7"), load_cluster("ps=1,worker=2"))
    assert [asked(program)["g0"] for program in made] == [
        f"/job:worker/replica:0/task:{at}/device:CPU:0" for at in (0, 1)
    ]


def test_a_chief_of_its_own_is_the_first_worker() -> None:
    made = distributed(script(), load_cluster("ps=1,worker=2,chief=1"))
    assert listed(made) == [("chief:0", "worker", None), ("worker:0", "worker", None), ("worker:1", "worker", 1)]
    assert [asked(program)["x0"] for program in made] == [
        "/job:chief/task:0",
        "/job:worker/task:0",
        "/job:worker/task:1",
    ]


def test_a_chief_alone_runs_what_workers_run() -> None:
    (made,) = distributed(script(), load_cluster("ps=1,chief=1"))
    assert (made.name, asked(made)["x0"]) == ("chief:0", "/job:chief/task:0")
    with pytest.raises(InfeasibleError, match=r"lacks the job 'worker'.*worker=2"):
        distributed(script(), load_cluster("ps=1"))
    with pytest.raises(InfeasibleError, match=r"lacks the job 'chief'.*worker=2"):
        distributed(script(worker="/job:chief/task:0"), load_cluster("ps=1"))
    with pytest.raises(InfeasibleError, match="lacks the job 'trainer'"):
        distributed(script(worker="/job:trainer/task:0"), load_cluster("ps=1,chief=1"))


def test_jobs_may_have_any_name_and_devices_may_differ() -> None:
    graph = script(ps="/job:keeper/task:0", worker="/job:trainer/task:0")
    made = distributed(graph, load_cluster("keeper=1,trainer=1x1gpu,trainer=1,trainer=1x1gpu"))
    assert listed(made) == [("trainer:0", "worker", None), ("trainer:1", "worker", None), ("trainer:2", "worker", 0)]


def test_a_graph_that_names_several_workers_is_one_client() -> None:
    (made,) = distributed(script(towers=3), load_cluster("ps=1,worker=3"))
    assert made.task == "/job:worker/replica:0/task:0"
    assert asked(made)["x2"] == "/job:worker/task:2"
    assert made.fetches == ("train",)


def test_graphs_of_different_workers_may_differ_and_a_reader_is_no_worker() -> None:
    rows = Rows()
    queue(rows, "q", device="/job:ps/task:0")
    const(rows, "x", 1, dtype=INT64, device="/job:reader/task:0")
    rows.add("read", "QueueEnqueueV2", ["q", "x"], device="/job:ps/task:0", Tcomponents=types(INT64))
    reader, chiefs = rows.built(), script()
    cluster = load_cluster("ps=1,worker=3,reader=2")
    made = distributed([("reader", reader), ("worker", script()), ("worker:0", chiefs)], cluster)
    assert listed(made) == [
        ("worker:0", "worker", None),
        ("worker:1", "worker", None),
        ("worker:2", "worker", 1),
        ("reader:0", "reader", None),
        ("reader:1", "reader", 3),
    ]
    assert made[3].fetches == ("read",)
    assert asked(made[4])["x"] == "/job:reader/task:1"


def test_filters_follow_the_worker() -> None:
    made = distributed(script(), load_cluster("ps=1,worker=2"), filters=["/job:ps", "/job:worker/task:0"])
    assert [program.filters for program in made] == [
        ("/job:ps", "/job:worker/task:0"),
        ("/job:ps", "/job:worker/task:1"),
    ]
    with pytest.raises(GraphError, match=r"leave out '/job:ps/task:0', which 'w' asks for"):
        distributed(script(), load_cluster("ps=1,worker=2"), filters=["/job:worker"])


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ("worker=2", "lacks the job 'ps', which 'w' of .* asks for; its tasks are worker:0, worker:1. Give it ps=1"),
        ("ps=1", "lacks the job 'worker', in which .* computes; .* Give it worker=2"),
        ("2gpu", "lacks the job 'worker'"),
    ],
)
def test_what_the_cluster_lacks_is_named(cluster: str, said: str) -> None:
    with pytest.raises(InfeasibleError, match=said):
        distributed(script(), load_cluster(cluster))


def test_a_task_that_the_cluster_lacks_is_named() -> None:
    with pytest.raises(InfeasibleError, match=r"lacks the task '/job:ps/task:1', .* Give it ps=2 or more"):
        distributed(read_graph(PS_TRAINING), load_cluster("ps=1,worker=2"))


@pytest.mark.parametrize("cluster", ["4gpu", "ps=1,worker=2", "worker=2x2gpu"])
@pytest.mark.parametrize("regime", [None, Regime("async"), Regime("sync"), Regime("ssp", bound=2)])
def test_a_graph_that_names_no_job_is_one_clients(cluster: str, regime: Regime | None) -> None:
    graph, there = script(ps="/cpu:0", worker="/gpu:1"), load_cluster(cluster)
    made = distributed(graph, there, regime=regime)
    assert [(program.task, program.role) for program in made] == [(there.client_task, "worker")]
    assert made[0].graph.requested == graph.requested


def test_of_one_client_no_more_is_counted_than_it_makes() -> None:
    graph, there = script(ps="/cpu:0", worker="/cpu:0"), load_cluster("4gpu")
    with pytest.raises(SimvizError, match="total=4 replicas, but 1 worker would be started"):
        distributed(graph, there, regime=Regime("sync", total=4))
    made = distributed(graph, there, regime=Regime("sync", aggregate=3))  # which makes several gradients
    assert [program.role for program in made] == ["worker", "updates"]


def test_bad_calls() -> None:
    cluster = load_cluster("ps=1,worker=2")
    rows = Rows()
    rows.add("a", "Const", device="/job:worker/task:0", **typed("Const", ()))
    with pytest.raises(GraphError, match="without gradients"):
        distributed(rows.built(), cluster)
    with pytest.raises(ClusterError, match=r"given for 'wroker:0', .* Did you mean 'worker:0'"):
        distributed([("wroker:0", script())], cluster)
    with pytest.raises(ClusterError, match="2 graphs are given for 'worker'"):
        distributed([("worker", script()), ("worker", script())], cluster)
    with pytest.raises(GraphError, match=r"Malformed device .*node"):
        distributed(script(ps="/job:ps/task:zero"), cluster)


def test_a_graph_that_synchronises_itself_gives_the_chief_a_second_program() -> None:
    graph = synchronised(aggregate=2, handed=3, tokens=2)
    made = distributed(graph, load_cluster("ps=1,worker=3"), regime=Regime("sync", 2, 3))
    assert listed(made) == [
        ("worker:0", "worker", None),
        ("worker:1", "worker", 0),
        ("worker:2", "worker", 0),
        ("worker:0 updates", "updates", None),
    ]
    assert [(one.fetches, one.counts) for one in made[2:]] == [(("train",), ()), (("tokens",), ("count",))]
    with pytest.raises(SimvizError, match="written for 3 replicas"):
        distributed(graph, load_cluster("ps=1,worker=2"))


def test_a_workers_own_input_queue_is_nothing_that_workers_share() -> None:
    """Graphs with string_input_producer and batch once started one worker: their queues stand on it."""
    graph = synchronised(aggregate=2, handed=3, tokens=2)
    editor = edited(graph, as_made=False)
    worker = "/job:worker/task:0"
    queue = editor.add("input", "FIFOQueueV2", attrs={"component_types": types(1)}, device=worker)
    editor.add("input/next", "QueueDequeueV2", [queue], attrs={"component_types": types(1)}, device=worker)
    made = distributed(editor.built(), load_cluster("ps=1,worker=3"))
    assert [one.name for one in made] == ["worker:0", "worker:1", "worker:2", "worker:0 updates"]


def test_worker_and_updates_share_one_accumulator_and_one_queue() -> None:
    made = distributed(synchronised(aggregate=2, handed=2, tokens=2), load_cluster("ps=1,worker=2"))
    found = joined([find(cut(one.graph, "ps=1,worker=2", one.fetches, "master")) for one in made])
    assert [[op.kind for op in one.ops] for one in found] == [[APPLY, DEQUEUE], [APPLY, DEQUEUE], [TAKE, ENQUEUE]]
    assert len({op.key for one in found for op in one.ops}) == 2


def test_what_takes_nothing_is_nothing_of_the_node_after_it() -> None:
    """A node without inputs was once asked for what comes in at the next node."""
    rows = Rows()
    variable(rows, "w")
    rows.add("nothing", "NoOp", device="/job:worker/task:0")
    rows.add("read", "Identity", ["w"], T=type_attr())
    graph = rows.built()
    assert variable_of(graph, graph.row("nothing")) is None
    assert variable_of(graph, graph.row("read")) == graph.row("w")
