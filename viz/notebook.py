"""Values in a notebook: a line that says what it is, and the page of its run in a frame.

A result is a run. Its graph, assignment, trace and training are shown by it; so is a difference, whose page has both
runs. A graph of which there is no run yet is placed as its device strings ask. Where frames are left out, as by a
notebook that is not trusted, the line remains; where there is no HTML at all, `repr` does.
"""

from __future__ import annotations

import html
from dataclasses import replace

from simulator.errors import SimvizError
from simulator.graph.graph import Graph
from viz.difference.difference import Difference
from viz.difference.trainings import TrainingDifference
from viz.page.report import draw_report
from viz.scene import Scene

FRAME_HEIGHT = 720  # pixels of the page in a notebook


def shown(value: object, run: object) -> str:
    """The value as HTML; `run` is the one that it is a part of, None if it is unknown or gone."""
    if isinstance(value, Difference | TrainingDifference):
        return _difference(value)
    if isinstance(value, Scene):
        return _framed(f"{value!r}. The report itself: result.write('report.html').", value)
    if isinstance(run, Scene):
        return _framed(f"{value!r}, a part of {run!r}.", run)
    if isinstance(value, Graph):
        return _graph(value)
    return _line(f"{value!r}. A value that viz.run made is drawn here, as long as its result is kept.")


def _framed(says: str, scene: Scene) -> str:
    """A line, and the page in a frame that may run nothing but its own script."""
    page = html.escape(draw_report(scene), quote=True)
    frame = f'<iframe sandbox="allow-scripts" title="Report" width="100%" height="{FRAME_HEIGHT}" srcdoc="{page}">'
    return f"{_line(says)}{frame}</iframe>"


def _line(says: str) -> str:
    return f"<p>{html.escape(says)}</p>"


def _difference(value: Difference | TrainingDifference) -> str:
    """The page of both runs, if both are known; else the sentences."""
    first, second = value.runs
    if isinstance(first, Scene) and isinstance(second, Scene):
        return _framed(f"{value!r}.", replace(second, against=first))
    return "".join(map(_line, (f"{value!r}.", *str(value).splitlines())))


def _graph(graph: Graph) -> str:
    """The graph as its device strings ask for it, on the cluster that they name; else why this can't be done."""
    from viz.command.library import run

    try:
        scene = run(graph, algorithm="requested")
    except SimvizError as error:
        return _line(f"{graph!r}. It can't be drawn: {error}")
    return _framed(f"{graph!r}, placed as its device strings ask on {scene.cluster.name}.", scene)
