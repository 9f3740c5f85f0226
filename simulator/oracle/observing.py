"""Ask the real TensorFlow where it places the nodes of a graph, and how it cuts the step by device.

Which TensorFlow can answer depends on the cluster:

    one process of CPUs             a local session with as many CPU devices
    one process with GPUs, and      a real session on them
      this machine has as many
    any other                       a real master over stand-in workers that claim the cluster's devices

A real master can own only CPUs. If the task that the session would connect to has GPUs, a task `standin_client` with
one CPU is added to the cluster to hold the master. TensorFlow prefers devices of the master's own task to remote ones
of the same type, so an answer about placement is then one for the cluster with that task.
"""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.errors import OracleError
from simulator.graph.exporting import graph_def
from simulator.graph.messages import GraphDef
from simulator.oracle.child import pack, run, unpack
from simulator.oracle.measurement import GPUS, LOCAL, STAND_INS, Measurement

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step

LOCALHOST = "/job:localhost/replica:0/task:0"
STANDIN_CLIENT = "/job:standin_client/replica:0/task:0"
TIMEOUT_S = 120.0  # TensorFlow's import takes 2 to 10 s, a graph of 20,000 nodes 10 s more
_CHIEFS = ("chief", "master", "worker")  # jobs whose first task a client connects to, by custom


def observe(
    graph: Graph,
    cluster: Cluster,
    *,
    step: Step,
    soft: bool = True,
    devices: Sequence[str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Measurement:
    """Have TensorFlow place the graph on the cluster and cut the step; nothing of the graph is run.

    `devices` gives a device string per node, which replaces the requested one. A graph that TensorFlow refuses gives a
    Measurement with `refusal`. Raises OracleError if TensorFlow is missing, fails or takes longer than `timeout_s`.
    """
    message = graph_def(graph, devices=devices).SerializeToString(deterministic=True)
    question = {"soft": soft, "feeds": _feeds(graph, step), "targets": _targets(step), "tasks": [], "master": ""}
    here = _counts(cluster)
    if here is not None and here.get("GPU", 0) <= len(glob("/dev/nvidia[0-9]*")):
        found = _ask(message, {**question, "counts": here}, timeout_s)
        if found is not None:
            return Measurement(oracle=GPUS if here.get("GPU") else LOCAL, **found)
    master, cpus, added = _master(cluster)
    tasks = [
        {
            "name": task,
            "devices": [(one.name, one.type, one.memory_bytes) for one in cluster.devices if one.task == task],
        }
        for task in cluster.tasks
        if task != master
    ]
    found = _ask(message, {**question, "counts": {"CPU": cpus}, "tasks": tasks, "master": master}, timeout_s)
    if found is None:
        raise OracleError("TensorFlow could not make the CPU devices that it was asked for; report this as a bug.")
    return Measurement(oracle=STAND_INS, added_task=master if added else None, **found)


def _ask(message: bytes, facts: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
    """The fields of a Measurement from the child process; None: TensorFlow does not see the GPUs asked for."""
    told, graphs = unpack(run("simulator.oracle.session", pack(facts, [message]), timeout_s=timeout_s))
    if not told["enough"]:
        return None
    return {
        "tensorflow": told["tensorflow"],
        "placement": {name: device for name, _, device in told["placement"]},
        "partitions": tuple(GraphDef.FromString(graph) for graph in graphs),
        "refusal": told["refusal"],
    }


def _counts(cluster: Cluster) -> dict[str, int] | None:
    """Devices per type if the cluster is one localhost process whose devices a plain session would have."""
    counts = {kind: sum(one.type == kind for one in cluster.devices) for kind in ("CPU", "GPU")}
    plain = {f"{LOCALHOST}/device:{kind}:{number}" for kind, count in counts.items() for number in range(count)}
    return counts if plain == set(cluster.index) and counts["CPU"] else None


def _master(cluster: Cluster) -> tuple[str, int, bool]:
    """The task that holds the master, how many CPUs it has, and whether it had to be added to the cluster."""
    first = cluster.tasks[0]
    for job in reversed(_CHIEFS):
        first = next((task for task in cluster.tasks if task.startswith(f"/job:{job}/")), first)
    own = [one for one in cluster.devices if one.task == first]
    plain = {f"{first}/device:CPU:{number}" for number in range(len(own))}
    if plain == {one.name for one in own}:
        return first, len(own), False
    return STANDIN_CLIENT, 1, True


def _targets(step: Step) -> list[str]:
    """Nodes that the step ends with: as targets, not fetches, for what is fetched crosses to the client's device."""
    return sorted({name.partition(":")[0] for name in step.fetches})


def _feeds(graph: Graph, step: Step) -> list[str]:
    """Fed tensors whose nodes would need inputs. Another fed node may stand in its own place, as nothing is run."""
    indegree = np.diff(graph.in_ptr)
    return [name for name in step.feeds if indegree[graph.row(name.partition(":")[0])]]
