"""Copies from and to memories of GPUs, and those between the two memories of one GPU, its own and that of its host.

    kernel ── in GPU memory ──▶ _Send ~ copy ~> _Recv ── in host memory ──▶ an op that asks for sizes or places

TensorFlow makes a pair of Send and Recv within a GPU where an output lies in the one memory and a reader wants it in
the other (tensorflow/core/graph/graph_partition.cc, NeedSameDeviceSendRecv). Such a copy is a transfer over the links
between the GPU and the CPU that stands for it, where it waits for others and takes their time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.cluster.protocols import IN_PROCESS, Protocol
from simulator.columns import Flags, Ids, flags, ids
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster, Device

# A GPU copies in the background. The executor learns of the end when it looks for it, and sleeps between two looks
# (tensorflow/core/protobuf/config.proto, GPUOptions.polling_active_delay_usecs).
LOOK_NS: Nanos = 10_000


def dispatch_ns(device: Device) -> Nanos:
    """Time of a GPU's host for a copy that it dispatches, that of an op without a kernel.

    It is 0 for a CPU, and for a GPU without a chip.
    """
    return 0 if device.chip is None else device.op_ns(0)


def look_ns(device: Device) -> Nanos:
    """Time until the executor learns of the end of a copy from or to a GPU's memory; 0 as for `dispatch_ns`."""
    return 0 if device.chip is None else LOOK_NS


# Through the memories of hosts each GPU has a copy of its own (distributed_runtime/rpc/grpc_worker_service.cc,
# distributed_runtime/tensor_coding.cc), else both have one (common_runtime/copy_tensor.cc).


def copies_ns(protocol: Protocol, source: Device, target: Device) -> Nanos:
    """Latency of a transfer by copies from and to memories of GPUs: their looks, and dispatches outside lanes.

    Between tasks a dispatch is a latency, since the copy follows a message that arrives or comes before one.
    """
    if protocol.staged:
        return sum(dispatch_ns(end) + look_ns(end) for end in (source, target))
    look = max(look_ns(source), look_ns(target))
    return look if protocol is IN_PROCESS else look + max(dispatch_ns(source), dispatch_ns(target))


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
