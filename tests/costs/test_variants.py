"""Variants of kernels of any shapes, also of those that no kernel takes: a file may say anything."""

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.costs.formulas.shaped_op import ShapedOp
from simulator.costs.rules import RULES
from simulator.costs.variants import parted, variant

SHAPES = st.none() | st.lists(st.sampled_from((-1, 0, 1, 2, 3, 64)), max_size=4).map(tuple)
ROWS = """
    BiasAdd BiasAddGrad MaxPool AvgPoolGrad FusedBatchNormV3 ConcatV2 Pack Split Unpack Slice StridedSlice Pad Tile
    Transpose Sum UnsortedSegmentSum GatherNd Softmax ArgMax TopKV2 ResourceScatterSub Mul SelectV2
"""


@settings(max_examples=1000)  # each takes microseconds
@given(st.sampled_from(ROWS.split()), st.lists(SHAPES, max_size=4), st.lists(SHAPES, max_size=3))
def test_any_shapes_have_a_variant(
    op: str, taken: list[tuple[int, ...] | None], made: list[tuple[int, ...] | None]
) -> None:
    instance = ShapedOp(op, (*taken,), (*made,), (4,) * len(taken), (4,) * len(made), {})
    plain, length = parted(variant(RULES[op], instance, "bfloat16"))
    assert plain.startswith("bfloat16")
    assert length is None or length >= 1


def test_a_length_of_thousands_of_digits_is_none() -> None:
    told = f"outer rows of {'9' * 5000}"
    assert parted(told) == (told, None)
    assert parted("outer rows of 12") == ("outer", 12)
    assert parted("rows of 0") == ("", 1)
    assert parted("in inference") == ("in inference", None)
