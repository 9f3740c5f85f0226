"""Statistics that a step updates and then reads are no trained variables; a network that trains first is one."""

from __future__ import annotations

import pytest

from simulator import load_cluster
from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.training.programs.replicated import Replication, replicate
from simulator.training.recognition.anatomy import anatomy
from simulator.training.regimes import read_regime
from tests.strategies import Rows, shape_attr, shapes_attr, type_attr, typed
from tests.training.recognition.test_captured import INT64, assign, read

SHAPE = (4, 4)
FLOATS = {"T": type_attr(), "_output_shapes": shapes_attr(SHAPE)}


def two_in_turn(
    *, integers: bool, slot: bool = False, at_once: bool = False, adds: bool = False, forward: bool = False
) -> Graph:
    """s = a share of s and what examples bring; y = x @ w @ s by the new s; w -= its gradient, of s and w.

    What they bring depends on the old s by way of `integers` alone, as a codebook's nearest rows do, or by products, as
    a gradient does. It may first be added to a `slot`, and `at_once` y is made of the old s. An update that `adds` to
    all of the old s is that of weights. The model may use what was brought, going `forward`.
    """
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(*SHAPE), _output_shapes=shapes_attr(SHAPE))
    for name in ("s", "m", "w") if slot else ("s", "w"):
        made.add(name, "VarHandleOp", dtype=type_attr(), shape=shape_attr(*SHAPE), _output_shapes=shapes_attr(()))
    read(made, "s/old", "s", shape=SHAPE)
    made.add("distances", "MatMul", ["x", "s/old"], **FLOATS)
    if integers:
        made.add("one", "Const", **typed("Const"))
        made.add("axis", "Cast", ["one"], SrcT=type_attr(), DstT=type_attr(3), _output_shapes=shapes_attr(()))
        sizes = {"_output_shapes": shapes_attr((4,))}
        made.add("nearest", "ArgMin", ["distances", "axis"], T=type_attr(), output_type=type_attr(INT64), **sizes)
        made.add("rows", "GatherV2", ["x", "nearest", "axis"], Tparams=type_attr(), _output_shapes=shapes_attr(SHAPE))
        made.add("brought", "MatMul", ["x", "rows"], **FLOATS)
    else:
        made.add("brought", "MatMul", ["x", "distances"], **FLOATS)
    new = "brought"
    if slot:
        assign(made, "m/update", "Add", "m", "brought")
        new = read(made, "m/new", "m", "^m/update", shape=SHAPE)
    if adds:
        assign(made, "s/update", "Add", "s", new)
    else:
        made.add("share", "Const", **typed("Const"))
        made.add("kept", "Mul", ["s/old", "share"], **FLOATS)
        made.add("mixed", "AddV2", ["kept", new], **FLOATS)
        assign(made, "s/update", "", "s", "mixed")
    read(made, "s/new", "s", *([] if at_once else ["^s/update"]), shape=SHAPE)
    read(made, "w/read", "w", shape=SHAPE)
    made.add("hidden", "MatMul", ["brought" if forward else "x", "w/read"], **FLOATS)
    made.add("y", "MatMul", ["hidden", "s/new"], **FLOATS)
    made.add("g", "MatMul", ["x", "y"], **FLOATS)
    assign(made, "w/update", "Sub", "w", "g")
    made.add("loss", "Neg", ["y", "^w/update"], T=type_attr())
    return made.built()


def variables(graph: Graph) -> list[str]:
    return [graph.names[one.variable] for one in anatomy(graph).gradients]


@pytest.mark.parametrize("slot", [False, True])
@pytest.mark.parametrize(("at_once", "forward"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("how", ["between", "in", "allreduce:ring"])
def test_a_statistic_that_the_model_reads_is_not_trained(
    how: Replication, at_once: bool, forward: bool, slot: bool
) -> None:
    """It was taken for a trained variable. So the gradient of w came after its update, or it was averaged itself."""
    graph = two_in_turn(integers=True, slot=slot, at_once=at_once, forward=forward)
    assert variables(graph) == ["w"]
    cluster = load_cluster("ps=1,worker=2" if how == "between" else "2gpu")
    regime = read_regime("sync") if how == "between" else None
    worker, *_ = replicate(graph, cluster, how=how, regime=regime)
    assert "s/update" in worker.graph.names
    if how == "between":
        assert [name for name in worker.graph.names if name.endswith("/push")] == ["sync_replicas/w/push"]


@pytest.mark.parametrize(("integers", "adds"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("slot", [False, True])
def test_a_network_that_trains_first_is_trained_and_workers_can_not_wait(
    integers: bool, adds: bool, slot: bool
) -> None:
    """The gradient of a linear critic does not depend on its weights, but is added to them."""
    graph = two_in_turn(integers=integers, slot=slot, adds=adds)
    assert sorted(variables(graph)) == ["s", "w"]
    said = r"'g', which updates 'w', comes after another update of the step, that of 's'\. So workers"
    with pytest.raises(GraphError, match=said):
        replicate(graph, load_cluster("ps=1,worker=2"), regime=read_regime("sync"))


def test_what_is_brought_to_a_statistic_of_earlier_steps_alone_is_averaged_as_a_gradient() -> None:
    assert sorted(variables(two_in_turn(integers=True, at_once=True))) == ["s", "w"]
