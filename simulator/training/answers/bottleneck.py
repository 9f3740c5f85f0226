"""What holds a run back: one sentence, checked by simulating again with that relieved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.training.answers.answers import answers, rate
from simulator.training.answers.relieving import Relief, candidates
from simulator.training.disturbances.disturbance import MAX_TIME, Crash, Disturbance
from simulator.training.disturbances.pausing import Pauses
from simulator.training.training import Training
from simulator.units import Nanos, show_figure

MOST_TRIED = 4
LEAST_SHARE = 0.02  # what takes less is not tried
LEAST_UPDATES = 20  # before something that comes once, for a rate without it
WORTHWHILE = 1.05  # a gain below it is none


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate and what its relief brought."""

    relief: Relief
    steps_per_s: float
    before_per_s: float  # the same number of updates without it
    gain: float  # how many times as many steps per second


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The answer; `tried` has the best first."""

    sentence: str
    relief: Relief | None  # None: nothing single is worth while
    gain: float  # 1 where there is none
    tried: tuple[Tried, ...] = ()


def bottleneck(
    training: Training,
    cluster: Cluster,
    rerun: Callable[[Relief], Training | None],
    disturbances: Sequence[Disturbance] = (),
    *,
    most: int = MOST_TRIED,
) -> Bottleneck:
    """Name what holds the run back, by trying the likeliest candidates, at most `most` of them.

    `rerun` simulates with one thing relieved, for as many steps as it likes (a crash that is relieved must have time
    to come): rates are compared over equally many updates. It returns None for a relief that cannot be had. The
    largest gain wins, the likelier one of equal gains.
    """
    known = answers(training)
    found = candidates(training, cluster, disturbances, gate_share=known.gate_share, spent=known.spent)
    once = _once(disturbances)
    tried: list[Tried] = []
    for relief in found:
        if len(tried) == most:
            break
        if relief.share >= LEAST_SHARE:
            again = rerun(relief)
            made = None if again is None else _gained(relief, training, again, known.cut, once)
            tried += [] if made is None else [made]
    tried.sort(key=lambda one: -one.gain)  # stable
    if not tried:
        return Bottleneck("Nothing was found that could hold this run back.", None, 1.0)
    best = tried[0]
    if best.gain < WORTHWHILE:
        named = "; ".join(one.relief.bottleneck for one in tried)
        return Bottleneck(
            f"No single bottleneck: of what was tried, one at a time ({named}), none makes the run more than "
            f"{100 * (WORTHWHILE - 1):.0f} % faster.",
            None,
            1.0,
            tuple(tried),
        )
    said = (
        f"The bottleneck is {best.relief.bottleneck}: {best.relief.change} there would be {best.gain:.2g} times as "
        f"many steps per second, {show_figure(best.steps_per_s)} instead of {show_figure(best.before_per_s)}"
    )
    if len(tried) > 1 and tried[1].gain >= WORTHWHILE:
        said += f"; next, {tried[1].relief.bottleneck} ({tried[1].gain:.2g} times {tried[1].relief.change})"
    return Bottleneck(f"{said}.", best.relief, best.gain, tuple(tried))


def _gained(relief: Relief, training: Training, again: Training, cut: int, once: Nanos) -> Tried | None:
    """The gain over as many updates as both have, without the `cut` first; None: no time passes in either.

    A crash comes at its time, not at its update: a faster run would have more behind it. What comes `once` is left out
    of the comparison, unless the relief is that it does not come.
    """
    counts = [len(run.update_ns) for run in (training, again)]
    before_it = [int(np.searchsorted(run.update_ns, once)) for run in (training, again)]
    count = min(before_it if not relief.without and min(before_it) >= LEAST_UPDATES else counts)
    if once < MAX_TIME:
        cut = min(cut, count // 10)  # a warm-up may end after what comes once
    before, after = rate(training.update_ns, count, cut), rate(again.update_ns, count, cut)
    return None if before is None or after is None else Tried(relief, after, before, after / before)


def _once(disturbances: Sequence[Disturbance]) -> Nanos:
    """When the first of what happens once happens; MAX_TIME: nothing does."""
    crashes = [one.effect.at_ns for one in disturbances if isinstance(one.effect, Crash)]
    pauses = [one.effect.phase for one in disturbances if isinstance(one.effect, Pauses) and not one.effect.period]
    return min([*crashes, *pauses], default=MAX_TIME)
