"""What is said of tensors of unknown size."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from simulator.graph.captured import own_variables
from simulator.graph.graph import Graph, Shape
from simulator.graph.messages import AttrValue, TensorProto
from simulator.graph.step import choose_step
from simulator.shapes.filling import with_shapes
from simulator.shapes.unknown import SIZED, unsized_of
from tests.shapes.test_rules import scalar
from tests.strategies import Rows, loop, shape_attr, shapes_attr, type_attr
from viz import run
from viz.command.request import Request
from viz.command.running import candidates
from viz.difference.scores import as_json as table_json
from viz.difference.scores import as_text
from viz.formats.json_object import record
from viz.what_if import as_json


def images(*, sides: tuple[int, ...] = (-1, -1, -1, 3)) -> Graph:
    """An image of open size, twice as bright, beside a vector of known size and an op without a rule."""
    made = Rows()
    made.add("image", "Placeholder", dtype=type_attr(), shape=shape_attr(*sides))
    made.add("bright", "Add", ["image", "image"], T=type_attr())
    made.add("dark", "Neg", ["bright"], T=type_attr())
    made.add("vector", "Placeholder", dtype=type_attr(), shape=shape_attr(7))
    made.add("own", "OpOfMyOwn", ["vector"])
    made.add("end", "Neg", ["dark"], T=type_attr())
    made.add("other", "Neg", ["own"], T=type_attr())
    return made.built(producer=1882)


def a_training(gradient: str = "OpOfMyOwn") -> Graph:
    """A variable on a parameter server, with a gradient by this op, whose rule says its size if it has one."""
    made = Rows()
    made.add("v", "VarHandleOp", device="/job:ps/task:0", dtype=type_attr(), shape=shape_attr(64))
    made.add("read", "ReadVariableOp", ["v"], dtype=type_attr())
    made.add("image", "Placeholder", dtype=type_attr(), shape=shape_attr(-1))
    made.add("gradient", gradient, ["read", "image"], T=type_attr())
    made.add("rate", "Placeholder", dtype=type_attr(), shape=shape_attr())
    made.add("train", "ResourceApplyGradientDescent", ["v", "rate", "gradient"], T=type_attr())
    return made.built(producer=1882)


def test_a_placeholder_that_stays_open_is_named_where_the_step_reads_it() -> None:
    made = Rows()
    for name, reader in (("x", "y"), ("aside", "end")):
        made.add(name, "Placeholder", dtype=type_attr(), shape=shape_attr(-1, -1))
        made.add(reader, "Neg", [name], T=type_attr())
    graph = made.built(producer=1882)
    said = "the size of x:0 (3,?) is unknown, and so is what depends on it: give the shape as a feed"
    scene = run(graph, cluster="1cpu", batch=3, fetches=["y"])
    assert [note for note in (*scene.graph.notes, *scene.notes) if "give the shape" in note] == [said]
    fed = run(graph, cluster="1cpu", batch=3, fetches=["y"], feeds={"x": (3, 4)})
    assert not any("give the shape" in note for note in (*fed.graph.notes, *fed.notes))


def test_what_an_optimizer_takes_has_the_size_that_it_asks_for() -> None:
    """A learning rate that is read from a captured variable had no shape, though TensorFlow knows it."""
    made = Rows()
    made.add("v", "VarHandleOp", dtype=type_attr(), shape=shape_attr(4, 8))
    for name in ("m", "rate"):
        made.add(name, "Placeholder", dtype=type_attr(20), shape=shape_attr())
    made.add("read", "ReadVariableOp", ["rate"], dtype=type_attr())
    made.add("gradient", "OpOfMyOwn", T=type_attr())
    made.add("train", "ResourceApplyMomentum", ["v", "m", "read", "gradient", "read"], T=type_attr())
    graph = with_shapes(made.built(producer=1882))
    known = {name: graph.tensor_shape[graph.tensor_ptr[graph.row(name)]] for name in ("read", "gradient")}
    assert known == {"read": (), "gradient": (4, 8)}


def test_the_feed_for_which_most_wait_is_named() -> None:
    graph = with_shapes(images())
    found = unsized_of(graph, choose_step(graph, fetches=("end", "other")))
    assert dict(found.ops) == {"Add": 1, "Neg": 1, "OpOfMyOwn": 1, "Placeholder": 1}
    assert (found.tensors, found.remedy) == (4, "--feed image:0=1,?,?,3")


@pytest.mark.parametrize("port", [3, 4])
def test_workspace_of_cudnn_is_no_tensor_of_unknown_size(port: int) -> None:
    """TensorFlow keeps some of it on the device, and some on its host."""
    made = Rows()
    for name, shape in (("x", (50, 16, 32)), ("h", (2, 16, 64)), ("c", (2, 16, 64)), ("w", (58368,)), ("n", (16,))):
        made.add(name, "Placeholder", dtype=type_attr(3 if name == "n" else 1), shape=shape_attr(*shape))
    made.add("rnn", "CudnnRNNV3", ["x", "h", "c", "w", "n"], T=type_attr())
    made.add("end", "Rank", [f"rnn:{port}"], T=type_attr(1 if port == 3 else 6))
    graph = with_shapes(made.built(producer=1882))
    assert unsized_of(graph, choose_step(graph, fetches="end")).ops == {}


@pytest.mark.parametrize("op", ["FusedBatchNormV3", "_FusedBatchNormEx"])
def test_nor_is_that_of_a_normalisation(op: str) -> None:
    made = Rows()
    for name, shape in (("x", (2, 8, 8, 3)), *((name, (3,)) for name in ("scale", "offset", "mean", "variance"))):
        made.add(name, "Placeholder", dtype=type_attr(), shape=shape_attr(*shape))
    made.add("normal", op, ["x", "scale", "offset", "mean", "variance"], T=type_attr(), U=type_attr())
    made.add("end", "Rank", ["normal:5"], T=type_attr())
    graph = with_shapes(made.built(producer=1882))
    assert unsized_of(graph, choose_step(graph, fetches="end")).ops == {}


def test_a_step_whose_sizes_are_known_says_nothing() -> None:
    graph = with_shapes(images(), feeds={"image": (1, 8, 8, 3)})
    found = unsized_of(graph, choose_step(graph, fetches="end"))
    assert (found.tensors, found.remedy) == (0, "")


def test_what_the_step_computes_is_to_be_observed() -> None:
    """How many boxes are left nobody knows beforehand, and nobody would feed them."""
    made = Rows()
    made.add("good", "Placeholder", dtype=type_attr(10), shape=shape_attr(9))
    made.add("left", "Where", ["good"], T=type_attr(10))
    made.add("end", "Neg", ["left"], T=type_attr(9))
    graph = with_shapes(made.built(producer=1882))
    assert unsized_of(graph, choose_step(graph, fetches="end")).remedy == "--observe"


def test_what_grows_in_a_loop_is_to_be_observed() -> None:
    """A tensor inside a loop can't be fed."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(2, 1))
    made.add("axis", "Const", dtype=type_attr(3), value=AttrValue(tensor=TensorProto(dtype=3, int_val=[1])))
    loop(made, start="x")
    for node in ("while/Enter", "while/NextIteration", "while/Exit"):
        del made.attrs[made.names.index(node)]["_output_shapes"]
    grown = made.names.index("while/Neg")
    made.ops[grown], made.inputs[grown] = "ConcatV2", ["while/Switch:1", "while/Switch:1", "axis"]
    made.attrs[grown] = {"N": AttrValue(i=2), "T": type_attr(), "Tidx": type_attr(3)}
    graph = with_shapes(made.built(producer=1882))
    assert unsized_of(graph, choose_step(graph, fetches="while/Exit")).remedy == "--observe"


