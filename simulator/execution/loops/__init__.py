"""Loops and branches: which ops run in which iteration, found before time begins, so that the engine knows no frames.

    flow        what TensorFlow's executor sees: frames, inputs by slot, an order
    values      constants and counters, as far as the graph tells them
    trips       how often each loop runs
    branches    which way each Switch goes
    liveness    where values are live, dead or never come, iteration by iteration
    unrolling   the ops and edges of a step without loops: one op per node and iteration
    windows     signals that hold back an iteration until an earlier one has ended

The rules are those of `tensorflow/core/common_runtime/propagator_state.cc`.
"""

from simulator.execution.loops.branches import Choice
from simulator.execution.loops.unrolling import MAX_INSTANCES, unrolled

__all__ = ["MAX_INSTANCES", "Choice", "unrolled"]
