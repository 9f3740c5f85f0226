"""TensorFlow's collectives: ops in which several devices exchange a tensor without an edge.

The members of a collective are devices of any tasks. Their ring goes from task to task (ring_alg.cc). To gather, to
scatter or to exchange takes half of an all-reduce (ring_gatherer.cc). A broadcast goes down a binary tree
(hierarchical_tree_broadcaster.cc). A member takes this time from its own start, as it waits for no other member here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import matches, parse
from simulator.costs.estimates.nccl import (
    NS_PER_S,
    Ring,
    all_reduce_ns,
    all_reduces,
    copied_between,
    gpus_of,
    hop_between,
    ring_of,
)
from simulator.costs.table import MAX_OP_NS, MEASURED, CostTable, scaled_ns
from simulator.errors import SimvizError
from simulator.graph.const_values import elements
from simulator.graph.graph import Graph
from simulator.graph.op_classes import COLLECTIVES, CONSTANTS
from simulator.units import PS_PER_NS, Bytes, Nanos
from simulator.wording import by_count

_HALF = frozenset(op for op in COLLECTIVES if any(word in op for word in ("Gather", "Scatter", "AllToAll")))
_DOWN = frozenset(op for op in COLLECTIVES if "Bcast" in op)


class Group(NamedTuple):
    """The devices that exchange: how many, and the key that they share."""

    size: int
    key: int


def price_collectives(run_ns: npt.NDArray[np.int64], graph: Graph, cluster: Cluster) -> list[str]:
    """Raise the times [N, K] of collectives to those of their rings; notes say what this leaves out.

    Members stand where the graph's device strings put them. Those without a string, or in another graph, stand on
    other devices of the type, on other tasks first. A collective of unknown group or links keeps its time.
    """
    groups, rings = _rings(graph, cluster)
    priced: list[str] = []
    bare: list[str] = []
    for node, group in groups.items():
        if group is not None and group.size < 2:
            continue
        found = [] if group is None else rings[group]
        (priced if any(found) else bare).append(graph.ops[node])
        for column, ring in enumerate(found):
            if ring is not None and group is not None:
                took = collective_ns(graph.ops[node], _whole_bytes(graph, node), group.size, ring)
                run_ns[node, column] = max(run_ns[node, column], min(MAX_OP_NS, took))
    return _notes_on(priced, bare)


def over_links(costs: CostTable, graph: Graph, before: Cluster, after: Cluster) -> CostTable:
    """The costs where links change: what devices exchange takes as many times as long as their ring does.

    Both clusters have the devices for which the costs were made. Measured times stay.
    """
    times = [_exchanged_ns(graph, cluster) for cluster in (before, after)]
    run_ns = costs.run_ns.copy()
    for column, kind in enumerate(before.kinds):
        was, takes = (one[:, column] for one in times)
        if kind not in costs.kinds:
            continue
        own = costs.kinds.index(kind)
        rows = np.flatnonzero((was > 0) & (takes != was) & (costs.sources[:, own] != MEASURED))
        if len(rows):
            run_ns[rows, own] = scaled_ns(run_ns[rows, own], takes[rows], was[rows])
    run_ns.setflags(write=False)
    return replace(costs, run_ns=run_ns)


def _exchanged_ns(graph: Graph, cluster: Cluster) -> npt.NDArray[np.int64]:
    """[N, K] the times of the rings alone, 0 for what exchanges nothing."""
    run_ns = np.zeros((len(graph), len(cluster.kinds)), np.int64)
    price_collectives(run_ns, graph, cluster)
    summed, took_ns = all_reduces(graph, cluster)
    run_ns[summed] = took_ns[:, None]
    return run_ns


def without_ring(graph: Graph, cluster: Cluster) -> list[str]:
    """The collectives of a known group for which the cluster lacks devices or links: TensorFlow would wait for ever."""
    groups, rings = _rings(graph, cluster)
    known = {node: group for node, group in groups.items() if group is not None and group.size > 1}
    sums = [node for node, op in enumerate(graph.ops) if op == "NcclAllReduce" and (gpus_of(graph, node) or 0) > 1]
    lacking = [node for node, group in known.items() if not any(rings[group])]
    lacking += [node for node in sums if ring_of(cluster, gpus_of(graph, node) or 0) is None]
    return [graph.names[node] for node in lacking]


def _rings(graph: Graph, cluster: Cluster) -> tuple[dict[int, Group | None], dict[Group, list[Ring | None]]]:
    """The group of each collective, None where nothing says it, and the ring of each group by kinds of devices."""
    groups = {node: group_of(graph, node) for node, op in enumerate(graph.ops) if op in COLLECTIVES}
    asked: dict[Group, dict[str, None]] = defaultdict(dict)
    for node, group in groups.items():
        if group is not None:
            asked[group][graph.requested[node]] = None
    rings = {group: [ring_among(cluster, kind, group.size, asked[group]) for kind in cluster.kinds] for group in asked}
    return groups, rings


def collective_ns(op: str, nbytes: Bytes, members: int, ring: Ring) -> Nanos:
    """Time of a collective of so many members; the bytes are those of its largest tensor, all that is exchanged."""
    if op in _DOWN:
        hop_ns = -(-nbytes * NS_PER_S // ring.bytes_per_s) + ring.latency_ns
        return ring.start_ns + (members - 1).bit_length() * hop_ns
    rounds_ns = all_reduce_ns(nbytes, members, ring) - ring.start_ns
    return ring.start_ns + (-(-rounds_ns // 2) if op in _HALF else rounds_ns)


def ring_among(cluster: Cluster, kind: str, size: int, asked: Iterable[str]) -> Ring | None:
    """The slowest hop of the ring over so many devices of the type of a kind; None: there is none.

    Those asked for come first, then others of the kind.
    """
    type_ = next(device.type for device in cluster.devices if device.kind == kind)
    names = {row: parse(device.name) for row, device in enumerate(cluster.devices) if device.type == type_}
    taken: list[int] = []
    for text in filter(None, asked):
        try:
            spec = parse(text)
        except SimvizError:  # reported with the node's name when it is placed
            return None
        found = next((row for row, name in names.items() if row not in taken and matches(spec, name)), None)
        if found is None:
            return None
        taken.append(found)
    tasks = {cluster.devices[row].task for row in taken}
    devices = cluster.devices
    others = sorted(
        names.keys() - {*taken}, key=lambda row: (devices[row].task in tasks, devices[row].kind != kind, row)
    )
    members = sorted([*taken, *others[: max(0, size - len(taken))]])
    if not 1 < size == len(members):
        return None
    hops = [_message(cluster, a, b) for a, b in zip(members, [*members[1:], members[0]], strict=True)]
    known = [hop for hop in hops if hop is not None]
    if len(known) < size:
        return None
    return Ring(
        min(hop.bytes_per_s for hop in known),
        max(hop.latency_ns for hop in known),
        max(hop.start_ns for hop in known),
    )


def _message(cluster: Cluster, a: int, b: int) -> Ring | None:
    """A hop with the protocol between tasks: bytes are packed, sent and unpacked in a stream."""
    source, target = cluster.devices[a], cluster.devices[b]
    if cluster.routes[a][b] == ():  # CPUs of one task read each other's memory
        return Ring(source.bytes_per_s, cluster.handover_ns)
    if source.task == target.task:
        return copied_between(cluster, a, b)
    wires = hop_between(cluster, a, b)
    if wires is None:
        return None
    by = cluster.between_tasks
    rates = [wires.bytes_per_s]
    for row, ps_per_byte in ((a, by.send_ps_per_byte), (b, by.receive_ps_per_byte)):
        if ps_per_byte:
            cores = by.cores(cluster.devices[int(cluster.home[row])].cores)
            rates.append(cores * PS_PER_NS * NS_PER_S // ps_per_byte)
    return Ring(min(rates), wires.latency_ns + by.latency_ns + by.send_ns + by.receive_ns)


def group_of(graph: Graph, node: int) -> Group | None:
    """The group of a collective, by attributes or by the constants that a V2 op reads; None: nothing says it."""
    attrs, slot = graph.attrs[node], COLLECTIVES[graph.ops[node]]
    if slot is None:
        known = "group_size" in attrs and "group_key" in attrs
        return Group(int(attrs["group_size"].i), int(attrs["group_key"].i)) if known else None
    sources = graph.sources(node)[slot : slot + 2]
    read = [elements(graph.attrs[row], 1) if graph.ops[row] in CONSTANTS else None for row in sources]
    numbers = [int(one[0]) for one in read if one]
    return Group(*numbers) if len(numbers) == len(Group._fields) else None


def _whole_bytes(graph: Graph, node: int) -> Bytes:
    """The largest of its tensors: all that is gathered, scattered, reduced or broadcast."""
    read = graph.edge_tensor[graph.in_edges(node)].tolist()
    return max((int(graph.tensor_bytes[tensor]) for tensor in (*read, *graph.outputs(node)) if tensor >= 0), default=0)


def _notes_on(priced: Sequence[str], bare: Sequence[str]) -> list[str]:
    notes = []
    if priced:
        notes.append(
            "collectives take as long as a ring over the links of their members, which a training's bottleneck takes "
            "for work of the device; they wait for no other member here, and their bytes take no link from transfers: "
            f"{by_count(Counter(priced))}"
        )
    if bare:
        notes.append(
            "collectives of which nothing says the group, or for whose members the cluster lacks devices or links, "
            f"move nothing here and wait for nobody, so the step takes longer: {by_count(Counter(bare))}"
        )
    return notes
