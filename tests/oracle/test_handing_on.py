"""The kernels that are said to hand their input on do so in TensorFlow: their outputs lie in the input's memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import load
from simulator.graph.handing_on import NONE, handed_on
from tests.oracle.sharing_buffers import Case
from tests.oracle.staying import staying

pytestmark = pytest.mark.tensorflow


def judged(cases: Sequence[Case]) -> list[tuple[bool, bool]]:
    """Whether each op is said to hand its input on, and whether TensorFlow does so."""
    told = json.loads(staying("tests.oracle.sharing_buffers")(json.dumps(cases).encode(), 240))
    return [(_said(bytes.fromhex(graph), case[0]), shared) for case, (shared, graph) in zip(cases, told, strict=True)]


def _said(graph: bytes, op: str) -> bool:
    built = load(graph)
    return bool(handed_on(built)[built.ops.index(op)] != NONE)


def reductions() -> list[Case]:
    shape = (1, 6, 1, 16)
    return [
        (op, "bool" if op in ("All", "Any") else "float32", shape, "input", {"axis": axis, "keep_dims": kept})
        for op in ("Sum", "Prod", "Max", "Min", "Mean", "All", "Any")
        for axis, kept in (([0], True), ([0, 2], False), ([1], False), ([0, 1], False))
    ]


def others() -> list[Case]:
    x, one, uneven, kind = (8, 6, 16), (1, 6, 1, 16), (8, 6, 15), "float32"
    return [
        *[("Transpose", kind, x, "x", {"perm": order}) for order in ([0, 1, 2], [1, 0, 2], [0, 2, 1])],
        *[("Transpose", kind, one, "x", {"perm": order}) for order in ([1, 0, 2, 3], [2, 1, 3, 0], [3, 0, 1, 2])],
        ("Transpose", kind, (6, 6), "x", {"perm": [1, 0]}),
        *[("Tile", kind, x, "input", {"multiples": [times, 1, 1]}) for times in (1, 2)],
        *[("BroadcastTo", kind, one, "input", {"shape": shape}) for shape in ((1, 6, 1, 16), (3, 6, 1, 16))],
        *[("Pad", kind, x, "input", {"paddings": [[0, last]] + [[0, 0]] * 2}) for last in (0, 1)],
        ("PadV2", kind, x, "input", {"paddings": [[0, 0]] * 3, "constant_values": 0.0}),
        ("MirrorPad", kind, x, "input", {"paddings": [[0, 0]] * 3, "mode": "REFLECT"}),
        *[("Slice", kind, x, "input", {"begin": [low, 0, 0], "size": [-1] * 3}) for low in (0, 2)],
        ("Slice", kind, uneven, "input", {"begin": [2, 0, 0], "size": [-1] * 3}),
        ("Slice", kind, x, "input", {"begin": [0, 1, 0], "size": [-1] * 3}),
        *[
            ("Split", kind, shape, "value", {"axis": axis, "num_split": count})
            for shape, axis, count in ((x, 0, 2), (uneven, 0, 2), (x, 1, 1), (x, 1, 2))
        ],
        *[
            ("SplitV", kind, shape, "value", {"size_splits": sizes, "axis": axis, "num_split": len(sizes)})
            for shape, sizes, axis in ((x, [3, 5], 0), (uneven, [3, 5], 0), (x, [6], 1), (x, [2, 4], 1))
        ],
        *[
            ("Unpack", kind, shape, "value", {"num": shape[axis], "axis": axis})
            for shape, axis in ((x, 0), (x, -3), (x, 1), (uneven, 0), (one, 2), ((64,), 0))
        ],
        ("Pack", kind, x, "values", {"axis": 1}),
        ("AddN", kind, x, "inputs", {}),
        *[("Cast", kind, x, "x", {"DstT": number}) for number in ("float32", "float16")],
        *[("EuclideanNorm", kind, one, "input", {"axis": [0]}), ("ReverseV2", kind, one, "tensor", {"axis": [0]})],
    ]


def test_ops_that_change_nothing_hand_their_input_on_and_no_others() -> None:
    cases = [*reductions(), *others()]
    assert [(case, said) for case, (said, _) in zip(cases, judged(cases), strict=True)] == [
        (case, shared) for case, (_, shared) in zip(cases, judged(cases), strict=True)
    ]


@st.composite
def slices(draw: st.DrawFn) -> Case:
    """A StridedSlice with all its masks, of rows that a buffer may begin at or not."""
    shape = [draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([8, 15, 16]))]
    begin: list[int] = []
    end: list[int] = []
    strides: list[int] = []
    masks = dict.fromkeys(("begin_mask", "end_mask", "shrink_axis_mask"), 0)
    for axis, size in enumerate(shape[: draw(st.integers(1, 3))]):
        low = draw(st.integers(0, size - 1))
        high = draw(st.integers(low + 1, size))
        step = draw(st.sampled_from([1, 1, 1, 2, -1]))
        for values, value in ((begin, low), (end, high), (strides, step)):
            values.append(value)
        bits = draw(st.sampled_from(["", "", "begin_mask end_mask", "shrink_axis_mask"])).split()
        if step < 0:  # backwards from the last to the first
            bits = ["begin_mask", "end_mask"]
        for bit in bits:
            masks[bit] |= 1 << axis
        if bits == ["shrink_axis_mask"]:
            strides[-1] = 1
    given: dict[str, Any] = {"begin": begin, "end": end, "strides": strides, **masks}
    return ("StridedSlice", "float32", shape, "input", given)


@settings(deadline=None, max_examples=10)
@given(st.lists(slices(), min_size=20, max_size=20))
def test_a_slice_is_handed_on_where_tensorflow_hands_it_on(cases: Sequence[Case]) -> None:
    """One row of several, from which more is dropped or that runs backwards, is left out: a kernel is taken to run."""
    for case, (said, shared) in zip(cases, judged(cases), strict=True):
        assert not said or shared, case
        assert said == shared or case[-1]["shrink_axis_mask"] > 1 or -1 in case[-1]["strides"], case
