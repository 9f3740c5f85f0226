"""The kernels that a calibration times: an op, the tensors that it takes, and how to make it, by family.

    products        MatMul, BatchMatMulV2, Einsum: plain, and transposed as in their gradients
    convolutions    Conv2D and its two gradients
    channels        what is done to each channel: depthwise convolutions, pooling, normalisation, their gradients
    memory          what mainly moves bytes, each at five sizes: from the nearest cache to beyond most
    narrow          some of these in rows of four numbers, which take several times as long, at two sizes
    numbers         the same on a few numbers, as where a graph computes its shapes
    bfloat16        some of these in that format, which has units of its own

The sizes are between those of small layers and of large ones. Bytes decide what a kernel of `memory` takes, so one
layout per op is timed. Others are timed, too, where `variants` tells them apart: broadcasting, axes, lengths of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias

Make: TypeAlias = Callable[..., Any]  # (tensorflow.raw_ops, its inputs in order) -> a tensor, a tuple of them, an op
MOST_PRODUCTS = 2**28  # multiplications of one kernel, but for the large ones: some milliseconds
SIZES = (2**9, 2**12, 2**15, 2**18, 2**21)  # numbers of 4 bytes: 2 KB to 8 MB


@dataclass(frozen=True)
class KernelCase:
    """One kernel. An input is a shape of `dtype`, or values as they are; `held` are shapes of variables."""

    op: str
    make: Make
    shapes: tuple[tuple[int, ...], ...] = ()
    held: tuple[tuple[int, ...], ...] = ()  # given as handles, before the other inputs
    values: Mapping[str, Any] = field(default_factory=dict)  # constants, by the name of the argument
    below: int = 0  # > 0: the last input holds int32 below that number
    before: Make | None = None  # makes one input more of the others, before the clock
    dtype: str = "float32"


def cases() -> Mapping[str, Sequence[KernelCase]]:
    """All kernels by family, in the order in which they are timed."""
    return {
        "products": (*_products(), *_contractions()),
        "convolutions": tuple(_convolutions()),
        "channels": (*_depthwise(), *_pooling(), *_normalisations()),
        "memory": tuple(one for size in SIZES for one in _memory(size)),
        "narrow": tuple(one for size in SIZES[1::2] for one in _narrow(size)),
        "numbers": tuple(_numbers()),
        "bfloat16": tuple(replace(one, dtype="bfloat16") for one in _in_bfloat16()),
    }


def _products() -> Iterator[KernelCase]:
    plain = [(m, k, n) for m in (16, 128, 1024) for k in (16, 128, 1024) for n in (16, 128, 1024)]
    drawn = [_in_sixteens(row, 1, _drawn(row, (1, 2048), (8, 2048), (1, 2048))) for row in range(32)]
    odd = [(1, 1024, 1024), (32, 2048, 10), (256, 1000, 1)]
    odd += [(1, 64, 256), (1, 192, 512), (1, 512, 512), (1, 512, 2048), (1, 2048, 512), (2, 256, 256), (8, 512, 512)]
    wide, deep = [(2048, 512, 512), (8192, 256, 512), (1024, 2048, 1024)], [(512, 8192, 256), (1024, 1024, 4096)]
    for flip_a, flip_b, sizes, large in (
        (False, False, [*plain, *drawn[:16], *odd], wide),
        (True, False, [*plain[::2], *drawn[16:], *odd], deep),
        (False, True, [*plain[1::2], *drawn, *odd], wide),
    ):
        small = [(m, k, n) for m, k, n in sizes if m * k * n < MOST_PRODUCTS]
        for m, k, n in (*small, *large):
            a, b = ((k, m) if flip_a else (m, k)), ((n, k) if flip_b else (k, n))
            how = {"transpose_a": flip_a, "transpose_b": flip_b}
            yield KernelCase("MatMul", lambda raw, a, b, how=how: raw.MatMul(a=a, b=b, **how), (a, b))
    many = [_in_sixteens(row, 2, _drawn(row, (2, 64), (8, 128), (8, 128), (8, 128))) for row in range(33)]
    many += [(2, 16, 16, 8), (2, 8, 8, 16), (4, 16, 8, 16)]
    for row, (count, m, k, n) in enumerate([*many, *((64, *sides) for sides in _ATTENTION)]):
        flip_a, flip_b = row % 3 == 1, row % 3 == 2
        a, b = ((k, m) if flip_a else (m, k)), ((n, k) if flip_b else (k, n))
        how = {"adj_x": flip_a, "adj_y": flip_b}
        shapes = ((count, *a), (count, *b))
        yield KernelCase("BatchMatMulV2", lambda raw, a, b, how=how: raw.BatchMatMulV2(x=a, y=b, **how), shapes)


def _in_bfloat16() -> Iterator[KernelCase]:
    """Some products and convolutions of each kind and size, with the largest ones, and kernels around them."""
    products, convolutions = list(_products()), list(_convolutions())
    for size in SIZES[::2]:
        rows = (size // _WIDTH, _WIDTH)
        around = [*_elementwise(size, rows), *_reductions(size, rows)]
        usual = {one.op: one for one in reversed(around)}  # nothing is repeated
        yield from (usual[op] for op in _BFLOAT16.split())
    yield from [one for one in convolutions if one.op.startswith("Conv2D")][::7]
    yield from [one for one in products if one.op == "BatchMatMulV2"][::2]
    matrices = [one for one in products if one.op == "MatMul"]
    yield from (one for row, one in enumerate(matrices) if row % 4 == 0 or min(map(prod, one.shapes)) >= _LARGE)


_LARGE = 2**17  # numbers of each operand
_BFLOAT16 = "AddV2 Mul Sub Relu ReluGrad Tanh Exp BiasAdd BiasAddGrad Sum"


def _contractions() -> Iterator[KernelCase]:
    """Products that an Einsum makes, without transposes around them: it computes them by other code than MatMul."""
    for row in range(33):
        drawn = _in_sixteens(row, 2, _drawn(row, (2, 64), (4, 512), (4, 256), (4, 512)))
        count, m, k, n = drawn if row < 27 else (2, 16, 16, 8 * (row - 26))
        equation, a, b = (
            ("mk,kn->mn", (count * m, k), (k, n)),
            ("bmk,bkn->bmn", (count, m, k), (count, k, n)),
            ("bmk,bnk->bmn", (count, m, k), (count, n, k)),
        )[row % 3]
        if count * m * k * n < MOST_PRODUCTS:
            yield KernelCase("Einsum", lambda raw, *both, e=equation: raw.Einsum(inputs=both, equation=e), (a, b))
    for count, m, n in _OUTER:
        shapes = ((count, m, 1), (count, 1, n))
        yield KernelCase("Einsum", lambda raw, *both: raw.Einsum(inputs=both, equation="bmk,bkn->bmn"), shapes)


_OUTER = ((8, 64, 64), (32, 16, 64), (1, 256, 256), (64, 128, 8), (2, 512, 512), (128, 12, 12))  # products of vectors

_ATTENTION = ((256, 256, 32), (256, 32, 256), (256, 32, 256))  # m, k, n of its products, of many heads


def _in_sixteens(row: int, after: int, sides: Sequence[int]) -> tuple[int, ...]:
    """Of four rows out of seven the widths, which come after so many other sides, as most layers have them."""
    if row % 7 >= 4:
        return tuple(sides)
    return (*sides[:after], *(max(16, round(side / 16) * 16) for side in sides[after:]))


def _drawn(row: int, *ranges: tuple[int, int]) -> tuple[int, ...]:
    """Sizes spread evenly over the logarithms of their ranges, by Halton's sequence."""
    found = []
    for prime, (low, high) in zip((2, 3, 5, 7), ranges, strict=False):
        number, digit, part = row + 1, 1.0, 0.0
        while number:
            digit /= prime
            part += digit * (number % prime)
            number //= prime
        found.append(round(low * (high / low) ** part))
    return tuple(found)


