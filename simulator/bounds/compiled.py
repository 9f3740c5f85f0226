"""Heads and cuts compiled, for steps that take the compiled loop anyway."""

from __future__ import annotations

from simulator.bounds.flow import Network
from simulator.bounds.flow import cut as cut_network
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

CUT = SOURCES._replace(what="Minimum cuts", name="cut", parts=("execution/compiled", "bounds/flow.py"))

find_heads = made(heads, [Parameter(Table(Predecessors)), Parameter(Table(Room), (Room,)), Parameter(INT)], SOURCES)
cut = made(cut_network, [Parameter(Table(Network), (Network,)), Parameter(INT)], CUT)
