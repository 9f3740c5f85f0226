"""The flat tables: who waits for what, what is left out, and whose buffer a tensor is."""

from __future__ import annotations

import numpy as np

from simulator.execution.tables import OWN, RESIDENT, Tables, of_step
from simulator.graph.step import Step
from tests.execution.cases import apart, cluster, costs
from tests.execution.test_engine import story, table
from tests.strategies import Rows, loop, typed


def inputs(tables: Tables, name: str) -> list[str]:
    """What an op waits for: "a" for a value, "^a" for its end."""
    op = tables.names.index(name)
    found = tables.in_tensor[tables.in_ptr[op] : tables.in_ptr[op + 1]].tolist()
    return ["^" * int(tables.tensor_row[t] < 0) + tables.names[tables.tensor_op[t]] for t in found]


def test_duplicates_are_merged_and_control_comes_last() -> None:
    tables = table(story("x = Placeholder", "a = AddN x x ^x", "b = Neg x ^a ^x"), apart(1))
    assert inputs(tables, "a") == ["x", "^x"]
    assert inputs(tables, "b") == ["x", "^x", "^a"]
    assert tables.tensor_row.tolist() == [0, -1, -2]
    assert tables.tensor_bytes.tolist() == [100, 0, 0]
    assert tables.in_edge.tolist() == sorted(range(5), key=lambda e: (tables.consumer[e], tables.edge_tensor[e]))


def test_what_does_not_run_is_left_out_and_fed_nodes_wait_for_nothing() -> None:
    graph = story("x = Placeholder", "a = Neg x", "b = Neg a", "c = Neg x").built()
    runs = np.array([False, True, True, False])
    tables = of_step(graph, Step(("a:0",), ("b",), runs, "by hand"), apart(1), costs(graph, apart(1), 10))
    assert (tables.names, tables.node.tolist()) == (("a", "b"), [1, 2])
    assert (inputs(tables, "a"), inputs(tables, "b")) == ([], ["a"])
    assert tables.instant.tolist() == [True, False]
    assert tables.run_ns.tolist() == [[0], [10]]


def test_back_edges_are_left_out() -> None:
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", ()))
    loop(draft, start="x")
    tables = table(draft, apart(1))
    assert inputs(tables, "while/Merge") == ["while/Enter"]
    assert tables.merge.tolist() == [op == "Merge" for op in draft.ops]


def test_buffers_are_passed_on_or_resident_or_their_own() -> None:
    draft = story("x = Placeholder", "i = Identity x", "n = Neg i", "end = Neg n")
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    draft.add("read", "Identity", ["v"], **typed("Identity", (25,)))
    draft.add("last", "Neg", ["read"], **typed("Neg", (25,)))
    tables = table(draft, apart(1))
    names = [tables.names[op] for op in tables.tensor_op]
    assert dict(zip(names, tables.forwards.tolist(), strict=True)) == {
        "x": OWN, "i": names.index("x"), "n": OWN, "v": RESIDENT, "read": names.index("v"),
    }  # fmt: skip


def test_outputs_that_nobody_reads_are_scratch() -> None:
    tables = table(story("x = Placeholder", "u = Unpack x", "a = Neg u:1"), apart(1))
    assert tables.scratch_bytes.tolist() == [0, 100, 100]  # u:0; a:0


def test_the_cluster_is_a_few_columns() -> None:
    on = cluster(["w:0/CPU:0", "w:0/CPU:1", "w:0/GPU:0", "v:0/CPU:0"])
    tables = table(story("x = Placeholder"), on, [[0, 0]])
    assert tables.home.tolist() == [0, 1, 0, 3]
    assert tables.latency_ns[0].tolist() == [0, 7, 100, 100]
    assert tables.bytes_per_s[0].tolist() == [0, 0, 10**9, 10**9]
