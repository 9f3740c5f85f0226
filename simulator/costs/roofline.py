"""The roofline model of one op: its work, and the time of that work on a device.

    time = launch + max(flops / peak, bytes / bandwidth, on a CPU: core time / cores that share it)

A GPU whose `Chip` is known takes the time of its kernels, instead, at the speeds that they reach (`kernels`). An op
there takes no less than its dispatch by the host, which takes longer where a library chooses and prepares the kernel:

    time = max(dispatch, launch + max(kernel, bytes / reached bandwidth))

The time is the maximum, not Grappler's sum. Hardware overlaps memory traffic with arithmetic, so the slower of the two
bounds the kernel (Williams, Waterman, Patterson: Roofline, CACM 2009). On a CPU no efficiency below the peaks of the
device is assumed; measured times (`with_measured`) are better. The peak is that of the number format of the op, and of
tensor cores or AMX for products and convolutions.

Scalar kernels, on strings, files, tables and sets, and those that compute number by number or row by row, are far from
both roofs. Their time on a core is measured (`rules.HOST`), with what a launch has besides the executor's part. Where
one thread runs such a kernel, the device is busy for all of it (docs/decisions, 0025).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from simulator.cluster.cluster import Device
from simulator.cluster.peaks import FORMATS, peak
from simulator.columns import Flags, Ints, flags, ints
from simulator.costs.formulas.contraction import contraction
from simulator.costs.formulas.matrix import Product
from simulator.costs.formulas.shaped_op import ShapedOp
from simulator.costs.kernels import Kernel, in_library, kernel_of, launched, over_batch, passes_of, seconds, speeds_of
from simulator.costs.rules import CHECKPOINT, Rule
from simulator.costs.table import MAX_OP_NS
from simulator.costs.variants import Window, variant, window_of
from simulator.graph.dtypes import base, number_of
from simulator.units import Nanos

# --- work ------------------------------------------------------------------------------------------------------------


EXECUTOR_NS: Nanos = 130  # the executor's own time per op: TensorFlow 2.21 on one x86 core, measured 2026
STORAGE_BYTES_PER_S = 500_000_000  # a guess for checkpoints: a disk on SATA, 6 Gbit/s
MAX_COUNT = 2**60  # larger counts are capped: one such op takes days anywhere


class OpWork(NamedTuple):
    """The work of one op, on whatever device."""

    flops: int  # operations on real numbers
    moved: int  # bytes
    scratch: int  # bytes
    core_ps: int  # picoseconds of one core, where a CPU does it
    parts: int  # into which they can be split for several cores
    number: str  # the format in which it computes
    matrix: bool  # on matrix units, where there are some
    assumed: str  # a size that the graph does not hold; "" if there is none
    capped: bool  # one of the counts was larger than MAX_COUNT
    rule: Rule
    kernel: Kernel | None  # of a GPU, where it is a product or a convolution
    over_batch: bool  # it takes statistics over a batch
    variant: str  # of a kernel that takes another time at equal counts: "broadcasting rows of 4", "transposed b"
    library: bool = False  # a kernel of cuDNN or cuBLAS, on a GPU
    kernels: int = 1  # of a GPU, but for convolutions
    streamed: int = 0  # bytes that these move, where it is more than `moved`
    rearranged: int = 0  # bytes that kernels read and write before and after a product
    made: int = 0  # bytes of outputs, which are among those moved
    window: Window | None = None  # that slides over each channel by itself


class Works(NamedTuple):
    """The work of the nodes of a graph. Axis: N nodes."""

    different: Sequence[OpWork]
    which: Ints  # [N] row of `different`

    def of(self, node: int) -> OpWork:
        """The work of a node."""
        return self.different[int(self.which[node])]

    def ints(self, value: Callable[[OpWork], int]) -> Ints:
        """[N] a number of each node's work."""
        return ints(np.array([value(work) for work in self.different], np.int64)[self.which])

    def flags(self, test: Callable[[OpWork], bool]) -> Flags:
        """[N] a test of each node's work."""
        return flags(np.array([test(work) for work in self.different], bool)[self.which])


def work_of(rule: Rule, instance: ShapedOp) -> OpWork:
    """The work of an op of that rule."""
    operations = real_operations(rule, instance, rule.flops(instance))
    kernel = kernel_of(instance)
    if isinstance(kernel, Product) and is_complex(instance.input_types):
        kernel = kernel._replace(k=_REAL_PER_COMPLEX * kernel.k)
    passes, einsum = passes_of(instance), contraction(instance)
    kernels, beside = (1, 0) if einsum is None else (einsum.kernels, einsum.rearranged)
    exact = (operations, rule.moved(instance), rule.scratch(instance), rule.core_ps(instance), beside)
    flops, moved, scratch, core_ps, rearranged = (min(max(0, count), MAX_COUNT) for count in exact)
    streamed = 0 if passes is None else min(passes.tensors * max(instance.input_bytes[:1], default=0), MAX_COUNT)
    matrix = on_matrix_units(rule, instance)
    number, assumed = number_format(rule, instance), rule.assumes(instance)
    return OpWork(
        flops,
        moved,
        scratch,
        core_ps,
        max(1, rule.parts(instance)),
        number,
        matrix,
        assumed,
        max(exact) > MAX_COUNT,
        rule,
        kernel,
        over_batch(instance),
        variant(rule, instance, number, einsum),
        kernel is not None or in_library(instance.op),
        kernels if passes is None else passes.kernels,
        streamed,
        rearranged,
        min(moved, sum(instance.output_bytes)),
        window_of(instance),
    )


