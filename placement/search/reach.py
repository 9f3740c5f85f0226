"""The devices that a search may use, and those among them that do the work."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from placement.problem import Problem


def within_reach(problem: Problem) -> list[int]:
    """The devices that groups with a choice may use; all devices where there are no such groups."""
    choice = problem.may[problem.may.sum(axis=1) > 1]
    found: list[int] = np.flatnonzero(choice.any(axis=0)).tolist()
    return found or list(range(len(problem.cpu)))


def working(problem: Problem) -> list[int]:
    """The devices within reach other than CPUs; all within reach where there are fewer than two."""
    reach = within_reach(problem)
    found = [device for device in reach if not problem.cpu[device]]
    return found if len(found) > 1 else reach


def narrowed(problem: Problem, devices: Collection[int]) -> Problem:
    """The problem with these devices alone; a group that may use none of them has the first one of its own."""
    fewer = {allowed: tuple(one for one in allowed if one in devices) for allowed in set(problem.allowed)}
    return replace(problem, allowed=[fewer[allowed] or allowed[:1] for allowed in problem.allowed])
