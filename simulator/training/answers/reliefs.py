"""Reliefs: changes of a run's cluster, costs, disturbances or programs that may make it faster, and its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.cluster.hierarchy import telling_pairs
from simulator.cluster.master import short_task
from simulator.cluster.protocols import GRPC, PLAIN, RDMA, Protocol
from simulator.columns import Flags, Ints, flags
from simulator.costs.table import CostTable
from simulator.graph.dataflow import readers
from simulator.graph.traversal import closure
from simulator.training.answers.answers import Answers
from simulator.training.disturbances.disturbance import Disturbance
from simulator.training.disturbances.disturbed import disturb, singled_out, slowed_costs, slower_devices
from simulator.training.inputs.pipeline import FEED
from simulator.training.recognition.sync_ops import ResourceKey
from simulator.training.regimes import read_regime
from simulator.training.training import SENDING, ResourceUsage, Training
from simulator.units import SECOND_NS, show_share
from simulator.wording import repr_of, some

if TYPE_CHECKING:
    from simulator.partitioning.partitions import Partitions


FASTER = 2  # how much faster a link or device is made
SIMILAR = 0.5  # of the busiest: links and devices busier than that belong to the same bottleneck
LISTED = 3
UNEVEN = 1.2  # times the mean load of a job's tasks: above it, spreading the variables anew is worth while
_PARTS = frozenset(("Split", "SplitV", "Slice", "StridedSlice", "Identity"))  # they part fed tensors for towers


@dataclass(frozen=True, slots=True)
class Relief:
    """A change of a run that relieves one bottleneck."""

    bottleneck: str  # "the link ps0 nic out, busy 93 % of the time"
    change: str  # "with twice its bandwidth"
    share: float  # of the run's time that the bottleneck takes: the change saves a part of it at most
    links: tuple[int, ...] = ()  # that have twice their bandwidth, also where a disturbance takes a part of it
    devices: tuple[int, ...] = ()  # whose ops take half as long
    without: tuple[str, ...] = ()  # texts of the disturbances that are gone
    backups: int = 0  # number of further backup workers: an update takes fewer gradients
    by_bytes: bool = False  # variables go to ps tasks by their sizes
    protocol: Protocol | None = None  # that tasks use instead
    gapless: bool = False  # sessions take no time between steps
    inputs: tuple[ResourceKey, ...] = ()  # inputs that are filled twice as fast

    def __repr__(self) -> str:
        return repr_of(self, self.bottleneck, self.change)


class Relieved(NamedTuple):
    """The cluster, costs and disturbances of a run with a relief."""

    cluster: Cluster
    costs: tuple[CostTable, ...]
    disturbances: tuple[Disturbance, ...]


def relieve(
    cluster: Cluster, costs: Sequence[CostTable], disturbances: Sequence[Disturbance], relief: Relief
) -> Relieved:
    """Apply a relief, except for changes of programs (backup workers, places of variables, time between steps) and of
    inputs.
    """
    if relief.links or relief.protocol is not None:
        links = list(cluster.links)
        for row in relief.links:
            links[row] = replace(links[row], bytes_per_s=FASTER * links[row].bytes_per_s)
        cluster = replace(cluster, links=tuple(links), between_tasks=relief.protocol or cluster.between_tasks)
    factors = [Fraction(1, FASTER) if row in relief.devices else Fraction(1) for row in range(len(cluster))]
    changed, faster = slower_devices(cluster, factors)
    left = [one for one in disturbances if one.text not in relief.without]
    return Relieved(changed, tuple(slowed_costs(one, faster) for one in costs), tuple(left))


def all_of(reliefs: Sequence[Relief]) -> Relief:
    """Several reliefs as one."""
    protocols = [relief.protocol for relief in reliefs if relief.protocol is not None]
    return Relief(
        bottleneck=_listed([relief.bottleneck for relief in reliefs]),
        change=_listed([relief.change for relief in reliefs]),
        share=max(relief.share for relief in reliefs),
        links=tuple(sorted({row for relief in reliefs for row in relief.links})),
        devices=tuple(sorted({row for relief in reliefs for row in relief.devices})),
        without=tuple(text for relief in reliefs for text in relief.without),
        backups=sum(relief.backups for relief in reliefs),
        by_bytes=any(relief.by_bytes for relief in reliefs),
        protocol=protocols[0] if protocols else None,
        gapless=any(relief.gapless for relief in reliefs),
        inputs=tuple(key for relief in reliefs for key in relief.inputs),
    )


def _listed(texts: Sequence[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]


# ---- the ends of links ----------------------------------------------------------------------------------------------
# All that is asked is whether it is one device, or one task. So of the rows on either side the first and the last are
# kept, and not all of them: a thousand workers have millions of routes, and each adapter is on most of one side's.


class Ends:
    """The devices at one end of each link. Axes: L links, D devices."""

    def __init__(self, task_of: Ints, links: int) -> None:
        """Nothing is at an end yet; `task_of` [D] is each device's task."""
        none = [[np.iinfo(np.int64).max], [-1]]
        self._task_of = task_of
        self._device, self._task = np.full((2, links), none), np.full((2, links), none)  # [2, L] first and last row

    def add(self, link: Ints, device: Ints) -> None:
        """These devices are at the ends of these links, too."""
        for known, rows in ((self._device, device), (self._task, self._task_of[device])):
            np.minimum.at(known[0], link, rows)
            np.maximum.at(known[1], link, rows)

    def device(self, link: int) -> int | None:
        """The only device; None: there are several, or none."""
        return _only(self._device[:, link])

    def task(self, link: int) -> int | None:
        """The only task of all devices; None: there are several, or none."""
        return _only(self._task[:, link])

    def of_task(self, task: int) -> list[int]:
        """The links with devices of this task alone."""
        found: list[int] = np.flatnonzero((self._task == task).all(axis=0)).tolist()
        return found


