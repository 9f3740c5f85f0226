"""Pipelined graphs: their stages, orders, times and memory."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import estimate, load_cluster
from simulator.errors import ClusterError, GraphError, SimvizError
from simulator.execution.laws import check_trace
from simulator.graph.const_values import elements
from simulator.graph.messages import AttrValue
from simulator.shapes.filling import with_shapes
from simulator.training.pipelines.combining import combined
from simulator.training.pipelines.means import Batches
from simulator.training.pipelines.orders import Order, held, turns
from simulator.training.pipelines.pipelined import pipeline
from tests.strategies import Rows, shape_attr, type_attr, typed
from tests.training.pipelines.chain import UNIT_NS, WIDTH, at_hand, axes, chain, constant, embedding, in_units, played
from tests.training.programs.test_between import momentum
from tests.training.programs.test_towers import rows_of

ORDERS: tuple[Order, ...] = get_args(Order)
orders = st.sampled_from(ORDERS)


@given(orders, st.integers(1, 9), st.integers(1, 20))
def test_a_stage_takes_each_microbatch_forward_and_then_back(order: Order, stages: int, count: int) -> None:
    for stage, taken in enumerate(turns(order, stages, count)):
        assert sorted(taken) == sorted(turns("gpipe", 1, count)[0])
        for microbatch in range(count):
            assert taken.index((True, microbatch)) < taken.index((False, microbatch))
        # Huang et al. 2019, section 2.3; Narayanan et al. 2021, section 2.2.1
        assert held(taken) == (count if order == "gpipe" else min(count, stages - stage))


@given(orders, st.integers(1, 9), st.integers(1, 20))
def test_no_stage_waits_for_what_waits_for_it(order: Order, stages: int, count: int) -> None:
    """Each turn begins after the one before on its stage, and after the same microbatch on the stage before it."""
    plan = turns(order, stages, count)
    done: set[tuple[int, bool, int]] = set()
    at = [0] * stages
    while any(at[stage] < len(plan[stage]) for stage in range(stages)):
        moved = False
        for stage in range(stages):
            if at[stage] == len(plan[stage]):
                continue
            forward, microbatch = plan[stage][at[stage]]
            before = stage - 1 if forward else stage + 1
            if 0 <= before < stages and (before, forward, microbatch) not in done:
                continue
            done.add((stage, forward, microbatch))
            at[stage] += 1
            moved = True
        assert moved


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("stages", "count"), [(2, 2), (3, 6), (4, 8), (4, 2)])
def test_equal_stages_take_as_long_as_the_paper_says(order: Order, stages: int, count: int) -> None:
    """(M + S - 1) / M times the ideal S-th part of the step (Huang et al. 2019, section 2.3)."""
    layers = 2 * stages
    cluster, price = at_hand(stages), in_units(count)
    made = pipeline(chain(layers, 4 * count), cluster, microbatches=count, order=order, price=price)
    _, trace = played(made, cluster, price)
    serial = count * layers * 3 * UNIT_NS
    assert trace.makespan == pytest.approx(serial / stages * (count + stages - 1) / count, rel=0.02)


def test_one_by_one_holds_fewer_microbatches_than_gpipe() -> None:
    stages, count, layers, rows = 4, 8, 8, 4096
    cluster, price = at_hand(stages), in_units(count)
    most = {}
    for order in ORDERS:
        made = pipeline(chain(layers, count * rows), cluster, microbatches=count, order=order, price=price)
        pieces, trace = played(made, cluster, price)
        names = [pieces.devices.index(f"/job:localhost/replica:0/task:0/device:GPU:{at}") for at in range(stages)]
        most[order] = [int(trace.peak_bytes[row] - trace.resident_bytes[row]) for row in names]
    activation = rows * WIDTH * 4 * layers // stages  # of a microbatch, on a stage
    for stage in range(stages):
        assert most["gpipe"][stage] >= count * activation
        fewer = (count - min(count, stages - stage)) * activation
        assert most["gpipe"][stage] - most["1f1b"][stage] >= fewer - activation


@settings(max_examples=16)
@given(st.data())
def test_pipelines_of_any_shape_run_and_keep_their_order(data: st.DataObject) -> None:
    layers, stages, count = data.draw(st.integers(2, 7)), data.draw(st.integers(1, 4)), data.draw(st.integers(2, 6))
    order, fixed = data.draw(orders), data.draw(st.booleans())
    stages = min(stages, layers)
    cluster, price = load_cluster("4gpu"), in_units(count)
    graph = chain(layers, count * 3, fixed=fixed)
    made = pipeline(graph, cluster, microbatches=count, order=order, stages=stages, price=price)
    pieces, trace = played(made, cluster, price)
    assert check_trace(trace, pieces, cluster) == []
    names = pieces.graph.names
    time = {
        names[node]: (start, end)
        for node, start, end in zip(
            trace.ops.node.tolist(), trace.ops.start_ns.tolist(), trace.ops.end_ns.tolist(), strict=True
        )
    }
    stage = made.stage_of
    assert sorted(set(stage.values())) == list(range(stages))
    layer_stages = [stage[f"layer{at}"] for at in range(layers)]
    assert layer_stages == sorted(layer_stages)
    for at in range(layers):
        beside = {f"grad{at}", f"w{at}"} | ({f"back{at}"} if at else set())
        assert {stage[name] for name in beside if name in stage} == {layer_stages[at]}
        copies = {stage[f"microbatch_{one}/layer{at}"] for one in range(1, count)}
        assert copies == {layer_stages[at]}
    for one, taken in enumerate(turns(order, stages, count)):
        ends = 0
        for forward, microbatch in taken:
            prefix = f"microbatch_{microbatch}/" if microbatch else ""
            kinds = ("layer",) if forward else ("grad", "back")
            own = [
                time[f"{prefix}{kind}{at}"]
                for kind in kinds
                for at in range(layers)
                if layer_stages[at] == one and f"{prefix}{kind}{at}" in time
            ]
            assert min(start for start, _ in own) >= ends
            ends = max(end for _, end in own)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("batch", [24, 48, 96])
def test_each_microbatch_divides_by_its_own_number_of_examples(batch: int, fixed: bool) -> None:
    """The file is of 12 examples, and its constant of their mean, too."""
    graph = with_shapes(chain(3, 12, fixed=fixed), batch=batch, feeds={} if fixed else fed(batch))
    made = pipeline(graph, load_cluster("3gpu"), microbatches=4).graph
    assert elements(made.attrs[made.row("examples")]) == [batch // 4 * WIDTH]
    rows = [made.tensor_shape[made.tensor_ptr[made.row(name)]] for name in ("layer1", "microbatch_3/layer1", "split/x")]
    assert rows == [(batch // 4, WIDTH)] * 3
    assert made.tensor_shape[made.tensor_ptr[made.row("x")]] == (batch, WIDTH)


def test_a_sum_may_be_divided_by_the_product_of_the_dimensions_of_a_batch() -> None:
    """So Keras writes its mean where the batch is fixed."""
    made = pipeline(chain(3, 12, keras=True), load_cluster("3gpu"), microbatches=4).graph
    assert elements(made.attrs[made.row("examples")]) == [3]
    assert made.tensor_shape[made.tensor_ptr[made.row("microbatch_3/layer1")]] == (3, WIDTH)


def test_constants_of_what_sees_a_microbatch_are_those_of_a_microbatch() -> None:
    """A loss that is laid out by a constant shape kept the whole batch, which TensorFlow refused."""
    rows = rows_of(chain(2, 12))
    rows.add("sides", "Const", dtype=type_attr(3), value=axes(12, WIDTH))
    rows.add("laid", "Reshape", ["squares", "sides"], T=type_attr(), Tshape=type_attr(3))
    given = with_shapes(rows.built())
    made = pipeline(given, load_cluster("2gpu"), microbatches=4, fetch=["train", "laid:0"]).graph
    assert elements(made.attrs[made.row("sides")]) == [3, WIDTH]
    assert made.tensor_shape[made.tensor_ptr[made.row("laid")]] == (3, WIDTH)


def test_an_update_takes_the_rows_of_all_microbatches() -> None:
    """What it computed of them had the rows of a microbatch, and their mean had no known size."""
    made = pipeline(with_shapes(embedding(), batch=12), load_cluster("1gpu"), microbatches=4).graph
    tensors = [int(made.tensor_ptr[made.row("unique")]) + 1, int(made.tensor_ptr[made.row("accumulate/table")])]
    assert [made.tensor_shape[at] for at in tensors] == [(12,), (12, WIDTH)]
    joined = int(made.tensor_ptr[made.row("accumulate/table/indices")])  # of parts of the batch, not of it as a whole
    assert (made.tensor_shape[joined], int(made.tensor_bytes[joined])) == ((12,), 48)


def test_an_update_takes_rows_that_each_microbatch_draws_anew() -> None:
    """There are more of them than of the whole batch, of which the file's shapes told, and TensorFlow refused those."""
    made = pipeline(with_shapes(embedding(drawn=5), batch=12), load_cluster("1gpu"), microbatches=4).graph
    tensors = [int(made.tensor_ptr[made.row("unique")]) + 1, int(made.tensor_ptr[made.row("accumulate/table")])]
    assert [made.tensor_shape[at] for at in tensors] == [(4 * (3 + 5),), (4 * (3 + 5), WIDTH)]


