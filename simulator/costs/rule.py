"""The words of the cost table: the categories and the form of a row.

Time is reported by the kinds of work of TensorFlow's white paper (Abadi et al. 2016, table 1), and communication.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from simulator.costs.formulas.host import alone
from simulator.costs.formulas.instance import Formula, Instance, nothing

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


# picoseconds of one core, parts that run side by side, what is assumed of sizes, ops
CoreRow: TypeAlias = tuple[Formula, Formula, Callable[[Instance], str], str]


def sized(instance: Instance) -> str:
    """Nothing is assumed."""
    return ""


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
    core_ps: Formula = nothing  # on a CPU: what the kernel takes of one core, as measured
    parts: Formula = alone  # into which the kernel splits that for several cores
    assumes: Callable[[Instance], str] = sized  # the words for a size that `core_ps` assumes; "" where it is known
    opaque: bool = False  # what it computes is not in the graph
