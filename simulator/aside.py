"""Work in a thread beside its caller. It helps where most of it is machine code or numpy, without Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
