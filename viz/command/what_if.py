"""The changes of `--what-if`, and the runs with them: each is the run of a request that differs in one figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from placement.algorithms import searches
from simulator import limits
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.contention import CONTENTIONS
from simulator.cluster.notation import is_notation, neighbours
from simulator.cluster.protocols import PROTOCOLS
from simulator.cluster.scaling import scaled
from simulator.columns import ids
from simulator.costs.estimates.collectives import without_ring
from simulator.costs.table import MEASURED, PROFILED
from simulator.errors import SimvizError
from simulator.execution.memory import attained, out_of_memory
from simulator.execution.simulate import simulate
from simulator.execution.trace import Trace
from simulator.partitioning.partitions import Partitions
from simulator.progress import Say, silent
from simulator.training.recognition.batch import batch_of
from simulator.units import show_nanos
from simulator.wording import counted, some
from viz.command.ingredients import Ingredients, changed_inputs, repriced
from viz.command.one_step import placed, simulated
from viz.command.request import Request
from viz.figures import price_sources
from viz.scene import Scene
from viz.what_if import AGAIN, KEPT, LEAST_SHARE, WhatIf, WhatIfRow, ranked

FACTORS = (Fraction(1, 2), Fraction(2))


@dataclass(frozen=True, slots=True)
class WhatIfChange:
    """A request that differs from the user's in one figure."""

    what: str
    before: str
    after: str
    request: Request
    cluster: Cluster | None = None  # in place of the one of the request
    batch: int | None = None
    examples: Fraction = Fraction(1)  # in a step, as a multiple
    again: bool = False  # other devices: placed again, and kept only where nothing of it is gone


def what_if(request: Request, given: Ingredients, scene: Scene, say: Say) -> WhatIf:
    """Run the step with each change, on the scene's placement where the request keeps it."""
    assert request.what_if is not None
    rows, placements = [], list[Assignment]()
    for change in changes(request, given):
        say(f"what if: {change.what} {change.after}")
        rows.append(_row(change, given, scene, placements))
    notes = [*_measured(scene), *_missed(request, given, scene, placements)]
    return ranked(int(scene.trace.makespan), request.what_if, rows, notes, scene.unsized)


def changes(request: Request, given: Ingredients) -> Iterator[WhatIfChange]:
    """All changes: each figure of the cluster halved and doubled, the batch, the devices, protocol and contention."""
    for factor in FACTORS:
        for one in scaled(given.cluster, factor):
            yield WhatIfChange(one.what, one.before, one.after, request, one.cluster)
    batch = _batch(request, given)
    for factor in FACTORS:
        new = batch * factor
        if 1 <= new <= limits.COUNT.most and new.denominator == 1:
            yield WhatIfChange("batch", str(batch), str(new), request, given.cluster, int(new), factor)
    described = given.cluster.name if request.cluster is None else request.cluster
    if isinstance(described, str) and is_notation(described):
        for part, new_part, text in neighbours(described):
            yield WhatIfChange("devices", part, new_part, replace(request, cluster=text), again=True)
    cluster, used = given.cluster, given.cluster.between_tasks
    for name, protocol in PROTOCOLS.items():
        if len(cluster.tasks) > 1 and name != used.name:
            yield WhatIfChange("protocol", used.name, name, request, replace(cluster, between_tasks=protocol))
    options = request.simulation
    for contention in CONTENTIONS:
        if contention != options.contention and cluster.links:
            other = replace(request, simulation=replace(options, contention=contention))
            yield WhatIfChange("contention", options.contention, contention, other, cluster)


def _batch(request: Request, given: Ingredients) -> int:
    """The number of examples as `--batch` counts it; 0: the graph does not say, or shapes are given one by one."""
    if request.feeds or given.observed is not None or given.training is not None:
        return 0
    return request.batch or batch_of(given.graph, given.step, ())[1]


