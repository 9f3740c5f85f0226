"""A change of a run's cluster, costs, disturbances or programs that may make it faster, and the run with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from simulator.cluster.cluster import Cluster
from simulator.cluster.protocols import Protocol
from simulator.costs.table import CostTable
from simulator.training.crew.resources import Key
from simulator.training.disturbances.disturbance import Disturbance
from simulator.training.disturbances.disturbing import slowed, slower_devices

FASTER = 2  # how much faster a link or device is made


@dataclass(frozen=True, slots=True)
class Relief:
    """A change of a run, and of what."""

    bottleneck: str  # "the link ps0 nic out, busy 93 % of the time"
    change: str  # "with twice its bandwidth"
    share: float  # of the run's time that goes to it: what the change can save a part of
    links: tuple[tuple[int, int], ...] = ()  # link -> its new bytes per second
    devices: tuple[int, ...] = ()  # whose ops take half as long
    without: tuple[str, ...] = ()  # texts of the disturbances that are gone
    backups: int = 0  # so many more workers are backup: an update takes fewer gradients
    by_bytes: bool = False  # variables go to ps tasks by their sizes
    protocol: Protocol | None = None  # by which tasks talk instead
    gapless: bool = False  # sessions take no time between steps
    inputs: tuple[Key, ...] = ()  # which inputs are filled twice as fast


class Relieved(NamedTuple):
    """What a run is made from, with one thing relieved."""

    cluster: Cluster
    costs: tuple[CostTable, ...]
    disturbances: tuple[Disturbance, ...]


def relieve(
    cluster: Cluster, costs: Sequence[CostTable], disturbances: Sequence[Disturbance], relief: Relief
) -> Relieved:
    """Make that change, except for what takes other programs (backup workers, where variables stand, time between
    steps) or inputs.
    """
    links = list(cluster.links)
    for row, bytes_per_s in relief.links:
        links[row] = replace(links[row], bytes_per_s=bytes_per_s)
    factors = [Fraction(1, FASTER) if row in relief.devices else Fraction(1) for row in range(len(cluster))]
    protocol = relief.protocol or cluster.between_tasks
    changed, faster = slower_devices(replace(cluster, links=tuple(links), between_tasks=protocol), factors)
    left = [one for one in disturbances if one.text not in relief.without]
    return Relieved(changed, tuple(slowed(one, faster) for one in costs), tuple(left))


def all_of(reliefs: Sequence[Relief]) -> Relief:
    """Several changes at once."""
    links: dict[int, int] = {}
    for relief in reliefs:
        for link, rate in relief.links:
            links[link] = max(rate, links.get(link, 0))
    protocols = [relief.protocol for relief in reliefs if relief.protocol is not None]
    return Relief(
        bottleneck=_listed([relief.bottleneck for relief in reliefs]),
        change=_listed([relief.change for relief in reliefs]),
        share=max(relief.share for relief in reliefs),
        links=tuple(sorted(links.items())),
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
