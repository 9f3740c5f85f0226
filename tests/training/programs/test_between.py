"""Workers with graphs of their own, and what the anatomy of a training graph is."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from simulator import choose_step, load_cluster
from simulator.errors import ClusterError, GraphError, SimvizError
from simulator.graph.graph import Graph, Signature
from simulator.graph.messages import AttrValue
from simulator.graph.step import INIT_SIGNATURE
from simulator.training.programs.edits import with_placeholders
from simulator.training.programs.replicated import Replication, replicate
from simulator.training.programs.setter import PsStrategy
from simulator.training.recognition.anatomy import anatomy
from simulator.training.regimes import read_regime
from tests.strategies import Rows, colocation, shapes_attr, type_attr, typed
from tests.training.queues import synchronised

INT64 = 9


def variable(made: Rows, name: str, *shape: int, dtype: int = 1, beside: str | None = None) -> None:
    declared = AttrValue()
    declared.shape.SetInParent()
    for size in shape:
        declared.shape.dim.add(size=size)
    attrs = {"dtype": type_attr(dtype), "shape": declared, "_output_shapes": shapes_attr(shape)}
    home = colocation(beside or name)
    made.add(name, "VariableV2", **attrs, **({"_class": home} if beside else {}))
    made.add(f"{name}/read", "Identity", [name], T=type_attr(dtype), _class=home)


def momentum(*, batch: int = -1) -> Graph:
    """A weight of 32 bytes and one of 8, each with a slot, a step counter, and a train op that groups all."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr((batch, 4)))
    made.add("rate", "Const", **typed("Const"))
    for name, shape in (("w", (4, 2)), ("b", (2,))):
        variable(made, name, *shape)
    made.add("y", "MatMul", ["x", "w/read"], T=type_attr())
    made.add("loss", "AddV2", ["y", "b/read"], T=type_attr())
    made.add("grad_w", "MatMul", ["x", "loss"], T=type_attr(), transpose_a=AttrValue(b=True))
    made.add("grad_b", "Sum", ["loss", "axis"], T=type_attr())
    made.add("axis", "Const", dtype=type_attr(3), value=typed("Const")["value"])
    updates = []
    for name, shape in (("w", (4, 2)), ("b", (2,))):
        variable(made, f"{name}/Momentum", *shape, beside=name)
        inputs = [name, f"{name}/Momentum", "rate", f"grad_{name}", "rate"]
        updates.append(made.add(f"update_{name}", "ApplyMomentum", inputs, T=type_attr(), _class=colocation(name)))
    variable(made, "step", dtype=INT64)
    made.add("one", "Const", dtype=type_attr(INT64), value=typed("Const")["value"])
    controls = ["^" + name for name in updates]
    made.add("count", "AssignAdd", ["step", "one", *controls], T=type_attr(INT64), _class=colocation("step"))
    made.add("train", "NoOp", ["^count"])
    return made.built()


def test_the_parts_of_a_training_graph() -> None:
    graph = momentum(batch=32)
    found = anatomy(graph)
    assert [graph.names[row] for row in found.variables] == ["w", "b", "w/Momentum", "b/Momentum", "step"]
    assert {graph.names[one]: graph.names[of] for one, of in found.slot_of.items()} == {
        "w/Momentum": "w",
        "b/Momentum": "b",
    }
    assert [graph.names[one.variable] for one in found.gradients] == ["w", "b"]
    assert [graph.names[graph.edge_src[one.values[0]]] for one in found.gradients] == ["grad_w", "grad_b"]
    assert all(not one.indices for one in found.gradients)
    assert found.global_step is not None
    assert (graph.names[found.global_step], [graph.names[row] for row in found.counts]) == ("step", ["count"])
    assert found.step.fetches == ("train",)
    assert [graph.tensor_name(row) for row in found.batched] == ["x:0"]
    assert found.batch == 32
    assert anatomy(momentum()).batch == 0


def test_what_is_fed_in_place_of_a_computed_tensor_is_fed_by_each_worker() -> None:
    graph = with_placeholders(momentum(batch=32), ["grad_w", "x:0"])
    assert graph.tensor_shape[graph.tensor_row("grad_w/fed:0")] == graph.tensor_shape[graph.tensor_row("grad_w:0")]
    programs = replicate(graph, load_cluster("ps=2,worker=2"))
    for program in programs:
        assert "grad_w/fed:0" in program.feeds
        runs = choose_step(program.graph, feeds=program.feeds, fetches=program.fetches).runs
        assert not runs[program.graph.row("grad_w")]
    assert with_placeholders(graph, ["x:0"]) is graph
    assert with_placeholders(graph, []) is graph


def test_workers_are_the_same_but_for_the_task() -> None:
    programs = replicate(momentum(), load_cluster("ps=2,worker=3x1gpu"), batch=16)
    assert [program.name for program in programs] == ["worker:0", "worker:1", "worker:2"]
    assert [program.task for program in programs] == [f"/job:worker/replica:0/task:{k}" for k in range(3)]
    assert [program.like for program in programs] == [None, 0, 0]
    first, _, last = programs
    assert (first.fetches, first.feeds, first.counts, first.examples) == (("train",), ("x:0",), ("count",), 16)
    assert last.graph.attrs is first.graph.attrs
    assert [text.replace("worker/task:0", "worker/task:2") for text in first.graph.requested] == list(
        last.graph.requested
    )
    assert first.graph.requested[first.graph.row("y")] == "/job:worker/task:0"


