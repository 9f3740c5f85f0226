"""What devices hold, in numbers: what is alive at each peak, and what late Recvs change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.execution.memory import KINDS, Live, at_peak
from simulator.execution.receiving import copies_held
from viz.scene import Scene


@dataclass(frozen=True, slots=True)
class PeakRow:
    """What one device held when it held most; the bytes of `kinds` add up to the peak, so do `live` and the rest."""

    device: int
    time_ns: int
    peak_bytes: int
    cause: str  # "" where nothing but what is resident is held
    cause_bytes: int
    kinds: Mapping[str, int]  # bytes of each of memory.KINDS that there is
    live: Sequence[Live]  # the largest, in that order
    rest: int  # how many more there are
    rest_bytes: int


@dataclass(frozen=True, slots=True)
class LateRow:
    """What delaying Recvs has changed."""

    rule: str  # "whitepaper" or "tensorflow"
    delayed: int  # Recvs
    transfers: int
    makespan_ns: tuple[int, int]  # without it, and with it
    held_byte_ns: tuple[int, int]  # what received copies hold, summed over the step
    peak_bytes: Sequence[tuple[int, int]]  # by device


def peaks(scene: Scene, count: int = 10) -> list[PeakRow]:
    """What is alive at the peak of each device that holds any, in the cluster's order; the `count` largest of each."""
    rows = []
    for device in np.flatnonzero(scene.trace.peak_bytes > 0).tolist():
        peak = at_peak(scene.trace, scene.partitions, device)
        kinds: Counter[str] = Counter()
        for one in peak.live:
            kinds[one.kind] += one.nbytes
        shown, rest = peak.live[:count], peak.live[count:]
        left = sum(one.nbytes for one in rest)
        held = {kind: kinds[kind] for kind in KINDS if kinds[kind]}
        rows.append(
            PeakRow(device, peak.time_ns, peak.nbytes, peak.cause, peak.cause_bytes, held, shown, len(rest), left)
        )
    return rows


def late(scene: Scene) -> LateRow | None:
    """What delaying Recvs has changed; None where none was to be delayed."""
    found = scene.received
    if found is None:
        return None
    peaks = zip(found.without.peak_bytes.tolist(), found.trace.peak_bytes.tolist(), strict=True)
    return LateRow(
        rule=found.rule,
        delayed=len(found.delayed),
        transfers=len(found.partitions.send),
        makespan_ns=(found.without.makespan, found.trace.makespan),
        held_byte_ns=(copies_held(found.without), copies_held(found.trace)),
        peak_bytes=list(peaks),
    )
