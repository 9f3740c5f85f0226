"""The outline of a scene."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from simulator.errors import SimvizError
from simulator.execution.trace import Kind
from simulator.units import Bytes
from viz import figures, training_figures
from viz.difference.circumstances import circumstances, made_of
from viz.difference.outline import (
    CROSSING,
    MEMORY,
    MESSAGE,
    OP,
    REQUEST,
    Crossing,
    DeviceUse,
    Outline,
    PathPart,
)
from viz.difference.step_facts import step_facts
from viz.scene import Scene

_KINDS: Mapping[int, str] = {
    Kind.OP: OP,
    Kind.REQUEST: REQUEST,
    Kind.PACK: MESSAGE,
    Kind.LINK: CROSSING,
    Kind.FLOW: CROSSING,
    Kind.LATENCY: CROSSING,
    Kind.UNPACK: MESSAGE,
}


def outline(scene: Scene) -> Outline:
    """The outline of a scene; of a training, that of the step that it shows."""
    graph, trace = scene.graph, scene.trace
    used = {
        row.name: DeviceUse(int(peak), int(busy))
        for row, peak, busy in zip(
            scene.cluster.devices, trace.peak_bytes.tolist(), trace.busy_ns.tolist(), strict=True
        )
    }
    return Outline(
        title=scene.title,
        algorithm=scene.assignment.used,
        cluster=scene.cluster.name,
        makespan_ns=int(trace.makespan),
        placement=dict(zip(graph.names, scene.assignment.placed_on, strict=True)),
        crossings=_crossings(scene),
        link_bytes=link_bytes(scene),
        devices=used,
        path=path_parts(scene),
        label=scene.label,
        circumstances=circumstances(
            scene.step.fetches,
            figures.fed_shapes(scene),
            asdict(figures.simulation(scene)),
            step_facts(scene),
            _made(scene),
            scene.out_of_memory is None,
        ),
        unsized=scene.unsized,
        taking_part=frozenset(graph.names[row] for row in np.flatnonzero(figures.taking_part(scene)).tolist()),
    )


def _made(scene: Scene) -> Mapping[str, str]:
    """The training, the microbatches and the sources of times."""
    pipeline = None if scene.pipelined is None else scene.pipelined.made
    counts = figures.counts(scene)
    return made_of(
        regime=None if scene.training is None else training_figures.regime(scene.training),
        microbatches=1 if pipeline is None else pipeline.microbatches,
        observed_nodes=0 if scene.observed is None else len(scene.observed.nodes),
        measured_ops=counts["measured_costs"],
        profiled_ops=counts["profile_costs"],
        modelled_ops=counts["model_costs"],
    )


def _crossings(scene: Scene) -> Mapping[str, Crossing]:
    moved = figures.transfers(scene)
    times, nbytes = Counter[int](), Counter[int]()
    for tensor, size in zip(moved.tensor.tolist(), moved.nbytes.tolist(), strict=True):
        times[tensor] += 1
        nbytes[tensor] += max(0, size)
    return {figures.tensor_label(scene, tensor): Crossing(times[tensor], nbytes[tensor]) for tensor in sorted(times)}


def link_bytes(scene: Scene) -> Mapping[str, Bytes]:
    """Link -> bytes that cross it in a step, in the cluster's order; links without any are left out."""
    links = scene.cluster.links
    total = figures.transfers(scene).link_bytes(len(links)).tolist()
    return {link.name: size for link, size in zip(links, total, strict=True) if size}


def path_parts(scene: Scene) -> tuple[PathPart, ...]:
    """The critical path by subject, in order of first tasks; subjects without time are left out.

    Raise SimvizError if the trace has no critical path: a recorded training has none.
    """
    trace, tasks = scene.trace, scene.trace.tasks
    if trace.critical is None:
        raise SimvizError("A critical path is that of one step; compare results whose trace is that of a step.")
    places: dict[tuple[str, str], Counter[str]] = {}
    members: dict[tuple[str, str], set[int]] = {}
    narrowest, alone = _NarrowestLink(scene), len(scene.cluster.tasks) == 1  # then "GPU:0" says it all
    shorts = [one.short.rpartition("/")[2] if alone else one.short for one in scene.cluster.devices]
    rows = trace.critical
    took = tasks.end_ns[rows] - tasks.start_ns[rows]
    rows, took = rows[took > 0], took[took > 0]
    columns = (tasks.kind[rows], tasks.of[rows], tasks.resource[rows], took)
    for kind, of, resource, ns in zip(*(column.tolist() for column in columns), strict=True):
        if kind == Kind.OP:
            subject = scene.graph.names[scene.partitions.origin[trace.instances.node[of]]]
        else:
            subject = figures.tensor_label(scene, int(scene.partitions.tensor[trace.transfers.row[of]]))
        key = (_KINDS[kind], subject)
        if key[0] in (OP, MESSAGE):
            place = shorts[resource]
        else:
            place = scene.cluster.links[resource - tasks.devices].name if kind == Kind.LINK else narrowest.of(of)
        places.setdefault(key, Counter())[place] += ns
        members.setdefault(key, set()).add(of)
    return tuple(
        PathPart(*key, place=found.most_common(1)[0][0], times=len(members[key]), ns=found.total())
        for key, found in places.items()
    )


class _NarrowestLink:
    """The slowest link of a transfer's route, the first of equal ones: the place of what is on none of them alone."""

    def __init__(self, scene: Scene) -> None:
        self._links, self._moved = scene.cluster.links, figures.transfers(scene)

    def of(self, transfer: int) -> str:
        route = [self._links[row] for row in self._moved.routes[int(self._moved.route[transfer])]]
        return min(route, key=lambda link: link.bytes_per_s).name if route else MEMORY