def time_of(work: OpWork, device: Device) -> Nanos:
    """Time of the work on a device, launch included, even where TensorFlow has no kernel for it."""
    if not work.rule.launches:
        return EXECUTOR_NS
    kernels = 1
    if device.chip is not None:
        reached = speeds_of(device, device.chip, work.number, matrix=work.matrix)
        kernels = max(work.kernels, launched(work.kernel, reached))
    return min(device.op_ns(busy_ns(work, device), kernels, library=work.library), MAX_OP_NS)


def busy_ns(work: OpWork, device: Device) -> Nanos:
    """Time of the work on a device without its launch. What is rearranged comes before and after the product."""
    rule = work.rule
    rate = min(device.bytes_per_s, STORAGE_BYTES_PER_S) if rule.category == CHECKPOINT else device.bytes_per_s
    if device.chip is None:
        speed, _ = speed_of(work, device)
        busy = max(-(-work.flops * 10**9 // speed), -(-work.moved * 10**9 // rate)) - (-work.rearranged * 10**9 // rate)
    else:
        reached = speeds_of(device, device.chip, work.number, matrix=work.matrix)
        unknown = reached.convolutions if reached.tensor_cores else reached.products  # a convolution in 3-D, a CudnnRNN
        computing = work.flops / unknown if work.kernel is None else seconds(work.kernel, reached)
        moved_per_s = min(rate, reached.moved * (reached.statistics if work.over_batch else 1))
        moving = max(work.moved, work.streamed) / moved_per_s
        busy = min(MAX_OP_NS, ceil((max(computing, moving) + work.rearranged / moved_per_s) * 1e9))
    if device.type == "CPU" or rule.opaque:
        called = max(0, device.launch_ns - EXECUTOR_NS) if device.type == "CPU" else 0  # is in the measured time
        busy = max(busy, -(-work.core_ps // (1000 * min(device.cores, work.parts))) - called)
    return busy


def speed_of(work: OpWork, device: Device) -> tuple[int, bool]:
    """Operations per second at the device's peak, and whether they are assumed."""
    return peak(device.flop_per_s, device.peaks, work.number, matrix=work.matrix)


# --- number formats --------------------------------------------------------------------------------------------------


_FORMAT: Mapping[int, str] = MappingProxyType(
    {
        number_of(name): kind
        for kind, names in {
            "float64": "DOUBLE COMPLEX128",
            "float32": "FLOAT COMPLEX64",
            "bfloat16": "BFLOAT16",
            "float16": "HALF FLOAT8_E5M2 FLOAT8_E4M3FN",
        }.items()
        for name in names.split()
    }
)
_BYTES = frozenset(map(number_of, ("QINT8", "QUINT8", "INT8", "UINT8")))
_COMPLEX = frozenset(map(number_of, ("COMPLEX64", "COMPLEX128")))
# A complex multiplication takes four real ones and two additions, a complex addition two: a multiplication and an
# addition 8 for 2.
_REAL_PER_COMPLEX = 4


def number_format(rule: Rule, instance: ShapedOp) -> str:
    """The number format in which the op computes: the widest of its floating inputs and outputs, one of `FORMATS`.

    So FusedBatchNorm with a float16 image and float32 statistics computes in float32, as in cuDNN, and so does
    SparseMatMul with a bfloat16 operand. A product or convolution of two tensors of bytes (QuantizedMatMul) computes in
    int8, whatever its ranges are. Other integers count as float32.
    """
    types = instance.input_types
    if rule.on_matrix_units and len(types) > 1 and base(types[0]) in _BYTES and base(types[1]) in _BYTES:
        return "int8"
    found = {_FORMAT[base(dtype)] for dtype in (*types, *instance.output_types) if base(dtype) in _FORMAT}
    return min(found, key=FORMATS.index, default="float32")


def on_matrix_units(rule: Rule, instance: ShapedOp) -> bool:
    """Whether the op runs on tensor cores or AMX where there are some.

    They take floats and bytes. Complex products run on plain units (see `real_operations`), and so do products of int32
    or int64, which cuBLAS and cuDNN lack.
    """
    types = (*instance.input_types, *instance.output_types)
    fits = not types or any(base(dtype) in _FORMAT or base(dtype) in _BYTES for dtype in types)
    return rule.on_matrix_units and fits and not is_complex(instance.input_types)


def is_complex(types: Sequence[int]) -> bool:
    """Whether one of the types is complex."""
    return any(base(dtype) in _COMPLEX for dtype in types)


def real_operations(rule: Rule, instance: ShapedOp, count: int) -> int:
    """The count in operations on real numbers; all formulas but Fourier's count complex numbers like real ones.

    Complex products do not run on tensor cores: TensorFlow asks cuBLAS for TF32 in float32 alone
    (xla/stream_executor/cuda/cuda_blas.cc, DoBlasGemm).
    """
    if rule.counts_real or not is_complex((*instance.input_types, *instance.output_types)):
        return count
    return _REAL_PER_COMPLEX * count
