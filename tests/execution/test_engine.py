"""The event loop: stories worked by hand, and relations that hold for every graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.protocols import Protocol
from simulator.columns import ids
from simulator.costs.table import MAX_OP_NS
from simulator.errors import ClusterError, DeadlockError, InfeasibleError, SimvizError
from simulator.execution.engine import StepRun, makespan, run
from simulator.execution.tables import Tables, of_step
from tests.execution.cases import apart, attrs_of, cluster, costs, dags, runs, steps, whole
from tests.strategies import Rows, graphs, shapes_attr, type_attr, typed


def story(*nodes: str, size: int = 25) -> Rows:
    """ "c = AddN a b ^x" per node; outputs are float vectors of `size` elements (25: 100 bytes)."""
    draft = Rows()
    for node in nodes:
        name, _, rest = node.partition(" = ")
        op, *inputs = rest.split()
        draft.add(name, op, inputs, **attrs_of(op, len([i for i in inputs if i[0] != "^"]), size))
    return draft


def table(draft: Rows, on: Cluster, run_ns: object = 10) -> Tables:
    graph = draft.built()
    return of_step(graph, whole(graph), on, costs(graph, on, run_ns))  # type: ignore[arg-type]  # times as a test has them


def ends(tables: Tables, outcome: StepRun) -> dict[str, int]:
    return dict(zip(tables.names, outcome.end_ns.tolist(), strict=True))


def test_one_lane_serves_in_order_of_readiness_then_row() -> None:
    tables = table(story("x = Const", "late = Neg slow", "slow = Neg x", "b = Neg x"), apart(1), [0, 10, 5, 10])
    assert ends(tables, run(tables, [0, 0, 0, 0])) == {"x": 0, "slow": 5, "b": 15, "late": 25}


def test_priority_comes_before_readiness_and_row_breaks_its_ties() -> None:
    tables = table(story("x = Const", "a = Neg x", "b = Neg x", "c = Neg x", "d = Neg b"), apart(1))
    outcome = run(tables, [0] * 5, priority=[0, 5, 1, 5, 2])
    assert ends(tables, outcome) == {"x": 0, "b": 10, "d": 20, "a": 30, "c": 40}


def test_lanes_run_side_by_side_and_the_lowest_idle_one_is_taken() -> None:
    tables = table(story("x = Const", *(f"n{i} = Neg x" for i in range(3))), apart(1, lanes=2), [0, 7, 3, 5])
    outcome = run(tables, [0] * 4)
    assert outcome.start_ns.tolist() == [0, 0, 0, 3]
    assert outcome.tasks.lane[:4].tolist() == [-1, 0, 1, 1]


def test_a_transfer_takes_latency_and_bytes() -> None:
    tables = table(story("x = Const", "a = Neg x", "b = Neg a"), apart(2))
    assert run(tables, [0, 0, 1]).start_ns.tolist() == [0, 0, 10 + 100 + 100]


def test_readers_on_one_device_share_a_transfer() -> None:
    tables = table(story("x = Const", "a = Neg x", "b = Neg a", "c = Neg a", "d = Neg a"), apart(3, shared=True))
    outcome = run(tables, [0, 0, 1, 1, 2])
    assert outcome.transfers.target.tolist() == [1, 2]
    assert outcome.moments.sent_ns.tolist() == [10, 110]  # one after the other on the shared link
    assert outcome.end_ns.tolist() == [0, 10, 220, 230, 320]


def test_transfers_of_one_instant_go_by_tensor_then_device() -> None:
    nodes = ("x = Const", "a = Neg x", "b = Neg x", "to_b = Neg b", "to_a = Neg a", "after_a = Neg x ^a")
    tables = table(story(*nodes), apart(3, shared=True, lanes=4))
    outcome = run(tables, [0, 0, 0, 1, 2, 1])
    # x to device 1 at once; at 10 the bus is taken till 100: then a to 2, a's control to 1, and, as that holds nothing,
    # b to 1
    assert outcome.transfers.target.tolist() == [1, 2, 1, 1]
    assert outcome.moments.asked_ns.tolist() == [0, 10, 10, 10]
    assert outcome.moments.sent_ns.tolist() == [0, 100, 200, 200]


def test_a_route_holds_each_of_its_links_for_its_own_time() -> None:
    links = [Link("a", 10, 10**9), Link("switch", 10, 10**8), Link("c", 10, 10**9)]
    routes = {(0, 1): (0, 1), (0, 2): (0, 2), (1, 2): (1, 2)}
    names = ["a:0/CPU:0", "b:0/CPU:0", "c:0/CPU:0"]
    tables = table(story("x = Const", "b = Neg x", "c = Neg x"), cluster(names, links, routes))
    outcome = run(tables, [0, 1, 2])
    assert outcome.moments.sent_ns.tolist() == [0, 100]  # the first link has had its time with the first by then
    assert outcome.moments.arrived_ns.tolist() == [1000 + 20, 100 + 100 + 20]


def test_the_latency_of_a_transfer_keeps_no_link_from_others() -> None:
    """A server sends a hundred messages of one byte to each of two workers: 110 us each, and all in the air at once."""
    links = [Link("nic out", 1_000, 10**9), *(Link(f"nic in {at}", 1_000, 10**9) for at in range(2))]
    on = cluster(["ps:0/CPU:0", "w:0/CPU:0", "w:1/CPU:0"], links, {(0, 1): (0, 1), (0, 2): (0, 2)})
    on = replace(on, between_tasks=Protocol("grpc", latency_ns=108_000))
    made = Rows()
    for at in range(200):
        made.add(f"x{at}", "Const", **attrs_of("Const", 1, 1))
        made.add(f"y{at}", "Neg", [f"x{at}"], **attrs_of("Neg", 1, 1))
    graph = made.built()
    rows = [0 if name.startswith("x") else 1 + int(name[1:]) % 2 for name in graph.names]
    nbytes = graph.tensor_bytes.max()
    outcome = run(of_step(graph, whole(graph), on, costs(graph, on, 0)), rows)
    assert outcome.moments.sent_ns.tolist() == [nbytes * at for at in range(200)]
    assert outcome.makespan == 200 * nbytes + 110_000


def test_between_cpus_of_a_process_a_reference_is_handed_over() -> None:
    tables = table(story("x = Const", "a = Neg x", size=10**6), cluster(["w:0/CPU:0", "w:0/CPU:1"]))
    assert run(tables, [0, 1]).start_ns.tolist() == [0, 7]


def test_a_merge_starts_at_its_first_value_but_waits_for_control() -> None:
    nodes = ("x = Const", "a = Neg x", "b = Neg a", "m = Merge b a", "n = Merge b a ^b")
    tables = table(story(*nodes), apart(1, lanes=4))
    assert run(tables, [0] * 5).start_ns.tolist() == [0, 0, 10, 10, 20]


def test_ops_of_no_length_follow_each_other_within_an_instant() -> None:
    tables = table(story("x = Const", "a = Neg x", "b = Neg a", "c = Neg b"), apart(1), [0, 0, 0, 5])
    assert run(tables, [0] * 4).end_ns.tolist() == [0, 0, 0, 5]


def test_instant_ops_take_no_lane() -> None:
    tables = table(story("x = Const", "a = Neg x", "group = NoOp ^x", "b = Neg a ^group"), apart(1))
    outcome = run(tables, [0] * 4)
    assert outcome.end_ns.tolist() == [0, 10, 0, 20]


def test_a_gpu_that_reads_in_both_memories_gets_the_value_twice() -> None:
    draft = Rows()
    draft.add("x", "Const", dtype=type_attr(3), _output_shapes=shapes_attr((4,)))
    draft.add("values", "Const", **attrs_of("Const", 1, 4))
    draft.add("reshape", "Reshape", ["values", "x"], T=type_attr(), Tshape=type_attr(3))  # the shape in host memory
    draft.add("copy", "Snapshot", ["x"], T=type_attr(3))
    on = cluster(["w:0/CPU:0", "w:0/GPU:0"])
    outcome = run(table(draft, on, [[0, 0]] * 2 + [[1, 1]] * 2), [0, 1, 1, 1])
    assert outcome.transfers.host.tolist() == [False, True]
    assert len(run(table(draft, on, [[0, 0]] * 2 + [[1, 1]] * 2), [1, 0, 0, 0]).transfers) == 1  # a CPU has one memory


def test_readers_of_a_reference_share_nothing() -> None:
    draft = Rows()
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    draft.add("a", "Mul", ["v", "v"], **typed("Mul", (25,)))
    draft.add("b", "Neg", ["v"], **typed("Neg", (25,)))
    assert len(run(table(draft, apart(2)), [0, 1, 1]).transfers) == 3  # Mul reads it twice


def test_small_constants_are_copied_to_their_readers() -> None:
    draft = Rows()
    draft.add("k", "Const", **typed("Const", (4,)))
    draft.add("a", "Neg", ["k"], **typed("Neg", (4,)))
    draft.add("b", "Neg", ["k"], **typed("Neg", (4,)))
    tables = table(draft, apart(3))
    assert len(run(tables, [0, 1, 2]).transfers) == 0
    assert len(run(tables, [0, 1, 1]).transfers) == 1  # one place only: sent like any other value


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_search_gets_the_makespan_of_the_record(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    on, priced, rows = data.draw(runs(graph))
    tables = of_step(graph, data.draw(steps(graph)), on, priced)
    device = tables.placed(ids(rows))
    priority = data.draw(st.none() | st.lists(st.integers(0, 3), min_size=len(tables), max_size=len(tables)))
    outcome = run(tables, device, priority)
    assert makespan(tables, device, priority) == outcome.makespan
    assert outcome.makespan == max(outcome.end_ns.max(initial=0), outcome.moments.unpacked_ns.max(initial=0))


@settings(deadline=None, max_examples=25)
@given(st.data(), st.integers(2, 1000))
def test_time_scales(data: st.DataObject, factor: int) -> None:
    graph = data.draw(dags())
    on, priced, rows = data.draw(runs(graph))
    on = replace(on, devices=tuple(replace(device, chip=None) for device in on.devices))  # a look does not scale
    tables = of_step(graph, whole(graph), on, priced)
    whole_ns = replace(tables, tensor_bytes=tables.tensor_bytes * 10)  # all rates divide 10 ** 10 bytes per second
    longer = replace(
        whole_ns,
        kind_ns=tables.kind_ns * factor,
        routes=replace(
            tables.routes,
            **{
                name: getattr(tables.routes, name) * factor
                for name in ("latency_ns", "request_ns", "send_ns", "receive_ns")
            },
        ),
        tensor_bytes=whole_ns.tensor_bytes * factor,
    )
    assert makespan(longer, rows) == factor * makespan(whole_ns, rows)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_names_change_nothing(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, rows = data.draw(runs(graph))
    renamed = Rows(
        [name[::-1] + "z" for name in graph.names],
        list(graph.ops),
        list(graph.requested),
        [["^" * (i[0] == "^") + rename(i.lstrip("^")) for i in graph.inputs_of(row)] for row in range(len(graph))],
        [dict(attrs) for attrs in graph.attrs],
    ).built()
    before = run(of_step(graph, whole(graph), on, priced), rows)
    after = run(of_step(renamed, whole(renamed), on, priced), rows)
    assert before.start_ns.tolist() == after.start_ns.tolist()


def rename(value: str) -> str:
    name, colon, port = value.partition(":")
    return name[::-1] + "z" + colon + port


def test_more_lanes_than_work_and_free_transfers_give_the_critical_path() -> None:
    tables = table(story("x = Const", "a = Neg x", "b = Neg a", "c = AddN a b"), apart(1, lanes=9), [0, 3, 5, 7])
    assert makespan(tables, [0] * 4) == 15


@pytest.mark.parametrize(
    ("device", "error", "sentence"),
    [
        ([0], SimvizError, "1 devices for 2 ops"),
        ([0, 2], SimvizError, "'a' is on device 2; the cluster has 2"),
        ([0, -1], SimvizError, "'a' is on device -1"),
    ],
)
def test_a_wrong_assignment_is_refused(device: list[int], error: type[Exception], sentence: str) -> None:
    tables = table(story("x = Const", "a = Neg x"), apart(2))
    with pytest.raises(error, match=sentence):
        run(tables, device)
    with pytest.raises(SimvizError, match="1 priorities for 2 ops"):
        run(tables, [0, 0], [1])


def test_a_device_without_a_kernel_is_refused() -> None:
    on = cluster(["w:0/CPU:0", "w:0/GPU:0"])
    tables = table(story("x = Const", "a = Neg x"), on, [[0, 0], [5, -1]])
    with pytest.raises(InfeasibleError, match=r"'a' has no kernel for /job:w.*GPU:0"):
        run(tables, [0, 1])


def test_devices_without_a_route_are_both_named() -> None:
    tables = table(story("x = Const", "a = Neg x"), cluster(["a:0/CPU:0", "b:0/CPU:0"], (), {(0, 1): None}))
    with pytest.raises(ClusterError, match=r"no route from /job:a/.* to /job:b/.* output of 'x'"):
        run(tables, [0, 1])
    assert makespan(tables, [0, 0]) == 10


def test_times_that_would_overflow_are_refused() -> None:
    many = 2**61 // MAX_OP_NS + 1
    tables = table(story("x = Const", *(f"a{row} = Neg x" for row in range(many))), apart(1), MAX_OP_NS)
    with pytest.raises(SimvizError, match="add up to more than"):
        run(tables, [0] * (many + 1))


def test_bytes_beyond_64_bits_of_nanoseconds_are_exact() -> None:
    tables = table(story("x = Const", "a = Neg x", size=10**10), apart(2), 0)
    assert makespan(tables, [0, 1]) == 100 + 4 * 10**10


@pytest.mark.parametrize(("latency", "rate"), [(-1, 10**9), (0, 0), (0, -5)])
def test_an_impossible_link_is_refused(latency: int, rate: int) -> None:
    with pytest.raises(ClusterError, match="'bad'"):
        table(story("x = Const"), cluster(["a:0/CPU:0"], [Link("bad", latency, rate)]))


def test_a_device_without_lanes_is_refused() -> None:
    with pytest.raises(ClusterError, match="has 0 lanes"):
        table(story("x = Const"), apart(1, lanes=0))


def test_costs_of_another_graph_or_cluster_are_refused() -> None:
    small, large = story("x = Const").built(), story("x = Const", "a = Neg x").built()
    with pytest.raises(SimvizError, match="of a graph of 1 nodes, not of this one of 2"):
        of_step(large, whole(large), apart(1), costs(small, apart(1)))
    with pytest.raises(SimvizError, match="of a graph of 2 nodes, not of this one of 1"):
        of_step(small, whole(small), apart(1), costs(large, apart(1)))
    with pytest.raises(ClusterError, match="no column for 'GPU'"):
        of_step(large, whole(large), cluster(["w:0/CPU:0", "w:0/GPU:0"]), costs(large, apart(1)))


def test_nodes_that_wait_for_each_other_are_named() -> None:
    tables = table(story("x = Const", "a = Neg x", "b = Neg a"), apart(1))
    turned = replace(tables, consumer=ids([2, 1]), in_edge=ids([1, 0]))  # x -> b, a -> a
    with pytest.raises(DeadlockError, match=r"1 of 3 nodes never start.*'a' waits for 'a'") as caught:
        run(turned, [0, 0, 0])
    assert list(caught.value.waiting) == ["a"]


def test_an_empty_step_takes_no_time() -> None:
    graph = story("x = Const").built()
    nothing = replace(whole(graph), feeds=(), runs=np.zeros(1, bool))
    assert makespan(of_step(graph, nothing, apart(2), costs(graph, apart(2))), []) == 0
