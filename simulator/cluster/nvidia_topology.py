"""The format of `nvidia-smi topo -m`: one host with the links of the matrix; the user names the GPU model.

    GPU0  X    NV12 SYS       NV#  that many NVLinks bonded       PIX, PXB  under one PCIe switch
    GPU1  NV12 X    SYS       PHB, NODE  through the processor    SYS       across sockets

GPUs share an NVSwitch, with one port each, if all pairs have the same number of NVLinks and a GPU has too few of them
for a bond per pair. Otherwise each pair has a bond of its own. NVLink hides the connection of two GPUs by
PCIe, so the CPU affinity gives the GPUs of a socket. Columns and rows of NICs are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from simulator.cluster.cluster import Cluster
from simulator.cluster.models import DEFAULT_CPU, DEFAULT_GPU, Model, find_model
from simulator.cluster.topology import Host, Task, Wire, connect
from simulator.errors import ClusterError
from simulator.units import show_rate

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
    """Whether the text is the matrix that `nvidia-smi topo -m` prints."""
    return re.search(r"^\s*GPU0\s+X\b", _ANSI.sub("", text), re.MULTILINE) is not None


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
    near = [(a, b) for (a, b), cell in pairs.items() if cell in _IN_SOCKET or (cpus[a] and cpus[a] == cpus[b])]
    sockets = _together(count, near)
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
    task = Task("localhost", 0, "host", 1, tuple(range(count)))
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
