"""All-reduce by NCCL over the GPUs of one task: a ring, in which each GPU sends to the next one.

Each of n GPUs sends 2 (n - 1) / n of the tensor's bytes, in 2 (n - 1) rounds (Patarasuk and Yuan, "Bandwidth Optimal
All-reduce Algorithms for Clusters of Workstations", 2009). The slowest hop sets the pace, so NCCL searches the ring
whose slowest hop is the fastest (NCCL, src/graph/search.cc). Here it has one ring, as NCCL had in 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import Ints
from simulator.costs.table import MAX_NS
from simulator.graph.graph import Graph
from simulator.units import Nanos

MAX_TRIES = 20_000  # steps of the search for a ring; NVLink meshes of 16 GPUs take some hundred


class Ring(NamedTuple):
    """The slowest hop of a ring."""

    bytes_per_s: int
    latency_ns: Nanos


def all_reduces(graph: Graph, cluster: Cluster) -> tuple[list[int], Ints]:
    """The nodes that sum over several GPUs by NCCL, and the time of the sums on the links."""
    nodes, times = [], []
    rings: dict[int, Ring | None] = {}
    for node, op in enumerate(graph.ops):
        if op != "NcclAllReduce" or "num_devices" not in graph.attrs[node]:
            continue
        gpus = int(graph.attrs[node]["num_devices"].i)
        if gpus not in rings:
            rings[gpus] = ring_of(cluster, gpus)
        ring = rings[gpus]
        if ring is not None:
            nodes.append(node)
            nbytes = max(0, int(graph.tensor_bytes[graph.tensor_ptr[node]]))
            times.append(min(MAX_NS, all_reduce_ns(nbytes, gpus, ring)))
    return nodes, np.array(times, np.int64)


def all_reduce_ns(nbytes: int, gpus: int, ring: Ring) -> Nanos:
    """Time of the sum of so many bytes over a ring of GPUs."""
    sent = -(-2 * (gpus - 1) * nbytes * 10**9 // (gpus * ring.bytes_per_s))
    return sent + 2 * (gpus - 1) * ring.latency_ns


def ring_of(cluster: Cluster, gpus: int) -> Ring | None:
    """The fastest ring over the first GPUs of a task that has so many; None: no task has."""
    for task in dict.fromkeys(device.task for device in cluster.devices):
        mine = [row for row, device in enumerate(cluster.devices) if device.type == "GPU" and device.task == task]
        if 1 < gpus <= len(mine):
            return _fastest(cluster, mine[:gpus])
    return None


def _fastest(cluster: Cluster, rows: Sequence[int]) -> Ring | None:
    hops = {(a, b): _hop(cluster, a, b) for a in rows for b in rows if a != b}
    if any(hop is None for hop in hops.values()):
        return None
    known = {pair: hop for pair, hop in hops.items() if hop is not None}
    for rate in sorted({hop.bytes_per_s for hop in known.values()}, reverse=True):
        found = _closed(rows, {pair for pair, hop in known.items() if hop.bytes_per_s >= rate})
        if found:
            return Ring(rate, max(known[pair].latency_ns for pair in zip(found, [*found[1:], found[0]], strict=True)))
    return None


def _hop(cluster: Cluster, a: int, b: int) -> Ring | None:
    links = [cluster.links[link] for link in cluster.routes[a][b] or ()]
    if not links:
        return None
    return Ring(min(link.bytes_per_s for link in links), sum(link.latency_ns for link in links))


def _closed(rows: Sequence[int], joined: set[tuple[int, int]]) -> list[int]:
    """A ring over all rows by joined pairs, depth first; empty where there is none, or none was found in time."""
    paths, tries = [[rows[0]]], 0
    while paths and tries < MAX_TRIES:
        tries += 1
        path = paths.pop()
        if len(path) == len(rows):
            if (path[-1], path[0]) in joined:
                return path
            continue
        paths += [[*path, row] for row in reversed(rows) if row not in path and (path[-1], row) in joined]
    return []
