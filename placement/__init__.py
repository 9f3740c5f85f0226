"""The mind: algorithms that decide which device runs each node."""

from __future__ import annotations

from simulator.exporting import exported

# name -> module that holds it
_EXPORTS = {"ALGORITHMS": "placement.placing", "clients": "placement.programs", "place": "placement.placing"}

__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
