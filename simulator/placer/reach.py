"""Devices within reach of a step: of a cluster of thousands, those that a session's step may come to use.

One step of one client asks for devices by name, or TensorFlow puts its nodes beside the client. The further devices of
a large cluster are as good as those kept: an algorithm that spreads the step finds hosts enough.
"""

from __future__ import annotations

from dataclasses import replace

from simulator import limits
from simulator.cluster.cluster import Cluster
from simulator.cluster.parts import part, without_others_links
from simulator.graph.graph import Graph
from simulator.placer.constraints import constrain
from simulator.wording import counted


def within_reach(graph: Graph, cluster: Cluster, *, soft: bool = True) -> Cluster:
    """The cluster itself, or a part on which TensorFlow places the graph as on the whole.

    It is a part where the cluster has more devices than `limits.WHOLE_CLUSTER`. The part has, of each group, the device
    that TensorFlow prefers; the client's host; a host of each kind; and further
    whole hosts in order, until there are as many as `limits.PART`. A note says so. Raises what `constrain` raises.
    """
    if len(cluster) <= limits.WHOLE_CLUSTER.most:  # a search still tries so many, in some ten seconds
        return cluster
    hosts: dict[str, list[int]] = {}
    for row, device in enumerate(cluster.devices):
        hosts.setdefault(device.host or device.task, []).append(row)
    kept = {allowed[0] for allowed in constrain(graph, cluster, soft=soft).allowed}
    asked = len(kept)
    client = cluster.devices[cluster.client]
    kept.update(hosts[client.host or client.task])
    kinds = {tuple(cluster.devices[row].kind for row in rows): rows for rows in reversed(hosts.values())}
    for rows in (*reversed(kinds.values()), *hosts.values()):
        if len(kept) >= limits.PART.most:
            break
        kept.update(rows)
    # without a client of its own choice, the custom would choose another among fewer tasks
    chosen = replace(cluster, master=cluster.client_task)
    note = (
        f"of {counted(len(cluster), 'device')} this step may use {len(kept):,}: the {asked:,} that the graph asks for "
        "or TensorFlow prefers, the client's host, and further hosts in order; {limits.WHOLE_CLUSTER.remedy}"
    )
    name = f"{cluster.name} ({len(kept):,} of {len(cluster):,} devices)"
    return without_others_links(part(chosen, sorted(kept), name, [note]))
