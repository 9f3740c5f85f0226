"""The session's master: the task to which a session connects, whose devices TensorFlow prefers to equal ones.

A real master can own only CPUs, numbered from 0. Where the session's task has other devices, a further task with one
CPU, `standin_client`, can hold the master.
"""

from __future__ import annotations

from dataclasses import replace

from simulator.cluster.cluster import Cluster
from simulator.cluster.hierarchy import Hierarchy, Route
from simulator.errors import ClusterError
from simulator.wording import near, some

STANDIN_CLIENT = "/job:standin_client/replica:0/task:0"


def connected(cluster: Cluster, master: str) -> Cluster:
    """The cluster with its session at the task `master`, written JOB:TASK or as a device name's task.

    The task `standin_client:0`, with one CPU, is added where the cluster lacks it. A cluster whose session is there is
    returned as it is, with all that is known of it. Raises ClusterError for any other task that the cluster lacks.
    """
    if master == cluster.client_task:
        return cluster
    known = {short_task(task): task for task in cluster.tasks}
    task = master if master in cluster.tasks else known.get(master if ":" in master else f"{master}:0")
    if task is not None:
        return replace(cluster, master=task)
    if master in ("standin_client", short_task(STANDIN_CLIENT), STANDIN_CLIENT):
        return with_client(cluster)
    raise ClusterError(
        f"The cluster {cluster.name!r} has no task {master!r} to connect to; its tasks are {some(list(known))}."
        f"{near(master, list(known))}"
    )


def with_client(cluster: Cluster) -> Cluster:
    """The cluster with its session at the task `standin_client`, which is added where it is missing.

    Its routes are hand-overs, which take no time.
    """
    if STANDIN_CLIENT in cluster.tasks:
        return replace(cluster, master=STANDIN_CLIENT)
    cpu = next((one for one in cluster.devices if one.type == "CPU"), cluster.devices[0])
    client = replace(cpu, name=f"{STANDIN_CLIENT}/device:CPU:0", type="CPU", host="standin_client")
    nothing: Route = ()
    routes = cluster.routes
    return replace(
        cluster,
        devices=(*cluster.devices, client),
        routes=(
            routes.with_client()
            if isinstance(routes, Hierarchy)
            else (*((*row, nothing) for row in routes), (nothing,) * (len(cluster) + 1))
        ),
        name=f"{cluster.name} with a client",
        notes=(*cluster.notes, "transfers to and from standin_client:0 take no time"),
        master=STANDIN_CLIENT,
    )


def rows_by_task(cluster: Cluster) -> dict[str, list[int]]:
    """Rows of the devices of each task, for those who ask about all tasks."""
    found: dict[str, list[int]] = {}
    for row, device in enumerate(cluster.devices):
        found.setdefault(device.task, []).append(row)
    return found


def session_devices(cluster: Cluster) -> dict[str, int]:
    """Row of the device of a session at each task, as `Cluster.client` has it for one: its CPU:0, else its first."""
    return {
        task: cluster.index.get(f"{task}/device:CPU:0", min(rows, key=lambda row: cluster.devices[row].type != "CPU"))
        for task, rows in rows_by_task(cluster).items()
    }


def can_hold_master(cluster: Cluster) -> bool:
    """Tell whether the session's task has CPUs alone, numbered from 0, so that a real server can be its master."""
    task = cluster.client_task
    own = {one.name for one in cluster.devices if one.task == task}
    return own == {f"{task}/device:CPU:{number}" for number in range(len(own))}


def short_task(task: str) -> str:
    """ "ps:1" of "/job:ps/replica:0/task:1"; a replica other than 0 is written between the two."""
    fields = dict(part.split(":", 1) for part in task.strip("/").split("/"))
    replica = "" if fields.get("replica", "0") == "0" else f"{fields['replica']}:"
    return f"{fields['job']}:{replica}{fields['task']}"
