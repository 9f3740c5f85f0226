"""TensorFlow's placer, rule by rule; each case was tried on TensorFlow 2.21 (docs/tensorflow.md, section 3.7)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from placement.placing import place
from simulator import assignment as why
from simulator.cluster.description import load_cluster
from simulator.cluster.master import connected
from simulator.errors import ClusterError
from tests.placement.problems import costs_of, whole
from tests.strategies import Rows, colocation, type_attr, typed

INT32 = 3


def placed(
    rows: Rows, cluster: str = "4cpu", master: str | None = None, seen: Mapping[str, str] | None = None
) -> tuple[dict[str, tuple[str, int]], list[str]]:
    """{node: (short device, rule)}, and the order of the log."""
    graph, there = rows.built(), load_cluster(cluster)
    there = there if master is None else connected(there, master)
    costs = costs_of(there, [[0] * len(there.kinds)] * len(graph))
    found = place(graph, there, costs, step=whole(graph), algorithm="tensorflow", seen=seen or {})
    short = [there.devices[row].short.removeprefix("localhost:0/") for row in found.device.tolist()]
    assert found.log_order is not None
    log = [graph.names[row] for row in found.log_order.tolist()]
    return dict(zip(graph.names, zip(short, found.why.tolist(), strict=True), strict=True)), log


def on(found: Mapping[str, tuple[str, int]], *names: str) -> list[str]:
    return [found[name][0] for name in names]


def const(rows: Rows, name: str, inputs: Sequence[str] = (), device: str = "", **attrs: Any) -> str:
    return rows.add(name, "Const", inputs, device=device, **typed("Const"), **attrs)


def neg(rows: Rows, name: str, given: str, device: str = "") -> str:
    return rows.add(name, "Neg", [given], device=device, T=type_attr())


def shape(rows: Rows, name: str, given: str, device: str = "") -> str:
    return rows.add(name, "Shape", [given], device=device, T=type_attr(), out_type=type_attr(INT32))


def identity(rows: Rows, name: str, *given: str, device: str = "") -> str:
    return rows.add(name, "Identity", given, device=device, T=type_attr())


def test_a_generator_goes_where_all_its_readers_are() -> None:
    rows = Rows()
    for name, readers in (("one", ["/cpu:2", "/cpu:2"]), ("two", ["/cpu:2", "/cpu:3"])):
        const(rows, name)
        for at, device in enumerate(readers):
            neg(rows, f"{name}_{at}", name, device)
    found, log = placed(rows)
    assert found["one"] == ("CPU:2", why.GENERATOR)
    assert found["two"] == ("CPU:0", why.DEFAULT)
    assert log == ["one_0", "one_1", "two_0", "two_1", "one", "two"]


def test_readers_by_control_count_and_those_not_yet_placed_are_nowhere() -> None:
    rows = Rows()
    const(rows, "a")
    neg(rows, "read", "a", "/cpu:2")
    const(rows, "later", ["^a"], "/cpu:2")  # a generator too: placed after a
    const(rows, "b")
    rows.add("barrier", "NoOp", ["^b"], device="/cpu:1")
    found, _ = placed(rows)
    assert on(found, "a", "later", "b") == ["CPU:0", "CPU:2", "CPU:1"]


def test_a_generator_keeps_what_it_asks_for_and_what_its_group_has() -> None:
    rows = Rows()
    const(rows, "asked", device="/cpu:3")
    neg(rows, "x", "asked", "/cpu:1")
    const(rows, "tied", _class=colocation("x"))
    neg(rows, "y", "tied", "/cpu:2")
    found, _ = placed(rows)
    assert found["asked"] == ("CPU:3", why.REQUESTED)
    assert found["tied"] == ("CPU:1", why.COLOCATED)


def test_metadata_follows_its_input_unless_that_is_a_generator() -> None:
    rows = Rows()
    const(rows, "a")
    neg(rows, "b", "a", "/cpu:2")
    shape(rows, "of_b", "b")
    shape(rows, "of_a", "a")
    shape(rows, "asked", "b", "/cpu:1")
    found, _ = placed(rows)
    assert found["of_b"] == ("CPU:2", why.METADATA)
    assert found["of_a"] == ("CPU:0", why.DEFAULT)
    assert found["asked"] == ("CPU:1", why.REQUESTED)


def test_an_identity_passes_through_between_equal_requests_only() -> None:
    rows = Rows()
    const(rows, "a")
    neg(rows, "b", "a", "/cpu:2")
    identity(rows, "through", "b")
    neg(rows, "c", "through", "/cpu:2")
    identity(rows, "apart", "c")
    neg(rows, "d", "apart", "/device:CPU:2")  # the same device, but not the same text
    identity(rows, "two_readers", "d")
    neg(rows, "e", "two_readers", "/device:CPU:2")
    neg(rows, "f", "two_readers", "/device:CPU:2")
    identity(rows, "waits", "f", "^a")
    neg(rows, "g", "waits", "/device:CPU:2")
    identity(rows, "leaf", "g")
    found, _ = placed(rows)
    assert found["through"] == ("CPU:2", why.PASS_THROUGH)
    assert on(found, "apart", "two_readers", "waits", "leaf") == ["CPU:0"] * 4


def test_a_leaf_identity_follows_an_input_that_was_moved_without_asking() -> None:
    rows = Rows()
    const(rows, "a")
    neg(rows, "b", "a", "/cpu:2")
    rows.add("c", "Neg", ["a"], T=type_attr(), _class=colocation("b"))
    identity(rows, "leaf", "c")
    found, _ = placed(rows)
    assert on(found, "c", "leaf") == ["CPU:2", "CPU:2"]


@pytest.mark.parametrize(
    ("master", "task"), [(None, "worker:0"), ("ps:1", "ps:1"), ("standin_client", "standin_client:0")]
)
def test_what_asks_for_nothing_goes_to_the_task_of_the_session(master: str | None, task: str) -> None:
    rows = Rows()
    const(rows, "a")
    neg(rows, "b", "a")
    found, _ = placed(rows, "ps=2,worker=2x0gpu", master)
    assert on(found, "a", "b") == [f"{task}/CPU:0"] * 2


def test_a_gpu_of_another_task_comes_before_a_cpu_of_the_own() -> None:
    rows = Rows()
    const(rows, "a")
    neg(rows, "b", "a")
    found, _ = placed(rows, "ps=1,worker=2x2gpu", "ps:0")
    assert on(found, "a", "b") == ["worker:0/GPU:0"] * 2


def test_a_master_that_is_not_there_is_refused_with_the_tasks() -> None:
    with pytest.raises(ClusterError, match="no task 'ps:2' to connect to; its tasks are ps:0, ps:1, worker:0"):
        connected(load_cluster("ps=2,worker=1x1gpu"), "ps:2")


def test_above_eight_edges_a_metadata_op_may_follow_any_of_them_and_what_was_seen_decides() -> None:
    rows = Rows()
    const(rows, "a")
    for at in range(10):
        neg(rows, f"n{at}", "a", f"/cpu:{at % 3}")
    rows.add("shape", "Shape", ["n0", *(f"^n{at}" for at in range(1, 10))], T=type_attr(), out_type=type_attr(INT32))
    identity(rows, "after", "n1")
    cpu = "/job:localhost/replica:0/task:0/device:CPU"
    assert placed(rows)[0]["shape"] == ("CPU:0", why.METADATA)
    found, _ = placed(rows, seen={"shape": f"{cpu}:2", "after": f"{cpu}:3", "unknown": f"{cpu}:1"})
    assert found["shape"] == ("CPU:2", why.METADATA)
    assert found["after"] == ("CPU:0", why.DEFAULT)  # nothing is by chance here
    assert placed(rows, seen={"shape": f"{cpu}:3"})[0]["shape"] == ("CPU:0", why.METADATA)  # no input is there
