"""When the Recvs of an assignment are posted under TensorFlow's executor, where its pieces are not made (`recvs`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.columns import Ids, Ints, ids, ints
from simulator.execution.arrays import EXECUTOR
from simulator.execution.recvs import MOST_IN_ORDER, in_turn
from simulator.execution.tables import Tables
from simulator.execution.transfers import Transfers


class Posted(NamedTuple):
    """The posts of Recvs. Axes: X transfers, P ops that threads of CPUs pass, each to post a Recv."""

    op: Ids  # [X] which op posts it, -1: none
    transfer: Ids  # [P]
    turn_ns: Ints  # [X] from the step's beginning until the executor of a GPU comes to the Recv; 0 on a CPU


def posted(tables: Tables, device: Ids, crossing: Transfers, order: int) -> Posted:
    """The posts of the Recvs that no op of the tables posts; none but in TensorFlow's order, nor of pieces."""
    recvs, op, turn_ns = tables.recvs, np.full(len(crossing), -1), np.zeros(len(crossing), np.int64)
    if recvs is None or order != EXECUTOR:
        return Posted(ids(op), ids([]), ints(turn_ns))
    made = np.full(len(crossing), np.iinfo(np.int64).max)
    crosses = np.flatnonzero(crossing.of_edge >= 0)
    np.minimum.at(made, crossing.of_edge[crosses], recvs.made[crosses])
    first = (tables.post[crossing.tensor] < 0) & (crossing.source != crossing.target)
    mine = np.flatnonzero(first & tables.cpu[crossing.target])
    mine = mine[np.argsort(made[mine], kind="stable")]
    op[mine] = np.arange(len(mine))
    followers = np.bincount(np.append(device[recvs.begins], crossing.target[first]), minlength=len(tables.devices))
    for row in np.flatnonzero((recvs.gpu >= 0) & (followers > MOST_IN_ORDER)).tolist():
        own = np.flatnonzero(first & (crossing.target == row))
        drawn = recvs.drawn[recvs.gpu[row] * len(tables.tensor_op) + crossing.tensor[own].astype(np.int64)]
        own = own[np.argsort(drawn, kind="stable")]
        turn_ns[own] = in_turn(crossing.host[own], int(recvs.launch_ns[row]))
    return Posted(ids(op), ids(mine), ints(turn_ns))
