"""Normalisation, softmax and recurrent kernels.

Per-element constants come from the elementwise costs of the table: exp 34, tanh 36, sigmoid 40, log 50, rsqrt 5.
"""

from __future__ import annotations

from simulator.costs.formulas.instance import Formula, Instance, at, dims, elements, flag, tensors

_RSQRT = 5
_LSTM_GATES = 3 * 40 + 2 * 36 + 9  # three sigmoids, two tanh, products and sums
_GRU_GATES = 2 * 40 + 36 + 7


def batch_normalization(instance: Instance) -> int:
    """Training: mean, variance, scale and shift, 4 per element; inference: 2 per element."""
    count, channels = elements(at(instance.inputs, 0)), elements(at(instance.inputs, 1))
    return 4 * count + channels * (6 + _RSQRT) if flag(instance, "is_training", True) else 2 * count


def normalized(instance: Instance) -> int:
    """Every tensor once; to train, the first input a second time, for a first pass takes statistics."""
    training = flag(instance, "is_training", True)
    return tensors(instance) + (instance.input_bytes[0] if training and instance.input_bytes else 0)


def batch_normalization_gradient(instance: Instance) -> int:
    """11 per element of the gradient, and the inverse deviation per channel."""
    return 11 * elements(at(instance.inputs, 0)) + elements(at(instance.inputs, 2)) * (5 + _RSQRT)


def softmax(instance: Instance) -> int:
    """36 per element (exp, a difference, a division by a product) and 4 per row."""
    logits = at(instance.inputs, 0)
    return 36 * elements(logits) + 4 * dims(logits, len(logits or ()) or 1)[0]


def _cell(batch: int, weights: int, gates: int, state: int) -> int:
    return 2 * batch * weights + gates * state


def lstm_cell(instance: Instance) -> int:
    """One product of [x, h] with the four gates' weights, then the gates."""
    batch = dims(at(instance.inputs, 0), 2)[0]
    return _cell(batch, elements(at(instance.inputs, 3)), _LSTM_GATES, elements(at(instance.inputs, 1)))


def lstm_sequence(passes: int) -> Formula:
    """The cell for every step of a sequence [time, batch, inputs]; backward takes two products for one."""

    def count(instance: Instance) -> int:
        time, batch, _ = dims(at(instance.inputs, 1), 3)
        state = elements(at(instance.inputs, 2))
        return passes * time * _cell(batch, elements(at(instance.inputs, 4)), _LSTM_GATES, state)

    return count


def gru_cell(instance: Instance) -> int:
    """Products with the weights of the gates and of the candidate, then the gates."""
    batch = dims(at(instance.inputs, 0), 2)[0]
    weights = elements(at(instance.inputs, 2)) + elements(at(instance.inputs, 3))
    return _cell(batch, weights, _GRU_GATES, elements(at(instance.inputs, 1)))


def cudnn_rnn(passes: int) -> Formula:
    """Every parameter meets every step of every sequence once; backward twice."""

    def count(instance: Instance) -> int:
        time, batch, _ = dims(at(instance.inputs, 0), 3)
        gates = _LSTM_GATES * time * elements(at(instance.inputs, 1))
        return passes * (2 * time * batch * elements(at(instance.inputs, 3)) + gates)

    return count


def suppression(instance: Instance) -> int:
    """Non-maximum suppression: sort the boxes, then compare each kept box with all, 16 per overlap."""
    boxes = elements(at(instance.inputs, 1))
    return boxes * boxes.bit_length() + 16 * boxes * elements(at(instance.outputs, 0))