def _row(change: WhatIfChange, given: Ingredients, scene: Scene, placements: list[Assignment]) -> WhatIfRow:
    """Run one change; what can't be placed or run says why. A placement that a search finds joins `placements`.

    A search knows the placement of the run, too: it is the result where the search finds none that is quicker.
    """
    request, before = change.request, scene.trace.makespan
    again, searching = change.again or request.what_if == AGAIN, searches(change.request.algorithm)
    row = WhatIfRow(change.what, change.before, change.after, AGAIN if again else KEPT, change.again, None, None, None)
    try:
        if again or change.batch is not None or change.cluster is None:
            inputs = changed_inputs(request, given, cluster=change.cluster, batch=change.batch)
        else:
            inputs = repriced(request, given, change.cluster)
        same_nodes = inputs.graph.names == given.graph.names  # of another batch Grappler may make others
        if change.batch is not None and not same_nodes:
            again, row = True, replace(row, placement=AGAIN, other_devices=True)
        if change.again and (lost := _without_ring(inputs, given)):
            return replace(row, refused=f"it lacks devices or links for the group of {some(lost)}")
        request = request.having(given.observed)
        assignment = placed(request, inputs, silent) if again else scene
        found = _run(request, inputs, assignment)
        if isinstance(assignment, Assignment) and searching and same_nodes:
            placements.append(assignment)
        known = _moved(scene.assignment, scene, inputs) if again and (searching or request.what_if == KEPT) else None
        if known is not None:
            same = _run(request, inputs, known)
            if _rank(same, inputs) <= _rank(found, inputs):
                found, row = same, replace(row, placement=KEPT)
    except SimvizError as error:
        return replace(row, refused=str(error))
    partitions, trace = found
    full = out_of_memory(trace, partitions, inputs.cluster)
    share = trace.makespan / before if before else 1.0
    return replace(
        row,
        makespan_ns=int(trace.makespan),
        change=share - 1,
        change_per_example=float(share / change.examples) - 1,
        out_of_memory="" if full is None else str(full),
    )


def _without_ring(inputs: Ingredients, given: Ingredients) -> list[str]:
    """The collectives whose members have a ring on the given cluster, and none on the one of `inputs`."""
    if without_ring(given.graph, given.cluster):
        return []  # they move nothing, whatever is changed
    return without_ring(inputs.graph, inputs.cluster)


def _rank(found: tuple[Partitions, Trace], inputs: Ingredients) -> tuple[bool, int]:
    """Whether a step lacks memory, and its makespan: the less, the better."""
    _, trace = found
    return attained(trace, inputs.cluster)


def _moved(assignment: Assignment, scene: Scene, given: Ingredients) -> Assignment | None:
    """An assignment of the scene's graph on another cluster; None: that lacks a device of it, or has copies of its own.

    An algorithm may place a step worse on more devices. That is no reason to say that these make it slower.
    """
    if (scene.graph.names, scene.graph.requested) != (given.graph.names, given.graph.requested):
        return None  # the model is copied for each of other devices, or its variables are on other tasks
    row_of = {device.name: row for row, device in enumerate(given.cluster.devices)}
    rows = [row_of.get(name, -1) for name in assignment.devices]
    device = ids(np.array(rows)[assignment.device])
    if (device < 0).any():
        return None
    return replace(assignment, devices=tuple(row_of), device=device, constraints=None)


def _run(request: Request, given: Ingredients, kept: Scene | Assignment) -> tuple[Partitions, Trace]:
    """The step on the placement of a scene, or by an assignment."""
    if isinstance(kept, Scene) and kept.graph is given.graph and kept.received is None and kept.enforced is None:
        pieces = kept.partitions  # times play no part in a cut
        return pieces, simulate(pieces, given.cluster, given.costs, request.simulation)
    kept = kept.assignment if isinstance(kept, Scene) else kept
    made = simulated(request, given, kept, silent)
    return made.partitions, made.trace


def _missed(request: Request, given: Ingredients, scene: Scene, placements: list[Assignment]) -> list[str]:
    """A note where the step without a change is quicker on a placement that was found for a row.

    The search missed it for the run. So much of the rows that are quicker may be its chance.
    """
    known = [one for one in placements if one.devices == scene.assignment.devices]
    moved = [one for one in (_moved(one, scene, given) for one in known) if one is not None]
    asked = request.having(given.observed)
    ranks = [_rank(_run(asked, given, one), given) for one in moved]
    own = _rank((scene.partitions, scene.trace), given)
    full, took = min(ranks, default=own)
    gain = took / own[1] - 1 if own[1] else 0.0
    if full or gain > -LEAST_SHARE:
        return []
    return [
        f"A placement that was found for a row takes {show_nanos(took)} ({gain:+.1%}) without its change. "
        "So much of each gain may be the search's chance; a larger --budget has less of it."
    ]


def _measured(scene: Scene) -> list[str]:
    """A note on ops whose time no figure of a device changes."""
    source = price_sources(scene)[scene.step.runs]
    whence = {"measured": MEASURED, "by the profile": PROFILED}
    fixed = {said: int(np.count_nonzero(source == of)) for said, of in whence.items() if (source == of).any()}
    parts = [f"the times of {counted(nodes, 'node')} are {said}" for said, nodes in fixed.items()]
    return [f"{' and '.join(parts).capitalize()}: no figure of a device changes them."] * bool(parts)
