"""A step that is prepared for many assignments: the device of each op, also where the client holds some of them."""

from __future__ import annotations

import numpy as np
import pytest

from placement.placing import place
from simulator import choose_step, estimate, load, load_cluster, partition
from simulator.execution.preparing import prepare
from simulator.execution.tables import of_partitions

SMALL = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "y" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
"""


@pytest.mark.parametrize("cluster", ["1gpu", "8gpu", "ps=7,worker=4x3gpu", "worker=40,ps=2", "chief=6x4h100,ps=9"])
def test_a_cluster_may_have_more_devices_than_the_graph_has_nodes(cluster: str, tmp_path: object) -> None:
    graph = load(_written(tmp_path))
    step, on = choose_step(graph), load_cluster(cluster)
    costs = estimate(graph, on)
    prepared = prepare(graph, step, on, costs)
    assignment = place(graph, on, costs, step=step, algorithm="single")
    pieces = partition(graph, assignment, on, step=step)
    assert (prepared.column < 0).any()  # what the client feeds and fetches
    assert set(prepared.devices(np.asarray(assignment.device)).tolist()) <= set(range(len(on.devices)))
    assert len(of_partitions(pieces, on, costs)) >= len(graph)


def _written(folder: object) -> str:
    path = f"{folder}/small.pbtxt"
    with open(path, "w", encoding="utf-8") as file:
        file.write(SMALL)
    return path
