"""Clusters from any description: a preset, a file, TF_CONFIG, or the compact notation.

Each form has a reader: `toml_file`, `nvidia_topology` and `notation` in modules of their own, TF_CONFIG here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from simulator.cluster.cluster import Cluster
from simulator.cluster.models import DEFAULT_CPU, find_model
from simulator.cluster.notation import GRAMMAR, is_notation, read_notation
from simulator.cluster.nvidia_topology import is_topology, read_topology
from simulator.cluster.toml_file import read_toml
from simulator.cluster.topology import MAX_DEVICES, Host, Task, connect
from simulator.errors import ClusterError
from simulator.wording import near

NO_DEVICES = "4gpu"  # the cluster of a graph that names none
MAX_FILE_BYTES = 4 * 2**20
_FORM = 'TF_CONFIG looks like {"cluster": {"worker": ["host:2222"]}}'
_NUMBER = re.compile(r"[0-9]{1,10}\Z")  # of a task


def presets() -> tuple[str, ...]:
    """Names of the machines that simviz ships, sorted."""
    folder = files("simulator.cluster").joinpath("presets")
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_cluster(source: str | os.PathLike[str] | Mapping[str, object] | Cluster) -> Cluster:
    """Make the cluster that `source` describes.

    `source` is one of these:

        a preset              "dgx-a100"
        a file                TOML, or TF_CONFIG's JSON
        FILE@MODEL            the output of `nvidia-smi topo -m`, and the model of its GPUs
        "TF_CONFIG"           the environment variable
        the compact notation  "ps=1,worker=2x2gpu"
        a mapping             a ClusterSpec
        a Cluster             returned unchanged

    Raises ClusterError with the forms that exist.

    >>> [device.short for device in load_cluster("ps=1,worker=1x1gpu").devices]
    ['ps:0/CPU:0', 'worker:0/CPU:0', 'worker:0/GPU:0']
    """
    if isinstance(source, Cluster):
        return source
    if isinstance(source, Mapping):
        return _read_spec(source, "the mapping")
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


def read_tf_config(text: str, source: str) -> Cluster:
    """Read {"cluster": {"worker": ["host:port", ...], ...}, "task": ...}. Raises ClusterError.

    Tasks whose addresses share a host name run on one host. TF_CONFIG names no devices: each task has CPU:0.
    """
    try:
        document = json.loads(text)
    except RecursionError:
        raise ClusterError(f"{source} is nested too deeply to be TF_CONFIG; {_FORM}") from None
    except json.JSONDecodeError as error:
        raise ClusterError(f"{source} is not JSON: {error}", line=error.lineno) from None
    except ValueError:  # Python reads no number of so many digits
        raise ClusterError(f"{source} has a number of thousands of digits; {_FORM}") from None
    return _read_spec(document.get("cluster") if isinstance(document, dict) else None, source)


def _read_spec(jobs: object, source: str) -> Cluster:
    """The cluster of a ClusterSpec: addresses of tasks by job, as a list or by number."""
    if not isinstance(jobs, Mapping) or not jobs:
        raise ClusterError(f'{source} has no "cluster" with jobs; {_FORM}')
    addresses: list[tuple[str, int, str]] = []
    for job, tasks in jobs.items():
        numbered = dict(enumerate(tasks)) if isinstance(tasks, list) else tasks
        if not isinstance(numbered, Mapping) or not all(isinstance(a, str) for a in numbered.values()):
            raise ClusterError(f'{source}: job {job!r} must list addresses, such as ["host:2222"]')
        for number, address in numbered.items():
            if not _NUMBER.match(str(number)):
                raise ClusterError(f"{source}: job {job!r} has a task {number!r}; give a number, such as 0")
            if len(addresses) >= MAX_DEVICES:
                raise ClusterError(f"{source} has more than the {MAX_DEVICES} tasks that simviz takes")
            addresses.append((str(job), int(number), address.removeprefix("grpc://").rsplit(":", 1)[0]))
    cpu = find_model(DEFAULT_CPU)
    hosts = [Host(name, cpu) for name in dict.fromkeys(host for _, _, host in addresses)]
    on_hosts = [Task(job, number, host) for job, number, host in addresses]
    said = "TF_CONFIG names no GPUs: each task has CPU:0 (a TOML file can say more)"
    try:
        return connect(hosts, on_hosts, name=source, notes=[said])
    except ClusterError as error:
        raise ClusterError(f"{source}: {error}") from None
