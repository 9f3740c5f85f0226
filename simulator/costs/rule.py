"""The words of the cost table: the categories and the form of a row.

Time is reported by the kinds of work of TensorFlow's white paper (Abadi et al. 2016, table 1), and communication.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from simulator.costs.formulas.instance import Formula, nothing

MATRIX = "matrix"
ARRAY = "array"
ELEMENTWISE = "elementwise"
NEURAL = "neural network"
STATE = "state"
QUEUE = "queue and synchronisation"
CONTROL = "control flow"
CHECKPOINT = "checkpoint"
COMMUNICATION = "communication"
OTHER = "other"

CATEGORIES = (MATRIX, ARRAY, ELEMENTWISE, NEURAL, STATE, QUEUE, CONTROL, CHECKPOINT, COMMUNICATION, OTHER)

Row: TypeAlias = tuple[str, Formula, Formula, str, str]  # category, arithmetic, bytes moved, attributes, ops


class Rule(NamedTuple):
    """How an op is priced."""

    category: str
    flops: Formula
    moved: Formula
    attrs: tuple[str, ...] = ()  # attributes that the formulas read
    launches: bool = True  # False: done by the executor on the host, no kernel starts
    scratch: Formula = nothing
    on_matrix_units: bool = False  # a product or convolution that runs on tensor cores where there are some
    counts_real: bool = False  # of complex numbers, too, `flops` counts the operations on real ones
