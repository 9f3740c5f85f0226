"""Steps of a placed graph on a real cluster of local processes, and what its ops took there.

    this process ── question ──▶ client's task: TensorFlow's server, the master and its session
                                    │ gRPC, 127.0.0.1
                                 a process per other task: TensorFlow's server

Each process has one thread for ops, and a core of its own where there are enough. The graph is executed, so it must be
trusted. All processes lie in one group, which is killed whole (`child.conversation`).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from simulator.costs.measured import MeasuredTimes, fitted
from simulator.costs.measurements.reading import from_step_stats
from simulator.errors import OracleError
from simulator.graph.graph_def import placed_graph_def
from simulator.graph.messages import StepStats
from simulator.oracle import child, peers, servers
from simulator.oracle.session import configuration, made_up, prepare, sentence
from simulator.oracle.timing import question_of
from simulator.oracle.variables import fill, initialise, is_filled
from simulator.units import show_nanos
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step
    from simulator.units import Nanos

MOST_TASKS = 16  # each is a process with a TensorFlow of its own: 250 MB
WARM_STEPS = 95  # a new session takes every kernel to be expensive for some 90
MOST_STEPS = 50
_WARM_SHARE = 0.4  # of the time that a placement has
_LEAST_STEPS = 5
_TRIES = 3  # to start all servers: between its reservation and its use another program may take a port


@dataclass(frozen=True, eq=False)
class RealSteps:
    """Steps of one placement without tracing, and the times of its ops, fitted to them."""

    steps_ns: tuple[Nanos, ...]
    measured: MeasuredTimes

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.steps_ns), "step"), f"{show_nanos(self.step_ns)} in the median")

    @property
    def step_ns(self) -> Nanos:
        """The median."""
        return round(statistics.median(self.steps_ns))

    @property
    def noise_ns(self) -> Nanos:
        """Half of the distance between the quartiles."""
        low, _, high = statistics.quantiles(self.steps_ns, n=4)
        return round((high - low) / 2)


Running: TypeAlias = Callable[[Sequence[str]], RealSteps]  # a device per node -> the steps


@contextmanager
def real_cluster(
    graph: Graph, cluster: Cluster, *, step: Step, seconds: float = 2.0, timeout_s: float = 120.0
) -> Iterator[Running]:
    """The cluster's tasks as processes of this machine, for as long as the block lasts.

    It yields a function that runs the step on given devices for about `seconds`, and at least five times. Fed tensors
    get made-up values, and so do variables without an initialiser. Raises OracleError for a cluster with a GPU, with
    another replica or with too many tasks. The function raises it if TensorFlow is missing, refuses the graph, or needs
    longer than `timeout_s`.
    """
    _check(cluster)
    master = cluster.client_task
    tasks = [master, *(task for task in cluster.tasks if task != master)]
    counts = {task: sum(device.task == task for device in cluster.devices) for task in tasks}
    asked = {**question_of(graph, step), "tasks": counts, "seconds": seconds, "step_timeout_s": timeout_s / 2}
    with child.conversation("simulator.oracle.placed_steps") as ask:

        def run(devices: Sequence[str]) -> RealSteps:
            message = placed_graph_def(graph, devices).SerializeToString(deterministic=True)
            reply, blobs = child.unpack(ask(child.pack(asked, [message]), timeout_s))
            if reply["not_run"] is not None:
                raise OracleError(f"{graph.source}: TensorFlow did not run the step: {reply['not_run']}")
            traced = from_step_stats(StepStats.FromString(blobs[0]), f"a traced step of {graph.source}")
            return RealSteps(
                tuple(reply["steps_ns"]),
                fitted(traced, round(statistics.median(reply["steps_ns"])), max(counts.values())),
            )

        yield run


def _check(cluster: Cluster) -> None:
    if any(device.type != "CPU" for device in cluster.devices):
        raise OracleError(f"{cluster.name} has GPUs, and a cluster of local processes has CPUs alone; leave them out")
    if odd := [task for task in cluster.tasks if "/replica:0/" not in task]:
        raise OracleError(f"TensorFlow's servers are all of replica 0, so none can be {odd[0]}; number tasks instead")
    if len(cluster.tasks) > MOST_TASKS:
        raise OracleError(f"{cluster.name} would need {len(cluster.tasks)} processes, and {MOST_TASKS} are the most")


# --- in the child processes ------------------------------------------------------------------------------------------


class _Task:
    """The client's process: its target, once its server and those of all others serve."""

    def __init__(self) -> None:
        self.target = ""

    def answer(self, question: bytes) -> bytes:
        """Run a placed GraphDef: `steps_ns`, and StepStats as a blob; or `not_run`, the reason why there are none."""
        facts, (graph,) = child.unpack(question)
        if not self.target:
            self.target = _serve(facts["tasks"])
        steps, stats, refusal = _steps(self.target, graph, facts)
        return child.pack({"steps_ns": steps, "not_run": refusal}, () if stats is None else (stats,))


