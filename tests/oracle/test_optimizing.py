"""Graphs that Grappler makes for devices which are only described, beside those that real sessions run."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

import viz
from simulator.cluster.description import load_cluster
from simulator.costs.estimates.fusion import fused
from simulator.costs.estimates.layout import channels_first
from simulator.costs.measurements.runs import without_mkl
from simulator.costs.rules import rule
from simulator.costs.table import MEASURED
from simulator.errors import GraphError, OracleError, SimvizError
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue, GraphDef
from simulator.graph.step import choose_step
from simulator.loading import flat, load
from simulator.oracle import child
from simulator.oracle.optimizing import optimized, with_shapes_of
from simulator.shapes.filling import with_shapes
from tests.oracle import forking, optimized_sessions
from tests.strategies import Rows, colocation, shape_attr, shapes_attr, type_attr, typed, types_attr

pytestmark = pytest.mark.tensorflow

ONE_GPU = "1v100-16gb"
IMAGES, TURNED = (2, 8, 8, 3), (2, 3, 8, 8)


@pytest.fixture(scope="module")
def programs() -> dict[str, tuple[bytes, dict[str, Any]]]:
    """By name: the GraphDef, and what is known of it; with the RunMetadata of a step under "trace"."""
    facts, graphs = child.unpack(child.run("tests.oracle.optimized_sessions", b"", timeout_s=120))
    told, traces = facts["programs"], graphs[len(facts["programs"]) :]
    return {
        one["name"]: (graph, {**one, "trace": trace})
        for one, graph, trace in zip_longest(told, graphs[: len(told)], traces)
    }


@pytest.mark.parametrize("name", [make.__name__ for make in optimized_sessions.RUN])
def test_a_session_runs_the_nodes_that_are_predicted(programs: Any, name: str) -> None:
    """Loops, branches, trainings: each node by its name, on a cluster of one processor."""
    content, told = programs[name]
    graph = flat(content)
    found = optimized(graph, load_cluster("worker=1"), choose_step(graph, fetches=told["fetches"]))
    ours, theirs = zip(found.names, found.ops, strict=True), told["ran"]
    ran = [
        {(name, without_mkl(op).lstrip("_")) for name, op in nodes if op not in ("Placeholder", "NoOp")}
        for nodes in (ours, theirs)
    ]  # what oneDNN computes begins with "_Mkl" in place of a "_"
    assert ran[0] == ran[1]
    assert len(found) < len(graph)
    assert optimized(graph, load_cluster("worker=1"), choose_step(graph, fetches=told["fetches"])).names == found.names


@pytest.mark.parametrize("name", [make.__name__ for make in optimized_sessions.RUN])
def test_what_grappler_makes_has_sizes_and_prices(programs: Any, name: str) -> None:
    """With oneDNN it joins ops on a processor that no user writes."""
    content, told = programs[name]
    graph = with_shapes(flat(content), batch=4)
    found = with_shapes_of(
        graph, optimized(graph, load_cluster("worker=1"), choose_step(graph, fetches=told["fetches"]))
    )
    assert not [found.names[found.tensor_node[row]] for row, size in enumerate(found.tensor_bytes.tolist()) if size < 0]
    assert not [op for op in found.ops if rule(op) is None]


def test_kernels_that_are_priced_as_one_are_those_that_grappler_joins(
    programs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without oneDNN, as in the sessions that were published; with it Grappler joins no float16."""
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setattr(child, "start", forking.unforked)
    content, told = programs["joined"]
    graph = load(content)
    ours = fused(graph)
    found = optimized(graph, load_cluster(ONE_GPU), choose_step(graph, fetches=told["fetches"]))
    becomes = dict(zip(found.names, found.ops, strict=True))
    joined = [
        node
        for node, (name, op) in enumerate(zip(graph.names, graph.ops, strict=True))
        if (op == "Relu" and becomes.get(name) != "Relu") or (op in ("BiasAdd", "AddV2") and name not in becomes)
    ]
    named = [graph.names[node] for node in sorted((*ours.without_reads, *ours.additions))]
    assert named == [graph.names[node] for node in joined]
    assert len(named) == 2 * 5 + 2 + 2 * 2


