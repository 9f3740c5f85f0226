"""Products and convolutions on GPUs: worked by hand, and laws that hold for all."""

from dataclasses import replace
from math import ceil, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.chips import FITTED, Chip, PeakParts, read_chip
from simulator.cluster.peaks import Peaks
from simulator.costs.formulas.matrix import Product
from simulator.costs.formulas.neural import Convolution, convolution, convolved
from simulator.costs.formulas.shaped_op import ShapedOp
from simulator.costs.kernels import Speeds, in_library, kernel_of, launched, seconds, speeds_of
from simulator.costs.roofline import time_of, work_of
from simulator.costs.rules import RULES
from simulator.graph.messages import AttrValue
from tests.costs.test_estimate import GPU

LOADING = 0.2
CHIP = Speeds(
    products=1e12,
    convolutions=1e12,
    transformed=1e12,
    moved=1e18,
    multiprocessors=10,
    tensor_cores=False,
    starting=0.0,
    loading=LOADING,
    feeding=LOADING,
    statistics=0.5,
    direct=1e11,
    by_group=True,
    cuts=False,
    gap=1e-6,
)
sizes = st.integers(1, 3000)


def instance(op: str, inputs: list[tuple[int, ...]], output: tuple[int, ...], **attrs: AttrValue) -> ShapedOp:
    nbytes = [4 * ceil_product(shape) for shape in inputs]
    return ShapedOp(op, tuple(inputs), (output,), tuple(nbytes), (4 * ceil_product(output),), attrs)


