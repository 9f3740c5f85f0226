"""Sums of GPUs by NCCL, and the rings over which it sends them.

Each of n devices in a ring sends 2 (n - 1) / n of the tensor's bytes, in 2 (n - 1) rounds. Source: Patarasuk and Yuan,
"Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", 2009. The slowest hop sets the pace, so NCCL
searches the ring whose slowest hop is the fastest (NCCL, src/graph/search.cc). It joins the GPUs of one task, and
reaches a part of the links' rate (benchmarks/published_collectives.py).

Before Volta it is the only ring, as NCCL had it in 2017. From Volta on all links of a GPU carry rings. On a DGX-1 with
eight V100 NCCL 2 reaches some 130 of their 150 GB/s (NVIDIA's blog on NCCL 2.4, 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import Ints
from simulator.costs.table import MAX_OP_NS
from simulator.graph.graph import Graph
from simulator.units import Nanos

MAX_TRIES = 20_000  # steps of the search for a ring; NVLink meshes of 16 GPUs take some hundred

NS_PER_S = 10**9
_MANY_RINGS = 7.0  # compute capability from which NCCL uses all links of a GPU
# NCCL reckons with 14 us before the first round of its protocol for middle sizes (NCCL 2.28, src/graph/tuning.cc); a
# launch, which each kernel pays, is 4 of them
_START_NS = 10_000
_NCCL_PERCENT = 87  # of a hop's rate: all-reduces of 0.5 to 2 GiB over eight H100, timed by XLA's authors


class Ring(NamedTuple):
    """The slowest hop of a ring, or of all rings side by side."""

    bytes_per_s: int
    latency_ns: Nanos
    start_ns: Nanos = 0  # once for an exchange


def all_reduces(graph: Graph, cluster: Cluster) -> tuple[list[int], Ints]:
    """The nodes that sum over several GPUs by NCCL, and the time of the sums on the links."""
    nodes, times = [], []
    rings: dict[int, Ring | None] = {}
    for node, op in enumerate(graph.ops):
        gpus = gpus_of(graph, node) if op == "NcclAllReduce" else None
        if gpus is None:
            continue
        if gpus not in rings:
            rings[gpus] = ring_of(cluster, gpus)
        ring = rings[gpus]
        if ring is not None:
            nodes.append(node)
            nbytes = max(0, int(graph.tensor_bytes[graph.tensor_ptr[node]]))
            times.append(min(MAX_OP_NS, all_reduce_ns(nbytes, gpus, ring)))
    return nodes, np.array(times, np.int64)


def gpus_of(graph: Graph, node: int) -> int | None:
    """The GPUs over which an NcclAllReduce sums; None: it doesn't say."""
    attrs = graph.attrs[node]
    return int(attrs["num_devices"].i) if "num_devices" in attrs else None


def all_reduce_ns(nbytes: int, gpus: int, ring: Ring) -> Nanos:
    """Time of the sum of so many bytes over a ring of GPUs."""
    sent = -(-2 * (gpus - 1) * nbytes * NS_PER_S // (gpus * ring.bytes_per_s))
    return ring.start_ns + sent + 2 * (gpus - 1) * ring.latency_ns


def ring_of(cluster: Cluster, gpus: int) -> Ring | None:
    """The fastest ring over the first GPUs of a task that has so many; None: no task has."""
    for task in dict.fromkeys(device.task for device in cluster.devices):
        mine = [row for row, device in enumerate(cluster.devices) if device.type == "GPU" and device.task == task]
        if 1 < gpus <= len(mine):
            return _fastest(cluster, mine[:gpus])
    return None


def _fastest(cluster: Cluster, rows: Sequence[int]) -> Ring | None:
    hops = {(a, b): copied_between(cluster, a, b) for a in rows for b in rows if a != b}
    if any(hop is None for hop in hops.values()):
        return None
    known = {pair: hop for pair, hop in hops.items() if hop is not None}
    for rate in sorted({hop.bytes_per_s for hop in known.values()}, reverse=True):
        found = _closed(rows, {pair for pair, hop in known.items() if hop.bytes_per_s >= rate})
        if found:
            latency_ns = max(known[pair].latency_ns for pair in zip(found, [*found[1:], found[0]], strict=True))
            return Ring(max(rate, _together(cluster, rows, known, rate)), latency_ns, _START_NS)
    return None


def _together(cluster: Cluster, rows: Sequence[int], hops: Mapping[tuple[int, int], Ring], rate: int) -> int:
    """The rate of all rings, of which the fastest has this one; 0 where NCCL has no other.

    Links that are less than half as fast, such as PCIe beside NVLink, are in none.
    """
    chips = [cluster.devices[row].chip for row in rows]
    if any(chip is None or chip.compute_capability < _MANY_RINGS for chip in chips):
        return 0
    leaving = [
        {(cluster.routes[a][b] or ())[0]: hop.bytes_per_s for (a, b), hop in hops.items() if a == row} for row in rows
    ]
    return min(sum(each for each in links.values() if 2 * each >= rate) for links in leaving)


def hop_between(cluster: Cluster, a: int, b: int) -> Ring | None:
    """A hop over the wires between two devices; None: there are none."""
    links = [cluster.links[link] for link in cluster.routes[a][b] or ()]
    if not links:
        return None
    return Ring(min(link.bytes_per_s for link in links), sum(link.latency_ns for link in links))


def copied_between(cluster: Cluster, a: int, b: int) -> Ring | None:
    """A hop within a task, as NCCL's kernels copy over it."""
    hop = hop_between(cluster, a, b)
    if hop is None:
        return None
    return Ring(max(1, hop.bytes_per_s * _NCCL_PERCENT // 100), hop.latency_ns, _START_NS)


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
