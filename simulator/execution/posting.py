"""The beginning of a step under TensorFlow's executor, where the pieces of an assignment are not made.

A cut adds what follows TensorFlow's source with the ops of the step. Small constants are copied to the CPUs that read
them, and no thread passes these copies. A thread of a CPU passes each Recv, which is an op of its own here, and a GPU
comes to its Recvs in turn (`recvs`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.execution.arrays import EXECUTOR, MOST_IN_ORDER
from simulator.execution.recvs import StepRecvs, in_turn
from simulator.execution.tables import Tables
from simulator.execution.transfers import Transfers, copied


class Posted(NamedTuple):
    """The beginning as the cut has it. Axes: n ops, X transfers, P ops that threads of CPUs pass, n.. n+P-1."""

    copied: Flags  # [n] constants that are copied
    op: Ids  # [X] which of the P posts its Recv, -1: none
    transfer: Ids  # [P]
    turn_ns: Ints  # [X] from the step's beginning until the executor of a GPU comes to the Recv; 0 on a CPU


def posted(tables: Tables, device: Ids, crossing: Transfers, order: int) -> Posted:
    """The beginning under this assignment. A cut adds nothing in other orders, and pieces have all that it adds."""
    op, turn_ns = np.full(len(crossing), -1), np.zeros(len(crossing), np.int64)
    alone = np.zeros(len(tables), bool)
    if tables.recvs is None or order != EXECUTOR:
        return Posted(flags(alone), ids(op), ids([]), ints(turn_ns))
    alone[tables.tensor_op[copied(tables, device)]] = True
    first = (tables.post[crossing.tensor] < 0) & (crossing.source != crossing.target)
    mine = np.flatnonzero(first & tables.cpu[crossing.target])
    mine = mine[np.argsort(_made(tables.recvs, crossing)[mine], kind="stable")]
    op[mine] = np.arange(len(mine))
    followers = np.bincount(
        np.append(device[tables.recvs.begins], crossing.target[first]), minlength=len(tables.devices)
    )
    for row in np.flatnonzero((tables.recvs.gpu >= 0) & (followers > MOST_IN_ORDER)).tolist():
        own = np.flatnonzero(first & (crossing.target == row))
        at = tables.recvs.gpu[row] * len(tables.tensor_op) + crossing.tensor[own].astype(np.int64)
        own = own[np.argsort(tables.recvs.drawn[at], kind="stable")]
        turn_ns[own] = in_turn(crossing.host[own], int(tables.recvs.launch_ns[row]))
    return Posted(flags(alone), ids(op), ids(mine), ints(turn_ns))


def _made(recvs: StepRecvs, crossing: Transfers) -> npt.NDArray[np.int64]:
    """[X] the order in which the cut makes the Recvs."""
    made = np.full(len(crossing), np.iinfo(np.int64).max)
    crosses = np.flatnonzero(crossing.of_edge >= 0)
    np.minimum.at(made, crossing.of_edge[crosses], recvs.made[crosses])
    return made
