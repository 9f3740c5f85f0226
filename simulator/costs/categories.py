"""The kinds of work that time is reported by: those of TensorFlow's white paper (Abadi et al. 2016, table 1), and
communication.
"""

from __future__ import annotations

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


def category(op: str) -> str:
    """The category of an op; "other" for one that the table does not list."""
    from simulator.costs.flops import rule  # the table is written in these words, so it imports them

    found = rule(op)
    return found.category if found else OTHER
