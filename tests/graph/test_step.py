from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from simulator.errors import GraphError
from simulator.graph.graph import Graph, Signature
from simulator.graph.inlining.expanding import inline
from simulator.graph.messages import AttrValue, FunctionDef
from simulator.graph.purposes import apply_nodes
from simulator.graph.step import Step, choose_step
from tests.graph.inlining.functional import PLACEHOLDER, T, Written, call, function
from tests.graph.inlining.functional import graph as functional_graph
from tests.strategies import Rows, graphs, loop, type_attr, typed, types_attr


def float_node(made: Rows, name: str, op: str, inputs: Sequence[str] = ()) -> str:
    return made.add(name, op, inputs, **typed(op, ()))


def training(*, grouped: bool = True) -> Rows:
    """A TensorFlow 1 program: input queue, two weights, loss, train op, initialiser, saver, readiness, summary."""
    made = Rows()
    made.add("queue", "FIFOQueueV2")
    float_node(made, "batch", "Placeholder")
    made.add("queue/enqueue", "QueueEnqueueV2", ["queue", "batch"])
    made.add("queue/close", "QueueCloseV2", ["queue"])
    float_node(made, "x", "Placeholder")
    initial, updates, reads, checks = [], [], [], []
    for name in ("w", "v"):
        float_node(made, name, "VariableV2")
        float_node(made, f"{name}/first", "Const")
        initial.append("^" + made.add(f"{name}/Assign", "Assign", [name, f"{name}/first"], T=type_attr()))
        reads.append(float_node(made, f"{name}/read", "Identity", [name]))
        checks.append(made.add(f"{name}/ready", "IsVariableInitialized", [name], dtype=type_attr()))
    float_node(made, "y", "Mul", reads)
    float_node(made, "loss", "Mul", ["y", "x"])
    float_node(made, "rate", "Const")
    for name in ("w", "v"):
        made.add(f"{name}/apply", "ApplyGradientDescent", [name, "rate", "loss"], T=type_attr())
        updates.append(f"^{name}/apply")
    if grouped:
        made.add("train", "NoOp", updates)
    made.add("init", "NoOp", initial)
    made.add("tag", "Const", dtype=type_attr(7))
    made.add("summary", "ScalarSummary", ["tag", "loss"], T=type_attr())
    made.add("save", "SaveV2", ["tag", "tag", "tag", *reads], dtypes=types_attr(1, 1))
    made.add("save/done", "Identity", ["tag", "^save"], T=type_attr(7))
    made.add("restore", "RestoreV2", ["tag", "tag", "tag"], dtypes=types_attr(1))
    made.add("restore/w", "Assign", ["w", "restore"], T=type_attr())
    made.add("restore/all", "NoOp", ["^restore/w"])
    made.add("ready", "Pack", checks, T=type_attr(10), N=AttrValue(i=2))
    return made


def ran(graph: Graph, step: Step) -> set[str]:
    return {name for name, runs in zip(graph.names, step.runs, strict=True) if runs}


STEP = {"w", "v", "w/read", "v/read", "y", "loss", "rate", "w/apply", "v/apply"}


def test_the_train_op_is_the_sink_that_holds_every_update() -> None:
    graph = training().built()
    step = choose_step(graph)
    assert step.fetches == ("train",)
    assert step.feeds == ("x:0",)
    assert ran(graph, step) == STEP | {"train"}
    assert "2 Apply ops" in step.rule


def test_without_a_group_every_update_is_its_own_sink() -> None:
    graph = training(grouped=False).built()
    assert choose_step(graph).fetches == ("v/apply", "w/apply")


def test_the_train_op_collection_comes_first() -> None:
    graph = replace(training().built(), train_ops=("w/apply", "of another graph"))
    step = choose_step(graph)
    assert step.fetches == ("w/apply",)
    assert step.rule == "the graph's train_op collection (1 of its entries not in the graph)"


