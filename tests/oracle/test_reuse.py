"""The kernels that are said to write an output over an input do so in a session of TensorFlow, and others don't."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulator.graph.handing_on import REUSES
from tests.oracle.staying import staying
from tests.oracle.writing_over import Case

pytestmark = pytest.mark.tensorflow
M, V, X = (8, 8), (8,), (2, 8, 8, 4)
KIND = {
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Invert", "LeftShift", "RightShift"), "int32"),
    **dict.fromkeys(("LogicalNot", "LogicalAnd", "LogicalOr", "Equal", "NotEqual"), "bool"),
    **dict.fromkeys(("Conj", "MatrixLogarithm"), "complex64"),
}
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "BiasAdd": (X, (4,)),
    "BiasAddV1": (X, (4,)),
    "AdjustHue": ((8, 8, 3),),
    "ClipByValue": (M,),
    "AddN": (M, M, M),
    "Select": (M, M, M),
    "SelectV2": (M, M, M),
    "MatrixSetDiag": (M, V),
    "MatrixSetDiagV2": (M, V),
    "MatrixSetDiagV3": (M, V),
    "SparseSoftmaxCrossEntropyWithLogits": (M,),
    "SoftmaxCrossEntropyWithLogits": (M, M),
    **dict.fromkeys(("InplaceAdd", "InplaceSub", "InplaceUpdate", "ScatterNdNonAliasingAdd"), (M,)),
    "TensorStridedSliceUpdate": (M,),
}
ROWS, BLOCK = [[row] for row in range(8)], [[1.0] * 8] * 8
OTHERS: dict[str, dict[str, Any]] = {
    "AdjustHue": {"delta": 0.1},
    "ClipByValue": {"clip_value_min": 0.0, "clip_value_max": 1.0},
    "MatrixBandPart": {"num_lower": 1, "num_upper": 1},
    "MatrixSetDiagV2": {"k": 0},
    "MatrixSetDiagV3": {"k": 0},
    "SparseSoftmaxCrossEntropyWithLogits": {"labels": list(range(8))},
    **{op: {"i": list(range(8)), "v": BLOCK} for op in ("InplaceAdd", "InplaceSub", "InplaceUpdate")},
    "ScatterNdNonAliasingAdd": {"indices": ROWS, "updates": BLOCK},
    "TensorStridedSliceUpdate": {"begin": [0], "end": [8], "strides": [1], "value": BLOCK},
}
BINARY = {op for op, (_, first, last) in REUSES.items() if (first, last) == (0, 1)}


def cases() -> list[Case]:
    return [
        (op, KIND.get(op, "float32"), SHAPES.get(op, (M, M) if op in BINARY else (M,)), OTHERS.get(op, {}))
        for op in REUSES
    ]


def test_outputs_lie_where_an_input_lay() -> None:
    told = json.loads(staying("tests.oracle.writing_over")(json.dumps(cases()).encode(), 280))
    for case, (each, every) in zip(cases(), told, strict=True):
        port, first, last = REUSES[case[0]]
        slots = range(first, min(last + 1, len(case[2])))
        assert (case[0], each) == (case[0], [[slot, port] for slot in slots])
        assert (case[0], every) == (case[0], [[first, port]])


def test_of_other_sizes_or_kernels_none_does() -> None:
    batch = {"epsilon": 0.1, "mean": [], "variance": [], "is_training": True}
    left: list[Case] = [
        ("AddV2", "float32", ((8, 1), (1, 8)), {}),
        ("Less", "float32", (M, M), {}),
        ("Cast", "float32", (M,), {"DstT": 3}),
        ("Mean", "float32", (M,), {"axis": [0]}),
        ("Cumsum", "float32", (M,), {"axis": 0}),
        ("ReverseV2", "float32", (M,), {"axis": [0]}),
        ("FusedBatchNormV3", "float32", (X, (4,), (4,)), batch),
        ("TensorScatterAdd", "float32", (M,), {"indices": ROWS, "updates": BLOCK}),
        ("MatMul", "float32", (M, M), {}),
    ]
    told = json.loads(staying("tests.oracle.writing_over")(json.dumps(left).encode(), 120))
    assert [(case[0], *found) for case, found in zip(left, told, strict=True)] == [(case[0], [], []) for case in left]
    rows: list[Case] = [
        ("AddV2", "float32", (M, V), {}),
        ("AddV2", "float32", (V, M), {}),
        ("Mul", "float32", (M, (8, 1)), {}),
    ]
    told = json.loads(staying("tests.oracle.writing_over")(json.dumps(rows).encode(), 120))
    assert told == [[[[0, 0]], [[0, 0]]], [[[1, 0]], [[1, 0]]], [[[0, 0]], [[0, 0]]]]
