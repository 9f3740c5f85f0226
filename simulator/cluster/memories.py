"""The two memories of a GPU, its own and that of its host, and the copies from one to the other.

    kernel ── in GPU memory ──▶ _Send ~ copy ~> _Recv ── in host memory ──▶ an op that asks for sizes or places

TensorFlow makes a pair of Send and Recv within a GPU where an output lies in the one memory and a reader wants it in
the other (tensorflow/core/graph/graph_partition.cc, NeedSameDeviceSendRecv). Such a copy is a transfer over the links
between the GPU and the CPU that stands for it, where it waits for others. The host dispatches it as any op, which takes
the lane of the GPU. The executor learns of the copy's end when it looks for it, and it sleeps between two looks
(tensorflow/core/protobuf/config.proto, GPUOptions.polling_active_delay_usecs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, ids, ints
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster

LOOK_NS: Nanos = 10_000  # TensorFlow's default sleep


def copy_ns(cluster: Cluster) -> Ints:
    """[D] time of a GPU's lane for a copy between its two memories, that of an op without a kernel.

    It is -1 for what has one memory: a CPU, and a GPU without links to its host and back.
    """
    routes, homes = cluster.routes, cluster.home.tolist()
    two = [home != row and routes[row][home] and routes[home][row] for row, home in enumerate(homes)]
    ends = zip(cluster.devices, two, strict=True)
    return ints([device.op_ns(0) if links else -1 for device, links in ends])


def memory_ends(
    home: Ids, source: npt.NDArray[np.integer], target: npt.NDArray[np.integer], host: Flags
) -> tuple[Ids, Ids]:
    """[X] the devices in whose memory values lie and arrive, given the devices of their Sends and Recvs.

    They are the same, but for a copy within a GPU: to host memory it goes to `home`, [D], of the GPU, and otherwise it
    comes from there.
    """
    within = source == target
    return ids(np.where(within & ~host, home[source], source)), ids(np.where(within & host, home[target], target))