def ceil_product(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def strides(*steps: int) -> AttrValue:
    return AttrValue(list=AttrValue.ListValue(i=steps))


def conv(
    of: str = "", taps: int = 3, stride: int = 1, channels: int = 64, filters: int = 64, side: int = 64
) -> Convolution:
    pixels = side // stride
    return Convolution(
        of,
        4,
        pixels,
        pixels,
        side,
        side,
        channels,
        filters,
        (taps, taps),
        (stride, stride),
        1,
        channels_first=True,
        number_bytes=4,
    )


@pytest.mark.parametrize(
    ("product", "waves", "tile", "loads"),
    [
        (Product(1280, 128, 32), 1, 128 * 128, 0),  # ten tiles: one wave
        # 42 tiles, which load twice as much; 11 large ones would take two waves of four times the work
        (Product(1281, 128, 32), 5, 64 * 64, 1),
        (Product(12800, 128, 32), 10.5, 128 * 128, 0),  # 100 tiles: waves overlap
        (Product(128, 128, 32, 10), 1, 128 * 128, 0),  # ten products
    ],
)
def test_a_product_by_hand(product: Product, waves: float, tile: int, loads: int) -> None:
    by_hand = waves * 2 * tile * product.k / 1e11 * (1 + LOADING * loads)
    assert seconds(product, CHIP) == pytest.approx(by_hand)


def test_a_wave_on_tensor_cores_takes_time_besides_its_arithmetic() -> None:
    """100 tiles of 128 x 128 are ten waves, 50 of 128 x 256 five, which load a quarter less."""
    cores = CHIP._replace(tensor_cores=True, starting=1e-6)
    large = Product(12800, 128, 32)
    assert seconds(large, cores) == pytest.approx(10.5 * (2 * 128 * 128 * 32 / 1e11 + 1e-6))
    wide = Product(12800, 256, 3200)
    assert seconds(wide, cores) == pytest.approx(10.5 * (2 * 128 * 256 * 3200 / 1e11 * (1 - LOADING / 4) + 1e-6))
    deep = Product(128, 128, 6400)  # ten parts of one tile are one wave, and what adds them starts, too
    parts = cores._replace(multiprocessors=8)
    assert seconds(deep, parts) == pytest.approx(2 * 128 * 128 * 6400 * 8 / 8 / 1e12 + 2e-6)


@pytest.mark.parametrize(("number", "part"), [("bfloat16", 0.91), ("float32", 0.91 * 0.8)])
def test_wide_products_reach_less_of_tensor_cores(number: str, part: float) -> None:
    """By the constants, at half of the way between the clocks of a chip whose base clock is its boost clock."""
    assert Chip(10).matrix_products(number) == pytest.approx(part)
    measured = Chip(10, reached=PeakParts(0.8, 0.9, 0.9, 0.5, 0.9))
    assert measured.matrix_products(number) == 0.5


def test_few_tiles_are_cut_along_their_depth() -> None:
    """One tile of 128 x 128 would keep nine of ten multiprocessors idle; eight of 64 x 32 keep two."""
    deep, slow_memory = Product(128, 128, 6400), CHIP._replace(moved=1e3)
    assert seconds(deep, CHIP) < 2 * 128 * 128 * 6400 / 1e11 / 5
    # adding takes too long
    assert seconds(deep, slow_memory) == pytest.approx(2 * 64 * 32 * 6400 / 1e11 * (1 + 2 * LOADING))


def test_only_gradients_of_filters_are_cut_along_their_depth() -> None:
    """One image of 7 x 7 makes four tiles of 128 x 128; all its pixels make few, too, but are the depth there."""
    forward = conv(taps=1, channels=4096, filters=512, side=7)._replace(images=1)
    assert seconds(forward, CHIP) >= 2 * 128 * 32 * 4096 / 1e11
    assert seconds(forward.product, CHIP) < seconds(forward, CHIP) / 1.5
    deep = conv(taps=1, channels=64, filters=64)._replace(of="filter")
    assert seconds(deep, CHIP) < 2 * 128 * 64 * deep.product.k / 1e11 / 3


def test_newer_libraries_cut_convolutions_but_those_of_a_whole_image() -> None:
    """A gradient of 12 x 12 numbers makes two large tiles for ten multiprocessors, which parts of its depth fill."""
    newer = CHIP._replace(cuts=True)
    small = conv("input", taps=5, stride=2, channels=128, filters=1024, side=12)._replace(images=1)
    assert seconds(small, newer) < seconds(small, CHIP) / 1.5
    assert seconds(small._replace(of=""), newer) < seconds(small._replace(of=""), CHIP)
    whole = conv(taps=7, channels=512, filters=128, side=7)._replace(images=1, height=1, width=1)
    assert seconds(whole, newer) == seconds(whole, CHIP)
    assert seconds(whole.product, CHIP) < seconds(whole, CHIP) / 1.5
    assert [Chip(1, cudnn=version).cuts for version in (7.6, 8.0, 8.1, 9.7)] == [False, False, True, True]
    assert not Chip(1).cuts


def test_fouriers_algorithm_is_for_images_of_256_at_most() -> None:
    near, far = (conv(taps=5, side=side, channels=128, filters=128)._replace(images=1) for side in (256, 257))
    assert seconds(near, CHIP) < seconds(near.product, CHIP) / 2
    assert seconds(far, CHIP) == pytest.approx(seconds(far.product, CHIP))


def test_convolutions_start_kernels_that_prepare_them() -> None:
    cores = CHIP._replace(tensor_cores=True)
    assert launched(conv(), CHIP) == 2
    assert launched(conv(), cores) == 3
    assert launched(conv()._replace(channels_first=False), cores) == 1
    assert launched(Product(1, 1, 1), CHIP) == launched(None, CHIP) == 1


def test_winograd_makes_four_pixels_of_sixteen_products() -> None:
    large = conv(channels=128, filters=128)
    with_memory = CHIP._replace(moved=1e9)  # transforms that pass through memory never pay
    by_hand = 2 * 4 * 32 * 32 * 16 * 128 * 128 / 1e12
    turned = 2 * 4 * 9 * 128 * 128 / 1e9  # filters, to the order that cuDNN wants
    assert seconds(large, with_memory) == pytest.approx(by_hand + turned)
    direct = 2 * 4 * 64 * 64 * 9 * 128 * 128 / 1e12
    assert direct / by_hand == pytest.approx(2.25)


@pytest.mark.parametrize(("taps", "stride"), [(1, 1), (3, 2), (2, 2)])
def test_other_filters_are_one_product(taps: int, stride: int) -> None:
    made = conv(taps=taps, stride=stride, filters=128, side=256)  # so many tiles that the largest are the best
    assert seconds(made, CHIP) == pytest.approx(seconds(made.product, CHIP))


@pytest.mark.parametrize(
    ("taps", "side", "tensor_cores", "turned"),
    [(1, 7, False, True), (1, 7, True, False), (7, 7, False, True), (7, 7, True, False), (7, 14, True, True)],
)
def test_filters_are_turned_for_cudnn_and_not_for_cublas(
    taps: int, side: int, tensor_cores: bool, turned: bool
) -> None:
    """With the channels last, one tap is a product for cuBLAS, and so are taps on a whole image."""
    pixels = 1 if taps == side else side
    made = conv(taps=taps, side=side)._replace(channels_first=False, height=pixels, width=pixels)
    chip = CHIP._replace(tensor_cores=tensor_cores, transformed=1e-9, moved=1e3)
    took = 2 * 4 * taps * taps * 64 * 64 / 1e3 if turned else 0.0
    assert seconds(made, chip) == pytest.approx(seconds(made, chip._replace(moved=1e18)) + took)


@pytest.mark.parametrize(("of", "channels"), [("", 64), ("input", 32), ("filter", 64 + 32)])
def test_tensor_cores_transpose_what_they_read_if_channels_come_first(of: str, channels: int) -> None:
    """The image forward, the incoming gradient backward, both for the filters."""
    made = conv(of, taps=1, channels=64, filters=32)
    cores = CHIP._replace(tensor_cores=True, moved=1e9)
    last, turned = seconds(made._replace(channels_first=False), cores), 2 * 4 * 64 * 32 / 1e9
    assert seconds(made, cores) == pytest.approx(last + turned + 2 * 4 * 4 * 64 * 64 * channels / 1e9)


@pytest.mark.parametrize(("of", "bytes_of_both"), [("", 2 + 4), ("input", 2 + 4), ("filter", 2 + 2)])
def test_winograd_runs_on_tensor_cores_in_16_bits_with_channels_first(of: str, bytes_of_both: int) -> None:
    """36 products for 16 pixels. What they read has two bytes, and what they add has four; both pass memory twice."""
    made = conv(of, channels=128, filters=128)._replace(number_bytes=2)
    cores = CHIP._replace(tensor_cores=True, products=8e12, moved=1e12)
    tiles = 4 * 16 * 16
    passed = 2 * 36 * tiles * 128 * bytes_of_both
    turned = 2 * 2 * 9 * 128 * 128
    by_hand = 2 * tiles * 36 * 128 * 128 / 8e12 + (passed + turned) / 1e12
    assert seconds(made, cores) == pytest.approx(by_hand)
    assert seconds(made._replace(number_bytes=4), cores) > 2 * by_hand  # on CUDA cores
    assert seconds(made._replace(channels_first=False), cores) > 2 * by_hand  # cuDNN has no such kernel


@pytest.mark.parametrize(("side", "block"), [(12, 16), (13, 32)])
def test_fourier_takes_an_image_in_one_block_where_it_fits(side: int, block: int) -> None:
    """5 x 5 taps need four more pixels on a side."""
    made = conv(taps=5, side=side, channels=128, filters=128)
    slow_memory = CHIP._replace(convolutions=1e9, moved=1e9)
    count, numbers = block * (block // 2 + 1), 4 * (128 + 128) + 128 * 128
    loads = 1 + LOADING * (64 * (1 / 32 + 1 / 32) - 1)
    turned = 2 * 4 * 25 * 128 * 128
    by_hand = 4 * count * 2 * 32 * 128 * 128 / 1e12 * loads + (2 * count * numbers * 8 + turned) / 1e9
    assert seconds(made, slow_memory) == pytest.approx(by_hand)


@given(sizes, sizes, sizes, st.integers(1, 20))
def test_a_product_is_never_faster_than_its_operations(m: int, n: int, k: int, times: int) -> None:
    assert seconds(Product(m, n, k, times), CHIP) >= 2 * m * n * k * times / 1e12


@given(sizes, sizes, sizes, st.integers(1, 64))
def test_more_images_never_take_less(channels: int, filters: int, side: int, images: int) -> None:
    small = conv(channels=channels, filters=filters, side=side)._replace(images=images)
    for of in ("", "input", "filter"):
        one, more = small._replace(of=of), small._replace(of=of, images=2 * images)
        # half a wave is lost or not: from LONG waves on, the tiles of several waves overlap
        assert seconds(one, CHIP) <= seconds(more, CHIP) * 1.07


@given(sizes, sizes, sizes)
def test_a_faster_gpu_is_faster_in_proportion(m: int, n: int, k: int) -> None:
    twice = CHIP._replace(products=2e12, convolutions=2e12, transformed=2e12, moved=2e18)
    assert seconds(Product(m, n, k), twice) == pytest.approx(seconds(Product(m, n, k), CHIP) / 2)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(("stride", "taps"), [(1, 3), (2, 3), (4, 11), (1, 1)])
def test_a_convolution_is_found_in_its_shapes(layout: str, stride: int, taps: int) -> None:
    """The implicit product has the operations of the formula: as many for each gradient."""
    side, channels, filters = 64, 8, 24
    out = ceil(side / stride)

    def shape(size: int, depth: int) -> tuple[int, ...]:
        return (5, depth, size, size) if layout == "NCHW" else (5, size, size, depth)

    image, pixels, weights = shape(side, channels), shape(out, filters), (taps, taps, channels, filters)
    steps = strides(1, 1, stride, stride) if layout == "NCHW" else strides(1, stride, stride, 1)
    attrs = {"strides": steps, "data_format": AttrValue(s=layout.encode())}
    ops = [
        instance("Conv2D", [image, weights], pixels, **attrs),
        instance("Conv2DBackpropInput", [(4,), weights, pixels], image, **attrs),
        instance("Conv2DBackpropFilter", [image, (4,), pixels], weights, **attrs),
    ]
    for one, of in zip(ops, ("", "input", "filter"), strict=True):
        made = convolved(one)
        assert made is not None
        assert kernel_of(one) == made
        assert (made.of, made.images, made.height, made.input_width) == (of, 5, out, side)
        assert (made.channels, made.filters, made.taps, made.strides) == (
            channels,
            filters,
            (taps, taps),
            (stride, stride),
        )
        assert (made.groups, made.number_bytes) == (1, 4)
        m, n, k, times = made.product
        lost = made.images * side * side if of == "input" else 0  # its depth is rounded down
        assert convolution(one) - 2 * n * lost <= 2 * m * n * k * times <= convolution(one)


def test_a_gradient_of_an_image_has_all_taps_at_each_pixel() -> None:
    """A full layer as a convolution: one pixel comes of 7 x 7, whose gradients are computed over all taps each."""
    image, pixels, weights = (2, 7, 7, 512), (2, 1, 1, 4096), (7, 7, 512, 4096)
    made = convolved(instance("Conv2DBackpropInput", [(4,), weights, pixels], image, strides=strides(1, 1, 1, 1)))
    assert made is not None
    assert made.product == Product(2 * 7 * 7, 512, 4096 * 7 * 7)
    assert made.made == (7, 7)
    halved = made._replace(strides=(2, 2), input_height=13, input_width=13)
    assert halved.product == Product(2 * 13 * 13, 512, 4096 * 7 * 7 // 4)


def test_groups_are_products_of_their_own() -> None:
    image, pixels, weights = (2, 8, 8, 32), (2, 8, 8, 64), (3, 3, 8, 64)
    made = convolved(instance("Conv2D", [image, weights], pixels, strides=strides(1, 1, 1, 1)))
    assert made is not None
    assert made.groups == 4
    assert made.product == Product(128, 16, 72, 4)


@given(st.sampled_from(["", "input", "filter"]), st.integers(1, 6), st.integers(1, 8), st.sampled_from([8, 32, 64]))
def test_groups_take_a_kernel_each_or_one_slow_kernel(of: str, groups: int, wide: int, side: int) -> None:
    kernel = conv(of, channels=groups * wide, filters=groups * wide, side=side)._replace(groups=groups)
    one = conv(of, channels=wide, filters=wide, side=side, stride=1)
    plain = CHIP._replace(transformed=1e-9)  # no other algorithm is worth it
    direct = groups * operations(one.product) / CHIP.direct
    assert seconds(kernel, plain) == pytest.approx(
        seconds(one, plain) if groups == 1 else min(groups * seconds(one, plain), direct)
    )
    apart = direct + (groups - 1) * CHIP.gap
    assert groups == 1 or seconds(kernel, plain._replace(by_group=False)) == pytest.approx(apart)


def test_tensor_cores_take_all_groups_in_one_product_of_16_bits() -> None:
    kernel = conv(channels=128, filters=128)._replace(groups=32, number_bytes=2, channels_first=False)
    chip = CHIP._replace(tensor_cores=True, direct=1.0)
    tiles = ceil(4 * 64 * 64 / 128) * 32  # of 128 x 64, in which 4 filters are alone
    loads = 1 + LOADING * (64 * (1 / 128 + 1 / 64) - 1)
    assert seconds(kernel, chip) == pytest.approx((tiles / 10 + 0.5) * 2 * 128 * 64 * 36 * 10 / 1e12 * loads)
    assert seconds(kernel._replace(number_bytes=4), chip) > seconds(kernel, chip)


def test_turing_starts_the_slow_kernel_once_for_each_group() -> None:
    # ResNeXt's layer of 14 x 14 pixels and 512 channels: 2 x 196 x 512 x 144 operations take 289 us at 1e11 per second
    kernel = conv(channels=512, filters=512, side=14)._replace(images=1, groups=32)
    assert kernel.product == Product(196, 16, 144, 32)
    assert seconds(kernel, CHIP._replace(by_group=False)) == pytest.approx(289.014e-6 + 31e-6, rel=1e-4)


def test_turing_has_the_slow_kernel_alone() -> None:
    """A model of T4, of V100 and of A100, each by its capability."""
    assert [Chip(40, capability).by_group for capability in (7.0, 7.5, 8.0)] == [True, False, True]


def operations(product: Product) -> int:
    return 2 * product.m * product.n * product.k * product.times


def test_unknown_shapes_make_no_kernel() -> None:
    unknown = instance("Conv2D", [(2, 8, 8, 32), (3, 3, 32, 64)], (2, 8, 8, 64), strides=strides(1, 1, 1, 1))
    for shapes in ((None, (3, 3, 32, 64)), ((2, -1, 8, 32), (3, 3, 32, 64)), ((2, 8, 8), (3, 3, 32, 64)), ()):
        broken = ShapedOp("Conv2D", shapes, unknown.outputs, (), (), unknown.attrs)
        assert convolved(broken) is None


FULL = {"multiprocessors": 56, "compute_capability": 6.0, "clocks": [1328, 1480], "dispatch": "28 us"}
MEASURED = {"bandwidth": 0.75, "products": 0.9}


def test_a_chip_is_read_and_its_other_parts_follow_products() -> None:
    assert read_chip(FULL) == Chip(56, 6.0, 1328 / 1480, 28_000)
    assert read_chip({**FULL, "reached": MEASURED}) == Chip(
        56, 6.0, 1328 / 1480, 28_000, PeakParts(0.75, 0.9, 0.9, 0.9, 0.9)
    )
    assert read_chip({"multiprocessors": 56}) == Chip(56)
    assert read_chip({"multiprocessors": 56, "cudnn": 9.7}) == Chip(56, cudnn=9.7)
    assert read_chip({"compute": "1 TFLOP/s"}) is None


def test_what_was_measured_replaces_the_constants() -> None:
    chip = read_chip({**FULL, "reached": MEASURED})
    assert chip is not None
    assert (chip.bandwidth, chip.products, chip.convolutions) == (0.75, 0.9, 0.9)
    assert (chip.dispatch_ns, Chip(56).dispatch_ns) == (28_000, FITTED.dispatch_ns)
    assert chip.host_ns(3) == 28_000 + 2 * FITTED.enqueue_ns * 28_000 // FITTED.dispatch_ns  # that host is slower
    assert Chip(56).host_ns(3) == FITTED.dispatch_ns + 2 * FITTED.enqueue_ns
    assert chip.host_ns(1, library=True) == 28_000 + round(28_000 * FITTED.library)
    assert chip.fed_convolutions(waiting=3) == 0.9  # was measured while it waited


def test_tensor_cores_wait_the_longer_the_faster_they_are() -> None:
    """Twice as fast ones, or numbers twice as wide, wait for a larger part of their time; plain cores do as before."""

    def speeds(times: int, number: str) -> Speeds:
        peaks = Peaks(float16=10**12, matrix_float16=times * 10**12, matrix_float32=times * 10**12)
        chip = Chip(10, 8.0)
        gpu = replace(GPU, flop_per_s=10**12, peaks=peaks, bytes_per_s=10**12, chip=chip)
        return speeds_of(gpu, chip, number, matrix=True)

    slow, fast, wide = speeds(8, "float16"), speeds(16, "float16"), speeds(8, "float32")
    assert slow.convolutions < fast.convolutions < 2 * slow.convolutions
    assert wide.convolutions < slow.convolutions
    assert slow.feeding < fast.feeding == wide.feeding
    plain = speeds(1, "float16")
    assert not plain.tensor_cores
    assert plain.feeding == plain.loading == FITTED.loading


@pytest.mark.parametrize(
    "op", ["Conv2DBackpropFilter", "FusedBatchNormGradV3", "MaxPoolGrad", "MatMul", "Relu", "Cast"]
)
def test_a_call_of_a_library_takes_the_host_longer(op: str) -> None:
    chip = Chip(10)
    gpu = replace(GPU, chip=chip)
    called = op not in ("Relu", "Cast")
    assert in_library(op) == called
    assert gpu.op_ns(0, library=in_library(op)) == FITTED.dispatch_ns + called * round(
        FITTED.dispatch_ns * FITTED.library
    )


@pytest.mark.parametrize(
    ("op", "kernels", "tensors"),
    [
        ("Softmax", 3, 4),
        ("LogSoftmax", 3, 4),
        ("SparseSoftmaxCrossEntropyWithLogits", 6, 9),
        ("SoftmaxCrossEntropyWithLogits", 7, 11),
        ("Relu", 1, 2),
    ],
)
def test_softmax_goes_over_its_logits_several_times(op: str, kernels: int, tensors: int) -> None:
    """By TensorFlow's kernels: a maximum of each row, a sum, and what is made of them; Relu reads and writes once."""
    gpu = replace(GPU, chip=Chip(10))
    rate = GPU.bytes_per_s * Chip(10).bandwidth
    for shape, nanos in (((4096, 32_000), tensors * 4 * 4096 * 32_000 / rate * 1e9), ((1, 8), gpu.op_ns(0, kernels))):
        labels = [] if op in ("Relu", "Softmax", "LogSoftmax") else [shape if op[0:2] == "So" else shape[:1]]
        work = work_of(RULES[op], instance(op, [shape, *labels], shape))
        assert time_of(work, gpu) == pytest.approx(nanos, rel=0.03)


@pytest.mark.parametrize(
    ("shape", "taken", "kernels", "bytes_per_number"),
    [
        ((4096, 32_000), 32_000, 7, 6 * (3 * 4 + 2 * 4) + 4),  # as `tf.sort`
        ((4096, 32_000), 100, 9, 6 * (3 * 4 + 2 * 4) + 4),
        ((4096, 32_000), 99, 1, 4),  # by heaps, which read it once
        ((64_000, 1000), 2, 9, 6 * (3 * 4 + 2 * 4) + 4),
    ],
)
def test_a_gpu_sorts_rows_digit_by_digit(
    shape: tuple[int, int], taken: int, kernels: int, bytes_per_number: int
) -> None:
    gpu = replace(GPU, chip=Chip(10))
    rate = GPU.bytes_per_s * Chip(10).bandwidth
    kept = (shape[0], taken)
    one = ShapedOp("TopKV2", (shape, ()), (kept, kept), (4 * prod(shape), 4), (4 * prod(kept),) * 2, {}, (1, 3), (1, 3))
    work = work_of(RULES["TopKV2"], one)
    assert work.kernels == kernels
    assert time_of(work, gpu) == pytest.approx(bytes_per_number * prod(shape) / rate * 1e9, rel=0.03)


def test_parts_of_the_peaks_follow_from_the_sheet() -> None:
    """Kepler issues two thirds, integers take a place before Volta, and no clock stays at the boost."""
    volta, pascal, kepler = (Chip(10, capability, base=0.5) for capability in (7.0, 6.0, 3.7))
    sustained = 0.5 + FITTED.clock * 0.5
    assert volta.products == pytest.approx(FITTED.products * sustained)
    assert volta.convolutions == pytest.approx(FITTED.convolutions * sustained)
    assert pascal.convolutions == pytest.approx(volta.convolutions * FITTED.addressing)
    assert kepler.convolutions == pytest.approx(pascal.convolutions * 2 / 3)
    assert Chip(10, 8.6).convolutions == pytest.approx(Chip(10, 8.0).convolutions * FITTED.addressing)
    assert Chip(10).sustained == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"multiprocessors": 0}, "multiprocessors: 0 is not a number from 1 to"),
        ({"multiprocessors": True}, "multiprocessors: True"),
        ({"dispatch": 28}, "dispatch: 28 needs a unit"),
        ({"dispatch": "soon"}, "soon"),
        ({"compute_capability": "7.0"}, "compute_capability: '7.0' is no number"),
        ({"compute_capability": float("nan")}, "compute_capability: nan is no number"),
        ({"cudnn": "9.7"}, "cudnn: '9.7' is no number"),
        ({"cudnn": 1}, "cudnn: 1 is no number"),
        ({"clocks": 1480}, "clocks: 1480 are not the base and the boost clock"),
        ({"clocks": [1480]}, "clocks: .1480. are not the base and the boost clock"),
        ({"clocks": [1480, 1328]}, "are not in order"),
        ({"clocks": [0, 1328]}, "are not in order"),
        ({"reached": 0.8}, "reached: 0.8 is no table of parts"),
        ({"reached": {"bandwidth": 0.5}}, "is no table of parts"),
        ({"reached": {"bandwidth": 0.5, "products": 0.5, "luck": 1}}, "is no table of parts"),
        ({"reached": {"bandwidth": 1.5, "products": 0.5}}, "bandwidth = 1.5 is not a part from 0.01 to 1"),
        ({"reached": {"bandwidth": float("nan"), "products": 0.5}}, "is not a part"),
        ({"reached": {"bandwidth": 0.5, "products": "all"}}, "products = 'all' is not a part"),
    ],
)
def test_a_wrong_chip_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_chip({**FULL, **change})


@pytest.mark.parametrize("key", ["compute_capability", "clocks", "dispatch"])
def test_a_chip_without_multiprocessors_is_refused(key: str) -> None:
    with pytest.raises(KeyError, match=f"multiprocessors: {key} needs it"):
        read_chip({key: FULL[key]})
