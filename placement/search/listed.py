"""The plans of all other algorithms: a search begins with them and never falls behind one.

The algorithms of papers are plain Python. So each is asked where its cost fits: in large steps the dearest are left
out, by the measured time of an op. No clock is read, so the same step asks the same algorithms.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from placement.effort import Effort, seconds_of
from placement.plan import Plan, completed
from placement.problem import Problem
from placement.scheduling.insertion import plans
from simulator.errors import InfeasibleError

ALWAYS = ("single", "whitepaper", "heft", "tensorflow", "requested")
# microseconds of an op, and of an op for each device: benchmarks/RESULTS.md; cheap ones come first
PAPERS = {"m_topo": (5, 0.1), "cpop": (11, 0.4), "peft": (15, 1), "etf": (17, 2), "m_etf": (20, 3), "m_sct": (180, 4)}
LISTED = (*ALWAYS, *PAPERS)
_BOTH = ("heft", "cpop", "peft", "etf", "m_etf", "m_sct")  # their function takes the better of two plans
_LEAST_S = 1.0  # what algorithms of papers may take where no time is given
_SHARE = 0.5  # of a time that is given, for those of papers and those that are always asked
_ALWAYS_US = 45  # of an op, what these take


class Listed(NamedTuple):
    """A plan of another algorithm."""

    algorithm: str
    plan: Plan


class Asked(NamedTuple):
    """The algorithms that were asked."""

    found: list[Listed]
    failed: list[InfeasibleError]  # of those that find no plan
    names: tuple[str, ...]
    left_out: tuple[str, ...]


def ask(problem: Problem, tell: Callable[[Listed], object] = lambda _: None) -> Asked:
    """Ask each algorithm that fits, and `tell` each plan as soon as it is there; `single` comes first, as it is fast.

    Plans with a group where it may not be are dropped.

    A list schedule is there with and without its order. Its own function takes the better of both by its own cut, which
    takes long.
    """
    from placement.algorithms import load  # late: the table names `search`

    names = fitting(len(problem.group), len(problem.capacity), problem.effort)
    asked = Asked([], [], names, tuple(name for name in LISTED if name not in names))
    for name in names:
        try:
            made: tuple[Plan, ...]
            if name in _BOTH:
                made = plans(import_module(f"placement.algorithms.{name}").schedule(problem))
            else:
                made = (load(name)(problem),)
        except InfeasibleError as error:
            asked.failed.append(error)
            continue
        for plan in made:
            if all(device in allowed for device, allowed in zip(plan.device, problem.allowed, strict=True)):
                asked.found.append(Listed(name, completed(problem, plan)))
                tell(asked.found[-1])
    return asked


def fitting(ops: int, devices: int, effort: Effort) -> tuple[str, ...]:
    """The names of the algorithms that are asked, for a step of so many ops: as many as fit into half of a time that
    is given, so that the search has the other half. Else they may take a second, or what a number of placements takes.
    """
    names, left_s = list(ALWAYS), max(seconds_of(effort, ops), _LEAST_S)
    if effort.seconds is not None:
        left_s = effort.seconds * _SHARE - ops * _ALWAYS_US / 1e6
    for name, (of_op, of_device) in PAPERS.items():
        left_s -= ops * (of_op + of_device * devices) / 1e6
        if left_s >= 0:
            names.append(name)
    return tuple(names)
