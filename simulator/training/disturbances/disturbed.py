"""Disturbances applied to a cluster: slower devices and links before the run, columns of events during it.

Of several disturbances of one kind the one with the most exact target holds. A device comes before its task, a task
before its job, a job before all. Two that are equally exact are refused, except crashes and traffic, which add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.cluster.master import short_task
from simulator.columns import Ids, Ints, ids, ints
from simulator.costs.table import CostTable, scaled_ns
from simulator.errors import ClusterError, SimvizError
from simulator.training.disturbances.disturbance import (
    OF_LINKS,
    Crash,
    Degrade,
    Disturbance,
    Late,
    Noise,
    Slow,
    Traffic,
    Upsets,
    table,
)
from simulator.training.disturbances.noise import NO_PAUSE, QUANTILES, Pauses
from simulator.units import SECOND_NS, Bytes, Nanos, show_nanos
from simulator.wording import counted, near, repr_of, some

ALL, JOB, TASK, DEVICE = range(4)  # how exactly a target is named
_Row = TypeVar("_Row")
Slower: TypeAlias = Mapping[str, tuple[str, Fraction]]  # a kind of devices -> the kind that it was, how much slower


class Sender(NamedTuple):
    """Background traffic between two devices."""

    source: int
    target: int
    nbytes: Bytes  # of one message
    period_ns: Nanos  # from one message to the next, rounded up


@dataclass(frozen=True, eq=False)
class Disturbed:
    """The disturbances of a run. Axes: K tasks, F tables of noise."""

    cluster: Cluster  # links degraded; slower devices are of kinds of their own, for which `slowed_costs` makes costs
    slower: Slower  # these kinds
    up_ns: Ints  # [K] the task comes up
    noise: Ints  # [F, QUANTILES] factors in 2^16 fixed point
    noise_of: Ids  # [K] row of `noise`, -1: none
    pauses: tuple[Pauses, ...]  # [K] `NO_PAUSE`: never
    crashes: tuple[tuple[int, Crash], ...]  # with their tasks, in order of (time, task)
    senders: tuple[Sender, ...]

    @property
    def crash_tasks(self) -> Ids:
        """The task of each crash."""
        return ids([task for task, _ in self.crashes])

    def __repr__(self) -> str:
        crashes, senders = len(self.crashes), len(self.senders)
        return repr_of(self, self.cluster.name, counted(crashes, "crash event"), counted(senders, "background sender"))


def disturb(disturbances: Sequence[Disturbance], cluster: Cluster) -> Disturbed:
    """Apply the disturbances to the cluster.

    Raises ClusterError for a task, device or link that the cluster lacks. Raises SimvizError for two of a kind on one
    target and for a task that crashes before it is restored.
    """
    tasks = len(cluster.tasks)
    pauses = _per_row(disturbances, cluster, Pauses, tasks)
    late = _per_row(disturbances, cluster, Late, tasks)
    noises = _per_row(disturbances, cluster, Noise, tasks)
    different = list(dict.fromkeys(one for one in noises if one is not None))
    traffic = [(*_ends(one, cluster), one.effect) for one in disturbances if isinstance(one.effect, Traffic)]
    factors = [
        Fraction(1) if one is None else one.factor for one in _per_row(disturbances, cluster, Slow, len(cluster))
    ]
    shaken, slower = slower_devices(degraded(disturbances, cluster), factors)
    return Disturbed(
        cluster=shaken,
        slower=slower,
        up_ns=ints([one.up_ns if one else 0 for one in late]),
        noise=ints(np.array([table(one) for one in different], np.int64).reshape(len(different), QUANTILES)),
        noise_of=ids([-1 if one is None else different.index(one) for one in noises]),
        pauses=tuple(one or NO_PAUSE for one in pauses),
        crashes=tuple(_crashes(disturbances, cluster)),
        senders=tuple(
            Sender(source, target, one.nbytes, -(-one.nbytes * SECOND_NS // one.bytes_per_s))
            for source, target, one in traffic
        ),
    )


def degraded(disturbances: Sequence[Disturbance], cluster: Cluster) -> Cluster:
    """The cluster with degraded links; of several factors on one link the largest holds."""
    if not any(isinstance(one.effect, Degrade) for one in disturbances):
        return cluster
    factor = [Fraction(1)] * len(cluster.links)
    hit = [False] * len(cluster.links)
    for one in disturbances:
        if isinstance(one.effect, Degrade):
            for link in links_of(one, cluster):
                factor[link] = max(factor[link], one.effect.factor) if hit[link] else one.effect.factor
                hit[link] = True
    links = [
        replace(link, bytes_per_s=max(1, link.bytes_per_s * by.denominator // by.numerator)) if by != 1 else link
        for link, by in zip(cluster.links, factor, strict=True)
    ]
    return replace(cluster, links=tuple(links))


def upsets_of(disturbed: Disturbed) -> Upsets:
    """The disturbances that make one time of a run unlike another. Late tasks come up before the run begins."""
    there = [pause for pause in disturbed.pauses if pause.length_ns]
    once = [(one.phase_ns, one.phase_ns + one.length_ns) for one in there if not one.period_ns]
    once += [(one.at_ns, one.back_ns) for _, one in disturbed.crashes]
    return Upsets(
        chance=bool((disturbed.noise_of >= 0).any()),
        once_ns=tuple(sorted(once)),
        periods_ns=tuple(sorted({one.period_ns for one in there if one.period_ns})),
    )


def slowed_costs(costs: CostTable, slower: Slower) -> CostTable:
    """The costs with a column for each kind of slower devices: exact multiples, rounded up.

    Raises ClusterError for costs that are not of these devices.
    """
    columns, kept = [costs.run_ns], list(range(len(costs.kinds)))
    for old, factor in slower.values():
        if old not in costs.kinds:
            raise ClusterError(f"The cost table has no column for {old!r}; estimate costs for this cluster.")
        kept.append(costs.kinds.index(old))
        columns.append(scaled_ns(costs.run_ns[:, kept[-1]], factor.numerator, factor.denominator)[:, None])
    run_ns = np.concatenate(columns, axis=1)
    run_ns.setflags(write=False)
    errors = costs.errors and replace(costs.errors, relative=costs.errors.relative[:, kept])
    kinds = (*costs.kinds, *slower)
    return replace(costs, kinds=kinds, run_ns=run_ns, errors=errors, kind_source=costs.sources[:, kept])


def singled_out(disturbances: Sequence[Disturbance], cluster: Cluster) -> tuple[Disturbance, ...]:
    """The disturbances on links, on one task or on one device, not those on a whole job or on all."""
    return tuple(one for one in disturbances if isinstance(one.effect, OF_LINKS) or _devices(one, cluster)[0] >= TASK)


def present(disturbances: Sequence[Disturbance], cluster: Cluster) -> tuple[Disturbance, ...]:
    """The disturbances whose target exists, in a cluster with fewer workers than they were written for."""
    found = []
    for one in disturbances:
        try:
            links_of(one, cluster) if isinstance(one.effect, OF_LINKS) else _devices(one, cluster)
        except ClusterError:
            continue  # a worker that does not exist is not disturbed
        found.append(one)
    return tuple(found)


def _devices(one: Disturbance, cluster: Cluster) -> tuple[int, list[int]]:
    """The exactness of a target, from ALL to DEVICE, and its devices."""
    target = one.target
    if target == "*":
        return ALL, list(range(len(cluster)))
    short = [short_task(task) for task in cluster.tasks]
    job, colon, number = target.partition(":")
    if colon and number == "*" and any(name.startswith(f"{job}:") for name in short):
        return JOB, [row for row, task in enumerate(cluster.task_of) if short[task].startswith(f"{job}:")]
    if target in short:
        return TASK, [row for row, task in enumerate(cluster.task_of) if short[task] == target]
    found = [row for row, device in enumerate(cluster.devices) if target in (device.short, device.name)]
    if not found:
        raise _unknown(one, target, "task", short, near(target, [*short, *(d.short for d in cluster.devices)]))
    if not isinstance(one.effect, Slow):
        raise ClusterError(f"{one.text!r}: only a whole task can have this, {target.partition('/')[0]!r}")
    return DEVICE, found


def _per_row(disturbances: Sequence[Disturbance], cluster: Cluster, kind: type[_Row], count: int) -> list[_Row | None]:
    """The effect of one kind on each task or, where there are as many rows as devices and it is Slow, each device."""
    effect: list[_Row | None] = [None] * count
    by: list[tuple[int, Disturbance | None]] = [(-1, None)] * count
    for one in disturbances:
        if isinstance(one.effect, kind):
            exact, devices = _devices(one, cluster)
            rows = devices if kind is Slow else sorted({cluster.task_of[device] for device in devices})
            for row in rows:
                other = by[row][1]
                if exact == by[row][0] and other is not None:
                    raise SimvizError(f"{one.text!r} and {other.text!r} disturb the same in the same way; give one")
                if exact > by[row][0]:
                    effect[row], by[row] = one.effect, (exact, one)
    return effect


def _crashes(disturbances: Sequence[Disturbance], cluster: Cluster) -> list[tuple[int, Crash]]:
    """Task and crash in order of (time, task)."""
    found = [
        (task, one.effect)
        for one in disturbances
        if isinstance(one.effect, Crash)
        for task in sorted({cluster.task_of[device] for device in _devices(one, cluster)[1]})
    ]
    found.sort(key=lambda entry: (entry[1].at_ns, entry[0]))
    for task in {task for task, _ in found}:
        for before, after in pairwise([crash for row, crash in found if row == task]):
            if after.at_ns < before.back_ns:
                raise SimvizError(
                    f"{short_task(cluster.tasks[task])} crashes at {show_nanos(after.at_ns)}, before it is back from "
                    f"its crash at {show_nanos(before.at_ns)}, at {show_nanos(before.back_ns)}; let it come later"
                )
    return found


def slower_devices(cluster: Cluster, factors: Sequence[Fraction]) -> tuple[Cluster, Slower]:
    """The cluster with devices of other kinds where ops take that many times as long ([D]), and these kinds.

    The devices' figures stay, as `slowed_costs` changes the costs alone. A cluster that does not change is returned as
    it is.
    """
    if all(factor == 1 for factor in factors):
        return cluster, {}
    slower: dict[str, tuple[str, Fraction]] = {}
    devices = []
    for device, factor in zip(cluster.devices, factors, strict=True):
        kind = device.kind
        if factor != 1:
            kind = f"{device.kind} taking {factor} times as long"
            slower[kind] = (device.kind, factor)
        devices.append(replace(device, kind=kind))
    return replace(cluster, devices=tuple(devices)), slower


def links_of(one: Disturbance, cluster: Cluster) -> Sequence[int]:
    """The links of a name, or those between two tasks or devices. Raises ClusterError for no links."""
    names = [link.name for link in cluster.links]
    if one.target in names:
        return [row for row, name in enumerate(names) if name == one.target]
    if "->" not in one.target:
        raise _unknown(one, one.target, "link", names, near(one.target, names))
    source, target = _ends(one, cluster)
    return cluster.routes[source][target] or ()


def _ends(one: Disturbance, cluster: Cluster) -> tuple[int, int]:
    """The devices at the two ends of a target; for a task its host CPU, else its first device."""
    texts = [text.strip() for text in one.target.split("->")]
    if len(texts) != 2:
        raise ClusterError(f"{one.text!r}: {one.target!r} is no pair of ends; write link:ps:0->worker:3")
    places = {device.short: row for row, device in enumerate(cluster.devices)}
    for row, task in reversed(list(enumerate(cluster.task_of))):
        places[short_task(cluster.tasks[task])] = int(cluster.home[row])
    for text in texts:
        if text not in places:
            tasks = [short_task(task) for task in cluster.tasks]
            raise _unknown(one, text, "task or device", tasks, near(text, list(places)))
    source, target = places[texts[0]], places[texts[1]]
    if not cluster.routes[source][target]:
        pairs = [link.name for link in cluster.links]
        raise ClusterError(f"{one.text!r}: no link leads from {texts[0]} to {texts[1]}; the links are {some(pairs)}")
    return source, target


def _unknown(one: Disturbance, name: str, what: str, known: Sequence[str], proposal: str) -> ClusterError:
    return ClusterError(f"{one.text!r}: the cluster has no {what} {name!r}; it has {some(known)}.{proposal}")