def several() -> Graph:
    """Four weights of 8, 40, 4 and 12 bytes, and a slot of the first, with one update."""
    made = Rows()
    made.add("x", "Const", **typed("Const", (2,)))
    for name, size in (("a", 2), ("b", 10), ("c", 1), ("d", 3)):
        variable(made, name, size)
    variable(made, "a/slot", 2, beside="a")
    made.add("update", "ApplyMomentum", ["a", "a/slot", "x", "x", "x"], T=type_attr(), _class=colocation("a"))
    return made.built()


@pytest.mark.parametrize(
    ("strategy", "homes"),
    [
        ("round_robin", [0, 1, 2, 0, 0]),
        ("bytes", [0, 1, 2, 2, 0]),  # loads before each: 0 0 0; 8 0 0; 8 40 0; 8 40 4
        ("random", [1, 1, 0, 1, 1]),  # as Python's random.Random(0) draws from three; 2 would be the slot's
    ],
)
def test_variables_go_where_the_strategy_says_and_slots_follow(strategy: PsStrategy, homes: list[int]) -> None:
    graph = replicate(several(), load_cluster("ps=3,worker=1"), ps_strategy=strategy)[0].graph
    assert [graph.requested[graph.row(name)] for name in ("a", "b", "c", "d", "a/slot")] == [
        f"/job:ps/task:{task}" for task in homes
    ]
    for follower, name in (("b/read", "b"), ("update", "a")):
        assert graph.requested[graph.row(follower)] == graph.requested[graph.row(name)]


def test_slots_follow_variables_that_a_file_lists_after_them() -> None:
    """Sorted by name, or reversed: such slots had no device, and fell to the worker."""
    made = Rows()
    made.add("x", "Const", **typed("Const", (2,)))
    variable(made, "slot", 2, beside="v")
    variable(made, "v", 2)
    made.add("update", "ApplyMomentum", ["v", "slot", "x", "x", "x"], T=type_attr(), _class=colocation("v"))
    graph = replicate(made.built(), load_cluster("ps=3,worker=1"))[0].graph
    assert [graph.requested[graph.row(name)] for name in ("slot", "v", "update")] == ["/job:ps/task:1"] * 3


def test_every_ps_op_moves_the_strategy_on_wherever_it_ends_up() -> None:
    """The slots of w and b take turns 2 and 3 though they follow, so the step has turn 4."""
    graph = replicate(momentum(), load_cluster("ps=5,worker=1"))[0].graph
    names = ("w", "b", "w/Momentum", "b/Momentum", "step")
    assert [graph.requested[graph.row(name)][-1] for name in names] == ["0", "1", "0", "1", "4"]


def test_an_update_written_by_hand_is_one_if_it_takes_more_than_a_constant() -> None:
    def updating(source: str) -> Graph:
        made = Rows()
        made.add("x", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr((-1, 2)))
        variable(made, "w", 2)
        made.add("c", "Const", **typed("Const", (2,)))
        made.add("y", "Mul", [source, "c"], T=type_attr())
        made.add("update", "AssignSub", ["w", "y"], T=type_attr(), _class=colocation("w"))
        return made.built()

    graph = updating("x")
    (gradient,) = anatomy(graph, fetches=["update"]).gradients
    assert (graph.names[gradient.variable], graph.names[graph.edge_src[gradient.values[0]]]) == ("w", "y")
    with pytest.raises(GraphError, match="without gradients"):
        anatomy(updating("c"), fetches=["update"])


def test_a_group_waits_for_one_signal_of_each_task() -> None:
    made = Rows()
    variable(made, "w", 2)
    variable(made, "b", 2)
    variable(made, "v", 2)
    made.add("x", "Const", **typed("Const", (2,)))
    names = [made.add(f"up_{name}", "ApplyGradientDescent", [name, "x", "x"], T=type_attr()) for name in "wbv"]
    made.attrs[-3:] = [
        {**attrs, "_class": colocation(name)} for attrs, name in zip(made.attrs[-3:], "wbv", strict=True)
    ]
    made.add("train", "NoOp", [f"^{name}" for name in names])
    graph = replicate(made.built(), load_cluster("ps=2,worker=2"))[1].graph
    found = {name: (graph.requested[graph.row(name)], graph.inputs_of(graph.row(name))) for name in graph.names[-3:]}
    assert found == {
        "train": ("/job:worker/task:1", ("^train/NoOp", "^train/NoOp_1")),
        "train/NoOp": ("/job:ps/task:0", ("^up_w", "^up_v")),
        "train/NoOp_1": ("/job:ps/task:1", ("^up_b",)),
    }


