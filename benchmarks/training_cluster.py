"""Many trainings in turn on one real cluster of processes, and whether the machine did anything else meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from simulator.columns import ints
from simulator.training.answers.steady_state import rate
from tests.oracle.processes import descendants
from tests.oracle.real_cluster import RealClient, RealStep, running
from tests.oracle.training_graphs import Training, clients_of

TIMEOUT_S = 900.0
PATIENCE_S = 60.0  # for windows that are tried again, all of a cluster together
PAUSE_S = 2.0  # before another try, and of a look


@dataclass(frozen=True)
class Window:
    """The course of a training in a stretch of time."""

    steps: tuple[RealStep, ...]  # by their ends, in the clients' own names
    others: float  # the share of all cores that other processes took
    cut: int  # warm-up: updates at its begin

    @property
    def updates(self) -> list[RealStep]:
        """The steps that count, warm-up included."""
        makers = {step.client for step in self.steps if "updates" in step.client}
        return [step for step in self.steps if not makers or step.client in makers]

    @property
    def steps_per_s(self) -> float:
        """Updates after the warm-up, per second."""
        ends = [step.end_ns for step in self.updates]
        return rate(ints([end - self.steps[0].start_ns for end in ends]), len(ends), self.cut) or 0.0


Asking: TypeAlias = Callable[[str, int], Window]


def crews(trainings: Mapping[str, Training]) -> dict[str, tuple[RealClient, ...]]:
    """The clients of each; what they share is apart from that of the others."""
    apart = [replace(training, container=f"apart{row}") for row, training in enumerate(trainings.values())]
    return dict(zip(trainings, clients_of(apart), strict=True))


@contextmanager
def cluster(
    trainings: Mapping[str, Training],
    made: Mapping[str, tuple[RealClient, ...]],
    cores: Mapping[str, int],
    *,
    calm: float,
) -> Iterator[Asking]:
    """A cluster on which all the trainings are at rest. What it gives runs one, until it has made so many updates.

    Where other processes take more than the share `calm` of all cores, it tries again while there is patience; the
    window says whether it was in vain.
    """
    tasks = sorted({task for training in trainings.values() for task in training.tasks})
    real = [replace(one, name=_own(name, one.name)) for name in trainings for one in made[name]]
    with running(real, tasks=tasks, cores=cores, timeout_s=TIMEOUT_S) as step:
        patience_s = PATIENCE_S

        def ask(name: str, updates: int) -> Window:
            nonlocal patience_s
            asked = {_own(name, one.name): one.name for one in made[name]}
            while True:
                before = _worked()
                steps = step(asked, updates)
                found = Window(_own_names(steps, asked), _share(before, _worked()), max(3, trainings[name].workers))
                if found.others <= calm or patience_s <= 0:
                    return found
                time.sleep(PAUSE_S)
                patience_s -= time.monotonic() - before[0]

        yield ask


def awaited(calm: float) -> bool:
    """Wait, while there is patience, until others leave the machine alone; whether they do."""
    began = time.monotonic()
    while True:
        before = _worked()
        time.sleep(PAUSE_S)
        others = _share(before, _worked())
        if others <= calm or time.monotonic() > began + PATIENCE_S:
            break
    if others > calm:
        print(f"Others take {others:.0%} of the cores: nothing is measured. Try again, or allow --calm more.")
    return others <= calm


def _own(training: str, client: str) -> str:
    return f"{training}: {client}"


def _own_names(steps: Sequence[RealStep], names: Mapping[str, str]) -> tuple[RealStep, ...]:
    """The steps of these clients, who have other names for themselves."""
    return tuple(replace(step, client=names[step.client]) for step in steps if step.client in names)


def _worked() -> tuple[float, float, float]:
    """Now; seconds that the cores worked since the machine began, and of them this process and those it started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
    busy = user + nice + system + irq + softirq + steal
    own = sum(_processor_s(pid) for pid in [os.getpid(), *descendants(os.getpid())])
    return time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), own


def _processor_s(pid: int) -> float:
    """Seconds for which all threads of a process have run so far, those that ended too (Linux)."""
    return time.clock_gettime(~pid << 3 | 2)  # its clock's number, as clock_getcpuclockid makes it


def _share(before: Sequence[float], after: Sequence[float]) -> float:
    span, busy, own = (b - a for a, b in zip(before, after, strict=True))
    return max(0.0, busy - own) / (span * (os.cpu_count() or 1))


def quiet(windows: Collection[Window], calm: float) -> list[Window]:
    """Those in which the machine had nothing else to do."""
    return [window for window in windows if window.others <= calm]
