"""The difference of two trainings: rates, steps, waits, staleness and use, side by side, and sentences about them.

A training has no critical path (docs/decisions/0046). What can be said exactly is where the time of a worker's step
goes, from its start to that of the next. Its ops run or their tensors are under way, it waits for tokens, gradients or
inputs, or it is between two steps. These parts add up to that time, and their differences to the difference, to the
nanosecond.

Each value is a pair: of the first run, and of the second. A difference is the second less the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.cluster.master import short_task
from simulator.notebook import Drawn
from simulator.shapes.unknown import Unsized
from simulator.training.training import WAITING
from simulator.units import Nanos, show_figure, show_nanos, show_share
from simulator.wording import counted, repr_of
from viz import training_figures
from viz.difference.explanation import by_run, signed_nanos
from viz.difference.outline import alike
from viz.scene import Scene, Trained

Number: TypeAlias = float | int | None
WORK, TOKENS, INPUT, BETWEEN = "work", "tokens", "input", "between"
SAID = {
    WORK: "at work",  # its ops run, or their tensors are under way, and none waits as below
    TOKENS: "waiting for tokens",  # or gradients
    INPUT: "waiting for input",
    BETWEEN: "between steps",
}
LEAST_CHANGE = 0.02  # of a task's time: smaller changes of its waiting are not reported


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A figure of both runs; None: unknown."""

    what: str
    unit: str  # "per_s", "ns", "share", or "" of a plain number
    values: tuple[Number, Number]


@dataclass(frozen=True, slots=True)
class StepPart:
    """Nanoseconds of a worker's average step, from its start to the next one's, that go into one thing."""

    what: str  # of `SAID`
    ns: tuple[Nanos, Nanos]

    @property
    def difference_ns(self) -> Nanos:
        """By how much it is longer in the second run."""
        return self.ns[1] - self.ns[0]

    def __str__(self) -> str:
        return f"{signed_nanos(self.difference_ns)} {SAID[self.what]}"


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """The time of a task after the warm-up, in shares of `training_figures.KINDS`; None: it is not in that cluster."""

    task: str
    shares: tuple[tuple[float, ...] | None, tuple[float, ...] | None]


@dataclass(frozen=True, slots=True)
class Busy:
    """The busy share of a device or a link in both runs; 0 also where a cluster lacks it."""

    name: str
    shares: tuple[float, float]


@dataclass(frozen=True, eq=False)
class TrainingDifference(Drawn):
    """The difference between two trainings of one graph."""

    names: tuple[str, str]
    figures: tuple[ComparedFigure, ...]
    parts: tuple[StepPart, ...]  # those that take time in either run, in the order of `SAID`
    tasks: tuple[TaskTimes, ...]
    devices: tuple[Busy, ...]
    links: tuple[Busy, ...]  # that carry something in either run
    bottlenecks: tuple[str, str]  # what holds each back; "": nothing that was tried
    runs: tuple[Scene, Scene]  # what was compared
    unsized: tuple[Unsized, Unsized]  # of both; rates are upper bounds where there are such tensors

    def __repr__(self) -> str:
        return repr_of(self, " and ".join(self.names), _rates(self))

    @property
    def period_ns(self) -> tuple[Nanos, Nanos]:
        """From the start of a worker's step to that of the next, on average: the sum of the parts."""
        return sum(part.ns[0] for part in self.parts), sum(part.ns[1] for part in self.parts)

    @property
    def values(self) -> Mapping[str, tuple[Number, Number]]:
        """The values of each figure."""
        return {one.what: one.values for one in self.figures}

    def __str__(self) -> str:
        return "\n".join(sentences(self))


def training_difference(scene: Scene) -> TrainingDifference | None:
    """The difference from the training that the scene is compared with, which comes first; None if there is none."""
    return compare_trainings(scene.against, scene)


