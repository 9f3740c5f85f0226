"""A cluster with one figure of its description multiplied: of links of a kind, or of devices of a kind.

Equal figures of one kind change together: all NICs of 25 Gbit/s, both directions of each, or all A100. A description
gives such a figure once, so whoever changes it there gets the same cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from math import ceil

from simulator.cluster.cluster import MAX_RATE, Cluster, Device, Link
from simulator.cluster.peaks import Peaks
from simulator.cluster.protocols import MAX_LATENCY_NS
from simulator.units import show_figure, show_nanos, show_rate


@dataclass(frozen=True, slots=True)
class Scaled:
    """A cluster with one figure multiplied."""

    what: str  # "nic bandwidth"
    before: str  # "3.12 GB/s"
    after: str  # "6.25 GB/s"
    cluster: Cluster


def scaled(cluster: Cluster, factor: Fraction) -> Iterator[Scaled]:
    """For each figure of the cluster, the cluster with that figure times `factor`, in whole units, rounded up.

    Of links: bandwidth and latency, in the order of the links. Of devices, by their model: the arithmetic in all
    number formats, the bandwidth of memory, and the time to start an op. That is the dispatch by a GPU's host, with
    which the launch of kernels changes, or the launch of a device without a chip. CPUs that share a host change with
    their model. A figure that stays as it is, such as a latency of 0, is left out. A bandwidth or latency ends at the
    largest that a link may have.
    """
    for what, value, change, shown in _OF_LINKS:
        groups: dict[tuple[str, int], list[int]] = {}
        for row, link in enumerate(cluster.links):
            groups.setdefault((link.kind or link.name, value(link)), []).append(row)
        for (kind, before), rows in groups.items():
            links = list(cluster.links)
            for row in rows:
                links[row] = change(links[row], factor)
            after = value(links[rows[0]])
            if after != before:
                yield Scaled(f"{kind} {what}", shown(before), shown(after), replace(cluster, links=tuple(links)))
    for what, changed, said in _OF_DEVICES:
        for kind in dict.fromkeys(_described(device).kind for device in cluster.devices):
            devices = [
                _changed(one, changed, factor) if _described(one).kind == kind else one for one in cluster.devices
            ]
            first = next(one for one in map(_described, cluster.devices) if one.kind == kind)
            after_it = changed(first, factor)
            if after_it != first:
                yield Scaled(f"{kind} {what}", said(first), said(after_it), replace(cluster, devices=tuple(devices)))


def _described(device: Device) -> Device:
    """The device of the description, of which it may be a part: a CPU that shares a host."""
    return device.whole or device


def _changed(device: Device, change: Callable[[Device, Fraction], Device], factor: Fraction) -> Device:
    """The device with a figure of its description multiplied."""
    whole = change(_described(device), factor)
    return whole.share(device.parts)


def _times(value: int, factor: Fraction) -> int:
    return ceil(value * factor)


def _bandwidth(link: Link, factor: Fraction) -> Link:
    return replace(link, bytes_per_s=min(MAX_RATE, _times(link.bytes_per_s, factor)))


def _latency(link: Link, factor: Fraction) -> Link:
    return replace(link, latency_ns=min(MAX_LATENCY_NS, _times(link.latency_ns, factor)))


def _compute(device: Device, factor: Fraction) -> Device:
    peaks = Peaks(*[_times(speed, factor) for speed in astuple(device.peaks)])
    return replace(device, flop_per_s=_times(device.flop_per_s, factor), peaks=peaks)


def _memory(device: Device, factor: Fraction) -> Device:
    return replace(device, bytes_per_s=_times(device.bytes_per_s, factor))


def _dispatch(device: Device, factor: Fraction) -> Device:
    if device.chip is None:
        return device
    chip = replace(device.chip, own_dispatch_ns=_times(device.chip.dispatch_ns, factor))
    return replace(device, launch_ns=_times(device.launch_ns, factor), chip=chip)


def _launch(device: Device, factor: Fraction) -> Device:
    if device.chip is not None:
        return device
    return replace(device, launch_ns=_times(device.launch_ns, factor))


_OF_LINKS: tuple[
    tuple[str, Callable[[Link], int], Callable[[Link, Fraction], Link], Callable[[int], str]], ...
] = (
    ("bandwidth", lambda link: link.bytes_per_s, _bandwidth, show_rate),
    ("latency", lambda link: link.latency_ns, _latency, show_nanos),
)  # fmt: skip
_OF_DEVICES: tuple[tuple[str, Callable[[Device, Fraction], Device], Callable[[Device], str]], ...] = (
    ("compute", _compute, lambda device: f"{show_figure(device.flop_per_s / 10**12)} TFLOP/s"),
    ("memory bandwidth", _memory, lambda device: show_rate(device.bytes_per_s)),
    ("dispatch", _dispatch, lambda device: "" if device.chip is None else show_nanos(device.chip.dispatch_ns)),
    ("launch", _launch, lambda device: show_nanos(device.launch_ns)),
)
