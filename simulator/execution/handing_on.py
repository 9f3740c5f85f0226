"""Assignments that a master and its workers cut otherwise than one session: they are cut before they are judged.

A master's cut sends a tensor to a task once, and the worker there hands it on to its other devices. Recvs of references
may wait for less or for more than where one cut does all. The tables of a step know neither, so such a plan takes as
long as its pieces.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.assignment import Assignment
from simulator.columns import Ids, ids
from simulator.execution.preparing import Prepared
from simulator.execution.tables import Tables, of_partitions
from simulator.execution.transfers import hands_on
from simulator.graph.dtypes import REF
from simulator.partitioning import flavour_of, partition

Rows = npt.NDArray[np.int32]


def handing_on(prepared: Prepared, rows: Rows, flavour: str) -> npt.NDArray[np.bool_]:
    """[B] whether each assignment, [B, n] by op, has to be cut: its cut hands a tensor on or waits otherwise."""
    found = np.zeros(len(rows), bool)
    if prepared.given is None:
        return found
    cluster = prepared.given.cluster
    task = ids(cluster.task_of)
    if flavour_of(flavour, cluster) == "master" and 1 < len(cluster.tasks) < len(cluster):
        source, target = _references(prepared)
        found[:] = [
            hands_on(prepared.tables, ids(row), task) or _waits_otherwise(prepared.tables, row, task, source, target)
            for row in rows
        ]
    return found


def _references(prepared: Prepared) -> tuple[Ids, Ids]:
    """The ops at both ends of each reference that is read."""
    given, tables = prepared.given, prepared.tables
    assert given is not None
    graph = given.graph
    op = np.full(len(graph), -1)
    op[tables.node[::-1]] = np.arange(len(tables))[::-1]  # an op of the node's; all of them share its device
    edge = np.flatnonzero(graph.edge_tensor >= 0)
    edge = edge[graph.tensor_dtype[graph.edge_tensor[edge]] > REF]
    edge = edge[(op[graph.edge_src[edge]] >= 0) & (op[graph.edge_dst[edge]] >= 0)]
    return ids(op[graph.edge_src[edge]]), ids(op[graph.edge_dst[edge]])


def _waits_otherwise(tables: Tables, row: npt.NDArray[np.int32], task: Ids, source: Ids, target: Ids) -> bool:
    """Whether a reader of another device's reference has inputs from another task and from its own task's devices.

    The Recv of a reference waits for its reader's other inputs (§5.6): a master's for those that its task has or gets,
    wherever there, a worker's also for references that came from another task and so are values now.
    """
    device = ids(row)
    readers = np.unique(target[device[source] != device[target]])
    if not len(readers):
        return False
    edge = np.flatnonzero(np.isin(tables.consumer, readers))
    reader, giver = tables.consumer[edge], tables.tensor_op[tables.edge_tensor[edge]]
    away = task[device[giver]] != task[device[reader]]
    beside = ~away & (device[giver] != device[reader])
    return bool(np.isin(reader[away], reader[beside]).any())


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
    tables, device = of_partitions(cut, given.cluster, given.costs, prepared.options)
    if priority is None:
        return tables, device[None], np.zeros((0, len(tables)), np.int32)
    first = np.argsort(priority[cut.origin[tables.node]], kind="stable")
    return tables, device[None], first[None].astype(np.int32)
