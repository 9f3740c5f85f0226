"""The two memories of a GPU, its own and that of its host, and the transfers from one memory to another.

    kernel ── in GPU memory ──▶ _Send ~ copy ~> _Recv ── in host memory ──▶ an op that asks for sizes or places

An output may lie in the one memory of a GPU, and a reader may want it in the other. TensorFlow then makes a pair of
Send and Recv within the GPU (tensorflow/core/graph/graph_partition.cc, NeedSameDeviceSendRecv). Such a copy is a
transfer over the links between the GPU and the CPU that stands for it. It takes what any copy of a GPU does (`copies`).

A transfer takes the route between the memories in which the value lies and arrives, whichever devices send and receive.
So what a GPU has in host memory moves as from its CPU. Within a task both memories may be one. Then the reader shares
the buffer (common_runtime/rendezvous_mgr.cc, SameWorkerRecvDone).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, ids

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster


def host_devices(cluster: Cluster) -> Ids:
    """[D] the device that has a device's values in host memory in its memory.

    It is the CPU that stands for a GPU with links to it and back. Any other device has one memory, its own.
    """
    routes, homes = cluster.routes, cluster.home.tolist()
    return ids([home if routes[row][home] and routes[home][row] else row for row, home in enumerate(homes)])


def memory_ends(
    host_device: Ids,
    source: npt.NDArray[np.integer],
    target: npt.NDArray[np.integer],
    made_host: npt.NDArray[np.bool_] | bool,
    host: npt.NDArray[np.bool_] | bool,
) -> tuple[Ids, Ids]:
    """[X] the devices in whose memory values lie and arrive, given the devices of their Sends and Recvs.

    `host_device` [D] are those of `host_devices`. `made_host` and `host` [X] say which values lie and arrive in host
    memory.
    """
    return ids(np.where(made_host, host_device[source], source)), ids(np.where(host, host_device[target], target))
