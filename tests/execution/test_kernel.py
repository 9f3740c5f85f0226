"""Tuples of arrays that compiled functions get by address: what arrives, and what is refused before it is read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from simulator.columns import Ids, Ints, ids, ints
from simulator.execution.choosing import CompiledSources
from simulator.execution.compiled.kernel import Parameter, made
from simulator.execution.compiled.translation import Array, Table


class Inner(NamedTuple):
    """Part of `Outer`."""

    long: Ints
    short: Ids


class Twin(NamedTuple):
    """The same arrays under another name."""

    long: Ints
    short: Ids


class Outer(NamedTuple):
    """`route_between` has two axes, as in `layouts`."""

    inner: Inner
    route_between: npt.NDArray[np.int32]
    last: Ints


def compiled(function: Callable[..., None], *given: Parameter) -> Callable[..., None]:
    """The function compiled now, and not kept."""
    return made(function, given, CompiledSources("A test", 1, "", function.__name__, ()))


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMVIZ_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def told() -> Callable[..., None]:
    """A small function, which the compiler may merge with the code that reads the table."""
    return compiled(tell, Parameter(Table(Outer)), Parameter(Array("int64", 1), (Array,)))


def tell(given: Outer, found: Ints) -> None:
    found[0], found[1], found[2] = len(given.inner.long), len(given.inner.short), given.route_between.shape[0]
    found[3], found[4] = given.route_between.shape[1], len(given.last)
    found[5] = 0
    for at in range(len(given.inner.long)):
        found[5] += given.inner.long[at]
    for at in range(len(given.inner.short)):
        found[5] += given.inner.short[at]
    for at in range(len(given.last)):
        found[5] += given[2][at]
    for row in range(given.route_between.shape[0]):
        one = given.route_between[row]
        for column in range(len(one)):
            found[5] += one[column] + given.route_between[row, column]


def matrix(rows: object) -> npt.NDArray[np.int32]:
    made = np.array(rows, np.int32)
    made.setflags(write=False)
    return made


def of(long: Any = (), short: Any = (), route_between: Any = ((1, 2, 3), (4, 5, 6)), last: Any = (2**40,)) -> Outer:
    return Outer(Inner(ints(long), ids(short)), matrix(route_between), ints(last))


def expected(given: Outer) -> list[int]:
    arrays = (*given.inner, given.route_between, given.route_between, given.last)
    lengths = [len(given.inner.long), len(given.inner.short), *given.route_between.shape, len(given.last)]
    return [*lengths, sum(int(array.sum(dtype=np.int64)) for array in arrays)]


@pytest.mark.parametrize(
    "given",
    [of(), of([1, 2], [3]), of(range(99), [], np.zeros((0, 3))), of([], [-1], np.zeros((2, 0)), []), of([-(2**62)])],
)
def test_every_array_arrives_with_its_lengths_empty_ones_too(told: Callable[..., None], given: Outer) -> None:
    found = np.zeros(6, np.int64)
    told(given, found)
    assert found.tolist() == expected(given)


def test_no_call_keeps_or_drops_a_reference(told: Callable[..., None]) -> None:
    given, found = of([1], [2]), np.zeros(6, np.int64)
    counted = (given, given.inner, *given.inner, given.route_between, given.last)
    before = [sys.getrefcount(one) for one in counted]
    for _ in range(100):
        told(given, found)
    assert [sys.getrefcount(one) for one in counted] == before


def test_threads_have_tables_of_their_own(told: Callable[..., None]) -> None:
    each = [of(range(k), range(2 * k), np.full((k % 3, 4), k), [k]) for k in range(64)]

    def one(given: Outer) -> list[int]:
        found = np.zeros(6, np.int64)
        for _ in range(50):
            told(given, found)
        return [int(value) for value in found]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, each)) == [expected(given) for given in each]


def changed(**wrong: Any) -> Outer:
    return of()._replace(**wrong)


def strided() -> npt.NDArray[np.int64]:
    made = np.arange(6)[::2]
    made.setflags(write=False)
    return made


@pytest.mark.parametrize(
    "wrong",
    [
        changed(last=ids([1])),
        changed(last=strided()),
        changed(last=matrix([[1]])),
        changed(last=[1]),
        changed(route_between=of().route_between.T),
        changed(inner=None),
        changed(inner=Twin(ints([]), ids([]))),
        changed(inner=(ints([]), ids([]))),
        tuple(of()),
    ],
    ids=["of 32 bits", "strided", "matrix", "list", "transposed", "none", "other kind", "plain", "outer"],
)
def test_what_is_not_as_declared_is_refused(told: Callable[..., None], wrong: object) -> None:
    found = np.full(6, -1)
    for _ in range(2):  # also once the type is known
        with pytest.raises(TypeError, match=r"stands in the place|is no array|has gaps"):
            told(wrong, found)
    assert found.tolist() == [-1] * 6


def add(given: Inner) -> None:
    for at in range(len(given.long)):
        given.long[at] += given.short[at]


def test_what_is_written_is_seen_by_the_caller_and_read_only_arrays_are_refused_there() -> None:
    added = compiled(add, Parameter(Table(Inner), (Inner,)))
    mine = Inner(np.array([1, 2]), np.array([10, 20], np.int32))
    added(mine)
    assert mine.long.tolist() == [11, 22]
    with pytest.raises(TypeError, match="is read-only"):
        added(Inner(ints([1]), np.array([10], np.int32)))
