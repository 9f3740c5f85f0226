from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.assignment import COST, REQUESTED, RULES, Assignment
from simulator.cluster.reading import load_cluster
from simulator.columns import flags, ids
from simulator.comparison import compare
from simulator.graph.exporting import graph_def
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.partitioning import Partitions, partition
from tests.strategies import Rows, graphs, loop, type_attr, typed

CPUS = load_cluster("cpu=3")
TASKS = load_cluster("ps=1,worker=2x2gpu")


def placed(graph: Graph, devices: list[int], cluster: Any = CPUS) -> Assignment:
    names = tuple(device.name for device in cluster.devices)
    return Assignment(names, ids(devices), ids([COST] * len(graph)), "by hand", "by hand")


def everything(graph: Graph) -> Step:
    return Step((), graph.names, flags([True] * len(graph)), "all")


def cut(graph: Graph, devices: list[int], cluster: Any = CPUS) -> Partitions:
    return partition(graph, placed(graph, devices, cluster), cluster, step=everything(graph))


def branches() -> Graph:
    """A variable read on two devices, one of which also waits for it, and a constant that both use."""
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (4,)))
    rows.add("one", "Const", **typed("Const", ()))
    rows.add("a", "Mul", ["x", "one"], **typed("Mul", (4,)))
    rows.add("b", "Mul", ["x", "one", "^a"], **typed("Mul", (4,)))
    rows.add("sum", "AddV2", ["a", "b"], **typed("AddV2", (4,)))
    return rows.built()


BRANCHES = branches()
SPREAD = [0, 0, 1, 2, 0]


def pieces(partitions: Partitions) -> list[Any]:
    """A GraphDef per device, as TensorFlow shows a cut."""
    whole = graph_def(partitions.graph)
    found: dict[str, Any] = {}
    for node in whole.node:
        piece = found.setdefault(node.device, type(whole)())
        piece.node.add().CopyFrom(node)
    return list(found.values())


def test_a_placement_agrees_with_itself() -> None:
    ours = placed(BRANCHES, SPREAD)
    result = compare(ours, ours, graph=BRANCHES)
    assert (result.agree, result.of, result.differences) == (5, 5, ())


def test_a_node_that_lies_elsewhere_is_named_with_both_sides_and_the_rule() -> None:
    ours = replace(placed(BRANCHES, SPREAD), why=ids([COST, COST, COST, REQUESTED, COST]))
    result = compare(ours, placed(BRANCHES, [0, 0, 1, 1, 0]), graph=BRANCHES)
    (one,) = result.differences
    assert (result.agree, result.of, one.node, one.rule) == (4, 5, "b", RULES[REQUESTED])
    assert (one.ours[-5:], one.theirs[-5:]) == ("CPU:2", "CPU:1")


def test_a_measured_placement_may_lack_nodes_and_have_others() -> None:
    ours = placed(BRANCHES, SPREAD)
    theirs = {name: ours.name_of(row) for row, name in enumerate(BRANCHES.names)}
    del theirs["x"]
    theirs["new"] = "/job:localhost/replica:0/task:0/device:CPU:0"
    result = compare(ours, theirs, graph=BRANCHES)
    assert (result.agree, result.of) == (4, 6)
    assert [(one.node, one.ours == "", one.theirs == "") for one in result.differences] == [
        ("x", False, True),
        ("new", True, False),
    ]


def test_nodes_without_a_graph_are_called_by_their_rows() -> None:
    (one,) = compare(placed(BRANCHES, SPREAD), placed(BRANCHES, [1, *SPREAD[1:]])).differences
    assert one.node == "node 0"


def test_results_of_different_kinds_are_not_compared() -> None:
    with pytest.raises(TypeError, match="different kinds"):
        compare(placed(BRANCHES, SPREAD), cut(BRANCHES, SPREAD))
    with pytest.raises(TypeError, match="different kinds"):
        compare(cut(BRANCHES, SPREAD), {})


@pytest.mark.parametrize("by", ["device", "task"])
@given(graph=graphs(max_nodes=12), random=st.randoms(use_true_random=False))
def test_a_cut_agrees_with_itself_piece_by_piece(by: str, graph: Graph, random: Any) -> None:
    devices = [random.randrange(len(TASKS)) for _ in graph.names]
    ours = cut(graph, devices, TASKS)
    for theirs in (ours, pieces(ours)):
        result = compare(ours, theirs, graph=graph, by=by)
        assert result.differences == ()
        assert result.agree == result.of >= len(graph)


def test_the_names_of_inserted_nodes_do_not_matter() -> None:
    ours = cut(BRANCHES, SPREAD)
    theirs = pieces(ours)
    own = set(BRANCHES.names)
    for piece in theirs:
        for node in piece.node:
            node.name = node.name if node.name in own or "/replicate/" in node.name else f"{node.name}0"
            for at, text in enumerate(node.input):
                if text.removeprefix("^") not in own and "/replicate/" not in text:
                    node.input[at] = f"{text}0"
    assert compare(ours, theirs, graph=BRANCHES).differences == ()


