"""The cut by hand: names, inputs and attributes of what TensorFlow would insert."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from google.protobuf import text_format
from hypothesis import strategies as st

from simulator.cluster.description import load_cluster
from simulator.errors import SimvizError
from simulator.graph.building import build
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue, GraphDef
from simulator.graph.step import choose_step
from simulator.partitioning.cut import partition
from simulator.partitioning.cut_graph import NUMBERED
from simulator.partitioning.levels import AUTO, LOCAL, MASTER, flavour_of, levels_of
from simulator.partitioning.partitions import Partitions, partition_files
from simulator.partitioning.passes.control_flow import settled
from tests.execution.cases import apart, assigned, cluster, whole
from tests.partitioning.cases import random_graph, without_predicate
from tests.strategies import INT32, Rows, colocation, type_attr, typed

CPUS = [f"/job:w/replica:0/task:{task}/device:CPU:0" for task in range(3)]


def cut(rows: Rows, devices: list[int], on: Any = None) -> Partitions:
    graph = rows.built()
    return partition(graph, assigned(on or apart(3), devices), on or apart(3), step=whole(graph), flavour="local")


def listed(pieces: Partitions) -> dict[str, tuple[str, int, tuple[str, ...]]]:
    """Name -> op, device, inputs."""
    graph = pieces.graph
    return {node.name: (node.op, int(pieces.device[node.id]), node.inputs) for node in graph.nodes()}


def large(rows: Rows, name: str, inputs: tuple[str, ...] = ()) -> str:
    """A constant that is too large to be copied."""
    return rows.add(name, "Const", inputs, **typed("Const", (17,)))


def test_a_value_crosses_once_and_a_control_edge_by_a_dummy() -> None:
    rows = Rows()
    large(rows, "a")
    rows.add("b", "Neg", ["a"], T=type_attr())
    rows.add("c", "Mul", ["a", "a"], T=type_attr())
    rows.add("d", "NoOp", ["^a", "^b"])
    pieces = cut(rows, [0, 1, 1, 1])

    assert listed(pieces) == {
        "a": ("Const", 0, ()),
        "b": ("Neg", 1, ("a/_1",)),
        "c": ("Mul", 1, ("a/_1", "a/_1")),
        "d": ("NoOp", 1, ("^a/_5", "^b")),
        "a/_0": ("_Send", 0, ("a",)),
        "a/_1": ("_Recv", 1, ()),
        "a/ctrl/_2": ("Const", 0, ("^a",)),
        "a/_3": ("_Send", 0, ("a/ctrl/_2",)),
        "a/_4": ("_Recv", 1, ()),
        "a/_5": ("Identity", 1, ("a/_4",)),
    }
    assert pieces.tensor.tolist() == [0, -1]
    assert pieces.nbytes.tolist() == [68, 0]
    assert pieces.key[0] == f"{CPUS[0]};0000000000000001;{CPUS[1]};edge_3_a;0:0"
    attrs = pieces.graph.node("a/_1").attrs
    assert {name: value.s.decode() or value.type or value.i or value.b for name, value in attrs.items()} == {
        "tensor_type": 1,
        "tensor_name": "edge_3_a",
        "send_device": CPUS[0],
        "recv_device": CPUS[1],
        "send_device_incarnation": 1,
        "client_terminated": False,
        "_src": "a",
        "_dst": "b",
    }


def test_readers_of_a_reference_share_nothing_and_read_after_their_other_inputs() -> None:
    rows = Rows()
    rows.add("v", "VariableV2", [], **typed("VariableV2", (17,)))
    rows.add("go", "NoOp")
    rows.add("m", "Mul", ["v", "v", "^go"], T=type_attr())
    pieces = cut(rows, [0, 1, 1])

    assert listed(pieces)["m"] == ("Mul", 1, ("v/_1", "v/_3", "^go"))
    for recv in ("v/_1", "v/_3"):
        assert pieces.graph.node(recv).inputs == ("^go",)
        assert pieces.graph.node(recv).attrs["_start_time"].i == 0
        assert pieces.graph.node(recv).attrs["tensor_type"].type == 1
    assert pieces.tensor.tolist() == [0, 0]


@hypothesis.given(op=st.sampled_from(("Assign", "AssignAdd", "RefIdentity", "RefExit")), count=st.integers(1, 6))
def test_a_reader_may_have_more_inputs_than_its_op_declares(op: str, count: int) -> None:
    rows = Rows()
    for name in ("own", "other"):
        rows.add(name, "VariableV2", [], **typed("VariableV2", (17,)))
    rows.add("reads", op, ["own"] + ["other"] * count, T=type_attr())
    pieces = cut(rows, [1, 0, 1])
    assert pieces.tensor.tolist() == [1] * count
    assert listed(pieces)["reads"][2][0] == "own"
    assert len(set(listed(pieces)["reads"][2])) == 1 + count  # readers of a reference share nothing


def test_a_small_constant_is_copied_to_its_readers() -> None:
    rows = Rows()
    rows.add("go", "NoOp")
    rows.add("k", "Const", ["^go"], **typed("Const", (16,)))
    rows.add("a", "Neg", ["k"], T=type_attr())
    rows.add("b", "Neg", ["k"], T=type_attr())
    pieces = cut(rows, [0, 0, 0, 1])

    found = listed(pieces)
    assert "k" not in found
    assert found["k/replicate/_0"] == ("Const", 0, ("^go",))
    assert found["k/replicate/_1"] == ("Const", 1, ("^go/_3",))
    assert found["b"] == ("Neg", 1, ("k/replicate/_1",))
    assert pieces.origin[pieces.graph.index["k/replicate/_1"]] == 1


def test_copies_are_numbered_by_constant_and_then_by_device() -> None:
    rows = Rows()
    for name in ("k", "l"):
        rows.add(name, "Const", **typed("Const", (16,)))
    for name in ("a", "b"):
        rows.add(name, "Mul", ["k", "l"], T=type_attr())
    found = listed(cut(rows, [0, 0, 1, 0]))
    assert found["b"] == ("Mul", 0, ("k/replicate/_0", "l/replicate/_2"))
    assert found["a"] == ("Mul", 1, ("k/replicate/_1", "l/replicate/_3"))


@pytest.mark.parametrize(("text", "flavour"), [("2cpu", LOCAL), ("1gpu", LOCAL), ("ps=1,worker=1", MASTER)])
def test_a_session_of_one_task_cuts_by_itself_and_one_of_several_has_a_master(text: str, flavour: str) -> None:
    on = load_cluster(text)
    assert flavour_of(AUTO, on) == flavour
    assert [flavour_of(asked, on) for asked in (LOCAL, MASTER)] == [LOCAL, MASTER]
    assert len(levels_of(flavour, on)) == (1 if flavour == LOCAL else 2)


def test_a_copy_waits_for_what_is_fed_where_its_original_waited_for_the_placeholder() -> None:
    rows = Rows()
    rows.add("a", "Placeholder", dtype=type_attr())
    large(rows, "b")
    rows.add("k", "Const", ["^a", "^b"], **typed("Const", (2,)))
    rows.add("u", "Neg", ["k"], T=type_attr())
    rows.add("v", "Neg", ["k"], T=type_attr())
    graph = rows.built()
    step = choose_step(graph, feeds=["a:0"], fetches=["u", "v"])
    pieces = partition(graph, assigned(apart(3), [0, 0, 0, 0, 1]), apart(3), step=step, flavour="local")

    found = listed(pieces)
    assert found["_arg_a_0_0/_3"] == ("Identity", 1, ("_arg_a_0_0/_2",)), (
        "the first pair, though its edge is a late one"
    )
    assert sorted(found["k/replicate/_1"][2]) == ["^_arg_a_0_0/_3", "^b/_7"]


@pytest.mark.parametrize("spoil", ["size", "control", "one target", "fed"])
def test_a_constant_is_not_copied(spoil: str) -> None:
    rows = Rows()
    rows.add("k", "Const", [], **typed("Const", (17 if spoil == "size" else 16,)))
    rows.add("a", "Neg", ["k"], T=type_attr())
    rows.add("b", "Neg", ["k", *(["^k"] if spoil == "control" else [])], T=type_attr())
    graph = rows.built()
    step = choose_step(graph, fetches=["a", "b"], feeds=["k:0"] if spoil == "fed" else [])
    devices = [0, 1 if spoil == "one target" else 0, 1]
    pieces = partition(graph, assigned(apart(3), devices), apart(3), step=step, flavour="local")

    assert ("k" in pieces.graph.index) == (spoil != "fed")
    assert not any("replicate" in name for name in pieces.graph.names)


def test_a_gpu_keeps_constants_on_the_cpu_of_its_task() -> None:
    on = cluster(["w:0/CPU:0", "w:1/CPU:0", "w:1/GPU:0", "w:1/GPU:1"])
    rows = Rows()
    rows.add("k", "Const", [], **typed("Const", (2,)))
    for name in "abc":
        rows.add(name, "Neg", ["k"], T=type_attr())
    pieces = cut(rows, [0, 0, 2, 3], on)

    assert listed(pieces)["k/replicate/_1"] == ("Const", 1, ())
    assert sorted(zip(pieces.src_device.tolist(), pieces.dst_device.tolist(), strict=True)) == [(1, 2), (1, 3)]


def test_a_gpu_takes_its_own_values_over_from_host_memory() -> None:
    on = cluster(["w:0/CPU:0", "w:0/GPU:0"])
    rows = Rows()
    large(rows, "x")
    rows.add("shape", "Shape", ["x"], T=type_attr(), out_type=type_attr(INT32))
    rows.add("cast", "Cast", ["shape"], SrcT=type_attr(INT32), DstT=type_attr())
    pieces = cut(rows, [1, 1, 1], on)

    assert listed(pieces)["shape/_0"] == ("_HostSend", 1, ("shape",))
    assert listed(pieces)["shape/_1"] == ("_Recv", 1, ("^shape/_0",))
    assert listed(pieces)["cast"] == ("Cast", 1, ("shape/_1",))
    assert pieces.within.tolist() == [True]
    assert (pieces.src_device.tolist(), pieces.dst_device.tolist()) == ([0], [1])  # from the memory of its host


def test_a_tensor_that_a_gpu_reads_in_both_memories_crosses_twice() -> None:
    on = cluster(["w:0/CPU:0", "w:0/GPU:0"])
    rows = Rows()
    rows.add(
        "k", "Const", [], dtype=type_attr(INT32), value=AttrValue(tensor={"tensor_shape": {"dim": [{"size": 99}]}})
    )
    rows.add("x", "Const", [], **typed("Const", (99,)))
    rows.add("in_host", "Reshape", ["x", "k"], T=type_attr(), Tshape=type_attr(INT32))
    rows.add("in_device", "Cast", ["k"], SrcT=type_attr(INT32), DstT=type_attr())
    pieces = cut(rows, [0, 1, 1, 1], on)

    assert [pieces.graph.ops[row] for row in pieces.recv] == ["_Recv", "_HostRecv"]
    assert pieces.tensor.tolist() == [0, 0]


def test_control_flow_goes_where_its_values_are() -> None:
    rows = Rows()
    rows.add("x", "Const", [], **typed("Const", (17,)))
    large(rows, "z")
    rows.add("p", "IsFinite", ["z"], T=type_attr())
    rows.add("s", "Switch", ["x", "p"], T=type_attr())
    rows.add("n", "Neg", ["s:1"], T=type_attr())
    graph = rows.built()
    pieces = partition(graph, assigned(apart(3), [0, 1, 1, 2, 2]), apart(3), step=whole(graph), flavour="local")

    assert pieces.device[pieces.graph.index["s"]] == 0
    assert pieces.device[~pieces.inserted].tolist() == [0, 1, 1, 0, 2]
    assert any("control-flow" in note for note in pieces.notes)


def test_a_loop_is_closed_on_each_device_that_takes_part() -> None:
    rows = Rows()
    rows.add("x", "Const", [], **typed("Const", (17,)))
    frame = AttrValue(s=b"f")
    rows.add("e", "Enter", ["x"], T=type_attr(), frame_name=frame, parallel_iterations=AttrValue(i=7))
    rows.add("m", "Merge", ["e", "next"], T=type_attr(), N=AttrValue(i=2))
    rows.add("cond", "LoopCond", ["less"])
    rows.add("less", "IsFinite", ["m"], T=type_attr())
    rows.add("s", "Switch", ["m", "cond"], T=type_attr())
    rows.add("y", "Mul", ["s:1", "s:1"], T=type_attr())
    rows.add("next", "NextIteration", ["y"], T=type_attr())
    rows.add("exit", "Exit", ["s"], T=type_attr())
    pieces = cut(rows, [0, 0, 0, 0, 0, 0, 1, 0, 0])

    found = listed(pieces)
    assert found["_cloopy/_0"] == ("Enter", 1, ("y/_4",))
    assert found["_cloopy/_1"] == ("Merge", 1, ("_cloopy/_0", "_cloopy/_3"))
    assert found["_cloopy/_2"] == ("Switch", 1, ("_cloopy/_1", "cond/_15"))
    assert found["_cloopy/_3"] == ("NextIteration", 1, ("_cloopy/_2:1",))
    assert found["y"] == ("Mul", 1, ("s/_11", "s/_11", "^_cloopy/_1"))
    assert found["s/_11"] == ("_Recv", 1, ("^_cloopy/_1",))
    assert found["cond/_15"] == ("_HostRecv", 1, ("^_cloopy/_1",))
    assert found["y/_13"] == ("_Recv", 0, ("^_cloopnext/_6",)), "its owner has one too, for what comes back"
    assert pieces.graph.node("_cloopy/_0").attrs["parallel_iterations"].i == 7


def test_a_loop_without_predicate_is_cut_and_said() -> None:
    pieces = cut(without_predicate(), [0, 0, 0, 1, 0])

    assert pieces.refused == "A cross-device loop must have a pivot predicate: f"
    assert any(pieces.refused in note for note in pieces.notes)
    assert not any(name.startswith("_cloop") for name in pieces.graph.names)


def test_what_is_fed_comes_from_the_client_and_what_is_fetched_goes_there() -> None:
    rows = Rows()
    large(rows, "x")
    rows.add("y", "Neg", ["x"], T=type_attr())
    rows.add("z", "Neg", ["y"], T=type_attr())
    graph = rows.built()
    step = choose_step(graph, feeds=["y:0"], fetches=["z:0"])
    pieces = partition(graph, assigned(apart(3), [0, 1, 2]), apart(3), step=step, flavour="local")

    assert listed(pieces) == {
        "z": ("Neg", 2, ("_arg_y_0_0/_1",)),
        "_arg_y_0_0": ("_Arg", 0, ()),
        "_retval_z_0_0": ("_Retval", 0, ("z/_3",)),
        "_arg_y_0_0/_0": ("_Send", 0, ("_arg_y_0_0",)),
        "_arg_y_0_0/_1": ("_Recv", 2, ()),
        "z/_2": ("_Send", 2, ("z",)),
        "z/_3": ("_Recv", 0, ()),
    }
    assert pieces.tensor.tolist() == [graph.tensor_ptr[2], graph.tensor_ptr[1]]  # what is fed comes last


def test_a_name_that_the_graph_has_already_is_not_used_again() -> None:
    rows = Rows()
    large(rows, "a")
    large(rows, "a/_1")
    rows.add("b", "Neg", ["a"], T=type_attr())
    rows.add("c", "Neg", ["a/_1"], T=type_attr())
    pieces = cut(rows, [0, 0, 1, 1])

    assert len(set(pieces.graph.names)) == len(pieces.graph)
    assert listed(pieces)["b"][2] != ("a/_1",)


@pytest.mark.parametrize("flavour", [LOCAL, MASTER])
def test_names_of_added_nodes_end_as_those_that_are_looked_for(flavour: str) -> None:
    for seed in range(20):
        graph, devices = random_graph(seed, 3, loops=2)
        on = apart(3)
        pieces = partition(graph, assigned(on, devices), on, step=whole(graph), flavour=flavour, legal=False)
        added = [pieces.graph.names[row] for row in pieces.inserted.nonzero()[0].tolist()]
        assert added
        assert all(map(NUMBERED.search, added))


def test_one_device_cuts_nothing() -> None:
    graph, _ = random_graph(5, 1, loops=1)
    on = apart(1)
    pieces = partition(graph, assigned(on, [0] * len(graph)), on, step=whole(graph))

    assert pieces.graph.names == graph.names
    assert not pieces.inserted.any()
    assert pieces.graph.edge_src.tolist() == graph.edge_src.tolist()


def test_an_empty_graph() -> None:
    graph: Graph = build([], [], [], [], [])
    on = apart(2)
    pieces = partition(graph, assigned(on, []), on, step=whole(graph))
    assert (len(pieces.graph), len(pieces.tensor), partition_files(pieces)) == (0, 0, {})


def test_the_columns_are_those_of_a_graph_built_from_its_rows() -> None:
    graph, devices = random_graph(4, 3, loops=2)
    on = apart(3)
    ours = partition(graph, assigned(on, devices), on, step=whole(graph)).graph
    inputs = [ours.inputs_of(row) for row in range(len(ours))]
    theirs = build(ours.names, ours.ops, ours.requested, inputs, ours.attrs)
    for column in ("tensor_ptr", "tensor_node", "tensor_port", "tensor_dtype", "in_ptr", "edge_src", "edge_tensor"):
        assert getattr(ours, column).tolist() == getattr(theirs, column).tolist(), column
    assert ours.edge_back.tolist() == theirs.edge_back.tolist()
    assert ours.order.tolist() == theirs.order.tolist()


def test_pieces_are_written_one_file_per_device() -> None:
    graph, devices = random_graph(4, 3, loops=1)
    on = apart(3)
    pieces = partition(graph, assigned(on, devices), on, step=whole(graph))
    files = partition_files(pieces)

    assert list(files) == [f"job_w_replica_0_task_{task}_device_CPU_0.pbtxt" for task in range(3)]
    names = []
    for task, text in enumerate(files.values()):
        message = text_format.Parse(text, GraphDef())
        assert {node.device for node in message.node} == {CPUS[task]}
        names += [node.name for node in message.node]
    assert sorted(names) == sorted(name.removeprefix("_") for name in pieces.graph.names)


def test_a_piece_ties_no_node_to_one_that_it_lacks() -> None:
    # TensorFlow's importer: "expects to be colocated with unknown node"
    rows = Rows()
    large(rows, "pruned")
    large(rows, "elsewhere")
    large(rows, "here")
    rows.add("alone", "Neg", ["elsewhere"], T=type_attr(), _class=colocation("pruned"))
    rows.add("kept", "Add", ["alone", "here"], T=type_attr(), _class=colocation("elsewhere", "here", "pruned"))
    graph = rows.built()
    step = choose_step(graph, fetches=["kept"])
    pieces = partition(graph, assigned(apart(3), [1, 0, 1, 1, 1]), apart(3), step=step, legal=False)
    message = text_format.Parse(partition_files(pieces)["job_w_replica_0_task_1_device_CPU_0.pbtxt"], GraphDef())
    ties = {node.name: list(node.attr["_class"].list.s) for node in message.node if "_class" in node.attr}
    assert ties == {"kept": [b"loc:@here"]}
    assert set(graph.node("kept").attrs) == {"T", "_class"}  # the Graph itself stays as it was


def test_values_of_another_graph_or_cluster_are_refused() -> None:
    graph, _ = random_graph(1, 2)
    other, _ = random_graph(2, 2, nodes=20)
    right = assigned(apart(2), [0] * len(graph))
    for given, on, step in (
        (assigned(apart(2), [0] * len(other)), apart(2), whole(graph)),
        (right, apart(3), whole(graph)),
        (right, apart(2), whole(other)),
    ):
        with pytest.raises(SimvizError, match="do not belong together"):
            partition(graph, given, on, step=step)
    for unknown in (2, -1):
        rows = [0] * len(graph)
        rows[3] = unknown
        with pytest.raises(SimvizError, match=rf"Node '.*' is on device {unknown}; .* has 2 devices"):
            partition(graph, assigned(apart(2), rows), apart(2), step=whole(graph))


def test_control_flow_beside_control_flow_goes_where_it_was_seen_if_some_order_leads_there() -> None:
    found = [(1, 0), (2, 1), (3, 2)]  # each beside the one before, which is moved too
    assert settled([0, 1, 2, 3], found) == [0, 0, 0, 0]
    assert settled([0, 1, 2, 3], found, {2: 1}) == [0, 0, 1, 1]
    assert settled([0, 1, 2, 3], found, {2: 2, 3: 1}) == [0, 0, 0, 1]  # 2 may not stay where it is
    assert settled([0, 1], [(0, 1), (1, 0)], {0: 0}) == [0, 0]
