"""The answers of a run in numbers: throughput without the warm-up, step times, waiting, staleness, utilisation.

`steps_per_s` counts updates of the global step, `examples_per_s` the examples whose gradients they applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ints, flags, ints
from simulator.errors import SimvizError
from simulator.training.answers.steady_state import Cycle, batch_means, cycle_of, warm_up
from simulator.training.training import WAITING, ResourceUsage, Training
from simulator.units import Nanos, show_figure, show_nanos
from simulator.wording import counted, repr_of

MOST_STEPS = 10_000  # of a run that goes on until its rate is known
QUANTILES = (50, 90, 99)  # percent
SETTLING = 3  # steps of each worker that are warm-up, if that is no more than a quarter of the run


@dataclass(frozen=True, eq=False)
class Answers:
    """The figures of a run. Axes: K tasks, D devices, L links. A figure that is None is unknown: see the comments."""

    steps_per_s: float | None  # None: no time passes
    half_width: float | None  # of the 95 % confidence interval, relative to it; None: too few updates; 0: see `cycle`
    cycle: Cycle | None  # repeats until the end, so the rate is exact; None: none was found, or chance has a part
    between_upsets_per_s: float | None  # steps per second outside crashes and single pauses; None: there were none
    examples_per_s: float | None  # None: unknown, or no time passes
    gradients_per_s: float | None
    step_ns: Mapping[int, Nanos]  # quantile in percent -> time of a training step; empty: none ended
    staleness: Mapping[int, int]  # updates by others in between -> updates, ascending; all of the run
    dropped: int
    usage: ResourceUsage  # after the warm-up
    shares: npt.NDArray[np.float64]  # [K, 4] of that time, as `Spent.task_ns`; a row's sum is 1
    gate_share: float  # of the time of training steps that begin after the warm-up: waiting for tokens
    input_share: float  # of the same time: waiting for inputs that had run dry
    device_share: npt.NDArray[np.float64]  # [D] busy share of all lanes
    link_share: npt.NDArray[np.float64]  # [L]
    cut: int  # updates that count as warm-up
    cut_ns: Nanos  # the end of the warm-up
    settled: bool  # False: the run is too short for its warm-up
    updates: int

    def __repr__(self) -> str:
        rate = "no rate" if self.steps_per_s is None else f"{show_figure(self.steps_per_s)} steps/s"
        return repr_of(self, rate, counted(self.updates, "update"))

    @property
    def warm_up(self) -> str:
        """The warm-up in words."""
        if not self.cut:
            return f"nothing is cut off as warm-up of {counted(self.updates, 'update')}"
        said = (
            f"the first {self.cut:,} of {counted(self.updates, 'update')}, up to {show_nanos(self.cut_ns)}, are warm-up"
        )
        how = "then the run repeats itself" if self.cycle is not None else "MSER, and each worker's first steps"
        return f"{said} ({how})" + ("" if self.settled else "; the run may be too short")


def answers(training: Training) -> Answers:
    """The answers of a run: of its time after the warm-up, and of the steps that begin then.

    The warm-up ends at a sample of the run (`Training.samples`), where its busy times are known. In a run of many
    updates, that is the first sample that is not too early. A single event, such as a crash, is no warm-up. The rate of
    a run that repeats itself is that of its last whole cycles.
    """
    updates = len(training.update_ns)
    found = cycle_of(training) if updates else None
    upset = _first_upset(training)
    cut, settled = _cut(training, upset) if found is None else (_whole_cycles(training, found), True)
    sample = next(
        (one for one in training.samples if upset >= one.updates >= cut > 0 and one.ns < training.end_ns), None
    )
    cut, usage = (cut, training.usage) if sample is None else (sample.updates, training.usage.since(sample))
    begin = int(training.update_ns[cut - 1]) if cut else 0
    counted = slice(cut if found is None else updates - found.updates, updates)
    span = int(training.update_ns[-1]) - begin if updates and found is None else found.ns if found is not None else 0
    examples = training.update_examples[counted]
    apart = _apart_from_upsets(training, cut)
    kept = _measured(training, begin)
    lengths = np.sort((training.step_end_ns - training.step_start_ns)[kept])
    end = max(usage.ns, 1)
    idle = np.eye(WAITING + 1)[[WAITING] * len(training.tasks)]
    return Answers(
        steps_per_s=_per_s(len(examples), span),
        half_width=0.0 if found is not None else _half_width(training, apart, cut),
        cycle=found,
        between_upsets_per_s=None if apart is None else _per_s(len(apart), int(apart.sum())),
        examples_per_s=_per_s(int(examples.sum()), span) if examples.all() else None,
        gradients_per_s=_per_s(int(training.update_gradients[counted].sum()), span),
        step_ns=_quantiles(lengths),
        staleness=_histogram(training),
        dropped=training.dropped,
        usage=usage,
        shares=_column(usage.task_ns / end if usage.ns else idle),
        gate_share=int(training.step_waiting_ns[kept].sum()) / max(1, int(lengths.sum())),
        input_share=int(training.step_input_ns[kept].sum()) / max(1, int(lengths.sum())),
        device_share=_column(usage.device_busy_ns / end / training.device_lanes),
        link_share=_column(usage.link_busy_ns / end),
        cut=cut,
        cut_ns=begin,
        settled=settled,
        updates=updates,
    )


@dataclass(frozen=True, eq=False)
class Reached:
    """A run that was continued until its rate was known, or until its limit."""

    training: Training
    answers: Answers
    steps: int
    reached: bool  # the confidence interval is narrow enough


def until_ci(
    run: Callable[[Callable[[Training, int], int]], Training],
    *,
    relative: float = 0.02,
    steps: int = 50,
    most: int = MOST_STEPS,
) -> Reached:
    """Continue a run until half of the 95 % confidence interval of steps/s is below `relative`.

    `run` gets a function that is asked after `steps` steps, then after twice as many, and so on (`extend` of `train`).
    An interval of a run that has not settled does not count. The run stops at `most` steps. Raises SimvizError for an
    impossible share or numbers.
    """
    if not 0 < relative < 1:
        raise SimvizError(f"a confidence interval of {relative:g} is none; give a share between 0 and 1 such as 2%")
    if not 0 < steps <= most:
        raise SimvizError(f"a run from {steps} to {most} steps is none; begin with at least 1 and at most the limit")
    taken = steps

    def narrow(found: Answers) -> bool:
        return found.half_width is not None and found.settled and found.half_width <= relative

    def extend(training: Training, now: int) -> int:
        nonlocal taken
        taken = now
        return now if narrow(answers(training)) else min(2 * now, most)

    training = run(extend)
    found = answers(training)
    return Reached(training, found, taken, narrow(found))


def rate(update_ns: Ints, count: int, cut: int) -> float | None:
    """Updates per second of the first `count` without the first `cut`, or without half of them; None: no time passes.

    It compares runs with one whose warm-up is known.
    """
    count = min(count, len(update_ns))
    first = skipped(count, cut)
    begin = int(update_ns[first - 1]) if first else 0
    return _per_s(count - first, int(update_ns[count - 1]) - begin) if count else None


def skipped(count: int, cut: int) -> int:
    """The number of updates that `rate` leaves out of so many."""
    return min(cut, count // 2)


# ---- the warm-up, and the confidence of the rate --------------------------------------------------------------------


def _gaps(training: Training) -> tuple[Ints, int]:
    """Times from one update to the next, the first from 0, and a round's length: one update per counting client."""
    gaps = np.diff(training.update_ns, prepend=0)
    return ints(gaps), max(1, len(np.unique(training.update_client)))


