"""Einsums: the product that each one is, what is transposed beside it, and prices like those of the same product."""

from dataclasses import replace
from math import prod

import pytest

from simulator.cluster.chips import Chip
from simulator.costs.estimates.profiled import Pricing
from simulator.costs.formulas.contraction import contraction
from simulator.costs.formulas.matrix import Product
from simulator.costs.formulas.shaped_op import ShapedOp
from simulator.costs.profile import KernelTime
from simulator.costs.roofline import OpWork, time_of, work_of
from simulator.costs.rules import RULES
from simulator.graph.messages import AttrValue
from tests.costs.test_estimate import GPU
from tests.costs.test_profile import made

CHIP = replace(GPU, chip=Chip(100))
Shapes = tuple[tuple[int, ...], ...]


def shaped(op: str, shapes: Shapes, result: tuple[int, ...], **attrs: AttrValue) -> ShapedOp:
    nbytes = tuple(4 * prod(shape) for shape in shapes)
    return ShapedOp(op, shapes, (result,), nbytes, (4 * prod(result),), attrs, (1, 1), (1,))


def einsum(equation: str, result: tuple[int, ...], *shapes: tuple[int, ...]) -> ShapedOp:
    return shaped("Einsum", shapes, result, equation=AttrValue(s=equation.encode()))


def work(instance: ShapedOp) -> OpWork:
    return work_of(RULES[instance.op], instance)


@pytest.mark.parametrize(
    ("op", "shapes", "result", "told"),
    [
        ("Mul", ((64, 64), (64, 64)), (64, 64), ""),
        ("Mul", ((64, 64), (64,)), (64, 64), "broadcasting rows of 64"),
        ("Mul", ((64, 64), ()), (64, 64), "by a number"),
        ("Mul", ((), ()), (), ""),
        ("Mul", ((64, 32), (64, 1)), (64, 32), "broadcasting columns rows of 32"),
        ("Mul", ((2, 8, 16, 4), (8, 1, 4)), (2, 8, 16, 4), "broadcasting rows of 4"),
        ("Mul", ((2, 8, 16, 4), (2, 1, 1, 4)), (2, 8, 16, 4), "broadcasting rows of 4"),
        ("Mul", ((2, 8, 16, 4), (2, 8, 1, 1)), (2, 8, 16, 4), "broadcasting columns rows of 64"),
        ("Mul", ((2, 8, 1, 4), (8, 1, 4)), (2, 8, 1, 4), "broadcasting rows of 32"),
        ("Mul", ((1, 64), (64,)), (1, 64), ""),
        ("Mul", ((64, 64), (1, 1)), (64, 64), "by a number"),
        ("FusedBatchNormV3", ((2, 8, 8, 16), *((16,),) * 4), (2, 8, 8, 16), "rows of 16"),
        ("BiasAdd", ((64, 4), (4,)), (64, 4), "rows of 4"),
        ("BiasAdd", ((64, 1), (1,)), (64, 1), ""),
        ("BiasAddGrad", ((64, 4),), (4,), "rows of 4"),
        ("FusedBatchNormV3", ((2, 8, 8, 40), *((40,),) * 4), (2, 8, 8, 40), "in eights rows of 40"),
        ("FusedBatchNormV3", ((2, 8, 8, 44), *((44,),) * 4), (2, 8, 8, 44), "in fours rows of 44"),
        ("FusedBatchNormGradV3", ((2, 8, 8, 11), *((11,),) * 4), (2, 8, 8, 11), "uneven rows of 11"),
        ("AvgPool", ((2, 8, 8, 3),), (2, 4, 4, 3), ""),
        ("ResizeBilinear", ((2, 4, 4, 3), (2,)), (2, 8, 8, 3), "rows of 3"),
        ("Sum", ((64, 32), (1,)), (64,), "rows of 32"),
        ("Sum", ((1024, 32), (1,)), (32,), "outer rows of 32"),
        ("Sum", ((1024, 8, 4), (1,)), (1, 8, 4), "outer rows of 32"),
        ("Sum", ((64, 32), (1,)), (1, 32), "outer few"),
        ("Sum", ((64, 512, 32), (1,)), (64, 32), "outer few"),
        ("Sum", ((64, 32), (2,)), (), "whole"),
        ("Sum", ((64, 1), (1,)), (64, 1), "rows of 64"),
        ("ConcatV2", ((64, 4), (64, 8), ()), (64, 12), "rows of 6"),
        ("ConcatV2", ((64, 4), (32, 4), ()), (96, 4), "rows of 192"),
        ("Pack", ((64, 4), (64, 4)), (64, 2, 4), "rows of 4"),
        ("Pack", ((64, 4), (64, 4)), (64, 4, 2), "rows of 1"),
        ("Slice", ((64, 8), (2,), (2,)), (64, 4), "rows of 4"),
        ("Slice", ((64, 8, 4), (3,), (3,)), (64, 2, 4), "rows of 8"),
        ("Slice", ((64, 8), (2,), (2,)), (64, 8), "rows of 512"),
        ("Pad", ((64, 4), (2, 2)), (66, 6), "rows of 4"),
        ("Pad", ((2, 8, 8, 3), (4, 2)), (2, 10, 10, 3), "rows of 24"),
        ("Tile", ((64, 1, 4), (3,)), (64, 8, 4), "rows of 4"),
        ("Tile", ((64, 1), (2,)), (64, 8), "rows of 8"),
        ("Transpose", ((4, 32, 8, 16), (4,)), (4, 8, 32, 16), "rows of 16"),
        ("Transpose", ((64, 32), (2,)), (32, 64), "rows of 1"),
        ("Transpose", ((64, 64), (2,)), (64, 64), ""),
        ("UnsortedSegmentSum", ((64, 4), (64,), ()), (10, 4), "rows of 4"),
        ("GatherNd", ((64, 4), (10, 1)), (10, 4), "rows of 4"),
        ("Softmax", ((64, 10),), (64, 10), "rows of 10"),
        ("Softmax", ((64, 100),), (64, 100), "rows of 100"),
        ("Softmax", ((8, 8, 256, 256),), (8, 8, 256, 256), "rows of 256"),
        ("ArgMax", ((8, 16, 100), ()), (8, 16), "rows of 100"),
        ("TopKV2", ((64, 32), ()), (64, 1), "rows of 32"),
        ("GatherV2", ((1000, 8), (50,), ()), (50, 8), "rows of 8"),
        ("MatMul", ((64, 64), (64, 64)), (64, 64), ""),
    ],
)
def test_a_kernel_that_takes_another_time_at_equal_counts_is_told_apart(
    op: str, shapes: Shapes, result: tuple[int, ...], told: str
) -> None:
    assert work(shaped(op, shapes, result)).variant == told


