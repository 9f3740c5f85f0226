"""Both levels of a cluster's cut beside TensorFlow's: what a master sends to its workers, and what they make of it."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from simulator.cluster.cluster import Cluster
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.messages import AttrValue
from simulator.graph.step import Step, choose_step
from simulator.oracle.dry_runs import dry_run
from simulator.partitioning.cut import partition, partition_by_task
from simulator.partitioning.partitions import Partitions
from tests.execution.cases import assigned, cluster
from tests.oracle.staying import ask_staying
from tests.oracle.test_partitioning import many
from tests.partitioning.cases import random_rows
from tests.strategies import BOOL, Rows, type_attr

pytestmark = pytest.mark.tensorflow

CPUS = ["a:0/CPU:0", "a:0/CPU:1", "a:0/CPU:2", "a:1/CPU:0", "a:1/CPU:1", "a:2/CPU:0"]
GPUS = ["ps:0/CPU:0", "w:0/CPU:0", "w:0/CPU:1", "w:0/GPU:0", "w:0/GPU:1", "w:1/CPU:0"]
OWN = cluster(["ps:0/CPU:0", "worker:0/CPU:0", "worker:0/CPU:1", "worker:0/CPU:2"])  # the master's task has the most
# attributes that TensorFlow writes for itself, and incarnations
_WRITTEN = ("_XlaHasReferenceVars", "_has_manual_control_dependencies", "_output_shapes", "send_device_incarnation")
# what a master leaves out of its messages: attributes that are what they are by default
_DEFAULTS = {"client_terminated": AttrValue(b=False), "is_constant": AttrValue(b=False)}


def as_sent(node: Any, known: frozenset[str]) -> tuple[str, str, str, list[str], dict[str, Any]]:
    """All of a node, control inputs in their order; of one that the graph had before, without attributes."""
    attrs = {
        name: value.SerializeToString(deterministic=True)
        for name, value in node.attr.items()
        if name not in _WRITTEN and _DEFAULTS.get(name) != AttrValue.FromString(value.SerializeToString())
    }
    return node.name, node.op, node.device, list(node.input), {} if node.name in known else attrs


def as_run(node: Any, known: frozenset[str]) -> tuple[object, ...]:
    """All of a node, control inputs by name, as a worker's runtime has it."""
    name, op, device, inputs, attrs = as_sent(node, known)
    return name, op, device, sorted(inputs, key=lambda one: (one.startswith("^"), one)), attrs


def nodes_by(places: list[str], pieces: Partitions, rows: list[int]) -> dict[str, list[Any]]:
    """The nodes of each place, in the order of the rows."""
    found: dict[str, list[Any]] = {}
    message = graph_def(pieces.graph)
    for row in rows:
        found.setdefault(places[int(pieces.device[row])], []).append(message.node[row])
    return found


def asked(graph: Graph, devices: list[int], on: Cluster, step: Step, **options: Any) -> tuple[Any, Any]:
    """What TensorFlow says, and its placement as ours."""
    seen = dry_run(
        graph, on, step=step, devices=[on.devices[row].name for row in devices], asking=ask_staying, **options
    )
    assert seen.refusal is None
    return seen, assigned(on, [on.index[seen.placement[name]] for name in graph.names])


@pytest.mark.parametrize(("names", "depth"), [(CPUS, 2), (GPUS, 3)])
def test_a_master_sends_each_worker_these_nodes_in_this_order(names: list[str], depth: int) -> None:
    graph, devices, step = many(range(20, 40), cluster(names), loops=2, depth=depth)
    # The master has a task of its own, on which nothing is: so all pieces are sent, and its worker has no loop to run,
    # of which TensorFlow's process dies now and then.
    on = cluster([*names, "standin_client:0/CPU:0"])
    seen, placed = asked(graph, devices, on, step)
    pieces = partition_by_task(graph, placed, on, step=step)
    ours = nodes_by([one.task for one in on.devices], pieces, list(range(len(pieces.graph))))
    theirs = {piece.node[0].device.rsplit("/device:", 1)[0]: piece.node for piece in seen.partitions}
    known = frozenset(graph.names)
    for task in set(on.tasks) - {on.client_task}:
        assert [as_sent(node, known) for node in theirs[task]] == [as_sent(node, known) for node in ours[task]]
    made = {node.op for nodes in theirs.values() for node in nodes if node.name not in known}
    assert {"_HostRecv", "_HostSend", "_Recv", "_Send", "Const", "NextIteration"} <= made


