"""The flat tables: who waits for what, what is left out, and whose buffer a tensor is."""

from __future__ import annotations

import numpy as np

from simulator.columns import ids
from simulator.execution.buffers import OWN, RESIDENT
from simulator.execution.tables import Tables, of_step
from simulator.graph.messages import AttrValue
from simulator.graph.step import choose_step
from tests.execution.cases import apart, cluster, costs
from tests.execution.test_engine import story, table
from tests.strategies import Rows, loop, type_attr, typed


def inputs(tables: Tables, name: str) -> list[str]:
    """What an op waits for: "a" for a value, "^a" for its end."""
    op = tables.names.index(name)
    found = tables.in_tensor[tables.in_ptr[op] : tables.in_ptr[op + 1]].tolist()
    return ["^" * int(tables.tensor_row[t] < 0) + tables.names[tables.tensor_op[t]] for t in found]


def test_duplicates_are_merged_and_control_comes_last() -> None:
    tables = table(story("x = Const", "a = AddN x x ^x", "b = Neg x ^a ^x"), apart(1))
    assert inputs(tables, "a") == ["x", "^x"]
    assert inputs(tables, "b") == ["x", "^x", "^a"]
    assert tables.tensor_row.tolist() == [0, -1, -2]
    assert tables.tensor_bytes.tolist() == [100, 0, 0]
    assert tables.in_edge.tolist() == sorted(range(5), key=lambda e: (tables.consumer[e], tables.edge_tensor[e]))


def test_what_does_not_run_is_left_out_and_the_client_takes_part_on_its_device() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a", "c = Neg x").built()
    step = choose_step(graph, feeds=["a:0"], fetches=["b:0"])
    tables = of_step(graph, step, apart(2), costs(graph, apart(2), 10))
    assert (tables.names, tables.node.tolist()) == (("b", "a:0 (fed)", "b:0 (fetched)"), [2, 1, 2])
    assert (inputs(tables, "b"), inputs(tables, "b:0 (fetched)")) == (["a:0 (fed)"], ["b"])
    assert tables.instant.tolist() == [False, True, True]
    assert tables.run_ns.tolist() == [[10, 10], [0, -1], [0, -1]]
    assert tables.bound.tolist() == [-1, 0, 0]
    assert tables.placed(ids([1, 1, 1, 1])).tolist() == [1, 0, 0]


def test_a_fed_node_that_something_waits_for_runs_and_its_own_value_goes_to_waste() -> None:
    graph = story("x = Const", "a = Neg x", "b = Neg a", "c = Neg b ^a").built()
    step = choose_step(graph, feeds=["a:0"], fetches=["c"])
    tables = of_step(graph, step, apart(1), costs(graph, apart(1), 10))
    assert tables.names == ("x", "a", "b", "c", "a:0 (fed)")
    assert (inputs(tables, "b"), inputs(tables, "c")) == (["a:0 (fed)"], ["^a", "b"])
    assert tables.scratch_bytes.tolist() == [0, 100, 0, 100, 0]


def test_a_loop_is_its_ops_once_per_iteration() -> None:
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", ()))
    loop(draft, start="x")
    tables = table(draft, apart(1))
    merges = [op for op, name in enumerate(tables.names) if name == "while/Merge" and not tables.silent[op]]
    assert [tables.iterations[tables.iteration[op]] for op in merges] == [(0,), (1,)]
    reads = [tables.in_tensor[tables.in_ptr[op] : tables.in_ptr[op + 1]].tolist() for op in merges]
    before = [tables.names[tables.tensor_op[tensor]] for tensors in reads for tensor in tensors]
    assert before == ["while/Enter", "while/NextIteration"]
    assert [tables.names[op] for op in np.flatnonzero(tables.silent)] == [
        "while/Exit", "while/Neg", "while/NextIteration",
    ]  # fmt: skip


def test_a_step_that_contradicts_itself_is_taken_as_it_stands() -> None:
    draft = Rows()
    draft.add("x", "Const", **typed("Const", ()))
    last = loop(draft, start="x")
    draft.add("both", "AddN", ["while/Neg", last], N=AttrValue(i=2), T=type_attr())
    tables = table(draft, apart(1))
    assert inputs(tables, "while/Merge") == ["while/Enter"]
    assert tables.merge.tolist() == [op == "Merge" for op in draft.ops]
    said = "Loops run once and every branch runs: 'both' reads from two loops, which TensorFlow refuses to run."
    assert tables.notes == (said,)


def test_buffers_are_passed_on_or_resident_or_their_own() -> None:
    draft = story("x = AddN", "i = Identity x", "n = Neg i", "end = Neg n")
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    draft.add("read", "Identity", ["v"], **typed("Identity", (25,)))
    draft.add("last", "Neg", ["read"], **typed("Neg", (25,)))
    tables = table(draft, apart(1))
    names = [tables.names[op] for op in tables.tensor_op]
    assert dict(zip(names, tables.forwards.tolist(), strict=True)) == {
        "x": OWN, "i": names.index("x"), "n": OWN, "v": RESIDENT, "read": names.index("v"),
    }  # fmt: skip


def test_outputs_that_nobody_reads_are_scratch() -> None:
    tables = table(story("x = Const", "u = Unpack x", "a = Neg u:1"), apart(1))
    assert tables.scratch_bytes.tolist() == [0, 100, 100]  # u:0; a:0


def test_the_cluster_is_a_few_columns() -> None:
    on = cluster(["w:0/CPU:0", "w:0/CPU:1", "w:0/GPU:0", "v:0/CPU:0"])
    tables = table(story("x = Placeholder"), on, [[0, 0]])
    assert tables.home.tolist() == [0, 1, 0, 3]
    routes = tables.routes
    pace = routes.pace[routes.between(ids([0, 0, 0]), ids([1, 2, 3]))]
    assert routes.latency_ns[pace].tolist() == [7, 100, 100]
    assert routes.bytes_per_s[pace].tolist() == [0, 10**9, 10**9]
    assert routes.between(ids([0]), ids([0])).tolist() == [routes.at_hand]
    assert not len(routes.links[routes.at_hand])
