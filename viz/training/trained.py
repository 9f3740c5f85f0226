"""A training that was run: all its values side by side, for whoever prints or draws them."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.training.answers.answers import Answers
from simulator.training.answers.bottleneck import Bottleneck
from simulator.training.answers.memory_bounds import MemoryBounds
from simulator.training.answers.scaling import Row
from simulator.training.crew.combining import Client
from simulator.training.disturbances.disturbed import Disturbed
from simulator.training.regimes import Regime
from simulator.training.training import Training
from viz.training.asked import Wanted


@dataclass(frozen=True, eq=False)
class Trained:
    """Programs that ran side by side, and what became of it."""

    wanted: Wanted
    replication: str  # how the programs were made, in words
    regime: Regime | None  # with its defaults; None: steps that wait for nobody
    regime_in_words: str
    clients: tuple[Client, ...]  # [C] of `training`: those of the programs, then background traffic
    disturbed: Disturbed  # what the tasks met
    training: Training
    answers: Answers
    bottleneck: Bottleneck
    memory: MemoryBounds
    steps: int  # that were simulated
    narrow: bool | None = None  # the confidence interval is as narrow as was asked; None: nothing was asked
    scaling: tuple[Row, ...] = ()

    @property
    def workers(self) -> int:
        """Clients whose steps train."""
        return int(self.training.is_worker.sum())
