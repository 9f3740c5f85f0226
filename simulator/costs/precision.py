"""The number format in which an op computes, and the real operations that a complex one takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from simulator.cluster.peaks import FORMATS
from simulator.costs.formulas.instance import Instance
from simulator.costs.rule import Rule
from simulator.graph.dtypes import base, number_of

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


def number_format(rule: Rule, instance: Instance) -> str:
    """One of `FORMATS`: the widest of the op's floating inputs and outputs, for the kernel computes in it.

    So FusedBatchNorm with a float16 image and float32 statistics computes in float32, as cuDNN does, and SparseMatMul
    with a bfloat16 operand, too. A product or convolution of two tensors of bytes (QuantizedMatMul) computes in int8,
    whatever its ranges are. Other integers count as float32.
    """
    types = instance.input_types
    if rule.on_matrix_units and len(types) > 1 and base(types[0]) in _BYTES and base(types[1]) in _BYTES:
        return "int8"
    found = {_FORMAT[base(dtype)] for dtype in (*types, *instance.output_types) if base(dtype) in _FORMAT}
    return min(found, key=FORMATS.index, default="float32")


def on_matrix_units(rule: Rule, instance: Instance) -> bool:
    """Whether the op runs on tensor cores or AMX where there are some.

    They take floats and bytes. Complex numbers are left out as `real_operations` says, and a product of int32 or int64,
    which cuBLAS and cuDNN do not have, runs on plain units.
    """
    types = (*instance.input_types, *instance.output_types)
    fits = not types or any(base(dtype) in _FORMAT or base(dtype) in _BYTES for dtype in types)
    return rule.on_matrix_units and fits and not is_complex(instance.input_types)


def is_complex(types: Sequence[int]) -> bool:
    """Whether one of the types is complex."""
    return any(base(dtype) in _COMPLEX for dtype in types)


def real_operations(rule: Rule, instance: Instance, count: int) -> int:
    """The count in operations on real numbers; a formula counts complex numbers like real ones, but Fourier's.

    Complex products have no tensor cores to run on: cuBLAS is asked for TF32 in float32 alone
    (xla/stream_executor/cuda/cuda_blas.cc, DoBlasGemm).
    """
    if rule.counts_real or not is_complex((*instance.input_types, *instance.output_types)):
        return count
    return _REAL_PER_COMPLEX * count
