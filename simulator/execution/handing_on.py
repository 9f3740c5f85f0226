"""Assignments whose cut hands a tensor on within a task: the tables of a step do not know that, so they are cut.

A master's cut sends a tensor to a task once, and the worker there hands it on to its other devices. How long such a
plan takes is how long its pieces do.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.assignment import Assignment
from simulator.columns import ids
from simulator.execution.crossings import hands_on
from simulator.execution.preparing import Prepared
from simulator.execution.tables import Tables, of_partitions
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
        found[:] = [hands_on(prepared.tables, ids(row), task) for row in rows]
    return found


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