def test_what_no_placeholder_explains_is_fed_itself() -> None:
    graph = with_shapes(images(), feeds={"image": (1, 8, 8, 3)})
    assert unsized_of(graph, choose_step(graph, fetches="other")).remedy == "--feed own:0=SHAPE"


def test_variables_that_a_traced_function_captures_need_a_file_with_shapes() -> None:
    """A network has hundreds, and the feed of one makes few sizes known; a single one is fed."""
    made = Rows()
    made.add("image", "Placeholder", dtype=type_attr(), shape=shape_attr(1, 8))
    value = "image"
    for name in ("v", "w"):
        made.add(name, "Placeholder", dtype=type_attr(20))
        made.add(f"{name}/read", "ReadVariableOp", [name], dtype=type_attr())
        value = made.add(f"{name}/product", "MatMul", [value, f"{name}/read"], T=type_attr())
        made.add(f"{name}/end", "Neg", [value], T=type_attr())
    graph = with_shapes(made.built(producer=1882))
    assert unsized_of(graph, choose_step(graph, fetches="w/end")).remedy.endswith("as_graph_def(add_shapes=True)")
    assert unsized_of(graph, choose_step(graph, fetches="v/end")).remedy == "--feed v:0=8,?"


def looked_up(shapes: Mapping[str, Shape] = {}) -> Graph:
    """A function that gathers rows of a table that it captures, of 100 rows if nothing else is said."""
    made = Rows()
    made.add("table", "Placeholder", dtype=type_attr(20))
    made.add("words", "Placeholder", dtype=type_attr(3), shape=shape_attr(8, 2), _output_shapes=shapes_attr((8, 2)))
    gathered = {"dtype": type_attr(), "Tindices": type_attr(3), "_output_shapes": shapes_attr((8, 2, 64))}
    made.add("rows", "ResourceGather", ["table", "words"], **gathered)
    made.add("end", "Neg", ["rows"], T=type_attr())
    made.add("other", "Neg", ["words"], T=type_attr(3))
    return with_shapes(own_variables(made.built(producer=1882), shapes))