def node(theirs: list[Any], wanted: Callable[[Any], bool]) -> Any:
    return next(one for piece in theirs for one in piece.node if wanted(one))


def change_op(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.name == "a").op = "AddV2"


def change_device(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.name == "a").device = CPUS.devices[0].name


def swap_inputs(theirs: list[Any]) -> None:
    one = node(theirs, lambda one: one.name == "sum")
    one.input[0], one.input[1] = one.input[1], one.input[0]


def drop_control(theirs: list[Any]) -> None:
    del node(theirs, lambda one: one.name == "b").input[-1]


def drop_node(theirs: list[Any]) -> None:
    piece = next(piece for piece in theirs if any(one.name == "sum" for one in piece.node))
    kept = [one for one in piece.node if one.name != "sum"]
    del piece.node[:]
    piece.node.extend(kept)


def send_another_tensor(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.op == "_Send" and one.input[0] == "a").input[0] = "x"


def cross_the_keys(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.op == "_Recv").attr["tensor_name"].s = b"edge_999_x"


def receive_on_host(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.op == "_Recv").op = "_HostRecv"


def send_twice(theirs: list[Any]) -> None:
    for piece in theirs:
        for one in [one for one in piece.node if one.op in ("_Send", "_Recv") and one.attr["_src"].s == b"x"]:
            again = piece.node.add()
            again.CopyFrom(one)
            again.name += "again"
            again.attr["tensor_name"].s += b"again"


MUTATIONS = [
    change_op,
    change_device,
    swap_inputs,
    drop_control,
    drop_node,
    send_another_tensor,
    cross_the_keys,
    receive_on_host,
    send_twice,
]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_mutated_record_differs(mutate: Callable[[list[Any]], None]) -> None:
    ours = cut(BRANCHES, SPREAD)
    theirs = pieces(ours)
    whole = compare(ours, theirs, graph=BRANCHES)
    assert whole.differences == ()
    mutate(theirs)
    result = compare(ours, theirs, graph=BRANCHES)
    assert result.differences
    assert result.agree == result.of - len(result.differences) < whole.of


@pytest.mark.parametrize(
    ("mutate", "item", "rule"),
    [
        (change_op, "a", "op"),
        (change_device, "a", "device"),
        (swap_inputs, "sum", "inputs"),
        (drop_control, "b", "control inputs"),
        (drop_node, "sum", "only ours"),
        (send_another_tensor, "sum", "inputs"),
    ],
)
def test_a_difference_says_what_differs(mutate: Callable[[list[Any]], None], item: str, rule: str) -> None:
    ours = cut(BRANCHES, SPREAD)
    theirs = pieces(ours)
    mutate(theirs)
    found = {one.node: one.rule for one in compare(ours, theirs, graph=BRANCHES).differences}
    assert found[item] == rule


def test_by_task_one_transfer_to_a_task_is_like_one_to_each_of_its_devices() -> None:
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (4,)))
    rows.add("a", "Neg", ["x"], **typed("Neg", (4,)))
    rows.add("b", "Neg", ["x"], **typed("Neg", (4,)))
    graph = rows.built()
    one, two = (TASKS.index[f"/job:worker/replica:0/task:0/device:GPU:{number}"] for number in (0, 1))
    ours, theirs = cut(graph, [0, one, two], TASKS), pieces(cut(graph, [0, one, one], TASKS))
    by_device, by_task = (compare(ours, theirs, graph=graph, by=by) for by in ("device", "task"))
    assert {one.node for one in by_device.differences} > {"b"}
    assert [one.node for one in by_task.differences] == ["b"]  # it is placed elsewhere, but nothing else crosses


def test_a_loop_across_devices_is_compared_with_its_control_loop() -> None:
    rows = Rows()
    rows.add("x", "Const", **typed("Const", ()))
    loop(rows, start="x")
    graph = rows.built()
    ours = cut(graph, [int(name == "while/Neg") for name in graph.names])
    theirs = pieces(ours)
    assert compare(ours, theirs, graph=graph).differences == ()
    for piece in theirs:
        kept = [one for one in piece.node if not one.name.startswith("_cloop")]
        del piece.node[:]
        piece.node.extend(kept)
    found = {one.node for one in compare(ours, theirs, graph=graph).differences}
    assert any(name.startswith("control loop: Enter on") for name in found)


def test_a_cut_of_garbage_is_all_different_and_raises_nothing() -> None:
    ours = cut(BRANCHES, SPREAD)
    garbage = type(graph_def(BRANCHES))()
    garbage.node.add(name="r", op="_Recv", input=["^nowhere"])
    garbage.node.add(name="s", op="_Send")
    garbage.node.add(name="a", op="Mul", input=["r", "gone:7", "^^", ""], attr={"T": type_attr()})
    result = compare(ours, [garbage], graph=BRANCHES)
    assert result.agree == 0