def test_what_groups_the_train_op_with_more_is_the_step_and_two_such_groups_are_named() -> None:
    """A script's tf.no_op(name="train") after the optimizer's own op, with moving averages, is what it runs."""
    made = training()
    made.names[made.names.index("train")] = "momentum"
    float_node(made, "average", "VariableV2")
    made.add("averages", "AssignSub", ["average", "loss"], T=type_attr())
    made.add("train", "NoOp", ["^momentum", "^averages"])
    step = choose_step(replace(made.built(), train_ops=("momentum",)))
    assert step.fetches == ("train",)
    assert step.rule == "'train', which groups the graph's train_op collection with more"
    made.add("all", "NoOp", ["^momentum", "^averages", "^y"])
    step = choose_step(replace(made.built(), train_ops=("momentum",)))
    assert step.fetches == ("momentum",)
    assert step.rule.endswith("; 'train', 'all' run it with more: fetch the one that is the step")


def test_a_saver_that_waits_for_the_train_op_does_not_replace_it() -> None:
    made = training()
    made.names[made.names.index("train")] = "train/inner"
    made.add("a/save", "SaveV2", ["tag", "tag", "tag", "^train/inner"], dtypes=types_attr())
    made.add("train", "NoOp", ["^train/inner"])
    assert choose_step(made.built()).fetches == ("train",)


def test_of_equal_sinks_the_one_with_the_smaller_fan_in_is_taken() -> None:
    made = training()
    made.names[made.names.index("train")] = "train/inner"
    made.add("more", "NoOp", ["^train/inner", "^rate", "^y", "^first"])
    float_node(made, "first", "Const")
    made.add("train", "NoOp", ["^train/inner"])
    assert choose_step(made.built()).fetches == ("train",)


def test_an_update_inside_a_loop_is_found_behind_its_exit() -> None:
    made = Rows()
    float_node(made, "x", "Placeholder")
    loop(made, start="x")
    float_node(made, "v", "VariableV2")
    made.add("apply", "ApplyGradientDescent", ["v", "while/Neg", "while/Neg"], T=type_attr())
    made.inputs[made.names.index("while/NextIteration")].append("^apply")
    graph = made.built()
    step = choose_step(graph)
    assert step.fetches == ("while/Exit",)
    assert ran(graph, step) == set(graph.names) - {"x"}


def test_a_tensor_inside_a_loop_is_not_fed() -> None:
    made = Rows()
    float_node(made, "x", "Placeholder")
    loop(made, start="x")
    graph = made.built()
    assert choose_step(graph, feeds="while/Exit").runs.sum() == 0
    with pytest.raises(GraphError, match="'while/Merge:0' is made inside a loop, so it cannot be fed"):
        choose_step(graph, feeds="while/Merge:0", fetches="while/Exit")


@pytest.mark.parametrize("collected", [(), ("train",)])
def test_what_fills_the_accumulators_runs_with_what_takes_from_them(collected: tuple[str, ...]) -> None:
    made = Rows()
    float_node(made, "w", "VariableV2")
    float_node(made, "x", "Placeholder")
    float_node(made, "gradient", "Mul", ["x", "w"])
    made.add("stamp", "Const", dtype=type_attr(9))
    made.add("many", "Const", dtype=type_attr(3))
    made.add("sum", "ConditionalAccumulator", dtype=type_attr())
    made.add("fill", "AccumulatorApplyGradient", ["sum", "stamp", "gradient"], dtype=type_attr())
    made.add("replica", "NoOp", ["^fill"])
    float_node(made, "mean", "AccumulatorTakeGradient", ["sum", "many"])
    float_node(made, "rate", "Const")
    made.add("w/apply", "ApplyGradientDescent", ["w", "rate", "mean"], T=type_attr())
    made.add("train", "NoOp", ["^w/apply"])
    graph = replace(made.built(), train_ops=collected)
    step = choose_step(graph)
    assert step.fetches == ("replica", "train")
    assert ran(graph, step) == set(graph.names) - {"x"}
    assert step.rule.endswith("and what fills its gradient accumulators")


@pytest.mark.parametrize("collected", [(), ("train",)])
def test_what_adds_gradients_up_in_variables_runs_with_what_applies_them(collected: tuple[str, ...]) -> None:
    made = Rows()
    for name in ("w", "sum", "metric"):
        float_node(made, name, "VariableV2")
    float_node(made, "x", "Placeholder")
    float_node(made, "gradient", "Mul", ["x", "w"])
    float_node(made, "add", "AssignAdd", ["sum", "gradient"])
    made.add("accumulate", "NoOp", ["^add"])
    float_node(made, "watch", "AssignAdd", ["metric", "gradient"])
    float_node(made, "many", "Const")
    float_node(made, "mean", "RealDiv", ["sum", "many"])
    float_node(made, "rate", "Placeholder")
    made.add("w/apply", "ApplyGradientDescent", ["w", "rate", "mean"], T=type_attr())
    made.add("train", "NoOp", ["^w/apply"])
    graph = replace(made.built(), train_ops=collected)
    step = choose_step(graph)
    assert step.fetches == ("accumulate", "train")
    assert ran(graph, step) == set(graph.names) - {"x", "rate", "watch", "metric"}
    assert step.rule.endswith("and what fills its gradient accumulators")
    assert choose_step(graph, fetches="train").fetches == ("train",)


