"""Ask the real TensorFlow where it places the nodes of a graph, and how it cuts the step by device.

The cluster decides which TensorFlow can answer:

    one process of CPUs             a local session with as many CPU devices
    one process with GPUs, and      a real session on them
      this machine has as many
    any other                       a real master over stand-in workers that claim the cluster's devices

A real master can own only CPUs. If the session's task has GPUs, a task `standin_client` with one CPU is added to the
cluster to hold the master. TensorFlow prefers devices of the master's own task to remote ones of the same type. So an
answer about placement then holds for the cluster with that task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simulator.cluster.devicespec import LOCAL_TASK
from simulator.cluster.master import STANDIN_CLIENT, can_hold_master, with_client
from simulator.comparison.cut_nodes import FILE_NAMES, LARGE_BYTES, without_value
from simulator.errors import OracleError
from simulator.graph.graph_def import all_nodes, graph_def
from simulator.graph.inlining.expanding import isolated
from simulator.graph.messages import GraphDef
from simulator.graph.step import is_tensor
from simulator.oracle import child
from simulator.oracle.child import Asking, pack, unpack
from simulator.oracle.machine import gpus
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step

LOCAL = "local session"
STAND_INS = "stand-in workers"
GPUS = "real GPUs"
_NO_FILE = b"ram://none"  # TensorFlow's file system in the memory of its process; no path at all would kill a kernel
TIMEOUT_S = 120.0  # TensorFlow's import takes 2 to 10 s, a graph of 20,000 nodes 10 s more


@dataclass(frozen=True, eq=False)
class DryRun:
    """The placement and the partition that TensorFlow made; nothing was run."""

    oracle: str  # LOCAL, STAND_INS or GPUS
    tensorflow: str  # its version
    placement: Mapping[str, str]  # node name -> full device name, in the order of TensorFlow's placement log
    # GraphDef messages: one per device, but STAND_INS one per task (a master cuts by task, the workers cut further), of
    # the master's own task one per device
    partitions: tuple[Any, ...] = ()
    # STAND_INS: one per device, as TensorFlow's own workers cut the pieces that they got: those of the master's task,
    # and of all tasks to which `dry_run` gave a real worker
    worker_partitions: tuple[Any, ...] = ()
    refusal: str | None = None  # TensorFlow's own sentence; placement and partitions are then empty or partial
    added_task: str | None = None  # the task that was added to the cluster, to hold the master
    bodies: int = 0  # lines of the log about bodies of calls, which TensorFlow's runtime places by itself

    def __repr__(self) -> str:
        placed = self.refusal or f"{counted(len(self.placement), 'node')} placed"
        return repr_of(self, f"TensorFlow {self.tensorflow} with {self.oracle}", placed)


def ask(question: bytes, timeout_s: float) -> bytes:
    """Ask `session` in a process of its own, which leaves nothing behind."""
    with conversation() as asking:
        return asking(question, timeout_s)


def conversation() -> AbstractContextManager[Asking]:
    """TensorFlow in a process that stays, with the servers of each cluster, for many questions:

        with conversation() as asking:
            for graph in graphs:
                seen = dry_run(graph, cluster, step=choose_step(graph), asking=asking)

    A question that fails (OracleError) leaves the next one a fresh process.
    """
    return child.conversation("simulator.oracle.session")


def dry_run(
    graph: Graph,
    cluster: Cluster,
    *,
    step: Step,
    soft: bool = True,
    devices: Sequence[str] | None = None,
    real_workers: bool = False,
    recv_scheduling: bool = False,
    timeout_s: float = TIMEOUT_S,
    asking: Asking = ask,
) -> DryRun:
    """Have TensorFlow place the graph on the cluster and cut the step; nothing of the graph is run.

    TensorFlow does not get a graph that was made by `lower`: it gets the original and lowers it by itself.
    `devices` gives a device string per node, which replaces the requested one. `asking` puts a question to `session`:
    in a process of its own, unless the caller has one that it trusts (`conversation`). With `real_workers` each task
    that has CPUs alone gets a real worker, and `worker_partitions` holds its cut of the piece that it got:

        seen = dry_run(graph, load_cluster("ps=1x2cpu,worker=2x2cpu"), step=step, real_workers=True)
        seen.partitions          # the master's cut, by task: `_S` names
        seen.worker_partitions   # the workers' cuts, by device: `_G` names

    `recv_scheduling` sets the option `enable_recv_scheduling`; TensorFlow dies of it where anything is pruned or
    copied, or an output is not read. A graph that TensorFlow refuses gives a DryRun with `refusal`. Raises
    OracleError if TensorFlow is missing, fails or takes longer than `timeout_s`. Raises it for `devices` of a graph to
    which TensorFlow would add nodes of its own (`isolated`).
    """
    if devices is not None and (added := isolated(graph).names[len(graph) :]):
        raise OracleError(
            f"TensorFlow puts {len(added)} Identities around kept calls that hand back resources, "
            f"such as {added[0]!r}; no device can be written into these. Ask about the graph with calls expanded."
        )
    handed = graph.lowered.given if graph.lowered is not None and devices is None else graph
    message = _without_file_names(without_large_values(graph_def(handed, devices=devices)))
    content = message.SerializeToString(deterministic=True)
    question = {"soft": soft, "step": _callable(graph, step), "tasks": [], "master": ""}
    question["recv_scheduling"] = recv_scheduling
    here = _own_session(cluster)
    if here is not None:
        found = _asked(asking, graph, content, {**question, "counts": here}, timeout_s)
        if found is not None:
            return DryRun(oracle=GPUS if here["GPU"] else LOCAL, **found)
    cluster = _with_master(cluster)
    master = cluster.client_task
    if odd := [task for task in cluster.tasks if "/replica:0/" not in task]:
        raise OracleError(f"TensorFlow's servers are all of replica 0, so none can be {odd[0]}; number tasks instead.")
    claimed: dict[str, list[tuple[str, str, int]]] = {task: [] for task in cluster.tasks}
    for one in cluster.devices:
        claimed[one.task].append((one.name, one.type, one.memory_bytes))
    cpus = len(claimed.pop(master))
    tasks = [
        {"name": task, "devices": own, "real": real_workers and can_hold_master(replace(cluster, master=task))}
        for task, own in claimed.items()
    ]
    found = _asked(
        asking, graph, content, {**question, "counts": {"CPU": cpus}, "tasks": tasks, "master": master}, timeout_s
    )
    if found is None:
        raise OracleError("TensorFlow could not make the CPU devices that it was asked for; report this as a bug.")
    return DryRun(oracle=STAND_INS, added_task=master if master == STANDIN_CLIENT else None, **found)


def extended(cluster: Cluster) -> Cluster:
    """The cluster that TensorFlow is asked about: with an added task for the master where no other can hold it.

    To compare TensorFlow's placement with a prediction, predict for this cluster. The routes to the added task are
    hand-overs and mean nothing: time is not compared.
    """
    return cluster if _own_session(cluster) is not None else _with_master(cluster)


def _with_master(cluster: Cluster) -> Cluster:
    return cluster if can_hold_master(cluster) else with_client(cluster)


def without_large_values(message: Any) -> Any:
    """The same GraphDef with large constants all zero: no rule of placing or cutting looks at more than their size."""
    for node in all_nodes(message):
        if node.op == "Const" and node.attr["value"].ByteSize() > LARGE_BYTES:
            node.attr["value"].CopyFrom(without_value(node.attr["value"]))
    return message


def _without_file_names(message: Any) -> Any:
    """The same GraphDef without files: a local session makes the kernels, and a few open a file as they are made."""
    for node in all_nodes(message):
        for name in FILE_NAMES.get(node.op, ()):
            if name in node.attr:
                node.attr[name].s = _NO_FILE
    return message


def _asked(
    asking: Asking, graph: Graph, message: bytes, facts: dict[str, Any], timeout_s: float
) -> dict[str, Any] | None:
    """The fields of a DryRun from TensorFlow's process; None: TensorFlow does not see the GPUs asked for."""
    reply, blobs = unpack(asking(pack(facts, [message]), timeout_s))
    if not reply["enough"]:
        return None
    placement, bodies = _logged(graph, reply["placement"])
    pieces = tuple(GraphDef.FromString(blob) for blob in blobs)
    sent = pieces[: reply["sent"]]
    cut = tuple(sorted(pieces[reply["sent"] :], key=lambda piece: piece.node[0].device))  # workers answer in any order
    behind = {task["name"] for task in facts["tasks"] if task["real"]}
    return {
        "tensorflow": reply["tensorflow"],
        "placement": placement,
        "bodies": bodies,
        "partitions": (*sent, *(piece for piece in cut if piece.node[0].device.partition("/device:")[0] not in behind)),
        "worker_partitions": cut if facts["master"] else (),
        "refusal": reply["refusal"],
    }


