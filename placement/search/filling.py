"""Placements for little memory: stretches of an order that fill devices, and large weights beside, on a processor.

    GPU:0 ████████▌   CPU:0 ██   GPU:1 ███████▊   GPU:2 ████████▏      what takes least, as a chain, with its cuts
    CPU:0 weights that are waited for so late that a processor is fast enough for them

A model that is a chain loses time at each cut alone. So it wants the fewest devices that hold it, full ones, where
`starts.cuts` gives each device its share. Where cuts are dearer than work, a stretch is better on the processor. The
way there is half of the way to another device, and there is room. An embedding of a decoder is waited for when the
encoder is done. A processor holds it at no cost until then, and perhaps one device less is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import numpy.typing as npt

from placement.scheduling.ranks import longest_paths
from placement.search.decisions import Decisions, fastest, wire_times
from placement.search.order_cuts import best_chain, crossing_of, ground, held_by, placed, speeds_of
from placement.search.reach import working
from simulator.columns import Flags, Ints
from simulator.units import PS_PER_NS, Bytes

_LARGE = 100  # weights are large that need such a part of a device's memory
_ROOMS = (
    1.0,
    1.05,
    1.12,
    1.25,
)  # as if a step needed so many times its peak, as a stretch may need more than its share


def filled(decisions: Decisions, base: npt.ArrayLike, peak_bytes: Bytes) -> Iterator[Ints]:
    """Devices [G] of cuts by memory, different ones; a group keeps its device of `base` [G] where it must.

    Cuts with large weights on the processor come first. Memory is counted with outputs and without them. Most outputs
    are freed before others are made. So they are also scaled to the `peak_bytes` of a step on one device, or more.
    """
    problem, speeds, seen = decisions.problem, speeds_of(decisions), set()
    busy = sorted(working(problem), key=lambda device: -speeds[device])
    home = problem.home[busy[0]]
    capacity, there = np.array(problem.capacity, np.float64)[busy], np.array(busy, np.int64)
    to_home_ns = wire_times(problem, there, np.full(len(busy), home))
    late, held = waited_late(decisions), held_by(decisions)
    scaled = held * (peak_bytes / max(float(held.sum()), 1.0))
    weights = (*(scaled * room for room in _ROOMS), held, decisions.resident.astype(np.float64))
    cuts = []
    for beside in (late, np.zeros(len(late), bool)) if late.any() else (late,):
        around = np.array(base, np.int64)
        around[decisions.free[beside]] = home
        for order in (every[~beside[every]] for every in decisions.orders):
            if len(order):
                crossing, homewards = (crossing_of(decisions, order, ns) for ns in (decisions.wire_ns, to_home_ns))
                cuts.append((ground(decisions, around), order, crossing, homewards))
    for weight, (own, order, crossing, homewards) in product(weights, cuts):
        work_ns = decisions.run_ns[order][:, [*busy, home]]
        stretch = best_chain(crossing, homewards, weight[order], capacity, work_ns)
        if stretch is None:
            continue  # no cut of this order fits
        device = placed(decisions, own, order, stretch, [*busy, home])
        if device.tobytes() not in seen:
            seen.add(device.tobytes())
            yield device


def waited_late(decisions: Decisions) -> Flags:
    """[M] groups with large weights that may be late by as much as the processor of the first device is slower.

    A group may be late by what all paths through it lack to the longest path, each op on its fastest device. It is
    slower by the time of its ops and of its values. Where processors do the work there are none.
    """
    problem, busy = decisions.problem, working(decisions.problem)
    home = problem.home[busy[0]]
    if home in busy or not len(decisions.free):
        return np.zeros(len(decisions.free), bool)
    through_ns = longest_paths(problem, fastest(problem)) / PS_PER_NS
    row = decisions.row[decisions.group]
    longest_ns = np.zeros(len(decisions.free))
    np.maximum.at(longest_ns, row[row >= 0], through_ns[row >= 0])
    there_ns = problem.tables.kind_ns[decisions.ops, problem.tables.kind[home]].clip(0).astype(np.float64)
    slower_ns = np.add.reduceat(there_ns, decisions.first[:-1]) - decisions.work_ns
    for end in (0, 1):
        np.add.at(slower_ns, decisions.pair[:, end], decisions.pair_ns)
    large = decisions.resident * _LARGE >= min(problem.capacity[device] for device in busy)
    found: Flags = large & decisions.allowed[:, home] & (slower_ns <= through_ns.max() - longest_ns)
    return found
