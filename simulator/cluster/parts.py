"""Parts of a cluster: some of its devices, with the routes between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from simulator.cluster.cluster import Cluster
from simulator.cluster.hierarchy import Hierarchy, crossed


def part(cluster: Cluster, rows: Sequence[int], name: str, notes: Sequence[str] = ()) -> Cluster:
    """The cluster of these devices, distinct rows, in this order; it keeps all links, and its master if that is there.

    `notes` are added to its own.
    """
    routes, devices = cluster.routes, tuple(cluster.devices[row] for row in rows)
    return replace(
        cluster,
        name=name,
        devices=devices,
        routes=(
            routes.take(rows)
            if isinstance(routes, Hierarchy)
            else tuple(tuple(routes[row][other] for other in rows) for row in rows)
        ),
        notes=(*cluster.notes, *notes),
        master=cluster.master if cluster.master in {one.task for one in devices} else None,
    )


def shared_anew(cluster: Cluster) -> Cluster:
    """The cluster whose hosts divide their processors among those CPU devices that are there."""
    sharing = Counter(device.host for device in cluster.devices if device.whole is not None)
    devices = [one if one.whole is None else one.whole.share(sharing[one.host]) for one in cluster.devices]
    return replace(cluster, devices=tuple(devices))


def without_others_links(cluster: Cluster) -> Cluster:
    """The cluster without links of hosts and GPUs that it does not have."""
    routes, used = cluster.routes, sorted(crossed(cluster.routes))
    new = {link: row for row, link in enumerate(used)}
    return replace(
        cluster,
        links=tuple(cluster.links[link] for link in used),
        routes=(
            routes.renumber(new)
            if isinstance(routes, Hierarchy)
            else tuple(tuple(r if r is None else tuple(new[link] for link in r) for r in row) for row in routes)
        ),
    )