@pytest.mark.parametrize("fed", [False, True])
def test_a_captured_table_of_which_rows_are_gathered_has_an_unknown_size(fed: bool) -> None:
    """All tensors of the step are known without it, so a decoder "held at most" all but its largest variable."""
    graph = looked_up({"table": (100, 64)} if fed else {})
    found = unsized_of(graph, choose_step(graph, fetches="end"))
    assert (found.tensors, found.tables, found.remedy) == ((0, 0, "") if fed else (0, 1, "--feed table:0=?,64"))
    assert unsized_of(graph, choose_step(graph, fetches="other")) == SIZED


def test_no_time_hangs_on_the_rows_of_a_table() -> None:
    """The step of a language model was a lower bound, and had no multiple of the optimum, for want of its memory."""
    scene, fed = (run(looked_up(shapes), fetches=("end",), cluster="1gpu") for shapes in ({}, {"table": (100, 64)}))
    assert scene.trace.makespan == fed.trace.makespan
    said = scene.summary()
    assert re.search(r"^One step takes [\d.]+ us, ", said, re.MULTILINE)
    assert "Memory lacks 1 table of unknown size; it becomes known by --feed table:0=?,64" in said.splitlines()
    assert re.search(r"^Fullest memory: .* holds ≥ [\d.]+ KiB of .* at its peak\.$", said, re.MULTILINE)
    assert "≥" not in fed.summary()
    found = record(scene)
    assert (found["makespan_is_lower_bound"], found["memory_is_lower_bound"], found["unsized_tables"]) == (
        False,
        True,
        1,
    )
    facts = scene.summary(verbose=True)
    assert re.search(
        r"^memory .*\. Memory lacks 1 table of unknown size; it becomes known by --feed", facts, re.MULTILINE
    )


def test_what_grows_in_a_loop_is_to_be_observed_once_its_captured_variable_is_known() -> None:
    """A decoder whose words become more: nobody can feed the Merge in its loop, and no table without a size is made."""
    made = Rows()
    made.add("table", "Placeholder", dtype=type_attr(20))
    made.add("words", "Placeholder", dtype=type_attr(3), shape=shape_attr(8, 1))
    loop = {"T": type_attr(3), "frame_name": AttrValue(s=b"loop")}
    made.add("enter", "Enter", ["words"], **loop)
    made.add("merge", "Merge", ["enter", "next"], T=type_attr(3))
    made.add("more", "Placeholder", dtype=type_attr(10), shape=shape_attr())
    made.add("cond", "LoopCond", ["more"])
    made.add("switch", "Switch", ["merge", "cond"], T=type_attr(3))
    made.add("held", "Enter", ["table"], T=type_attr(20), frame_name=AttrValue(s=b"loop"))
    made.add("rows", "ResourceGather", ["held", "switch:1"], dtype=type_attr(), Tindices=type_attr(3))
    made.add("axis", "Const", dtype=type_attr(3), value=scalar(1))
    made.add("longer", "ConcatV2", ["switch:1", "switch:1", "axis"], T=type_attr(3), N=AttrValue(i=2))
    made.add("next", "NextIteration", ["longer"], T=type_attr(3))
    made.add("norm", "Neg", ["rows"], T=type_attr())
    made.add("exit", "Exit", ["switch"], T=type_attr(3))
    made.add("end", "Neg", ["exit"], T=type_attr(3))
    for shapes, remedy in (({}, "--feed table:0=SHAPE"), ({"table": (100, 64)}, "--observe")):
        graph = with_shapes(own_variables(made.built(producer=1882), shapes))
        assert unsized_of(graph, choose_step(graph, fetches=["end", "norm"])).remedy == remedy


def test_the_headline_says_that_the_time_is_a_lower_bound() -> None:
    scene = run(images(), fetches=("end",))
    said = scene.summary().splitlines()
    assert any("takes ≥ " in line and line.endswith("3 tensors of unknown size.") for line in said)
    assert "They count nothing; most become known by --feed image:0=1,?,?,3" in said
    cure = "They count nothing; most become known by --feed image:0=1,?,?,3"
    assert f"3 tensors of unknown size. {cure}" in scene.summary(verbose=True)
    known = run(images(), fetches=("end",), feeds={"image": (1, 64, 64, 3)})
    assert "≥" not in known.summary()
    assert known.trace.makespan > scene.trace.makespan


