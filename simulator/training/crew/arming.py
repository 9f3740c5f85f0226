"""The beginning of a step: its client's rows as if nothing had happened yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.queues import Executor

if TYPE_CHECKING:
    from simulator.execution.loop import State
    from simulator.execution.wiring import Wiring
    from simulator.units import Nanos


def arm(state: State, wiring: Wiring, unlaunched: list[int], ops: slice, transfers: slice, now: Nanos) -> None:
    """Set the rows of a client anew; `unlaunched` is of all ops, for TensorFlow's executor as it was at first."""
    count = ops.stop - ops.start
    state.waits[ops] = wiring.waits[ops]
    state.first[ops] = [-1] * count
    if wiring.pulls:
        state.conditions[transfers] = wiring.conditions[transfers]
        state.due[transfers] = [now + request for request in wiring.request_ns[transfers]]
    if isinstance(state.queues, Executor):
        state.queues.unlaunched[ops] = unlaunched[ops]
        state.queues.merged[ops] = [False] * count
