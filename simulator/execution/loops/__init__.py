"""Loops and branches: which ops run in which iteration, found before time begins, so that the engine knows no frames.

    flow        what TensorFlow's executor sees: frames, inputs by slot, an order
    passing     ops that hand on a value as it is
    stacks      what is taken from a stack, by what was laid on it
    values      constants and counters, as far as the graph tells them
    trips       how often each loop runs
    predicates  what decides for a Switch
    evaluating  truths and numbers that the graph tells, in each iteration
    branches    which way each Switch goes
    liveness    where values are live, dead or never come, iteration by iteration
    stalling    loops that never end, and how far they go
    settling    all of this, in rounds, for given trips and ways
    reviving    what would make a dead op live
    deciding    what is chosen where nothing tells, so that all that is fetched runs
    sharing     what is asked of several programs at once
    unrolling   the ops and edges of a step without loops: one op per node and iteration
    windows     signals that hold back an iteration until an earlier one has ended

The rules are those of `tensorflow/core/common_runtime/propagator_state.cc`.
"""

from simulator.execution.loops.branches import Choice
from simulator.execution.loops.settling import MAX_INSTANCES
from simulator.execution.loops.sharing import Sharing
from simulator.execution.loops.unrolling import unrolled

__all__ = ["MAX_INSTANCES", "Choice", "Sharing", "unrolled"]
