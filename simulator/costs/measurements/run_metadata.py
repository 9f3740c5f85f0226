"""The two messages of times that a session fills into RunMetadata, each of them also alone.

    StepStats       one line per node and device, as a session traces its step
    CostGraphDef    nodes with the longest time of each in whole microseconds, where `build_cost_model` is set

On a CPU an op's time is `op_end - op_start`, as in `tensorflow/core/graph/costmodel.cc`. The REGAL data set (Paliwal et
al. 2019) has its graphs as CostGraphDef, in text:
https://github.com/google-deepmind/deepmind-research/tree/master/regal. Its nodes name no device. A cost of 0 is that of
a node that did not run or took less than a microsecond; it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from simulator.costs.measured import ANYWHERE, Sample
from simulator.costs.measurements.runs import ON_GPU, Run, samples_of, without_mkl
from simulator.errors import ClusterError
from simulator.graph.messages import Proto
from simulator.units import Nanos

STEP_STATS, COST_GRAPH = "StepStats", "CostGraphDef"
_US = 1000  # nanoseconds of a microsecond
STREAMS = "/stream:all"  # all streams of a GPU; "/stream:7" says the same again, "/memcpy" is no op
DEVICE = re.compile(r"(?i)^(/job:[^/]+/replica:\d+/task:\d+)?/(device:)?(cpu|gpu):\d+$")
# "name = Op(inputs)", behind "[cpu 1.5MB 2.0MB] " of an op with memory of its own
_LABEL = re.compile(r"(?:\[[^\]]*\] ?)?\S+ = (\w+)\(")


def of_step_stats(stats: Proto) -> Iterable[Sample]:
    """The samples of a StepStats, which is of one step: what ran several times is in a loop, and its mean counts.

    By the median a loop would be too fast, as the first of its iterations take longer.
    """
    runs: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples_of(_runs(stats)):
        runs.setdefault((sample.node, sample.where), []).append(sample)
    for found in runs.values():
        least, total = min(one.ns for one in found), sum(one.ns for one in found)
        # a time below zero is the reader's to refuse
        yield replace(found[0], ns=least if least < 0 else -(-total // len(found)), runs=len(found))


def holds_times(stats: Proto) -> bool:
    """Whether a message that was read as StepStats is one."""
    return any(device.node_stats and "/" in device.device for device in stats.dev_stats)


def device_of(name: str) -> tuple[str, bool] | None:
    """The device of a line's place, and whether that is its streams; None for a place that runs no ops."""
    if name.endswith(STREAMS) and ON_GPU.search(name):
        return name.removesuffix(STREAMS), True
    return (name, False) if DEVICE.match(name) else None


def _runs(stats: Proto) -> Iterable[Run]:
    for device in stats.dev_stats:
        place = device_of(device.device)
        for node in device.node_stats if place is not None else ():
            assert place is not None
            # the GPU tracer writes "name:Op"
            name, _, op = node.node_name.partition(":")
            labelled = _LABEL.match(node.timeline_label)
            yield Run(name, without_mkl(labelled[1] if labelled else op), place[0], _run_ns(node), place[1])


def _run_ns(node: Proto) -> Nanos:
    if node.op_end_rel_nanos:
        return int(node.op_end_rel_nanos - node.op_start_rel_nanos)
    return _US * int(node.op_end_rel_micros - node.op_start_rel_micros)


# --- CostGraphDef -----------------------------------------------------------------------------------------------------


def of_cost_graph(message: Proto, label: str) -> Iterable[Sample]:
    """The samples of a CostGraphDef. Raises ClusterError for one that names nodes which it lacks: it was cut."""
    _check_whole(message, label)
    for node in message.node:
        if node.compute_cost:
            yield Sample(node.name, node.device or ANYWHERE, _US * int(node.compute_cost))


def has_costs(message: Proto) -> bool:
    """Whether a message that was read as a CostGraphDef is one."""
    return any(node.name and node.compute_cost for node in message.node)


def _check_whole(message: Proto, label: str) -> None:
    known = {node.id for node in message.node}
    for node in message.node:
        needed = (*(one.preceding_node for one in node.input_info), *node.control_input)
        missing = next((one for one in needed if one not in known), None)
        if missing is not None:
            raise ClusterError(
                f"{label}: {node.name!r} reads node {missing}, which the CostGraphDef lacks: it was cut. Fetch it again"
            )
