"""Work in a thread beside its caller. It helps where most of it is machine code or numpy, without Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

_Found = TypeVar("_Found")


def aside(work: Callable[[], _Found]) -> Callable[[], _Found]:
    """Begin some work, under the limits that are set here: what is returned waits for its result, or raises its error.

    Nobody waits for it where the caller is interrupted or fails.
    """
    pool = ThreadPoolExecutor(1)
    begun = pool.submit(copy_context().run, work)
    pool.shutdown(wait=False)
    return begun.result


def ahead(items: Iterable[_Found]) -> Iterator[_Found]:
    """The items, each of which is made in a thread while the one before is used; one more is made than is asked for."""
    source, none, pool = iter(items), object(), ThreadPoolExecutor(1)

    def one_more() -> Future[_Found | object]:
        return pool.submit(copy_context().run, lambda: next(source, none))

    try:
        coming = one_more()
        while (item := coming.result()) is not none:
            coming = one_more()
            yield item  # type: ignore[misc]  # it is no `none`
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
