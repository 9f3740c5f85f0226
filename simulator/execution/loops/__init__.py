"""Loops and branches, unrolled before simulated time begins: the engine sees ops without frames or iterations.

    frames      inputs of every op, by slot, and the frame in which it runs
    iterations  sets of iterations, one bit each
    origins     where a value comes from: ops that pass it on, Merges, loop variables, stacks
    values      constants, counters and comparisons that the graph determines
    walking     the course of a loop that more than a counter ends
    reasons     the reasons for trips and sides, and names that the step lacks
    trips       trip count of every loop
    predicates  predicate of every Switch, and the side that the Switch takes
    liveness    iterations in which each op is live, dead or never runs; loops that never end
    choices     values of predicates and trips that nothing determines, chosen so that all fetches run
    instances   ops by iteration, and the values delivered between them
    windows     signals that hold back an iteration until an earlier one has ended
    unrolling   the ops and edges of a step without loops

The rules are those of `tensorflow/core/common_runtime/propagator_state.cc`.
"""

from simulator.execution.loops.unrolling import SharedChoices, unrolled

__all__ = ["SharedChoices", "unrolled"]
