"""The bottleneck of a run: one sentence, checked by simulating again with that relieved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.training.answers.answers import answers
from simulator.training.answers.reliefs import Relief, all_of, candidates
from simulator.training.answers.steady_state import rate, skipped
from simulator.training.disturbances.disturbance import MAX_TIME, Disturbance
from simulator.training.training import Training
from simulator.units import Nanos, show_figure
from simulator.wording import repr_of

MOST_TRIED = 4
MOST_TOGETHER = 4  # of those
LEAST_SHARE = 0.02  # a candidate of less is not tried
LEAST_UPDATES = 20  # before a single event, for a rate without it
WORTHWHILE = 1.05  # a gain below it is none
KEPT = 0.99  # of a gain: a relief that can be left out for less has no part in it


@dataclass(frozen=True, slots=True)
class TriedRelief:
    """One candidate and the gain of its relief."""

    relief: Relief
    steps_per_s: float
    before_per_s: float  # the same updates without it
    updates: range  # those compared
    gain: float  # how many times as many steps per second

    def __repr__(self) -> str:
        return repr_of(self, self.relief.bottleneck, self.relief.change, f"{self.gain:.3f} times as many steps")


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The answer; `tried` has the best first."""

    sentence: str
    relief: Relief | None  # None: nothing that was tried is worth while
    gain: float  # 1 where there is none
    tried: tuple[TriedRelief, ...] = ()

    def __repr__(self) -> str:
        return repr_of(self, self.sentence)


def bottleneck(
    training: Training,
    cluster: Cluster,
    rerun: Callable[[Relief], Training | None],
    disturbances: Sequence[Disturbance] = (),
    *,
    most: int = MOST_TRIED,
) -> Bottleneck:
    """Name the bottleneck of a run, by trying the likeliest candidates, at most `most` of them.

    `rerun` simulates with one relief, for any number of steps (a relieved crash must have time to come): rates are
    compared over equally many updates. It returns None for an impossible relief. The largest gain wins; of equal gains
    that of the likelier candidate. Where none is worth while, several are relieved together.
    """
    known = answers(training)
    found = candidates(training, cluster, disturbances, known)
    once = min((begin for begin, _ in training.upsets.once_ns), default=MAX_TIME)

    def tries(relief: Relief) -> TriedRelief | None:
        again = rerun(relief)
        return None if again is None else _gained(relief, training, again, known.cut, once)

    possible = filter(None, (tries(relief) for relief in found if relief.share >= LEAST_SHARE))
    tried = list(islice(possible, most))
    if not tried:
        return Bottleneck("Nothing was found that could hold this run back.", None, 1.0)
    together: list[TriedRelief] = []
    if max(one.gain for one in tried) < WORTHWHILE:
        together = _together([one.relief for one in tried[:MOST_TOGETHER]], tries)
    ranked = tuple(sorted([*together, *tried], key=lambda one: -one.gain))  # stable
    if ranked[0].gain < WORTHWHILE:
        named = "; ".join(one.relief.bottleneck for one in tried)
        how = "one at a time and together" if together else "one at a time"
        sentence = f"No bottleneck was found: of the candidates tried {how} ({named}), nothing makes the run more than"
        return Bottleneck(f"{sentence} {WORTHWHILE - 1:.0%} faster.", None, 1.0, ranked)
    return _named(ranked, known.steps_per_s, alone=not together)


def _together(reliefs: Sequence[Relief], tries: Callable[[Relief], TriedRelief | None]) -> list[TriedRelief]:
    """Relieve the likeliest two, three, .. together: where several limits are equal no single relief helps.

    Of more than two that help, each but the last is left out once, so that a relief without effect is not named. With n
    reliefs there are at most 2 n - 2 runs. Returns the one combination to be named, else all that were tried.
    """
    tried: list[TriedRelief] = []
    for count in range(2, len(reliefs) + 1):
        group = list(reliefs[:count])
        made = tries(all_of(group))
        tried += [] if made is None else [made]
        if made is None or made.gain < WORTHWHILE:
            continue
        for relief in reliefs[: count - 1] if count > 2 else ():
            fewer = [one for one in group if one is not relief]
            without = tries(all_of(fewer)) if len(fewer) > 1 else None
            if without is not None and without.gain >= WORTHWHILE and without.gain >= KEPT * made.gain:
                group, made = fewer, without
        return [made]
    return tried


def _named(ranked: tuple[TriedRelief, ...], steps_per_s: float | None, *, alone: bool) -> Bottleneck:
    """The sentence on the best relief; `alone`: it is a single one. It names the updates unless the rate is of all."""
    best = ranked[0]
    said = "The bottleneck is" if alone else "No single bottleneck, but several that are equal:"
    said += (
        f" {best.relief.bottleneck}{':' if alone else ';'} {best.relief.change} there would be {best.gain:.3g} times "
        f"as many steps per second, {show_figure(best.steps_per_s)} instead of {show_figure(best.before_per_s)}"
    )
    if steps_per_s is None or show_figure(best.before_per_s) != show_figure(steps_per_s):
        said += f" over the updates {best.updates.start + 1:,} to {best.updates.stop:,}"
    others = [one for one in ranked[1:] if one.gain >= WORTHWHILE]
    if alone and others:
        said += f"; next, {others[0].relief.bottleneck} ({others[0].gain:.3g} times {others[0].relief.change})"
    return Bottleneck(f"{said}.", best.relief, best.gain, ranked)


def _gained(relief: Relief, training: Training, again: Training, cut: int, once: Nanos) -> TriedRelief | None:
    """The gain over as many updates as both have, without the `cut` first; None: no time passes in either.

    A crash comes at its time, not at its update: a faster run would have made more updates by then. Single events,
    the first of which is at `once` (MAX_TIME: there is none), are left out of the comparison unless the relief removes
    them.
    """
    counts = [len(run.update_ns) for run in (training, again)]
    before_it = [int(np.searchsorted(run.update_ns, once)) for run in (training, again)]
    count = min(before_it if not relief.without and min(before_it) >= LEAST_UPDATES else counts)
    if once < MAX_TIME:
        cut = min(cut, count // 10)  # a warm-up may end after a single event
        cut -= cut % max(1, len(np.unique(training.update_client)))  # of a round at one moment a part takes no time
    before, after = rate(training.update_ns, count, cut), rate(again.update_ns, count, cut)
    if before is None or after is None:
        return None
    return TriedRelief(relief, after, before, range(skipped(count, cut), count), after / before)
