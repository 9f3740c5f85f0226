"""The costs of a graph: the time of each node on each kind of device, and its memory besides its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints
from simulator.errors import SimvizError
from simulator.units import Bytes, Nanos
from simulator.wording import counted, repr_of, some

if TYPE_CHECKING:
    from simulator.costs.profile import Profile

STATIC, MEASURED, FALLBACK, PROFILED, MODELLED = range(5)  # CostTable.source
SOURCES = ("static", "measured", "fallback", "profile", "model")  # the last: one that is not simviz's own
MAX_OP_NS: Nanos = 2**53  # 104 days: no op takes longer, and the sum over a thousand of them still fits 64 bits
_MOST: Bytes = 2**60  # of bytes and of operations, as of `roofline.MAX_COUNT`
_LIMITS = {
    "run_ns": (-1, MAX_OP_NS),
    "scratch_bytes": (0, _MOST),
    "resident_bytes": (0, _MOST),
    "source": (0, len(SOURCES) - 1),
    "flops": (0, _MOST),
    "moved_bytes": (0, _MOST),
}


def scaled_ns(run_ns: Ints, numerator: Ints | int, denominator: Ints | int) -> Ints:
    """Times multiplied by a fraction, rounded up, at most MAX_OP_NS; -1, where there is no kernel, stays."""
    exact = -(-run_ns.astype(object) * numerator // denominator)  # may exceed 64 bits on the way
    return np.where(run_ns < 0, run_ns, np.minimum(exact, MAX_OP_NS).astype(np.int64))


@dataclass(frozen=True, eq=False)
class PriceErrors:
    """How far prices may be off. Prices of one family err together, those of two families apart."""

    families: tuple[str, ...]  # the first: what the profile does not price
    family: Ids  # [N] row of `families`
    relative: npt.NDArray[np.float64]  # [N, K] part of the price by which nine of ten prices are off at most


@dataclass(frozen=True, eq=False)
class CostTable:
    """Costs of a graph on the device kinds of a cluster. Axes: N nodes, K kinds.

    A table of your own is most easily made of an estimate, by `dataclasses.replace`. Raises SimvizError for a column
    that is no array of whole numbers, has another shape, or has a number that no cost can be.
    """

    kinds: tuple[str, ...]  # [K]
    run_ns: npt.NDArray[np.int64]  # [N, K] launch included; -1 where the kind's type has no kernel
    scratch_bytes: Ints  # [N] held while the op runs
    resident_bytes: Ints  # [N] held for as long as the graph is loaded: variables, constants, tables
    source: Ids  # [N] row of SOURCES, on some kind
    flops: Ints  # [N] arithmetic operations, 0 where none are counted
    moved_bytes: Ints  # [N] bytes read and written
    notes: tuple[str, ...] = ()  # fallbacks by op with their numbers, missing attributes, ...
    errors: PriceErrors | None = None  # of prices by a profile
    within: Ids | None = None  # [N] the node in whose kernel it ran in a measured step, -1: its own; None: of no node
    handed_on: Ids | None = (
        None  # [N] the data input whose buffer all outputs are, -1: none, -2: copies; None: of no node
    )
    kind_source: npt.NDArray[np.int32] | None = None  # [N, K] row of SOURCES; None: `source` on each kind
    profile: Profile | None = None  # by which CPUs were priced, and what fills inputs is

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            column = getattr(self, name)
            if not isinstance(column, np.ndarray) or not np.issubdtype(column.dtype, np.integer):
                held = f"numbers of type {column.dtype}" if isinstance(column, np.ndarray) else type(column).__name__
                raise SimvizError(
                    f"CostTable: {name} is {held}; give a numpy array of whole numbers, such as "
                    "np.rint(times).astype(np.int64)."
                )
            wanted = (len(self.source), len(self.kinds)) if name == "run_ns" else (len(self.source),)
            if column.shape != wanted:
                axes = "nodes and kinds" if name == "run_ns" else "nodes"
                raise SimvizError(f"CostTable: {name} has the shape {column.shape}; give {wanted}, for {axes}.")
            if column.size and not least <= column.min() <= column.max() <= most:
                wrong = np.argwhere((column < least) | (column > most))[0].tolist()
                raise SimvizError(
                    f"CostTable: {name}{wrong} is {column[tuple(wrong)]}; give a whole number from {least} to {most:,}."
                )

    @property
    def sources(self) -> npt.NDArray[np.int32]:
        """[N, K] row of SOURCES: an op that was measured on a CPU may have an estimate on a GPU.

        A `source` that a table of your own replaced holds on each kind.
        """
        whole, own = np.repeat(self.source[:, None], len(self.kinds), axis=1), self.kind_source
        if own is None or own.shape != whole.shape or not own.size:
            return whole
        best = np.where((own == PROFILED).any(1), PROFILED, own[:, 0])
        best = np.where((own == MEASURED).any(1), MEASURED, best)
        return np.where((best == self.source)[:, None], own, whole)

    def check(self, nodes: int) -> None:
        """Raise SimvizError where it was made for a graph of another number of nodes."""
        if len(self) != nodes:
            raise SimvizError(
                f"The cost table is of a graph of {len(self):,} nodes, not of this one of {nodes:,}; estimate costs "
                "for this graph."
            )

    def __len__(self) -> int:
        return len(self.source)

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self), "node"), f"on {some(self.kinds)}")
