"""Device models by name: their speeds, their memory, and the source of the figures."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Any

from simulator.cluster.chips import Chip, read_chip
from simulator.cluster.cluster import MAX_CORES
from simulator.cluster.peaks import NO_PEAKS, Peaks, read_peaks, whole
from simulator.errors import ClusterError
from simulator.units import parse_bytes, parse_nanos, parse_rate
from simulator.wording import choices

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_CPU, DEFAULT_GPU = "cpu", "a100"
LAUNCH = {"CPU": "730 ns", "GPU": "4 us"}  # by type, for a model that does not say; models.toml has the sources
PCIE_GENERATIONS = (3, 5)  # the first and the last that GPUs here have
MAX_NVLINKS = 72  # four times what the largest GPU so far has


@dataclass(frozen=True, slots=True)
class Model:
    """A device model: a GPU, or the processors of a host."""

    name: str  # "a100"
    type: str  # "CPU" or "GPU"
    title: str  # "A100 SXM 80 GB"
    memory_bytes: int
    flop_per_s: int  # in float32, of plain units
    bytes_per_s: int
    launch_ns: int
    nvlink_bytes_per_s: int = 0  # of one NVLink, one direction; 0: it has none
    nvlinks: int = 0  # how many of them it has; 0: not said
    pcie: int = 4  # of a GPU: the generation of its 16 lanes
    cores: int = 0  # of a CPU; 0: not said
    peaks: Peaks = NO_PEAKS  # in other formats, and of matrix units
    chip: Chip | None = None  # of a GPU: how far its kernels stay below the peaks; None: they reach them
    source: str = ""

    def with_cores(self, cores: int) -> Model:
        """The same processor with so many cores, which compute and move bytes in proportion; its memory stays.

        The name says the part: "cpu/20" is one of 20 cores, "cpu*3/20" are three. Where the model gives no cores its
        speeds are those of the cores that are there, and "cpu*4" are four of them.
        """
        if cores == self.cores:
            return self
        if not self.cores:
            name = self.name + (f"*{cores}" if cores > 1 else "")
            return replace(self, name=name, cores=cores, title=f"{self.title}, of which processes have {cores}")
        part = Fraction(cores, self.cores)
        times, parts = part.numerator, part.denominator
        return replace(
            self,
            name=self.name + (f"*{times}" if times > 1 else "") + (f"/{parts}" if parts > 1 else ""),
            title=f"{self.title}, of which processes have {cores}" if part < 1 else f"{self.title}, but {cores} cores",
            flop_per_s=max(1, self.flop_per_s * times // parts),
            bytes_per_s=max(1, self.bytes_per_s * times // parts),
            cores=cores,
            peaks=self.peaks.scaled(times, parts),
        )


def model_of(kind: str) -> str:
    """The model that a device is all or a part of: "cpu" of "cpu", of "cpu/2" and of "cpu*3/20"."""
    return re.sub(r"(\*\d+)?(/\d+)*$", "", kind)


MODEL_KEYS = (
    "type", "title", "memory", "compute", "matrix_compute", "bandwidth", "cores", "launch", "nvlink", "nvlinks",
    "pcie", "multiprocessors", "compute_capability", "cudnn", "clocks", "dispatch", "reached", "source",
)  # fmt: skip


def read_model(name: str, table: Mapping[str, Any]) -> Model:  # Any: whatever TOML holds
    """Make a model from a TOML table with the keys of MODEL_KEYS. Raises ValueError or KeyError with the key."""
    for key in ("type", "memory", "compute", "bandwidth"):
        if key not in table:
            raise KeyError(f"model {name!r} lacks the key {key!r}")
    for key in ("memory", "bandwidth", "launch", "nvlink"):
        if not isinstance(table.get(key, ""), str):
            raise ValueError(f"{key}: {table[key]!r} needs a unit: write it in quotes")
    if table["type"] not in ("CPU", "GPU"):
        raise ValueError(f'model {name!r} has type {table["type"]!r}; use "CPU" or "GPU"')
    nvlinks = whole("nvlinks", table.get("nvlinks", 0), "of links ", 0, MAX_NVLINKS)
    if "cores" in table and table["type"] != "CPU":
        raise ValueError(f"cores: {table['cores']!r} of a GPU; its messages are the work of its host's CPU")
    chip = read_chip(table)
    if chip is not None and table["type"] != "GPU":
        raise ValueError(f"multiprocessors: {table['multiprocessors']!r} of a CPU; only GPUs have a chip to describe")
    flop_per_s, peaks = read_peaks(table)
    return Model(
        name=name,
        type=table["type"],
        title=str(table.get("title", name)),
        memory_bytes=parse_bytes(table["memory"]),
        flop_per_s=flop_per_s,
        bytes_per_s=parse_rate(table["bandwidth"]),
        launch_ns=parse_nanos(table.get("launch", LAUNCH[table["type"]])),
        nvlink_bytes_per_s=parse_rate(table["nvlink"]) if "nvlink" in table else 0,
        nvlinks=nvlinks,
        pcie=whole("pcie", table.get("pcie", 4), "", *PCIE_GENERATIONS),
        cores=read_cores(table["cores"]) if "cores" in table else 0,
        peaks=peaks,
        chip=chip,
        source=str(table.get("source", "")),
    )


def read_cores(value: object) -> int:
    """A number of cores. Raises ValueError for any other value."""
    return whole("cores", value, "of cores ", 1, MAX_CORES)


@cache
def _known_models() -> Mapping[str, Model]:
    """The models that simviz ships, by name."""
    text = files("simulator.cluster").joinpath("models.toml").read_text(encoding="utf-8")
    return {name: read_model(name, table) for name, table in tomllib.loads(text).items()}


def find_model(name: str, own: Mapping[str, Model] | None = None) -> Model:
    """The model of that name, the user's own before the shipped ones; `gpu` is the default GPU.

    Raises ClusterError with the names that exist.
    """
    models = {**_known_models(), **(own or {})}
    found = models.get(DEFAULT_GPU if name == "gpu" and "gpu" not in models else name)
    if found is None:
        raise ClusterError(f"there is no device model {name!r}; known are {choices(name, sorted({'gpu', *models}))}")
    return found