@pytest.mark.parametrize(
    ("cluster", "fetches", "form"),
    [
        (ONE_GPU, 2, b"NCHW"),
        ("worker=1", 2, b"NHWC"),
        ("1h100", 2, b"NCHW"),  # a training; its loss alone is none
        ("1h100", 1, b"NHWC"),
    ],
)
def test_images_get_the_layout_of_the_described_gpu(programs: Any, cluster: str, fetches: int, form: bytes) -> None:
    """Before tensor cores a GPU wants the channels first, in float32; sizes stay known, and axes follow."""
    content, told = programs["convolutions"]
    graph = flat(content)
    made = optimized(graph, load_cluster(cluster), choose_step(graph, fetches=told["fetches"][:fetches]))
    made = with_shapes(made, batch=4)
    forms = {attrs["data_format"].s for op, attrs in zip(made.ops, made.attrs, strict=True) if "Conv2D" in op}
    assert forms == {form}
    unknown = [made.tensor_name(row) for row, size in enumerate(made.tensor_bytes.tolist()) if size < 0]
    assert not unknown
    if cluster == "1h100":
        assert channels_first(made) == (form == b"NCHW")


def test_requested_devices_stay(programs: Any) -> None:
    content, told = programs["convolutions"]
    graph = flat(content)
    requested = tuple("/device:GPU:1" if "second" in name else "" for name in graph.names)
    found = optimized(
        replace(graph, requested=requested), load_cluster("4gpu"), choose_step(graph, fetches=told["fetches"])
    )
    asked = {name: device for name, device in zip(found.names, found.requested, strict=True) if device}
    assert set(asked.values()) == {"/device:GPU:1"}
    assert {name for name in found.index if "second" in name and name in graph.index} < asked.keys()
    assert any(name not in graph.index for name in asked), "a transpose before the second convolution"


def test_a_kernel_is_where_a_real_session_has_it(programs: Any) -> None:
    """A kernel that joins ops of two devices has the last one's name, and the first one's device."""
    content, told = programs["apart"]
    found = viz.run(content, cluster="2cpu", algorithm="tensorflow", fetches=told["fetches"], grappler=True)
    ours = {name: found.assignment.name_of(row) for row, name in enumerate(found.graph.names)}
    assert ours["Relu"].endswith("CPU:0")
    assert ours["mul"].endswith("CPU:1")
    assert told["devices"].items() >= {name: ours[name] for name in ("Relu", "mul", "taps", "bias")}.items()


def test_the_command_runs_the_optimized_step(programs: Any) -> None:
    content, told = programs["convolutions"]
    plain = viz.run(content, cluster=ONE_GPU, algorithm="tensorflow", fetches=told["fetches"], batch=4)
    found = viz.run(content, cluster=ONE_GPU, algorithm="tensorflow", fetches=told["fetches"], batch=4, grappler=True)
    assert found.step.fetches == plain.step.fetches
    assert found.step.feeds == plain.step.feeds
    assert "_FusedConv2D" in found.graph.ops
    assert found.step.runs.sum() < plain.step.runs.sum()
    assert any("Grappler kept" in note for note in found.graph.notes)
    again = viz.run(
        content, cluster=ONE_GPU, algorithm="single", fetches=told["fetches"], batch=4, grappler=True, what_if=True
    )
    assert again.what_if is not None


def test_grappler_is_asked_again_for_other_devices(programs: Any) -> None:
    """With the second GPU come the device strings that name it, and transposes there."""
    content, told = programs["convolutions"]
    message = GraphDef.FromString(content)
    for node in message.node:
        node.device = "/device:GPU:1" if "second" in node.name else node.device
    asked: dict[str, Any] = {"algorithm": "tensorflow", "fetches": told["fetches"], "batch": 6, "grappler": True}
    found = viz.run(message.SerializeToString(), cluster=ONE_GPU, what_if=True, **asked).what_if
    assert found is not None
    (row,) = (row for row in found.rows if row.what == "devices")
    alone = viz.run(message.SerializeToString(), cluster=row.after, **asked)
    assert (row.after, row.makespan_ns) == ("2v100-16gb", alone.trace.makespan)


def test_a_colocation_may_name_no_node_as_in_calls_that_are_expanded() -> None:
    made = Rows()
    made.add("a", "Placeholder", **typed("Placeholder", (2,)))
    made.add("b", "Neg", ["a"], _class=colocation("an argument of a call"), **typed("Neg", (2,)))
    graph = made.built()
    found = optimized(graph, load_cluster("worker=1"), choose_step(graph, fetches=["b"]))
    assert found.ops[found.index["b"]] == "Neg"


