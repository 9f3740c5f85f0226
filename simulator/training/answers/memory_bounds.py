"""Bounds of the memory that devices use in a training: a device may hold parts of the steps of many clients.

How these parts coincide differs from step to step. Two bounds hold always. Resident bytes stay on a device all the
time: a variable once however many clients use it, a constant once for each session. A client has one step under way at
a time. So a device never holds more than all allocations of one step of each client, none of them freed before its end.
Beside them it holds the sum that each accumulator keeps between steps. Elements that queues keep are not counted, nor
the rest of a step that a crash cut short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import Ids, Ints, ids, ints
from simulator.execution.trace import Trace
from simulator.graph.op_classes import VARIABLES
from simulator.graph.tensors import shape_of, size_of
from simulator.training.clients import Client
from simulator.training.recognition.sync_ops import ACCUMULATOR, key_of
from simulator.wording import counted, repr_of

_Key: TypeAlias = tuple[object, ...]  # of bytes that are resident once
_ROW_BYTES = 12  # of an accumulator of rows, beside its value: an index and a count (sparse_conditional_accumulator.h)
_ANONYMOUS = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"  # of a variable of its own: core/framework/resource_handle.h


@dataclass(frozen=True, eq=False)
class MemoryBounds:
    """Bounds of the memory in use. Axis: D devices."""

    clients: Ids  # [D] number of clients whose steps allocate there
    resident_bytes: Ints  # [D] all the time
    most_bytes: Ints  # [D] at any moment at most
    sums_bytes: Ints  # [D] of them in the sums of accumulators

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.clients), "device"))


def memory_bounds(clients: Sequence[Client], cluster: Cluster, steps: Sequence[Trace]) -> MemoryBounds:
    """The memory bounds of these clients; `steps` are those of each client alone, with their allocations."""
    resident, sums = (dict[_Key, tuple[int, int]]() for _ in range(2))  # device and bytes
    count, most = (np.zeros(len(cluster), np.int64) for _ in range(2))
    for client, trace in zip(clients, steps, strict=True):
        assert trace.allocations is not None
        where = client.on(ids(range(len(cluster))))
        own = np.zeros(len(cluster), np.int64)
        np.add.at(own, where[trace.allocations.device], trace.allocations.nbytes)
        most += own
        count += own > 0
        resident.update(_residents(client, trace, where.tolist()))
        sums.update(_sums(client, where.tolist()))
    always = np.zeros(len(cluster), np.int64)
    for device, nbytes in resident.values():
        always[device] += nbytes
    kept = np.zeros(len(cluster), np.int64)
    for device, nbytes in sums.values():
        kept[device] += nbytes
    return MemoryBounds(ids(count), ints(always), ints(most + kept + always), ints(kept))


def _residents(client: Client, trace: Trace, where: Sequence[int]) -> Mapping[_Key, tuple[int, int]]:
    """Resident bytes by key: a variable by container and name on its device, a constant by its session."""
    graph, always = client.partitions.graph, trace.residents
    assert always is not None
    found: dict[_Key, tuple[int, int]] = {}
    for node, device, nbytes in zip(always.node.tolist(), always.device.tolist(), always.nbytes.tolist(), strict=True):
        name, at = graph.names[node], where[device]
        key: _Key = (client.program.task, id(client.program.graph), name, at)
        if graph.ops[node] in VARIABLES:
            attrs = graph.attrs[node]
            container, shared = (attrs[one].s if one in attrs else b"" for one in ("container", "shared_name"))
            key = key if shared == _ANONYMOUS else (container, shared or name.encode("utf-8", "surrogatepass"), at)
        found[key] = (at, nbytes)
    return found


def _sums(client: Client, where: Sequence[int]) -> Mapping[_Key, tuple[int, int]]:
    """Bytes of the sums in accumulators, by container and name on their devices; none where a shape is unknown."""
    graph, device = client.partitions.graph, client.partitions.device
    found: dict[_Key, tuple[int, int]] = {}
    for row, op in enumerate(graph.ops):
        if ACCUMULATOR.fullmatch(op):
            attrs, at = graph.attrs[row], where[device[row]]
            shape = shape_of(attrs["shape"].shape) if "shape" in attrs else None
            nbytes = max(0, size_of(attrs["dtype"].type, shape) if "dtype" in attrs else 0)
            if nbytes and shape and op.startswith("Sparse"):
                nbytes += _ROW_BYTES * shape[0]
            key: _Key = (*key_of(graph, row, "accumulator"), at)
            found[key] = (at, nbytes)
    return found
