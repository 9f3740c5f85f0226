"""The mind: algorithms that decide which device runs each node."""

from __future__ import annotations

from simulator.exporting import exported

_EXPORTS = {"ALGORITHMS": "placement.placing", "place": "placement.placing"}  # name -> module that holds it

__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
