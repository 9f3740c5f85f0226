"""Products and convolutions on GPUs: worked by hand, and laws that hold for all."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.chips import Chip, read_chip
from simulator.costs.formulas.instance import Instance
from simulator.costs.formulas.matrix import Product
from simulator.costs.formulas.neural import Convolution, convolution, convolved
from simulator.costs.kernels import WINOGRAD_2, Speeds, kernel_of, seconds
from simulator.graph.messages import AttrValue

CHIP = Speeds(products=1e12, convolutions=1e12, plain=1e12, moved=1e18, multiprocessors=10, tensor_cores=False)
sizes = st.integers(1, 3000)


def instance(op: str, inputs: list[tuple[int, ...]], output: tuple[int, ...], **attrs: AttrValue) -> Instance:
    nbytes = [4 * ceil_product(shape) for shape in inputs]
    return Instance(op, tuple(inputs), (output,), tuple(nbytes), (4 * ceil_product(output),), attrs)


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
        stride,
        1,
        channels_first=True,
        number_bytes=4,
    )


@pytest.mark.parametrize(
    ("product", "waves", "tile", "speed"),
    [
        (Product(1280, 128, 32), 1, 128 * 128, 1.0),  # ten tiles: one wave
        (
            Product(1281, 128, 32),
            5,
            64 * 64,
            0.85,
        ),  # 42 tiles; 11 large ones would take two waves of four times the work
        (Product(12800, 128, 32), 10.5, 128 * 128, 1.0),  # 100 tiles: waves overlap
        (Product(128, 128, 32, 10), 1, 128 * 128, 1.0),  # ten products
    ],
)
def test_a_product_by_hand(product: Product, waves: float, tile: int, speed: float) -> None:
    assert seconds(product, CHIP) == pytest.approx(waves * 2 * tile * product.k / (1e11 * speed))


def test_few_tiles_are_cut_along_their_depth() -> None:
    """One tile of 128 x 128 would keep nine of ten multiprocessors idle; eight of 64 x 32 keep two."""
    deep, slow_memory = Product(128, 128, 6400), CHIP._replace(moved=1e3)
    assert seconds(deep, CHIP) < 2 * 128 * 128 * 6400 / 1e11 / 5
    assert seconds(deep, slow_memory) == pytest.approx(2 * 64 * 32 * 6400 / (1e11 * 0.7))  # adding takes too long


def test_winograd_makes_four_pixels_of_sixteen_products() -> None:
    large = conv(channels=128, filters=128)
    with_memory = CHIP._replace(moved=1e9)  # transforms that pass through memory never pay
    by_hand = 2 * 4 * 32 * 32 * 16 * 128 * 128 / (1e12 * WINOGRAD_2)
    assert seconds(large, with_memory) == pytest.approx(by_hand)
    direct = 2 * 4 * 64 * 64 * 9 * 128 * 128 / 1e12
    assert direct / by_hand == pytest.approx(2.25 * WINOGRAD_2)


@pytest.mark.parametrize(("taps", "stride"), [(1, 1), (3, 2), (2, 1)])
def test_other_filters_are_one_product(taps: int, stride: int) -> None:
    made = conv(taps=taps, stride=stride)
    assert seconds(made, CHIP) == seconds(made.product, CHIP)


def test_tensor_cores_transpose_channels_that_come_first() -> None:
    made = conv(taps=1)
    cores = CHIP._replace(tensor_cores=True, moved=1e9)
    moved = 2 * 4 * 4 * 64 * 64 * (64 + 64)
    assert seconds(made, cores) == pytest.approx(seconds(made.product, cores) + moved / 1e9)
    assert seconds(made._replace(channels_first=False), cores) == seconds(made.product, cores)


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
    twice = Speeds(2e12, 2e12, 2e12, 2e18, 10, tensor_cores=False)
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
        assert (made.channels, made.filters, made.taps, made.stride) == (channels, filters, (taps, taps), stride)
        assert (made.groups, made.number_bytes) == (1, 4)
        m, n, k, times = made.product
        lost = made.images * side * side if of == "input" else 0  # its depth is rounded down
        assert convolution(one) - 2 * n * lost <= 2 * m * n * k * times <= convolution(one)


def test_groups_are_products_of_their_own() -> None:
    image, pixels, weights = (2, 8, 8, 32), (2, 8, 8, 64), (3, 3, 8, 64)
    made = convolved(instance("Conv2D", [image, weights], pixels, strides=strides(1, 1, 1, 1)))
    assert made is not None
    assert made.groups == 4
    assert made.product == Product(128, 16, 72, 4)


def test_unknown_shapes_make_no_kernel() -> None:
    unknown = instance("Conv2D", [(2, 8, 8, 32), (3, 3, 32, 64)], (2, 8, 8, 64), strides=strides(1, 1, 1, 1))
    for shapes in ((None, (3, 3, 32, 64)), ((2, -1, 8, 32), (3, 3, 32, 64)), ((2, 8, 8), (3, 3, 32, 64)), ()):
        broken = Instance("Conv2D", shapes, unknown.outputs, (), (), unknown.attrs)
        assert convolved(broken) is None


FULL = {"multiprocessors": 56, "dispatch": "28 us", "reached": {"bandwidth": 0.75, "products": 0.9}}


def test_a_chip_is_read_and_its_other_parts_follow_products() -> None:
    assert read_chip(FULL) == Chip(56, 28_000, 0.75, 0.9, 0.9, 0.9, 0.9)
    assert read_chip({"compute": "1 TFLOP/s"}) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"multiprocessors": 0}, "multiprocessors: 0 is not a number from 1 to"),
        ({"multiprocessors": True}, "multiprocessors: True"),
        ({"dispatch": 28}, "dispatch: 28 needs a unit"),
        ({"dispatch": "soon"}, "soon"),
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


def test_half_a_chip_is_refused() -> None:
    with pytest.raises(KeyError, match="give all of multiprocessors, dispatch, reached, or none"):
        read_chip({"multiprocessors": 56})