def test_a_normalisation_by_given_statistics_is_told_apart() -> None:
    shapes = ((2, 8, 8, 16), *((16,),) * 4)
    given = shaped("FusedBatchNormV3", shapes, shapes[0], is_training=AttrValue(b=False))
    assert work(given).variant == "in inference rows of 16"


@pytest.mark.parametrize(
    ("equation", "shapes", "result", "product", "flips", "transposed"),
    [
        ("btd,dhk->bthk", ((3, 48, 128), (128, 4, 32)), (3, 48, 4, 32), (144, 128, 128, 1), "", []),
        ("bqhk,hkd->bqd", ((3, 48, 4, 32), (4, 32, 128)), (3, 48, 128), (144, 128, 128, 1), "", []),
        ("bqhk,bshk->bhqs", ((3, 48, 4, 32), (3, 48, 4, 32)), (3, 4, 48, 48), (48, 48, 32, 12), "b", [73728, 73728]),
        ("bhqs,bshk->bqhk", ((3, 4, 48, 48), (3, 48, 4, 32)), (3, 48, 4, 32), (48, 32, 48, 12), "b", [73728, 73728]),
        ("bij,bkj->bki", ((8, 25, 26), (8, 27, 26)), (8, 27, 25), (25, 27, 26, 8), "b", [21600]),
        ("ji,kj->ik", ((51, 52), (53, 51)), (52, 53), (52, 53, 51, 1), "ab", []),
        ("ab,cd->acbd", ((64, 65), (66, 67)), (64, 66, 65, 67), (4160, 4422, 1, 1), "a", [73582080]),
        ("bchw,bc->bhw", ((8, 64, 28, 27), (8, 64)), (8, 28, 27), (756, 1, 64, 8), "a", []),
        ("...ij,...jk->...ki", ((3, 4, 5), (2, 3, 5, 6)), (2, 3, 6, 4), (4, 6, 5, 6), "", [576]),
        ("i...j,j->...i", ((5, 2, 3, 6), (6,)), (2, 3, 5), (5, 1, 6, 6), "", [720]),
        ("ab,bc->b", ((5, 9), (9, 7)), (9,), (1, 1, 1, 9), "", [180]),
        ("bij,bkl->b", ((16, 12, 13), (16, 14, 15)), (16,), (1, 1, 1, 16), "", []),
    ],
)
def test_an_einsum_is_a_product_with_transposes_beside_it(
    equation: str, shapes: Shapes, result: tuple[int, ...], product: tuple[int, ...], flips: str, transposed: list[int]
) -> None:
    """The bytes are what an observed step of TensorFlow 2.21 held beside the result, but for Eigen's packed blocks."""
    instance = einsum(equation, result, *shapes)
    found = contraction(instance)
    assert found is not None
    assert found.product == product
    assert list(found.transposed) == transposed
    done = work(instance)
    assert done.scratch == sum(transposed)
    assert done.kernel == Product(*product)
    assert done.kernels == 1 + len(transposed) + len(found.summed)
    if not found.summed and max(found.product[:2]) > 1:
        assert [side for side, flipped in zip("ab", found.flips, strict=True) if flipped] == list(flips)
        assert done.flops == 2 * prod(product)


