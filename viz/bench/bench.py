"""The run of a bench: graph by graph and cluster by cluster, in this process, in several, or in a cluster of machines.

With several jobs the work goes through joblib. So `joblib.parallel_config` sends it elsewhere: to Dask or Ray.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir

from simulator.bounds import Bound
from simulator.errors import SimvizError
from simulator.execution.choosing import loads
from simulator.limits import raised
from simulator.progress import Say, silent
from simulator.wording import brief
from viz.bench.options import BenchRequest, Unit
from viz.bench.rows import BenchRow, RowKey, journal
from viz.command.ingredients import Ingredients, read_inputs
from viz.command.one_step import bounded, placed, simulated
from viz.command.request import Request
from viz.difference.scores import score
from viz.scene import Scene

_REFUSALS = (SimvizError, RecursionError, MemoryError)
_ROUND = 4  # units of each job, after which their rows are kept
SHARED_MEMORY = "/dev/shm"  # where joblib prefers to keep large arrays
_LOOK_S = 1.0  # after so long a process sees that the one that began it is gone


def run_bench(request: BenchRequest, say: Say = silent, *, began: Callable[[], None] = lambda: None) -> list[BenchRow]:
    """Ask what the file of rows does not know yet, write it there, and return all rows of the file.

    `say` hears how far the bench is; `began` is called when the file is there. When a bench is stopped, the rows of
    each graph and cluster that are done are kept. A graph or a plan that is refused is a row that says why. Raises
    SimvizError where the file of rows can't be used, and where joblib is missing for several jobs.
    """
    if request.jobs > 1 and find_spec("joblib") is None:
        raise SimvizError('--jobs needs joblib: pip install "simviz[bench]"')
    with journal(request.rows) as kept:
        began()
        known = {row.key for row in kept.rows}
        left = [replace(unit, keys=tuple(key for key in unit.keys if key not in known)) for unit in request.units]
        left = [unit for unit in left if unit.keys]
        if left:
            loads()  # compiled once, here, and not by each process
        try:
            for done, rows in enumerate(_answers(left, request.jobs), 1):
                kept.add(rows)
                say(f"{done} of {len(left)}: {rows[-1].key.graph} on {rows[-1].key.cluster}")
        except BaseException:
            _remove_folders()
            raise
        kept.sort(request.order)
        return list(kept.rows)


def _answers(units: Sequence[Unit], jobs: int) -> Iterator[list[BenchRow]]:
    """The rows of each unit, as they come."""
    if jobs == 1:
        yield from map(answer, units)
        return
    from joblib import Parallel, delayed
    from joblib.parallel import LokyBackend, get_active_backend

    backend = get_active_backend()[0]
    if not backend.supports_return_generator:
        yield from _in_rounds(units, jobs)
        return
    here = isinstance(backend, LokyBackend)
    own = {"backend": "loky", "initializer": _watched, "initargs": (os.getpid(),)} if here else {}
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all", **own)
    found = parallel(delayed(answer)(unit) for unit in units)
    try:
        yield from found
    except Exception as error:
        if type(error).__name__ != "TerminatedWorkerError":
            raise
        raise SimvizError("a process of the bench was killed, most likely for memory; try fewer --jobs") from None
    finally:
        found.close()
        if here:
            _end_processes()


def _in_rounds(units: Sequence[Unit], jobs: int) -> Iterator[list[BenchRow]]:
    """The rows of each unit where a backend gives back a whole list alone, as Ray's does: some units at a time."""
    from joblib import Parallel, delayed

    for first in range(0, len(units), _ROUND * jobs):
        some = units[first : first + _ROUND * jobs]
        yield from Parallel(n_jobs=jobs, batch_size=1, pre_dispatch="all")(delayed(answer)(unit) for unit in some)


def _end_processes() -> None:
    """End joblib's own processes, which would wait for more work."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def _remove_folders() -> None:
    """Remove joblib's folders of this process: a signal may come after one is made, and before anything removes it."""
    for place in (SHARED_MEMORY, gettempdir()):
        for folder in Path(place).glob(f"joblib_memmapping_folder_{os.getpid()}_*"):
            rmtree(folder, ignore_errors=True)


def _watched(parent: int) -> None:
    """Let this process end when the one that began it is gone, be it killed."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)


def answer(unit: Unit) -> list[BenchRow]:
    """The rows of one graph on one cluster."""
    with raised(unit.request.limits):
        return _answered(unit)


def _answered(unit: Unit) -> list[BenchRow]:
    loads()  # now, so that no placing is timed with it
    try:
        given = read_inputs(unit.request, silent)
    except _REFUSALS as error:
        return [BenchRow(key, _said(error)) for key in unit.keys]
    rows: list[BenchRow] = []
    below: Bound | None = None  # of all placements, so it is looked for once
    for key in unit.keys:
        try:
            scene, placing_s = _placed(key, unit.request, given, below)
        except _REFUSALS as error:
            rows.append(BenchRow(key, _said(error)))
            continue
        below = scene.bound
        rows.append(_row(key, scene.memory_bounded(), placing_s))
    return rows


def _said(error: Exception) -> str:
    """A refusal in one line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return brief(" ".join(str(error).split())) or "too large for this machine's memory"


def _placed(key: RowKey, request: Request, given: Ingredients, below: Bound | None) -> tuple[Scene, float]:
    """The step as an algorithm places it, and how long the algorithm took."""
    request = replace(request, algorithm=key.asked, budget=key.budget or None).having(given.observed)
    began = time.perf_counter()
    assignment = placed(request, given, silent)
    placing_s = time.perf_counter() - began
    made = simulated(request, given, assignment, silent)
    below = below or bounded(request, given, assignment, compiled=loads())
    scene = Scene(
        title=request.title,
        graph=given.graph,
        step=given.step,
        cluster=given.cluster,
        costs=given.costs,
        assignment=assignment,
        partitions=made.partitions,
        trace=made.trace,
        bound=below.with_proof(assignment.proven),
        received=made.received,
        enforced=made.enforced,
    )
    return scene, placing_s


def _row(key: RowKey, scene: Scene, placing_s: float) -> BenchRow:
    found = score(scene)
    return BenchRow(
        key,
        "",
        used=found.used,
        nodes=len(scene.graph),
        ops=int(scene.step.runs.sum()),
        devices=len(scene.cluster),
        makespan_ns=found.makespan_ns,
        lower_bound_ns=found.lower_bound_ns,
        fits=not found.full,
        moved_bytes=int(found.moved_bytes),
        transfers=found.transfers,
        fullest=found.shown[0],
        peak_bytes=int(found.fullest.peak_bytes),
        unsized_tensors=scene.unsized.tensors,
        placing_s=round(placing_s, 3),
    )
