"""Device filters: the tasks that the session of each client sees, and for which it waits when it starts.

    FILTERS := [JOB "="] FILTER {"," FILTER}        "worker=/job:ps,/job:worker/task:{task}"

A FILTER is a device specification, as in `ConfigProto.device_filters`; `{job}` and `{task}` are the session's own. With
JOB the filters are for the sessions at that job's tasks, without it for those of all jobs that are not named. A session
always sees its own task. An Estimator sets `/job:ps,/job:{job}/task:{task}`: workers that see the ps tasks and
themselves. Source: `DeviceFinder` in TensorFlow's `core/distributed_runtime/master.cc`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import DeviceSpec, matches, parse
from simulator.cluster.master import short_task
from simulator.errors import ClusterError, GraphError, SimvizError
from simulator.training.clients import waits_for
from simulator.training.programs.program import Program
from simulator.wording import near, some

_FORM = re.compile(r"(?:(?P<job>[A-Za-z][A-Za-z0-9_]*)\s*=)?(?P<filters>.*)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Filters:
    """The device_filters of some sessions."""

    job: str | None  # of the sessions' tasks; None: all that no other names
    texts: tuple[str, ...]  # with "{job}" and "{task}" for the session's own


def read_filters(text: str) -> Filters:
    """Read filters in the notation above. Raises SimvizError that names the wrong part and the form of a filter.

    >>> read_filters("worker=/job:ps,/job:worker/task:{task}")
    Filters(job='worker', texts=('/job:ps', '/job:worker/task:{task}'))
    """
    found = _FORM.match(text.strip())
    assert found is not None  # anything matches
    texts = tuple(part.strip() for part in found["filters"].split(","))
    for one in texts:
        try:
            parse(_of(one, DeviceSpec("job", 0, 0)))
        except ClusterError as error:
            raise SimvizError(f"{one!r} in {text!r}: {error}; {{job}} and {{task}} are the session's own") from None
        if not one.startswith("/"):
            raise SimvizError(f"{text!r} has an empty filter; write it like worker=/job:ps,/job:worker/task:{{task}}")
    return Filters(found["job"], texts)


def filtered(programs: Sequence[Program], wanted: Sequence[Filters], cluster: Cluster) -> tuple[Program, ...]:
    """The programs with the filters of their sessions. Raises GraphError for a device that a graph asks for unseen."""
    of_job = {one.job: one.texts for one in wanted}
    found = []
    for program in programs:
        own = parse(program.task)
        texts = of_job.get(own.job, of_job.get(None))
        made = program if texts is None else replace(program, filters=tuple(_of(text, own) for text in texts))
        check_seen(made, cluster)
        found.append(made)
    return tuple(found)


def check_filters(wanted: Sequence[Filters], programs: Sequence[Program], cluster: Cluster) -> None:
    """Refuse filters without effect.

    Raises ClusterError for a job that has no session, for two of one job, and for a filter that no task matches.
    """
    jobs = [one.job for one in wanted]
    having = sorted({str(parse(program.task).job) for program in programs})
    for job in jobs:
        said = "all sessions" if job is None else f"the job {job!r}"
        if jobs.count(job) > 1:
            raise ClusterError(f"device_filters are given twice for {said}; write them in one, with commas.")
        if job is not None and job not in having:
            where = f"{some(having)}.{near(job, having)}"
            raise ClusterError(f"device_filters are given for {said}, where no session is, but at {where}")
    tasks = [parse(task) for task in cluster.tasks]
    for one in wanted:
        for text in one.texts:
            own = [parse(program.task) for program in programs if one.job in (None, parse(program.task).job)]
            if not any(waits_for(task, (_of(text, at),)) for at in own for task in tasks):
                known = [short_task(task) for task in cluster.tasks]
                raise ClusterError(f"The device filter {text!r} matches no task of {cluster.name!r}: {some(known)}.")


def seen(program: Program, cluster: Cluster) -> frozenset[str]:
    """The tasks that the session of a program sees: its own, and those that its filters match."""
    return frozenset(task for task in cluster.tasks if task == program.task or waits_for(parse(task), program.filters))


def check_seen(program: Program, cluster: Cluster) -> None:
    """Raise GraphError for a device that the graph asks for and the session's filters leave out."""
    if not program.filters:
        return
    known = seen(program, cluster)
    tasks = [parse(task) for task in known]
    for text in dict.fromkeys(program.graph.requested):
        place = parse(text).without_device()
        if place.job is None or any(matches(place, task) for task in tasks):
            continue
        if any(matches(place, parse(task)) for task in cluster.tasks if task not in known):
            node = program.graph.names[program.graph.requested.index(text)]
            raise GraphError(
                f"device_filters={list(program.filters)} leave out {str(place)!r}, which {node!r} asks for; TensorFlow "
                f"would not place it in the session of {program.name}. Add a filter for it.",
                node=node,
            )


def _of(text: str, own: DeviceSpec) -> str:
    """A filter with the session's own job and task number in it."""
    return text.replace("{job}", str(own.job)).replace("{task}", str(own.task))
