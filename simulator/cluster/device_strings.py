"""Device strings of a graph: the cluster that they name, and the graph without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import LOCALHOST, parse
from simulator.cluster.notation import read_notation
from simulator.errors import ClusterError, SimvizError
from simulator.graph.graph import Graph
from simulator.graph.messages import Proto
from simulator.wording import by_count, counted

NO_DEVICES = "4gpu"  # the cluster of a graph that names none


def named_cluster(graph: Graph) -> str | None:
    """The cluster that the graph's own device strings name, in the compact notation; None when they name none.

    The highest task number of a job gives its number of tasks, and the highest GPU number the GPUs of each. Where no
    GPU is named, the highest CPU number gives its CPUs. CPU:0, which every task has, names nothing. Several CPUs of one
    host and no GPU get four GPUs besides. Malformed strings are ignored here; the placer reports them.
    """
    tasks: dict[str, int] = {}
    counts: dict[tuple[str, str], int] = {}
    for text in dict.fromkeys(graph.requested):
        try:
            spec = parse(text)
        except SimvizError:
            continue  # reported with the node's name when it is placed
        job = spec.job or ""
        tasks[job] = max(tasks.get(job, 0), (spec.task or 0) + 1)
        if spec.type in ("CPU", "GPU"):
            counts[job, spec.type] = max(counts.get((job, spec.type), 0), (spec.id or 0) + 1)
    return _written(tasks, counts)


def _written(tasks: Mapping[str, int], counts: Mapping[tuple[str, str], int]) -> str | None:
    jobs = sorted(job for job in tasks if job not in ("", LOCALHOST))
    free_gpus = counts.get(("", "GPU"), 0)
    parts = []
    for job in jobs:
        # a device without a job may be in any job; every job but the parameter servers gets it
        of = (job,) if job == "ps" and len(jobs) > 1 else (job, "")
        gpus, cpus = (max(counts.get((one, kind), 0) for one in of) for kind in ("GPU", "CPU"))
        parts.append(f"{job}={tasks[job]}" + (f"x{gpus}gpu" if gpus else f"x{cpus}cpu" if cpus > 1 else ""))
    gpus = max(counts.get((LOCALHOST, "GPU"), 0), 0 if jobs else free_gpus)
    cpus = max(counts.get((LOCALHOST, "CPU"), 0), 0 if jobs else counts.get(("", "CPU"), 0))
    if cpus > 1 and not jobs:
        return f"{cpus}cpu,{gpus}gpu" if gpus else f"{cpus}cpu,{NO_DEVICES}"
    if gpus:
        parts.insert(0, f"{gpus}gpu")
    return ",".join(parts) or None


def default_cluster(graph: Graph, *, ignored: bool = False) -> Cluster:
    """The cluster of a graph when none was given: the one that it names, else one host with four GPUs.

    A note of the cluster gives the choice. `ignored`: the graph had device strings, which were dropped. Raises
    ClusterError when the graph names more devices than a cluster may have.
    """
    named = named_cluster(graph)
    if named is None:
        cluster = read_notation(NO_DEVICES)
        said = f"no cluster was given and {_unnamed(graph, ignored=ignored)}: one host with four GPUs ({NO_DEVICES})"
    else:
        try:
            cluster = read_notation(named)
        except ClusterError as error:
            raise ClusterError(
                f"the devices that the graph names make no cluster ({named}): {error}; give --cluster"
            ) from None
        said = f"no cluster was given: {named}, as the graph's device strings name it"
        if named.endswith(f"cpu,{NO_DEVICES}") and not any("gpu" in text.lower() for text in graph.requested):
            said = f"no cluster was given: {named}, as the graph's device strings name these CPUs and no GPU"
    return replace(cluster, notes=(said, *cluster.notes))


def _unnamed(graph: Graph, *, ignored: bool) -> str:
    """The reason for which the graph names no cluster."""
    if ignored:
        return "the graph's device strings are ignored"
    strings = Counter(repr(text) for text in graph.requested if text)
    if not strings:
        return "the graph names no device"
    return f"the graph's device strings ({by_count(strings, 3)}) name no GPU and no second task"


_SHOWN = 3  # device strings that the note names


def without_devices(graph: Graph, device_type: str | None = None) -> Graph:
    """The same graph without its device strings, in the bodies of its functions, too; a note counts them.

    With a `device_type`, such as "CPU", only type and number are dropped, and only in strings that ask for that type.
    Other constraints stay: colocation (`_class`), references, resources, and attributes that hold device names.
    Malformed strings are dropped too, but stay where a type is given.
    """
    strings = [*graph.requested, *(node.device for function in graph.library.values() for node in function.node_def)]
    dropped = Counter(text for text in strings if _bare(text, device_type) != text)
    free = with_devices(graph, lambda text: _bare(text, device_type), bodies=True)
    if graph.lowered:
        given = without_devices(graph.lowered.given, device_type)
        free = replace(free, lowered=replace(graph.lowered, given=given))
    if not dropped:
        return free
    count = dropped.total()
    shown = by_count({repr(text): times for text, times in dropped.items()}, _SHOWN)
    return free.with_notes(
        f"{counted(count, 'device string')} of the graph {'is' if count == 1 else 'are'} ignored: {shown}."
    )


def _bare(text: str, device_type: str | None) -> str:
    if device_type is None:
        return ""
    try:
        spec = parse(text)
    except ClusterError:  # the placer reports it with the name of the node
        return text
    return str(spec.without_device()) if spec.type == device_type else text


def with_devices(graph: Graph, change: Callable[[str], str], *, bodies: bool = False) -> Graph:
    """The graph with each device string changed; `bodies`: those in the bodies of functions, too.

    A graph or a function without changed strings is returned as it is.
    """
    texts = {text: change(text) for text in set(graph.requested)}
    if any(text != new for text, new in texts.items()):
        graph = replace(graph, requested=tuple([texts[text] for text in graph.requested]))
    if not bodies or not graph.library:
        return graph
    return replace(graph, library={name: _with_devices(body, change) for name, body in graph.library.items()})


def _with_devices(function: Proto, change: Callable[[str], str]) -> Proto:
    if all(change(node.device) == node.device for node in function.node_def):
        return function
    changed = type(function)()
    changed.CopyFrom(function)
    for node in changed.node_def:
        node.device = change(node.device)
    return changed
