"""Which tasks of a cluster train, and which keep the variables."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.cluster.cluster import Cluster, Device
from simulator.cluster.devicespec import parse
from simulator.errors import ClusterError

_PS = "ps"
_WORKERS = ("chief", "master", "worker")  # TF_CONFIG's jobs that train; the chief is a worker, too
_APART = frozenset((_PS, "evaluator", "standin_client"))


def in_graph_text(task: str) -> str:
    """ "/job:worker/task:3" of a task, or of a device of it: as device strings of graphs name it."""
    spec = parse(task)
    return str(spec._replace(replica=None) if spec.replica == 0 else spec)


def called(task: str) -> str:
    """ "worker:3" of a task, for names."""
    spec = parse(task)
    return f"{spec.job}:{spec.task}"


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
    train = [job for job in _WORKERS if job in jobs] or sorted(str(job) for job in jobs - _APART)
    tasks = [task for job in train for task in cluster.tasks if parse(task).job == job]
    if not tasks:
        raise ClusterError(f"{cluster.name!r} has no worker: it needs a task that trains, such as worker=2.")
    return tuple(tasks)


def computing(cluster: Cluster, tasks: Sequence[str]) -> list[str]:
    """The devices of those tasks that train, as graphs name them: all GPUs, or CPU:0 of each where there is no GPU."""
    devices = [device for task in tasks for device in devices_of(cluster, task)]
    gpus = [device.name for device in devices if device.type == "GPU"]
    return [in_graph_text(name) for name in gpus] or [first_cpu(cluster, task) for task in tasks]


def first_cpu(cluster: Cluster, task: str) -> str:
    """The first CPU of a task, as graphs name it. Raises ClusterError for a task without one."""
    name = next((device.name for device in devices_of(cluster, task) if device.type == "CPU"), None)
    if name is None:
        raise ClusterError(f"the task {called(task)} of {cluster.name!r} has no CPU, which keeps what no GPU holds.")
    return in_graph_text(name)


def devices_of(cluster: Cluster, task: str) -> tuple[Device, ...]:
    """The devices of a task, in the cluster's order."""
    return tuple(device for device in cluster.devices if device.task == task)


def alike(cluster: Cluster, task: str, others: Sequence[str]) -> int | None:
    """Place of the first of the other tasks that has the same devices, but for its own name; None: there is none."""
    own = _kinds(cluster, task)
    return next((place for place, other in enumerate(others) if _kinds(cluster, other) == own), None)


def _kinds(cluster: Cluster, task: str) -> list[tuple[str, str, str, int]]:
    """What placement and the cut can tell of the devices of a task."""
    return [
        (one.name.partition("/device:")[2], one.type, one.kind, one.memory_bytes) for one in devices_of(cluster, task)
    ] + [(str(parse(task).job), "", "", 0)]
