"""The window: the command as one call, and pictures of a placed graph and of its step."""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] or (sys.argv[:1] and sys.argv[0].endswith(("/simviz", "\\simviz"))):
    # `python -m viz`, or the installed command: nothing is begun, so Ctrl-C ends it without Python's traceback.
    # The module `signal` loads others, and in a moment that it takes Ctrl-C may come.
    import _signal  # type: ignore[import-not-found]  # CPython's own, without type hints

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # a shell's background job ignores it
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from simulator.lazy import drawers, exported

TYPE_CHECKING = False  # as in `typing`, which takes long to load
if TYPE_CHECKING:
    from viz.bench.bench import run_bench as run_bench
    from viz.bench.options import read_bench as read_bench
    from viz.command.library import Result as Result
    from viz.command.library import run as run
    from viz.difference.difference import Difference as Difference
    from viz.difference.difference import compare as compare
    from viz.formats.dot import draw_graph as draw_graph
    from viz.formats.graphml import to_networkx as to_networkx
    from viz.formats.tables import to_tables as to_tables
    from viz.formats.trace_events import draw_timeline as draw_timeline
    from viz.page.report import draw_report as draw_report

# name -> module that holds it
_EXPORTS = {
    "Difference": "viz.difference.difference",
    "Result": "viz.command.library",
    "compare": "viz.difference.difference",
    "draw_graph": "viz.formats.dot",
    "draw_report": "viz.page.report",
    "draw_timeline": "viz.formats.trace_events",
    "read_bench": "viz.bench.options",
    "run": "viz.command.library",
    "run_bench": "viz.bench.bench",
    "to_networkx": "viz.formats.graphml",
    "to_tables": "viz.formats.tables",
}


def _drawn(value: object, run: object) -> str:
    """A value as HTML for a notebook."""
    from importlib import (
        import_module,
    )  # as for the names above: the page and all that it needs is loaded at its first use

    html: str = import_module("viz.notebook").shown(value, run)
    return html


drawers.append(_drawn)
__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