def _only(bounds: npt.NDArray[np.int64]) -> int | None:
    return int(bounds[0]) if bounds[0] == bounds[1] else None


class LinkEnds(NamedTuple):
    """Both ends of all links. Axis: L links."""

    senders: Ends
    receivers: Ends
    between: Flags  # [L] all its routes are between tasks


def ends_of_links(cluster: Cluster) -> LinkEnds:
    """The ends of each link, by routes over it: all, or as many of a Hierarchy as tell one end from several."""
    task_of, links = np.array(cluster.task_of, np.int64), len(cluster.links)
    senders, receivers, between = Ends(task_of, links), Ends(task_of, links), np.ones(links, bool)
    pairs = np.array(telling_pairs(cluster.routes), np.int64).reshape(-1, 2)
    crossed = [cluster.routes[source][target] or () for source, target in pairs.tolist()]
    source, target = np.repeat(pairs, [len(route) for route in crossed], axis=0).T
    link = np.fromiter(chain.from_iterable(crossed), np.int64, len(target))
    senders.add(link, source)
    receivers.add(link, target)
    between[link[task_of[target] == task_of[source]]] = False
    return LinkEnds(senders, receivers, flags(between))


# ---- candidates for a bottleneck ------------------------------------------------------------------------------------
# A serial link is busy with the bytes that cross it at its own rate, whatever else is on their way. So the busiest one
# is made faster by itself. Where both ends of a route are as busy, each is a candidate, and both help together.


def candidates(
    training: Training,
    cluster: Cluster,
    disturbances: Sequence[Disturbance] = (),
    known: Answers | None = None,
) -> tuple[Relief, ...]:
    """The candidates for a bottleneck, the likeliest first: by share of time, but disturbances come first.

    `known` are the answers of the run; without them shares are of the whole run, and steps wait neither for tokens nor
    for inputs. The busy time of a processor is that of ops and that of messages. Faster ops are credited with the
    former, the protocol with the latter, or with latency if that takes more.
    """
    gate_share, input_share = (0.0, 0.0) if known is None else (known.gate_share, known.input_share)
    usage = training.usage if known is None else known.usage
    traffic = _Traffic(training, disturb(disturbances, cluster).cluster, usage)
    found = [
        *_links(traffic), *_uneven(traffic), *_devices(traffic), *_protocol(traffic), *_between_steps(training),
    ]  # fmt: skip
    regime = read_regime(training.regime)
    if gate_share > 0 and regime is not None and regime.averages:
        found.append(
            Relief(
                f"waiting for the slowest, {show_share(gate_share)} of the workers' time",
                "with one more of the workers as backup",
                gate_share,
                backups=1,
            )
        )
    found += _inputs(training, input_share)
    found.sort(key=lambda relief: -relief.share)
    named = singled_out(disturbances, cluster)
    if named:
        what = some(list(dict.fromkeys(one.target for one in named)), LISTED)
        found.insert(0, Relief(f"what disturbs {what}", "without that", 1.0, without=tuple(one.text for one in named)))
    return tuple(found)


