"""What is said of tensors of unknown size."""

from simulator.graph.graph import Graph
from simulator.graph.step import choose_step
from simulator.shapes.filling import with_shapes
from simulator.shapes.unknown import unsized_of
from tests.strategies import Rows, shape_attr, type_attr
from viz import run


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


def test_the_feed_for_which_most_wait_is_named() -> None:
    graph = with_shapes(images())
    found = unsized_of(graph, choose_step(graph, fetches=("end", "other")))
    assert dict(found.ops) == {"Add": 1, "Neg": 1, "OpOfMyOwn": 1, "Placeholder": 1}
    assert (found.tensors, found.remedy) == (4, "--feed image:0=1,?,?,3")


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
    assert unsized_of(graph, choose_step(graph, fetches="v/end")).remedy == "--feed v/read:0=8,?"


def test_the_headline_says_that_the_time_is_a_lower_bound() -> None:
    scene = run(images(), fetches=("end",))
    said = scene.summary().splitlines()
    assert any("takes ≥ " in line and line.endswith("3 tensors of unknown size.") for line in said)
    assert "They count nothing; most become known by --feed image:0=1,?,?,3" in said
    assert "3 tensors of unknown size; most become known by --feed image:0=1,?,?,3" in scene.summary(verbose=True)
    known = run(images(), fetches=("end",), feeds={"image": (1, 64, 64, 3)})
    assert "≥" not in known.summary()
    assert known.trace.makespan > scene.trace.makespan


def test_the_json_says_it_too() -> None:
    from viz.formats.json_object import record

    found = record(run(images(), fetches=("end",)))
    assert found["makespan_is_lower_bound"] is True
    assert found["unsized_tensors"] == 3
    assert found["unsized_ops"] == {"Add": 1, "Neg": 1, "Placeholder": 1}
    assert record(run(images(sides=(2, 8, 8, 3)), fetches=("end",)))["makespan_is_lower_bound"] is False