def test_the_json_says_it_too() -> None:
    found = record(run(images(), fetches=("end",)))
    assert found["makespan_is_lower_bound"] is True
    assert found["unsized_tensors"] == 3
    assert found["unsized_ops"] == {"Add": 1, "Neg": 1, "Placeholder": 1}
    assert record(run(images(sides=(2, 8, 8, 3)), fetches=("end",)))["makespan_is_lower_bound"] is False


CLUSTER = "ps=1,worker=2"
ONE = "1 tensor of unknown size. It counts nothing; it becomes known by --feed gradient:0=64"


def test_rates_of_a_training_are_upper_bounds() -> None:
    """They were exact and called deterministic."""
    scene = run(a_training(), cluster=CLUSTER, training="async", steps=4, workers=(1, 2), against="sync")
    said = scene.summary()
    assert re.search(r"^≤ [\d,]+ steps/s, ≤ [\d,]+ examples/s: 1 tensor of unknown size;", said, re.MULTILINE)
    assert ONE.partition(". ")[2] in said.splitlines()
    assert re.search(r"^Steps/s by number of workers: ≤ [\d,.]+ with 1, ≤ [\d,.]+ with 2\.$", said, re.MULTILINE)
    assert re.search(r"^Against sync: ≤ [\d,.]+ examples/s instead of ≤ [\d,.]+ ", said, re.MULTILINE)
    assert re.search(r"^A worker begins a step every ≥ [\d.]+ us instead of ≥ ", said, re.MULTILINE)
    facts = scene.summary(verbose=True)
    assert f"  sizes    {ONE}\n" in facts
    assert re.search(r"^  step     p50 ≥ .*, p99 ≥ ", facts, re.MULTILINE)
    assert re.search(r"^     1 worker   ≤ [\d,.]+ steps/s, ≤ [\d,.]+ examples/s", facts, re.MULTILINE)
    assert re.search(r"^  memory .* at most [\d.]+ B besides tensors of unknown size", facts, re.MULTILINE)
    assert "  held by  As far as sizes are known: the bottleneck is" in facts
    assert "≤ " in repr(scene.training)


def test_the_json_of_a_training_says_so() -> None:
    scene = run(a_training(), cluster=CLUSTER, training="async", steps=4, against="sync")
    found = record(scene)["training"]
    assert found["rates_are_upper_bounds"] is True
    assert found["unsized_ops"] == {"OpOfMyOwn": 1}
    assert found["against"]["rates_are_upper_bounds"] == {"other": True, "this": True}
    known = run(a_training("Mul"), cluster=CLUSTER, training="async", steps=4, batch=64)
    assert record(known)["training"]["rates_are_upper_bounds"] is False
    assert "≤" not in known.summary(verbose=True)
    assert "≥" not in known.summary(verbose=True)


def test_what_if_and_compare_and_against_say_so() -> None:
    scene = run(images(), fetches=("end",), cluster="1gpu", what_if=True, against="single")
    assert scene.what_if is not None
    lines = scene.what_if.lines(verbose=True)
    assert all("≥ " in line for line in lines[2:4])
    assert lines[-1].startswith("3 tensors of unknown size. They count nothing; most become known by --feed image")
    assert any(line.endswith(", as far as sizes are known.") for line in scene.what_if.lines())
    assert as_json(scene.what_if)["makespan_is_lower_bound"] is True
    assert scene.difference is not None
    assert "≥ " in str(scene.difference).splitlines()[0]
    assert record(scene)["against"]["makespan_is_lower_bound"] == {"other": True, "this": True}
    table = candidates(Request(images(), fetches=("end",), cluster="1gpu"), ("single", "heft"))
    said = as_text(table).splitlines()
    assert all(line.count("≥ ") == 3 for line in said[2:4])  # step, moved, memory
    assert all(re.search(r"s( \*)? +\?  ", line) for line in said[2:4])  # bounds of both say nothing of the multiple
    assert said[-1].startswith("3 tensors of unknown size. They count nothing;")
    assert '"makespan_is_lower_bound": true' in table_json(table)


def test_an_earlier_result_says_whether_its_step_is_a_bound(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(run(images(), fetches=("end",), cluster="1gpu").to_json(), "utf-8")
    found = run(images(sides=(2, 8, 8, 3)), fetches=("end",), cluster="1gpu", against=str(earlier)).difference
    assert found is not None
    assert [one.tensors for one in found.unsized] == [3, 0]
    assert "longer than its ≥ " in str(found)
