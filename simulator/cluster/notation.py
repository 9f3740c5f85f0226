"""The compact notation of clusters: "4gpu", "cpu=2,gpu=4", "ps=2,worker=64x8gpu", "worker=2x4v100".

    CLUSTER := PART ("," PART)*
    PART    := n (cpu | gpu | MODEL) | cpu=n | gpu=n | JOB=TASKS ["x" n (cpu | gpu | MODEL)] | protocol=NAME

`cpu` and `gpu` are reserved words. Parts without a job make devices of /job:localhost/replica:0/task:0. Every task has
CPU:0 and a host of its own. A job that is named again gets further tasks. The default protocol between tasks is gRPC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from simulator import limits
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import LOCALHOST
from simulator.cluster.models import DEFAULT_CPU, find_model
from simulator.cluster.protocols import GRPC, find_protocol
from simulator.cluster.topology import Host, Task, check_name, connect
from simulator.errors import ClusterError

GRAMMAR = 'write for instance "4gpu", "2cpu", "ps=1,worker=2x2gpu" or "worker=2x8h100"'
_COUNT = re.compile(r"([0-9]{1,20})([A-Za-z][A-Za-z0-9.-]*)\Z")
_JOB = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=([0-9]{1,20})(?:x([0-9]{1,20})([A-Za-z][A-Za-z0-9.-]*))?\Z")
_PROTOCOL = re.compile(r"protocol=([A-Za-z][A-Za-z-]*)\Z")


def is_notation(text: str) -> bool:
    """Tell whether at least one part of the text has the form of a part of the compact notation."""
    return any(_COUNT.match(part) or _JOB.match(part) for part in text.replace(" ", "").split(","))


def read_notation(text: str) -> Cluster:
    """Read the compact notation. Raises ClusterError that names the part at fault."""
    local: list[tuple[int, str]] = []
    jobs: list[tuple[str, int, int, str]] = []  # job, tasks, devices of each, their model
    parts = text.replace(" ", "").split(",")
    protocols = [found[1] for part in parts if (found := _PROTOCOL.match(part))]
    if len(protocols) > 1:
        raise ClusterError(f"the cluster {text!r} names {len(protocols)} protocols; its tasks share one")
    for part in parts:
        if not _PROTOCOL.match(part):
            _read_part(part, text, local, jobs)
    hosts: list[Host] = []
    tasks: list[Task] = []
    if local:
        _add_task(LOCALHOST, 0, local, hosts, tasks)
    numbers: dict[str, int] = {}
    total = sum(count for count, _ in local)
    for job, count, devices, what in jobs:
        total += count * (1 + devices)
        if total > limits.DEVICES.most:
            raise ClusterError(
                f"{job}={count}x{devices}{what} makes more than the {limits.DEVICES.most:,} devices that simviz takes; "
                f"{limits.DEVICES.remedy}"
            )
        for _ in range(count):
            number = numbers.get(job, 0)
            numbers[job] = number + 1
            _add_task(job, number, [(devices, what)], hosts, tasks)
    protocol = find_protocol(protocols[0]) if protocols else GRPC
    return connect(hosts, tasks, name=text, protocol=protocol)


def neighbours(text: str) -> Iterator[tuple[str, str, str]]:
    """The notations with one fewer and one more of each thing that a part counts: the part, the new part, the whole.

    None counts zero: without its last GPU or task a cluster is another.
    """
    parts = text.replace(" ", "").split(",")
    for at, part in enumerate(parts):
        found = _COUNT.match(part) or _JOB.match(part)
        spans = [found.span(group) for group in range(1, found.re.groups + 1)] if found else []
        for begin, end in spans:
            if begin < 0 or not part[begin:end].isdigit():  # a name, or no devices
                continue
            for count in (int(part[begin:end]) - 1, int(part[begin:end]) + 1):
                new = f"{part[:begin]}{count}{part[end:]}"
                if count:
                    yield part, new, ",".join([*parts[:at], new, *parts[at + 1 :]])


def _read_part(part: str, text: str, local: list[tuple[int, str]], jobs: list[tuple[str, int, int, str]]) -> None:
    counted, job = _COUNT.match(part), _JOB.match(part)
    if counted:
        local.append((int(counted[1]), counted[2].lower()))
    elif job and job[1] in ("cpu", "gpu"):
        if job[3]:
            raise ClusterError(f"{part!r} in {text!r}: {job[1]!r} is a reserved word, not a job; {GRAMMAR}")
        local.append((int(job[2]), job[1]))
    elif job:
        check_name("job", job[1])  # before its tasks are made, whose names repeat it
        jobs.append((job[1], int(job[2]), int(job[3] or 0), (job[4] or "gpu").lower()))
    else:
        raise ClusterError(f"{part!r} in the cluster {text!r} is not a part of one; {GRAMMAR}")
    counts = (local[-1][0],) if counted or (job and job[1] in ("cpu", "gpu")) else (jobs[-1][1], jobs[-1][2] or 1)
    if 0 in counts:
        raise ClusterError(f"{part!r} in the cluster {text!r} counts zero devices or tasks; {GRAMMAR}")
    if max(counts) > limits.DEVICES.most:
        raise ClusterError(
            f"{part!r} in the cluster {text!r} makes more than the {limits.DEVICES.most:,} devices that simviz takes; "
            f"{limits.DEVICES.remedy}"
        )


def _add_task(job: str, number: int, parts: Sequence[tuple[int, str]], hosts: list[Host], tasks: list[Task]) -> None:
    cpus, gpus, cpu = 0, [], find_model(DEFAULT_CPU)
    for count, what in parts:
        model = find_model(what)
        if model.type == "CPU":
            cpus, cpu = cpus + count, model
        else:
            gpus += [model] * count
    name = job if job == LOCALHOST else f"{job}{number}"
    hosts.append(Host(name, cpu, tuple(gpus)))
    tasks.append(Task(job, number, name, max(1, cpus), tuple(range(len(gpus)))))
