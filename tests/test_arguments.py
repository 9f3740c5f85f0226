"""Wrong arguments of public functions: a sentence names the function, the argument and a way out."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placement
import simulator
import viz
from simulator.arguments import MADE_BY, checked
from simulator.errors import SimvizError

GRAPH = str(Path(__file__).parents[1] / "examples" / "ps_training.pbtxt")
WRONG: Sequence[Any] = (
    None, True, 0, -1, 2**70, 1.5, float("nan"), "", "x", "\0", b"bytes", [], [1], [None], ["a", 3], (), {}, {"a": 1},
    {1: 2}, {"images:0": object()}, object(), int, np.int64(3), np.array([1, 2]), np.array(5), Path("missing"), {1, 2},
    range(3), 1j, ..., 10**5000, [10**5000], {"a": 10**5000},
)  # fmt: skip


def good() -> Mapping[str, Any]:
    """A right value for each argument, by its name."""
    graph, cluster = simulator.load(GRAPH), simulator.load_cluster("ps=2,worker=2x1gpu")
    step, costs = simulator.choose_step(graph), simulator.estimate(graph, cluster)
    assignment = placement.place(graph, cluster, costs, step=step, algorithm="single")
    programs = simulator.distributed(graph, cluster, regime=simulator.read_regime("async"))
    prices = simulator.estimate_each(programs, cluster)
    return {
        "graph": graph, "cluster": cluster, "step": step, "costs": costs, "assignment": assignment,
        "partitions": simulator.partition(graph, assignment, cluster, step=step), "programs": programs,
        "prices": prices, "clients": placement.clients(programs, cluster, prices),
    }  # fmt: skip


CALLS: Mapping[str, Sequence[str]] = {
    "simulator.choose_step": ("graph",),
    "simulator.default_cluster": ("graph",),
    "simulator.distributed": ("graph", "cluster"),
    "simulator.estimate": ("graph", "cluster"),
    "simulator.estimate_each": ("programs", "cluster"),
    "simulator.inline": ("graph",),
    "simulator.lower_bound": ("graph", "cluster", "costs", "step"),
    "simulator.partition": ("graph", "assignment", "cluster", "step"),
    "simulator.prepare": ("graph", "step", "cluster", "costs"),
    "simulator.replicate": ("graph", "cluster"),
    "simulator.simulate": ("partitions", "cluster", "costs"),
    "simulator.train": ("clients", "cluster", "costs", "regime", "steps"),
    "simulator.with_shapes": ("graph",),
    "simulator.within_reach": ("graph", "cluster"),
    "simulator.without_devices": ("graph",),
    "placement.clients": ("programs", "cluster", "costs"),
    "placement.place": ("graph", "cluster", "costs", "step"),
}
# Functions that the user hands in are called as they are; the order of their arguments is the user's.
CALLED = ("extend", "on_progress", "price", "observed")


@pytest.mark.parametrize("public", CALLS)
def test_no_wrong_argument_fails_far_inside(public: str) -> None:
    package, name = public.split(".")
    function = getattr({"simulator": simulator, "placement": placement}[package], name)
    values = {**good(), "regime": simulator.read_regime("async"), "steps": 3}
    right = {one: values[one] for one in CALLS[public]}
    if name in ("train", "clients"):
        right["costs"] = values["prices"]
    others = [*values.values(), simulator.load_cluster("2gpu")]
    said = []
    for argument in inspect.signature(function).parameters:
        for wrong in [*WRONG, *others] if argument not in CALLED else ():
            try:
                function(**{**right, argument: wrong})
            except SimvizError as error:
                said.append(str(error))
    assert len(said) > len(WRONG)
    assert all(10 < len(sentence) <= 600 for sentence in said)


def test_the_sentence_names_the_function_the_argument_and_where_a_value_is_made() -> None:
    graph, cluster = simulator.load(GRAPH), simulator.load_cluster("2gpu")
    with pytest.raises(SimvizError) as caught:
        simulator.estimate(cluster, graph)  # type: ignore[arg-type]  # swapped
    assert str(caught.value) == "simulator.estimate: graph is a Cluster; give a Graph, as of simulator.load."
    with pytest.raises(SimvizError, match=r"simulator\.load: keep_calls is 'yes'; give True or False\."):
        simulator.load(GRAPH, keep_calls="yes")  # type: ignore[arg-type]
    with pytest.raises(SimvizError, match=r"viz\.run: profile is 3; give a text or a path or a Profile, as of simul"):
        viz.run(GRAPH, profile=3)  # type: ignore[arg-type]
    with pytest.raises(SimvizError, match="batch has a number of thousands of digits"):
        viz.run(GRAPH, batch=10**5000)
    other = simulator.choose_step(simulator.load(b'node { name: "a" op: "NoOp" }'))
    costs = simulator.estimate(graph, cluster)
    with pytest.raises(SimvizError, match="not of this one of 224; choose a step of this graph"):
        simulator.prepare(graph, other, cluster, costs)


@pytest.mark.parametrize("wrong", [-1, -0.5, float("nan"), float("inf")])
def test_a_quantity_is_a_finite_number_from_0(wrong: float) -> None:
    graph = simulator.load(GRAPH)
    step, cluster = simulator.choose_step(graph), simulator.load_cluster("ps=2,worker=1")
    with pytest.raises(SimvizError, match=r"simulator\.observe_step: time_s is .*; give a finite number from 0\."):
        simulator.observe_step(graph, step=step, time_s=wrong)
    with pytest.raises(SimvizError, match=r"simulator\.observe_step: memory_bytes is .*; give a natural number"):
        simulator.observe_step(graph, step=step, memory_bytes=wrong)  # type: ignore[arg-type]
    with pytest.raises(SimvizError, match=r"placement\.refine: seconds is .*; give a finite number from 0\."):
        placement.refine(graph, cluster, step=step, seconds=wrong)


BATCHED = b"""
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: -1 } dim { size: 100 } } } } }
node { name: "y" op: "MatMul" input: "x" input: "x" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "transpose_b" value { b: true } } }
"""


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.int16, np.uint8, np.array])
def test_whole_numbers_of_numpy_are_pythons_own_and_do_not_wrap_around(kind: Any) -> None:
    graph = simulator.load(BATCHED, batch=200)
    for given in (simulator.load(BATCHED, batch=kind(200)), simulator.load(BATCHED, feeds={"x": (kind(200), 100)})):
        assert given.tensor_shape == graph.tensor_shape == ((200, 100), (200, 200))
        assert all(type(side) is int for shape in given.tensor_shape if shape for side in shape)
        cost, usual = (simulator.estimate(one, simulator.load_cluster("2cpu")).run_ns for one in (given, graph))
        assert cost.tolist() == usual.tolist()
        assert viz.run(given, cluster="2cpu").to_json()


def test_a_seed_of_numpy_searches_as_its_number_does() -> None:
    graph, cluster = simulator.load(GRAPH, ignore_devices=True), simulator.load_cluster("2gpu")
    step, costs = simulator.choose_step(graph), simulator.estimate(graph, cluster)
    found = [
        placement.place(graph, cluster, costs, step=step, effort=effort, options=simulator.SimulationOptions(seed=seed))
        for seed, effort in ((3, placement.Effort(300)), (np.int32(3), placement.Effort(np.int8(100) + np.int16(200))))
    ]
    assert found[0].search == found[1].search
    assert found[0].device.tolist() == found[1].device.tolist()


def test_branches_and_trips_of_numpy_are_pythons_own() -> None:
    branches: Any = {"a": np.bool_(True), "b": np.float32(0.5), "c": np.int64(2)}
    options = simulator.SimulationOptions(branches=branches, trips={"*": np.int8(3)})
    assert [type(way) for way in options.branches.values()] == [bool, float, int]
    assert type(options.trips["*"]) is int
    assert options.drawn == ("b",), "as for the number 0.5"


def test_a_single_name_needs_no_list() -> None:
    graph = simulator.load(GRAPH)
    assert simulator.choose_step(graph, fetches="train").fetches == ("train",)
    assert simulator.choose_step(graph, feeds="images", fetches=["train"]).feeds == ("images:0", "labels:0")


def test_an_error_can_be_caught_by_the_packages_name() -> None:
    with pytest.raises(simulator.SimvizError, match="there is no such file"):
        simulator.read_measurement("missing")


def test_without_clients_there_is_nothing_to_train() -> None:
    cluster = simulator.load_cluster("2gpu")
    with pytest.raises(SimvizError, match="There is no client, so nothing to train"):
        simulator.train((), cluster, (), regime=None, steps=2)
    with pytest.raises(SimvizError, match="There is no client, so nothing to train"):
        placement.clients((), cluster, ())


def test_a_public_function_is_the_same_one_each_time_and_can_be_pickled() -> None:
    assert simulator.load is simulator.load
    assert pickle.loads(pickle.dumps(simulator.load)) is simulator.load
    assert inspect.signature(simulator.load) == inspect.signature(inspect.unwrap(simulator.load))
    with pytest.raises(TypeError, match="missing 1 required"):  # Python's own word for what is missing
        simulator.load()


def test_values_have_the_class_or_one_below_it() -> None:
    assert set(MADE_BY) >= {"Graph", "Cluster", "Scene"}
    checked(lambda: None, "a.b")()
    found = viz.run(GRAPH, cluster="ps=2,worker=2", algorithm="single")
    assert viz.to_tables(found)  # a Result is a Scene
