"""Products and convolutions as GPUs run them: tiles, waves, and the algorithm that is fastest.

A product of [m, k] and [k, n] is cut into tiles of the result. Each multiprocessor works on one tile at a time, so the
tiles come in waves. A last wave that is not full, and an edge of the result that does not fill its tile, are lost.
Small tiles load more per operation. A product with few tiles is also cut along k, and the parts are added.

    implicit GEMM    a convolution as one product: pixels by filters, over the taps and channels (all convolutions)
    Winograd 2 x 2   3 x 3 filters at stride 1: 16 products for 4 pixels, 2.25 times fewer multiplications
    Winograd 4 x 4   the same with 36 products for 16 pixels, 4 times fewer, and transformed tensors in memory
    FFT              filters at stride 1: products of transformed blocks of 16 x 16 pixels if an image fits in one, else
                     of 32 x 32, which pass through memory
    direct           of a grouped convolution, all groups in one slow kernel; on Turing one after the other
    by group         of a grouped convolution, a product for each group, whose tiles may not fill the GPU

TensorFlow times cuDNN's algorithms at the first step, so the minimum counts (tensorflow/core/kernels/conv_ops_impl.h).
It keeps filters with the taps first. A kernel turns them to cuDNN's order in each step, or their gradient back.
For convolutions cuDNN has kernels of few sizes. Before 8.1 it cuts only gradients of filters along k: it is all pixels.
Tensor cores need the channels last. With channels first, a kernel transposes what is read, and the product writes its
result in place ("nhwc2nchw" in the names of cuDNN's kernels). Channels first in 16 bits may go by Winograd 4 x 4, too,
with the products on tensor cores (docs/decisions, 0082). In 16 bits they take the groups of a convolution in one
product. Steps of ResNeXt say which GPUs do what (docs/decisions, 0068 and 0078).

Winograd: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), sections 4 and 5. FFT: Mathieu,
Henaff and LeCun, "Fast Training of Convolutional Networks through FFTs" (2014). Implicit GEMM: Chetlur et al., "cuDNN:
Efficient Primitives for Deep Learning" (2014), section 3. `Chip` has the parts of its peaks that a GPU reaches, by
constants that all GPUs share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, inf
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from simulator.cluster.chips import Chip
from simulator.cluster.cluster import Device
from simulator.cluster.peaks import peak
from simulator.costs.formulas.contraction import contracted_product
from simulator.costs.formulas.matrix import Product, many_products, one_product
from simulator.costs.formulas.neural import Convolution, convolved
from simulator.costs.formulas.shaped_op import ShapedOp, flag, radix_sort

TILES = ((128, 128), (128, 64), (64, 64), (64, 32), (32, 32))  # rows and columns, of products
LARGE_TILES = ((128, 256), (128, 128), (128, 64), (64, 64))  # of those on tensor cores (docs/decisions, 0103)
CONVOLUTION_TILES = ((128, 128), (128, 64), (128, 32))  # of cuDNN's kernels for float32, by their names
MATRIX_TILES = ((128, 128), (128, 64))  # of its kernels for tensor cores
SIDE = 128  # of the largest tile
SPLITS = (2, 4, 8, 16, 32, 64)  # parts into which k may be cut
MIN_DEPTH = 64  # of a part
LONG = 8  # waves from which the tiles of several waves overlap, so that half a wave is lost
BLOCKS = (16, 32)  # of pixels that Fourier's algorithm transforms together, on a side
LARGEST_TRANSFORMED = 256  # a side of an image: by steps of SRCNN and DPED, cuDNN takes that algorithm up to it
FLOAT_BYTES = 4  # of a transformed number
BYTES: Mapping[str, int] = MappingProxyType({"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1})

Kernel: TypeAlias = Product | Convolution
Tiles: TypeAlias = tuple[tuple[int, int], ...]


# --- time ------------------------------------------------------------------------------------------------------------


class Speeds(NamedTuple):
    """The speeds that kernels of a GPU reach in one number format, per second."""

    products: float  # operations of a product
    convolutions: float  # operations of the product that a convolution is
    transformed: float  # operations of products between transformed tensors, on CUDA cores
    direct: float  # operations of a grouped convolution, all groups in one kernel, on CUDA cores
    moved: float  # bytes
    multiprocessors: int
    tensor_cores: bool  # products run there
    starting: float  # time of a wave of a product's tiles, besides its arithmetic
    loading: float  # time to load what a tile of 128 x 128 needs, as a part of its arithmetic
    feeding: float  # the same part of a convolution's time
    statistics: float  # part of `moved` that normalisation over a batch reaches
    by_group: bool  # cuDNN has other kernels for grouped convolutions than the direct one
    cuts: bool  # cuDNN cuts all convolutions along their sum, not only gradients of filters
    gap: float  # from the end of a kernel to the start of the next one


def speeds_of(device: Device, chip: Chip, number: str, *, matrix: bool) -> Speeds:
    """The speeds in a number format; with `matrix` on tensor cores, if there are some for it."""
    plain, _ = peak(device.flop_per_s, device.peaks, number)
    best, _ = peak(device.flop_per_s, device.peaks, number, matrix=matrix)
    tensor_cores, constants = best > plain, chip.constants
    # the faster the arithmetic and the wider its numbers, the longer it waits for what a tile loads
    waiting = constants.feeding * best / device.flop_per_s * BYTES[number] / FLOAT_BYTES if tensor_cores else 0.0
    return Speeds(
        products=best * (chip.matrix_products(number) if tensor_cores else chip.products),
        convolutions=best * (chip.fed_convolutions(waiting) if tensor_cores else chip.convolutions),
        transformed=min(plain, device.flop_per_s) * chip.transformed,
        direct=plain * chip.convolutions * constants.direct,
        moved=device.bytes_per_s * chip.bandwidth,
        multiprocessors=chip.multiprocessors,
        tensor_cores=tensor_cores,
        starting=constants.starting_ns / 1e9 * BYTES[number] / BYTES["float16"] if tensor_cores else 0.0,
        loading=constants.loading,
        feeding=waiting / (1 + waiting) if tensor_cores else constants.loading,
        statistics=constants.statistics,
        by_group=chip.by_group,
        cuts=chip.cuts,
        gap=device.launch_ns / 1e9,
    )


def seconds(kernel: Kernel, speeds: Speeds) -> float:
    """The time of the fastest algorithm for a kernel, without the traffic of its own tensors."""
    if isinstance(kernel, Product):
        return _product(kernel, speeds.products, speeds, LARGE_TILES if speeds.tensor_cores else TILES, cut=True)
    arranged = 0 if _is_product(kernel, speeds) else 2 * kernel.filter_elements * kernel.number_bytes / speeds.moved
    return _convolution(kernel, speeds) + arranged


def _is_product(kernel: Convolution, speeds: Speeds) -> bool:
    """Whether TensorFlow asks cuBLAS for it, which takes filters as they are: one tap, or an image's, channels last.

    Without tensor cores Grappler has put the channels first (generic_layout_optimizer.cc).
    """
    if kernel.channels_first or not speeds.tensor_cores or kernel.groups > 1:
        return False
    return _on_whole(kernel) or (kernel.taps == (1, 1) and kernel.strides == (1, 1))


def _on_whole(kernel: Convolution) -> bool:
    """Whether each filter covers the image, and makes one pixel."""
    return (kernel.height, kernel.width) == (1, 1) and kernel.taps == (kernel.input_height, kernel.input_width)


def _convolution(kernel: Convolution, speeds: Speeds) -> float:
    """The time of cuDNN's fastest algorithm."""
    tiles = MATRIX_TILES if speeds.tensor_cores else CONVOLUTION_TILES
    fed = speeds._replace(loading=speeds.feeding, starting=0.0)  # the fitted speeds of convolutions have it in them
    # by steps of VGG-16, whose first full layer is one, cuDNN does not cut a convolution that covers the image
    whole, cut = kernel.product, kernel.of == "filter" or (speeds.cuts and not _on_whole(kernel))
    together = kernel.groups == 1 or (speeds.tensor_cores and kernel.number_bytes < FLOAT_BYTES)
    one = whole if together else whole._replace(times=1)
    found = [whole.times // one.times * _product(one, speeds.convolutions, fed, tiles, cut=cut)]
    if speeds.tensor_cores and kernel.channels_first:
        found[0] += 2 * kernel.read_elements * kernel.number_bytes / speeds.moved
    if kernel.groups > 1:
        direct = 2 * whole.m * whole.n * whole.k * whole.times / speeds.direct
        return min(*found, direct) if speeds.by_group else direct + (kernel.groups - 1) * speeds.gap
    if kernel.strides == (1, 1) and min(kernel.taps) > 1:
        if kernel.taps == (3, 3):
            found += [_winograd(kernel, speeds, 2), _winograd(kernel, speeds, 4)]
        found.append(_fourier(kernel, speeds))
    return min(found)


def launched(kernel: Kernel | None, speeds: Speeds) -> int:
    """The number of kernels that an op starts, of each algorithm the same.

    A convolution of cuDNN computes offsets or tiles first. On tensor cores it transposes two tensors, if at all.
    """
    if not isinstance(kernel, Convolution):
        return 1
    return (3 if kernel.channels_first else 1) if speeds.tensor_cores else 2


def _product(product: Product, speed: float, speeds: Speeds, tiles: Tiles, *, cut: bool) -> float:
    """One product, in waves of tiles; with `cut` also along its depth."""
    m, n, k, count = product
    best, chips = inf, speeds.multiprocessors
    for rows, columns in tiles:
        number = -(-m // rows) * -(-n // columns) * count
        of_tile = 2 * rows * columns * k * chips / (speed * _tile_speed(rows, columns, speeds))
        best = min(best, _waves(number / chips) * (of_tile + speeds.starting))
        if not cut or number >= 2 * chips:
            continue
        for split in SPLITS:
            if k < split * MIN_DEPTH:
                break
            added = (split + 1) * m * n * count * FLOAT_BYTES / speeds.moved
            waves = _waves(number * split / chips)
            best = min(best, waves * (of_tile / split + speeds.starting) + added + speeds.starting)
    return best


def _tile_speed(rows: int, columns: int, speeds: Speeds) -> float:
    """The speed of a tile beside the largest, whose loads per operation are 1 / rows + 1 / columns."""
    more = SIDE / 2 * (1 / rows + 1 / columns) - 1
    return 1 / (1 + speeds.loading * more)


def _waves(tiles_each: float) -> float:
    """The number of waves, given the number of tiles per multiprocessor."""
    return ceil(tiles_each) if tiles_each < LONG else tiles_each + 0.5


def _many(product: Product, speed: float, speeds: Speeds) -> float:
    """Many equal products of transformed tensors side by side, which fill all waves."""
    m, n, k, count = product
    return min(
        -(-m // rows) * -(-n // columns) * count * 2 * rows * columns * k / (speed * _tile_speed(rows, columns, speeds))
        for rows, columns in TILES
    )


def _winograd(kernel: Convolution, speeds: Speeds, side: int) -> float:
    """Time Winograd's algorithm by tiles of `side` x `side` pixels, from (side + 2)^2 numbers each."""
    made_height, made_width = kernel.made
    tiles = kernel.images * -(-made_height // side) * -(-made_width // side)
    count, fused = (side + 2) ** 2, side == 2
    if fused and kernel.of == "filter":
        return inf  # cuDNN has none
    in_halves = speeds.tensor_cores and kernel.number_bytes < FLOAT_BYTES and kernel.channels_first and not fused
    speed = speeds.products if in_halves else speeds.transformed
    time = _many(_transformed(kernel, tiles, count), speed, speeds)
    read = {"": kernel.channels, "input": kernel.filters, "filter": kernel.channels + kernel.filters}[kernel.of]
    written = kernel.channels + kernel.filters - read
    # tensor cores read halves and add in float32
    numbers = read * (kernel.number_bytes if in_halves else FLOAT_BYTES) + written * FLOAT_BYTES
    passed = 0 if fused else 2 * count * tiles * numbers
    return time + passed / speeds.moved


def _fourier(kernel: Convolution, speeds: Speeds) -> float:
    """Time Fourier transforms of blocks; those of real numbers are symmetric, so half of each is kept."""
    made_height, made_width = kernel.made
    whole = made_height + kernel.taps[0] - 1 <= BLOCKS[0] and made_width + kernel.taps[1] - 1 <= BLOCKS[0]
    block = BLOCKS[0 if whole else 1]
    if max(kernel.taps) > block // 2 or max(kernel.made) > LARGEST_TRANSFORMED:
        return inf
    height, width = (block - tap + 1 for tap in kernel.taps)
    blocks = kernel.images * -(-made_height // height) * -(-made_width // width)
    count = block * (block // 2 + 1)
    # complex: four real products
    time = 4 * _many(_transformed(kernel, blocks, count), speeds.transformed, speeds)
    numbers = blocks * (kernel.channels + kernel.filters) + kernel.channels * kernel.filters
    return time + 2 * count * numbers * 2 * FLOAT_BYTES / speeds.moved


def _transformed(kernel: Convolution, tiles: int, count: int) -> Product:
    """The products between transformed tiles."""
    if kernel.of == "filter":
        return Product(kernel.channels, kernel.filters, tiles, count)
    channels = (kernel.filters, kernel.channels) if kernel.of == "" else (kernel.channels, kernel.filters)
    return Product(tiles, *channels, count)


# --- which kernel ----------------------------------------------------------------------------------------------------


_KERNELS: Mapping[str, Callable[[ShapedOp], Kernel | None]] = MappingProxyType(
    {
        **dict.fromkeys(("MatMul", "SparseMatMul", "_FusedMatMul"), one_product),
        **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "_MklFusedBatchMatMulV2"), many_products),
        **dict.fromkeys(("Einsum", "XlaEinsum"), contracted_product),
        **dict.fromkeys(("Conv2D", "_FusedConv2D"), convolved),
        **dict.fromkeys(("Conv2DBackpropInput", "Conv2DBackpropFilter"), convolved),
    }
)


class Passes(NamedTuple):
    """The kernels of an op that goes over its first input several times."""

    kernels: int
    tensors: int  # of the first input's size: so many are read or written by all kernels together


# A maximum and a sum of each row come before what is made of them, each in a kernel of its own, and what Eigen
# evaluates in between is written and read (tensorflow/core/kernels: softmax_op_gpu.cu.cc, sparse_xent_op.h, xent_op.h)
_PASSES: Mapping[str, Passes] = MappingProxyType(
    {
        **dict.fromkeys(("Softmax", "LogSoftmax"), Passes(3, 4)),
        "SparseSoftmaxCrossEntropyWithLogits": Passes(6, 9),
        "SoftmaxCrossEntropyWithLogits": Passes(7, 11),
    }
)
_NORMALISING = ("FusedBatchNorm", "_FusedBatchNorm")
_IN_LIBRARIES = (
    "Conv2D", "_FusedConv2D", "Conv3D", "MatMul", "_FusedMatMul", "BatchMatMul", *_NORMALISING, "MaxPool", "AvgPool",
    "LRN", "CudnnRNN",
)  # fmt: skip


def passes_of(instance: ShapedOp) -> Passes | None:
    """The passes of an op that takes more than one over its first input; None: one reads and writes all."""
    if instance.op in ("TopK", "TopKV2"):
        return None if (found := radix_sort(instance)) is None else Passes(*found)
    return _PASSES.get(instance.op)


def over_batch(instance: ShapedOp) -> bool:
    """Whether an op takes statistics over a batch, which is slower than streaming the same bytes."""
    return instance.op.startswith(_NORMALISING) and flag(instance, "is_training", True)


def in_library(op: str) -> bool:
    """Whether a kernel of cuDNN or cuBLAS does an op, gradients included."""
    return op.startswith(_IN_LIBRARIES)


def kernel_of(instance: ShapedOp) -> Kernel | None:
    """The product or convolution that an op is; None for other ops and for unknown shapes."""
    found = _KERNELS.get(instance.op)
    return found(instance) if found else None