def _serve(tasks: Mapping[str, int]) -> str:
    """Start a process per other task, then the server of this one; return the session's target.

    TensorFlow shares no port, so each is free for a moment before its server has it. Where one was taken, all begin
    anew on other ports. This process has its server last, as it can't be stopped.
    """
    for left in reversed(range(_TRIES)):
        others = [peers.start("simulator.oracle.placed_steps") for _ in list(tasks)[1:]]
        try:
            return _served(tasks, others)
        except OracleError:
            for peer in others:
                peer.kill()
                peer.wait()
            if not left:
                raise
    raise AssertionError("unreachable")


def _served(tasks: Mapping[str, int], others: Sequence[subprocess.Popen[bytes]]) -> str:
    names = list(tasks)
    cores = sorted(os.sched_getaffinity(0))
    own = dict(zip(names, cores, strict=False)) if len(cores) >= len(names) > 1 else {}
    if own:
        os.sched_setaffinity(0, {own[names[0]]})
    _prepare()
    import tensorflow as tf  # now: its threads are as many as the cores; and where it is missing, no peer dies of that

    with servers.reserved() as kept:
        ports = [kept.getsockname()[1], *(peers.port_of(peer) for peer in others)]
        addresses = {task: f"127.0.0.1:{port}" for task, port in zip(names, ports, strict=True)}
        for name, peer in zip(names[1:], others, strict=True):
            peers.begin(peer, name, addresses, core=own.get(name), cpus=tasks[name])
        try:
            server = servers.start_reserved(names[0], addresses, kept, cpus=tasks[names[0]])
        except tf.errors.OpError as error:
            raise OracleError(f"a server of the cluster could not start: {sentence(error)}") from None
    return str(server.target)


def _prepare() -> None:
    prepare(gpus=False)
    del os.environ["GRPC_POLL_STRATEGY"]  # no socket is exchanged here, and as it comes a hop takes less time


def _steps(target: str, graph: bytes, facts: Mapping[str, Any]) -> tuple[list[int], bytes | None, str | None]:
    """Steps without tracing and the StepStats of one with it, or why there are none."""
    import tensorflow as tf

    config = configuration(soft=False)
    config.operation_timeout_in_ms = int(1000 * facts["step_timeout_s"])
    try:
        fed = {name: made_up(name, dtype, shape) for name, dtype, shape in facts["feeds"]}
        with tf.Graph().as_default() as found:
            tf.import_graph_def(tf.compat.v1.GraphDef.FromString(graph), name="")
            asked = [is_filled(found, name) for name, _, _ in facts["variables"]]
        with tf.compat.v1.Session(target, graph=found, config=config) as session:
            wanted = [*facts["fetches"], *(found.get_operation_by_name(name) for name in facts["targets"])]
            until = time.monotonic() + facts["step_timeout_s"]
            with found.as_default():
                initialise(session, facts["first"], until)
                fill(session, facts["variables"], asked, until)
            untraced = session.make_callable(wanted, list(fed))
            _timed(untraced, fed, facts["seconds"] * _WARM_SHARE, WARM_STEPS)
            steps = _timed(untraced, fed, facts["seconds"] * (1 - _WARM_SHARE), MOST_STEPS)
            options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
            for _ in range(2):  # the first of them traces how its pieces are made, too
                traced = tf.compat.v1.RunMetadata()
                session.run(wanted, fed, options, traced)
    except tf.errors.DeadlineExceededError:  # TensorFlow's own sentence speaks of a notification
        return [], None, "it did not end in time; it may wait for a queue that nobody fills"
    except (tf.errors.OpError, ValueError, TypeError, KeyError) as error:  # the importer and numpy raise the others
        return [], None, sentence(error)
    return steps, traced.step_stats.SerializeToString(deterministic=True), None


def _timed(step: Any, fed: Mapping[str, Any], seconds: float, most: int) -> list[int]:
    """Nanoseconds of each of at most so many steps, within the time, but no fewer than five."""
    took: list[int] = []
    deadline = time.monotonic() + seconds
    while len(took) < most and (len(took) < _LEAST_STEPS or time.monotonic() < deadline):
        begun = time.perf_counter_ns()
        step(*fed.values())
        took.append(time.perf_counter_ns() - begun)
    return took


if __name__ == "__main__":
    if sys.argv[1:] == [peers.ARGUMENT]:
        peers.be_peer(_prepare)
    child.serve(_Task().answer)