def test_a_chief_trains_and_an_evaluator_does_not() -> None:
    programs = replicate(momentum(), load_cluster("ps=1,chief=1,worker=2,evaluator=1"))
    assert [program.name for program in programs] == ["chief:0", "worker:0", "worker:1"]
    assert [program.like for program in programs] == [None, None, 1]
    assert programs[1].graph.requested[programs[1].graph.row("y")] == "/job:worker/task:0"


@pytest.mark.parametrize("how", ["in", "allreduce:ring", "allreduce:tree"])
@pytest.mark.parametrize("text", ["sync:aggregate=3", "sync:total=4", "sync:tokens=1"])
def test_one_client_that_averages_all_counts_no_gradients(how: Replication, text: str) -> None:
    """The numbers were dropped without a word."""
    with pytest.raises(SimvizError, match=f"{text} counts the gradients of several clients, but in.* Write sync with"):
        replicate(momentum(batch=8), load_cluster("worker=2x2gpu"), how=how, regime=read_regime(text))
    assert replicate(momentum(batch=8), load_cluster("worker=2x2gpu"), how=how, regime=read_regime("sync:total=1"))


def test_what_cannot_be_replicated_is_refused() -> None:
    made = Rows()
    made.add("c", "Const", **typed("Const"))
    made.add("y", "Neg", ["c"], **typed("Neg"))
    with pytest.raises(GraphError, match="without gradients"):
        replicate(made.built(), load_cluster("ps=1,worker=2"))
    with pytest.raises(ClusterError, match="no ps task"):
        replicate(momentum(), load_cluster("worker=2"))
    with pytest.raises(ClusterError, match="no worker"):
        replicate(momentum(), load_cluster("ps=2"))
    with pytest.raises(SimvizError, match="round_robin"):
        replicate(momentum(), load_cluster("ps=1,worker=1"), ps_strategy="round")  # type: ignore[arg-type]
    with pytest.raises(SimvizError, match="between"):
        replicate(momentum(), load_cluster("ps=1,worker=1"), how="betwixt")  # type: ignore[arg-type]
    placed = Rows()
    placed.add("c", "Const", **typed("Const"), device="/job:ps/task:0")
    with pytest.raises(GraphError, match="distributed already"):
        replicate(placed.built(), load_cluster("ps=1,worker=2"))


def test_a_graph_whose_constants_hold_its_examples_is_told_so() -> None:
    """As of a Gaussian process over a few points: its gradients are there, and it was said to lack them."""
    made = Rows()
    variable(made, "w", 2)
    made.add("read", "ReadVariableOp", ["w"], **typed("ReadVariableOp", (2,)))
    made.add("gradient", "Neg", ["read"], **typed("Neg", (2,)))
    made.add("update", "AssignSubVariableOp", ["w", "gradient"], dtype=type_attr())
    with pytest.raises(GraphError, match=r"trains on what it holds itself, .* is fed its examples"):
        anatomy(made.built())


@pytest.mark.parametrize(("dtype", "fed"), [(INT64, False), (1, True)])
def test_a_graph_that_draws_or_counts_is_not_said_to_train(dtype: int, fed: bool) -> None:
    """As where words are generated: the state of a generator moves on, and prompts are fed."""
    made = Rows()
    variable(made, "state", 2, dtype=dtype)
    made.add("read", "Identity", ["state"], T=type_attr(dtype))
    made.add("next", "Neg", ["read"], T=type_attr(dtype))
    made.add("update", "AssignAddVariableOp", ["state", "next"], dtype=type_attr(dtype))
    brought = "Placeholder" if fed else "Const"
    made.add("prompt", brought, **typed(brought, (2,)))
    made.add("end", "Neg", ["prompt"], **typed("Neg", (2,)))
    with pytest.raises(GraphError, match="is a graph without gradients: no op of an optimizer"):
        anatomy(made.built(), fetches=["end", "update"])


def test_a_graph_without_gradients_is_told_what_it_lacks() -> None:
    with pytest.raises(GraphError, match=r"which fetches loss\. It has some, such as 'update_w'.*\(train\)"):
        anatomy(momentum(), fetches=["loss"])
    serving = Rows()
    serving.add("x", "Placeholder", dtype=type_attr())
    serving.add("y", "Neg", ["x"], T=type_attr())
    with pytest.raises(GraphError, match="without gradients: it has no variables"):
        anatomy(serving.built())
    variable(serving, "w", 2)
    with pytest.raises(GraphError, match=r"trains, or fetch its train op\."):
        anatomy(serving.built())
    signatures = {name: Signature({}, {"": "y:0"}) for name in (INIT_SIGNATURE, "serve", "tune")}
    with pytest.raises(
        GraphError, match=r"trains, fetch its train op, or name the signature that trains \(serve, tune\)"
    ):
        anatomy(serving.built(signatures=signatures))


def test_a_graph_that_synchronises_workers_is_not_replicated_again() -> None:
    here = synchronised(aggregate=2, handed=3, tokens=2)
    graph = replace(here, requested=("",) * len(here))
    for how in get_args(Replication):
        with pytest.raises(GraphError, match=r"synchronises its workers itself.*sync:aggregate=2,total=3"):
            replicate(graph, load_cluster("ps=1,worker=3"), how=how)