def test_rows_that_all_microbatches_share_are_added_up_as_dense_gradients_are() -> None:
    """The rows of places came once for each microbatch, and TensorFlow refused what is computed of them."""
    made = pipeline(with_shapes(embedding(places=True), batch=12), load_cluster("1gpu"), microbatches=4).graph
    tensors = [int(made.tensor_ptr[made.row(name)]) for name in ("accumulate/table", "accumulate/table/sum")]
    assert [made.tensor_shape[at] for at in tensors] == [(2, WIDTH)] * 2
    assert made.inputs_of(made.row("update"))[1] == "places"


def test_examples_that_are_compared_with_each_other_are_told() -> None:
    """In a microbatch there are fewer to compare with, such as negatives of a contrastive loss."""
    notes = [pipeline(chain(2, 12, pairs=pairs), load_cluster("2gpu"), microbatches=4).notes for pairs in (False, True)]
    said = "1 op (scores) compares each example with those of its microbatch alone, so the step is not quite the same"
    assert notes == [(), (said,)]


@pytest.mark.parametrize("op", ["Mean", "ReverseV2"])
def test_an_example_that_gets_something_of_others_is_told(op: str) -> None:
    """Losses that are no linear function of a mean, and batches that are centred or mixed, went without a word."""
    notes = [pipeline(chain(2, 12, combined=(op, axis)), load_cluster("2gpu"), microbatches=4).notes for axis in (1, 0)]
    said = "1 op (other) combines the examples of a microbatch alone, so the step is not quite the same"
    assert notes == [(), (said,)]


