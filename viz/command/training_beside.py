"""Placements of a training that are no search's: a training is never much slower for being searched."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.assignment import Assignment
from simulator.errors import SimvizError
from simulator.progress import Say
from simulator.wording import counted
from viz.command.ingredients import Ingredients
from viz.command.one_step import Simulated, of_own, placed, simulated
from viz.command.request import SEARCH, Request

if TYPE_CHECKING:
    from viz.command.training_run import Setup

_BESIDE, _QUICKER = "whitepaper", 1.01  # what replaces a search whose training is that many times as slow


def set_up_training(
    request: Request, given: Ingredients, assignment: Assignment, made: Simulated, say: Say
) -> Setup | None:
    """The clients of a training, of which the first is placed so; None where nothing is trained."""
    wanted, first = given.training, (assignment, made.partitions)
    if wanted is None or not request.trains:
        return None
    from viz.command.training_run import set_up  # late: most runs train nothing

    say(f"placing and cutting {counted(len(wanted.programs), 'client')}")
    return set_up(request, wanted.source, say, given.cluster, wanted.programs, wanted.costs, first)


def trained_quicker(
    request: Request, given: Ingredients, assignment: Assignment, setup: Setup, say: Say
) -> tuple[Request, Assignment, Simulated, Setup] | None:
    """The training under the placements of `_BESIDE`, where it is quicker by far enough than under the searched ones.

    A search judges one step of one client alone. What it gains there may cost more where several wait for each other.
    None: the searched ones stay, or nothing was searched, or there is one client.
    """
    if request.algorithm != SEARCH or not request.fallback or len(setup.clients) < 2:
        return None
    from viz.command.training_run import short_rate

    beside = replace(request, algorithm=_BESIDE)
    try:
        other = placed(replace(beside, check=False), given, say)
        if np.array_equal(other.device, assignment.device):
            return None
        made = of_own(beside, given, lambda own: simulated(own, given, other, say))
        theirs = set_up_training(beside, given, other, made, say)
        assert theirs is not None
        say(f"training by {other.used} and by {SEARCH}")
        rates = short_rate(theirs), short_rate(setup)
        if rates[0] <= _QUICKER * rates[1]:
            return None
    except SimvizError:  # what was searched is there
        return None
    quick, slow = (f"{rate:.4g} steps/s" for rate in rates)
    note = (
        f"a short training by {other.used} has {quick}, by {SEARCH} {slow}, so all clients are placed by {other.used}"
    )
    return beside, replace(other, asked=SEARCH, notes=(*other.notes, note)), made, theirs