# images, side, channels, filters, taps on a side, stride
_CONVOLUTIONS = (
    (8, 32, 3, 16, 3, 1),
    (8, 32, 16, 16, 1, 1),
    (8, 32, 16, 16, 3, 1),
    (8, 32, 16, 32, 5, 1),
    (16, 28, 32, 32, 3, 1),
    (1, 56, 64, 64, 3, 1),
    (4, 28, 128, 128, 1, 1),
    (4, 14, 128, 128, 3, 1),
    (16, 14, 64, 128, 3, 2),
    (8, 7, 256, 256, 3, 1),
    (8, 8, 256, 64, 1, 1),
    (2, 112, 3, 32, 7, 2),
    (2, 64, 8, 8, 3, 1),
    (1, 16, 8, 16, 1, 1),
    (1, 8, 16, 8, 3, 1),
    (1, 4, 64, 64, 1, 1),
    (1, 16, 16, 16, 3, 1),
    (8, 56, 64, 64, 3, 1),
    (16, 28, 128, 128, 3, 1),
    (4, 112, 16, 96, 1, 1),
    (4, 56, 144, 24, 1, 1),
    (8, 28, 40, 240, 1, 1),
    (8, 14, 480, 80, 1, 1),
    (4, 112, 3, 32, 3, 2),
    (2, 64, 3, 32, 7, 1),
    (16, 28, 1, 8, 5, 1),
    (8, 40, 4, 12, 3, 1),
)


