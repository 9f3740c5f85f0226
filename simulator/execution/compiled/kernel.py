"""The one door to numba: how functions are compiled, and where the result is kept.

numba keeps what it has compiled by the file and the name of a function and does not notice an edit in what is compiled
into it. So one function for each use has a signature and a cache, and its name there ends in a digest of all sources
(`caching`); whatever it calls is `inner`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import config, njit

from simulator.execution.caching import CompiledSources, digest

Compiler = Callable[..., Callable[..., Callable[..., None]]]

_F = TypeVar("_F", bound=Callable[..., object])


def inner(function: _F) -> _F:
    """Compiled into what calls it. Nothing is allocated, so that arrays need no reference counts (_nrt)."""
    compiled: _F = njit(
        function, nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return compiled


def made(
    function: Callable[..., None], signature: object, sources: CompiledSources, compiler: Compiler = njit
) -> tuple[Callable[..., None], bool]:
    """The function compiled from these sources, now or taken from numba's cache, and whether it is kept there.

    numba keeps it in NUMBA_CACHE_DIR, else beside its file, else in the user's cache; where none can be written it is
    compiled again by every process.
    """
    options = {"nogil": True, "error_model": "numpy", "_nrt": False}
    function.__qualname__ = f"{function.__name__}_{digest(sources)}"
    vectorize, config.LOOP_VECTORIZE = config.LOOP_VECTORIZE, 0  # most lists are of two or three: it costs a tenth more
    try:
        compiled = compiler(signature, cache=True, **options)(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return compiler(signature, **options)(function), False
    finally:
        config.LOOP_VECTORIZE = vectorize
    return compiled, True
