"""Products and convolutions as GPUs run them: tiles, waves, and the algorithm that is fastest.

A product of [m, k] and [k, n] is cut into tiles of the result. Each multiprocessor works on one tile at a time, so the
tiles come in waves. A last wave that is not full, and an edge of the result that does not fill its tile, are lost.
Small tiles load more per operation. A product with few tiles is also cut along k, and the parts are added.

    implicit GEMM    a convolution as one product: pixels by filters, over the taps and channels (all convolutions)
    Winograd 2 x 2   3 x 3 filters at stride 1: 16 products for 4 pixels, 2.25 times fewer multiplications
    Winograd 4 x 4   the same with 36 products for 16 pixels, 4 times fewer, and transformed tensors in memory
    FFT              large filters at stride 1: products of transformed blocks of 32 x 32, which pass through memory

TensorFlow times cuDNN's algorithms at the first step and keeps the fastest (tensorflow/core/kernels/conv_ops_impl.h),
so the minimum counts. Tensor cores need the channels last. With channels first, input and output are transposed.

Winograd: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), sections 4 and 5. FFT: Mathieu,
Henaff and LeCun, "Fast Training of Convolutional Networks through FFTs" (2014). Implicit GEMM: Chetlur et al., "cuDNN:
Efficient Primitives for Deep Learning" (2014), section 3. `Chip` has the parts of its peaks that a
GPU reaches. The figures below are common to all GPUs and fitted, as benchmarks/RESULTS.md says under "Published times".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, inf
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from simulator.cluster.chips import Chip
from simulator.cluster.cluster import Device
from simulator.cluster.peaks import peak
from simulator.costs.formulas.instance import Instance, flag
from simulator.costs.formulas.matrix import Product, many_products, one_product
from simulator.costs.formulas.neural import Convolution, convolved

TILES = ((128, 128, 1.0), (128, 64, 0.95), (64, 64, 0.85), (64, 32, 0.7), (32, 32, 0.5))  # rows, columns, speed
SPLITS = (2, 4, 8, 16, 32, 64)  # parts into which k may be cut
MIN_DEPTH = 64  # of a part
LONG = 8  # waves from which the tiles of several waves overlap, so that half a wave is lost
WINOGRAD_2, WINOGRAD_4, FFT = 1.05, 1.1, 1.1  # speed of products between transformed tensors, beside a convolution's
REDUCTION = 0.5  # of statistics over a batch, beside streaming the same bytes
BLOCK = 32  # of pixels that are transformed together, on a side
FLOAT_BYTES = 4  # of a transformed number


Kernel: TypeAlias = Product | Convolution


# --- time ------------------------------------------------------------------------------------------------------------


class Speeds(NamedTuple):
    """The speeds that kernels of a GPU reach in one number format, per second."""

    products: float  # operations of a product
    convolutions: float  # operations of the product that a convolution is
    plain: float  # operations on CUDA cores, of products between transformed tensors
    moved: float  # bytes
    multiprocessors: int
    tensor_cores: bool  # products run there


def speeds_of(device: Device, chip: Chip, number: str, *, matrix: bool) -> Speeds:
    """The speeds in a number format; with `matrix` on tensor cores, if there are some for it."""
    plain, _ = peak(device.flop_per_s, device.peaks, number)
    best, _ = peak(device.flop_per_s, device.peaks, number, matrix=matrix)
    tensor_cores = best > plain
    return Speeds(
        products=best * (chip.matrix_products if tensor_cores else chip.products),
        convolutions=best * (chip.matrix_convolutions if tensor_cores else chip.convolutions),
        plain=min(plain, device.flop_per_s) * chip.convolutions,
        moved=device.bytes_per_s * chip.bandwidth,
        multiprocessors=chip.multiprocessors,
        tensor_cores=tensor_cores,
    )


def seconds(kernel: Kernel, speeds: Speeds) -> float:
    """The time of the fastest algorithm for a kernel, without the traffic of its own tensors."""
    if isinstance(kernel, Product):
        return _product(kernel, speeds.products, speeds)
    found = [_product(kernel.product, speeds.convolutions, speeds)]
    if speeds.tensor_cores and kernel.channels_first:
        found[0] += 2 * kernel.tensor_elements * kernel.number_bytes / speeds.moved
    if kernel.stride == 1 and kernel.groups == 1:
        if kernel.taps == (3, 3):
            found += [_winograd(kernel, speeds, 2), _winograd(kernel, speeds, 4)]
        elif min(kernel.taps) > 3 and max(kernel.taps) <= BLOCK // 2:
            found.append(_fourier(kernel, speeds))
    return min(found)


def _product(product: Product, speed: float, speeds: Speeds) -> float:
    """One product, in waves of tiles."""
    m, n, k, count = product
    best, chips = inf, speeds.multiprocessors
    for rows, columns, part in TILES:
        tiles = -(-m // rows) * -(-n // columns) * count
        of_tile = 2 * rows * columns * k * chips / (speed * part)
        best = min(best, _waves(tiles / chips) * of_tile)
        if tiles >= 2 * chips:
            continue
        for split in SPLITS:
            if k < split * MIN_DEPTH:
                break
            added = (split + 1) * m * n * count * FLOAT_BYTES / speeds.moved
            best = min(best, _waves(tiles * split / chips) * of_tile / split + added)
    return best


def _waves(tiles_each: float) -> float:
    """The number of waves, given the number of tiles per multiprocessor."""
    return ceil(tiles_each) if tiles_each < LONG else tiles_each + 0.5


def _many(product: Product, speed: float) -> float:
    """Many equal products side by side, which fill all waves."""
    m, n, k, count = product
    return min(
        -(-m // rows) * -(-n // columns) * count * 2 * rows * columns * k / (speed * part)
        for rows, columns, part in TILES
    )


def _winograd(kernel: Convolution, speeds: Speeds, side: int) -> float:
    """Time Winograd's algorithm by tiles of `side` x `side` pixels, from (side + 2)^2 numbers each."""
    tiles = kernel.images * -(-kernel.height // side) * -(-kernel.width // side)
    count, fused = (side + 2) ** 2, side == 2
    if fused and kernel.of == "filter":
        return inf  # cuDNN has none
    time = _many(_transformed(kernel, tiles, count), speeds.plain * (WINOGRAD_2 if fused else WINOGRAD_4))
    passed = 0 if fused else 2 * count * tiles * (kernel.channels + kernel.filters) * FLOAT_BYTES
    return time + passed / speeds.moved


def _fourier(kernel: Convolution, speeds: Speeds) -> float:
    """Time Fourier transforms of BLOCK x BLOCK blocks; those of real numbers are symmetric, so half of each is kept."""
    height, width = (BLOCK - tap + 1 for tap in kernel.taps)
    blocks = kernel.images * -(-kernel.height // height) * -(-kernel.width // width)
    count = BLOCK * (BLOCK // 2 + 1)
    time = 4 * _many(_transformed(kernel, blocks, count), speeds.plain * FFT)  # complex: four real products
    numbers = blocks * (kernel.channels + kernel.filters) + kernel.channels * kernel.filters
    return time + 2 * count * numbers * 2 * FLOAT_BYTES / speeds.moved


def _transformed(kernel: Convolution, tiles: int, count: int) -> Product:
    """The products between transformed tiles."""
    if kernel.of == "filter":
        return Product(kernel.channels, kernel.filters, tiles, count)
    channels = (kernel.filters, kernel.channels) if kernel.of == "" else (kernel.channels, kernel.filters)
    return Product(tiles, *channels, count)


# --- which kernel ----------------------------------------------------------------------------------------------------


_KERNELS: Mapping[str, Callable[[Instance], Kernel | None]] = MappingProxyType(
    {
        **dict.fromkeys(("MatMul", "SparseMatMul", "_FusedMatMul"), one_product),
        **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), many_products),
        **dict.fromkeys(("Conv2D", "_FusedConv2D"), convolved),
        **dict.fromkeys(("Conv2DBackpropInput", "Conv2DBackpropFilter"), convolved),
    }
)


_NORMALISING = ("FusedBatchNorm", "_FusedBatchNorm")


def streams(instance: Instance) -> float:
    """The part of the reached bandwidth that an op gets: it is less where it takes statistics over a batch."""
    over_batch = instance.op.startswith(_NORMALISING) and flag(instance, "is_training", True)
    return REDUCTION if over_batch else 1.0


def kernel_of(instance: Instance) -> Kernel | None:
    """The product or convolution that an op is; None for other ops and for unknown shapes."""
    found = _KERNELS.get(instance.op)
    return found(instance) if found else None
