"""Memory over time: worked by hand, what was alive at the peak, and what happens when there is not enough."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.columns import ids
from simulator.costs.estimate import estimate
from simulator.errors import SimvizError
from simulator.execution.memory import Live, Peak, at_peak, out_of_memory
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.graph.handing_on import COPIED, NONE
from simulator.graph.messages import AttrValue
from simulator.partitioning.cut import partition
from simulator.partitioning.partitions import Partitions
from tests.execution.cases import apart, assigned, attrs_of, cluster, costs, dags, runs, whole
from tests.execution.test_engine import story
from tests.strategies import INT32, Rows, loop, shapes_attr, type_attr, typed


def simulated(graph: Graph, on: Cluster, rows: list[int], **rest: list[int]) -> tuple[Trace, Partitions]:
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))
    return simulate(pieces, on, costs(graph, on, 10, **rest)), pieces


def curve(trace: Trace, device: int) -> list[tuple[int, int]]:
    mine = trace.memory_device == device
    return list(zip(trace.memory_time_ns[mine].tolist(), trace.memory_bytes[mine].tolist(), strict=True))


def test_an_output_lives_from_its_producers_start_to_its_last_readers_end() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a", "c = AddN a b").built()
    trace, _ = simulated(graph, apart(1), [0] * 4)
    # x, which the client keeps, and a; then b, too, over which c is written
    assert curve(trace, 0) == [(0, 200), (10, 300), (30, 0)]
    assert trace.peak_ns is not None
    assert (trace.peak_bytes[0], trace.peak_ns[0]) == (300, 10)


def test_a_received_copy_takes_memory_where_it_arrives() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a").built()
    trace, _ = simulated(graph, apart(2), [0, 0, 1])
    assert curve(trace, 0) == [(0, 200), (210, 100), (220, 0)]  # a stays until it is sent
    assert curve(trace, 1) == [(10, 100), (220, 0)]  # b is written over the copy


def test_a_hand_over_makes_no_copy() -> None:
    graph = story("x = Placeholder", "a = Neg x").built()
    trace, _ = simulated(graph, cluster(["w:0/CPU:0", "w:0/CPU:1"]), [0, 1])
    assert curve(trace, 0) == [(0, 100), (17, 0)]  # x stays until its reader on the other device is done
    assert curve(trace, 1) == [(7, 100), (17, 0)]  # what a makes


def test_an_op_that_changes_nothing_takes_no_kernel_and_no_memory() -> None:
    graph, on = story("x = Placeholder", "a = AddN x", "b = AddN a", "c = AddN a b").built(), apart(1)
    priced = estimate(graph, on)
    run_ns = priced.run_ns[:, 0].tolist()
    assert run_ns[0] == run_ns[1] == run_ns[2] < run_ns[3]
    pieces = partition(graph, assigned(on, [0] * 4), on, legal=False, step=whole(graph))
    trace = simulate(pieces, on, replace(costs(graph, on, 10), handed_on=priced.handed_on))
    assert curve(trace, 0) == [(0, 100), (20, 200), (30, 0)]


def test_a_cut_hands_on_what_the_price_does() -> None:
    """An order that is a constant on another device is no constant of the cut any more, but still the same order."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (4, 1, 4)))
    order = AttrValue()
    order.tensor.dtype = INT32
    order.tensor.tensor_shape.dim.add(size=3)
    order.tensor.int_val.extend([1, 0, 2])
    made.add("order", "Const", dtype=type_attr(INT32), value=order, _output_shapes=shapes_attr((3,)))
    kinds = {"T": type_attr(), "Tperm": type_attr(INT32)}
    made.add("turned", "Transpose", ["x:0", "order:0"], **kinds, _output_shapes=shapes_attr((1, 4, 4)))
    made.add("end", "Neg", ["turned:0"], **typed("Neg", (1, 4, 4)))
    graph, on = made.built(), apart(2)
    peaks = []
    for of_order in (0, 1):
        pieces = partition(graph, assigned(on, [0, of_order, 0, 0]), on, legal=False, step=whole(graph))
        trace = simulate(pieces, on, estimate(graph, on))
        assert trace.peak_bytes is not None
        peaks.append(int(trace.peak_bytes[0]) // 64)
    assert peaks == [2, 2]  # x, which is handed on, and what `end` makes


def test_what_passes_a_buffer_on_takes_none() -> None:
    graph = story("x = Placeholder", "a = Identity x", "b = Identity a", "c = Neg b").built()
    trace, _ = simulated(graph, apart(1), [0] * 4)
    assert curve(trace, 0) == [(0, 100), (20, 200), (30, 0)]


def test_every_copy_of_a_constant_is_resident() -> None:
    draft = Rows()
    draft.add("c", "Const", **typed("Const", (4,)))
    for reader in ("a", "b", "d"):
        draft.add(reader, "Neg", ["c"], **typed("Neg", (4,)))
    graph = draft.built()
    held = [16, 0, 0, 0]
    trace, _ = simulated(graph, apart(3), [0, 1, 2, 2], resident=held)
    assert trace.resident_bytes.tolist() == [0, 16, 16]  # none stays where nobody reads it
    trace, _ = simulated(graph, apart(3), [0, 1, 1, 1], resident=held)
    assert trace.resident_bytes.tolist() == [16, 0, 0]  # one reading device: it is sent


def test_variables_are_resident_and_reading_them_is_free() -> None:
    draft = Rows()
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    draft.add("read", "Identity", ["v"], **typed("Identity", (25,)))
    draft.add("a", "Neg", ["read"], **typed("Neg", (25,)))
    trace, _ = simulated(draft.built(), apart(1), [0] * 3, resident=[100, 0, 0])
    assert trace.resident_bytes.tolist() == [100]
    assert curve(trace, 0) == [(20, 200), (30, 100)]


@pytest.mark.parametrize(("handed", "most"), [(NONE, 100), (COPIED, 200)])
def test_a_read_that_copies_its_variable_holds_the_copy_although_nobody_reads_it(handed: int, most: int) -> None:
    draft = Rows()
    draft.add("v", "VarHandleOp", dtype=type_attr())
    draft.add("read", "ReadVariableOp", ["v"], dtype=type_attr(), _output_shapes=shapes_attr((25,)))
    graph, on = draft.built(), apart(1)
    pieces = partition(graph, assigned(on, [0, 0]), on, legal=False, step=whole(graph))
    prices = replace(costs(graph, on, 10, resident=[100, 0]), handed_on=ids([NONE, handed]))
    assert simulate(pieces, on, prices).peak_bytes.tolist() == [most]


def test_scratch_is_held_while_the_op_runs() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a").built()
    trace, _ = simulated(graph, apart(1), [0] * 3, scratch=[0, 1000, 0])
    assert curve(trace, 0) == [(0, 1200), (10, 200), (20, 0)]


def test_a_loop_holds_what_it_passes_on_and_what_it_makes_of_it() -> None:
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", ()))
    loop(draft, start="x")
    graph = draft.built()
    pieces = partition(graph, assigned(apart(1), [0] * len(graph)), apart(1), step=whole(graph))
    trace = simulate(pieces, apart(1), costs(graph, apart(1), 10), SimulationOptions(trips={"*": 3}))
    # x stays; what Neg makes goes round until Neg has read it, 110 to 120, and the last of it until Exit ends. Nobody
    # knows the size of what the Switch passes on, so nothing is written over it
    assert curve(trace, 0) == [(0, 4), (50, 8), (110, 12), (120, 8), (170, 12), (180, 8), (240, 0)]

    rows = [int(name == "while/Neg") for name in graph.names]
    pieces = partition(graph, assigned(apart(2), rows), apart(2), step=whole(graph))
    trace = simulate(pieces, apart(2), costs(graph, apart(2), 10), SimulationOptions(trips={"*": 3}))
    # the predicate takes 100 ns, 40 to 140, and what the Switch passes on, whose size nobody knows, does not wait for
    # it: x is sent at 150; what Neg makes takes 104 ns to come back, is held on both sides of the wire, and
    # goes round again
    assert curve(trace, 0) == [(0, 4), (160, 8), (414, 4), (424, 8), (678, 4), (688, 8), (852, 4), (1042, 0)]
    assert curve(trace, 1) == [(150, 4), (264, 0), (414, 4), (528, 0), (678, 4), (792, 0)]


def test_a_peak_says_what_was_alive_and_who_asked() -> None:
    draft = Rows()
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    draft.add("x", "Placeholder", **typed("Placeholder", (50,)))
    draft.add("a", "AddV2", ["v", "x"], **typed("AddV2", (75,)))
    draft.add("b", "Neg", ["a"], **typed("Neg", (25,)))
    draft.add("c", "Neg", ["b"], **typed("Neg", (25,)))
    rest = {"resident": [100, 0, 0, 0, 0], "scratch": [0, 0, 0, 7, 0]}
    trace, pieces = simulated(draft.built(), apart(2), [0, 1, 1, 1, 1], **rest)
    found = at_peak(trace, pieces, 1)
    # x is fed on the client's device, the first, and comes at 300, v after it at 500
    assert (found.time_ns, found.nbytes, found.cause, found.cause_bytes) == (500, 600, "a", 300)
    live = [("a:0", 300, "output"), ("_recv_x_0:0", 200, "received"), ("v:0", 100, "received")]
    assert [(one.what, one.nbytes, one.kind) for one in found.live] == live


def test_a_peak_counts_scratch_and_what_is_resident_and_ties_go_to_the_transfer() -> None:
    draft = Rows()
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    draft.add("r", "Identity", ["v"], **typed("Identity", (25,)))
    draft.add("a", "Neg", ["r"], **typed("Neg", (25,)))
    draft.add("y", "Placeholder", **typed("Placeholder", (25,)))
    draft.add("b", "Neg", ["y"], **typed("Neg", (25,)))
    trace, pieces = simulated(draft.built(), apart(1), [0] * 5, resident=[100, 0, 0, 0, 0], scratch=[0, 0, 0, 0, 8])
    found = at_peak(trace, pieces, 0)
    assert (found.nbytes, found.cause) == (trace.peak_bytes[0], "b")
    assert [str(one) for one in found.live] == ["b (scratch)", "v (resident)", "_arg_y_0_0:0 (fed)"]
    assert sum(one.nbytes for one in found.live) == found.nbytes


def test_a_device_that_only_holds_variables_has_no_cause() -> None:
    draft = Rows()
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    draft.add("w", "VariableV2", **typed("VariableV2", (50,)))
    trace, pieces = simulated(draft.built(), apart(1), [0, 0], resident=[100, 200])
    assert at_peak(trace, pieces, 0) == Peak(
        0, 300, "", 0, (Live("w", 200, "resident", 1), Live("v", 100, "resident", 0))
    )


def test_a_trace_that_does_not_say_whose_memory_it_holds_is_refused() -> None:
    trace, pieces = simulated(story("x = Placeholder", "a = Neg x").built(), apart(1), [0, 0])
    with pytest.raises(SimvizError, match="does not say whose memory"):
        at_peak(replace(trace, allocations=None), pieces, 0)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_what_is_alive_at_a_peak_adds_up_to_it(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, rows = data.draw(runs(graph))
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))
    trace = simulate(pieces, on, priced)
    for device in range(len(on)):
        found = at_peak(trace, pieces, device)
        assert found.nbytes == trace.peak_bytes[device] == sum(one.nbytes for one in found.live)
        assert (found.cause == "") == (found.nbytes == trace.resident_bytes[device])