def test_a_call_of_a_function_that_trains_counts_as_an_update() -> None:
    inner, outer = FunctionDef(), FunctionDef()
    inner.signature.name, outer.signature.name = "inner", "outer"
    inner.node_def.add(name="apply", op="ResourceApplyAdam")
    outer.node_def.add(name="call", op="inner")
    made = Rows()
    called = AttrValue()
    called.func.name = "outer"
    made.add("call", "StatefulPartitionedCall", Tin=types_attr(), Tout=types_attr(), f=called)
    made.add("other", "NoOp")
    graph = made.built(library={"inner": inner, "outer": outer})
    assert [graph.names[row] for row in apply_nodes(graph)] == ["call"]
    assert choose_step(graph).fetches == ("call",)


def inference() -> Rows:
    """The same program without its updates: an exported model that still has saver and initialiser."""
    made = training(grouped=False)
    for name in ("w/apply", "v/apply", "rate"):
        at = made.names.index(name)
        for column in (made.names, made.ops, made.requested, made.inputs, made.attrs):
            del column[at]
    return made


def test_without_updates_the_sinks_that_compute_are_fetched() -> None:
    made = inference()
    made.add("probability", "Neg", ["loss"], **typed("Neg"))
    step = choose_step(made.built())
    assert step.fetches == ("probability:0",)
    assert "but 7 that only initialise" in step.rule


def test_a_signature_comes_before_the_sinks_and_after_the_updates() -> None:
    signatures = {
        "__saved_model_init_op": Signature({}, {"op": "init"}),
        "b": Signature({"in": "x:0"}, {"out": "y:0"}),
        "serving_default": Signature({"in": "x:0"}, {"out": "loss:0"}),
    }
    graph = inference().built(signatures=signatures)
    step = choose_step(graph)
    assert (step.feeds, step.fetches) == (("x:0",), ("loss:0",))
    assert "'serving_default'" in step.rule
    assert choose_step(graph, signature="b").fetches == ("y:0",)
    del signatures["serving_default"]
    assert "'b'" in choose_step(inference().built(signatures=signatures)).rule
    assert choose_step(training().built(signatures=signatures)).fetches == ("train",)


def test_what_ends_inside_an_expanded_body_is_not_fetched() -> None:
    body = function("body", ["a", "b"], [("y", "Neg", ["a"], T), ("unused", "Exp", ["b"], T)], ["y:y:0"])
    fed: list[Written] = [(name, "Placeholder", [], PLACEHOLDER) for name in ("a", "b")]
    graph = inline(functional_graph([*fed, ("f", "PartitionedCall", ["a", "b"], call("body", 2))], [body]))
    step = choose_step(graph)
    assert step.fetches == ("f:0",)
    assert "f/unused" in graph.index
    assert step.feeds == ("a:0",)


def test_a_graph_that_only_prepares_runs_all_its_sinks_and_says_so() -> None:
    made = Rows()
    float_node(made, "v", "VariableV2")
    float_node(made, "first", "Const")
    made.add("v/Assign", "Assign", ["v", "first"], T=type_attr())
    step = choose_step(made.built())
    assert step.fetches == ("v/Assign",)  # it gives a reference, so it only runs
    assert "every sink only" in step.rule


def test_feeding_cuts_what_lies_behind() -> None:
    graph = training().built()
    step = choose_step(graph, fetches=["loss:0"], feeds=["y"])
    assert step.feeds == ("x:0", "y:0")
    assert ran(graph, step) == {"loss"}


def test_a_placeholder_with_a_default_need_not_be_fed() -> None:
    made = Rows()
    float_node(made, "first", "Const")
    made.add("x", "PlaceholderWithDefault", ["first"], dtype=type_attr(), shape=AttrValue())
    step = choose_step(made.built(), fetches=["x:0"])
    assert step.feeds == ()
    assert step.runs.all()