def compare_trainings(a: object, b: object) -> TrainingDifference | None:
    """The difference between two runs that train; None where one of them does not, or is no scene."""
    if not isinstance(a, Scene) or not isinstance(b, Scene) or a.training is None or b.training is None:
        return None
    first, second = a.training, b.training
    parts = zip(SAID, _step_parts(first), _step_parts(second), strict=True)
    return TrainingDifference(
        names=names(a, b),
        figures=_figures(first, second),
        parts=tuple(StepPart(what, (was, now)) for what, was, now in parts if was or now),
        tasks=_tasks(first, second),
        devices=_busy(*((one.training.devices, one.answers.device_share) for one in (first, second))),
        links=_busy(*((one.training.links, one.answers.link_share) for one in (first, second))),
        bottlenecks=(_held(first), _held(second)),
        runs=(a, b),
        unsized=(first.unsized, second.unsized),
    )


def _held(trained: Trained) -> str:
    relief = trained.bottleneck.relief
    return "" if relief is None else relief.bottleneck.partition(", busy")[0]


def names(a: Scene, b: Scene) -> tuple[str, str]:
    """The runs in sentences: by labels, else by regime, asked algorithm or cluster, as far as these differ."""
    both = [(_regime(one), one.assignment.asked, one.cluster.name) for one in (a, b)]
    differ = [pair for pair in zip(*both, strict=True) if pair[0] != pair[1]]
    first, second = differ[0] if differ else alike(a.label)
    return a.label or first, b.label or second


def _regime(scene: Scene) -> str:
    return "" if scene.training is None else training_figures.regime(scene.training)


def _step_parts(trained: Trained) -> tuple[Nanos, ...]:
    """The parts of a worker's average step, in the order of `SAID`, after the warm-up.

    Means are rounded so that they add up to the rounded mean of the whole.
    """
    training = trained.training
    client, start, end = training.step_client, training.step_start_ns, training.step_end_ns
    rows = training.steps_from(trained.answers.cut_ns)
    rows = rows[np.lexsort((start[rows], client[rows]))]
    if not len(rows):
        return (0,) * len(SAID)
    follows = client[rows[1:]] == client[rows[:-1]]
    until = np.append(np.where(follows, start[rows[1:]], end[rows[:-1]]), end[rows[-1]])  # the next start
    if follows.any():  # a last step has no time between it and the next
        kept = np.append(follows, False)
        rows, until = rows[kept], until[kept]
    tokens, dry = training.step_waiting_ns[rows], training.step_input_ns[rows]
    length = end[rows] - start[rows]
    sums = [int(column.sum()) for column in (length - tokens - dry, tokens, dry, until - end[rows])]
    return _means(sums, len(rows))


