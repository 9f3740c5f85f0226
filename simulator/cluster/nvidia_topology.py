"""Clusters from `nvidia-smi topo -m`: one host with the links of the matrix; the user names the GPU model.

    GPU0  X    NV12 SYS       NV#  that many NVLinks bonded       PIX, PXB  under one PCIe switch
    GPU1  NV12 X    SYS       PHB, NODE  through the processor    SYS       across sockets

When every GPU reaches every other by the same number of NVLinks and the model has no more, they share an NVSwitch
(each GPU has one port); otherwise a bond belongs to its pair.
"""

from __future__ import annotations

import re

from simulator.cluster.cluster import Cluster
from simulator.cluster.models import DEFAULT_CPU, DEFAULT_GPU, Model, find_model
from simulator.cluster.notation import assumptions
from simulator.cluster.topology import Host, Task, Wire, connect
from simulator.errors import ClusterError

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CELL = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV[0-9]{1,3}\Z")
NVLINK_LATENCY_NS = 2_000
# Intel UPI (2017): 10.4 GT/s x 2 bytes
BETWEEN_SOCKETS = Wire(1_000, 20_800_000_000)


def is_topology(text: str) -> bool:
    """Whether the text is the matrix that `nvidia-smi topo -m` prints."""
    return re.search(r"^GPU0\s+X\b", _ANSI.sub("", text), re.MULTILINE) is not None


def read_topology(text: str, source: str, model: str | None = None) -> Cluster:
    """Read the matrix. Raises ClusterError with the line where a row does not fit it."""
    matrix = _matrix(_ANSI.sub("", text), source)
    gpu = find_model(model or DEFAULT_GPU)
    if gpu.type != "GPU":
        raise ClusterError(f"{model!r} is a CPU; name the GPU model of {source}, as in {source}@v100")
    count = len(matrix)
    pairs = {(a, b): matrix[a][b] for a in range(count) for b in range(a + 1, count)}
    bonds = {pair: int(cell[2:]) for pair, cell in pairs.items() if cell.startswith("NV")}
    crossbar = len(set(bonds.values())) == 1 and len(bonds) == len(pairs) and count > 2
    rate = gpu.nvlink_bytes_per_s or 25_000_000_000
    switches = _together(count, pairs, ("PIX", "PXB"))
    sockets = _together(count, pairs, ("PIX", "PXB", "PHB", "NODE"))
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
    said = [*assumptions([host]), *_doubts(gpu, model, bonds)]
    return connect([host], [Task("localhost", 0, "host", 1, tuple(range(count)))], name=source, notes=said)


def _doubts(gpu: Model, named: str | None, bonds: dict[tuple[int, int], int]) -> list[str]:
    said = [] if named else [f"the matrix does not name the GPU model; taken as {gpu.name} (write FILE@MODEL)"]
    if bonds and not gpu.nvlink_bytes_per_s:
        said.append(f"the matrix has NVLinks, which {gpu.title} has not; 25 GB/s each way are assumed")
    return said


def _matrix(text: str, source: str) -> list[list[str]]:
    rows: list[list[str]] = []
    lines = text.splitlines()
    total = sum(1 for line in lines if re.match(r"GPU\d+\s", line))
    for number, line in enumerate(lines, 1):
        found = re.match(r"GPU(\d+)\s+(.*)", line)
        if not found:
            continue
        cells = found[2].split()[:total]
        if int(found[1]) != len(rows) or len(cells) < total or not all(_CELL.match(cell) for cell in cells):
            raise ClusterError(
                f"{source}, line {number}: the row of GPU{found[1]} does not fit a matrix of {total}", line=number
            )
        rows.append(cells)
    for a, row in enumerate(rows):
        if row[a] != "X" or any(rows[b][a] != cell for b, cell in enumerate(row)):
            raise ClusterError(f"{source}: the matrix of `nvidia-smi topo -m` is not symmetric at GPU{a}")
    return rows


def _together(count: int, pairs: dict[tuple[int, int], str], near: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Groups of GPUs that are joined by one of the given kinds; NVLink says nothing about PCIe."""
    group = list(range(count))
    for (a, b), cell in pairs.items():
        if cell in near:
            old, new = group[b], group[a]
            group = [new if g == old else g for g in group]
    return tuple(tuple(i for i in range(count) if group[i] == g) for g in dict.fromkeys(group))