def test_too_little_memory_is_an_error_with_its_facts() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a", "c = AddN a b").built()
    on = apart(1, memory=250)
    trace, pieces = simulated(graph, on, [0] * 4)
    error = out_of_memory(trace, pieces, on)
    assert error is not None
    assert (error.time_ns, error.needed_bytes, error.free_bytes) == (10, 100, 50)
    assert error.live == (("a:0", 100), ("b:0", 100), ("_arg_x_0_0:0 (fed)", 100))
    assert str(error) == (
        f"{on.devices[0].name} runs out of memory after 10 ns: b needs 100 B and 50 B of 250 B are free, 0 B being "
        "resident. Largest: a:0 100 B, b:0 100 B, _arg_x_0_0:0 (fed) 100 B. Use more devices or a smaller batch."
    )


def test_a_received_copy_can_be_too_much() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a").built()
    on = apart(2, memory=99)
    trace, pieces = simulated(graph, apart(2), [0, 0, 1])
    error = out_of_memory(trace, pieces, on)
    assert error is not None
    assert error.device == on.devices[0].name  # the first moment, whatever comes later elsewhere
    assert "what is fed as _recv_x_0 needs 100 B and 99 B of 99 B are free" in str(error)
    roomy = replace(on, devices=(apart(2, memory=200).devices[0], on.devices[1]))
    error = out_of_memory(trace, pieces, roomy)
    assert error is not None
    assert (error.device, error.time_ns) == (on.devices[1].name, 10)
    assert f"the copy of a:0 from {on.devices[0].name} needs 100 B and 99 B of 99 B are free" in str(error)
    assert error.live == (("a:0 (received)", 100),)
    assert out_of_memory(trace, pieces, apart(2, memory=200)) is None


