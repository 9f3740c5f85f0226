"""Transfers join memories: a GPU's own and that of its host, within a GPU, a task, and between tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.contention import CONTENTIONS
from simulator.cluster.description import load_cluster
from simulator.execution.evaluate import evaluate_with_peaks
from simulator.execution.laws import check_trace
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.execution.routes import alone_ns
from simulator.execution.simulate import simulate
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.partitioning.cut import partition
from simulator.partitioning.partitions import Partitions
from tests.execution.cases import DISPATCH_NS, assigned, attrs_of, cluster, costs, sizes, whole, with_chips
from tests.laws.test_cut_and_whole import check
from tests.strategies import INT32, Rows, shapes_attr, type_attr

GPU = 1
LINKS = [Link("to host", 100, 10**9), Link("to GPU", 200, 10**9)]
ON = with_chips(cluster(["w:0/CPU:0", "w:0/GPU:0"], LINKS, {(1, 0): (0,), (0, 1): (1,)}))
COPY_NS = DISPATCH_NS + 10_000  # and a look


def shaped(draft: Rows, name: str, of: str) -> None:
    draft.add(name, "Shape", [of], T=type_attr(), out_type=type_attr(INT32), _output_shapes=shapes_attr((2,)))


def ran(draft: Rows, devices: list[int], on: Cluster = ON, engine: str = "python") -> tuple[Partitions, Trace]:
    graph = draft.built()
    pieces = partition(graph, assigned(on, devices), on, step=whole(graph), legal=False)
    trace = simulate(pieces, on, costs(graph, on), SimulationOptions(engine=engine))
    assert check_trace(trace, pieces, on) == []
    return pieces, trace


def back_and_forth() -> Rows:
    """A shape, read in GPU memory by two, the one of which makes a value that is a shape for another."""
    draft = Rows()
    draft.add("x", "Const", **attrs_of("Const", 1, 100))
    shaped(draft, "shape", "x")
    for name in ("real", "again"):
        draft.add(name, "Cast", ["shape"], SrcT=type_attr(INT32), DstT=type_attr(), _output_shapes=shapes_attr((2,)))
    draft.add("back", "Cast", ["real"], SrcT=type_attr(), DstT=type_attr(INT32), _output_shapes=shapes_attr((2,)))
    draft.add("end", "Reshape", ["x", "back"], T=type_attr(), Tshape=type_attr(INT32), _output_shapes=shapes_attr((2,)))
    return draft


def test_a_copy_takes_a_dispatch_a_look_and_the_links_and_is_shared() -> None:
    pieces, trace = ran(back_and_forth(), [GPU] * 6)
    assert [(pieces.graph.names[send], to) for send, to in zip(pieces.send, pieces.dst_device, strict=True)] == [
        ("shape/_0", GPU),
        ("back/_2", 0),
    ]
    assert pieces.src_device.tolist() == [0, GPU]
    assert pieces.within.all()
    assert pieces.host.tolist() == [False, True]
    to_gpu, to_host = 8 + 200 + COPY_NS, 8 + 100 + COPY_NS
    took = trace.moments.unpacked_ns - trace.moments.asked_ns
    assert took.tolist() == [to_gpu, to_host]
    # shape, copy, real, back; `again` runs between or beside; copy, end
    assert trace.makespan == 1000 + to_gpu + 3000 + to_host + 1000


def test_a_cpu_and_a_gpu_without_links_to_a_host_copy_nothing() -> None:
    assert len(ran(back_and_forth(), [0] * 6)[0].send) == 0
    alone = replace(ON, devices=(ON.devices[0], replace(ON.devices[1], name=ON.devices[1].name.replace("w", "v"))))
    pieces, trace = ran(back_and_forth(), [GPU] * 6, alone)
    assert len(pieces.send) == 0
    assert trace.makespan == 5000


def test_a_copy_of_a_gpu_without_a_chip_takes_its_links_alone() -> None:
    ideal = replace(ON, devices=tuple(replace(device, chip=None) for device in ON.devices))
    pieces, trace = ran(back_and_forth(), [GPU] * 6, ideal)
    assert pieces.within.all()
    assert trace.makespan == 1000 + (8 + 200) + 3000 + (8 + 100) + 1000


def test_a_copy_waits_behind_what_else_is_on_its_link() -> None:
    draft = back_and_forth()
    draft.add("large", "AddN", ["x"], **attrs_of("AddN", 1, 25_000))
    draft.add("reader", "AddN", ["large"], **attrs_of("AddN", 1, 1))
    pieces, trace = ran(draft, [GPU] * 7 + [0])
    (back,) = np.flatnonzero(pieces.within[trace.transfers.row] & pieces.host[trace.transfers.row])
    (large,) = np.flatnonzero(~pieces.within[trace.transfers.row])
    assert trace.moments.asked_ns[large] < trace.moments.asked_ns[back] < trace.moments.asked_ns[large] + 100_000
    assert trace.moments.sent_ns[back] == trace.moments.sent_ns[large] + 100_000


@settings(deadline=None, max_examples=35)
@given(sizes(fed=True), st.data())
def test_pieces_take_the_time_of_the_whole(case: tuple[Graph, Cluster, list[int]], data: st.DataObject) -> None:
    graph, on, rows = case
    times = data.draw(st.lists(st.sampled_from([0, 1, 100, 1000]), min_size=len(graph), max_size=len(graph)))
    check(
        graph,
        on,
        costs(graph, on, times),
        rows,
        options=SimulationOptions(contention=data.draw(st.sampled_from(CONTENTIONS))),
    )


@settings(deadline=None, max_examples=35)
@given(sizes(fed=True), st.data())
def test_the_compiled_loop_and_the_laws_agree(case: tuple[Graph, Cluster, list[int]], data: st.DataObject) -> None:
    graph, on, rows = case
    priced, step = costs(graph, on, data.draw(st.sampled_from([1, 100, 1000]))), whole(graph)
    order, flavour = data.draw(st.sampled_from(["fifo", "tensorflow"])), data.draw(st.sampled_from(["local", "master"]))
    options = SimulationOptions(order, data.draw(st.sampled_from(CONTENTIONS)))
    pieces = partition(graph, assigned(on, rows), on, step=step, flavour=flavour, legal=False)
    traces = [simulate(pieces, on, priced, replace(options, engine=engine)) for engine in ("python", "compiled")]
    assert check_trace(traces[0], pieces, on) == []
    assert len({one.makespan for one in traces}) == 1
    assert traces[0].peak_bytes.tolist() == traces[1].peak_bytes.tolist()
    both = evaluate_with_peaks(prepare(graph, step, on, priced, options), [rows], flavour=flavour)
    assert both.makespan_ns.tolist() == [traces[0].makespan]
    assert both.peak_bytes[0].tolist() == traces[0].peak_bytes.tolist()


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_copy_in_host_memory_counts_on_the_gpu(engine: str) -> None:
    draft = Rows()
    draft.add("x", "Placeholder", **attrs_of("Placeholder", 1, 100))
    draft.add("many", "Cast", ["x"], SrcT=type_attr(), DstT=type_attr(INT32), _output_shapes=shapes_attr((100,)))
    draft.add(
        "end", "Reshape", ["x", "many"], T=type_attr(), Tshape=type_attr(INT32), _output_shapes=shapes_attr((100,))
    )
    pieces, trace = ran(draft, [GPU, GPU, GPU], engine=engine)
    assert pieces.within.tolist() == [True, False]
    assert trace.peak_bytes[GPU] == 3 * 400  # the value in both memories, and what was fed


# --- host memory at both ends -----------------------------------------------------------------------------------------

TWO = with_chips(cluster(["w:0/CPU:0", "w:0/GPU:0", "w:0/GPU:1"]))
CPU, OTHER = 0, 2


def numbers(*readers: str) -> Rows:
    """A shape of 400 bytes, and readers in host memory (Identity) or not (Cast)."""
    draft = Rows()
    draft.add("x", "Const", **attrs_of("Const", 1, 100))
    draft.add("shape", "Shape", ["x"], T=type_attr(), out_type=type_attr(INT32), _output_shapes=shapes_attr((100,)))
    for at, op in enumerate(readers):
        types = {"T": type_attr(INT32)} if op == "Identity" else {"SrcT": type_attr(INT32), "DstT": type_attr()}
        draft.add(f"r{at}", op, ["shape"], **types, _output_shapes=shapes_attr((100,)))
    return draft


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize(("made", "read"), [(CPU, GPU), (GPU, CPU), (GPU, OTHER)])
def test_within_a_task_a_value_in_host_memory_at_both_ends_is_shared(made: int, read: int, engine: str) -> None:
    pieces, trace = ran(numbers("Identity"), [made, made, read], TWO, engine)
    assert pieces.src_device.tolist() == pieces.dst_device.tolist() == [CPU]
    assert [end.tolist() for end in pieces.ends] == [[made], [read]]
    assert trace.makespan == 1000 + 7 + 1000
    assert trace.peak_bytes[read] == 0  # the buffer is that of the one who made it
    assert not (trace.tasks.resource >= len(TWO)).any()  # no link


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_from_a_gpu_s_host_memory_to_another_gpu_goes_over_the_links_of_that_one(engine: str) -> None:
    pieces, trace = ran(numbers("Cast"), [GPU, GPU, OTHER], TWO, engine)
    assert (pieces.src_device.tolist(), pieces.dst_device.tolist()) == ([CPU], [OTHER])
    assert trace.makespan == 1000 + COPY_NS + 400 + 100 + 1000
    held = trace.tasks.resource[trace.tasks.resource >= len(TWO)] - len(TWO)
    assert [TWO.links[link].name for link in held] == ["w:0/CPU:0>w:0/GPU:1"]


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_gpu_that_reads_in_both_memories_gets_one_share_and_one_copy(engine: str) -> None:
    pieces, trace = ran(numbers("Identity", "Cast", "Identity"), [CPU, CPU, GPU, GPU, CPU], TWO, engine)
    assert (pieces.dst_device.tolist(), pieces.host.tolist()) == ([GPU, CPU], [False, True])
    took = trace.moments.unpacked_ns - trace.moments.asked_ns
    assert took.tolist() == [400 + 100 + 10_000, 7]


@pytest.mark.parametrize("order", ["fifo", "tensorflow"])
@pytest.mark.parametrize("op", ["Identity", "Cast"])
def test_between_tasks_host_memory_of_a_gpu_is_that_of_its_cpu(op: str, order: str) -> None:
    on = load_cluster("worker=2x1gpu")
    cpu, gpu, there_cpu, there_gpu = range(4)
    graph = numbers(op).built()

    def took(made: int, read: int) -> int:
        pieces = partition(graph, assigned(on, [made, made, read]), on, step=whole(graph), legal=False)
        trace = simulate(pieces, on, costs(graph, on), SimulationOptions(order))
        assert check_trace(trace, pieces, on) == []
        return int((trace.moments.unpacked_ns - trace.moments.asked_ns)[0])

    assert took(gpu, there_cpu) == took(cpu, there_cpu)
    assert took(gpu, there_gpu) == took(cpu, there_gpu)
    assert (took(gpu, there_gpu) == took(cpu, there_cpu)) == (op == "Identity")


def test_lower_bounds_and_looks_ahead_know_memories() -> None:
    graph = numbers("Identity", "Cast").built()
    tables = prepare(graph, whole(graph), TWO, costs(graph, TWO)).tables
    ways, (shape,) = tables.ways, np.flatnonzero(tables.made_host)

    def alone(reader: str, source: int, target: int) -> int:
        (edge,) = np.flatnonzero((tables.edge_tensor == shape) & (tables.consumer == tables.names.index(reader)))
        pace = ways.paces[ways.pace[tables.way[edge], source, target]]
        assert pace is not None
        return alone_ns(pace, 400)

    ends = [(CPU, CPU), (CPU, GPU), (GPU, CPU), (GPU, GPU), (GPU, OTHER)]
    assert [alone("r0", *pair) for pair in ends] == [0, 7, 7, 0, 7]
    to_gpu = 400 + 100 + 10_000
    assert [alone("r1", *pair) for pair in ends] == [0, to_gpu, 7, DISPATCH_NS + to_gpu, DISPATCH_NS + to_gpu]
