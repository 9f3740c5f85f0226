"""The costs of a graph: the time of each node on each kind of device, and its memory besides its outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints
from simulator.units import Nanos
from simulator.wording import counted, repr_of, some

STATIC, MEASURED, FALLBACK, PROFILED = range(4)  # CostTable.source
SOURCES = ("static", "measured", "fallback", "profile")
MAX_NS: Nanos = 2**53  # 104 days: no op takes longer, and the sum over a thousand of them still fits 64 bits


@dataclass(frozen=True, eq=False)
class PriceErrors:
    """How far prices may be off. Prices of one family err together, those of two families apart."""

    families: tuple[str, ...]
    family: Ids  # [N] row of `families`
    relative: npt.NDArray[np.float64]  # [N, K] part of the price by which nine of ten prices are off at most


@dataclass(frozen=True, eq=False)
class CostTable:
    """Costs of a graph on the device kinds of a cluster. Axes: N nodes, K kinds."""

    kinds: tuple[str, ...]  # [K]
    run_ns: npt.NDArray[np.int64]  # [N, K] launch included; -1 where the kind's type has no kernel
    scratch_bytes: Ints  # [N] held while the op runs
    resident_bytes: Ints  # [N] held for as long as the graph is loaded: variables, constants, tables
    source: Ids  # [N] row of SOURCES
    flops: Ints  # [N] arithmetic operations, 0 where none are counted
    moved_bytes: Ints  # [N] bytes read and written
    notes: tuple[str, ...] = ()  # fallbacks by op with their numbers, missing attributes, ...
    errors: PriceErrors | None = None  # of prices by a profile
    within: Ids | None = None  # [N] the node in whose kernel it ran in a measured step, -1: its own; None: of no node
    handed_on: Ids | None = None  # [N] the data input whose buffer all outputs are, -1: none; None: of no node

    def __len__(self) -> int:
        return len(self.source)

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self), "node"), f"on {some(self.kinds)}")
