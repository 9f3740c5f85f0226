"""Feeds and fetches beside TensorFlow's own: every node, name, input and attribute of the cut on random steps."""

from __future__ import annotations

from random import Random

import pytest

from simulator.cluster.cluster import Cluster
from simulator.comparison.comparison import compare_items
from simulator.graph.dtypes import REF
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import Step, choose_step
from simulator.oracle.dry_runs import dry_run, extended
from simulator.partitioning.cut import partition, partition_by_task
from tests.execution.cases import assigned
from tests.oracle.staying import ask_staying
from tests.oracle.test_partitioning import CROWD, LOCAL
from tests.partitioning.cases import random_rows
from tests.strategies import FLOAT, Rows, type_attr, typed

pytestmark = pytest.mark.tensorflow


def with_placeholders(rows: Rows, random: Random) -> Graph:
    """The graph with some of its constants as placeholders of the same shape."""
    for row, op in enumerate(rows.ops):
        if op == "Const" and "while" not in rows.names[row] and random.random() < 0.4:
            shape = rows.attrs[row]["value"].tensor.tensor_shape
            if rows.attrs[row]["dtype"].type == FLOAT:
                rows.ops[row] = "Placeholder"
                rows.attrs[row] = {"dtype": type_attr(), "shape": AttrValue(shape=shape)}
    return rows.built()


def random_step(graph: Graph, random: Random) -> Step:
    """Up to 4 tensors fed and 4 fetched, up to 3 nodes that only run; a node may be in all three lists."""
    outside = [row for row, name in enumerate(graph.names) if "while" not in name]
    left = [row for row, name in enumerate(graph.names) if graph.ops[row] == "Exit" and name.count("while") == 1]
    tensors = {
        row: [at for at in range(graph.tensor_ptr[row], graph.tensor_ptr[row + 1]) if graph.tensor_dtype[at] < REF]
        for row in (*outside, *left)
    }
    free = [at for row in outside for at in tensors[row]]
    fetched = random.sample([*free, *(at for row in left for at in tensors[row])], random.randint(1, 4))
    return choose_step(
        graph,
        feeds=[graph.tensor_name(at) for at in random.sample(free, random.randint(0, 4))],
        fetches=[
            *(graph.tensor_name(at) for at in fetched),
            *(graph.names[row] for row in random.sample(outside, random.randint(0, 3))),
        ],
    )


def differences(graph: Graph, devices: list[int], on: Cluster, step: Step) -> list[str]:
    """The nodes that are not equal as they stand, of all pieces that TensorFlow shows."""
    where = [on.devices[row].name for row in devices]
    seen = dry_run(graph, on, step=step, devices=where, asking=ask_staying)
    assert seen.refusal is None
    cut = partition if on is LOCAL else partition_by_task
    on = extended(on)  # whose client is the task that is added for the master
    placed = assigned(on, [on.index[seen.placement[name]] for name in graph.names])
    pieces = cut(graph, placed, on, step=step)
    found = compare_items(pieces, seen.partitions, graph=graph)
    assert found.of >= len(pieces.graph) > 0
    return [str(one) for one in found.differences] or ["a name"] * (found.of - found.raw)


@pytest.mark.parametrize(("on", "loops", "seeds"), [(LOCAL, 3, range(40)), (CROWD, 1, range(40, 60))])
def test_the_cut_of_a_random_step_is_that_of_tensorflow(on: Cluster, loops: int, seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        rows, devices = random_rows(random, len(on), nodes=12, loops=seed % loops)
        graph = with_placeholders(rows, random)
        step = random_step(graph, random)
        if step.fetches:  # else all that is fetched is fed
            assert differences(graph, devices, on, step) == [], (seed, step.feeds, step.fetches)


def example() -> Graph:
    """x feeds a, which b reads and c waits for; u has two outputs."""
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder"))
    rows.add("k", "Const", **typed("Const", (17,)))
    rows.add("a", "Neg", ["k"], T=type_attr())
    rows.add("b", "Mul", ["a", "x"], T=type_attr())
    rows.add("c", "Neg", ["b", "^a", "^x"], T=type_attr())
    rows.add("u", "Unpack", ["k"], T=type_attr(), num=AttrValue(i=17))
    rows.add("v", "VariableV2", **typed("VariableV2"))
    return rows.built()


STEPS = {
    "a fed node that another waits for": (("a:0", "x:0"), ("c:0",)),
    "a fed node of which another output is fetched": (("u:0",), ("u:1",)),
    "a fetch on another device": ((), ("k:0", "u:16")),
    "a target alone": ((), ("c",)),
    "a target that is fed": (("x:0",), ("b", "x")),
    "a fetch that is fed": (("a:0", "x:0"), ("a:0", "b:0")),
    "a fetch that comes twice": (("x:0",), ("b:0", "b:0", "b")),
    "a fetched reference": ((), ("v:0",)),
    "what is fed and not read": (("u:3", "x:0"), ("k:0",)),
    "places in the order of text": (("u:10", "u:2"), ("u:9", "u:11")),
}


@pytest.mark.parametrize("on", [LOCAL, CROWD], ids=["local", "master"])
def test_tricky_steps_are_cut_as_tensorflow_cuts_them(on: Cluster) -> None:
    graph = example()
    for name, (feeds, fetches) in STEPS.items():
        step = choose_step(graph, feeds=feeds, fetches=fetches)
        assert differences(graph, [1, 1, 2, 3, 1, 2, 3], on, step) == [], name


@pytest.mark.parametrize("others", [2, 7])  # 7: eight edges and, for a moment, one more, whose order is by chance
@pytest.mark.parametrize("on", [LOCAL, CROWD])
def test_a_copy_waits_for_what_is_fed_where_its_original_waited_for_the_placeholder(on: Cluster, others: int) -> None:
    rows = Rows()
    rows.add("a", "Placeholder", dtype=type_attr())
    for other in range(others):
        rows.add(f"x{other}", "Const", **typed("Const", (17,)))
    rows.add("k", "Const", ["^a", *(f"^x{other}" for other in range(others))], **typed("Const", (2,)))
    for reader in "uv":
        rows.add(reader, "Neg", ["k"], T=type_attr())
    graph = rows.built()
    step = choose_step(graph, feeds=["a:0"], fetches=["u", "v"])
    devices = [0, *(other % 2 for other in range(others)), 0, 0, 1]
    found = differences(graph, devices, on, step)
    assert set(found) <= ({"a name"} if others == 7 else set())
