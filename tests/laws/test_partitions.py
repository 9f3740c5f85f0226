"""The laws of graphs, assignments and partitions hold of what we make, and each catches its fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.assignment import OVERRULED, RELAXED, Assignment
from simulator.cluster.cluster import Cluster
from simulator.columns import flags, ids
from simulator.graph.building import build
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import Step, choose_step
from simulator.laws import assignment_laws, graph_laws
from simulator.partitioning.cut import partition
from simulator.partitioning.laws import partition_laws
from simulator.partitioning.levels import FLAVOURS
from simulator.partitioning.partitions import Partitions, carried
from simulator.placer.constraints import constrain
from tests.execution.cases import CLUSTERS, apart, assigned, cluster, whole
from tests.partitioning.cases import random_graph
from tests.strategies import Rows, graphs, type_attr, typed

SEEDS = st.integers(0, 2**32)


@given(SEEDS, CLUSTERS, st.integers(0, 2), st.data())
def test_the_pieces_of_a_step_are_lawful(seed: int, on: Cluster, loops: int, data: st.DataObject) -> None:
    graph, devices = random_graph(seed, len(on), nodes=8, loops=loops)
    fetches = data.draw(st.lists(st.sampled_from(graph.names), min_size=1, max_size=4, unique=True))
    fed = data.draw(st.lists(st.sampled_from([n for n in graph.names if "while" not in n]), max_size=2, unique=True))
    outputs = [name for name in fed if graph.tensor_ptr[graph.row(name)] < graph.tensor_ptr[graph.row(name) + 1]]
    step = choose_step(graph, fetches=[f for f in fetches if f not in fed] or None, feeds=[f"{f}:0" for f in outputs])
    placed = assigned(on, devices)
    assert graph_laws(graph) == []
    for flavour in FLAVOURS:
        pieces = partition(graph, placed, on, legal=False, step=step, flavour=flavour)
        assert partition_laws(graph, step, on, placed, pieces) == []
        for transfer, tensor in enumerate(pieces.tensor.tolist()):
            name = graph.tensor_name(tensor) if tensor >= 0 else f"^{graph.names[-1 - tensor]}"
            assert carried(pieces, transfer) == name


@given(graphs(), CLUSTERS, st.randoms(use_true_random=False))
def test_the_pieces_of_the_whole_are_lawful(graph: Graph, on: Cluster, random: Random) -> None:
    placed = assigned(on, [random.randrange(len(on)) for _ in range(len(graph))])
    for flavour in FLAVOURS:
        pieces = partition(graph, placed, on, legal=False, step=whole(graph), flavour=flavour)
        assert partition_laws(graph, whole(graph), on, placed, pieces) == []


@given(SEEDS)
def test_names_do_not_matter_but_for_the_order_of_control_inputs(seed: int) -> None:
    """The same cut under names that sort the other way round, but for numbers that go by name."""
    on = apart(3)
    graph, devices = random_graph(seed, 3, nodes=8, loops=1)
    names = [f"n{len(graph) - row:05}" for row in range(len(graph))]
    other = replace(graph, names=tuple(names))
    cuts = [partition(one, assigned(on, devices), on, step=whole(one)) for one in (graph, other)]
    for column in ("tensor", "src_device", "dst_device", "nbytes"):
        assert getattr(cuts[0], column).tolist() == getattr(cuts[1], column).tolist()
    assert len(cuts[0].graph) == len(cuts[1].graph)


def _example() -> tuple[Graph, Step, Assignment, Partitions]:
    """Three devices, values and control edges that cross, a constant that is copied, a reference, a loop."""
    graph, devices = random_graph(2, 3, nodes=25, loops=1)
    placed = assigned(apart(3), devices)
    return graph, whole(graph), placed, partition(graph, placed, apart(3), step=whole(graph))


GRAPH, STEP, PLACED, PIECES = _example()


def _set(column: np.ndarray, row: int, value: int) -> np.ndarray:
    changed = np.array(column)
    changed[row] = value
    return changed


def _rewired(change: Callable[[Graph], Graph]) -> Partitions:
    return replace(PIECES, graph=change(PIECES.graph))


def _first(op: str) -> int:
    return PIECES.graph.ops.index(op)


def _attr(row: int, name: str, text: str) -> Partitions:
    attrs = list(PIECES.graph.attrs)
    attrs[row] = {**attrs[row], name: AttrValue(s=text.encode())}
    return _rewired(lambda graph: replace(graph, attrs=tuple(attrs)))


def _swapped_transfers() -> Partitions:
    send = PIECES.send.copy()
    send[[0, 1]] = send[[1, 0]]
    return replace(PIECES, send=send)


def _same_key() -> Partitions:
    """Two transfers between the same devices carry the name of one of them."""
    sent, received = PIECES.device[PIECES.send], PIECES.device[PIECES.recv]
    one, other = np.flatnonzero((sent == sent[0]) & (received == received[0]))[:2].tolist()
    attrs, name = list(PIECES.graph.attrs), PIECES.graph.attrs[PIECES.recv[other]]["tensor_name"]
    for end in (PIECES.send[one], PIECES.recv[one]):
        attrs[end] = {**attrs[end], "tensor_name": name}
    return _rewired(lambda graph: replace(graph, attrs=tuple(attrs)))


def _another_input() -> Partitions:
    """A node that was there before reads another tensor of the same device."""
    graph = PIECES.graph
    muls = [row for row, op in enumerate(graph.ops) if op == "Mul" and not PIECES.inserted[row]]
    edge = int(graph.in_ptr[muls[-1]])
    dst = graph.edge_dst[edge]
    other = next(
        int(tensor)
        for tensor in range(len(graph.tensor_node))
        if graph.tensor_node[tensor] < dst
        and PIECES.device[graph.tensor_node[tensor]] == PIECES.device[dst]
        and PIECES.origin[graph.tensor_node[tensor]] != PIECES.origin[graph.edge_src[edge]]
        and graph.order.tolist().index(graph.tensor_node[tensor]) < graph.order.tolist().index(dst)
    )
    return _rewired(
        lambda g: replace(
            g, edge_tensor=_set(g.edge_tensor, edge, other), edge_src=_set(g.edge_src, edge, g.tensor_node[other])
        )
    )


MUTATIONS: dict[str, Callable[[], Partitions]] = {
    "a key twice": lambda: _attr(_first("_Recv"), "tensor_name", "edge_0_x"),
    "a Send on another device": lambda: _attr(_first("_Send"), "send_device", apart(3).devices[2].name + "0"),
    "an edge that crosses": lambda: replace(
        PIECES, device=_set(PIECES.device, _first("Mul"), (PIECES.device[_first("Mul")] + 1) % 3)
    ),
    "a transfer less": lambda: replace(PIECES, send=PIECES.send[1:], recv=PIECES.recv[1:]),
    "transfers mixed up": _swapped_transfers,
    "another tensor": lambda: replace(PIECES, tensor=_set(PIECES.tensor, 0, PIECES.tensor[-1])),
    "another way": lambda: replace(PIECES, src_device=_set(PIECES.src_device, 0, PIECES.dst_device[0])),
    "the same key": _same_key,
    "another input": _another_input,
    "a name of another": lambda: _rewired(lambda g: replace(g, names=("other", *g.names[1:]))),
    "another op": lambda: _rewired(lambda g: replace(g, ops=("Other", *g.ops[1:]))),
    "another origin": lambda: replace(PIECES, origin=_set(PIECES.origin, 0, 1)),
    "devices of another cluster": lambda: replace(PIECES, devices=("a", "b", "c")),
}


def test_the_example_is_lawful_and_has_what_the_mutations_need() -> None:
    assert partition_laws(GRAPH, STEP, apart(3), PLACED, PIECES) == []
    assert {"_Send", "_Recv", "Identity", "LoopCond"} <= set(PIECES.graph.ops)
    assert any("replicate" in name for name in PIECES.graph.names)
    assert (PIECES.tensor < 0).any()


@pytest.mark.parametrize("fault", MUTATIONS)
def test_a_fault_in_the_pieces_is_found(fault: str) -> None:
    assert partition_laws(GRAPH, STEP, apart(3), PLACED, MUTATIONS[fault]())


def test_a_node_too_few_or_too_many_is_found() -> None:
    runs = np.array(STEP.runs)
    runs[int(PIECES.origin[0])] = False
    assert partition_laws(GRAPH, replace(STEP, runs=flags(runs)), apart(3), PLACED, PIECES)
    part = choose_step(GRAPH, fetches=[GRAPH.names[0]])
    assert partition_laws(GRAPH, STEP, apart(3), PLACED, partition(GRAPH, PLACED, apart(3), step=part))


def test_a_second_pair_for_a_tensor_is_found() -> None:
    rows = Rows()
    rows.add("a", "Const", [], **typed("Const", (17,)))
    rows.add("v", "VariableV2", [], **typed("VariableV2", (17,)))
    rows.add("m", "Mul", ["v", "v"], T=type_attr())
    graph = rows.built()
    placed = assigned(apart(2), [0, 0, 1])
    pieces = partition(graph, placed, apart(2), step=whole(graph))
    assert partition_laws(graph, whole(graph), apart(2), placed, pieces) == []
    plain = replace(graph, tensor_dtype=ids([1, 1, 1]))  # the same two pairs of a tensor that is no reference
    assert partition_laws(plain, whole(graph), apart(2), placed, pieces)


def test_two_copies_of_a_constant_may_go_to_one_device() -> None:
    on = cluster(["w:0/CPU:0", "w:1/CPU:0", "w:1/GPU:0"])
    rows = Rows()
    rows.add("k", "Const", [], **typed("Const", (2,)))
    rows.add("read", "Neg", ["k"], T=type_attr())  # of the copy on the CPU of its task
    rows.add(
        "enter", "Enter", ["k"], T=type_attr(), frame_name=AttrValue(s=b"f")
    )  # of another, as it is moved after that
    rows.add("merge", "Merge", ["enter", "next"], T=type_attr(), N=AttrValue(i=2))
    rows.add("less", "IsFinite", ["merge"], T=type_attr())
    rows.add("cond", "LoopCond", ["less"])
    rows.add("switch", "Switch", ["merge", "cond"], T=type_attr())
    rows.add("next", "NextIteration", ["switch:1"], T=type_attr())
    graph = rows.built()
    placed = assigned(on, [0, 2, 0, 2, 2, 2, 2, 2])
    pieces = partition(graph, placed, on, legal=False, step=whole(graph))

    assert pieces.device[pieces.graph.index["enter"]] == 2
    between = np.flatnonzero(~pieces.within)  # IsFinite's output goes to host memory, where LoopCond reads it
    ends = zip(pieces.src_device[between].tolist(), pieces.dst_device[between].tolist(), strict=True)
    assert sorted(ends) == [(0, 2), (1, 2)]
    assert partition_laws(graph, whole(graph), on, placed, pieces) == []


def test_a_cycle_across_pieces_is_found() -> None:
    """Two transfers in opposite directions, each Send waiting for the other's Recv."""
    rows = Rows()
    for name in "ab":
        rows.add(name, "Const", [], **typed("Const", (17,)))
        rows.add(f"{name}2", "Neg", [name], T=type_attr())
    graph = rows.built()
    placed = assigned(apart(2), [0, 1, 1, 0])
    pieces = partition(graph, placed, apart(2), step=whole(graph))
    cut = pieces.graph
    inputs = [list(cut.inputs_of(row)) for row in range(len(cut))]
    for name, other in (("a", "b2"), ("b", "a2")):
        inputs[cut.index[name]] = [f"^{other}"]
    tied = replace(pieces, graph=build(cut.names, cut.ops, cut.requested, inputs, cut.attrs))
    assert any("wait for each other" in one for one in partition_laws(graph, whole(graph), apart(2), placed, tied))


