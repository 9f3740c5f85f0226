from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster, Device
from simulator.cluster.peaks import NO_PEAKS, Peaks, peak
from simulator.costs.estimate import estimate
from simulator.costs.formulas.shaped_op import ShapedOp
from simulator.costs.roofline import EXECUTOR_NS, MAX_COUNT, number_format, real_operations
from simulator.costs.rules import FALLBACK_RULE, rule
from simulator.costs.table import FALLBACK, MAX_OP_NS
from simulator.errors import ClusterError
from simulator.graph import ops
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from tests.strategies import Rows, graphs, shape_attr, shapes_attr, type_attr, typed


def device(
    at: int = 0,
    type: str = "CPU",
    kind: str = "cpu",
    flop_per_s: int = 10**12,
    bytes_per_s: int = 10**11,
    launch_ns: int = 1000,
    peaks: Peaks = NO_PEAKS,
) -> Device:
    name = f"/job:localhost/replica:0/task:0/device:{type}:{at}"
    return Device(name, type, kind, 2**34, flop_per_s, bytes_per_s, launch_ns, peaks=peaks)


def cluster(*devices: Device) -> Cluster:
    return Cluster(devices, (), tuple(tuple(() for _ in devices) for _ in devices))


CPU = device()
GPU = device(type="GPU", kind="gpu", flop_per_s=10**13, bytes_per_s=10**12, launch_ns=5000)
BOTH = cluster(CPU, GPU)


def product(rows: int = 64, inner: int = 32, columns: int = 16) -> Rows:
    made = Rows()
    made.add("a", "Placeholder", **typed("Placeholder", (rows, inner)))
    made.add("b", "Placeholder", **typed("Placeholder", (inner, columns)))
    made.add("c", "MatMul", ["a", "b"], **typed("MatMul", (rows, columns)))
    return made


def test_a_product_by_hand() -> None:
    costs = estimate(product(1000, 1000, 1000).built(), BOTH)
    # 2e9 operations at 1e12/s are 2 ms; 12 MB at 1e11/s are 0.12 ms: the work bounds it
    assert costs.run_ns[2].tolist() == [1000 + 2_000_000, 5000 + 200_000]
    assert (costs.flops[2], costs.moved_bytes[2]) == (2 * 10**9, 12 * 10**6)


def test_a_sum_is_bound_by_memory() -> None:
    made = Rows()
    made.add("a", "Placeholder", **typed("Placeholder", (1000, 1000)))
    made.add("b", "Neg", ["a"], **typed("Neg", (1000, 1000)))
    assert estimate(made.built(), BOTH).run_ns[1].tolist() == [1000 + 80_000, 5000 + 8_000]


def test_an_attribute_that_the_file_lacks_is_counted() -> None:
    made = product()
    assert not any("missing" in note for note in estimate(made.built(), BOTH).notes)
    made.add("d", "MatMul", ["a", "b"])
    costs = estimate(made.built(), BOTH)
    assert any("missing from 1 nodes" in note and note.endswith("MatMul 1") for note in costs.notes)
    assert (costs.run_ns[3] >= 0).all()


def test_times_are_rounded_up_once() -> None:
    made = Rows()
    made.add("a", "Placeholder", **typed("Placeholder", (1,)))
    made.add("b", "Neg", ["a"], **typed("Neg", (1,)))
    assert estimate(made.built(), cluster(device(bytes_per_s=3 * 10**9))).run_ns[1, 0] == 1000 + 3  # 8/3 ns


def test_what_starts_no_kernel_costs_the_dispatch_on_every_device() -> None:
    made = Rows()
    made.add("a", "Placeholder", **typed("Placeholder", (1000, 1000)))
    made.add("b", "Identity", ["a"], **typed("Identity", (1000, 1000)))
    made.add("c", "NoOp")
    assert estimate(made.built(), BOTH).run_ns.tolist() == [[EXECUTOR_NS] * 2] * 3


def test_shapes_are_computed_on_the_host_also_on_a_gpu() -> None:
    made = Rows()
    for dtype, name in ((1, "f"), (3, "i")):
        made.add(name, "Placeholder", dtype=type_attr(dtype), _output_shapes=shapes_attr((4,)))
        made.add(name + name, "AddV2", [name, name], T=type_attr(dtype), _output_shapes=shapes_attr((4,)))
    costs = estimate(made.built(), BOTH)
    assert costs.run_ns[1].tolist() == [1001, 5001]
    assert costs.run_ns[3].tolist() == [1001, 1001]


