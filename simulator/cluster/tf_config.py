"""Clusters from TF_CONFIG: the JSON by which TensorFlow's own jobs learn of each other.

Tasks whose addresses share a host name stand on one host. TF_CONFIG names no devices: each task has CPU:0.
"""

from __future__ import annotations

import json

from simulator.cluster.cluster import Cluster
from simulator.cluster.models import DEFAULT_CPU, find_model
from simulator.cluster.notation import assumptions
from simulator.cluster.topology import MAX_DEVICES, Host, Task, connect
from simulator.errors import ClusterError


def read_tf_config(text: str, source: str) -> Cluster:
    """Read {"cluster": {"worker": ["host:port", ...], ...}, "task": ...}. Raises ClusterError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"{source} is not JSON: {error}", line=getattr(error, "lineno", None)) from None
    jobs = document.get("cluster") if isinstance(document, dict) else None
    if not isinstance(jobs, dict) or not jobs:
        raise ClusterError(
            f'{source} has no "cluster" with jobs; TF_CONFIG looks like {{"cluster": {{"worker": ["host:2222"]}}}}'
        )
    addresses: list[tuple[str, int, str]] = []
    for job, tasks in jobs.items():
        numbered = dict(enumerate(tasks)) if isinstance(tasks, list) else tasks
        if not isinstance(numbered, dict) or not all(isinstance(a, str) for a in numbered.values()):
            raise ClusterError(f'{source}: job {job!r} must list addresses, such as ["host:2222"]')
        for number, address in numbered.items():
            if not str(number).isdecimal() or len(addresses) >= MAX_DEVICES:
                raise ClusterError(f"{source}: job {job!r} has a task {number!r} that is no number, or too many tasks")
            addresses.append((job, int(number), address.removeprefix("grpc://").rsplit(":", 1)[0]))
    cpu = find_model(DEFAULT_CPU)
    hosts = [Host(name, cpu) for name in dict.fromkeys(host for _, _, host in addresses)]
    said = [*assumptions(hosts), "TF_CONFIG names no GPUs: each task has CPU:0 (a TOML file can say more)"]
    tasks_ = [Task(job, number, host) for job, number, host in addresses]
    return connect(hosts, tasks_, name=source, notes=said)
