"""Clusters from any description: a preset, a file, TF_CONFIG, or the compact notation.

TOML and the notation have readers of their own, `toml_file` and `notation`. Those of TF_CONFIG and of the matrix that
`nvidia-smi topo -m` prints are here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from simulator import limits
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import LOCALHOST
from simulator.cluster.models import DEFAULT_CPU, DEFAULT_GPU, Model, find_model
from simulator.cluster.notation import GRAMMAR, is_notation, read_notation
from simulator.cluster.toml_file import read_toml
from simulator.cluster.topology import Host, Task, Wire, connect
from simulator.errors import ClusterError
from simulator.units import show_rate
from simulator.wording import near, some

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
            raise ClusterError(
                'the environment variable TF_CONFIG is not set; set it, or describe the cluster as "ps=2,worker=4" does'
            )
        return read_tf_config(os.environ["TF_CONFIG"], "TF_CONFIG")
    name, at, model = text.rpartition("@")
    if at and os.path.isfile(name):
        return description_of(_content(name), name, model)
    if os.path.exists(text):
        return description_of(_content(text), text)
    if is_notation(text):
        return read_notation(text)
    if text.lstrip().startswith("{"):
        return read_tf_config(text, "the JSON text")
    hint = near(text, presets())
    raise ClusterError(f"{text!r} is no preset ({some(presets())}), no file, and no cluster; {GRAMMAR}.{hint}")


def content_of(text: str) -> bytes | None:
    """The content that may change under the name of a description: that of a file, or of TF_CONFIG.

    None where the name says all: for a preset, and for the compact notation.
    """
    if text in presets():
        return None
    if text == "TF_CONFIG":
        return os.environ.get(text, "").encode()
    name, at, _ = text.rpartition("@")
    if at and os.path.isfile(name):
        return _content(name)
    return _content(text) if os.path.exists(text) else None


def _content(name: str) -> bytes:
    """The content of a file, or of a pipe; no more than is refused."""
    try:
        with open(name, "rb") as file:
            return file.read(limits.FILE_BYTES.most + 1)
    except OSError as error:
        raise ClusterError(f"{name} cannot be read: {error.strerror}") from None


def description_of(raw: bytes, label: str, model: str | None = None) -> Cluster:
    """The cluster of the content of a file, TOML, TF_CONFIG or the output of `nvidia-smi topo -m` with that model.

    `label` names the file in messages. Raises ClusterError.
    """
    most = limits.FILE_BYTES.most
    if len(raw) > most:
        raise ClusterError(
            f"{label} is larger than {most:,} bytes: not a cluster description; {limits.FILE_BYTES.remedy}"
        )
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise ClusterError(f"{label} is not text; a cluster is TOML, TF_CONFIG or `nvidia-smi topo -m`") from None
    if is_topology(text):
        return read_topology(text, label, model)
    if model is not None:
        raise ClusterError(
            f"{label} is not the output of `nvidia-smi topo -m`, so @{model} has no meaning; leave it out"
        )
    return read_tf_config(text, label) if text.lstrip().startswith("{") else read_toml(text, label)


# --- TF_CONFIG -------------------------------------------------------------------------------------------------------


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
            if len(addresses) >= limits.DEVICES.most:
                raise ClusterError(
                    f"{source} has more than the {limits.DEVICES.most:,} tasks that simviz takes; "
                    f"{limits.DEVICES.remedy}"
                )
            addresses.append((str(job), int(number), address.removeprefix("grpc://").rsplit(":", 1)[0]))
    cpu = find_model(DEFAULT_CPU)
    hosts = [Host(name, cpu) for name in dict.fromkeys(host for _, _, host in addresses)]
    on_hosts = [Task(job, number, host) for job, number, host in addresses]
    said = "TF_CONFIG names no GPUs: each task has CPU:0 (a TOML file can say more)"
    try:
        return connect(hosts, on_hosts, name=source, notes=[said])
    except ClusterError as error:
        raise ClusterError(f"{source}: {error}") from None


# --- the matrix of nvidia-smi topo -m --------------------------------------------------------------------------------


# GPU0  X    NV12 SYS       NV#  that many NVLinks bonded       PIX, PXB  under one PCIe switch
# GPU1  NV12 X    SYS       PHB, NODE  through the processor    SYS       across sockets
#
# GPUs share an NVSwitch, with one port each, if all pairs have the same number of NVLinks and a GPU has too few of them
# for a bond per pair. Otherwise each pair has a bond of its own. NVLink hides the connection of two GPUs by PCIe, so
# the CPU affinity gives the GPUs of a socket. Columns and rows of NICs are ignored.

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ROW = re.compile(r"\s*GPU([0-9]{1,4})\s+(?=\S)(?!GPU\d)(?!.*\bAffinity)(.*)")  # not the head of the columns
_CELL = re.compile(r"(X|SYS|SOC|NODE|PHB|PXB|PIX|NV[0-9]{1,3})\Z")  # SOC: SYS in drivers before 2017
_CPUS = re.compile(r"\d+-\d+(,\d+(-\d+)?)*\Z")  # "0-23,96-119"
_MOST_NVLINKS = 18  # of any GPU so far: Hopper, Blackwell
_IN_SOCKET = ("PIX", "PXB", "PHB", "NODE")
NVLINK_LATENCY_NS = 2_000  # a guess, as in the presets: data sheets give bandwidths only
# One NVLink 2, 3 or 4, one direction (NVIDIA data sheets of V100, A100 and H100, 2018 to 2022). It counts where the
# matrix has NVLinks and the GPU model has none.
NVLINK_BYTES_PER_S = 25_000_000_000
# Intel UPI (2017): 10.4 GT/s x 2 bytes
BETWEEN_SOCKETS = Wire(1_000, 20_800_000_000)


def is_topology(text: str) -> bool:
    """Tell whether the text is the matrix that `nvidia-smi topo -m` prints."""
    return re.search(r"^[ \t]*GPU0[ \t]+X\b", _ANSI.sub("", text), re.MULTILINE) is not None


def read_topology(text: str, source: str, model: str | None = None) -> Cluster:
    """Read the matrix. Raises ClusterError with the line of a row that does not fit."""
    matrix, cpus = _matrix(_ANSI.sub("", text), source)
    gpu = find_model(model or DEFAULT_GPU)
    if gpu.type != "GPU":
        raise ClusterError(f"{model!r} is a CPU; name the GPU model of {source}, as in {source}@v100")
    count = len(matrix)
    pairs = {(a, b): matrix[a][b] for a in range(count) for b in range(a + 1, count)}
    bonds = {pair: int(cell[2:]) for pair, cell in pairs.items() if cell.startswith("NV")}
    own = (count - 1) * max(bonds.values(), default=0)  # links that each GPU needs for bonds with all others
    crossbar = len(set(bonds.values())) == 1 and len(bonds) == len(pairs) and own > (gpu.nvlinks or _MOST_NVLINKS)
    rate = gpu.nvlink_bytes_per_s or NVLINK_BYTES_PER_S
    switches = _together(count, [pair for pair, cell in pairs.items() if cell in ("PIX", "PXB")])
    beside = [(a, b) for (a, b), cell in pairs.items() if cell in _IN_SOCKET or (cpus[a] and cpus[a] == cpus[b])]
    sockets = _together(count, beside)
    host = Host(
        name="host",
        cpu=find_model(DEFAULT_CPU),
        gpus=(gpu,) * count,
        switches=tuple(group for group in switches if len(group) > 1),
        nvlinks={} if crossbar else {pair: Wire(NVLINK_LATENCY_NS, n * rate) for pair, n in bonds.items()},
        nvswitch=Wire(NVLINK_LATENCY_NS // 2, next(iter(bonds.values())) * rate) if crossbar else None,
        sockets=sockets,
        between_sockets=BETWEEN_SOCKETS if len(sockets) > 1 else None,
    )
    task = Task(LOCALHOST, 0, "host", 1, tuple(range(count)))
    return connect([host], [task], name=source, notes=_assumptions(gpu, model, bonds))


def _assumptions(gpu: Model, named: str | None, bonds: dict[tuple[int, int], int]) -> list[str]:
    said = [] if named else [f"the matrix does not name the GPU model; taken as {gpu.name} (write FILE@MODEL)"]
    if bonds and not gpu.nvlink_bytes_per_s:
        assumed = show_rate(NVLINK_BYTES_PER_S)
        said.append(f"the matrix has NVLinks, but {gpu.title} has none; {assumed} each way is assumed")
    return said


def _matrix(text: str, source: str) -> tuple[list[list[str]], list[str]]:
    """The cells between GPUs, and the CPU affinity of each GPU, "" where the matrix has none."""
    rows: list[list[str]] = []
    cpus: list[str] = []
    lines = text.splitlines()
    total = sum(1 for line in lines if _ROW.match(line))
    for number, line in enumerate(lines, 1):
        found = _ROW.match(line)
        if not found:
            continue
        cells = found[2].split()[:total]
        if int(found[1]) != len(rows) or len(cells) < total or not all(_CELL.match(cell) for cell in cells):
            raise ClusterError(
                f"{source}, line {number}: the row of GPU{found[1]} does not fit a matrix of {total}", line=number
            )
        rows.append(cells)
        cpus.append(next((cell for cell in found[2].split()[total:] if _CPUS.match(cell)), ""))
    for a, row in enumerate(rows):
        if row[a] != "X" or any(rows[b][a] != cell for b, cell in enumerate(row)):
            raise ClusterError(f"{source}: the matrix of `nvidia-smi topo -m` is not symmetric at GPU{a}")
    return rows, cpus


def _together(count: int, pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Groups of GPUs that the given pairs connect."""
    group = list(range(count))
    for a, b in pairs:
        old, new = group[b], group[a]
        group = [new if g == old else g for g in group]
    return tuple(tuple(i for i in range(count) if group[i] == g) for g in dict.fromkeys(group))
