"""Compare what simviz says of a graph with what the real TensorFlow does."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from simulator.checking import assignment_laws, graph_laws, partition_laws
from simulator.comparison import Comparison, compare
from simulator.oracle.measurement import STAND_INS, Measurement
from simulator.oracle.observing import TIMEOUT_S, observe

if TYPE_CHECKING:
    from simulator.assignment import Assignment
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step
    from simulator.partitioning.partitions import Partitions

MODES = ("predict", "pin")


def check(
    graph: Graph,
    cluster: Cluster,
    assignment: Assignment,
    partitions: Partitions,
    step: Step,
    *,
    mode: str,
    soft: bool = True,
    timeout_s: float = TIMEOUT_S,
) -> dict[str, Any]:
    """Ask TensorFlow and count where it agrees: the `check` of the JSON.

    "predict": does it place and cut this graph as we say? "pin": with our device written into every node, and hard
    placement, does it accept the placement and cut the graph as we say? The agreement of partitions counts nodes and
    transfers, whose inputs, devices and kinds are compared without regard to the names of inserted nodes; with
    stand-in workers, which show the cut by task, transfers are those between tasks. A graph that TensorFlow refuses
    agrees nowhere, and `refused` holds its sentence. `laws` are the laws that our own result breaks. Raises OracleError
    if TensorFlow is missing or does not answer.

    TensorFlow is asked about `extended(cluster)`; a prediction should be one for that cluster. `added_task` is the task
    that was added for TensorFlow's master, or None.
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
    pinned = [assignment.name_of(row) for row in range(len(graph))] if mode == "pin" else None
    seen = observe(graph, cluster, step=step, soft=soft and mode == "predict", devices=pinned, timeout_s=timeout_s)
    placement, partition = differences(graph, assignment, partitions, seen)
    return {
        "mode": mode,
        "oracle": seen.oracle,
        "tensorflow": seen.tensorflow,
        "added_task": seen.added_task,
        "placement": {"agree": placement.agree, "of": placement.of},
        "partition": {"agree": partition.agree, "of": partition.of},
        "differences": [asdict(one) for one in (*placement.differences, *partition.differences)],
        "laws": [
            *graph_laws(graph),
            *assignment_laws(graph, assignment, cluster),
            *partition_laws(graph, step, cluster, assignment, partitions),
        ],
        "refused": seen.refusal,
    }


def differences(
    graph: Graph, assignment: Assignment, partitions: Partitions, seen: Measurement
) -> tuple[Comparison, Comparison]:
    """Placement and partition beside what was observed; all differs, without a list, if TensorFlow refused."""
    refused = seen.refusal is not None
    placement = compare(assignment, {} if refused else seen.placement, graph=graph)
    by = "task" if seen.oracle == STAND_INS else "device"
    partition = compare(partitions, () if refused else seen.partitions, graph=graph, by=by)
    if refused:
        return Comparison(0, placement.of, 0, ()), Comparison(0, partition.of, 0, ())
    return placement, partition
