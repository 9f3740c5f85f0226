"""Copies from and to memories of GPUs: what they take besides their links.

A GPU copies in the background. Its host dispatches the copy, as any op. The executor learns of the end when it looks
for it, and sleeps between two looks. Where the protocol lets processors send, a tensor that a GPU sends to another task
is whole in its host's memory before the message begins. The same holds for a tensor that a GPU gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from simulator.cluster.chips import Chip
from simulator.cluster.hierarchy import Route
from simulator.cluster.protocols import IN_PROCESS, Protocol
from simulator.units import Nanos

_PS_PER_S = 10**12
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


class CopyLinks(NamedTuple):
    """The links between the memories of GPUs and of their hosts. Axis: D devices."""

    from_gpu: tuple[int, ...]  # [D] bytes per second of a copy to the host's memory; 0 of a CPU, and where none is made
    to_gpu: tuple[int, ...]  # [D] of one from there
    links: frozenset[int]  # that such copies take


def copy_links(
    chips: Sequence[Chip | None], home: Sequence[int], routes: Sequence[Sequence[Route | None]], rates: Sequence[int]
) -> CopyLinks:
    """The copies of each device. `home` is the row of the CPU that stands for it, `rates` are those of links."""
    ways = [
        (routes[row][at] or (), routes[at][row] or ()) if chip is not None and at != row else ((), ())
        for row, (chip, at) in enumerate(zip(chips, home, strict=True))
    ]
    out, back = (
        [min((rates[link] for link in way), default=0) for way in column] for column in zip(*ways, strict=True)
    )
    return CopyLinks(tuple(out), tuple(back), frozenset(link for both in ways for way in both for link in way))


def staging_ps_per_byte(copies: Sequence[int], network: int, slowest: int) -> int:
    """Time of a byte of a staged message besides that on its slowest link, as its stretches come one after the other.

    `copies` are the rates of the copies from a GPU and to one, in bytes per second. `network` is that of the links in
    between, 0 where there are none, and `slowest` that of all its links.
    """
    if not any(copies):
        return 0
    stretches = sum(Fraction(1, rate) for rate in (*copies, network) if rate)
    return max(
        0, round(_PS_PER_S * (stretches - Fraction(1, slowest)))
    )  # a file's route may go another way than copies
