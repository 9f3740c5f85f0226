"""The changes of `--what-if`, and the runs with them: each is the run of a request that differs in one figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

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
from simulator.execution.memory import out_of_memory
from simulator.execution.simulate import simulate
from simulator.execution.trace import Trace
from simulator.partitioning.partitions import Partitions
from simulator.progress import Say, silent
from simulator.training.recognition.batch import batch_of
from simulator.wording import counted, some
from viz.command.ingredients import Ingredients, changed_inputs, repriced
from viz.command.one_step import placed, simulated
from viz.command.request import Request
from viz.scene import Scene
from viz.what_if import AGAIN, KEPT, WhatIf, WhatIfRow, ranked

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
    rows = []
    for change in changes(request, given):
        say(f"what if: {change.what} {change.after}")
        rows.append(_row(change, given, scene))
    assert request.what_if is not None
    return ranked(int(scene.trace.makespan), request.what_if, rows, _notes(scene), scene.unsized)


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


def _row(change: WhatIfChange, given: Ingredients, scene: Scene) -> WhatIfRow:
    """Run one change; what can't be placed or run says why."""
    request, before = change.request, scene.trace.makespan
    kept = None if change.again or request.what_if == AGAIN else scene
    row = WhatIfRow(change.what, change.before, change.after, KEPT if kept else AGAIN, change.again, None, None, None)
    try:
        if kept is None or change.batch is not None or change.cluster is None:
            inputs = changed_inputs(request, given, cluster=change.cluster, batch=change.batch)
        else:
            inputs = repriced(request, given, change.cluster)
        if change.again and (lost := _without_ring(inputs, given)):
            return replace(row, refused=f"it lacks devices or links for the group of {some(lost)}")
        request = request.having(given.observed)
        found = _run(request, inputs, kept)
        if change.again and request.what_if == KEPT and (moved := _moved(scene, inputs)) is not None:
            same = _run(request, inputs, moved)
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
    partitions, trace = found
    return out_of_memory(trace, partitions, inputs.cluster) is not None, int(trace.makespan)


def _moved(scene: Scene, given: Ingredients) -> Assignment | None:
    """The same assignment on another cluster; None: that lacks one of its devices, or has copies of its own.

    An algorithm may place a step worse on more devices. That is no reason to say that these make it slower.
    """
    assignment = scene.assignment
    if (scene.graph.names, scene.graph.requested) != (given.graph.names, given.graph.requested):
        return None  # the model is copied for each of other devices, or its variables are on other tasks
    row_of = {device.name: row for row, device in enumerate(given.cluster.devices)}
    rows = [row_of.get(name, -1) for name in assignment.devices]
    device = ids(np.array(rows)[assignment.device])
    if (device < 0).any():
        return None
    return replace(assignment, devices=tuple(row_of), device=device, constraints=None)


def _run(request: Request, given: Ingredients, kept: Scene | Assignment | None) -> tuple[Partitions, Trace]:
    """The step on the placement of a scene, by an assignment, or placed again."""
    if isinstance(kept, Scene) and kept.graph is given.graph and kept.received is None:
        pieces = kept.partitions  # times play no part in a cut
        return pieces, simulate(pieces, given.cluster, given.costs, request.simulation)
    kept = kept.assignment if isinstance(kept, Scene) else kept
    assignment = placed(request, given, silent) if kept is None else kept
    partitions, trace, _ = simulated(request, given, assignment, silent)
    return partitions, trace


def _notes(scene: Scene) -> list[str]:
    """A note on ops whose time no figure of a device changes."""
    fixed = int(np.count_nonzero(np.isin(scene.costs.source[scene.step.runs], (MEASURED, PROFILED))))
    return [f"The times of {counted(fixed, 'node')} are measured: no figure of a device changes them."] * bool(fixed)