def _convolutions() -> Iterator[KernelCase]:
    sides = [_in_sixteens(row, 2, _drawn(row, (1, 32), (7, 64), (3, 256), (8, 256))) for row in range(28)]
    drawn = [(*of, (1, 3, 3, 5)[row % 4], 1) for row, of in enumerate(sides)]
    small = [one for one in drawn if one[0] * one[1] ** 2 * one[2] * one[3] * one[4] ** 2 < MOST_PRODUCTS]
    for images, side, channels, filters, taps, stride in (*_CONVOLUTIONS, *small):
        out = -(-side // stride)
        image, pixels = (images, side, side, channels), (images, out, out, filters)
        weights = (taps, taps, channels, filters)
        how = {"strides": [1, stride, stride, 1], "padding": "SAME"}
        yield from _convolution("Conv2D", image, weights, pixels, how)


def _depthwise() -> Iterator[KernelCase]:
    for images, side, channels, taps, stride in _windows():
        image, pixels = (images, side, side, channels), (images, -(-side // stride), -(-side // stride), channels)
        how = {"strides": [1, stride, stride, 1], "padding": "SAME"}
        yield from _convolution("DepthwiseConv2dNative", image, (taps, taps, channels, 1), pixels, how)


_SLID = (
    *((8, 32, 16, 3, 1), (2, 56, 64, 3, 1), (8, 14, 128, 3, 1), (1, 8, 16, 3, 1), (8, 14, 240, 5, 1)),
    *((4, 112, 96, 3, 2), (8, 56, 144, 5, 2), (4, 112, 32, 7, 2), (1, 14, 480, 5, 1)),
    *((8, 40, 10, 3, 1), (16, 32, 4, 3, 2), (4, 56, 1, 5, 1), (32, 16, 12, 3, 2)),
)
_MOST_NUMBERS = 2**22  # of images over which a window slides


def _windows() -> Iterator[tuple[int, int, int, int, int]]:
    """Images, side, channels, taps on a side and stride of windows that slide over each channel by itself."""
    yield from _SLID
    for row in range(20):
        images, side, channels = _in_sixteens(row, 2, _drawn(row, (1, 32), (4, 112), (8, 1024)))
        taps, stride = (3, 5, 3, 7)[row % 4], (1, 1, 2)[row % 3]
        if images * side**2 * channels <= _MOST_NUMBERS and images * side**2 * channels * taps**2 <= MOST_PRODUCTS // 4:
            yield images, side, channels, taps, stride


def _pooling() -> Iterator[KernelCase]:
    """Pooling and its gradients: half of them by the same windows, half by windows that meet and do not overlap."""
    for row, (images, side, channels, *window) in enumerate(_windows()):
        taps, stride = window if row % 2 == 0 else [(2, 4, 2, 7)[row // 2 % 4]] * 2
        out = -(-side // stride)
        image, pixels = (images, side, side, channels), (images, out, out, channels)
        how = {"ksize": [1, taps, taps, 1], "strides": [1, stride, stride, 1], "padding": "SAME"}
        yield KernelCase("MaxPool", lambda raw, x, how=how: raw.MaxPool(input=x, **how), (image,))
        yield KernelCase(
            "MaxPoolGrad",
            lambda raw, x, g, y, how=how: raw.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, **how),
            (image, pixels),
            before=lambda raw, x, g, how=how: raw.MaxPool(input=x, **how),  # oneDNN takes over where it did the pooling
        )
        yield KernelCase("AvgPool", lambda raw, x, how=how: raw.AvgPool(value=x, **how), (image,))
        yield KernelCase(
            "AvgPoolGrad",
            lambda raw, g, how=how, shape=list(image): raw.AvgPoolGrad(orig_input_shape=shape, grad=g, **how),
            (pixels,),
        )


def _convolution(
    op: str, image: tuple[int, ...], weights: tuple[int, ...], pixels: tuple[int, ...], how: Mapping[str, Any]
) -> Iterator[KernelCase]:
    """A convolution and both of its gradients; the forms are those of its inputs and its output."""
    by_input, by_filter = f"{op}BackpropInput", f"{op}BackpropFilter"
    yield KernelCase(op, lambda raw, x, w: getattr(raw, op)(input=x, filter=w, **how), (image, weights))
    yield KernelCase(
        by_input,
        lambda raw, w, dy: getattr(raw, by_input)(input_sizes=list(image), filter=w, out_backprop=dy, **how),
        (weights, pixels),
    )
    yield KernelCase(
        by_filter,
        lambda raw, x, dy: getattr(raw, by_filter)(input=x, filter_sizes=list(weights), out_backprop=dy, **how),
        (image, pixels),
    )


_UNARY = "Neg Exp Log Log1p Expm1 Sqrt Rsqrt Reciprocal Square Tanh Sigmoid Erf Erfc Sin Floor Abs"
_ACTIVATIONS = "Relu Relu6 LeakyRelu Elu Softplus"
_BINARY = "AddV2 Sub Mul RealDiv Maximum SquaredDifference GreaterEqual"
_WIDTH = 64  # numbers in a row
_ROWS = (8, 64, 512)  # the same of kernels that work row by row
_CHANNELS = 16


def _memory(size: int) -> Iterator[KernelCase]:
    """Kernels over tensors of so many numbers."""
    rows = (size // _WIDTH, _WIDTH)
    yield from _elementwise(size, rows)
    yield from _reductions(size, rows)
    for width in _ROWS:
        yield from _by_rows(max(1, size // width), width)
        yield from _lookups(size, width)
    yield from _arrays(size, rows)
    yield from _updates(size)
    yield from _images(size, _CHANNELS)


def _elementwise(size: int, rows: tuple[int, int]) -> Iterator[KernelCase]:
    for op in _UNARY.split():
        yield KernelCase(op, lambda raw, x, op=op: getattr(raw, op)(x=x), ((size,),))
    for op in _ACTIVATIONS.split():
        yield KernelCase(op, lambda raw, x, op=op: getattr(raw, op)(features=x), ((size,),))
        back = lambda raw, x, y, op=op: getattr(raw, f"{op}Grad")(gradients=x, **{_GIVEN.get(op, "features"): y})  # noqa: E731  # one line of a table
        yield KernelCase(f"{op}Grad", back, ((size,), (size,)))
    for op in _BINARY.split():
        both = lambda raw, x, y, op=op: getattr(raw, op)(x=x, y=y)  # noqa: E731  # one line of a table
        yield KernelCase(op, both, ((size,), (size,)))
        yield KernelCase(op, both, ((size,), ()))
    yield from _repeating(rows)
    yield KernelCase("AddN", lambda raw, *x: raw.AddN(inputs=list(x)), ((size,),) * 3)
    for op in ("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad"):
        yield KernelCase(op, lambda raw, x, y, op=op: getattr(raw, op)(y=x, dy=y), ((size,), (size,)))
    yield KernelCase("Cast", lambda raw, x: raw.Cast(x=x, DstT="int32"), ((size,),))
    yield KernelCase(
        "SelectV2",
        lambda raw, x, y, chosen: raw.SelectV2(condition=chosen, t=x, e=y),
        ((size,), (size,)),
        before=lambda raw, x, y: raw.GreaterEqual(x=x, y=y),
    )


_GIVEN = {"Elu": "outputs"}  # names of the second argument of a gradient


def _repeating(rows: tuple[int, int]) -> Iterator[KernelCase]:
    """Elementwise kernels that repeat a row or a column."""
    for op in _BINARY.split():
        both = lambda raw, x, y, op=op: getattr(raw, op)(x=x, y=y)  # noqa: E731  # one line of a table
        yield KernelCase(op, both, (rows, rows[1:]))
        yield KernelCase(op, both, (rows, (rows[0], 1)))
    yield KernelCase("BiasAdd", lambda raw, x, b: raw.BiasAdd(value=x, bias=b), (rows, rows[1:]))


_FEW = 16  # rows that a reduction joins, where these are few
_REDUCING = ("Sum", "Mean", "Max")


def _reductions(size: int, rows: tuple[int, int]) -> Iterator[KernelCase]:
    yield from _reducing(rows)
    for op in _REDUCING:
        yield KernelCase(op, lambda raw, x, op=op: getattr(raw, op)(input=x, axis=[0, 1]), (rows,))
        yield KernelCase(op, lambda raw, x, op=op: getattr(raw, op)(input=x, axis=0), ((_FEW, max(1, size // _FEW)),))
    yield KernelCase("L2Loss", lambda raw, x: raw.L2Loss(t=x), ((size,),))


def _reducing(rows: tuple[int, int]) -> Iterator[KernelCase]:
    """Sums along rows, and of rows."""
    for op in _REDUCING:
        for axis in (0, 1):
            yield KernelCase(op, lambda raw, x, op=op, axis=axis: getattr(raw, op)(input=x, axis=axis), (rows,))
    yield KernelCase("BiasAddGrad", lambda raw, x: raw.BiasAddGrad(out_backprop=x), (rows,))


def _by_rows(count: int, width: int) -> Iterator[KernelCase]:
    """Kernels that do something for each row, and something for each number of it."""
    rows = (count, width)
    yield KernelCase("Softmax", lambda raw, x: raw.Softmax(logits=x), (rows,))
    yield KernelCase("LogSoftmax", lambda raw, x: raw.LogSoftmax(logits=x), (rows,))
    yield KernelCase("ArgMax", lambda raw, x: raw.ArgMax(input=x, dimension=1), (rows,))
    yield KernelCase(
        "SparseSoftmaxCrossEntropyWithLogits",
        lambda raw, x, labels: raw.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=labels),
        (rows, (count,)),
        below=width,
    )


def _lookups(size: int, width: int) -> Iterator[KernelCase]:
    """Reads and updates of some rows of a table."""
    table, count = (max(1, min(4 * size, 2**22) // width), width), max(1, size // 2 // width)
    yield KernelCase(
        "GatherV2", lambda raw, x, ids: raw.GatherV2(params=x, indices=ids, axis=0), (table, (count,)), below=table[0]
    )
    yield KernelCase(
        "ResourceGather",
        lambda raw, v, ids: raw.ResourceGather(resource=v, indices=ids, dtype="float32"),
        ((count,),),
        held=(table,),
        below=table[0],
    )
    yield KernelCase(
        "ResourceScatterSub",
        lambda raw, v, d, ids: raw.ResourceScatterSub(resource=v, indices=ids, updates=d),
        ((count, width), (count,)),
        held=(table,),
        below=table[0],
    )
    yield KernelCase(
        "ResourceSparseApplyAdagrad",
        lambda raw, v, a, d, ids: raw.ResourceSparseApplyAdagrad(var=v, accum=a, lr=1e-9, grad=d, indices=ids),
        ((count, width), (count,)),
        held=(table, table),
        below=table[0],
    )


_NARROW = 4  # numbers in a row of few


def _narrow(size: int) -> Iterator[KernelCase]:
    """Kernels over so many numbers in narrow rows, or in images of few channels."""
    rows = (size // _NARROW, _NARROW)
    yield from _repeating(rows)
    yield from _reducing(rows)
    yield from _in_rows(rows)
    yield from _sorting(rows)
    yield from _images(size, _NARROW)
    yield KernelCase("Transpose", lambda raw, x: raw.Transpose(x=x, perm=[1, 0]), (rows,))


_DRAWING = ("RandomUniform", "RandomStandardNormal", "TruncatedNormal")


def _arrays(size: int, rows: tuple[int, int]) -> Iterator[KernelCase]:
    side = rows[0] // 4
    yield KernelCase("DeepCopy", lambda raw, x: raw.DeepCopy(x=x), ((size,),))
    for op in _DRAWING if size < SIZES[-1] else ():  # the last would take longer than all others
        yield KernelCase(op, lambda raw, op=op: getattr(raw, op)(shape=[size], dtype="float32"))
    yield from _in_rows(rows)
    matrices = (max(1, size // 4096), 32, min(128, size // 32))
    yield KernelCase("Transpose", lambda raw, x: raw.Transpose(x=x, perm=[0, 2, 1]), (matrices,))
    yield KernelCase("Transpose", lambda raw, x: raw.Transpose(x=x, perm=[0, 2, 1, 3]), ((4, side, 4, _WIDTH // 4),))
    yield KernelCase("Fill", lambda raw, x, n=size: raw.Fill(dims=[n], value=x), ((),))
    yield KernelCase("Cumsum", lambda raw, x: raw.Cumsum(x=x, axis=1), (rows,))
    yield from _sorting(rows)


def _sorting(rows: tuple[int, int]) -> Iterator[KernelCase]:
    yield KernelCase("ReverseV2", lambda raw, x: raw.ReverseV2(tensor=x, axis=[1]), (rows,))
    yield KernelCase("TopKV2", lambda raw, x: raw.TopKV2(input=x, k=1), (rows,))


def _in_rows(rows: tuple[int, int]) -> Iterator[KernelCase]:
    """Kernels that copy parts of rows, or whole ones."""
    count, width = rows
    half, wide = width // 2, (count // 2, 2 * width)
    yield KernelCase("ConcatV2", lambda raw, x, y: raw.ConcatV2(values=[x, y], axis=1), (rows, rows))
    yield KernelCase("Split", lambda raw, x: raw.Split(axis=1, value=x, num_split=2), (wide,))
    yield KernelCase("Pack", lambda raw, x, y: raw.Pack(values=[x, y], axis=1), (rows, rows))
    yield KernelCase("Unpack", lambda raw, x: raw.Unpack(value=x, num=4, axis=1), ((count // 4, 4, width),))
    yield KernelCase("Slice", lambda raw, x: raw.Slice(input=x, begin=[0, half], size=[count // 2, width]), (wide,))
    yield KernelCase(
        "StridedSlice",
        lambda raw, x: raw.StridedSlice(input=x, begin=[0, half], end=[count // 2, half + width], strides=[1, 1]),
        (wide,),
    )
    yield KernelCase("Tile", lambda raw, x: raw.Tile(input=x, multiples=[1, 4]), ((count // 4, width),))
    yield KernelCase("Pad", lambda raw, x: raw.Pad(input=x, paddings=[[1, 1], [1, 1]]), (rows,))
    yield KernelCase(
        "GatherNd", lambda raw, x, ids: raw.GatherNd(params=x, indices=ids), (rows, (count // 2, 1)), below=count
    )
    yield KernelCase(
        "UnsortedSegmentSum",
        lambda raw, x, ids: raw.UnsortedSegmentSum(data=x, segment_ids=ids, num_segments=count),
        (rows, (count,)),
        below=count,
    )


def _numbers() -> Iterator[KernelCase]:
    """Kernels over eight numbers or less."""
    size, rows = 8, (2, 4)
    yield from _elementwise(size, rows)
    yield from _reductions(size, rows)
    yield from _by_rows(1, size)
    yield from _lookups(2 * size, size)
    yield from _updates(size)
    yield KernelCase("ConcatV2", lambda raw, x, y: raw.ConcatV2(values=[x, y], axis=0), ((4,), (4,)))
    yield KernelCase("Pack", lambda raw, x, y: raw.Pack(values=[x, y]), ((), ()))
    yield KernelCase("Split", lambda raw, x: raw.Split(axis=1, value=x, num_split=2), (rows,))
    yield KernelCase("Slice", lambda raw, x: raw.Slice(input=x, begin=[1], size=[2]), ((4,),))
    yield KernelCase(
        "StridedSlice",
        lambda raw, x: raw.StridedSlice(input=x, begin=[1], end=[2], strides=[1], shrink_axis_mask=1),
        ((4,),),
    )
    yield KernelCase("Transpose", lambda raw, x: raw.Transpose(x=x, perm=[1, 0]), (rows,))
    yield KernelCase("Transpose", lambda raw, x: raw.Transpose(x=x, perm=[0, 2, 1, 3]), ((1, 4, 2, 4),))
    yield KernelCase("Tile", lambda raw, x: raw.Tile(input=x, multiples=[1, 2]), (rows,))
    yield KernelCase("Pad", lambda raw, x: raw.Pad(input=x, paddings=[[1, 1], [1, 1]]), (rows,))
    yield KernelCase("Fill", lambda raw, x: raw.Fill(dims=[4], value=x), ((),))


def _updates(size: int) -> Iterator[KernelCase]:
    yield KernelCase(
        "ResourceApplyGradientDescent",
        lambda raw, v, d: raw.ResourceApplyGradientDescent(var=v, alpha=1e-9, delta=d),
        ((size,),),
        held=((size,),),
    )
    yield KernelCase(
        "ResourceApplyMomentum",
        lambda raw, v, a, d: raw.ResourceApplyMomentum(var=v, accum=a, lr=1e-9, grad=d, momentum=0.9),
        ((size,),),
        held=((size,), (size,)),
    )
    yield KernelCase(
        "ResourceApplyAdam",
        lambda raw, v, m, w, d: raw.ResourceApplyAdam(
            var=v, m=m, v=w, beta1_power=0.9, beta2_power=0.9, lr=1e-9, beta1=0.9, beta2=0.9, epsilon=1e-3, grad=d
        ),
        ((size,),),
        held=((size,),) * 3,
    )
    yield KernelCase(
        "AssignAddVariableOp",
        lambda raw, v, d: raw.AssignAddVariableOp(resource=v, value=d),
        ((size,),),
        held=((size,),),
    )
    yield KernelCase(
        "ResourceApplyAdagrad",
        lambda raw, v, a, d: raw.ResourceApplyAdagrad(var=v, accum=a, lr=1e-9, grad=d),
        ((size,),),
        held=((size,),) * 2,
    )
    yield KernelCase(
        "ResourceApplyRMSProp",
        lambda raw, v, m, w, d: raw.ResourceApplyRMSProp(
            var=v, ms=m, mom=w, lr=1e-9, rho=0.9, momentum=0.9, epsilon=1e-3, grad=d
        ),
        ((size,),),
        held=((size,),) * 3,
    )


def _images(size: int, channels: int) -> Iterator[KernelCase]:
    wide = size // (16 * channels)
    half = (2, 4, wide // 2, channels)
    yield KernelCase("ResizeBilinear", lambda raw, x: raw.ResizeBilinear(images=x, size=[8, wide]), (half,))
    yield KernelCase(
        "ResizeNearestNeighbor", lambda raw, x: raw.ResizeNearestNeighbor(images=x, size=[8, wide]), (half,)
    )


_MANY = (128, 512)  # channels of a normalisation, which takes sixteen at once
_IN_FEW_LANES = (4, 8, 10, 40, 44)  # and of one that takes eight, four or one


def _normalisations() -> Iterator[KernelCase]:
    for row, size in enumerate(SIZES):
        for channels in (_CHANNELS, *(_MANY if row > 1 else ()), *(_IN_FEW_LANES if row % 2 else ())):
            yield from _normalising(size, channels)


def _normalising(size: int, channels: int) -> Iterator[KernelCase]:
    """Normalisation over the pixels of images, with statistics of the batch and with given ones."""
    image, one = (2, 8, size // (16 * channels), channels), (channels,)
    yield KernelCase(
        "FusedBatchNormV3",
        lambda raw, x, s, o: raw.FusedBatchNormV3(x=x, scale=s, offset=o, mean=[], variance=[], is_training=True),
        (image, one, one),
    )
    yield KernelCase(
        "FusedBatchNormV3",
        lambda raw, x, *of: raw.FusedBatchNormV3(
            x=x, **dict(zip(("scale", "offset", "mean", "variance"), of, strict=True)), is_training=False
        ),
        (image, one, one, one, one),
    )
    yield KernelCase(
        "FusedBatchNormGradV3",
        lambda raw, dy, x, s, m, v: raw.FusedBatchNormGradV3(
            y_backprop=dy, x=x, scale=s, reserve_space_1=m, reserve_space_2=v, reserve_space_3=[], is_training=True
        ),
        (image, image, one, one, one),
    )
