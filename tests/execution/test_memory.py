"""Memory over time: worked by hand, recounted instant by instant, and what happens when it is not enough."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.execution.memory import out_of_memory
from simulator.execution.simulate import simulate
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.partitioning import Partitions, partition
from tests.execution.cases import apart, assigned, cluster, costs, dags, runs, whole
from tests.execution.test_engine import story
from tests.strategies import Rows, typed


def simulated(graph: Graph, on: Cluster, rows: list[int], **rest: list[int]) -> tuple[Trace, Partitions]:
    pieces = partition(graph, assigned(on, rows), on, step=whole(graph))
    return simulate(pieces, on, costs(graph, on, 10, **rest)), pieces


def curve(trace: Trace, device: int) -> list[tuple[int, int]]:
    mine = trace.memory_device == device
    return list(zip(trace.memory_time_ns[mine].tolist(), trace.memory_bytes[mine].tolist(), strict=True))


def test_an_output_lives_from_its_producers_start_to_its_last_readers_end() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a", "c = AddN a b").built()
    trace, _ = simulated(graph, apart(1), [0] * 4)
    # x and a; then a and b; then a, b and the unread output of c
    assert curve(trace, 0) == [(0, 200), (10, 200), (20, 300), (30, 0)]
    assert (trace.peak_bytes[0], trace.peak_ns[0]) == (300, 20)


def test_a_received_copy_takes_memory_where_it_arrives() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a").built()
    trace, _ = simulated(graph, apart(2), [0, 0, 1])
    assert curve(trace, 0) == [(0, 200), (10, 100), (210, 0)]  # a stays until it is sent
    assert curve(trace, 1) == [(10, 100), (210, 200), (220, 0)]


def test_a_hand_over_makes_no_copy() -> None:
    graph = story("x = Placeholder", "a = Neg x").built()
    trace, _ = simulated(graph, cluster(["w:0/CPU:0", "w:0/CPU:1"]), [0, 1])
    assert curve(trace, 0) == [(0, 100), (17, 0)]  # x stays until its reader on the other device is done
    assert curve(trace, 1) == [(7, 100), (17, 0)]  # what a makes


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


def test_scratch_is_held_while_the_op_runs() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a").built()
    trace, _ = simulated(graph, apart(1), [0] * 3, scratch=[0, 1000, 0])
    assert curve(trace, 0) == [(0, 1200), (10, 200), (20, 0)]


def recount(trace: Trace, pieces: Partitions, sizes: list[int], on: Cluster) -> dict[int, set[int]]:
    """Bytes that each device holds after each change, from slices and transfers, instant by instant.

    For graphs of ops that own their outputs, with nothing of no length.
    """
    graph, end = pieces.graph, dict(zip(trace.node.tolist(), trace.end_ns.tolist(), strict=True))
    start = dict(zip(trace.node.tolist(), trace.start_ns.tolist(), strict=True))
    transfer_of = {send: row for row, send in enumerate(pieces.send.tolist())}
    lives: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for tensor in range(len(graph.tensor_node)):
        node, nbytes = int(graph.tensor_node[tensor]), max(int(graph.tensor_bytes[tensor]), 0)
        readers = [int(graph.edge_dst[e]) for e in range(len(graph.edge_dst)) if graph.edge_tensor[e] == tensor]
        sent = [transfer_of[r] for r in readers if r in transfer_of]
        if node in pieces.recv:
            row = pieces.recv.tolist().index(node)
            if not on.routes[pieces.src_device[row]][pieces.dst_device[row]]:
                continue  # handed over: counted with its source
            born = int(trace.transfer_start_ns[row])
            last = int(trace.transfer_end_ns[row])
        elif node in start:
            born, last = start[node], end[node]
        elif pieces.endpoint[node] >= 0:
            born = last = 0  # fed
        else:
            continue
        for row in sent:
            last = max(last, int(trace.transfer_end_ns[row]))
            if not on.routes[pieces.src_device[row]][pieces.dst_device[row]]:
                readers += [
                    int(graph.edge_dst[e])
                    for e in range(len(graph.edge_dst))
                    if graph.edge_src[e] == pieces.recv[row] and graph.edge_tensor[e] >= 0
                ]
        last = max([last, *(end[r] for r in readers if r in end)])
        lives[int(pieces.device[node])].append((born, last, nbytes))
    for node in start:
        lives[int(pieces.device[node])].append((start[node], end[node], sizes[int(pieces.origin[node])]))
    return {
        device: {(t, sum(b for s, e, b in rows if s <= t < e)) for t in {t for s, e, _ in rows for t in (s, e)}}
        for device, rows in lives.items()
    }


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_memory_equals_a_recount_from_the_trace(data: st.DataObject) -> None:
    graph = data.draw(dags(ops=("AddN", "Unpack", "NoOp"), source="Placeholder"))
    on, priced, rows = data.draw(runs(graph))
    priced = costs(graph, on, priced.run_ns + 1, scratch=priced.scratch_bytes)
    pieces = partition(graph, assigned(on, rows), on, step=whole(graph))
    trace = simulate(pieces, on, priced)
    counted = recount(trace, pieces, priced.scratch_bytes.tolist(), on)
    for device in range(len(on)):
        ours = curve(trace, device)
        assert set(ours) <= counted.get(device, set())
        highest = max((held for _, held in counted.get(device, set())), default=0)
        assert trace.peak_bytes[device] >= highest
        assert max((held for _, held in ours), default=0) == highest


def test_too_little_memory_is_an_error_with_its_facts() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a", "c = AddN a b").built()
    on = apart(1, memory=250)
    trace, pieces = simulated(graph, on, [0] * 4)
    error = out_of_memory(trace, pieces, on)
    assert error is not None
    assert (error.time_ns, error.needed_bytes, error.free_bytes) == (20, 100, 50)
    assert error.live == (("a:0", 100), ("b:0", 100), ("c (scratch)", 100))
    assert str(error).startswith(
        "/job:w/replica:0/task:0/device:CPU:0 runs out of memory after 20 ns: c (scratch) needs"
    )


def test_a_received_copy_can_be_too_much() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a").built()
    on = apart(2, memory=99)
    trace, pieces = simulated(graph, apart(2), [0, 0, 1])
    error = out_of_memory(trace, pieces, on)
    assert error is not None
    assert error.device == on.devices[0].name  # the first moment, whatever comes later elsewhere
    assert out_of_memory(trace, pieces, apart(2, memory=200)) is None


def test_variables_that_do_not_fit_are_said_first() -> None:
    draft = Rows()
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    trace, pieces = simulated(draft.built(), apart(1, memory=99), [0], resident=[100])
    error = out_of_memory(trace, pieces, apart(1, memory=99))
    assert error is not None
    assert "variables and constants alone take 100 B" in str(error)


@pytest.mark.parametrize("order", ["b a", "a b"])
def test_a_merge_keeps_the_buffer_that_came_first(order: str) -> None:
    nodes = ("x = Placeholder", "a = Neg x", "b = Neg x", f"m = Merge {order}", "c = Neg m", "d = Neg c")
    graph = story(*nodes).built()
    trace, pieces = simulated(graph, apart(1), [0] * 6)
    assert trace.allocations is not None
    cut = pieces.graph
    first = trace.allocations.tensor.tolist().index(
        int(cut.tensor_ptr[cut.row("a")])
    )  # a ends at 10, m reads it, then c
    assert trace.end_ns[trace.node.tolist().index(cut.row("c"))] == trace.allocations.end_ns[first]
