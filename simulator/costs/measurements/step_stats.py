"""StepStats, alone or in a RunMetadata: one line per node and device, as a session traces its step.

On a CPU an op's time is `op_end - op_start`, as in `tensorflow/core/graph/costmodel.cc`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from simulator.costs.measured import Sample
from simulator.costs.measurements.runs import ON_GPU, Run, samples_of, without_mkl
from simulator.graph.messages import Proto
from simulator.units import Nanos

FORM = "StepStats"
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
    return 1000 * int(node.op_end_rel_micros - node.op_start_rel_micros)
