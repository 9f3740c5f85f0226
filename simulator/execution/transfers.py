"""Transfers of an assignment: one per (tensor, destination device, host or device memory).

These are the duplicate keys of TensorFlow's cut (tensorflow/core/graph/graph_partition.cc). A CPU always reads in host
memory. A GPU that reads one tensor in both memories gets it twice. Readers of a reference output share nothing. A small
constant with readers on several CPUs is copied to each instead (replicate_constants_pass.cc), and a GPU takes it from
the CPU of its task. A GPU may make a value in its own memory and read it in that of its host, or the reverse. That is a
transfer, too, over the links between the two. Routes are those between memories (`cluster.memories`).

Under TensorFlow's executor a cut also adds to what follows TensorFlow's source. No thread passes the copies of
constants. A thread of a CPU passes each Recv, which is an op of its own here, and a GPU comes to its Recvs in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.cluster.memories import memory_ends
from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.errors import ClusterError, InfeasibleError, SimvizError
from simulator.execution.arrays import EXECUTOR, MAX_SUM_NS, MOST_IN_ORDER, SAFE_BYTES
from simulator.execution.recvs import StepRecvs, in_turn
from simulator.execution.tables import Tables
from simulator.units import PS_PER_NS


@dataclass(frozen=True, eq=False)
class Transfers:
    """The transfers of an assignment, in the order in which those of one instant are served. X transfers, E edges."""

    tensor: Ids  # [X]
    source: Ids  # [X] device
    target: Ids  # [X] device
    host: Flags  # [X] arrives in host memory
    route: Ids  # [X] row of Tables.routes
    wire_ns: Ints  # [X] its bytes at the slowest link, rounded up
    latency_ns: Ints  # [X] of its route, what its ends work in no lane while no bytes are on the wires, and copies
    pack_ns: Ints  # [X] for which it takes a lane of `packer`; 0: none
    packer: Ids  # [X] device: the source's processor, or the GPU that copies
    by_thread: Flags  # [X] a thread of the executor does so, none of gRPC
    unpack_ns: Ints  # [X] of the one that stands for the target
    of_edge: Ids  # [E] transfer that brings the tensor to the consumer, -1: it is there when its producer ends

    def __len__(self) -> int:
        return len(self.tensor)


def checked(tables: Tables, device: Sequence[int] | npt.NDArray[np.integer]) -> Ids:
    """The device of each op as a column; an error if there are too few, an unknown one, or one without a kernel."""
    column = ids(device)
    if column.shape != (len(tables),):
        raise SimvizError(f"The assignment has {column.size} devices for {len(tables)} ops; give one per op that runs.")
    known = (column >= 0) & (column < len(tables.devices))
    if not known.all():
        op = int(np.argmin(known))
        raise SimvizError(
            f"Node {tables.names[op]!r} is on device {int(column[op])}; the cluster has {len(tables.devices)} devices."
        )
    unable = tables.kind_ns[np.arange(len(tables)), tables.kind[column]] < 0
    unable |= (tables.bound >= 0) & (tables.bound != column)
    if unable.any():
        op = int(np.argmax(unable))
        name, where = tables.names[op], tables.devices[column[op]]
        raise InfeasibleError(f"Node {name!r} has no kernel for {where}; place it elsewhere.", members=[name])
    return column


def transfers_of(tables: Tables, device: Ids) -> Transfers:
    """The transfers that the device of each op asks for. Raises ClusterError where two devices have no route."""
    tensor, target = tables.edge_tensor, device[tables.consumer]
    source = _sources(tables, device, target)
    host = tables.cpu[target] | tables.consumer_host
    lies, arrives = _memories(tables, source, target)
    edge = np.flatnonzero(((source != target) | (lies != arrives)) & ~tables.stays[tensor])
    key = _keys(tables, tensor[edge], target[edge], host[edge])
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    of_edge = np.full(len(tensor), -1)
    of_edge[edge] = which
    chosen = edge[first]
    start, end = ids(source[chosen]), ids(target[chosen])
    route = _routes(tables, tensor[chosen], ids(lies[chosen]), ids(arrives[chosen]))
    routes, pace, nbytes = tables.routes, tables.routes.pace[route], tables.tensor_bytes[tensor[chosen]]
    packed = _work(routes.send_ns[pace], routes.send_ps_per_byte[pace], nbytes)
    unpacked = _work(routes.receive_ns[pace], routes.receive_ps_per_byte[pace], nbytes)
    pack, unpack = -(-packed // routes.send_cores[pace]), -(-unpacked // routes.receive_cores[pace])
    pack = np.where(routes.dispatched[pace], tables.dispatch_ns[start], pack)  # a Send within a GPU, too
    wire = bytes_ns(routes.bytes_per_s[pace], nbytes)
    sends, receives = routes.send_ns[pace], routes.receive_ns[pace]  # as `outside_lanes_ns`
    alone = sends + receives - -(-sends // routes.send_cores[pace]) - -(-receives // routes.receive_cores[pace])
    stream = np.maximum(np.maximum(packed - sends, unpacked - receives), wire)
    beside = np.maximum(alone, sends + receives + stream - wire - pack - unpack)
    beside += _work(0 * sends, routes.staging_ps_per_byte[pace], nbytes)
    return Transfers(
        tensor=ids(tensor[chosen]),
        source=start,
        target=end,
        host=flags(host[chosen]),
        route=route,
        wire_ns=wire,
        latency_ns=ints(routes.latency_ns[pace] + beside),
        pack_ns=ints(pack),
        packer=ids(np.where(routes.dispatched[pace], start, tables.home[start])),
        by_thread=flags((pack > 0) & tables.cpu[start] & (routes.send_cores[pace] == 1)),
        unpack_ns=ints(unpack),
        of_edge=ids(of_edge),
    )


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


def crosses(tables: Tables, device: Ids) -> Flags:
    """[E] values that go to another device or memory, copied constants included."""
    source, target = device[tables.tensor_op[tables.edge_tensor]], device[tables.consumer]
    lies, arrives = _memories(tables, source, target)
    return flags((source != target) | (lies != arrives))


def hands_on(tables: Tables, device: Ids, task: Ids) -> bool:
    """Tell whether a master's cut makes other transfers than these: some tensor goes to several devices of a task.

    It crosses to the first of them alone, whose worker hands it on. `task` is that of each device, [D].
    """
    tensor, target = tables.edge_tensor.astype(np.int64), device[tables.consumer]
    away = (task[_sources(tables, device, target)] != task[target]) & ~tables.stays[tensor]
    tensor, target = tensor[away], target[away]
    host = tables.cpu[target] | tables.consumer_host[away]
    tasks, devices = int(task.max(initial=0)) + 1, len(task)
    of_device = np.unique((tensor * devices + target) * 2 + host)
    return len(np.unique((tensor * tasks + task[target]) * 2 + host)) < len(of_device)


def copied(tables: Tables, device: Ids, may: Flags | None = None) -> Flags:
    """[T] constants that are copied to the CPUs where they are read; with one such CPU a constant stays.

    `may` are those that may be; by default all that wait for nothing.
    """
    found = (tables.replicable if may is None else may) & tables.cpu[device[tables.tensor_op]]
    if found.any():
        near, first = tables.home[device[tables.consumer]], tables.consumer_ptr[:-1]
        found &= np.minimum.reduceat(near, first) != np.maximum.reduceat(near, first)
    return flags(found)


def _sources(tables: Tables, device: Ids, target: Ids) -> npt.NDArray[np.int32]:
    """[E] the device from which each consumer gets its tensor: the producer's, or a copied constant's."""
    source = device[tables.tensor_op][tables.edge_tensor]
    return np.where(copied(tables, device)[tables.edge_tensor], tables.home[target], source)


def _memories(tables: Tables, source: npt.NDArray[np.integer], target: npt.NDArray[np.integer]) -> tuple[Ids, Ids]:
    """[E] the devices in whose memory each value lies and arrives."""
    made_host = tables.made_host[tables.edge_tensor]
    return memory_ends(tables.host_device, source, target, made_host, tables.consumer_host)


def _keys(tables: Tables, tensor: Ids, target: Ids, host: Flags) -> npt.NDArray[np.int64]:
    """Rows of (rank of the tensor, target, host memory, tensor), each as one number that sorts alike."""
    rank = tables.tensor_rank.astype(np.int64)
    apart = np.arange(len(rank)) - np.searchsorted(rank, rank)  # which reader of a reference output
    key = (rank[tensor] * len(tables.devices) + target) * 2 + host
    return np.asarray(key * (apart.max(initial=0) + 1) + apart[tensor])


def _routes(tables: Tables, tensor: Ids, start: Ids, end: Ids) -> Ids:
    """[X] the route that each tensor takes. Raises ClusterError where there is none."""
    route = tables.routes.between(start, end)
    lost = np.flatnonzero(route < 0)
    if len(lost):
        first = lost[0]
        name = tables.names[tables.tensor_op[tensor[first]]]
        raise no_route(tables.devices[start[first]], tables.devices[end[first]], f"the output of {name!r}")
    return route


def no_route(start: str, end: str, what: str) -> ClusterError:
    """The error for what would have to be sent from one device to the other."""
    return ClusterError(
        f"The cluster has no route from {start} to {end}, which {what} would have to take; add a link or place its "
        "consumers elsewhere."
    )


def bytes_ns(rate: Ints, nbytes: Ints) -> Ints:
    """Time of so many bytes at each rate, bytes per second, rounded up; 0 where they cost no time, which a rate of 0
    says. Raises ClusterError for what takes longer than MAX_SUM_NS.
    """
    bounded = np.minimum(nbytes, SAFE_BYTES)
    wire = np.where(rate > 0, -(-bounded * 10**9 // np.maximum(rate, 1)), 0)
    for row in np.flatnonzero((nbytes > SAFE_BYTES) & (rate > 0)).tolist():  # Python's integers have no bound
        exact = -(-int(nbytes[row]) * 10**9 // int(rate[row]))
        if exact > MAX_SUM_NS:
            raise ClusterError(
                f"A transfer of {int(nbytes[row]):,} bytes takes too long over a link of {int(rate[row]):,} bytes/s; "
                "give the link a higher bandwidth."
            )
        wire[row] = exact
    return ints(wire)


def _work(fixed_ns: Ints, ps_per_byte: Ints, nbytes: Ints) -> Ints:
    """[X] time of a core at one end of each transfer, rounded up."""
    if (nbytes.astype(np.float64) * ps_per_byte > MAX_SUM_NS).any():
        row = int(np.argmax(nbytes.astype(np.float64) * ps_per_byte))
        raise ClusterError(
            f"A transfer of {int(nbytes[row]):,} bytes takes too long under a protocol of {int(ps_per_byte[row]):,} "
            "ps/byte; give the protocol a lower time per byte."
        )
    return ints(fixed_ns + -(-nbytes * ps_per_byte // PS_PER_NS))
