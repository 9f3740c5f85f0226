"""Stretches of trainings on a real cluster, and what one worker says of the machine before and after each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from training_cluster import Asking, Window

from simulator.training.answers.steady_state import rate
from tests.oracle.real_cluster import RealClient
from tests.oracle.simulating import Machine, simulate
from tests.oracle.training_graphs import Training

ENOUGH_S = 200.0  # then no further round begins, if more than half are done
UPDATES = 24  # in a window of a row
IDLE, ASLEEP, ALONE_S, TRIPS = 40, 8, 0.06, 4  # steps of the worker that nobody disturbs
UNCHANGED = 1.5  # by what factor its step may change
PROBES = {
    "idle": Training("async", sleeps_s=(0.0,)),
    "back and forth": Training("async", sleeps_s=(0.0,), trips=TRIPS),
    "asleep": Training("async", sleeps_s=(ALONE_S,), clocked=True),
}


@dataclass(frozen=True)
class Stretch:
    """A window of a training, and what the machine was like before and after it."""

    window: Window
    idle: tuple[Window, Window]
    trips: tuple[Window, Window]
    asleep: tuple[Window, Window]

    def disturbed(self, calm: float) -> str:
        """By what; "" if it was not."""
        others = max(one.others for one in (self.window, *self.idle, *self.trips, *self.asleep))
        if others > calm:
            return f"others took up to {others:.0%} of the cores"
        before, after = (statistics.median(_lengths(one)) for one in self.idle)
        if max(before, after) > UNCHANGED * min(before, after):
            return f"a step without work went from {before / 1e3:.0f} to {after / 1e3:.0f} us"
        return ""


def stretches(names: Sequence[str], rounds: int, ask: Asking) -> dict[str, list[Stretch]]:
    """Windows of all, in turn; what comes after one is what was before the next."""
    found: dict[str, list[Stretch]] = {name: [] for name in names}
    before, began = _probed(ask), time.monotonic()
    for made in range(rounds):
        if made > rounds // 2 and time.monotonic() > began + ENOUGH_S:
            break
        for name in names:
            window = ask(name, UPDATES)
            after = _probed(ask)
            found[name].append(Stretch(window, *zip(before, after, strict=True)))
            before = after
    return found


def _probed(ask: Asking) -> tuple[Window, Window, Window]:
    return ask("idle", IDLE), ask("back and forth", IDLE), ask("asleep", ASLEEP)


def calibrated(kept: Sequence[Stretch], idle: Sequence[RealClient]) -> Machine:
    """The median steps of one worker: what more hops take gives a hop, sleep a sleep.

    After a sleep all is slower, as caches and cores have gone to sleep, too. So what lies between two steps is taken
    from the steps that sleep: from the count of one to the read of the next, by the clock of the task that has the
    variables, less the hop with which the client hears of the count. What is left of a step is taken to be sleep.
    How steps differ is counted within each window, as the machine's drift from one to another is that of all workers.
    """
    probes = ([one.idle for one in kept], [one.trips for one in kept], [one.asleep for one in kept])
    lengths = [[ns for around in probe for window in around for ns in _lengths(window)] for probe in probes]
    at_0, at_trips, at_60 = (statistics.median(one) for one in lengths)
    hop_ns = max(0, round((at_trips - at_0) / (2 * TRIPS)))
    between = [ns for around in probes[2] for window in around for ns in _between(window)]
    gap_ns = max(0, round(statistics.median(between) - hop_ns))
    oversleep_ns = max(0, round(at_60 - 1e9 * ALONE_S - _idle_ns(idle, Machine(hop_ns)) - gap_ns))
    spread = tuple(ns / 1e9 / ALONE_S + 1 for around in probes[2] for window in around for ns in _off(window))
    return Machine(hop_ns, at_0, oversleep_ns, gap_ns, spread)


def _idle_ns(idle: Sequence[RealClient], machine: Machine) -> float:
    run = simulate(PROBES["idle"], idle, IDLE, machine)
    return 1e9 / (rate(run.update_ns, IDLE, 3) or 1e9)


def _lengths(window: Window) -> list[int]:
    """Nanoseconds from each end of a step to the next."""
    return [after.end_ns - before.end_ns for before, after in pairwise(window.steps)]


def _between(window: Window) -> list[float]:
    """Nanoseconds from the count of each step to the beginning of the next, where the variables are."""
    return [after.notes["reading"] - before.notes["counted"] for before, after in pairwise(window.steps)]


def _off(window: Window) -> list[float]:
    """Nanoseconds by which each step differs from the window's median one."""
    lengths = _lengths(window)
    usual = statistics.median(lengths)
    return [length - usual for length in lengths]