@pytest.mark.parametrize("keras", [False, True])
def test_a_sum_over_the_batch_beside_a_mean_is_refused_and_one_over_weights_is_not(keras: bool) -> None:
    """Its gradients were divided by the number of microbatches, without a word."""
    cluster, weighted = load_cluster("2gpu"), chain(2, 12, keras=keras, added="weights")
    assert pipeline(weighted, cluster, microbatches=4).notes == ()
    with pytest.raises(GraphError, match="'both' adds what the number of examples divides and what it does not"):
        pipeline(chain(2, 12, keras=keras, added="examples"), cluster, microbatches=4)


def test_parts_of_a_batch_are_told_and_parts_of_two_are_not_nor_a_softmax_of_each() -> None:
    """Both halves of a batch are other examples in a microbatch; two views that were joined come apart again."""
    rows = rows_of(chain(2, 12))
    numbers = {"T": type_attr(), "num_split": AttrValue(i=2)}
    rows.add("zero", "Const", dtype=type_attr(3), value=constant(0, 3))
    rows.add("joined", "ConcatV2", ["squares", "squares", "zero"], T=type_attr(), N=AttrValue(i=2), Tidx=type_attr(3))
    rows.add("views", "Split", ["zero", "joined"], **numbers)
    rows.add("halves", "Split", ["zero", "squares"], **numbers)
    rows.add("soft", "Softmax", ["squares"], T=type_attr())
    rows.add("swap", "Const", dtype=type_attr(3), value=axes(1, 0))
    rows.add("flipped", "Transpose", ["squares", "swap"], T=type_attr(), Tperm=type_attr(3))
    rows.add("softened", "Softmax", ["flipped"], T=type_attr())
    whole = with_shapes(rows.built())
    of = Batches(whole, with_shapes(whole, batch=4), range(len(whole)), (), 12, 3)
    assert [whole.names[row] for row in combined(of)] == ["halves", "softened"]


def test_examples_that_fed_numbers_find_are_told_and_those_that_are_found_in_the_microbatch_are_not() -> None:
    """The nodes of a graph are no examples: its edges name nodes of the whole batch."""
    rows = rows_of(chain(2, 12))
    gather = {"Tparams": type_attr(), "Tindices": type_attr(3), "Taxis": type_attr(3)}
    rows.add("zero", "Const", dtype=type_attr(3), value=constant(0, 3))
    rows.add("one", "Const", dtype=type_attr(3), value=constant(1, 3))
    rows.add("edges", "Placeholder", dtype=type_attr(3), shape=shape_attr(40))
    rows.add("ends", "AddV2", ["edges", "zero"], T=type_attr(3))
    rows.add("sent", "GatherV2", ["squares", "ends", "zero"], **gather)
    rows.add("columns", "GatherV2", ["squares", "ends", "one"], **gather)
    rows.add("best", "ArgMax", ["squares", "zero"], T=type_attr(), Tidx=type_attr(3), output_type=type_attr(3))
    rows.add("kept", "GatherV2", ["squares", "best", "zero"], **gather)
    whole = with_shapes(rows.built())
    of = Batches(whole, with_shapes(whole, batch=4), range(len(whole)), (), 12, 3)
    assert [whole.names[row] for row in combined(of)] == ["sent"]