def test_what_tensorflow_does_not_take_is_said() -> None:
    for op, dtype, said in (("OpOfNobody", type_attr(), "OpOfNobody"), ("Neg", shape_attr(2), "AttrValue")):
        made = Rows()
        made.add("a", "Placeholder", **typed("Placeholder", (2,)))
        made.add("b", op, ["a"], T=dtype)
        graph = made.built()
        with pytest.raises(OracleError, match=f"TensorFlow does not optimize the graph: .*{said}"):
            optimized(graph, load_cluster("4gpu"), choose_step(graph))


@pytest.mark.parametrize(("channels", "refused"), [(8, False), (6, True)])
def test_a_joined_kernel_that_no_file_may_hold_is_said(channels: int, refused: bool) -> None:
    """The importer asks a joined normalisation for channels in fours; a session has it all the same."""
    made, sides = Rows(), {"x": (2, 4, 4, channels), "scale": (channels,), "offset": (channels,), "none": (0,)}
    for name, shape in sides.items():
        made.add(name, "Placeholder", dtype=type_attr(), shape=shape_attr(*shape))
    asked = {"T": type_attr(), "U": type_attr(), "is_training": AttrValue(b=True)}
    made.add("normal", "FusedBatchNormV3", ["x", "scale", "offset", "none", "none"], **asked)
    made.add("relu", "Relu", ["normal"], T=type_attr())
    made.add("sum", "Neg", ["relu"], T=type_attr())
    found = optimized(made.built(producer=1882), load_cluster("worker=1"), choose_step(made.built(), fetches=["sum"]))
    assert found.ops[found.index["normal"]] == "_FusedBatchNormEx"
    said = [note for note in found.notes if "can't be imported" in note]
    assert [("divisible by 4" in note) for note in said] == [True] * refused


@pytest.mark.parametrize("name", [make.__name__ for make in optimized_sessions.RUN])
def test_times_of_a_session_match_the_nodes_that_it_runs(programs: Any, name: str, tmp_path: Path) -> None:
    """Of the graph as it is they match fewer: the session runs other nodes."""
    content, told = programs[name]
    (tmp_path / "trace.pb").write_bytes(told["trace"])
    found = {
        grappler: viz.run(
            content,
            cluster="worker=1",
            algorithm="tensorflow",
            fetches=told["fetches"],
            batch=2,
            costs=tmp_path / "trace.pb",
            grappler=grappler,
        )
        for grappler in (False, True)
    }
    measured = {at: (one.costs.source[one.step.runs] == MEASURED).mean() for at, one in found.items()}
    assert measured[True] >= max(0.75, min(measured[False] + 0.1, 1.0))
    assert not [note for note in found[True].costs.notes if "not in the graph" in note]


@pytest.mark.parametrize("cluster", ["2gpu", "ps=1,worker=2x1gpu"])
def test_pins_other_batches_and_a_second_run_go_together_with_it(programs: Any, cluster: str) -> None:
    content, told = programs["convolutions"]
    device = {"2gpu": "GPU:1", "ps=1,worker=2x1gpu": "worker:1/GPU:0"}[cluster]
    found = viz.run(
        content,
        cluster=cluster,
        algorithm="tensorflow",
        order="tensorflow",
        fetches=told["fetches"],
        batch=6,
        pins={"second": device},
        against="single",
        grappler=True,
    )
    names = {found.graph.names[row]: found.cluster.devices[at].short for row, at in enumerate(found.assignment.device)}
    assert names["second"].endswith(device)
    assert "_FusedConv2D" in found.graph.ops
    assert found.difference is not None
    assert not (found.graph.tensor_bytes < 0).any()
    assert (6, 16, 16, 3) in found.graph.tensor_shape


