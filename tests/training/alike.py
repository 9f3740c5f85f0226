"""Whether two runs were the same, column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np

from simulator.execution.trace import OpInstances, Trace, TraceTasks, TraceTransfers
from simulator.training.training import ResourceUsage, Training


def anew(run: Callable[[int], Training], steps: int) -> Callable[[Callable[[Training, int], int]], Training]:
    """A run that begins anew with as many steps as there are to be; from `steps` on."""

    def asking(extend: Callable[[Training, int], int]) -> Training:
        taken, made = steps, run(steps)
        while (more := extend(made, taken)) > taken:
            taken, made = more, run(more)
        return made

    return asking


def assert_alike(plain: object, other: object) -> None:
    """All columns are, but for the name of the engine."""
    assert isinstance(plain, Training | Trace | TraceTasks | OpInstances | TraceTransfers)
    for name in (field.name for field in fields(plain)):
        one, two = getattr(plain, name), getattr(other, name)
        if isinstance(one, Trace | TraceTasks | OpInstances | TraceTransfers):
            assert_alike(one, two)
        elif name == "usage":
            assert_spent_alike([one], [two])
        elif name == "samples":
            assert_spent_alike(one, two)
        elif isinstance(one, np.ndarray):
            assert one.dtype == two.dtype, name
            np.testing.assert_array_equal(one, two, err_msg=name)
        elif name != "engine":
            assert one == two, name


def assert_spent_alike(plain: Sequence[ResourceUsage], other: Sequence[ResourceUsage]) -> None:
    """As many moments, and what was done until each."""
    assert len(plain) == len(other)
    for one, two in zip(plain, other, strict=True):
        for name in one._fields:
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
