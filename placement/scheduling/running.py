"""Functions over columns: they run as they stand over lists, and compiled over arrays, with the same result.

A small step takes lists, so that it never waits for a compiler. For a larger one machine code takes a thirtieth of the
time. To load a function that is kept takes some 5 ms, to compile all of them once 2 s (decision 0059).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from placement.columns import Columns
from placement.problem import NEVER, Problem
from simulator.columns import Ints
from simulator.errors import raise_interrupt
from simulator.execution.choosing import CompiledSources, is_warm

_WORTH_LOADING, _WORTH_COMPILING = 2_000, 50_000  # ops times devices: lists take some 5 and 150 ms for an algorithm
_SHARED = ("../placement/columns.py", "../placement/problem.py", "../placement/scheduling")
MOST_PS = 2**61  # picoseconds: no sum of ranks may pass it, as it would not fit 64 bits


@dataclass(frozen=True, eq=False)
class Runner:
    """Runs functions over a step's columns: as they stand over lists, or compiled over arrays."""

    step: Columns  # lists where nothing is compiled
    compiled: bool

    def new(self, count: int, value: int = 0) -> Ints:
        """A column that can be written."""
        return np.full(count, value) if self.compiled else [value] * count  # type: ignore[return-value]  # or a list

    def of(self, values: npt.ArrayLike) -> Ints:
        """A column with these values, for functions that only read it."""
        if not self.compiled:
            return np.asarray(values).tolist()
        return np.require(values, np.int64, ("C", "W"))  # compiled code takes no column that is read-only

    def copy(self, values: npt.ArrayLike) -> Ints:
        """A column with these values, which can be written."""
        return np.array(values, np.int64) if self.compiled else self.of(values)

    def run(self, function: Callable[..., None], *values: tuple[Ints, ...] | Ints) -> None:
        """Call a function with the step and columns, or tuples of them, which it may write."""
        if not self.compiled:
            function(self.step, *values)
            return
        kinds = tuple(type(value) if isinstance(value, tuple) else None for value in values)
        _compiled(function, kinds)(self.step, *values)


def runner_of(problem: Problem, function: Callable[..., None]) -> Runner:
    """The runner for a step: compiled where that pays, and where 64 bits hold all sums of its times.

    `function` is the one of those which run on it that takes longest.
    """
    if pays(len(problem.group) * len(problem.capacity), function) and _longest_ps(problem.columns) < MOST_PS:
        return Runner(problem.columns, True)
    return plain(problem)


def pays(size: int, function: Callable[..., None]) -> bool:
    """Tell whether machine code of a function pays for so many ops times devices."""
    if size < _WORTH_LOADING or (size < _WORTH_COMPILING and not is_warm(sources_of(function))):
        return False
    try:
        import simulator.execution.compiled.kernel  # noqa: F401  # late: it loads LLVM
    except ImportError as error:  # lists do without
        raise_interrupt(error)
        return False
    return True


@cache
def _compiled(function: Callable[..., None], kinds: tuple[type | None, ...]) -> Callable[..., None]:
    """The function over a step, and over tuples of these kinds, or columns where the kind is None."""
    from simulator.execution.compiled.kernel import Parameter, made  # late: it loads LLVM
    from simulator.execution.compiled.translation import Array, Table

    column = Parameter(Array("int64", 1), (Array,))
    given = [Parameter(Table(Columns))]
    given += [column if kind is None else Parameter(Table(kind), (kind,)) for kind in kinds]
    return made(function, given, sources_of(function))


def sources_of(function: Callable[..., None]) -> CompiledSources:
    """The files that go into a function's machine code: its own, and those that all share."""
    own = Path(inspect.getfile(function))
    path = f"../placement/{own.parent.name}/{own.name}"
    parts = ("execution/compiled", "execution/arrays.py", "execution/layouts.py", *_SHARED, path)
    return CompiledSources("A list schedule", 1, path, function.__name__, parts)


def plain(problem: Problem) -> Runner:
    """The runner over lists."""
    return Runner(Columns(*(column.tolist() for column in problem.columns)), False)


def _longest_ps(step: Columns) -> float:
    """More than any sum of times in picoseconds: all ops where they are slowest, and all values on the way."""
    by_device = np.ascontiguousarray(step.run_ns.reshape(-1, len(step.lanes)).T)  # numpy is slow over short rows
    runs = by_device.max(axis=0, initial=0).sum(dtype=np.float64)
    wire = np.where(step.wire_ns < NEVER, step.wire_ns, 0).max(initial=0)
    return 2000.0 * (float(runs) + float(wire) * len(step.nbytes))


def listed(column: Sequence[int] | Ints) -> list[int]:
    """The numbers of a column."""
    return column.tolist() if isinstance(column, np.ndarray) else list(column)