def test_pins_reach_nodes_that_grappler_makes_and_not_those_that_are_gone(programs: Any) -> None:
    """The report names the former, with a command that moves them."""
    content, told = programs["convolutions"]
    asked: dict[str, Any] = {"cluster": ONE_GPU, "fetches": told["fetches"], "algorithm": "tensorflow", "batch": 4}
    before = viz.run(content, **asked, grappler=True)
    (turn, *_) = (name for name in before.graph.names if "TransposeNHWC" in name)
    found = viz.run(content, **asked, grappler=True, pins={turn: "CPU:0", "gradients/Shape": "GPU:0"})
    assert [one.assignment.name_of(one.graph.row(turn))[-5:] for one in (before, found)] == ["GPU:0", "CPU:0"]
    assert "Grappler left no node of gradients/Shape, so nothing there is pinned" in found.graph.notes
    with pytest.raises(SimvizError, match="no node is in nowhere"):
        viz.run(content, **asked, grappler=True, pins={"nowhere": "CPU:0"})


def test_only_placeholders_are_fed(programs: Any) -> None:
    content, told = programs["convolutions"]
    with pytest.raises(GraphError, match=r"Relu is fed, but is no placeholder.*or leave out"):
        viz.run(
            content, cluster=ONE_GPU, fetches=told["fetches"], feeds={"Relu:0": (4, 16, 16, 8)}, batch=4, grappler=True
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"check": True}, "leave out --check, which asks TensorFlow about the graph as it is"),
        ({"keep_calls": True}, "leave out --keep-calls, as Grappler expands calls"),
        ({"observe": True}, "leave out --observe and --observation"),
        ({"microbatches": 2}, "leave out --microbatches"),
        ({"refine": True}, "leave out --refine, whose sessions optimize by themselves"),
    ],
)
def test_options_that_want_the_graph_as_it_is_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SimvizError, match=said):
        viz.run("no file", grappler=True, **options)


def test_shapes_that_only_the_file_says_stay() -> None:
    """Grappler drops `_output_shapes`. What Python makes has no rule, and what hangs on it had no size."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4))
    said = {"Tin": types_attr(1), "Tout": types_attr(1), "token": AttrValue(s=b"f")}
    made.add("called", "PyFunc", ["x"], **said, _output_shapes=shapes_attr((4,)))
    made.add("end", "Neg", ["called"], T=type_attr(), _output_shapes=shapes_attr((4,)))
    found = viz.run(made.built(producer=1882), cluster="1gpu", algorithm="tensorflow", grappler=True)
    assert set(found.graph.tensor_shape) == {(4,)}
    assert len(found.graph.notes) == len(set(found.graph.notes))


def test_devices_that_the_graph_names_are_there_though_no_node_of_the_step_is_on_them() -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4))
    made.add("y", "Neg", ["x"], device="/device:GPU:0", T=type_attr())
    made.add("z", "Neg", ["y"], device="/device:GPU:1", T=type_attr())
    made.add("end", "Neg", ["z"], T=type_attr())  # Grappler takes four nodes or more
    graph = made.built(producer=1882)
    found = [viz.run(graph, fetches="y", algorithm="tensorflow", grappler=grappler) for grappler in (False, True)]
    assert [one.cluster.name for one in found] == ["2gpu", "2gpu"]
    assert "z" not in found[1].graph.index


def test_a_batch_stays_where_another_side_is_open() -> None:
    """It was 1 again."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(-1, -1))
    for name, before in (("y", "x"), ("z", "y"), ("end", "z")):
        made.add(name, "Neg", [before], T=type_attr())
    found = viz.run(made.built(producer=1882), cluster="1cpu", batch=64, grappler=True, algorithm="single")
    assert found.graph.tensor_shape[found.graph.outputs(found.graph.index["x"])[0]] == (64, -1)


@pytest.mark.parametrize("how", ["kept", "again"])
def test_a_batch_of_which_grappler_makes_other_nodes_is_placed_again(how: str) -> None:
    """It folds constants of at most 100 kB: 8 rows of these are no constant any more."""
    made, row, times = Rows(), AttrValue(), AttrValue()
    row.tensor.dtype, times.tensor.dtype = 1, 3
    row.tensor.float_val.extend(range(4096))
    times.tensor.int_val.extend([4, 1])
    for value, sides in ((row, (1, 4096)), (times, (2,))):
        for size in sides:
            value.tensor.tensor_shape.dim.add(size=size)
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 4096))
    made.add("row", "Const", dtype=type_attr(), value=row)
    made.add("times", "Const", dtype=type_attr(3), value=times)
    made.add("tiled", "Tile", ["row", "times"], T=type_attr(), Tmultiples=type_attr(3))
    made.add("sum", "Add", ["x", "tiled"], T=type_attr())
    made.add("end", "Neg", ["sum"], T=type_attr())
    graph = made.built(producer=1882)
    asked: dict[str, Any] = {"cluster": "2gpu", "budget": "20", "grappler": True}
    found = viz.run(graph, **asked, batch=4, what_if=how).what_if
    assert found is not None
    (more,) = [one for one in found.rows if (one.what, one.after) == ("batch", "8")]
    assert (more.placement, more.refused) == ("again", "")
    assert more.makespan_ns == viz.run(graph, **asked, batch=8).trace.makespan