def test_of_what_begins_at_one_moment_the_first_that_does_not_fit_is_named() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg x", "c = AddN a b").built()
    trace, pieces = simulated(graph, apart(1, lanes=2), [0] * 4, scratch=[0, 60, 500, 0])
    error = out_of_memory(trace, pieces, apart(1, lanes=2, memory=800))
    assert error is not None
    assert (error.needed_bytes, error.free_bytes) == (600, 540)  # b's; a's 160 are there already
    names = ["b (scratch)", "a:0", "b:0", "_arg_x_0_0:0 (fed)", "a (scratch)"]
    assert error.live == tuple(zip(names, (500, 100, 100, 100, 60), strict=True))


def test_variables_that_do_not_fit_are_said_first() -> None:
    draft = Rows()
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    trace, pieces = simulated(draft.built(), apart(1, memory=99), [0], resident=[100])
    error = out_of_memory(trace, pieces, apart(1, memory=99))
    assert error is not None
    assert "variables and constants alone take 100 B; the largest: v (resident) 100 B" in str(error)
    assert error.live == (("v (resident)", 100),)


def test_the_number_of_a_merges_input_is_no_view_of_it() -> None:
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", (25,)))
    draft.add("a", "Neg", ["x"], **typed("Neg", (25,)))
    draft.add("m", "Merge", ["a", "a"], **attrs_of("Merge", 2, 25))
    draft.add("n", "Identity", ["m:1"], **typed("Identity", ()))
    draft.add("c", "Neg", ["n"], **typed("Neg", ()))
    trace, pieces = simulated(draft.built(), apart(1), [0] * 5)
    assert curve(trace, 0) == [(0, 200), (10, 204), (20, 104), (40, 0)]  # x, a; x, a, m:1; x, m:1, then c over it
    assert pieces.graph.tensor_bytes[pieces.graph.tensor_ptr[pieces.graph.row("m")] + 1] == 4


@pytest.mark.parametrize("order", ["b a", "a b"])
def test_a_merge_keeps_the_buffer_that_came_first(order: str) -> None:
    nodes = ("x = Placeholder", "a = Neg x", "b = Neg x", f"m = Merge {order}", "c = Neg m", "d = Neg c")
    graph = story(*nodes).built()
    trace, pieces = simulated(graph, apart(1), [0] * 6)
    assert trace.allocations is not None
    cut = pieces.graph
    first = trace.allocations.tensor.tolist().index(
        int(cut.tensor_ptr[cut.row("a")])
    )  # a ends at 10, m reads it, then c, which is written over it, and so is d
    assert trace.ops.end_ns[trace.ops.node.tolist().index(cut.row("d"))] == trace.allocations.end_ns[first]
