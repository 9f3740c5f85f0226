"""A GPU's chip: what its data sheet says, and how far kernels stay below the peaks of the sheet.

No sheet says how much of its peaks a GPU reaches. Few constants do so here, the same for all GPUs, so that a GPU which
nobody has timed is priced by its sheet alone. Only `Constants` is fitted; see docs/decisions, 0051. A few rules
elsewhere were chosen by steps as well; docs/limits.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from simulator.cluster.peaks import quantity, whole
from simulator.units import Nanos, parse_nanos

MAX_MULTIPROCESSORS = 2**10
MAX_MHZ = 10**5
CUTTING = 8.1  # the cuDNN from which on TensorFlow asks for its engines, not its algorithms (xla, cuda_dnn.cc)


@dataclass(frozen=True, slots=True)
class Constants:
    """Figures that no data sheet has. benchmarks/published.py fits the marked ones to published steps of all GPUs."""

    clock: float = 0.38  # fitted: the clock of long kernels, as a part of the way from base to boost
    bandwidth: float = 0.8  # guessed: part of the memory's bandwidth that a kernel reaches which streams
    statistics: float = 0.89  # fitted: part of that which normalisation over a batch reaches
    products: float = 0.9  # guessed: part of the arithmetic that a large product reaches
    convolutions: float = 0.85  # fitted: the same of a large convolution, done as a product
    matrix_products: float = 0.91  # by 72 products that others timed (0103): the same on tensor cores, in 16 bits
    wide_products: float = 0.8  # by products on three GPUs (0104): the same in TF32, beside 16 bits
    starting_ns: Nanos = 2_000  # as 0.91: a wave of tiles in 16 bits, besides its arithmetic; wider numbers take longer
    matrix_convolutions: float = 0.61  # fitted: the same of a convolution on tensor cores, were its numbers there
    addressing: float = 0.65  # fitted: of a convolution's speed, where integers take the place of floats
    transformed: float = 0.9  # fitted: speed of Winograd's and Fourier's products beside a whole product's
    direct: float = 0.049  # fitted: speed of a grouped convolution, all groups in one kernel, beside a whole product's
    loading: float = 0.31  # fitted: time to load what a tile of 128 x 128 needs, as a part of its arithmetic
    feeding: float = 0.19  # fitted: the same for tensor cores, if they were no faster than plain ones
    dispatch_ns: Nanos = 11_700  # fitted: an op's time in executor and driver on the host
    library: float = 0.91  # fitted: a call of cuDNN or cuBLAS on the host, beside that
    enqueue_ns: Nanos = 5_000  # fitted: the host's time for each further kernel of an op


FITTED = Constants()


@dataclass(frozen=True, slots=True)
class PeakParts:
    """Parts of a GPU's peaks that somebody measured there, in place of those by `Constants`."""

    bandwidth: float
    products: float
    convolutions: float
    matrix_products: float
    matrix_convolutions: float


REACHED = tuple(field.name for field in fields(PeakParts))