def laid_out(*, turned: bool) -> Graph:
    """Images by an op without a rule, twice, and a ReLU of them; `turned`: as an optimizer lays them out, unshaped."""
    rows = Rows()
    order = AttrValue()
    order.tensor.dtype = 3
    order.tensor.tensor_shape.dim.add(size=4)
    order.tensor.int_val.extend([0, 3, 1, 2])
    said = {} if turned else {"_output_shapes": shapes_attr(IMAGES)}
    rows.add("paths", "Placeholder", dtype=type_attr(7), shape=shape_attr(2))
    rows.add("read", "OpOfMyOwn", ["paths"], **said)
    rows.add("crop", "OpOfMyOwn", ["read"], **said)
    if turned:
        rows.add("order", "Const", dtype=type_attr(3), value=order)
        rows.add("turn", "Transpose", ["crop", "order"], T=type_attr(), Tperm=type_attr(3))
    rows.add("relu", "Relu", ["turn" if turned else "crop"], T=type_attr(), **said)
    rows.add("other", "OpOfNobody" if turned else "OpOfMyOwn", ["relu"], **said)
    rows.add("end", "Neg", ["other"], T=type_attr(), **said)
    return rows.built(producer=1882)


def test_rules_begin_anew_where_an_op_without_a_rule_keeps_its_shape() -> None:
    found = with_shapes_of(with_shapes(laid_out(turned=False)), laid_out(turned=True))
    shapes = {name: found.tensor_shape[found.tensor_ptr[row]] for name, row in found.index.items()}
    assert (shapes["read"], shapes["crop"]) == (IMAGES, IMAGES)
    assert shapes["relu"] == TURNED, "though it has its old name and op"
    assert shapes["other"] is None, "its op is another now"


def test_a_side_that_only_the_file_says_is_kept() -> None:
    """No rule knows what a reshape by fed numbers gives."""
    before, after = Rows(), Rows()
    for rows in (before, after):
        said = {"_output_shapes": shapes_attr((-1, 4))} if rows is before else {}
        rows.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(-1, 2, 2))
        rows.add("sides", "Placeholder", dtype=type_attr(3), shape=shape_attr(2))
        rows.add("flat", "Reshape", ["x", "sides"], T=type_attr(), Tshape=type_attr(3), **said)
        rows.add("relu", "Relu", ["flat"], T=type_attr(), **said)
    old = with_shapes(before.built(producer=1882), batch=5)
    found = with_shapes_of(old, after.built(producer=1882))
    assert found.tensor_shape == old.tensor_shape
    assert found.tensor_shape[-1] == (-1, 4)
    assert len(found.notes) == len(set(found.notes))


def test_captured_variables_are_the_graphs_own_in_the_optimized_step_too() -> None:
    """They were fed, so they took no memory."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4))
    made.add("v", "Placeholder", dtype=type_attr(20), shape=shape_attr())
    made.add("read", "ReadVariableOp", ["v"], dtype=type_attr(), _output_shapes=shapes_attr((4,)))
    made.add("sum", "AddV2", ["x", "read"], T=type_attr())
    made.add("end", "Neg", ["sum"], T=type_attr())
    asked: dict[str, Any] = {"cluster": "1gpu", "algorithm": "single"}
    plain, found = [viz.run(made.built(producer=1882), **asked, grappler=grappler) for grappler in (False, True)]
    assert (found.step.feeds, found.step.rule) == (plain.step.feeds, plain.step.rule)
    assert found.step.feeds == ("x:0",)
    assert found.trace.peak_bytes.tolist() == plain.trace.peak_bytes.tolist()
