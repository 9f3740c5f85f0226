"""Placement: algorithms that decide which device runs each node."""

from __future__ import annotations

from simulator.lazy import exported

TYPE_CHECKING = False  # as in `typing`, which takes long to load
if TYPE_CHECKING:
    from placement.effort import Effort as Effort
    from placement.placing import ALGORITHMS as ALGORITHMS
    from placement.placing import place as place
    from placement.plan import Plan as Plan
    from placement.plan import verdict as verdict
    from placement.problem import Problem as Problem
    from placement.refining import Refinement as Refinement
    from placement.refining import refine as refine
    from placement.sessions import clients as clients

# name -> module that holds it
_EXPORTS = {
    "ALGORITHMS": "placement.placing",
    "Effort": "placement.effort",
    "Plan": "placement.plan",
    "Problem": "placement.problem",
    "Refinement": "placement.refining",
    "clients": "placement.sessions",
    "place": "placement.placing",
    "refine": "placement.refining",
    "verdict": "placement.plan",
}

__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
