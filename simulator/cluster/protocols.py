"""Protocols between tasks: the time that software adds to the wires for each message.

    Recv posted ──request──▶ the sender knows │ value there │ pack ──wires, latency──▶ unpack │ readers start

A link has the time of its hardware; a protocol has the rest of a message's time. `request_ns` and `latency_ns` are
delays without work: thread wake-ups, system calls, queues. `send` and `receive` are work of one core of the CPU that
stands for the device. A lane of that CPU stands for c cores, of which a message needs one. So the message takes the
lane for a c-th of its work. The rest of the work delays it like a latency, except where bytes are worked on while
others are on the wires. A limit of t threads for messages limits c to t.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from simulator.errors import ClusterError
from simulator.units import PS_PER_NS, Bytes, Nanos, is_whole, show_nanos
from simulator.wording import choices

MAX_LATENCY_NS: Nanos = 10**15  # 11 days; the sum over any route stays far from 2^63
MAX_PS_PER_BYTE = 10**6  # 1 us for each byte
MAX_THREADS = 2**16


@dataclass(frozen=True, slots=True)
class Protocol:
    """A message's time between two tasks besides its wires. Raises ClusterError for a figure out of range."""

    name: str  # "grpc"
    request_ns: Nanos = 0  # from the posted Recv to the sender's notice of it
    send_ns: Nanos = 0  # work per message of a core at the sender
    receive_ns: Nanos = 0  # the same at the receiver
    send_ps_per_byte: int = 0  # picoseconds of work per byte
    receive_ps_per_byte: int = 0
    source: str = ""  # source of the figures
    latency_ns: Nanos = 0  # per message, added to that of its wires; without work
    threads: int = 0  # of a process that work on messages; 0: as many as it has cores

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            most, unit = (MAX_PS_PER_BYTE, "ps") if field.name.endswith("_byte") else (MAX_LATENCY_NS, "ns")
            if field.name not in ("name", "source", "threads") and not (is_whole(value) and 0 <= value <= most):
                raise ClusterError(
                    f"Protocol {self.name!r} has {field.name} {value}; give whole numbers from 0 to {most:,} {unit}, "
                    f"that is {show_nanos(most // PS_PER_NS if unit == 'ps' else most)}."
                )
        if not (is_whole(self.threads) and 0 <= self.threads <= MAX_THREADS):
            raise ClusterError(
                f"Protocol {self.name!r} has {self.threads!r} threads; give 1 to {MAX_THREADS:,}, or 0 for as many as "
                "there are cores."
            )

    @property
    def staged(self) -> bool:
        """Whether processors send the bytes, so that what a GPU sends or gets is first in its host's memory."""
        return self.send_ns > 0 or self.send_ps_per_byte > 0

    def cores(self, cores: int) -> int:
        """The number of a lane's cores that can work on messages at once."""
        return min(cores, self.threads) if self.threads else cores

    def pack_ns(self, nbytes: Bytes) -> Nanos:
        """Work at the sender for a message of that size, rounded up."""
        return self.send_ns + -(-nbytes * self.send_ps_per_byte // PS_PER_NS)

    def unpack_ns(self, nbytes: Bytes) -> Nanos:
        """Work at the receiver for a message of that size, rounded up."""
        return self.receive_ns + -(-nbytes * self.receive_ps_per_byte // PS_PER_NS)


def lane_ns(work_ns: Nanos, cores: int) -> Nanos:
    """Time that the work of one core takes a lane of so many cores, rounded up."""
    return -(-work_ns // cores)


def outside_lanes_ns(
    fixed: tuple[Nanos, Nanos], works: tuple[Nanos, Nanos], cores: tuple[int, int], wire_ns: Nanos
) -> Nanos:
    """Delay of a message by the work at its two ends outside their lanes.

    Each end has `fixed`, its work per message; `works`, all of its work; and `cores`, the number of cores of its lane.
    `wire_ns` is the time of the bytes on the wires. Bytes are packed, sent and unpacked in a stream, so the slowest of
    the three counts. The lanes do their share before the message leaves and after it has arrived.
    """
    lanes = [lane_ns(work, of) for work, of in zip(works, cores, strict=True)]
    alone = sum(work - lane_ns(work, of) for work, of in zip(fixed, cores, strict=True))
    stream_ns = max(wire_ns, *(work - each for work, each in zip(works, fixed, strict=True)))
    return max(alone, sum(fixed) + stream_ns - wire_ns - sum(lanes))


PLAIN = Protocol("plain", source="wires alone")

# The receiver copies when both Send and Recv have run, by DMA where a GPU is involved. A CPU of the same process only
# gets a reference: its route has no links (docs/tensorflow.md, section 8).
IN_PROCESS = Protocol("in-process", source="within a process nothing is packed")

# Steps of one ps and one worker, each pinned to a core, of TensorFlow 2.21 over loopback (benchmarks/messages.py, one
# x86 machine, 2026). A message of 4 bytes, its request and all, takes 35 to 42 us of processor time at each end where
# many are under way; a byte 0.27 ns where it is sent and 0.40 ns where it is received, copies and fresh pages with it.
# gRPC alone takes 18.5 us of a server core per call, 54,000 calls per second and core (grpc/grpc#10803). A hop, from
# the end of the producer to the start of the reader, takes 90 to 130 us. The wires of a default cluster, two network
# adapters or the loopback, have 2 us of it. Its request had long arrived, as a Recv without inputs is posted when the
# step begins. A request that is posted late is assumed to take half a hop more.
#
# A message alone takes up to 68 us of work at each end, as no other message shares its wake-ups and system calls. The
# part above 40 us is in the latency here. Threads: 8 wait for calls at a server, 8 for answers at a client
# (kGrpcWorkerServiceThreadCount of grpc_worker_service.cc, kGrpcWorkerCacheThreadCount of grpc_worker_cache.cc).
# docs/decisions/0024 has more.
GRPC = Protocol(
    "grpc",
    request_ns=55_000,
    send_ns=40_000,
    receive_ns=40_000,
    send_ps_per_byte=250,
    receive_ps_per_byte=400,
    source="110 us a hop, 40 us of it work at each end, 0.25 and 0.4 ns per byte; measured on TensorFlow 2.21, 2026",
    latency_ns=28_000,
    threads=8,
)

# TensorFlow's verbs transport (tensorflow/networking, tensorflow_networking/verbs/README.md): the receiver writes a
# request into the sender's memory, the sender writes the tensor into the receiver's memory, without a copy.
# 4 us from application to application (Mellanox, "InfiniBand In-Network Computing", 2019: 3 to 4 us), of which the
# wires have 2 us. The work per message is not published; none is counted. No measurement of ours.
RDMA = Protocol(
    "rdma",
    request_ns=4_000,
    latency_ns=2_000,
    source="4 us a hop, Mellanox 2019",
)

# As if Send and Recv were ncclSend and ncclRecv, a question of "what if": TensorFlow uses NCCL in collectives only.
# NVIDIA's own model of a ring with the Simple protocol (NCCL, src/graph/tuning.cc, as of 2025): 8.4 us once and 14 us
# per step over a network, 22.4 us in all. Two NICs and two PCIe links have 12 us of them. GPUs copy, no CPU does.
NCCL = Protocol("nccl", latency_ns=10_400, source="22.4 us a hop between GPUs, NCCL's own model, 2025")

PROTOCOLS = {protocol.name: protocol for protocol in (PLAIN, GRPC, RDMA, NCCL)}


def find_protocol(name: str, own: Mapping[str, Protocol] | None = None) -> Protocol:
    """The protocol of that name between tasks, the user's own before the shipped ones.

    Raises ClusterError with the names that exist.
    """
    known = {**PROTOCOLS, **(own or {})}
    if name not in known:
        raise ClusterError(f"there is no protocol {name!r}; known are {choices(name, list(known))}")
    return known[name]


def protocol_note(protocol: Protocol) -> str:
    """The note of a cluster on the protocol between its tasks."""
    return f"tasks talk by {protocol.name}" + (f" ({protocol.source})" if protocol.source else "")
