"""Scaling of a training: a table of the same run with more and more workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulator import limits
from simulator.errors import SimvizError
from simulator.training.answers.answers import answers
from simulator.training.training import Training


@dataclass(frozen=True, slots=True)
class ScalingRow:
    """One number of workers."""

    workers: int
    steps_per_s: float | None  # None: no time passes
    half_width: float | None  # of its 95 % confidence interval, relative
    examples_per_s: float | None  # None: unknown
    efficiency: float | None  # gradients applied per second and worker, relative to the first row's
    link: str  # the busiest; "": there are no transfers
    link_share: float  # of the run's time


def read_workers(text: str) -> tuple[int, ...]:
    """Read "1,2,4,8". Raises SimvizError for any text but a list of different numbers of workers."""
    found: list[int] = []
    most = limits.WORKERS.most
    for part in text.split(","):
        if not part.strip().isdecimal() or not 1 <= int(part.strip()[:9]) <= most or len(part.strip()) > 9:
            raise SimvizError(
                f"{part.strip()[:40]!r} in {text[:80]!r} is no number of workers from 1 to {most:,}; "
                f"write for instance 1,2,4,8 ({limits.WORKERS.remedy})"
            )
        if int(part) in found:
            raise SimvizError(f"{text[:80]!r} has {int(part)} twice; give each number of workers once")
        found.append(int(part))
    return tuple(found)


def scale(workers: Sequence[int], run: Callable[[int], Training]) -> tuple[ScalingRow, ...]:
    """A row for each number of workers, in the order given; `run` trains with that many.

    Efficiency compares gradients, not updates: a synchronous update of eight workers applies eight gradients. It is
    above 1 where a single worker leaves a device idle, as during its round trips.
    """
    rows: list[ScalingRow] = []
    base: float | None = None
    for count in workers:
        training = run(count)
        found = answers(training)
        each = None if found.gradients_per_s is None else found.gradients_per_s / count
        base = each if not rows else base
        busiest = int(found.link_share.argmax()) if found.link_share.any() else -1
        rows.append(
            ScalingRow(
                workers=count,
                steps_per_s=found.steps_per_s,
                half_width=found.half_width,
                examples_per_s=found.examples_per_s,
                efficiency=None if each is None or not base else each / base,
                link=training.links[busiest] if busiest >= 0 else "",
                link_share=float(found.link_share[busiest]) if busiest >= 0 else 0.0,
            )
        )
    return tuple(rows)