def test_the_workers_cut_what_they_are_sent() -> None:
    # without loops: now and then TensorFlow's process dies of one in a worker's graph, once it has cut that
    graph, devices, step = many(range(30), OWN, loops=0)
    seen, placed = asked(graph, devices, OWN, step)
    pieces = partition(graph, placed, OWN, step=step, flavour="master")
    ours = nodes_by(list(pieces.devices), pieces, pieces.graph.order.tolist())
    theirs = {piece.node[0].device: piece.node for piece in seen.worker_partitions}
    assert list(map(len, (ours, theirs))) == [4, 3]
    known = frozenset(graph.names)
    for device, nodes in theirs.items():
        assert [as_run(node, known) for node in nodes] == [as_run(node, known) for node in ours[device]]
    assert {"_S", "_G"} <= {node.name.rstrip("0123456789")[-2:] for nodes in theirs.values() for node in nodes}


def spared(seeds: range, on: Cluster) -> tuple[Graph, list[int], Step]:
    """A graph of which TensorFlow does not die when it schedules Recvs: every output is read, no constant is copied."""
    random, rows, devices = Random(seeds.start), Rows(), list[int]()
    for seed in seeds:
        more, placed = random_rows(Random(seed), len(on), nodes=10, prefix=f"g{seed}/")
        for column in ("names", "ops", "requested", "inputs", "attrs"):
            getattr(rows, column).extend(getattr(more, column))
        devices += placed
    graph = rows.built()
    unread = np.setdiff1d(np.arange(len(graph.tensor_node)), graph.edge_tensor)
    test = {"dtype": BOOL, "tensor_shape": {}}
    rows.add("test", "Const", [], dtype=type_attr(BOOL), value=AttrValue(tensor=test))
    for row in unread.tolist():
        name = f"{graph.names[graph.tensor_node[row]]}:{graph.tensor_port[row]}"
        kinds = AttrValue(list={"type": [int(graph.tensor_dtype[row]) % 100]})
        rows.add(f"read{row}", "Assert", ["test", name], T=kinds)
    for name in [name for name, op in zip(rows.names, rows.ops, strict=True) if op == "Const"]:
        rows.add(f"{name}/keep", "NoOp", [f"^{name}"])
    devices += [random.randrange(len(on)) for _ in range(len(rows.names) - len(devices))]
    graph = rows.built()
    ends = np.bincount(graph.edge_src, minlength=len(graph)) == 0
    return graph, devices, choose_step(graph, fetches=[graph.names[row] for row in np.flatnonzero(ends).tolist()])


def test_recvs_are_delayed_by_the_same_triggers() -> None:
    graph, devices, step = spared(range(8), OWN)
    seen, placed = asked(graph, devices, OWN, step, recv_scheduling=True)
    pieces = partition(graph, placed, OWN, step=step, flavour="master", recv_scheduling=True)
    ours, theirs = (
        {
            node.name if node.op != "ControlTrigger" else (node.name.split("_G")[0], node.device): (
                node.op,
                node.device,
                sorted(one.split("_G")[0] if "synch_" in one else one for one in node.input),
                node.attr["_start_time"].i,
            )
            for node in nodes
        }
        for nodes in (graph_def(pieces.graph).node, [node for piece in seen.worker_partitions for node in piece.node])
    )
    assert {ours[name][1] for name in set(ours) - set(theirs)} == {OWN.devices[0].name}
    assert {name: ours[name] for name in theirs} == theirs
    assert sum("synch_" in one for node in theirs.values() for one in node[2]) > 20