def fed(batch: int) -> dict[str, tuple[int, ...]]:
    return {"x": (batch, WIDTH), "y": (batch, WIDTH)}


def test_what_cannot_be_pipelined_is_refused() -> None:
    cluster, graph = load_cluster("2gpu"), chain(4, 12)
    with pytest.raises(GraphError, match="a batch of 12 examples can't be divided into 5"):
        pipeline(graph, cluster, microbatches=5)
    with pytest.raises(SimvizError, match="there is no order 'pipedream'"):
        pipeline(graph, cluster, microbatches=4, order="pipedream")  # type: ignore[arg-type]
    with pytest.raises(SimvizError, match="1 microbatches are not possible"):
        pipeline(graph, cluster, microbatches=1)
    with pytest.raises(ClusterError, match="too few for 3 stages; ask for fewer"):
        pipeline(graph, cluster, microbatches=4, stages=3)
    with pytest.raises(SimvizError, match="a forward pass of 1 op makes no 2 stages; ask for fewer"):
        pipeline(chain(1, 12), cluster, microbatches=4)
    with pytest.raises(GraphError, match="give the batch"):
        pipeline(momentum(), cluster, microbatches=2)


def test_row_splits_of_ragged_tensors_are_not_divided() -> None:
    rows = Rows()
    rows.add("values", "Placeholder", dtype=type_attr(), shape=shape_attr(-1))
    rows.add("splits", "Placeholder", dtype=type_attr(9), shape=shape_attr(-1))
    rows.add("sparse", "RaggedTensorToSparse", ["splits", "values"], RAGGED_RANK=AttrValue(i=1), T=type_attr())
    rows.add("w", "VariableV2", dtype=type_attr(), shape=shape_attr())
    rows.add("sum", "Sum", ["sparse:1", "axis"], T=type_attr(), Tidx=type_attr(3))
    rows.add("axis", "Const", dtype=type_attr(3), value=typed("Const")["value"])
    rows.add("gradient", "Mul", ["sum", "w"], T=type_attr())
    rows.add("rate", "Const", **typed("Const", ()))
    rows.add("update", "ApplyGradientDescent", ["w", "rate", "gradient"], T=type_attr())
    with pytest.raises(GraphError, match="'splits:0' are the row splits of a ragged tensor"):
        pipeline(with_shapes(rows.built(), batch=8), load_cluster("2gpu"), microbatches=2)


@pytest.mark.parametrize("asking", ["w1/slot", "update1", "w1"])
def test_slots_and_updates_stand_beside_their_variable_whatever_they_ask_for(asking: str) -> None:
    """A function that was traced without a GPU has its slots on a CPU, and its pipeline could not be placed."""
    given = chain(2, 4, slots=True)
    graph = replace(given, requested=tuple("/device:CPU:0" if name == asking else "" for name in given.names))
    made = pipeline(graph, load_cluster("2gpu"), microbatches=2).graph
    beside = {made.requested[made.row(name)] for name in ("w1", "w1/slot", "update1")}
    assert len(beside) == 1
    assert ("CPU" in beside.pop()) == (asking == "w1")


@pytest.mark.parametrize("order", ORDERS)
def test_an_identity_of_all_gradients_takes_no_time(order: Order) -> None:
    """Each microbatch sent the gradients of all stages to the last one and back: twice the time of a network."""
    plain, hub = (
        pipeline(chain(4, 8, hub=hub, width=256), load_cluster("2gpu"), microbatches=4, order=order)
        for hub in (False, True)
    )
    assert "IdentityN" not in hub.graph.ops
    times = [played(made, load_cluster("2gpu"), estimate)[1].makespan for made in (plain, hub)]
    assert times[1] <= 1.01 * times[0]


def test_a_fetched_identity_of_all_gradients_stays() -> None:
    made = pipeline(chain(4, 8, hub=True), at_hand(2), microbatches=2, fetch=["train", "hub:1"])
    assert "hub:1" in made.fetches
