"""Constraints: the colocation groups of a graph, and the devices that each group may use.

A group may use the devices that match what its members ask for and that have a kernel for every member. TensorFlow
prefers them in a fixed order (placer.cc, FilterSupportedDevices). Soft placement gives up the type and the number of a
device that does not exist, never its job, replica or task. TensorFlow accepts every placement that keeps each
group on one of its devices, even written into every node under hard placement. The exceptions are the `_class` entries
in `dropped`: soft placement gives them up, hard placement would refuse them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import ANYWHERE, DeviceSpec, matches, parse
from simulator.columns import Flags, Ids, flags, ids
from simulator.graph import ops
from simulator.graph.dtypes import REF
from simulator.graph.graph import Graph
from simulator.placer.colocation import ColocationGroups, DeviceTypes, colocate
from simulator.placer.refusals import no_device
from simulator.wording import counted, repr_of


@dataclass(frozen=True, eq=False)
class Constraints:
    """Axes: N nodes, G groups (in order of their first member), D devices."""

    graph: Graph
    devices: tuple[str, ...]  # [D] full names
    soft: bool
    group: Ids  # [N] row of the node's group
    members: tuple[tuple[int, ...], ...]  # [G] nodes, ascending
    allowed: tuple[tuple[int, ...], ...]  # [G] device rows, the one that TensorFlow prefers first; never empty
    # [G] all devices with a kernel for every member in the job, replica and task that they ask for; hard: as `allowed`
    may: tuple[tuple[int, ...], ...]
    asked: Flags  # [G] some member asks for a job, a task, a type or a number
    specs: tuple[DeviceSpec, ...]  # [N] what the node itself asks for
    dropped: tuple[tuple[int, str], ...] = ()  # (node, key): `_class` entries that soft placement gave up
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return repr_of(self, f"{counted(len(self.group), 'node')} in {counted(len(self.members), 'group')}")


def constrain(graph: Graph, cluster: Cluster, *, soft: bool = True) -> Constraints:
    """Find the groups of a graph and the devices that each may use.

    Raises GraphError for a malformed device string. Raises InfeasibleError for a node without a kernel, for nodes that
    must share a device and can't, and for a group without a device. Of several faults it is the one that TensorFlow
    would find first. The error has the node that TensorFlow names, what each member of its group allows, and a cluster
    that would hold the graph.
    """
    groups = colocate(graph, cluster, soft=soft)
    roots = [groups.root(node) for node in range(len(graph))]
    row_of_root = {root: row for row, root in enumerate(dict.fromkeys(roots))}
    group = [row_of_root[root] for root in roots]
    members: list[list[int]] = [[] for _ in row_of_root]
    for node, row in enumerate(group):
        members[row].append(node)
    notes: tuple[str, ...] = ()
    if groups.dropped:
        count, first = len(groups.dropped), graph.names[groups.dropped[0][0]]
        notes = (f"soft placement gave up {count} colocation requests that cannot be met, first that of {first!r}",)
    allowed, may = _allowed(groups, cluster, list(row_of_root), members)
    return Constraints(
        graph=graph,
        devices=cluster.device_names,
        soft=soft,
        group=ids(group),
        members=tuple(map(tuple, members)),
        allowed=tuple(allowed),
        may=tuple(may),
        asked=flags([groups.requested[root] != ANYWHERE for root in row_of_root]),
        specs=tuple(groups.specs),
        dropped=tuple(groups.dropped),
        notes=notes,
    )


def placement_order(graph: Graph) -> tuple[list[int], list[int]]:
    """The nodes as TensorFlow's placer takes them, in two parts: by id without the generators, then the generators.

    A generator has no data inputs and exactly one output, which is no reference (placer.cc, §3.7).
    """
    first = graph.in_ptr[:-1]
    reads = np.append(graph.edge_tensor, -1)[first] >= 0  # data inputs come before control inputs
    reads &= np.diff(graph.in_ptr) > 0
    single = np.diff(graph.tensor_ptr) == 1
    dtype = np.append(graph.tensor_dtype, 0)[graph.tensor_ptr[:-1]]
    generator = ~reads & single & (dtype < REF)
    return graph.order[~generator[graph.order]].tolist(), graph.order[generator[graph.order]].tolist()


def _allowed(
    groups: ColocationGroups, cluster: Cluster, roots: list[int], members: list[list[int]]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Per group `allowed` and `may`; of those without a device the first in placement order is refused."""
    graph, devices = groups.graph, [parse(device.name) for device in cluster.devices]
    known: dict[tuple[DeviceSpec, DeviceSpec, DeviceTypes], tuple[tuple[int, ...], tuple[int, ...]]] = {}
    found = []
    for root in roots:
        key = (groups.requested[root], groups.resource[root], groups.types[root])
        if key not in known:
            chosen = _candidates(cluster, devices, *key, soft=groups.soft)
            task = key[0].without_device()
            able = _preferred(cluster, key[2], (row for row, device in enumerate(devices) if matches(task, device)))
            known[key] = chosen, able if groups.soft else chosen
        found.append(known[key])
    failing = {node: row for row, (chosen, _) in enumerate(found) if not chosen for node in members[row]}
    if failing:
        early, late = placement_order(graph)
        first = next(node for node in (*early, *late) if node in failing)
        row = failing[first]
        raise no_device(graph, cluster, groups.specs, first, members[row], groups.requested[roots[row]])
    return [chosen for chosen, _ in found], [may for _, may in found]


def _candidates(
    cluster: Cluster,
    devices: list[DeviceSpec],
    requested: DeviceSpec,
    resource: DeviceSpec,
    types: DeviceTypes,
    *,
    soft: bool,
) -> tuple[int, ...]:
    """Devices that match the request, or what soft placement makes of it."""
    for spec in _relaxations(requested, resource) if soft else (requested,):
        matching = (row for row, device in enumerate(devices) if matches(spec, device))
        chosen = _preferred(cluster, types, matching)
        if chosen:
            return chosen
    return ()


def _relaxations(requested: DeviceSpec, resource: DeviceSpec) -> tuple[DeviceSpec, DeviceSpec, DeviceSpec]:
    """The request; without type and number unless a variable insists on them; without them in any case."""
    kept = requested._replace(
        type=requested.type if resource.type is not None else None,
        id=requested.id if resource.id is not None else None,
    )
    return requested, kept, requested.without_device()


def _preferred(cluster: Cluster, types: DeviceTypes, rows: Iterable[int]) -> tuple[int, ...]:
    """Devices with a kernel in the order of kernel priority, type priority, own task before others, name as text."""
    priority = dict(types)
    rank = {name: place for place, name in enumerate(ops.DEVICE_TYPES)}

    def preference(row: int) -> tuple[int, int, bool, str]:
        device = cluster.devices[row]
        return -priority[device.type], rank[device.type], device.task != cluster.client_task, device.name

    return tuple(sorted((row for row in rows if cluster.devices[row].type in priority), key=preference))
