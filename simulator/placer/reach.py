"""Devices within reach of a step: of a large cluster, those that a session's step may come to use.

One step of one client asks for devices by name, or TensorFlow puts its nodes beside the client. Of hosts that are alike
it can use as many as it has groups to place. So a step of few groups gets few of a thousand hosts. A placement on all
of them takes as long as one on these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from simulator import limits
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import parse
from simulator.cluster.hierarchy import Hierarchy
from simulator.cluster.parts import part, without_others_links
from simulator.errors import ClusterError
from simulator.graph.graph import Graph
from simulator.placer.constraints import constrain
from simulator.wording import counted


def within_reach(graph: Graph, cluster: Cluster, *, soft: bool = True) -> Cluster:
    """The cluster itself, or a part on which TensorFlow places the graph as on the whole.

    It is the cluster itself up to `limits.PART` devices. Else it has, of each group, the device that TensorFlow
    prefers, and its CPU. It also has the client's host, and whole hosts, one of each kind in turn, until there are
    `limits.PART` devices. Up to `limits.WHOLE_CLUSTER` devices it has also as many hosts of each kind as there are
    groups with a choice. A note says so where devices are left out. Raises what `constrain` raises, and ClusterError
    where it would use more devices than `limits.STEP_DEVICES`.
    """
    if len(cluster) <= limits.PART.most:
        return cluster
    hosts: dict[str, list[int]] = {}
    for row, device in enumerate(cluster.devices):
        hosts.setdefault(device.host or device.task, []).append(row)
    allowed = constrain(graph, cluster, soft=soft).allowed
    kept = {devices[0] for devices in allowed}
    asked = len(kept)
    client = cluster.devices[cluster.client]
    kept.update(cluster.home[sorted(kept)].tolist())  # whose cores work on the transfers of these
    kept.update(hosts[client.host or client.task])
    groups = sum(len(devices) > 1 for devices in allowed) if len(cluster) <= limits.WHOLE_CLUSTER.most else 0
    for before, rows in _in_turns(cluster, hosts.values(), kept):
        if len(kept) >= limits.PART.most and before >= groups:
            break
        kept.update(rows)
    if len(kept) > limits.STEP_DEVICES.most:
        raise ClusterError(
            f"{cluster.name!r}: this step may use {len(kept):,} of {counted(len(cluster), 'device')}, more than the "
            f"{limits.STEP_DEVICES.most:,} of a simulation. Beside --limit {limits.WHOLE_CLUSTER.name}=N or "
            f"{limits.PART.name}=N, --limit {limits.STEP_DEVICES.name}=N takes more"
        )
    if len(kept) == len(cluster):
        return cluster
    # without a client of its own choice, the custom would choose another among fewer tasks
    chosen = replace(cluster, master=cluster.client_task)
    raising = (limits.WHOLE_CLUSTER if len(cluster) > limits.WHOLE_CLUSTER.most else limits.PART).remedy
    note = (
        f"of {counted(len(cluster), 'device')} this step may use {len(kept):,}: the {asked:,} that the graph asks for "
        f"or TensorFlow prefers, the client's host, and further hosts of each kind in order; {raising}"
    )
    name = f"{cluster.name} ({len(kept):,} of {len(cluster):,} devices)"
    return without_others_links(part(chosen, sorted(kept), name, [note]))


def _in_turns(
    cluster: Cluster, hosts: Iterable[Sequence[int]], kept: Container[int]
) -> Iterator[tuple[int, Sequence[int]]]:
    """Hosts, first the first of each kind, then the second; with each the number of its kind that came before.

    Hosts of which a device is `kept` come with the first ones and do not count, as they differ from the others.
    """
    seen: Counter[Hashable] = Counter()
    ordered = []
    for rows in hosts:
        kind = tuple(_kind(cluster, row) for row in rows)
        known = any(row in kept for row in rows)
        ordered.append((0 if known else seen[kind], known, rows))
        seen[kind] += not known
    return ((before, rows) for before, _, rows in sorted(ordered, key=lambda one: one[:2]))


def _kind(cluster: Cluster, row: int) -> Hashable:
    """The traits of a device by which its host is of a kind: job, model, and wires to other hosts."""
    device = cluster.devices[row]
    wires: tuple[tuple[int, int], ...] = ()
    if isinstance(cluster.routes, Hierarchy):
        at = cluster.routes.positions[row]
        links = [cluster.links[link] for link in (*at.up.racks, *at.down.racks)]
        wires = tuple((link.latency_ns, link.bytes_per_s) for link in links)
    return parse(device.name).job, device.kind, wires
