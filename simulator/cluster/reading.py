"""Read a cluster from whatever describes it: a preset, a file, TF_CONFIG, the compact notation, or the graph itself."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import parse
from simulator.cluster.notation import GRAMMAR, is_notation, read_notation
from simulator.cluster.nvidia_topology import is_topology, read_topology
from simulator.cluster.tf_config import read_tf_config
from simulator.cluster.toml_file import read_toml
from simulator.errors import ClusterError, SimvizError
from simulator.graph.graph import Graph
from simulator.wording import by_count, near

NO_DEVICES = "4gpu"  # the cluster of a graph that names none
MAX_FILE_BYTES = 4 * 2**20


def presets() -> tuple[str, ...]:
    """Names of the machines that simviz knows, sorted."""
    folder = files("simulator.cluster").joinpath("presets")
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_cluster(source: str | os.PathLike[str] | Mapping[str, object] | Cluster) -> Cluster:
    """Make the cluster that `source` describes.

    `source` is a preset ("dgx-a100"), a file (TOML, TF_CONFIG's JSON, or the output of `nvidia-smi topo -m`, written
    FILE@MODEL to name its GPUs), "TF_CONFIG" for the environment variable, the compact notation ("ps=1,worker=2x2gpu"),
    or a ClusterSpec as a mapping. A Cluster is returned as it is. Raises ClusterError that says what was understood and
    what would fit.

    >>> [device.short for device in load_cluster("ps=1,worker=1x1gpu").devices]
    ['ps:0/CPU:0', 'worker:0/CPU:0', 'worker:0/GPU:0']
    """
    if isinstance(source, Cluster):
        return source
    if isinstance(source, Mapping):
        import json

        return read_tf_config(json.dumps({"cluster": dict(source)}), "the mapping")
    if not isinstance(source, str | os.PathLike):
        raise ClusterError(f"{source!r} describes no cluster: give a string, a path or a ClusterSpec as a mapping")
    text = os.fspath(source)
    if text in presets():
        path = files("simulator.cluster").joinpath("presets").joinpath(f"{text}.toml")
        return read_toml(path.read_text(encoding="utf-8"), text, name=text)
    if text == "TF_CONFIG":
        if not os.environ.get("TF_CONFIG"):
            raise ClusterError("the environment variable TF_CONFIG is not set")
        return read_tf_config(os.environ["TF_CONFIG"], "TF_CONFIG")
    name, at, model = text.rpartition("@")
    if at and os.path.isfile(name):
        return _read_file(Path(name), model)
    if os.path.exists(text):
        return _read_file(Path(text), None)
    if is_notation(text):
        return read_notation(text)
    if text.lstrip().startswith("{"):
        return read_tf_config(text, "the JSON text")
    hint = near(text, presets())
    raise ClusterError(f"{text!r} is no preset ({', '.join(presets())}), no file, and no cluster; {GRAMMAR}.{hint}")


def _read_file(path: Path, model: str | None) -> Cluster:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ClusterError(f"{path} is larger than {MAX_FILE_BYTES} bytes: not a cluster description")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ClusterError(f"{path} is not text; a cluster is TOML, TF_CONFIG or `nvidia-smi topo -m`") from None
    except OSError as error:
        raise ClusterError(f"{path} cannot be read: {error.strerror}") from None
    if is_topology(text):
        return read_topology(text, str(path), model)
    if model is not None:
        raise ClusterError(f"{path} is not the output of `nvidia-smi topo -m`, so @{model} has no meaning")
    return read_tf_config(text, str(path)) if text.lstrip().startswith("{") else read_toml(text, str(path))


def named_cluster(graph: Graph) -> str | None:
    """The cluster that the graph's own device strings name, in the compact notation; None when they name none.

    A job has as many tasks as its highest task number asks for, and each of them as many GPUs as the highest GPU
    number of the job. The CPU:0 that every task has anyway names nothing. Malformed strings are the placer's business
    and count for nothing here.
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
    jobs = sorted(job for job in tasks if job not in ("", "localhost"))
    free_gpus = counts.get(("", "GPU"), 0)
    parts = []
    for job in jobs:
        # devices without a job may stand in any: every job but the parameter servers can have them
        gpus = max(counts.get((job, "GPU"), 0), 0 if job == "ps" and len(jobs) > 1 else free_gpus)
        parts.append(f"{job}={tasks[job]}" + (f"x{gpus}gpu" if gpus else ""))
    gpus = max(counts.get(("localhost", "GPU"), 0), 0 if jobs else free_gpus)
    cpus = max(counts.get(("localhost", "CPU"), 0), 0 if jobs else counts.get(("", "CPU"), 0))
    if cpus > 1 and not jobs:
        return f"{cpus}cpu,{gpus}gpu" if gpus else f"{cpus}cpu,{NO_DEVICES}"
    if gpus:
        parts.insert(0, f"{gpus}gpu")
    return ",".join(parts) or None


def default_cluster(graph: Graph, *, ignored: bool = False) -> Cluster:
    """The cluster of a graph when none was given: what it names, else one host with four GPUs; the notes say which.

    `ignored` says that the graph had device strings, which were dropped.

    Raises ClusterError when the graph names more devices than a cluster may have.
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
    return replace(cluster, notes=(said, *cluster.notes))


def _unnamed(graph: Graph, *, ignored: bool) -> str:
    """What the device strings say of a graph that names no cluster."""
    if ignored:
        return "the graph's device strings are ignored"
    strings = Counter(repr(text) for text in graph.requested if text)
    if not strings:
        return "the graph names no device"
    return f"the graph's device strings ({by_count(strings, 3)}) name no GPU and no second task"
