"""The answers of a run in numbers: throughput without the warm-up, step times, waiting, staleness, utilisation.

`steps_per_s` counts updates of the global step, `examples_per_s` the examples whose gradients they applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator import limits
from simulator.columns import Ints
from simulator.errors import SimvizError
from simulator.training.answers.steady_state import Cycle, per_s, steady_state
from simulator.training.training import WAITING, ResourceUsage, Training
from simulator.units import Nanos, show_figure, show_nanos
from simulator.wording import counted, repr_of

QUANTILES = (50, 90, 99)  # percent


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
    shares: npt.NDArray[np.float64]  # [K, 4] of that time, as `ResourceUsage.task_ns`; a row's sum is 1
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
    def mean_staleness(self) -> float | None:
        """The mean over all updates; None: there are none."""
        updates = sum(self.staleness.values())
        return sum(late * count for late, count in self.staleness.items()) / updates if updates else None

    def cut_off(self, until: str = "") -> str:
        """The updates of the warm-up, as a clause; `until` follows them."""
        first = "first" if self.cut == 1 else f"first {self.cut:,}"
        verb = "is" if self.cut == 1 else "are"
        return f"the {first} of {counted(self.updates, 'update')}{until} {verb} warm-up"

    @property
    def warm_up(self) -> str:
        """The warm-up in words."""
        if not self.cut:
            return f"nothing is cut off as warm-up of {counted(self.updates, 'update')}"
        said = self.cut_off(f", up to {show_nanos(self.cut_ns)},")
        how = "then the run repeats itself" if self.cycle is not None else "MSER, and each worker's first steps"
        return f"{said} ({how})" + ("" if self.settled else "; the run may be too short")


def answers(training: Training) -> Answers:
    """The answers of a run: of its time after the warm-up, and of the steps that begin then.

    The rate of a run that repeats itself is that of its last whole cycles.
    """
    updates, steady = len(training.update_ns), steady_state(training)
    found, cut, begin, usage = steady.cycle, steady.cut, steady.cut_ns, steady.usage
    steady_updates = slice(cut if found is None else updates - found.updates, updates)
    span = int(training.update_ns[-1]) - begin if updates and found is None else found.ns if found is not None else 0
    examples = training.update_examples[steady_updates]
    apart = steady.apart_ns
    kept = training.steps_from(begin)
    staleness, updated = np.unique(training.update_staleness, return_counts=True)
    lengths = np.sort((training.step_end_ns - training.step_start_ns)[kept])
    end = max(usage.ns, 1)
    idle = np.eye(WAITING + 1)[[WAITING] * len(training.tasks)]
    return Answers(
        steps_per_s=per_s(len(examples), span),
        half_width=steady.half_width,
        cycle=found,
        between_upsets_per_s=None if apart is None else per_s(len(apart), int(apart.sum())),
        examples_per_s=per_s(int(examples.sum()), span) if examples.all() else None,
        gradients_per_s=per_s(int(training.update_gradients[steady_updates].sum()), span),
        step_ns=_quantiles(lengths),
        staleness=dict(zip(staleness.tolist(), updated.tolist(), strict=True)),
        dropped=training.dropped,
        usage=usage,
        shares=_column(usage.task_ns / end if usage.ns else idle),
        gate_share=int(training.step_waiting_ns[kept].sum()) / max(1, int(lengths.sum())),
        input_share=int(training.step_input_ns[kept].sum()) / max(1, int(lengths.sum())),
        device_share=_column(usage.device_busy_ns / end / training.device_lanes),
        link_share=_column(usage.link_busy_ns / end),
        cut=cut,
        cut_ns=begin,
        settled=steady.settled,
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
    most: int | None = None,
) -> Reached:
    """Continue a run until half of the 95 % confidence interval of steps/s is below `relative`.

    `run` gets a function that is asked after `steps` steps, then after twice as many, and so on (`extend` of `train`).
    An interval of a run that has not settled does not count. The run stops at `most` steps, by default at
    `limits.CI_STEPS`. Raises SimvizError for an impossible share or numbers.
    """
    if not 0 < relative < 1:
        raise SimvizError(f"a confidence interval of {relative:g} is none; give a share between 0 and 1 such as 2%")
    most = limits.CI_STEPS.most if most is None else most
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


def _quantiles(lengths: Ints) -> Mapping[int, Nanos]:
    """Percent -> the smallest time that so many of the steps do not exceed; the lengths ascend."""
    if not len(lengths):
        return {}
    return {q: int(lengths[-(-q * len(lengths) // 100) - 1]) for q in QUANTILES}


def _column(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    values.setflags(write=False)
    return values
