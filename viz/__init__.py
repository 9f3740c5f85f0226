"""The window: the command as one call, and pictures of a placed graph and of its step."""

from __future__ import annotations

from simulator.lazy import exported

TYPE_CHECKING = False  # as in `typing`, which takes long to load
if TYPE_CHECKING:
    from viz.command.library import Result as Result
    from viz.command.library import run as run
    from viz.formats.dot import draw_graph as draw_graph
    from viz.formats.trace_events import draw_timeline as draw_timeline
    from viz.page.report import draw_report as draw_report

# name -> module that holds it
_EXPORTS = {
    "Result": "viz.command.library",
    "draw_graph": "viz.formats.dot",
    "draw_report": "viz.page.report",
    "draw_timeline": "viz.formats.trace_events",
    "run": "viz.command.library",
}

__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
