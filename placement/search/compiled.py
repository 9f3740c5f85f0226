"""The search compiled: the walk with the event loop inside it, where it aims, and list schedules."""

from __future__ import annotations

from placement.search.moves import Groups, Walk, find_critical, walk_on
from placement.search.schedules import Jobs, Schedule, list_schedule
from simulator.execution.arrays import Flows, Found, Lives, SharedLinks, State, Tasks, Threads
from simulator.execution.caching import STEP, CompiledSources
from simulator.execution.compiled.kernel import Parameter, made
from simulator.execution.compiled.translation import INT, Array, Table
from simulator.execution.layouts import Held, Nodes, Places

_HERE = "../placement/search"  # sources are found from the package of the simulator
WALK = CompiledSources(
    "The search for a placement", 3, f"{_HERE}/compiled.py", "walk_on", (*STEP.parts, f"{_HERE}/moves.py")
)
CRITICAL = WALK._replace(what="The critical path of the search", seconds=1, name="find_critical")
SCHEDULE = CompiledSources(
    "The list schedule",
    1,
    f"{_HERE}/compiled.py",
    "list_schedule",
    ("execution/compiled", "execution/declared.py", "execution/layouts.py", f"{_HERE}/schedules.py"),
)

_NUMBER, _LINE, _ROWS = Parameter(INT), Parameter(Array("int32", 1), (Array,)), Parameter(Array("int32", 2))
_COLUMN, _TIMES = Parameter(Array("int64", 1)), Parameter(Array("int64", 1), (Array,))
_GROUPS, _WALK = Parameter(Table(Groups)), Parameter(Table(Walk), (Walk,))
_READ = [Parameter(Table(kind)) for kind in (Nodes, Places, SharedLinks, Held)]
_WRITTEN = [Parameter(Table(kind), (kind,)) for kind in (Tasks, State, Threads, Flows, Found, Lives)]
_PEAKS = Parameter(Array("int64", 2), (Array,))
_OVER = [_GROUPS, _WALK, _ROWS, _LINE, _NUMBER, _ROWS, _LINE, _LINE, _COLUMN, _TIMES, _PEAKS]

walk = made(walk_on, [*_READ, *_WRITTEN, *_OVER, _NUMBER, _NUMBER, _NUMBER, _NUMBER], WALK)
critical = made(
    find_critical,
    [
        *(Parameter(Table(kind)) for kind in (Nodes, Places, Held, Tasks, State, Found)),
        Parameter(Array("int32", 1)),
        _COLUMN,
        _COLUMN,
        _COLUMN,
        _WALK,
    ],
    CRITICAL,
)
schedule = made(list_schedule, [Parameter(Table(Jobs)), Parameter(Table(Schedule), (Schedule,)), _NUMBER], SCHEDULE)
