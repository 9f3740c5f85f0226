"""The ways between two devices of a cluster, where there is one."""

from __future__ import annotations

from simulator.cluster.cluster import Cluster, Link


def route(cluster: Cluster, source: int, target: int) -> list[Link]:
    """The links that a transfer crosses, in order."""
    found = cluster.routes[source][target]
    assert found is not None
    return [cluster.links[row] for row in found]


def names(cluster: Cluster, source: int, target: int) -> list[str]:
    return [link.name for link in route(cluster, source, target)]