class _Traffic:
    """The traffic of a run, and the devices at both ends of each link. Axes: L links, D devices."""

    def __init__(self, training: Training, cluster: Cluster, usage: ResourceUsage) -> None:
        self.training, self.cluster, self.usage = training, cluster, usage
        self.end = max(1, self.usage.ns)
        self.senders, self.receivers, self.between = ends_of_links(cluster)
        rates = [link.bytes_per_s for link in cluster.links]
        carried = self.usage.link_bytes.tolist()
        self.bytes_ns = [nbytes * SECOND_NS // rate for nbytes, rate in zip(carried, rates, strict=True)]  # [L]

    def carried_ns(self, task: int, *, out: bool) -> int:
        """The time for its bytes of the busiest link through which only this task sends, or only this task receives."""
        own = (self.senders if out else self.receivers).of_task(task)
        return max((self.bytes_ns[link] for link in own if self.between[link]), default=0)

    def role(self, link: int) -> tuple[str, ...]:
        """The role of a link: the same for links between tasks of the same jobs, and for both directions."""
        role = []
        for ends in (self.senders, self.receivers):
            task, device = ends.task(link), ends.device(link)
            alone = "all" if device is None else self.cluster.devices[device].type
            role.append("" if task is None else f"{_job(self.cluster.tasks[task])} {alone}")
        return tuple(sorted(role))


def _links(traffic: _Traffic) -> list[Relief]:
    """Groups of links of one role: those through which the tasks of a job send and receive, or those within them."""
    busy_ns, cluster = traffic.usage.link_busy_ns, traffic.cluster
    groups: dict[tuple[str, ...], list[int]] = {}
    for link in (busy_ns > 0).nonzero()[0].tolist():
        groups.setdefault(traffic.role(link), []).append(link)
    found = []
    for members in groups.values():
        top = max(members, key=lambda link: (busy_ns[link], -link))
        most = int(busy_ns[top])
        members = [link for link in members if busy_ns[link] >= SIMILAR * most]
        several = len(members) > 1
        what = f"the link{'s' * several} {some([cluster.links[link].name for link in members], LISTED)}"
        if _of_client_alone(traffic.training, (traffic.senders.task(top), traffic.receivers.task(top))):
            what += ", which carries the client's feeds and fetches"
        found.append(
            Relief(
                f"{what}, busy {'up to ' * several}{show_share(most / traffic.end)} of the time",
                f"with twice {'their' if several else 'its'} bandwidth",
                max(traffic.bytes_ns[link] for link in members) / traffic.end,
                links=tuple(sorted(members)),
            )
        )
    return found


def _uneven(traffic: _Traffic) -> list[Relief]:
    """Jobs of several tasks without a worker, one of which carries much more than the mean in one direction.

    The share is the time saved if all carried the same.
    """
    training, cluster = traffic.training, traffic.cluster
    working = {cluster.tasks[row] for row in training.client_task[training.is_worker].tolist()}
    jobs: dict[str, list[str]] = {}
    for task in cluster.tasks:
        if task not in working:
            jobs.setdefault(_job(task), []).append(task)
    found = []
    for job, tasks in jobs.items():
        directions = [
            [traffic.carried_ns(cluster.tasks.index(task), out=out) for task in tasks] for out in (True, False)
        ]
        loads = max(directions, key=max)
        most, mean = max(loads), sum(loads) / len(loads)
        if most > UNEVEN * mean:
            busiest = f"{short_task(tasks[loads.index(most)])} carries {show_share(most / sum(loads))}"
            what = f"the uneven spread over {len(tasks)} tasks of {job} ({busiest})"
            change = "with the variables dealt out by bytes"
            found.append(Relief(what, change, (most - mean) / traffic.end, by_bytes=True))
    return found


def _devices(traffic: _Traffic) -> list[Relief]:
    """Groups of devices of one type in the tasks of one job."""
    training, cluster = traffic.training, traffic.cluster
    groups: dict[tuple[str, str], list[int]] = {}
    lanes = traffic.end * training.device_lanes.astype(float)
    busy = (traffic.usage.device_busy_ns / lanes).tolist()
    ops = ((traffic.usage.device_busy_ns - traffic.usage.message_ns) / lanes).tolist()
    for row, device in enumerate(cluster.devices):
        if ops[row] > 0:
            groups.setdefault((_job(device.task), device.type), []).append(row)
    found = []
    for (job, kind), members in groups.items():
        share = max(ops[row] for row in members)
        members = [row for row in members if ops[row] >= SIMILAR * share]
        several = len(members) > 1
        names = some([cluster.devices[row].short for row in members], LISTED)
        up_to = f"{'up to ' * several}{show_share(max(busy[row] for row in members))}"
        what = f"the {kind}{'s' * several} of {job} ({names}), busy {up_to} of the time"
        found.append(
            Relief(what, f"with {'their' if several else 'its'} ops twice as fast", share, devices=tuple(members))
        )
    return found


def _protocol(traffic: _Traffic) -> list[Relief]:
    """The costs of the protocol between tasks: work of processors, and latency.

    Latency is the time in which a task waits for transfers and does nothing else, less the busy time of the busiest
    link. The relief of gRPC is RDMA; that of another protocol is none at all: bare links.
    """
    cluster, protocol = traffic.cluster, traffic.cluster.between_tasks
    if len(cluster.tasks) == 1 or replace(protocol, name=PLAIN.name, source=PLAIN.source) == PLAIN:
        return []
    busy = traffic.usage.link_busy_ns[np.array(traffic.between, bool)].max(initial=0)
    latency = int(traffic.usage.task_ns[:, SENDING].max(initial=0) - busy)
    share = min(1.0, max(latency, *traffic.usage.message_ns.tolist()) / traffic.end)
    instead, change = (RDMA, "with RDMA instead") if protocol == GRPC else (PLAIN, "without that")
    return [Relief(f"what {protocol.name} adds to each message between tasks", change, share, protocol=instead)]


def _between_steps(training: Training) -> list[Relief]:
    """The time that sessions take between steps, of the worker that spends most on it.

    It counts the shortest time from the end of one of its steps to the beginning of the next, once per step. The whole
    lasts from the first beginning to the last. A longer time between steps has another cause, such as a crash.
    """
    share = 0.0
    for client in np.flatnonzero(training.is_worker).tolist():
        own = np.flatnonzero(training.step_client == client)
        begun, ended = training.step_start_ns[own], training.step_end_ns[own]
        span = int(begun[-1] - begun[0]) if len(own) > 1 else 0
        if span > 0:
            share = max(share, int((begun[1:] - ended[:-1]).min()) * (len(own) - 1) / span)
    what = f"what sessions take between steps, {show_share(share)} of the time"
    return [Relief(what, "without that", share, gapless=True)] if share > 0 else []


def _inputs(training: Training, input_share: float) -> list[Relief]:
    """Groups of inputs of one name, such as each worker's own, by the share of a step that waits for them."""
    groups: dict[tuple[str, str], list[int]] = {}
    for row, one in enumerate(training.inputs):
        groups.setdefault((one.key.family, one.key.name if one.key.family != FEED else ""), []).append(row)
    total = max(1, int(training.input_ns.sum()))
    found = []
    for rows in groups.values():
        share = input_share * int(training.input_ns[rows].sum()) / total
        if not share:
            continue
        slowest = min((training.inputs[row] for row in rows), key=lambda one: one.producer.elements_per_s)
        tasks = dict.fromkeys(training.devices[training.inputs[row].device] for row in rows)
        several = len(rows) > 1
        whose = some([short_task(device.partition("/device:")[0]) for device in tasks], LISTED)
        what = (
            f"the input pipeline{'s' * several} of {whose} ({slowest.words}), waited for {show_share(share)} of a step"
        )
        keys = tuple(training.inputs[row].key for row in rows)
        found.append(Relief(what, f"with twice {'their' if several else 'its'} rate", share, inputs=keys))
    return found


def _job(task: str) -> str:
    return short_task(task).partition(":")[0]


def _of_client_alone(training: Training, ends: Sequence[int | None]) -> bool:
    """Tell whether a link is that of a run's only client, and carries mostly bytes that the client feeds and fetches.

    `ends` are the only task that sends through the link, and the only one that receives through it; None: several do.
    """
    workers = training.is_worker.nonzero()[0].tolist()
    if len(workers) != 1 or len(training.partitions) <= workers[0]:
        return False
    own = int(training.client_task[workers[0]])
    return own in ends and _mostly_handed(training.partitions[workers[0]])


def _mostly_handed(pieces: Partitions) -> bool:
    """Tell whether at least half of the transferred bytes come from the client, perhaps in parts, or go to it."""
    graph, of_client = pieces.graph, pieces.endpoint >= 0
    read_by_client = np.zeros(len(graph), bool)
    read_by_client[graph.edge_src[of_client[graph.edge_dst]]] = True
    fed = np.zeros(len(graph), bool)
    begins = of_client.nonzero()[0].tolist()
    fed[list(closure(begins, lambda row: [one for one in readers(graph, row) if graph.ops[one] in _PARTS]))] = True
    handed = fed[graph.edge_src[graph.in_ptr[pieces.send]]] | read_by_client[pieces.recv]
    nbytes = np.maximum(pieces.nbytes, 0)
    return bool(2 * nbytes[handed].sum() >= nbytes.sum() > 0)