def test_a_kernel_in_host_memory_costs_what_it_costs_on_the_slowest_host_of_such_gpus() -> None:
    made = Rows()
    made.add("i", "Placeholder", dtype=type_attr(3), _output_shapes=shapes_attr((1000, 1000)))
    made.add("ii", "AddV2", ["i", "i"], T=type_attr(3), _output_shapes=shapes_attr((1000, 1000)))
    slow = replace(CPU, kind="slow", bytes_per_s=CPU.bytes_per_s // 10, name=CPU.name.replace("task:0", "task:1"))
    away = replace(GPU, name=GPU.name.replace("task:0", "task:1"))
    assert len(set(estimate(made.built(), BOTH).run_ns[1].tolist())) == 1
    on_cpu, on_gpu, on_slow = estimate(made.built(), cluster(CPU, GPU, slow, away)).run_ns[1].tolist()
    assert on_cpu < on_gpu == on_slow


def test_no_kernel_no_time() -> None:
    made = Rows()
    made.add("q", "ReadFile", ["x"])
    made.add("a", "Mul", ["x", "x"], T=type_attr(7))
    made.add("x", "Placeholder", dtype=type_attr(7))
    costs = estimate(made.built(), BOTH)
    assert costs.run_ns[0].tolist() == [EXECUTOR_NS + 25_000, -1]
    assert (costs.run_ns[1] == -1).all()  # nobody multiplies strings


def test_an_unlisted_op_is_counted_and_named() -> None:
    made = product()
    made.add("d", "MyOwnOp", ["c"])
    made.add("e", "MyOwnOp", ["c"])
    made.add("f", "Another", ["c"])
    costs = estimate(made.built(), BOTH)
    assert costs.source.tolist() == [0, 0, 0, FALLBACK, FALLBACK, FALLBACK]
    assert costs.moved_bytes[3] == 64 * 16 * 4
    assert any("for 3: MyOwnOp 2, Another 1" in note for note in costs.notes)


def test_absurd_shapes_are_capped_and_said() -> None:
    huge = 2**31
    made = Rows()
    made.add("a", "Placeholder", **typed("Placeholder", (huge, huge)))
    made.add("c", "MatMul", ["a", "a"], **typed("MatMul", (huge, huge)))
    costs = estimate(made.built(), BOTH)
    assert costs.flops[1] == MAX_COUNT
    assert 0 < costs.run_ns[1, 0] <= MAX_OP_NS
    assert any("capped" in note for note in costs.notes)


def test_a_shape_of_a_hundred_thousand_dimensions_is_unknown() -> None:
    made = Rows()
    made.add("a", "Placeholder", **typed("Placeholder", (2**62,) * 100_000))
    made.add("b", "Neg", ["a"], **typed("Neg", (2**62,) * 100_000))
    made.add("v", "VarHandleOp", dtype=type_attr(), shape=shape_attr(*(2**62,) * 100_000))
    costs = estimate(made.built(), BOTH)
    assert costs.flops.tolist() == [0, 1, 0]
    assert costs.resident_bytes.tolist() == [0, 0, 0]


def test_variables_beyond_reason_are_of_unknown_size() -> None:
    made = Rows()
    made.add("v", "VarHandleOp", dtype=type_attr(), shape=shape_attr(2**58))
    costs = estimate(made.built(), BOTH)
    assert costs.resident_bytes.tolist() == [0]
    assert any("1 nodes is unknown and counts 0: VarHandleOp 1" in note for note in costs.notes)


def test_a_device_must_do_something() -> None:
    with pytest.raises(ClusterError, match="has no speed or no bandwidth"):
        estimate(product().built(), cluster(device(flop_per_s=0)))


def test_devices_of_one_kind_must_be_equally_fast() -> None:
    with pytest.raises(ClusterError, match="differ in flop_per_s"):
        estimate(product().built(), cluster(CPU, device(at=1, flop_per_s=1)))


def test_a_graph_without_nodes() -> None:
    costs = estimate(Rows().built(), BOTH)
    assert costs.run_ns.shape == (0, 2)
    assert len(costs) == 0


def test_columns_are_read_only() -> None:
    costs = estimate(product().built(), BOTH)
    with pytest.raises(ValueError, match="read-only"):
        costs.run_ns[0, 0] = 1


def test_variables_and_constants_are_resident() -> None:
    made = Rows()
    made.add("v", "VariableV2", dtype=type_attr(), shape=shape_attr(10, 20))
    made.add("h", "VarHandleOp", dtype=type_attr(2), shape=shape_attr(10, 20))
    made.add("u", "VarHandleOp", dtype=type_attr(2), shape=shape_attr(10, -1))
    made.add("k", "Const", **typed("Const", (5,)))
    made.add("s", "Const", dtype=type_attr(7), value=strings(b"abc", b"de"))
    made.add("t", "HashTableV2")
    costs = estimate(made.built(), BOTH)
    assert costs.resident_bytes.tolist() == [800, 1600, 0, 20, 5, 0]
    assert any("2 nodes is unknown and counts 0: HashTableV2 1, VarHandleOp 1" in note for note in costs.notes)


def strings(*values: bytes) -> Any:
    attr = AttrValue()
    attr.tensor.dtype = 7
    attr.tensor.tensor_shape.dim.add(size=len(values))
    attr.tensor.string_val.extend(values)
    return attr


@given(graphs())
def test_each_node_costs_what_it_costs_alone(graph: Graph) -> None:
    """The table is made once per different node; a plain loop over the nodes must agree."""
    costs = estimate(graph, BOTH)
    for node, op in enumerate(graph.ops):
        priced = rule(op) or FALLBACK_RULE
        taken = [graph.tensor(t) for t in graph.edge_tensor[graph.in_ptr[node] : graph.in_ptr[node + 1]] if t >= 0]
        given_out = [graph.tensor(t) for t in range(graph.tensor_ptr[node], graph.tensor_ptr[node + 1])]
        instance = ShapedOp(
            op,
            tuple(t.shape for t in taken),
            tuple(t.shape for t in given_out),
            tuple(max(0, t.nbytes) for t in taken),
            tuple(max(0, t.nbytes) for t in given_out),
            graph.attrs[node],
            tuple(t.dtype for t in taken),
            tuple(t.dtype for t in given_out),
        )
        number = number_format(priced, instance)
        kinds = {kind for kind, _ in ops.kernel_types(op, graph.attrs[node])}
        assert costs.flops[node] == real_operations(priced, instance, priced.flops(instance))
        assert costs.moved_bytes[node] == priced.moved(instance)
        for column, place in enumerate(BOTH.devices):
            speed, _ = peak(place.flop_per_s, place.peaks, number, matrix=priced.on_matrix_units)
            work = -(-costs.flops[node] * 10**9 // speed)
            traffic = -(-costs.moved_bytes[node] * 10**9 // place.bytes_per_s)
            core_ps = priced.core_ps(instance) if place.type == "CPU" else 0
            core = -(-core_ps // (1000 * min(place.cores, max(1, priced.parts(instance)))))
            busy = place.launch_ns + max(work, traffic, core) if priced.launches else EXECUTOR_NS
            assert costs.run_ns[node, column] == (busy if place.type in kinds else -1)


@given(graphs(), st.integers(2, 1000))
def test_a_faster_device_is_never_slower(graph: Graph, times: int) -> None:
    slow = estimate(graph, cluster(CPU)).run_ns
    faster = replace(CPU, flop_per_s=CPU.flop_per_s * times, bytes_per_s=CPU.bytes_per_s * times)
    quick = estimate(graph, cluster(faster)).run_ns
    assert (quick <= slow).all()
    started = slow > EXECUTOR_NS  # all others have no kernel, or none that is started
    assert (slow - CPU.launch_ns <= (quick - CPU.launch_ns) * times)[started].all()


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 64))
def test_a_larger_batch_never_costs_less(small: int, more: int, inner: int) -> None:
    one = estimate(product(small, inner).built(), BOTH)
    two = estimate(product(small + more, inner).built(), BOTH)
    assert (two.run_ns >= one.run_ns).all()
    assert (two.flops >= one.flops).all()


@given(graphs())
def test_every_node_has_a_time_wherever_it_has_a_kernel(graph: Graph) -> None:
    costs = estimate(graph, BOTH)
    assert costs.run_ns.dtype == np.int64
    for node, op in enumerate(graph.ops):
        kinds = {kind for kind, _ in ops.kernel_types(op, graph.attrs[node])}
        assert [time >= 0 for time in costs.run_ns[node].tolist()] == [place.type in kinds for place in BOTH.devices]


def test_a_convolution_has_workspace_where_there_is_a_gpu() -> None:
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (4, 14, 14, 8)))
    made.add("w", "Placeholder", **typed("Placeholder", (3, 3, 8, 16)))
    strides = AttrValue()
    strides.list.i.extend([1, 1, 1, 1])
    conv = {"strides": strides, "padding": AttrValue(s=b"SAME")}
    made.add("y", "Conv2D", ["x", "w"], T=type_attr(), _output_shapes=shapes_attr((4, 14, 14, 16)), **conv)
    graph = made.built()
    of_cpus, of_both = (estimate(graph, on).scratch_bytes.tolist()[-1] for on in (cluster(CPU), cluster(CPU, GPU)))
    assert (of_cpus, of_both) == (0, 4 * 14 * 14 * 3 * 3 * 8)
