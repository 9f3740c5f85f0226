"""Ready ops: an op is ready at the end of all that it reads, a Merge at the end of its first value.

Functions over columns (`running`).
"""

from __future__ import annotations

from typing import NamedTuple

from placement.columns import Columns
from placement.scheduling.running import Runner
from simulator.columns import Ints


class Waits(NamedTuple):
    """The inputs that each op still waits for. Axis: n ops."""

    pending: Ints  # [n] inputs that must still end
    merged: Ints  # [n] 1: a Merge that has a value
    since: Ints  # [n] when the latest input so far ended
    fresh: Ints  # [n] the ops that became ready last


def open_waits(runner: Runner) -> Waits:
    """Room for it; `begin` fills it in."""
    return Waits(*(runner.new(len(runner.step.group)) for _ in Waits._fields))


def begin(step: Columns, waits: Waits) -> int:
    """Nothing has ended, and the ops that wait for nothing are `fresh`: how many.

    An op waits for all its inputs, a Merge for its control inputs and one of its values.
    """
    count = 0
    for op in range(len(step.group)):
        inputs = step.first[op + 1] - step.first[op]
        if step.merge[op]:
            controls = 0
            for at in range(step.first[op], step.first[op + 1]):
                controls += step.control[step.tensor[at]]
            inputs = controls + 1 if controls < inputs else controls
        waits.pending[op] = inputs
        if inputs == 0:
            waits.fresh[count] = op
            count += 1
    return count


def released(step: Columns, waits: Waits, op: int, end: int) -> int:
    """The ops that become ready as one ends are `fresh`: how many."""
    count = 0
    for tensor in range(step.made_first[op], step.made_first[op + 1]):
        for at in range(step.reader_first[tensor], step.reader_first[tensor + 1]):
            reader = step.reader[at]
            if step.merge[reader] and not step.control[tensor]:  # its first value is enough
                if waits.merged[reader]:
                    continue
                waits.merged[reader] = 1
            if end > waits.since[reader]:
                waits.since[reader] = end
            waits.pending[reader] -= 1
            if waits.pending[reader] == 0:
                waits.fresh[count] = reader
                count += 1
    return count
