"""Towers within one graph: what is copied, what is shared, and where it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simulator import choose_step, load_cluster
from simulator.errors import ClusterError, SimvizError
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.shapes.filling import with_shapes
from simulator.training.programs.replicated import Replication, replicate
from simulator.training.recognition.anatomy import anatomy
from simulator.training.regimes import read_regime
from tests.strategies import Rows, colocation, loop, type_attr, typed
from tests.training.pipelines.chain import embedding
from tests.training.programs.test_between import momentum, variable

GPU = "/job:localhost/task:0/device:GPU:{}"
CPU = "/job:localhost/task:0/device:CPU:0"


def device(graph: Graph, name: str) -> str:
    return graph.requested[graph.row(name)]


def inputs(graph: Graph, name: str) -> tuple[str, ...]:
    return graph.inputs_of(graph.row(name))


def test_towers_share_the_variables_and_what_is_fed_is_split() -> None:
    (program,) = replicate(momentum(), load_cluster("2gpu"), how="in", batch=32)
    graph = program.graph
    added = set(graph.names[len(momentum()) :])
    copied = {"y", "loss", "grad_w", "grad_b", "axis"}
    assert {name for name in added if name.startswith("tower_1/")} == {f"tower_1/{name}" for name in copied}
    assert inputs(graph, "y") == ("split/x", "w/read")
    assert inputs(graph, "tower_1/y") == ("split/x:1", "w/read")
    assert inputs(graph, "tower_1/grad_w") == ("split/x:1", "tower_1/loss")
    assert inputs(graph, "average/w/sum") == ("grad_w", "tower_1/grad_w")
    assert inputs(graph, "average/w") == ("average/w/sum", "average/w/replicas")
    assert inputs(graph, "update_w") == ("w", "w/Momentum", "rate", "average/w", "rate")
    assert (program.fetches, program.feeds, program.counts) == (("train",), ("x:0",), ("count",))
    assert program.examples == 64
    assert {device(graph, name) for name in copied} == {GPU.format(0)}
    assert {device(graph, f"tower_1/{name}") for name in copied} == {GPU.format(1)}
    assert {device(graph, name) for name in ("w", "w/read", "average/w/sum", "update_w", "split/x", "rate")} == {CPU}


@pytest.mark.parametrize("given", [momentum(batch=32), with_shapes(momentum(), batch=32)])
def test_each_tower_works_on_a_batch_of_its_own_and_has_the_sizes_of_the_graph(given: Graph) -> None:
    (program,) = replicate(given, load_cluster("4gpu"), how="in")
    graph = program.graph
    shapes = {name: graph.tensor_shape[graph.tensor_ptr[graph.row(name)]] for name in ("x", "split/x", "average/w")}
    assert shapes == {"x": (128, 4), "split/x": (32, 4), "average/w": (4, 2)}
    assert graph.tensor_shape[graph.tensor_ptr[graph.row("split/x")] + 3] == (32, 4)
    assert program.examples == 128


def test_variables_stand_where_they_are_wanted() -> None:
    def homes(cluster: str, **options: str) -> set[str]:
        (program,) = replicate(momentum(), load_cluster(cluster), how="in", **options)  # type: ignore[arg-type]
        graph = program.graph
        return {device(graph, name) for name in ("w", "w/read", "w/Momentum", "average/w", "update_w")}

    assert homes("ps=2,worker=2x2gpu") == {"/job:ps/task:0"}
    assert homes("ps=2,worker=2x2gpu", variables="cpu") == {"/job:worker/task:0/device:CPU:0"}
    assert homes("2gpu", variables="gpu") == {GPU.format(0)}
    with pytest.raises(ClusterError, match="no ps"):
        homes("2gpu", variables="ps")


def test_a_gpu_that_the_graph_names_is_the_towers_and_a_cpu_stays_one() -> None:
    graph = momentum()
    asks = {"y": "/device:GPU:0", "loss": "/device:CPU:0"}
    asking = replace(graph, requested=tuple(asks.get(name, "") for name in graph.names))
    (program,) = replicate(asking, load_cluster("worker=2x1gpu"), how="in")
    assert device(program.graph, "tower_1/y") == "/job:worker/task:1/device:GPU:0"
    assert device(program.graph, "tower_1/loss") == "/job:worker/task:1/device:CPU:0"


def test_towers_that_do_not_wait_apply_their_own_gradients() -> None:
    programs = replicate(momentum(), load_cluster("2gpu"), how="in", regime=read_regime("async"), batch=8)
    assert [program.name for program in programs] == ["localhost:0 tower:0", "localhost:0 tower:1"]
    first, second = programs
    assert first.graph is second.graph
    assert (second.fetches, second.counts, second.feeds) == (("tower_1/train",), ("tower_1/count",), ("x:0",))
    assert (first.examples, second.examples) == (8, 8)
    assert inputs(first.graph, "tower_1/update_w") == (
        "w",
        "w/Momentum",
        "tower_1/rate",
        "tower_1/grad_w",
        "tower_1/rate",
    )
    assert device(first.graph, "tower_1/update_w") == CPU


def test_towers_within_workers_are_averaged_before_anything_is_sent() -> None:
    first, second = replicate(momentum(), load_cluster("ps=2,worker=2x2gpu"), how="both", batch=8)
    assert second.like == 0
    assert device(second.graph, "average/b/sum") == "/job:worker/task:1/device:CPU:0"
    assert device(second.graph, "update_b") == "/job:ps/task:1"
    assert device(second.graph, "tower_1/loss") == "/job:worker/task:1/device:GPU:1"
    assert (first.name, second.name, first.examples) == ("worker:0", "worker:1", 16)


def sparse() -> Graph:
    """A table whose rows are gathered in a loop, and updated after rows that come twice are added up."""
    made = Rows()
    made.add("words", "Placeholder", dtype=type_attr(3), shape=AttrValue(shape={"dim": [{"size": -1}]}))
    variable(made, "table", 20, 4)
    made.add("zero", "Const", **typed("Const"))
    made.add("h", "GatherV2", ["table/read", "words", "zero"], Tparams=type_attr(), _class=colocation("table"))
    made.add("rows", "Mul", ["h", loop(made, start="zero")], T=type_attr())
    made.add("unique", "Unique", ["words"], T=type_attr(3), _class=colocation("table"))
    made.add("sum", "UnsortedSegmentSum", ["rows", "unique:1", "zero"], T=type_attr(), _class=colocation("table"))
    attrs = {"T": type_attr(), "Tindices": type_attr(3), "_class": colocation("table")}
    made.add("update", "ScatterSub", ["table", "unique", "sum"], **attrs)
    return made.built()


def test_sparse_gradients_are_joined_before_their_rows_are_added_up() -> None:
    graph = replicate(sparse(), load_cluster("2gpu"), how="in")[0].graph
    assert inputs(graph, "average/table/rows")[:2] == ("rows", "tower_1/rows")
    assert inputs(graph, "average/table/indices")[:2] == ("split/words", "split/words:1")
    assert inputs(graph, "unique") == ("average/table/indices",)
    assert inputs(graph, "sum") == ("average/table", "unique:1", "zero")
    assert inputs(graph, "update") == ("table", "unique", "sum")


@pytest.mark.parametrize(("how", "names"), [("in", ["unique"]), ("allreduce:ring", ["unique", "replica_1/unique"])])
def test_what_is_computed_of_joined_rows_has_those_of_all_towers(how: Replication, names: list[str]) -> None:
    """It kept the rows of one tower, and TensorFlow refused the shapes that the file says."""
    graph = replicate(with_shapes(embedding(), batch=5), load_cluster("2gpu"), how=how)[0].graph
    rows = [int(graph.tensor_ptr[graph.row(name)]) + 1 for name in names]
    assert [(graph.tensor_shape[row], int(graph.tensor_bytes[row])) for row in rows] == [((10,), 40)] * len(names)


def test_rows_that_are_only_set_or_counted_are_no_gradients() -> None:
    made = momentum()
    rows = rows_of(made)
    for name, dtype in (("memory", 1), ("seen", 3)):
        variable(rows, name, 20, 4, dtype=dtype)
    rows.add("at", "Placeholder", dtype=type_attr(3), shape=AttrValue(shape={"dim": [{"size": -1}]}))
    kinds = {"Tindices": type_attr(3)}
    rows.add("set", "ScatterUpdate", ["memory", "at", "loss"], T=type_attr(), **kinds)
    rows.add("times", "ScatterAdd", ["seen", "at", "at"], T=type_attr(3), **kinds)
    found = anatomy(rows.built(), fetches=["train", "set", "times"])
    assert [made.names[one.variable] for one in found.gradients] == ["w", "b"]


def test_loops_of_towers_have_frames_of_their_own() -> None:
    graph = replicate(sparse(), load_cluster("2gpu"), how="in")[0].graph
    frames = {graph.names[row]: graph.attrs[row]["frame_name"].s for row, op in enumerate(graph.ops) if op == "Enter"}
    assert frames == {"while/Enter": b"while", "tower_1/while/Enter": b"tower_1/while"}
    assert graph.edge_back.sum() == 2


def rows_of(graph: Graph) -> Rows:
    """The rows of a graph, to which more can be added."""
    return Rows(
        list(graph.names),
        list(graph.ops),
        list(graph.requested),
        [list(graph.inputs_of(row)) for row in range(len(graph))],
        [dict(attrs) for attrs in graph.attrs],
    )


def watched() -> Graph:
    """The model with a second loss that no gradient needs, and a moving average for which the gradient waits."""
    made = momentum()
    rows = rows_of(made)
    rows.add("shown", "Neg", ["loss"], T=type_attr())
    variable(rows, "mean", 2)
    rows.add("gap", "Sub", ["mean/read", "loss"], T=type_attr())
    rows.add("average_mean", "AssignSub", ["mean", "gap"], T=type_attr(), _class=colocation("mean"))
    rows.inputs[made.index["grad_w"]].append("^average_mean")
    return rows.built()


def test_what_is_fetched_of_a_tower_is_computed_there_and_each_that_runs_alone_has_its_own() -> None:
    fetch = ["train", "shown:0"]
    graph = replicate(watched(), load_cluster("2gpu"), how="in", fetch=fetch)[0].graph
    assert device(graph, "shown") == GPU.format(0)
    assert "tower_1/shown" not in graph.index
    _, second = replicate(watched(), load_cluster("2gpu"), how="in", fetch=fetch, regime=read_regime("async"))
    assert second.fetches == ("tower_1/shown:0", "tower_1/train")
    assert inputs(second.graph, "tower_1/shown") == ("tower_1/loss",)
    assert device(second.graph, "tower_1/shown") == GPU.format(1)
    step = choose_step(second.graph, feeds=second.feeds, fetches=second.fetches)
    runs = {name for name, runs in zip(second.graph.names, step.runs, strict=True) if runs}
    shared = {"x", "w", "w/read", "b", "b/read", "mean", "mean/read", "w/Momentum", "b/Momentum", "step"}
    assert {name for name in runs if not name.startswith("tower_1/")} <= shared


def test_moving_averages_are_kept_by_the_first_tower_unless_each_runs_alone() -> None:
    graph = replicate(watched(), load_cluster("2gpu"), how="in")[0].graph
    assert "^average_mean" in inputs(graph, "grad_w")
    assert inputs(graph, "tower_1/grad_w") == ("split/x:1", "tower_1/loss")
    alone = replicate(watched(), load_cluster("2gpu"), how="in", regime=read_regime("async"))[1].graph
    assert inputs(alone, "tower_1/grad_w") == ("x", "tower_1/loss", "^tower_1/average_mean")
    assert inputs(alone, "tower_1/average_mean") == ("mean", "tower_1/gap")


def test_a_tower_that_reads_what_the_step_has_just_written_waits_for_the_first_towers_write() -> None:
    made = watched()
    rows = rows_of(made)
    rows.add("mean/anew", "Identity", ["mean", "^average_mean"], T=type_attr())
    rows.inputs[made.index["grad_w"]].append("^mean/anew")
    graph = replicate(rows.built(), load_cluster("2gpu"), how="in")[0].graph
    assert inputs(graph, "tower_1/mean/anew") == inputs(graph, "mean/anew") == ("mean", "^average_mean")
    assert "tower_1/average_mean" not in graph.index


@pytest.mark.parametrize("options", [{"batch": -3}, {"batch": "3"}, {"batch": True}, {"variables": "moon"}])
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SimvizError, match=r"not possible|ps, cpu, gpu"):
        replicate(momentum(), load_cluster("2gpu"), how="in", **options)
