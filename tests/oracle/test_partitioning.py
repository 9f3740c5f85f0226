"""The cut beside TensorFlow's own: the same nodes, names, inputs and attributes on random graphs."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from simulator.cluster.cluster import Cluster
from simulator.comparison.comparison import compare_items
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.messages import GraphDef
from simulator.graph.step import Step, choose_step
from simulator.oracle.dry_runs import DryRun, dry_run
from simulator.oracle.verification import check
from simulator.partitioning.cut import partition, partition_by_task
from simulator.partitioning.partitions import Partitions, partition_files
from tests.execution.cases import assigned, cluster
from tests.execution.test_receiving import looping, served
from tests.oracle.staying import staying
from tests.partitioning.cases import random_rows, without_predicate
from tests.strategies import Rows

pytestmark = pytest.mark.tensorflow

LOCAL = cluster([f"localhost:0/CPU:{number}" for number in range(4)])
CROWD = cluster(["ps:0/CPU:0", "w:0/CPU:0", "w:0/GPU:0", "w:1/CPU:0", "w:1/GPU:0"])
# TensorFlow writes these for itself
_OWN = ("_XlaHasReferenceVars", "_has_manual_control_dependencies", "_output_shapes", "send_device_incarnation")


def many(seeds: range, on: Cluster, *, loops: int, depth: int = 1) -> tuple[Graph, list[int], Step]:
    """Random graphs side by side in one, because a question to TensorFlow takes seconds; all of it runs."""
    rows = Rows()
    devices: list[int] = []
    for seed in seeds:
        more, placed = random_rows(
            Random(seed), len(on), nodes=10, loops=seed % (loops + 1), depth=depth, prefix=f"g{seed}/"
        )
        for column in ("names", "ops", "requested", "inputs", "attrs"):
            getattr(rows, column).extend(getattr(more, column))
        devices += placed
    graph = rows.built()
    sinks = np.bincount(graph.edge_src, minlength=len(graph)) == 0
    step = choose_step(graph, fetches=sorted(graph.names[row] for row in np.flatnonzero(sinks).tolist()))
    assert step.runs.all()
    return graph, devices, step


def both(graph: Graph, devices: list[int], on: Cluster, step: Step) -> tuple[Partitions, DryRun]:
    """Our cut and TensorFlow's, of the placement that TensorFlow made of these requests."""
    seen = dry_run(graph, on, step=step, devices=[on.devices[row].name for row in devices])
    assert seen.refusal is None
    placed = assigned(on, [on.index[seen.placement[name]] for name in graph.names])
    return partition(graph, placed, on, step=step), seen


def facts(node: Any) -> tuple[object, ...]:
    """What must be equal of two nodes of one name; the order of control inputs says nothing."""
    data = tuple(one for one in node.input if not one.startswith("^"))
    attrs = {key: value.SerializeToString(deterministic=True) for key, value in node.attr.items() if key not in _OWN}
    controls = tuple(sorted(one for one in node.input if one.startswith("^")))
    return node.op, node.device, data, controls, tuple(sorted(attrs.items()))


# TensorFlow's own process dies of one of the graphs 10 to 19, so they are left out.
@pytest.mark.parametrize(("seeds", "depth"), [(range(20, 40), 1), (range(6), 2)])
def test_every_node_is_that_of_tensorflow(seeds: range, depth: int) -> None:
    graph, devices, step = many(seeds, LOCAL, loops=2, depth=depth)
    pieces, seen = both(graph, devices, LOCAL, step)
    theirs = {node.name: facts(node) for piece in seen.partitions for node in piece.node}
    ours = {node.name: facts(node) for node in graph_def(pieces.graph).node}
    old = set(graph.names)
    for name, node in theirs.items():  # a node of the graph gets the defaults of attributes that it lacks
        if name in old and name in ours:
            theirs[name], ours[name] = node[:4], ours[name][:4]
    assert ours.keys() == theirs.keys()
    assert [name for name in theirs if ours[name] != theirs[name]] == []
    assert {"_HostRecv", "_HostSend", "_Recv", "_Send"} <= {node[0] for node in theirs.values()}
    assert any("replicate" in name for name in theirs)
    assert any(name.startswith("_cloop") for name in theirs)


def test_what_a_master_sends_to_tasks_with_gpus_is_ours() -> None:
    graph, devices, step = many(range(30), CROWD, loops=0)
    seen = dry_run(graph, CROWD, step=step, devices=[CROWD.devices[row].name for row in devices])
    placed = assigned(CROWD, [CROWD.index[seen.placement[name]] for name in graph.names])
    found = compare_items(partition_by_task(graph, placed, CROWD, step=step), seen.partitions, graph=graph)
    assert found.differences == ()
    assert found.of > 500


def test_tensorflow_imports_every_piece() -> None:
    graph, devices, step = many(range(10), LOCAL, loops=1)
    pieces = partition(graph, assigned(LOCAL, devices), LOCAL, step=step)
    assert [_imported(text) for text in partition_files(pieces).values()] == np.bincount(pieces.device).tolist()
    assert any(name.startswith("_cloop") for name in pieces.graph.names)


def test_tensorflow_imports_pieces_whose_recvs_wait() -> None:
    late = [served(8)[0], *(looping(seed)[0] for seed in range(4))]
    for pieces in (found.partitions for found in late):
        assert [_imported(text) for text in partition_files(pieces).values()] == np.bincount(pieces.device).tolist()
    assert len(late[0].delayed) == 7
    assert sum(len(found.delayed) for found in late[1:]) > 0


def _imported(text: str) -> object:
    """The number of nodes that TensorFlow imports of a piece."""
    return json.loads(staying("tests.oracle.importing")(text_format.Parse(text, GraphDef()).SerializeToString(), 60))


def test_a_loop_without_predicate_that_crosses_devices_is_refused_by_both() -> None:
    graph = without_predicate().built()
    step = choose_step(graph, fetches=["next"])
    placed = assigned(LOCAL, [0, 0, 0, 1, 0])
    pieces = partition(graph, placed, LOCAL, step=step)
    found = check(graph, LOCAL, placed, pieces, step, mode="pin")
    assert (found["refused"], found["foreseen"]) == (pieces.refused, True)
    whole = assigned(LOCAL, [0] * 5)
    found = check(graph, LOCAL, whole, partition(graph, whole, LOCAL, step=step), step, mode="pin")
    assert (found["refused"], found["foreseen"]) == (None, False)
