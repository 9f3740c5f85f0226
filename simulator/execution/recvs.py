"""The Recvs of a step under TensorFlow's executor: in what order the cut makes them, and a GPU comes to them.

All Recvs outside loops follow TensorFlow's source, as does everything without inputs (graph/algorithm.cc,
FixupSourceAndSinkEdges). A thread of a CPU passes each of them, the last first, as an op of its own that takes no time
(decision 0055). So it matters in what order the cut makes them: by their readers (`partitioning.passes.pairs`).

Of more than eight followers the source keeps a set of pointers (graph/edgeset.h). So each GPU comes to its Recvs in an
order of its own, which every process draws anew. A Recv whose value is there enqueues a copy on the GPU's stream
(common_runtime/gpu/gpu_util.cc). The host takes as long for it as for any launch. A Recv of a value in host memory
enqueues none. The order is drawn from the seed, the row of the tensor and the numbers of the GPU and its task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.cluster.devicespec import parse
from simulator.columns import Flags, Ids, Ints, ids, ints, positions
from simulator.execution.arrays import MOST_IN_ORDER

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.execution.table_columns import Layout
    from simulator.graph.graph import Graph
    from simulator.partitioning.partitions import Partitions

Rows = npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class StepRecvs:
    """The Recvs that the cuts of a step may have. Axes: T tensors, E edges, D devices, G GPUs."""

    made: Ids  # [E] order in which a cut makes Recvs: of a transfer it is the least of its readers
    made_far: Ids  # [E] the same beside those of `made`, for a transfer from another task in a master's cut
    begins: Ids  # ops without inputs, but those of the client: with Recvs they are what follows TensorFlow's source
    gpu: Ids  # [D] row of a GPU among all, -1: a CPU
    drawn: Ids  # [G * T] order in which each GPU comes to its Recvs; equal of readers of one reference output
    launch_ns: Ints  # [D] of a GPU's host for a copy


_NONE = ids([])
NO_RECVS = StepRecvs(_NONE, _NONE, _NONE, _NONE, _NONE, ints([]))


def recvs_of_step(graph: Graph, cluster: Cluster, seed: int, columns: Layout, node: Ids, bound: Ids) -> StepRecvs:
    """The Recvs that cuts of this step may have; `node` and `bound` [n] of its ops are as in `Tables`."""
    client = bound >= 0
    reader = np.where(client, len(graph) + np.cumsum(client) - 1, node)[columns.consumer]
    row = np.repeat(columns.tensor_row, np.diff(columns.consumer_ptr))
    made, made_far = _makings(graph, row, reader)
    gpus = [at for at, device in enumerate(cluster.devices) if device.type == "GPU"]
    chances = [_drawn(cluster.devices[at].name, seed, columns.tensor_row) for at in gpus]
    return StepRecvs(
        made=made,
        made_far=made_far,
        begins=ids(np.flatnonzero((np.diff(columns.in_ptr) == 0) & ~client)),
        gpu=ids(positions(np.array(gpus, np.int64), len(cluster))),
        drawn=ids(np.concatenate([[], *(np.unique(one, return_inverse=True)[1] for one in chances)])),
        launch_ns=ints([device.launch_ns for device in cluster.devices]),
    )


def _makings(graph: Graph, row: Rows, reader: Rows) -> tuple[Ids, Ids]:
    """[E] twice, of edges that read tensor `row`, as `Tables.tensor_row`, by a node; N + k: the k-th op of the client.

    The cut makes pairs by reader, the values of each by slot, then its controls. Those that a master made for a reader
    stand before those of a worker, as it takes them over first.
    """
    edges, control = len(graph.edge_src), graph.edge_tensor < 0
    dst = graph.edge_dst.astype(np.int64)
    slot = np.where(control, edges, np.arange(edges) - graph.in_ptr[dst])
    place = positions(np.lexsort((graph.creation.edge, slot, graph.place[dst])), edges).astype(np.int64)
    many = np.bincount(dst, minlength=len(graph))
    begin = np.zeros(len(graph), np.int64)
    begin[graph.order] = np.append(0, np.cumsum(many[graph.order]))[:-1]

    def key(of: Rows, by: Rows) -> npt.NDArray[np.int64]:
        return (of.astype(np.int64) + len(graph)) * len(graph) + by

    inside = reader < len(graph)
    known = key(np.where(control, -1 - graph.edge_src.astype(np.int64), graph.edge_tensor), dst)
    order = np.lexsort((place, known))
    wanted = key(row, np.where(inside, reader, 0))
    found = order[np.minimum(np.searchsorted(known[order], wanted), max(edges - 1, 0))] if edges else 0 * wanted
    there = inside & (known[found] == wanted) if edges else np.zeros(len(row), bool)
    last = 2 * edges + reader.astype(np.int64)  # what the client gets, and signals, which cross nowhere
    of = np.where(there, reader, 0)
    made_far = np.where(there, begin[of] + place[found], last) if edges else last
    return ids(np.where(there, made_far + many[of], last)), ids(made_far)


def _drawn(device: str, seed: int, tensor: Rows) -> npt.NDArray[np.float64]:
    """For each tensor, -1 - node for a control edge, a number by which a GPU comes to its Recv sooner or later."""
    row = tensor.astype(np.int64)
    key = np.where(row >= 0, 2 * row, -2 * row - 1)  # of values and of control edges
    address = parse(device)  # of its task and in it, so that what nobody uses changes nothing
    chance = np.random.default_rng([seed, 1 + (address.id or 0), address.task or 0])
    found: npt.NDArray[np.float64] = chance.random(int(key.max(initial=0)) + 1)[key]
    return found


def turns(partitions: Partitions, cluster: Cluster, seed: int) -> Ints:
    """[X] from the step's beginning until the executor of a GPU comes to the Recv of each transfer.

    It is 0 on a CPU, which has a thread for that (`tables.of_partitions`), and on a GPU with up to eight followers.
    """
    begins = np.diff(partitions.graph.in_ptr) == 0
    followers = np.bincount(partitions.device[begins], minlength=len(cluster))
    turn_ns = np.zeros(len(partitions.recv), np.int64)
    for row, device in enumerate(cluster.devices):
        mine = np.flatnonzero((partitions.device[partitions.recv] == row) & begins[partitions.recv])
        if device.type == "GPU" and followers[row] > MOST_IN_ORDER and len(mine):
            order = np.argsort(_drawn(device.name, seed, partitions.tensor[mine]), kind="stable")
            turn_ns[mine[order]] = in_turn(partitions.host[mine[order]], device.launch_ns)
    return ints(turn_ns)


def in_turn(host: Flags, launch_ns: int) -> Rows:
    """The moments at which a GPU comes to Recvs in this order; those in host memory enqueue nothing."""
    enqueues = (~host).astype(np.int64)
    return np.asarray((np.cumsum(enqueues) - enqueues) * launch_ns)