def _first_upset(training: Training) -> int:
    """Updates before the first single event, such as a crash; all where there is none."""
    begins = [begin for begin, _ in training.upsets.once_ns]
    return int(np.searchsorted(training.update_ns, min(begins))) if begins else len(training.update_ns)


def _cut(training: Training, upset: int) -> tuple[int, bool]:
    """Updates of the warm-up, at most those before the first single event, and whether the run has settled."""
    gaps, cycle = _gaps(training)
    if not len(gaps):
        return 0, False
    least = _first_steps(training, 1)
    least = max(least, min(_first_steps(training, SETTLING), len(gaps) // 4))
    cut, settled = warm_up(gaps[:upset], cycle=cycle, least=least)
    return min(cut, upset), settled or upset < len(gaps)


def _whole_cycles(training: Training, found: Cycle) -> int:
    """Updates before the first repetition that begins after each worker has ended a step, but at most half of them."""
    late = max(0, min(_first_steps(training, 1), len(training.update_ns) // 2) - found.begin)
    begin = found.begin + -(-late // found.updates) * found.updates
    return begin if 2 * begin <= len(training.update_ns) else found.begin


def _first_steps(training: Training, steps: int) -> int:
    """Updates until each worker has ended so many steps, or all of its steps; at least one."""
    worker = training.is_worker[training.step_client]
    client, end = training.step_client[worker], training.step_end_ns[worker]  # rows come in order of their ends
    ends = [of[min(steps, len(of)) - 1] for of in (end[client == row] for row in np.unique(client))]
    return max(1, int(np.searchsorted(training.update_ns, max(ends), side="right"))) if ends else 1


def _apart_from_upsets(training: Training, cut: int) -> Ints | None:
    """The times between updates after the warm-up that no single event falls into; None: there was no such event."""
    ends = training.update_ns[cut:]
    begins = np.concatenate([training.update_ns[cut - 1 : cut] if cut else [0], ends[:-1]])
    upset = np.zeros(len(ends), np.bool_)
    for begin, end in training.upsets.once_ns:
        upset |= (begins < end) & (ends > begin)
    return ints((ends - begins)[~upset]) if upset.any() else None


def _half_width(training: Training, apart: Ints | None, cut: int) -> float | None:
    """Half of the 95 % interval of the rate, relative to it; None: there are too few updates, or pauses.

    Single events are left out of the spread: they say nothing of how the rest varies. Each moves the count of updates
    by one. Without chance a count is off by up to half a round, as the run may be cut anywhere in a longer pattern.
    """
    gaps, cycle = _gaps(training)
    steady = gaps[cut:] if apart is None else apart
    if not len(steady) or not steady.any():
        return None
    most = int(steady.sum()) // max(training.upsets.periods_ns, default=1)
    mean = batch_means(steady, cycle=cycle, most=most)
    if mean.half_width is None:
        return None
    once = sum(begin < training.end_ns for begin, _ in training.upsets.once_ns)
    unseen = once + (0 if training.upsets.chance else cycle / 2)
    return mean.half_width / mean.mean + unseen / len(steady)


def _measured(training: Training, begin: Nanos) -> Flags:
    """[S] whether a training step begins after the warm-up; all do if none does."""
    worker = training.is_worker[training.step_client]
    late = worker & (training.step_start_ns >= begin)
    return flags(late if late.any() else worker)


def _quantiles(lengths: Ints) -> Mapping[int, Nanos]:
    """Percent -> the smallest time that so many of the steps do not exceed; the lengths ascend."""
    if not len(lengths):
        return MappingProxyType({})
    return MappingProxyType({q: int(lengths[-(-q * len(lengths) // 100) - 1]) for q in QUANTILES})


def _histogram(training: Training) -> Mapping[int, int]:
    values, counts = np.unique(training.update_staleness, return_counts=True)
    return MappingProxyType(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def _per_s(count: int, nanos: Nanos) -> float | None:
    return count * 10**9 / nanos if nanos else None


def _column(values: npt.NDArray[np.float64] | Sequence[float]) -> npt.NDArray[np.float64]:
    column = np.array(values, np.float64)
    column.setflags(write=False)
    return column
