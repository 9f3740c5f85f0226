"""Copies from and to memories of GPUs: what they take besides their links.

A GPU copies in the background. Its host dispatches the copy, as any op. The executor learns of the end when it looks
for it, and sleeps between two looks.
"""

from __future__ import annotations

from simulator.cluster.chips import Chip
from simulator.cluster.protocols import IN_PROCESS, Protocol
from simulator.units import Nanos

LOOK_NS: Nanos = 10_000  # tensorflow/core/protobuf/config.proto, GPUOptions.polling_active_delay_usecs


def dispatch_ns(chip: Chip | None) -> Nanos:
    """Time of a GPU's host for a copy that it dispatches; 0 for a CPU, and for a GPU without a chip."""
    return 0 if chip is None else chip.dispatch_ns


def look_ns(chip: Chip | None) -> Nanos:
    """Time until the executor learns of the end of a copy from or to a GPU's memory; 0 as for `dispatch_ns`."""
    return 0 if chip is None else LOOK_NS


def copies_ns(protocol: Protocol, source: Chip | None, target: Chip | None) -> Nanos:
    """Latency of a transfer by copies from and to memories of GPUs: their looks, and dispatches outside lanes.

    Through the memories of hosts each GPU has a copy of its own (distributed_runtime/rpc/grpc_worker_service.cc,
    distributed_runtime/tensor_coding.cc), else both have one (common_runtime/copy_tensor.cc). Between tasks a dispatch
    is a latency, since the copy follows a message that arrives or comes before one.
    """
    if protocol.staged:
        return sum(dispatch_ns(end) + look_ns(end) for end in (source, target))
    look = max(look_ns(source), look_ns(target))
    return look if protocol is IN_PROCESS else look + max(dispatch_ns(source), dispatch_ns(target))