def test_what_waits_for_a_fed_node_makes_it_run_in_earnest() -> None:
    made = Rows()
    float_node(made, "first", "Const")
    float_node(made, "a", "Neg", ["first"])
    float_node(made, "b", "Neg", ["a"])
    float_node(made, "c", "Neg", ["a", "^a"])
    graph = made.built()
    assert ran(graph, choose_step(graph, fetches=["b:0"], feeds=["a:0"])) == {"b"}
    assert ran(graph, choose_step(graph, fetches=["c:0"], feeds=["a:0"])) == {"first", "a", "c"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fetches": ["los"]}, "no node 'los'. Did you mean 'loss'"),
        ({"fetches": ["loss:1"]}, "no tensor 'loss:1': 'loss' has 1 output, loss:0."),
        ({"fetches": ["train:0"]}, "'train' has 0 outputs; write 'train'"),
        ({"fetches": ["loss:x"]}, "no tensor 'loss:x'"),
        ({"fetches": ["loss:²"]}, "no tensor"),
        ({"fetches": []}, "the list of fetches is empty"),
        ({"fetches": ["loss"], "feeds": ["train"]}, "'train' has no output, so it cannot be fed"),
        ({"fetches": ["loss"], "signature": "s"}, "not both"),
        ({"signature": "s"}, "has no signatures"),
        ({"fetches": 3}, "fetches are nodes and tensors by name, not 3"),
        ({"feeds": [b"x"]}, "feeds are nodes and tensors by name, not [b'x']"),
    ],
)
def test_mistakes_are_named(options: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises(GraphError) as refusal:
        choose_step(training().built(), **options)
    assert sentence in str(refusal.value)


def test_an_unknown_signature_lists_those_there_are() -> None:
    graph = training().built(signatures={"predict": Signature({}, {"a": "loss:0"})})
    with pytest.raises(GraphError, match="no signature 'predct'; it has 'predict'"):
        choose_step(graph, signature="predct")


def test_a_graph_without_nodes_has_no_step() -> None:
    with pytest.raises(GraphError, match="no nodes"):
        choose_step(Rows().built())


@given(graphs())
def test_every_step_contains_all_that_it_needs(graph: Graph) -> None:
    step = choose_step(graph)
    fed = {graph.row(name.partition(":")[0]) for name in step.feeds}
    for source, reader in zip(graph.edge_src.tolist(), graph.edge_dst.tolist(), strict=True):
        assert step.runs[source] or not step.runs[reader] or source in fed
    assert step.fetches == tuple(sorted(set(step.fetches)))
    assert bool(step.fetches) == step.runs.any()  # nothing is left to run where all that is fetched is fed


def test_what_is_fed_is_handed_back_without_being_run() -> None:
    graph = training().built()
    step = choose_step(graph, fetches=["x:0", "loss:0", "loss:0"], feeds=["y:0"])
    assert (step.fetches, step.feeds) == (("loss:0",), ("x:0", "y:0"))
    assert ran(graph, choose_step(graph, fetches=["x"])) == {"x"}  # to run it is another thing than to read it


def test_one_name_may_stand_without_a_list() -> None:
    graph = training().built()
    assert (
        choose_step(graph, fetches="w", feeds="x").runs.tolist()
        == choose_step(graph, fetches=["w"], feeds=["x"]).runs.tolist()
    )


def test_the_read_that_comes_along_with_an_assignment_is_not_the_train_op() -> None:
    """Adam on resource variables ends in several sinks, of which the read of a power has the smallest fan-in."""
    made = Rows()
    for name in ("w", "power", "step"):
        made.add(name, "VarHandleOp", dtype=type_attr())
    float_node(made, "grad", "Const")
    made.add("update", "ResourceApplyGradientDescent", ["w", "grad", "grad"], T=type_attr())
    made.add("assign", "AssignVariableOp", ["power", "grad", "^update"], dtype=type_attr())
    made.add("read", "ReadVariableOp", ["power", "^assign", "^update"], dtype=type_attr())
    made.add("train", "AssignAddVariableOp", ["step", "grad", "^update", "^assign"], dtype=type_attr())
    assert choose_step(made.built()).fetches == ("train",)


def traced(*, returns: int = 2, behind: tuple[str, ...] = ("^update", "^count")) -> Rows:
    """The body of a traced function that trains by plain ops, with what a tape leaves behind; it returns so many."""
    made = Rows()
    for name in ("w", "steps"):
        made.add(name, "Placeholder", dtype=type_attr(20))
    float_node(made, "x", "Placeholder")
    made.add("read", "ReadVariableOp", ["w"], dtype=type_attr())
    float_node(made, "loss", "Mul", ["read", "x"])
    float_node(made, "taped", "Identity", ["loss"])
    float_node(made, "one", "Const")
    made.add("update", "AssignSubVariableOp", ["w", "loss"], dtype=type_attr())
    made.add("count", "AssignAddVariableOp", ["steps", "one"], dtype=type_attr())
    made.add("group_deps", "NoOp", list(behind))
    for number in range(returns):
        float_node(made, f"out{number}", "Identity", ["loss", "^group_deps"])
    return made


def test_what_a_traced_function_returns_after_its_updates_is_the_step() -> None:
    """Keras's optimizers assign by plain ops, and a tape leaves sinks behind that TensorFlow would not run."""
    graph = traced().built()
    step = choose_step(graph)
    assert step.fetches == ("out0:0", "out1:0")
    assert ran(graph, step) == set(graph.names) - {"taped", "w", "steps", "x"}
    assert step.rule.startswith("no train op: what a traced function returns")


@pytest.mark.parametrize("further", [False, True])
def test_a_function_without_variables_is_known_by_its_arguments(further: bool) -> None:
    """Where somebody added placeholders to its graph, its results are not all that is wanted."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", ()), _user_specified_name=AttrValue(s=b"x"))
    if further:
        float_node(made, "label", "Placeholder")
    float_node(made, "dead", "Neg", ["x"])
    float_node(made, "value", "Exp", ["x"])
    float_node(made, "out", "Identity", ["value"])
    assert choose_step(made.built()).fetches == (("dead:0", "out:0") if further else ("out:0",))


def test_what_a_traced_function_returns_after_its_reads_is_the_step() -> None:
    """A function that updates nothing, of which a recurrent layer left a sink and an unused read behind."""
    made = Rows()
    for name in ("w", "unused"):
        made.add(name, "Placeholder", dtype=type_attr(20))
    float_node(made, "x", "Placeholder")
    for name in ("w", "unused"):
        made.add(f"{name}/read", "ReadVariableOp", [name], dtype=type_attr())
    float_node(made, "product", "Mul", ["w/read", "x"])
    float_node(made, "last", "Identity", ["product"])
    made.add("reads", "NoOp", ["^w/read"])
    float_node(made, "out", "Identity", ["product", "^reads"])
    graph = made.built()
    step = choose_step(graph)
    assert step.fetches == ("out:0",)
    assert ran(graph, step) == {"w/read", "product", "reads", "out"}


def test_all_updates_are_the_step_of_a_traced_function_that_returns_nothing() -> None:
    """It ran what a tape leaves behind, too, as all sinks were fetched."""
    graph = traced(returns=0).built()
    step = choose_step(graph)
    assert step.fetches == ("group_deps",)
    assert step.rule == "a function that returns nothing: the fewest sinks after all of its 2 updates"


@pytest.mark.parametrize("returns", [0, 2])
def test_a_traced_function_runs_its_plain_updates_beside_those_of_an_optimizer(returns: int) -> None:
    """An agent's target network was left out, and statistics: the group of the optimizer was fetched."""
    made = traced(returns=returns, behind=("^update", "^count", "^train"))
    made.add("v", "Placeholder", dtype=type_attr(20))
    made.add("apply", "ResourceApplyGradientDescent", ["v", "one", "loss"], T=type_attr())
    made.add("train", "NoOp", ["^apply"])
    graph = made.built()
    step = choose_step(graph)
    assert {"apply", "update", "count"} < ran(graph, step)
    assert step.fetches == (("out0:0", "out1:0") if returns else ("group_deps",))


@pytest.mark.parametrize(("returns", "behind"), [(1, ("^count",)), (9, ("^update",))])
def test_all_sinks_are_the_step_where_an_update_would_be_left_out(returns: int, behind: tuple[str, ...]) -> None:
    graph = traced(returns=returns, behind=behind).built()
    step = choose_step(graph)
    assert "taped:0" in step.fetches
    assert {"update", "count"} < ran(graph, step)
