"""Heads compiled, for steps that take the compiled loop anyway: the same results as `heads`."""

from __future__ import annotations

from simulator.bounds.heads import Predecessors, Room, heads
from simulator.execution.choosing import CompiledSources
from simulator.execution.compiled.kernel import Parameter, made
from simulator.execution.compiled.translation import INT, Table

SOURCES = CompiledSources(
    "The search for bounds",
    1,
    "bounds/compiled.py",
    "heads",
    ("bounds/compiled.py", "bounds/heads.py", "bounds/classes.py", "execution/compiled"),
)

find_heads = made(heads, [Parameter(Table(Predecessors)), Parameter(Table(Room), (Room,)), Parameter(INT)], SOURCES)