GRAPH_FAULTS = {
    "an edge to nowhere": lambda g: replace(g, edge_src=_set(g.edge_src, 0, len(g))),
    "an edge of another node": lambda g: replace(g, edge_dst=_set(g.edge_dst, 0, 0)),
    "a tensor of another node": lambda g: replace(g, edge_tensor=_set(g.edge_tensor, 0, int(g.edge_tensor[0]) + 1)),
    "a data input after a control input": lambda g: replace(
        g, edge_tensor=_set(g.edge_tensor, int(g.in_ptr[np.argmax(np.diff(g.in_ptr) > 1)]), -1)
    ),
    "an order with a gap": lambda g: replace(g, order=_set(g.order, 0, int(g.order[1]))),
    "an order against an edge": lambda g: replace(g, order=g.order[::-1]),
    "a back edge that is not said": lambda g: replace(g, edge_back=np.zeros(len(g.edge_back), bool)),
    "pointers that go back": lambda g: replace(g, in_ptr=_set(g.in_ptr, 1, 99)),
    "a column too short": lambda g: replace(g, ops=g.ops[1:]),
}


@pytest.mark.parametrize("fault", GRAPH_FAULTS)
def test_a_fault_in_a_graph_is_found(fault: str) -> None:
    assert graph_laws(GRAPH) == []
    assert graph_laws(GRAPH_FAULTS[fault](GRAPH))


