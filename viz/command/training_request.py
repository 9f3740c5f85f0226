"""The request for a training: its options as a value, and the refusal of options that contradict each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from simulator import limits
from simulator.errors import SimvizError
from simulator.training.answers.scaling import read_workers
from simulator.training.disturbances.disturbance import MAX_TIME, Disturbance, read_disturbance
from simulator.training.inputs.pipeline import Rate, read_rate
from simulator.training.programs.filters import Filters, read_filters
from simulator.training.programs.setter import PsStrategy
from simulator.training.regimes import Regime, read_regime
from simulator.units import SECOND_NS, Nanos, parse_bytes, parse_nanos
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    import argparse

_Value = TypeVar("_Value")

DEFAULT_STEPS = 50


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """The options of a training."""

    regime: Regime | None  # None: the graph's own, or consecutive steps
    trains: bool = True  # False: the graph is replicated, and one step of its first program is shown
    replicate: str | None = None  # "none", "in", "between", ..; None: as the graph and the cluster suggest
    ps_strategy: PsStrategy | None = None  # None: round robin, where variables go to ps tasks
    fuse: int = 0  # bytes of a bucket of gradients in an all-reduce; 0: each gradient alone
    filters: tuple[Filters, ...] = ()  # device_filters of the sessions; none: each sees all tasks
    disturbances: tuple[Disturbance, ...] = ()
    inputs: tuple[Rate, ...] = ()  # given rates of queues, iterators and feeds
    gap_ns: Nanos | None = None  # time between two steps of a client; None: the usual one
    steps: int = DEFAULT_STEPS
    until_ci: float | None = None  # relative; None: `steps` are enough
    workers: tuple[int, ...] = ()  # numbers of workers to compare

    def __repr__(self) -> str:
        return repr_of(self, "no regime" if self.regime is None else str(self.regime), counted(self.steps, "step"))


def read_wanted(asked: argparse.Namespace) -> TrainingRequest | None:
    """The training that the options ask for, or None.

    Raise SimvizError for an option that is wrong, or that contradicts or lacks another.
    """
    trains = asked.training not in (None, "none")
    _refuse(asked, trains=trains)
    if not trains and asked.replicate in (None, "none"):
        return None
    regime = _read("--training", read_regime, asked.training) if trains else None
    if asked.workers is not None and regime is not None and regime.total is not None:
        raise SimvizError(
            f"--workers varies the number of workers, so total={regime.total} can't be fixed; leave it out"
        )
    return TrainingRequest(
        regime=regime,
        trains=trains,
        replicate=asked.replicate,
        ps_strategy=asked.ps_strategy,
        fuse=0 if asked.fuse is None else _read("--fuse", _bucket, asked.fuse),
        filters=tuple(_read("--device-filters", read_filters, text) for text in asked.device_filters),
        disturbances=tuple(_read("--disturb", read_disturbance, text) for text in asked.disturb),
        inputs=tuple(_read("--input", read_rate, text) for text in asked.input),
        gap_ns=None if asked.gap is None else _read("--gap", _gap_ns, asked.gap),
        steps=_steps(asked.steps),
        until_ci=None if asked.until_ci is None else _share(asked.until_ci),
        workers=() if asked.workers is None else _read("--workers", read_workers, asked.workers),
    )


def _refuse(asked: argparse.Namespace, *, trains: bool) -> None:
    """Refuse options that would have no effect."""
    given = {
        "--device-filters": bool(asked.device_filters),
        "--disturb": bool(asked.disturb),
        "--gap": asked.gap is not None,
        "--input": bool(asked.input),
        "--steps": asked.steps is not None,
        "--until-ci": asked.until_ci is not None,
        "--workers": asked.workers is not None,
    }
    for option, there in given.items():
        if there and not trains:
            raise SimvizError(f"{option} is an option of a training; add --training async")
    if asked.ps_strategy is not None and asked.replicate in (None, "none") and not trains:
        raise SimvizError("--ps-strategy places the variables of a replicated graph; add --replicate between")
    if asked.fuse is not None and not (asked.replicate or "").startswith("allreduce"):
        raise SimvizError("--fuse makes buckets of the gradients of an all-reduce; add --replicate allreduce:ring")
    if asked.ps_strategy is not None and asked.replicate == "none":
        raise SimvizError("--ps-strategy places variables, but --replicate none leaves them in place; drop one")
    replicates = trains or asked.replicate not in (None, "none")
    if replicates and asked.master is not None:
        raise SimvizError("--master: each client of a training has a session at its own task; leave it out")


def _read(option: str, read: Callable[[str], _Value], text: str) -> _Value:
    """The value of an option. Raise SimvizError with the option's name."""
    try:
        return read(text)
    except (SimvizError, ValueError) as error:
        raise SimvizError(f"{option}: {error}") from None


def _steps(given: int | None) -> int:
    steps = DEFAULT_STEPS if given is None else given
    if not 1 <= steps <= limits.STEPS.most:
        raise SimvizError(f"--steps {steps}: give a number from 1 to {limits.STEPS.most:,} ({limits.STEPS.remedy})")
    return steps


def _bucket(text: str) -> int:
    """ "64 MiB"."""
    size = parse_bytes(text)
    if not size:
        raise SimvizError("a bucket has a size, such as 64MiB; leave it out to reduce each gradient alone")
    return size


def _gap_ns(text: str) -> Nanos:
    """ "2 ms"."""
    gap_ns = parse_nanos(text)
    if gap_ns > MAX_TIME:
        raise SimvizError(f"{text!r} is longer than {MAX_TIME // SECOND_NS:,} s")
    return gap_ns


def _share(text: str) -> float:
    """ "2%" or "0.02"."""
    said = text.strip()
    try:
        share = float(said.removesuffix("%")) / (100 if said.endswith("%") else 1)
    except ValueError:  # refused below
        share = math.nan
    if not 0 < share < 1:
        raise SimvizError(f"--until-ci {text!r}: give half of a confidence interval as a share of the mean, such as 2%")
    return share
