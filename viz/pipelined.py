"""A step in microbatches over stages, beside the plain one: what was made, what was tried, and what it brought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.training.pipelines.building import Pipeline
from simulator.units import Nanos, show_nanos


@dataclass(frozen=True, slots=True)
class TriedPipeline:
    """A step with so many microbatches over so many stages; 1 and 0: the plain one."""

    microbatches: int
    order: str
    stages: int  # 0: also where it was refused
    makespan_ns: Nanos | None = None  # None: it could not be made, or be placed
    fits: bool = True  # no device runs out of memory
    refused: str = ""  # why it could not

    def __str__(self) -> str:
        if self.makespan_ns is None:
            return f"{self.microbatches}: refused"
        over = f" over {self.stages}" if self.stages else ""
        return f"{self.microbatches}{over}: {show_nanos(self.makespan_ns)}{'' if self.fits else ' without room'}"


@dataclass(frozen=True, eq=False)
class Pipelined:
    """The pipeline of a run, or the plain step where none was better."""

    made: Pipeline | None  # None: the plain step is shown
    best: TriedPipeline | None = None  # of those that were tried
    tried: tuple[TriedPipeline, ...] = ()  # the plain one first; empty: their number was given

    def sentence(self) -> str:
        """The pipeline in a sentence, with what it gains where others were tried."""
        others = ", ".join(map(str, self.tried[1:]))
        if self.made is None:
            refused = {one.refused for one in self.tried[1:]}
            if all(refused) and refused:
                return f"no pipeline was made, and the plain step is shown: {min(refused)}"
            return f"the plain step is shown, as no number of microbatches is better ({others})"
        if self.best is None or not self.best.makespan_ns:
            return str(self.made)
        plain = self.tried[0]
        took = plain.makespan_ns or 0
        room = "" if plain.fits else ", without room"
        gain = f", {took / self.best.makespan_ns:.3g} times as long" if plain.fits else ""
        return f"{self.made}; plain {show_nanos(took)}{gain}{room} (tried {others})"

    def facts(self) -> Mapping[str, Any]:
        """The object in the JSON. Any: JSON."""
        made = self.made
        return {
            "microbatches": 1 if made is None else made.microbatches,
            "examples": None if made is None else made.examples,
            "order": None if made is None else made.order,
            "stages": [] if made is None else list(made.stages),
            "held": [] if made is None else [made.held(stage) for stage in range(len(made.stages))],
            "tried": [
                {
                    "microbatches": one.microbatches,
                    "order": one.order or None,
                    "stages": one.stages,
                    "makespan_ns": one.makespan_ns,
                    "fits": one.fits,
                    "refused": one.refused or None,
                }
                for one in self.tried
            ],
        }
