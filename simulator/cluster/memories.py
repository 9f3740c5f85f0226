"""The two memories of a GPU, its own and that of its host, and the copies from one to the other.

    kernel ── in GPU memory ──▶ _Send ~ copy ~> _Recv ── in host memory ──▶ an op that asks for sizes or places

TensorFlow makes a pair of Send and Recv within a GPU where an output lies in the one memory and a reader wants it in
the other (tensorflow/core/graph/graph_partition.cc, NeedSameDeviceSendRecv). Such a copy is a transfer over the links
between the GPU and the CPU that stands for it, and takes what any copy of a GPU does (`copies`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, flags, ids

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster


def two_memories(cluster: Cluster) -> Flags:
    """[D] copies from one memory to the other: a GPU with links to its host and back."""
    routes, homes = cluster.routes, cluster.home.tolist()
    return flags([bool(home != row and routes[row][home] and routes[home][row]) for row, home in enumerate(homes)])


def memory_ends(
    home: Ids, source: npt.NDArray[np.integer], target: npt.NDArray[np.integer], host: Flags
) -> tuple[Ids, Ids]:
    """[X] the devices in whose memory values lie and arrive, given the devices of their Sends and Recvs.

    They are the same, but for a copy within a GPU: to host memory it goes to `home`, [D], of the GPU, and otherwise it
    comes from there.
    """
    within = source == target
    return ids(np.where(within & ~host, home[source], source)), ids(np.where(within & host, home[target], target))
