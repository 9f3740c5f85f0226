"""Assignments whose cut hands a tensor on within a task: the tables of a step do not know that, so they are cut.

A master's cut sends a tensor to a task once, and the worker there hands it on to its other devices. A reference that
comes from another task is a value to the worker's cut, for which its Recvs of other references wait (§5.6). How long
such a plan takes is how long its pieces do.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.assignment import Assignment
from simulator.columns import Ids, ids
from simulator.execution.crossings import hands_on
from simulator.execution.preparing import Prepared
from simulator.execution.tables import Tables, of_partitions
from simulator.graph.dtypes import REF
from simulator.partitioning import flavour_of, partition

Rows = npt.NDArray[np.int32]


def handing_on(prepared: Prepared, rows: Rows, flavour: str) -> npt.NDArray[np.bool_]:
    """[B] whether the cut of each assignment, [B, n] by op, hands a tensor on."""
    found = np.zeros(len(rows), bool)
    if prepared.given is None:
        return found
    cluster = prepared.given.cluster
    task = ids(cluster.task_of)
    if flavour_of(flavour, cluster) == "master" and 1 < len(cluster.tasks) < len(cluster):
        source, target = _references(prepared)
        found[:] = [
            hands_on(prepared.tables, ids(row), task) or _turns_into_value(row, task, source, target) for row in rows
        ]
    return found


def _references(prepared: Prepared) -> tuple[Ids, Ids]:
    """The ops at both ends of each reference that is read by an op which reads several."""
    given, tables = prepared.given, prepared.tables
    assert given is not None
    graph = given.graph
    op = np.full(len(graph), -1)
    op[tables.node[::-1]] = np.arange(len(tables))[::-1]  # an op of the node's; all of them share its device
    edge = np.flatnonzero(graph.edge_tensor >= 0)
    edge = edge[graph.tensor_dtype[graph.edge_tensor[edge]] > REF]
    edge = edge[(op[graph.edge_src[edge]] >= 0) & (op[graph.edge_dst[edge]] >= 0)]
    edge = edge[np.bincount(graph.edge_dst[edge], minlength=len(graph))[graph.edge_dst[edge]] > 1]
    return ids(op[graph.edge_src[edge]]), ids(op[graph.edge_dst[edge]])


def _turns_into_value(device: npt.NDArray[np.int32], task: Ids, source: Ids, target: Ids) -> bool:
    """Whether some op reads a reference of another task and one of another device of its own task."""
    away = task[device[source]] != task[device[target]]
    beside = ~away & (device[source] != device[target])
    return bool(np.isin(target[away], target[beside]).any())


def pieces(
    prepared: Prepared, assignment: npt.NDArray[np.integer], priority: npt.NDArray[np.integer] | None
) -> tuple[Tables, Rows, Rows]:
    """The pieces of an assignment [N] as a master and its workers cut them: tables, [1, n] devices, [0 or 1, n] orders.

    `priority` is [N]; None: there is none.
    """
    given = prepared.given
    assert given is not None
    names = tuple(device.name for device in given.cluster.devices)
    placed = Assignment(names, ids(assignment), ids(np.zeros(len(assignment))), "given", "given")
    cut = partition(given.graph, placed, given.cluster, step=given.step, flavour="master", legal=False)
    tables, device = of_partitions(
        cut, given.cluster, given.costs, trips=given.trips, branches=given.branches, seed=given.seed
    )
    if priority is None:
        return tables, device[None], np.zeros((0, len(tables)), np.int32)
    first = np.argsort(priority[cut.origin[tables.node]], kind="stable")
    return tables, device[None], first[None].astype(np.int32)
