"""Heads compiled, for steps that take the compiled loop anyway: the same results as `heads`."""

from __future__ import annotations

from numba import int64, types, void

from simulator.bounds.heads import Room, Waits, heads_of
from simulator.execution.caching import CompiledSources
from simulator.execution.compiled.kernel import inner, made

SOURCES = CompiledSources(
    "The search for bounds",
    "bounds/compiled.py",
    "_find_heads",
    ("bounds/compiled.py", "bounds/heads.py", "bounds/classes.py", "execution/compiled/kernel.py"),
)

_heads = heads_of(inner)


def _find_heads(waits: Waits, room: Room, depth: int) -> None:
    _heads(waits, room, depth)


def _columns(kind: type) -> object:
    """The type of a tuple of columns of 64 bits."""
    return types.NamedUniTuple(int64[::1], len(kind._fields), kind)  # type: ignore[attr-defined]


find_heads, kept = made(_find_heads, void(_columns(Waits), _columns(Room), int64), SOURCES)
