"""The window: pictures of a placed graph and of its step."""

from __future__ import annotations

from simulator.exporting import exported

# name -> module that holds it
_EXPORTS = {"draw_graph": "viz.dot", "draw_report": "viz.report", "draw_timeline": "viz.timeline"}

__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