def _logged(graph: Graph, lines: Sequence[tuple[str, str, str]]) -> tuple[dict[str, str], int]:
    """The placer's log of the graph, and how many lines follow it.

    Bodies of calls are placed when the runtime makes their kernels: later, and under names that may be those of nodes.
    """
    placement: dict[str, str] = {}
    left = len(graph)
    for at, (name, _, device) in enumerate(lines):
        if not left:
            return placement, len(lines) - at
        left -= name in graph.index and name not in placement
        placement[name] = device
    return placement, 0


def _own_session(cluster: Cluster) -> dict[str, int] | None:
    """Devices per type if a session of one process on this machine has the cluster's devices, by their names too."""
    counts = {kind: sum(one.type == kind for one in cluster.devices) for kind in ("CPU", "GPU")}
    if counts["CPU"] == 0 or local_devices(counts) != set(cluster.index):
        return None
    return counts if not counts["GPU"] or counts["GPU"] <= gpus() else None


def local_devices(counts: Mapping[str, int]) -> set[str]:
    """The names of the devices of a session without a cluster, given the number of each type."""
    return {f"{LOCAL_TASK}/device:{kind}:{number}" for kind, count in counts.items() for number in range(count)}


def _callable(graph: Graph, step: Step) -> dict[str, list[str]]:
    """The step as TensorFlow's CallableOptions; sorted, as Session.run would sort them."""
    return {
        "feed": list(step.feeds),
        "fetch": [name for name in step.fetches if is_tensor(graph, name)],
        "target": [name for name in step.fetches if not is_tensor(graph, name)],
    }