def _means(sums: Sequence[int], count: int) -> tuple[int, ...]:
    """Each sum divided by the count and rounded, so that they add up to the rounded mean of all."""
    total = (2 * sum(sums) + count) // (2 * count)
    means = [one // count for one in sums]
    order = sorted(range(len(sums)), key=lambda row: (-(sums[row] % count), row))
    for row in order[: total - sum(means)]:
        means[row] += 1
    return tuple(means)


def _figures(a: Trained, b: Trained) -> tuple[ComparedFigure, ...]:
    """The figures that are not 0 or unknown in both: rates, times of steps, then all others."""
    rows = [ComparedFigure(what, unit, (value(a), value(b))) for what, unit, value in _FIGURES]
    one, other = a.answers.step_ns, b.answers.step_ns
    rows[2:2] = [ComparedFigure(f"p{q} step", "ns", (one.get(q), other.get(q))) for q in dict.fromkeys((*one, *other))]
    return tuple(row for row in rows if any(row.values))


_FIGURES: tuple[tuple[str, str, Callable[[Trained], Number]], ...] = (
    ("examples/s", "per_s", lambda run: run.answers.examples_per_s),
    ("steps/s", "per_s", lambda run: run.answers.steps_per_s),
    ("waiting for tokens", "share", lambda run: run.answers.gate_share),
    ("waiting for input", "share", lambda run: run.answers.input_share),
    ("mean staleness", "", lambda run: run.answers.mean_staleness),
    ("largest staleness", "", lambda run: max(run.answers.staleness, default=None)),
    ("updates", "", lambda run: run.answers.updates),
    ("dropped gradients", "", lambda run: run.answers.dropped),
    ("lost updates", "", lambda run: run.training.lost_updates),
    ("workers", "", lambda run: run.workers),
)


def _tasks(a: Trained, b: Trained) -> tuple[TaskTimes, ...]:
    one, other = (
        {short_task(task): tuple(run.answers.shares[row].tolist()) for row, task in enumerate(run.training.tasks)}
        for run in (a, b)
    )
    return tuple(TaskTimes(task, (one.get(task), other.get(task))) for task in {**one, **other})


def _busy(*runs: tuple[Sequence[str], npt.NDArray[np.float64]]) -> tuple[Busy, ...]:
    one, other = (dict(zip(known, shares.tolist(), strict=True)) for known, shares in runs)
    found = (Busy(name, (one.get(name, 0.0), other.get(name, 0.0))) for name in {**one, **other})
    return tuple(row for row in found if any(row.shares))


def sentences(found: TrainingDifference) -> list[str]:
    """The headline, then what differs, as far as the runs say it exactly; without the headline nothing differs."""
    lines = [f"Against {found.names[0]}: {_rates(found)}."]
    before, after = found.period_ns
    if before != after:
        changed = sorted(found.parts, key=lambda part: (-abs(part.difference_ns), list(SAID).index(part.what)))
        said = [str(part) for part in changed if part.difference_ns]
        that, this = (one.least for one in found.unsized)
        took = f"{this}{show_nanos(after)} instead of {that}{show_nanos(before)}"
        lines.append(f"A worker begins a step every {took}: {', '.join(said)}.")
    stale, fresh = (f"{value or 0:.3g}" for value in found.values.get("mean staleness", (0, 0)))
    if stale != fresh:
        lines.append(f"Staleness is {fresh} on average instead of {stale}.")
    for what in ("dropped gradient", "lost update"):
        was, now = found.values.get(f"{what}s", (0, 0))
        if was != now:
            lines.append(f"{counted(int(now or 0), what)} instead of {int(was or 0):,}.")
    if found.runs[0].out_of_memory is not None:  # of the other one its own summary says it
        lines.append(f"{found.names[0]} runs out of memory.")
    lines += _waits(found)
    if found.bottlenecks[0] != found.bottlenecks[1]:
        (first, second), (that, this) = found.names, (held or "nothing that was tried" for held in found.bottlenecks)
        lines.append(f"{second} is held back by {this}, {first} by {that}.")
    return lines


def _rates(found: TrainingDifference) -> str:
    """Examples per second, and steps where their ratio is another one."""
    rates = {one.what: one.values for one in found.figures if one.unit == "per_s"}
    that, this = (one.most for one in found.unsized)
    said = []
    ratios = set[str]()
    for what, (was, now) in rates.items():
        if was is None or now is None:
            continue
        ratio = f" ({now / was - 1:+.1%})" if was else ""
        if ratio not in ratios:
            equal = show_figure(now) == show_figure(was)
            other = "as well" if equal and that == this else f"instead of {that}{show_figure(was)}{ratio}"
            said.append(f"{this}{show_figure(now)} {what} {other}")
        ratios.add(ratio)
    return ", ".join(said) or "no rate is known"


def _waits(found: TrainingDifference) -> list[str]:
    """The task whose waiting changes most, if that is noticeable."""
    rows = [
        (one.task, one.shares[0][WAITING], one.shares[1][WAITING])
        for one in found.tasks
        if one.shares[0] and one.shares[1]
    ]
    most = max(rows, key=lambda row: abs(row[2] - row[1]), default=None)
    if most is None or abs(most[2] - most[1]) < LEAST_CHANGE:
        return []
    return [f"{most[0]} waits {show_share(most[2])} of its time instead of {show_share(most[1])}."]


def as_json(found: TrainingDifference) -> Mapping[str, Any]:
    """The difference between another training and this one, as docs/json.md describes it. Any: JSON."""
    return {
        "name": found.names[0],
        "sentences": sentences(found),
        "rates_are_upper_bounds": by_run([one.tensors > 0 for one in found.unsized]),
        "figures": {one.what: by_run(one.values) for one in found.figures},
        "step_ns": {part.what: by_run(part.ns) for part in found.parts},
        "tasks": {
            one.task: by_run(
                [None if of is None else dict(zip(training_figures.KINDS, of, strict=True)) for of in one.shares]
            )
            for one in found.tasks
        },
        "devices": {one.name: by_run(one.shares) for one in found.devices},
        "links": {one.name: by_run(one.shares) for one in found.links},
        "bottlenecks": by_run(found.bottlenecks),
    }
