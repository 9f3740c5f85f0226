"""The window: the command as one call, and pictures of a placed graph and of its step."""

from __future__ import annotations

from simulator.exporting import exported

TYPE_CHECKING = False  # as in `typing`, which takes long to load
if TYPE_CHECKING:
    from viz.calling import Result as Result
    from viz.calling import run as run
    from viz.dot import draw_graph as draw_graph
    from viz.report import draw_report as draw_report
    from viz.timeline import draw_timeline as draw_timeline

# name -> module that holds it
_EXPORTS = {
    "Result": "viz.calling",
    "draw_graph": "viz.dot",
    "draw_report": "viz.report",
    "draw_timeline": "viz.timeline",
    "run": "viz.calling",
}

__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