def _asking() -> tuple[Graph, Assignment]:
    rows = Rows()
    rows.add("a", "Neg", ["c"], device="/job:w/task:0/device:GPU:1", T=type_attr())
    rows.add("b", "AsString", ["c"], T=type_attr())
    rows.add("c", "Const", [], **typed("Const", (2,)))
    return rows.built(), assigned(ON, [2, 0, 0])


ON = cluster(["w:0/CPU:0", "w:0/GPU:0", "w:0/GPU:1", "w:1/GPU:0"])

ASSIGNMENT_FAULTS = {
    "another device than asked": lambda a: replace(a, device=ids([1, 0, 0])),
    "another task though relaxed": lambda a: replace(a, device=ids([3, 0, 0]), why=ids([RELAXED, 0, 0])),
    "no kernel": lambda a: replace(a, device=ids([2, 1, 0])),
    "no device": lambda a: replace(a, device=ids([2, 0, -1])),
    "no such reason": lambda a: replace(a, why=ids([0, 0, 99])),
    "too few": lambda a: replace(a, device=ids([2, 0])),
    "another cluster": lambda a: replace(a, devices=a.devices[:2]),
}


@pytest.mark.parametrize("fault", ASSIGNMENT_FAULTS)
def test_a_fault_in_an_assignment_is_found(fault: str) -> None:
    graph, placed = _asking()
    assert assignment_laws(graph, placed, ON) == []
    assert assignment_laws(graph, ASSIGNMENT_FAULTS[fault](placed), ON)


def test_what_was_given_up_is_lawful_when_it_is_said_and_a_split_group_never() -> None:
    graph, placed = _asking()
    assert assignment_laws(graph, replace(placed, device=ids([1, 0, 0]), why=ids([RELAXED, 0, 0])), ON) == []
    assert assignment_laws(graph, replace(placed, device=ids([3, 0, 0]), why=ids([OVERRULED, 0, 0])), ON) == []
    rules = constrain(graph, ON)
    for group, broken in (([0, 1, 1], []), ([0, 1, 0], ["'c' is not with 'a' of its group"])):
        under = replace(placed, constraints=replace(rules, group=ids(group)))
        assert assignment_laws(graph, under, ON) == broken