@dataclass(frozen=True, slots=True)
class Chip:
    """The facts of a data sheet that time kernels, and the parts of the peaks that follow from them."""

    multiprocessors: int
    compute_capability: float = 7.0  # NVIDIA's number of the architecture
    base: float = 1.0  # base clock by boost clock, at which the peaks hold
    own_dispatch_ns: Nanos | None = None  # measured with this GPU's host; None: that of the constants
    reached: PeakParts | None = None
    constants: Constants = FITTED
    cudnn: float = 8.0  # the version of cuDNN that its TensorFlow has

    @property
    def dispatch_ns(self) -> Nanos:
        """The host's time for an op: a shorter kernel waits for the next one."""
        return self.constants.dispatch_ns if self.own_dispatch_ns is None else self.own_dispatch_ns

    def host_ns(self, kernels: int, *, library: bool = False) -> Nanos:
        """The host's time for an op of so many kernels, which a library chooses and prepares if `library`.

        A host that dispatches faster than the constants say starts further kernels faster, too.
        """
        constants = self.constants
        called = round(self.dispatch_ns * constants.library) if library else 0
        further = (kernels - 1) * constants.enqueue_ns * self.dispatch_ns
        return self.dispatch_ns + called + further // constants.dispatch_ns

    @property
    def sustained(self) -> float:
        """The clock of long kernels, as a part of the boost clock: power and heat do not allow more."""
        return self.base + self.constants.clock * (1 - self.base)

    @property
    def issued(self) -> float:
        """The part of the lanes that schedulers fill. Kepler's four fill 128 of 192, unless instructions pair up.

        Source: NVIDIA, Kepler GK110/210 white paper (2014): four schedulers of 32 lanes each, with two dispatch units.
        """
        return 2 / 3 if self.compute_capability < 5 else 1.0

    @property
    def integers_apart(self) -> bool:
        """Whether integer arithmetic, as of addresses, has units and issue slots of its own.

        So it has since Volta (NVIDIA, Tesla V100 white paper, 2017). Ampere's and Ada's chips for graphics are
        exceptions: half of their lanes do both (NVIDIA, GA102 white paper, 2021).
        """
        return self.compute_capability >= 7 and self.compute_capability not in (8.6, 8.7, 8.9)

    @property
    def by_group(self) -> bool:
        """Whether cuDNN has fast kernels for the groups of a convolution. On Turing it has none (decision 0068)."""
        return self.compute_capability != 7.5

    @property
    def cuts(self) -> bool:
        """Whether cuDNN cuts all convolutions along the sum, not only gradients of filters (decision 0101)."""
        return self.cudnn >= CUTTING

    @property
    def bandwidth(self) -> float:
        """The part of the memory's bandwidth that a kernel reaches which streams."""
        return self.reached.bandwidth if self.reached else self.constants.bandwidth

    @property
    def products(self) -> float:
        """The part of the plain peaks that a large product reaches."""
        return self.reached.products if self.reached else self.constants.products * self.sustained * self.issued

    @property
    def convolutions(self) -> float:
        """The part of the plain peaks that a large convolution reaches, done as a product."""
        if self.reached:
            return self.reached.convolutions
        part = self.constants.convolutions * self.sustained * self.issued
        return part if self.integers_apart else part * self.constants.addressing

    @property
    def transformed(self) -> float:
        """The part of the plain peaks that products between transformed tensors reach, whose addresses are regular."""
        part = self.constants.convolutions * self.sustained * self.issued
        return self.constants.transformed * (self.reached.convolutions if self.reached else part)

    def matrix_products(self, number: str) -> float:
        """The part of the peaks of tensor cores that a large product reaches in a number format."""
        if self.reached:
            return self.reached.matrix_products
        wide = self.constants.wide_products if number == "float32" else 1.0
        return self.constants.matrix_products * wide * self.sustained

    def fed_convolutions(self, waiting: float) -> float:
        """The part of the peaks of tensor cores that a large convolution reaches.

        By constants it waits for its numbers, so long beside its arithmetic. A measured part has that in it.
        """
        if self.reached:
            return self.reached.matrix_convolutions
        return self.constants.matrix_convolutions * self.sustained / (1 + waiting)


def read_chip(table: Mapping[str, Any]) -> Chip | None:  # Any: whatever TOML holds
    """Read a GPU model's keys on its chip; None: `multiprocessors` is missing.

    Raises KeyError for a key without `multiprocessors`, and ValueError, which begins with the key, for a wrong value.
    """
    keys = ("compute_capability", "cudnn", "clocks", "dispatch", "reached")
    if "multiprocessors" not in table:
        for key in keys:
            if key in table:
                raise KeyError(f"multiprocessors: {key} needs it")
        return None
    count = whole("multiprocessors", table["multiprocessors"], "", 1, MAX_MULTIPROCESSORS)
    return Chip(
        multiprocessors=count,
        compute_capability=_version("compute_capability", table, 7.0),
        cudnn=_version("cudnn", table, 8.0),
        base=_base(table["clocks"]) if "clocks" in table else 1.0,
        own_dispatch_ns=quantity("dispatch", table["dispatch"], parse_nanos) if "dispatch" in table else None,
        reached=_reached(table["reached"]) if "reached" in table else None,
    )


def _version(key: str, table: Mapping[str, Any], usual: float) -> float:
    value = table.get(key, usual)
    if not _is_number(value) or not 2 <= value < 100:
        raise ValueError(f"{key}: {value!r} is no number such as {usual}")
    return float(value)


def _base(clocks: object) -> float:
    if not isinstance(clocks, list) or len(clocks) != 2 or not all(map(_is_number, clocks)):
        raise ValueError(f"clocks: {clocks!r} are not the base and the boost clock in MHz, such as [1328, 1480]")
    base, boost = map(float, clocks)
    if not 1 <= base <= boost <= MAX_MHZ:
        raise ValueError(f"clocks: {clocks!r} are not in order, from 1 to {MAX_MHZ} MHz")
    return base / boost


def _reached(parts: object) -> PeakParts:
    if not isinstance(parts, dict) or not {"bandwidth", "products"} <= set(parts) <= set(REACHED):
        raise ValueError(f"reached: {parts!r} is no table of parts, such as {{ bandwidth = 0.8, products = 0.9 }}")
    return PeakParts(*[_part(name, parts.get(name, parts["products"])) for name in REACHED])


def _part(name: str, value: object) -> float:
    if not isinstance(value, float | int) or isinstance(value, bool) or not 0.01 <= value <= 1:
        raise ValueError(f"reached: {name} = {value!r} is not a part from 0.01 to 1")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and value == value  # not NaN
