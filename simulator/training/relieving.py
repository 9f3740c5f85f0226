"""What could be made better on a cluster, one thing at a time: the candidates for a bottleneck.

A transfer is as slow as its slowest link. So whoever speeds up links speeds up what lies on the same routes, too, up
to the same rate: else one end of a network of equal adapters would never be worth anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from simulator.cluster.client import short_task
from simulator.cluster.cluster import Cluster
from simulator.cluster.protocols import PLAIN
from simulator.training.disturbance import Disturbance
from simulator.training.disturbing import Slower, singled_out, slower_devices, without
from simulator.training.training import Training
from simulator.wording import some

if TYPE_CHECKING:
    from simulator.partitioning import Partitions

FASTER = 2  # how much faster a link or device is made
ALIKE = 0.5  # of the busiest: what is busier than that belongs to the same bottleneck
LISTED = 3


@dataclass(frozen=True, slots=True)
class Relief:
    """One change of a run, and of what."""

    bottleneck: str  # "the link ps0 nic out, busy 93 % of the time"
    change: str  # "with twice its bandwidth"
    share: float  # of the run's time in which it is busy, or is waited for
    links: tuple[tuple[int, int], ...] = ()  # link -> its new bytes per second
    devices: tuple[int, ...] = ()  # whose ops take half as long
    undisturbed: tuple[str, ...] = ()  # tasks, full names, of which the disturbances are gone
    backups: int = 0  # so many more workers are backup: an update takes fewer gradients
    wires_alone: bool = False  # messages take no time but that of their wires


def relieve(cluster: Cluster, relief: Relief) -> tuple[Cluster, Slower]:
    """The cluster with that change, and the kinds of its faster devices: `slowed` makes the costs."""
    links = list(cluster.links)
    for row, bytes_per_s in relief.links:
        links[row] = replace(links[row], bytes_per_s=bytes_per_s)
    factors = [Fraction(1, FASTER) if row in relief.devices else Fraction(1) for row in range(len(cluster))]
    protocol = replace(PLAIN, name=cluster.between_tasks.name) if relief.wires_alone else cluster.between_tasks
    return slower_devices(replace(cluster, links=tuple(links), between_tasks=protocol), factors)


def candidates(
    training: Training, cluster: Cluster, disturbances: Sequence[Disturbance] = (), *, gate_share: float = 0.0
) -> tuple[Relief, ...]:
    """What could hold the run back, the likeliest first: by busy share, but a task that is disturbed comes first.

    `gate_share` is that of `Answers`. The work of protocols is in no share and comes last.
    """
    busy = [*_links(training, cluster), *_devices(training, cluster)]
    if gate_share > 0 and training.regime.startswith("sync"):
        busy.append(
            Relief(
                f"waiting for the slowest, {_percent(gate_share)} of the workers' time",
                "with one more worker as backup, so that an update takes one gradient less,",
                gate_share,
                backups=1,
            )
        )
    busy.sort(key=lambda relief: -relief.share)
    named = singled_out(disturbances, cluster)
    if named:
        tasks = some([short_task(task) for task in named], LISTED)
        busy.insert(0, Relief(f"what disturbs {tasks}", "without that", 1.0, undisturbed=named))
    talk = cluster.between_tasks
    if len(cluster.tasks) > 1 and replace(talk, name=PLAIN.name, source=PLAIN.source) != PLAIN:
        what = f"what {talk.name} adds to each message between tasks"
        busy.append(Relief(what, "without that", 0.0, wires_alone=True))
    return tuple(busy)


def undisturbed(disturbances: Sequence[Disturbance], relief: Relief, cluster: Cluster) -> tuple[Disturbance, ...]:
    """The disturbances that are left."""
    return without(disturbances, relief.undisturbed, cluster)


def _links(training: Training, cluster: Cluster) -> list[Relief]:
    """Links that carry the same kind of traffic together: what the tasks of a job send, or get, or have within."""
    groups: dict[tuple[object, ...], list[int]] = {}
    joins, beside = _ends(cluster)
    for link in (training.link_busy_ns > 0).nonzero()[0].tolist():
        groups.setdefault(_role(joins[link], cluster), []).append(link)
    found = []
    for members in groups.values():
        top = max(members, key=lambda link: (training.link_busy_ns[link], -link))
        most = int(training.link_busy_ns[top])
        members = [link for link in members if training.link_busy_ns[link] >= ALIKE * most]
        rates = {link: FASTER * cluster.links[link].bytes_per_s for link in members}
        for link in members:
            for other in beside[link]:
                rates[other] = max(rates.get(other, cluster.links[other].bytes_per_s), rates[link])
        share = most / max(1, training.end_ns)
        names = some([cluster.links[link].name for link in members], LISTED)
        what = f"the link{'s' * (len(members) > 1)} {names}"
        if _of_client_alone(joins[top], training, cluster):
            what += ", through which all that the client feeds and fetches passes"
        found.append(
            Relief(
                f"{what}, busy {_percent(share)} of the time",
                f"with twice {'their' if len(members) > 1 else 'its'} bandwidth",
                share,
                links=tuple(sorted(rates.items())),
            )
        )
    return found


def _devices(training: Training, cluster: Cluster) -> list[Relief]:
    """Devices of one type in the tasks of one job together."""
    groups: dict[tuple[str, str], list[int]] = {}
    shares = (training.device_busy_ns / max(1, training.end_ns) / training.device_lanes).tolist()
    for row, device in enumerate(cluster.devices):
        if shares[row] > 0:
            groups.setdefault((_job(device.task), device.type), []).append(row)
    found = []
    for (job, kind), members in groups.items():
        share = max(shares[row] for row in members)
        members = [row for row in members if shares[row] >= ALIKE * share]
        names = some([cluster.devices[row].short for row in members], LISTED)
        what = f"the {kind}{'s' * (len(members) > 1)} of {job} ({names}), busy {_percent(share)} of the time"
        found.append(Relief(what, "with ops twice as fast there", share, devices=tuple(members)))
    return found


def _ends(cluster: Cluster) -> tuple[list[tuple[set[int], set[int]]], list[set[int]]]:
    """[L] the devices that send and get over each link, and [L] the other links on its routes."""
    joins: list[tuple[set[int], set[int]]] = [(set(), set()) for _ in cluster.links]
    beside: list[set[int]] = [set() for _ in cluster.links]
    for source, row in enumerate(cluster.routes):
        for target, route in enumerate(row):
            for link in route or () if source != target else ():
                joins[link][0].add(source)
                joins[link][1].add(target)
                beside[link].update(route or ())
    return joins, [others - {link} for link, others in enumerate(beside)]


def _role(joined: tuple[set[int], set[int]], cluster: Cluster) -> tuple[object, ...]:
    """What a link does in the cluster: the same for links between alike tasks."""
    role: list[object] = []
    for devices in joined:
        tasks = {cluster.devices[row].task for row in devices}
        role += [tuple(sorted({_job(task) for task in tasks})) if len(tasks) == 1 else None]
        role += [len(tasks) == 1, len(devices) == 1 and cluster.devices[min(devices)].type]
    return tuple(role)


def _of_client_alone(joined: tuple[set[int], set[int]], training: Training, cluster: Cluster) -> bool:
    """Whether the link is that of the one client of a run, and most that crosses is what it feeds and fetches."""
    workers = training.is_worker.nonzero()[0].tolist()
    if len(workers) != 1 or len(training.partitions) <= workers[0]:
        return False
    own = training.tasks[int(training.client_task[workers[0]])]
    at_own = any({cluster.devices[row].task for row in devices} == {own} for devices in joined)
    return at_own and _mostly_handed(training.partitions[workers[0]])


def _mostly_handed(pieces: Partitions) -> bool:
    """Whether half of the bytes that cross, or more, come from the client or go to it."""
    graph, of_client = pieces.graph, pieces.endpoint >= 0
    read_by_client = np.zeros(len(graph), bool)
    read_by_client[graph.edge_src[of_client[graph.edge_dst]]] = True
    handed = of_client[graph.edge_src[graph.in_ptr[pieces.send]]] | read_by_client[pieces.recv]
    nbytes = np.maximum(pieces.nbytes, 0)
    return bool(2 * nbytes[handed].sum() >= nbytes.sum() > 0)


def _job(task: str) -> str:
    return short_task(task).partition(":")[0]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
