"""A run with another one beside it: what `--against` names, and the rows of `--compare`.

Both runs read the graph, the costs and the cluster once where they share them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from placement.algorithms import TABLE
from placement.plugins import find
from simulator.cluster.description import load_cluster
from simulator.costs.calibration import read_measurement
from simulator.errors import GraphError, InfeasibleError, SimvizError
from simulator.wording import near
from viz.command import stages
from viz.command.ingredients import read_inputs
from viz.command.request import Request
from viz.difference.difference import compare
from viz.difference.earlier import is_result, read_result
from viz.difference.outline import Outline
from viz.difference.scene_outline import outline
from viz.difference.scores import ScoreRow, ScoreTable, score
from viz.scene import Scene

_Say = Callable[[str], None]


def run(request: Request, say: _Say = lambda stage: None) -> Scene:
    """Run a request, with the outline of the run that it is compared with, if it names one.

    Raise what `stages.run` raises, and SimvizError where `--against` names nothing that can be run or read.
    """
    wanted = request.against
    if wanted is None:
        return stages.run(request, say)
    alone = replace(request, against=None)
    other = _other(alone, wanted)  # a mistake is told before anything takes long
    given = read_inputs(alone, say)
    scene = stages.run(alone, say, given)
    if isinstance(other, Request):
        shared = given if other.cluster == alone.cluster and other.costs == alone.costs else None
        try:
            found = outline(stages.run(replace(other, check=False, log=None), say, shared))
        except SimvizError as error:
            error.args = (f"--against {wanted}: {error}",)
            raise
        other = replace(found, label=stages.shown(wanted))
    return replace(scene, against=other)


def candidates(request: Request, algorithms: tuple[str, ...], say: _Say = lambda stage: None) -> ScoreTable:
    """A row for each of these algorithms, in this order.

    Raise what `stages.run` raises, but for an algorithm that can't place the graph, whose row says why.
    """
    given = read_inputs(request, say)
    entries: list[ScoreRow] = []
    first: Outline | None = None
    for name in algorithms:
        try:
            scene = stages.run(replace(request, algorithm=name), say, given)
        except (InfeasibleError, GraphError) as error:
            entries.append(ScoreRow(name, None, str(error)))
            continue
        this = replace(outline(scene), label=name)
        lines: tuple[str, ...] = ()
        if first is None:
            first = this
        else:
            against = str(compare(first, this)).splitlines()
            lines = (f"{name}: {against[0][0].lower()}{against[0][1:]}", *against[1:])
        entries.append(ScoreRow(name, score(scene), explained=lines))
    return ScoreTable(stages.title(request), given.cluster.name, tuple(entries))


def _other(request: Request, wanted: str) -> Request | Outline:
    """The request of the other run, or its outline if it was run before."""
    if wanted in TABLE:
        return replace(request, algorithm=wanted)
    if Path(wanted).is_file():
        return _from_file(request, wanted)
    try:
        load_cluster(wanted)
    except SimvizError as error:
        try:
            find(wanted, tuple(TABLE))
        except SimvizError:
            said = f"--against {wanted}: no algorithm ({', '.join(TABLE)}), and {error}"
            raise SimvizError(f"{said}{near(wanted, tuple(TABLE))}") from None
        return replace(request, algorithm=wanted)
    return replace(request, cluster=wanted)


def _from_file(request: Request, path: str) -> Request | Outline:
    """A file is an earlier result, else a cluster, else measured times."""
    if is_result(path):
        return replace(read_result(path), label=stages.shown(Path(path).name))
    try:
        load_cluster(path)
    except SimvizError as no_cluster:
        try:
            read_measurement(path)
        except SimvizError as no_costs:
            raise SimvizError(
                f"--against {path}: this file is no cluster ({no_cluster}), and holds no measured times ({no_costs})."
            ) from None
        return replace(request, costs=(path,))
    return replace(request, cluster=path)