def test_what_one_operand_alone_has_is_summed_first() -> None:
    """It was multiplied with all that the other one has: 45 times too many operations here."""
    done = work(einsum("bij,bkl->b", (16,), (16, 12, 13), (16, 14, 15)))
    assert done.flops == 2 * 16 + 16 * (12 * 13 + 14 * 15)
    assert done.rearranged == 4 * 16 * (12 * 13 + 14 * 15)
    assert work(einsum("bij->b", (16,), (16, 12, 13))).flops == 16 * 12 * 13


@pytest.mark.parametrize("sides", [(8, 25, 26, 27), (64, 512, 64, 512), (1, 2000, 2000, 2000), (300, 40, 1000, 40)])
def test_an_einsum_takes_as_long_as_the_same_product(sides: tuple[int, ...]) -> None:
    """It took 11.7 us where cuBLAS takes 22, and ran at the full speed whatever its sides were."""
    b, i, j, k = sides
    same = work(shaped("BatchMatMulV2", ((b, i, j), (b, j, k)), (b, i, k)))
    plain = work(einsum("bij,bjk->bik", (b, i, k), (b, i, j), (b, j, k)))
    assert time_of(plain, CHIP) == time_of(same, CHIP)
    turned = work(einsum("bij,bjk->bki", (b, k, i), (b, i, j), (b, j, k)))
    assert time_of(turned, CHIP) >= time_of(same, CHIP) + 2 * 4 * b * i * k * 10**9 // GPU.bytes_per_s


def test_a_profile_prices_an_einsum_by_its_product_and_its_transposes() -> None:
    """It was a guess by bytes, within a factor of five."""
    rearranging = [KernelTime("Transpose", 1, size / 5, 0.01, size / 5, 0, size) for size in (2**12, 2**16, 2**20)]
    pricing = Pricing(replace(made(), kernels=(*made().kernels, *rearranging)), 1)
    product = work(shaped("MatMul", ((200, 300), (300, 100)), (200, 100)))
    plain = work(einsum("ij,jk->ik", (200, 100), (200, 300), (300, 100)))
    turned = work(einsum("ij,jk->ki", (100, 200), (200, 300), (300, 100)))
    of_product = pricing.price("MatMul", product)
    assert pricing.price("Einsum", plain) == of_product
    assert pricing.price("Einsum", turned)[0] == pytest.approx(of_product[0] + 2 * 4 * 200 * 100 / 5)
    assert pricing.price("Einsum", work(einsum("ij->ji", (64, 256), (256, 64))))[0] == pytest.approx(
        2 * 4 * 64 * 256 / 5
    )
    measured = [replace(one, op="Einsum", ns=2 * one.ns) for one in made().kernels if one.op == "MatMul"]
    of_its_own = Pricing(replace(made(), kernels=(*made().kernels, *measured)), 1)
    assert of_its_own.price("Einsum", plain)[0] == pytest.approx(2 * of_product[0], rel=0.05)
