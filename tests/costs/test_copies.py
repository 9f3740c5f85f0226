"""Copies between the memories of a GPU are the pairs that a cut has within it, at the cost of the op before them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.description import load_cluster
from simulator.columns import Flags, flags, ints
from simulator.costs.estimate import estimate
from simulator.costs.surroundings.copies import Copies, copies
from simulator.graph import ops
from simulator.graph.graph import Graph
from simulator.partitioning.cut import partition
from tests.execution.cases import assigned, whole
from tests.partitioning.cases import random_graph
from tests.strategies import Rows, type_attr, typed

ON = load_cluster("cpu=1,gpu=1")
GPU = 1


def able_nodes(graph: Graph) -> Flags:
    """[N] the nodes with a kernel for GPUs."""
    kinds = (ops.kernel_types(op, attrs) for op, attrs in zip(graph.ops, graph.attrs, strict=True))
    return flags([any(kind == "GPU" for kind, _ in one) for one in kinds])


def found(graph: Graph) -> Copies:
    held = [ops.host_memory(op, attrs, "GPU", graph.library) for op, attrs in zip(graph.ops, graph.attrs, strict=True)]
    return copies(graph, able_nodes(graph), held)


@given(st.integers(0, 2**32), st.integers(0, 2))
def test_they_are_the_pairs_of_the_cut_within_the_gpu(seed: int, loops: int) -> None:
    graph, _ = random_graph(seed, len(ON), nodes=10, loops=loops)
    cut = partition(graph, assigned(ON, [GPU] * len(graph)), ON, step=whole(graph), flavour="local", legal=False)
    made = cut.graph
    sends = [row for row, op in enumerate(made.ops) if op in ("_Send", "_HostSend")]
    tensors = made.edge_tensor[made.in_ptr[sends]]  # which each takes first; -1 for a control edge within a loop
    carried = [(int(cut.origin[made.tensor_node[one]]), int(made.tensor_port[one])) for one in tensors if one >= 0]
    able, outputs = able_nodes(graph), found(graph).outputs.tolist()
    for node, number in enumerate(outputs):
        sent = {port for sender, port in carried if sender == node}
        assert number <= len(sent)
        if able.all():
            assert number == len(sent)


def sizes(*, more: bool) -> Graph:
    """A shape in host memory, and with `more` two readers of it in GPU memory."""
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", (4, 6)))
    draft.add("size", "Shape", ["x"], T=type_attr(), out_type=type_attr(3))
    draft.add("kept", "Reshape", ["x", "size"], T=type_attr(), Tshape=type_attr(3))
    for name in ("real", "again") * more:
        draft.add(name, "Cast", ["size"], SrcT=type_attr(3), DstT=type_attr())
    graph = draft.built()
    return replace(graph, tensor_bytes=ints([8] * len(graph.tensor_bytes)))


def test_there_is_one_copy_for_all_readers_and_none_where_memories_agree() -> None:
    assert found(sizes(more=False)).outputs.tolist() == [0, 0, 0]
    assert found(sizes(more=True)).outputs.tolist() == [0, 1, 0, 0, 0]
    assert found(sizes(more=True)).nbytes.tolist() == [0, 8, 0, 0, 0]


@pytest.mark.parametrize("model", ["v100", "a100"])
def test_a_copy_takes_an_ops_dispatch_a_look_and_the_links(model: str) -> None:
    on = load_cluster(f"worker=1x1{model}")
    alone, copied = (estimate(sizes(more=more), on).run_ns for more in (False, True))
    assert copied[:3, 0].tolist() == alone[:, 0].tolist()  # a CPU has one memory
    assert copied[0, 1] == alone[0, 1]
    (link,) = (on.links[one] for one in on.routes[1][0] or ())
    wire = -(-8 * 10**9 // link.bytes_per_s)
    assert copied[1, 1] - alone[1, 1] == on.devices[1].op_ns(0) + 10_000 + link.latency_ns + wire
