"""The mind: algorithms that decide which device runs each node."""

from __future__ import annotations

from simulator.exporting import exported

TYPE_CHECKING = False  # as in `typing`, which takes long to load
if TYPE_CHECKING:
    from placement.judging import verdict as verdict
    from placement.placing import ALGORITHMS as ALGORITHMS
    from placement.placing import place as place
    from placement.problem import Plan as Plan
    from placement.problem import Problem as Problem
    from placement.problem import topological as topological
    from placement.programs import clients as clients

# name -> module that holds it
_EXPORTS = {
    "ALGORITHMS": "placement.placing",
    "Plan": "placement.problem",
    "Problem": "placement.problem",
    "clients": "placement.programs",
    "place": "placement.placing",
    "topological": "placement.problem",
    "verdict": "placement.judging",
}

__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
