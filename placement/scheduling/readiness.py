"""When ops are ready: at the end of all that they read, a Merge at that of its first value."""

from __future__ import annotations

from dataclasses import dataclass

from placement.problem import Problem
from simulator.units import Nanos


@dataclass(slots=True)
class Waits:
    """What each op still waits for. Axis: n ops."""

    problem: Problem
    pending: list[int]  # [n] inputs that must still end
    merged: list[bool]  # [n] a Merge that has a value
    since: list[Nanos]  # [n] when the latest input so far ended


def open_waits(problem: Problem) -> Waits:
    """Nothing has ended; an op waits for all its inputs, a Merge for its control inputs and one of its values."""
    pending = [len(tensors) for tensors in problem.inputs]
    for op, merge in enumerate(problem.merge):
        if merge:
            controls = sum(problem.control[tensor] for tensor in problem.inputs[op])
            pending[op] = controls + (controls < len(problem.inputs[op]))
    return Waits(problem, pending, [False] * len(pending), [0] * len(pending))


def at_once(waits: Waits) -> list[int]:
    """The ops that wait for nothing."""
    return [op for op, count in enumerate(waits.pending) if not count]


def released(waits: Waits, op: int, end: Nanos) -> list[int]:
    """The ops that become ready as one ends, in order of its outputs and their readers."""
    problem, ready = waits.problem, []
    for tensor in problem.outputs[op]:
        value = not problem.control[tensor]
        for reader in problem.consumers[tensor]:
            if value and problem.merge[reader]:  # its first value is enough
                if waits.merged[reader]:
                    continue
                waits.merged[reader] = True
            if end > waits.since[reader]:
                waits.since[reader] = end
            waits.pending[reader] -= 1
            if not waits.pending[reader]:
                ready.append(reader)
    return ready
