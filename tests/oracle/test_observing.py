"""A step that really ran: shapes, trips, ways and times are those of TensorFlow, and what cannot run says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import (
    ObservedStep,
    SimulationOptions,
    choose_step,
    estimate,
    load,
    load_cluster,
    observe_step,
    read_observed,
    simulate,
)
from simulator.costs.table import MEASURED
from simulator.errors import OracleError
from simulator.execution.tables import of_step
from simulator.graph.captured import own_variables
from simulator.graph.graph import Graph, Shape
from simulator.graph.step import Step
from simulator.observed.fitting import with_observed_costs
from simulator.observed.form import dump
from simulator.partitioning.cut import partition
from tests.execution.cases import assigned
from tests.execution.loops.cases import live_counts
from tests.oracle.staying import staying
from tests.strategies import Rows, shapes_attr, type_attr

pytestmark = pytest.mark.tensorflow
SILENT = {"NoOp", "_Arg", "_Retval"}


@cache
def made(kind: str) -> bytes:
    return staying("tests.oracle.observable")(kind.encode(), 120)


def step_of(kind: str, *fetches: str, feeds: Mapping[str, Shape] | None = None) -> tuple[Graph, Step]:
    graph = load(made(kind), feeds=feeds or {})
    return graph, choose_step(graph, fetches=fetches or None)


def seen(kind: str, *fetches: str, feeds: Mapping[str, Shape] | None = None, **how: Any) -> ObservedStep:
    graph, step = step_of(kind, *fetches, feeds=feeds)
    return observe_step(graph, step=step, **how)


def shape(observed: ObservedStep, name: str, port: int = 0) -> Shape:
    (one,) = observed.nodes[name].outputs[port]
    return one.shape


def simulated(kind: str, observed: ObservedStep, *fetches: str) -> dict[str, int]:
    """How often each node runs by a simulation that knows the observed step."""
    graph = load(made(kind), observed=observed)
    step, cluster = choose_step(graph, fetches=fetches or None), load_cluster("1cpu")
    pieces = partition(graph, assigned(cluster, [0] * len(graph)), cluster, step=step)
    options = SimulationOptions(observed=observed)
    assert simulate(pieces, cluster, estimate(graph, cluster), options).makespan > 0
    tables = of_step(graph, step, cluster, estimate(graph, cluster), options)
    return {name: count for name, count in live_counts(tables).items() if name in observed.nodes}


# 3 elements of x = 1, 2, 4, ..: sums 3, 6, 12 and 24 are below 30, so the loop runs four times
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_loop_runs_as_often_as_it_did(version: str) -> None:
    given = {"x:0": np.ones(3), "bound:0": 30.0}
    observed = seen(f"loop {version}", values=given)
    assert shape(observed, "stacked") == (4, 3)
    assert shape(observed, "value") == (3,)
    bodies = [node.runs for name, node in observed.nodes.items() if node.op == "LoopCond"]
    assert bodies == [5]
    graph = load(made(f"loop {version}"), observed=observed)
    assert graph.tensor_shape[graph.tensor_ptr[graph.row("stacked")]] == (4, 3)
    counts = simulated(f"loop {version}", observed)
    for name, node in observed.nodes.items():
        if node.op not in SILENT:
            assert counts[name] == node.runs, (name, node)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_loop_that_was_not_entered_is_not_run(version: str) -> None:
    observed = seen(f"loop {version}", "value:0", values={"x:0": np.ones(3), "bound:0": -1.0})
    counts = simulated(f"loop {version}", observed, "value:0")
    assert {node.runs for node in observed.nodes.values() if node.op == "LoopCond"} == {1}
    assert all(counts[name] == node.runs for name, node in observed.nodes.items() if node.op not in SILENT)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_predicate_that_changes_holds_as_often_as_it_did(version: str) -> None:
    kind = f"alternating {version}"
    graph, step = step_of(kind)
    observed = observe_step(graph, step=step)
    counts = simulated(kind, observed)
    assert {node.runs for node in observed.nodes.values() if node.op == "Square"} == {3}
    assert {node.runs for node in observed.nodes.values() if node.op == "Neg"} == {4}
    assert all(counts[name] == node.runs for name, node in observed.nodes.items() if node.op not in SILENT)
    blind = graph.tensor_shape[graph.tensor_ptr[graph.row("stacked")]]
    assert shape(observed, "stacked") == (7, 2)
    assert blind in ((-1, 2), (7, 2))


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(("which", "out"), [(True, (7, 5)), (False, (1, 3))])
def test_a_branch_goes_the_way_that_it_went(version: str, which: bool, out: Shape) -> None:
    kind, feeds = f"branch {version}", {"x:0": (7, 3)}
    observed = seen(kind, feeds=feeds, values={"which:0": which})
    assert shape(observed, "out") == out
    ops = {node.op for node in observed.nodes.values()}
    assert ("MatMul" in ops, "Exp" in ops) == (which, not which)
    counts = simulated(kind, observed)
    assert all(counts[name] == node.runs for name, node in observed.nodes.items() if node.op not in SILENT)


def test_a_made_up_truth_holds_as_in_a_simulation() -> None:
    assert shape(seen("branch v1", feeds={"x:0": (7, 3)}), "out") == (7, 5)


def test_sizes_that_depend_on_data_are_known() -> None:
    given = {
        "x:0": np.array([1.0, -1.0, 2.0, 1.0, -3.0, 5.0]),  # four are positive, five differ
        "boxes:0": np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3], [2, 2, 3, 2.9]]),  # two pairs of like ones
    }
    graph, step = step_of("data")
    observed = observe_step(graph, step=step, values=given)
    wanted = {"picked": (4, 1), "unlike": (5,), "kept": (2, 4)}
    assert {name: shape(observed, name) for name in wanted} == wanted
    known = load(made("data"), observed=observed)
    for name, size in wanted.items():
        assert graph.tensor_shape[graph.tensor_ptr[graph.row(name)]] != size
        assert known.tensor_shape[known.tensor_ptr[known.row(name)]] == size
    assert (known.tensor_bytes[known.tensor_ptr[known.row("kept")]]) == 32


def test_a_queue_brings_made_up_examples_and_no_time() -> None:
    graph, step = step_of("queue", "hot:0", "sum:0")
    observed = observe_step(graph, step=step)
    assert observed.feeds == {"batch:0": (4, 28, 28), "batch:1": (4,)}
    assert shape(observed, "hot") == (4, 10)
    assert observed.nodes["batch"].ns == -1
    assert observed.nodes["batch"].op == "QueueDequeueManyV2"


@pytest.mark.parametrize("feeds", [{}, {"ids/values": (23,), "wide/indices": (9, 2)}])
@pytest.mark.parametrize("batch", [None, 3, 7])
def test_sparse_feeds_have_entries_in_each_row(batch: int | None, feeds: Mapping[str, Shape]) -> None:
    rows = batch or 4
    graph = load(made("sparse"), batch=batch, feeds=feeds)
    step = choose_step(graph, fetches=("product/SparseTensorDenseMatMul:0", "loss:0", "rows:0"))
    observed = observe_step(graph, step=step)
    assert shape(observed, "product/SparseTensorDenseMatMul") == (rows, 2)
    assert (shape(observed, "loss"), shape(observed, "rows")) == ((rows,), (rows, 5))
    assert observed.feeds["ids/values:0"] == feeds.get("ids/values", (rows,))
    assert observed.feeds["wide/values:0"] == (9 if feeds else rows,)


@pytest.mark.parametrize("entries", [5, 12, 40])
def test_as_many_rows_are_looked_up_as_there_can_be(entries: int) -> None:
    """Zeros would look up one. Of the parts of a table each has a third, and of two tables the smaller one decides."""
    graph = load(made("lookup"), feeds={"ids/values:0": (entries,)})
    observed = observe_step(graph, step=choose_step(graph, fetches=("rows:0", "sum:0", "kinds:0")))
    rows = min(entries, 12)
    assert shape(observed, "rows/Unique") == (rows,)
    parts = sum(shape(observed, f"rows/embedding_lookup/{name}")[0] for name in ("Gather", "Gather_1", "Gather_2"))
    assert parts == rows
    assert (shape(observed, "sum"), shape(observed, "kinds")) == ((8, 2), (1,))


def test_variables_have_their_first_values_or_made_up_ones() -> None:
    observed = seen("variables", "out:0")
    assert observed.synthetic == ("bare", "handle")
    assert shape(observed, "out") == (2, 4)


def test_a_missing_file_of_an_initialiser_is_made_up_for() -> None:
    assert seen("variables", "text:0").synthetic == ("lost",)


def test_a_table_is_filled_though_a_function_does_so() -> None:
    assert shape(seen("table", "found:0"), "found") == (3,)


def test_an_assertion_about_made_up_data_is_not_made() -> None:
    observed = seen("asserted v1")
    assert shape(observed, "out") == (2,)
    assert [node.ns for node in observed.nodes.values() if node.op == "Assert"] == [-1]


def test_a_convolution_with_channels_first_runs_apart_from_its_bias() -> None:
    observed = seen("convolution", feeds={"x:0": (2, 3, 8, 8)})
    assert {"conv", "bias", "out"} <= observed.nodes.keys()
    assert shape(observed, "conv") == (2, 4, 8, 8)


@pytest.mark.parametrize(
    ("kind", "how", "said"),
    [
        ("file", {}, "nowhere/to/be/found"),
        ("python", {}, "did not run the step: .*PyFunc|callback"),
        ("endless v1", {"time_s": 2}, "did not end within|did not answer within"),
        ("large", {"memory_bytes": 2**31}, r"more memory than it may have|OOM"),
        ("open", {}, r"the size of x:0 \(1,\?,3\) is unknown.* --feed x:0=1,\?,3"),
    ],
)
def test_a_step_that_cannot_run_says_why(kind: str, how: dict[str, Any], said: str) -> None:
    begin = time.monotonic()
    with pytest.raises(OracleError, match=said) as caught:
        seen(kind, **how)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - begin < 100


@pytest.mark.parametrize("own", [False, True])
def test_a_captured_variable_of_unknown_size_is_asked_for(own: bool) -> None:
    made = Rows()
    made.add("table", "Placeholder", dtype=type_attr(20))
    made.add("words", "Placeholder", dtype=type_attr(3), _output_shapes=shapes_attr((8,)))
    gathered = {"dtype": type_attr(), "Tindices": type_attr(3), "_output_shapes": shapes_attr((8, 64))}
    made.add("rows", "ResourceGather", ["table", "words"], **gathered)
    graph = made.built(producer=1882)
    graph = own_variables(graph) if own else graph
    with pytest.raises(OracleError, match=r"table:0 is a variable that the function captures, .* --feed table:0=SHAPE"):
        observe_step(graph, step=choose_step(graph, fetches=["rows"]))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"y:0": 1}, r"'y:0' is no fed tensor of the step; it feeds x:0"),
        ({"x:0": np.ones(4)}, r"the value of x:0 has the shape 4, and the graph was loaded with 2"),
        ({"x:0": ["a", "b"]}, "cannot be fed as float32"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(OracleError, match=said):
        seen("asserted v1", values=values)


def test_times_are_those_of_this_cpu_and_of_all_copies() -> None:
    observed = seen("convolution", feeds={"x:0": (2, 3, 8, 8)})
    graph, cluster = load(made("convolution"), observed=observed), load_cluster("1cpu")
    costs = with_observed_costs(estimate(graph, cluster), observed, graph, cluster)
    row = graph.row("conv")
    assert costs.source[row] == MEASURED
    assert 0 < costs.run_ns[row, 0] <= observed.nodes["conv"].ns


def test_the_file_gives_back_the_step(tmp_path: Path) -> None:
    observed = seen("data", values={"x:0": np.ones(6)})
    path = tmp_path / "data.observed"
    path.write_bytes(dump(observed))
    assert dump(read_observed(path)) == dump(observed)


_CALLER = """
import sys
from simulator import load, choose_step, observe_step
graph = load(sys.stdin.buffer.read())
print("begun", flush=True)
observe_step(graph, step=choose_step(graph), time_s=600)
"""


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_its_caller(blow: signal.Signals, tmp_path: Path) -> None:
    """Neither a child nor the folder in which the step runs."""
    command = [sys.executable, "-c", _CALLER]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as caller:
        assert caller.stdin is not None
        assert caller.stdout is not None
        caller.stdin.write(made("endless v1"))
        caller.stdin.close()
        assert caller.stdout.readline() == b"begun\n"
        deadline = time.monotonic() + 60
        while len(children := _children(caller.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(children) == 2  # TensorFlow's, and the one that deletes the folder
        time.sleep(3)
        (folder,) = tmp_path.iterdir()
        (folder / "written by an op").touch()
        os.kill(caller.pid, blow)
        caller.wait(10)
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{one}").exists() for one in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [one for one in children if Path(f"/proc/{one}").exists()]
    assert not list(tmp_path.iterdir())


def _children(pid: int) -> list[int]:
    """Its child processes, of any thread."""
    found = []
    for told in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(one) for one in told.read_text().split()]
    return found
