"""Tasks of a cluster: those that train, those that keep variables, and graphs moved from one task to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from simulator.cluster.cluster import Cluster, Device
from simulator.cluster.device_strings import with_devices
from simulator.cluster.devicespec import LOCALHOST, DeviceSpec, parse
from simulator.cluster.master import rows_by_task, short_task
from simulator.errors import ClusterError, GraphError
from simulator.graph.graph import Graph
from simulator.units import Bytes, Nanos

_PS = "ps"
CHIEFS = ("chief", "master")  # TF_CONFIG's jobs of one task, which trains like a worker and has more to do
WORKERS = (*CHIEFS, "worker")  # TF_CONFIG's jobs that train
_Kind: TypeAlias = tuple[str, str, str, Bytes]
_Wires: TypeAlias = tuple[tuple[int, Nanos], ...]  # bandwidth and latency of each link of a route
_APART = frozenset((_PS, "evaluator", "standin_client"))


def in_graph_text(task: str) -> str:
    """ "/job:worker/task:3" of a task, or of a device of it: as device strings of graphs name it."""
    spec = parse(task)
    return str(spec._replace(replica=None) if spec.replica == 0 else spec)


def of_task(spec: DeviceSpec) -> DeviceSpec:
    """Job, replica and task alone; replica 0 where it is left out."""
    return DeviceSpec(spec.job, spec.replica or 0, spec.task)


def ps_tasks(cluster: Cluster) -> tuple[str, ...]:
    """The tasks that keep variables, in order of their numbers."""
    return tuple(sorted((task for task in cluster.tasks if parse(task).job == _PS), key=lambda task: parse(task)))


def shared_by(cluster: Cluster) -> list[str]:
    """The ps tasks as graphs name them."""
    return [in_graph_text(task) for task in ps_tasks(cluster)]


def worker_tasks(cluster: Cluster) -> tuple[str, ...]:
    """The tasks that train: chief, master and worker; where no job is called so, all but ps and evaluator.

    Raises ClusterError for a cluster without any.
    """
    jobs = {parse(task).job for task in cluster.tasks}
    train = [job for job in WORKERS if job in jobs] or sorted(str(job) for job in jobs - _APART)
    tasks = tasks_of(cluster, train)
    if not tasks:
        raise ClusterError(f"{cluster.name!r} has no worker: it needs a task that trains, such as worker=2.")
    return tuple(tasks)


def tasks_of(cluster: Cluster, jobs: Iterable[str | None]) -> list[str]:
    """The tasks of these jobs, job by job."""
    return [task for job in jobs for task in cluster.tasks if parse(task).job == job]


def computing(cluster: Cluster, tasks: Sequence[str]) -> list[str]:
    """The devices that train of those tasks, as graphs name them: all GPUs, or CPU:0 of each where there is no GPU."""
    of_task = _devices_by_task(cluster)
    devices = [device for task in tasks for device in of_task[task]]
    gpus = [device.name for device in devices if device.type == "GPU"]
    return [in_graph_text(name) for name in gpus] or [_first_cpu(cluster, task, of_task[task]) for task in tasks]


def first_cpu(cluster: Cluster, task: str) -> str:
    """The first CPU of a task, as graphs name it. Raises ClusterError for a task without one."""
    return _first_cpu(cluster, task, _devices_by_task(cluster)[task])


def _first_cpu(cluster: Cluster, task: str, devices: Sequence[Device]) -> str:
    name = next((device.name for device in devices if device.type == "CPU"), None)
    if name is None:
        raise ClusterError(
            f"the task {short_task(task)} of {cluster.name!r} has no CPU, which keeps what no GPU holds; give it one."
        )
    return in_graph_text(name)


def _devices_by_task(cluster: Cluster) -> dict[str, list[Device]]:
    """The devices of each task, in the cluster's order."""
    return {task: [cluster.devices[row] for row in rows] for task, rows in rows_by_task(cluster).items()}


def first_identical(cluster: Cluster, tasks: Sequence[str], doing: Sequence[int]) -> list[int | None]:
    """For each of the tasks the index of the first one of its job that has identical devices and wires and does the
    same. None: it is the first itself.
    """
    rows_of = rows_by_task(cluster)
    first: dict[tuple[int, str, tuple[_Kind, ...], tuple[_Wires, ...]], int] = {}
    found = []
    for row, (task, what) in enumerate(zip(tasks, doing, strict=True)):
        job, kinds = str(parse(task).job), tuple(_kind(cluster.devices[own]) for own in rows_of[task])
        found.append(first.setdefault((what, job, kinds, _wires(cluster, task, rows_of)), row))
    return [None if at == row else at for row, at in enumerate(found)]


def _kind(device: Device) -> _Kind:
    """The facts on a device that placement and the cut depend on."""
    return device.name.partition("/device:")[2], device.type, device.kind, device.memory_bytes


def _wires(cluster: Cluster, task: str, rows_of: Mapping[str, Sequence[int]]) -> tuple[_Wires, ...]:
    """Speeds of the routes within a task, and from and to tasks of other jobs: an algorithm may place by them."""
    job, mine = parse(task).job, rows_of[task]
    others = [row for other, rows in rows_of.items() if parse(other).job != job for row in rows]
    pairs = [*product(mine, mine), *product(mine, others), *product(others, mine)]
    routes = [cluster.routes[source][target] or () for source, target in pairs]
    return tuple(
        tuple((cluster.links[link].bytes_per_s, cluster.links[link].latency_ns) for link in route) for route in routes
    )


# ---- graphs moved from one task to another --------------------------------------------------------------------------


def moved(graph: Graph, task: DeviceSpec, other: DeviceSpec) -> Graph:
    """The graph with `other` (job, replica, task) wherever a node asks for `task`, in the bodies of functions, too."""
    if task == other:
        return graph
    return with_devices(graph, lambda text: moved_text(text, task, other), bodies=True)


def moved_text(text: str, task: DeviceSpec, other: DeviceSpec) -> str:
    """A device string with `other` in place of `task`; one that names another task, or none, as it stands."""
    spec = parse(text)
    if of_task(spec) != of_task(task):
        return text
    replica = other.replica if spec.replica is not None or other.replica else None
    return str(spec._replace(job=other.job, replica=replica, task=other.task))


def without_localhost(graph: Graph) -> Graph:
    """The graph with no node asking for the task that a session has without a cluster; types and numbers stay."""

    def bare(text: str) -> str:
        spec = parse(text)
        return str(spec._replace(job=None, replica=None, task=None)) if spec.job == LOCALHOST else text

    return with_devices(graph, bare)


def check_devices(graph: Graph) -> None:
    """Raise GraphError for a device string that cannot be read, with the node that has it."""
    for row, text in enumerate(graph.requested):
        try:
            parse(text)
        except ClusterError as error:
            name = graph.names[row]
            raise GraphError(f"{graph.source}: {error} (node {name!r})", node=name) from None
