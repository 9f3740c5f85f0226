"""The search compiled: the walk with the event loop inside it, where it aims, and list schedules."""

from __future__ import annotations

from placement.search.ahead import Ahead
from placement.search.critical import find_critical
from placement.search.layers import Joined, Nets, join
from placement.search.moves import Groups, Walk, walk_on
from placement.search.packing import Bins, pack
from placement.search.schedules import Jobs, ScheduleState, list_schedule
from simulator.execution.choosing import STEP, CompiledSources
from simulator.execution.compiled.engine import ARENA, LAID
from simulator.execution.compiled.kernel import Parameter, made
from simulator.execution.compiled.translation import INT, Array, Table

_HERE = "../placement/search"  # sources are found from the package of the simulator
WALK = CompiledSources(
    "The search for a placement",
    3,
    f"{_HERE}/compiled.py",
    "walk_on",
    (*STEP.parts, f"{_HERE}/moves.py", f"{_HERE}/ahead.py"),
)
CRITICAL = WALK._replace(
    what="The critical path of the search",
    seconds=1,
    name="find_critical",
    parts=(*WALK.parts, f"{_HERE}/critical.py"),
)
SCHEDULE = CompiledSources(
    "The list schedule",
    1,
    f"{_HERE}/compiled.py",
    "list_schedule",
    ("execution/compiled", "execution/arrays.py", "execution/layouts.py", f"{_HERE}/schedules.py"),
)
LAYERED = SCHEDULE._replace(
    what="Layers of ops", name="join", parts=("execution/compiled", "execution/arrays.py", f"{_HERE}/layers.py")
)
PACKED = LAYERED._replace(
    what="Layers packed into devices",
    name="pack",
    parts=("execution/compiled", "execution/arrays.py", f"{_HERE}/layers.py", f"{_HERE}/packing.py"),
)

_NUMBER, _COLUMN = Parameter(INT), Parameter(Array("int64", 1))
_WALK = Parameter(Table(Walk), (Walk,))
_AHEAD = Parameter(Table(Ahead), (Ahead,))

walk = made(walk_on, [LAID, ARENA, _WALK, Parameter(Table(Groups)), _AHEAD, _NUMBER], WALK)
critical = made(find_critical, [LAID, ARENA, _WALK, _COLUMN, _COLUMN, _COLUMN], CRITICAL)
schedule = made(
    list_schedule, [Parameter(Table(Jobs)), Parameter(Table(ScheduleState), (ScheduleState,)), _NUMBER], SCHEDULE
)
layered = made(join, [Parameter(Table(Nets)), Parameter(Table(Joined), (Joined,)), _NUMBER], LAYERED)
packed = made(pack, [Parameter(Table(Nets)), Parameter(Table(Bins), (Bins,)), _NUMBER], PACKED)
