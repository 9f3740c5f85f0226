"""The timeline of a step: its trace, the reasons of the placement, and the memory of each device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.assignment import RULES
from simulator.columns import Ints
from simulator.costs.table import SOURCES
from viz.figures import price_sources
from viz.scene import Scene
from viz.timeline.timeline import Counter, Facts, Timeline, of_trace
from viz.transfers import DrawnClient


def step_timeline(scene: Scene) -> Timeline:
    """The timeline of the step of a scene, with a counter for the memory of each device."""
    trace, graph, cluster = scene.trace, scene.graph, scene.cluster
    sources = price_sources(scene)
    drawn = of_trace(trace, cluster, [DrawnClient(scene.title, graph, scene.partitions)])

    def facts(row: int) -> Facts:
        found, op = drawn.facts(row), int(drawn.slices.op[row])
        if op < 0:
            return found
        node, iteration = int(scene.partitions.origin[trace.ops.node[op]]), trace.iterations[trace.ops.iteration[op]]
        nbytes = graph.tensor_bytes[graph.outputs(node)]
        found["output bytes"] = int(np.maximum(nbytes, 0).sum())
        found["why here"] = RULES[scene.assignment.why[node]]
        found["cost"] = SOURCES[sources[node]]
        if iteration:
            found["iteration"] = ", ".join(map(str, iteration))
        return found

    return replace(drawn, facts=facts, counters=memory_counters(scene))


def memory_counters(scene: Scene) -> tuple[Counter, ...]:
    """The memory in use on each device, in the cluster's order."""
    trace, found = scene.trace, []
    for row, device in enumerate(scene.cluster.devices):
        mine = np.flatnonzero(trace.memory_device == row)
        times: Ints = trace.memory_time_ns[mine]
        name, before = f"memory {device.short}", int(trace.resident_bytes[row])
        found.append(Counter(name, device.task, before, times, trace.memory_bytes[mine]))
    return tuple(found)
