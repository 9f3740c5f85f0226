"""Time the event loop beside its peers on the same steps, in one run: tables for RESULTS.md.

    python benchmarks/engine.py FOLDER     FOLDER holds the graphs of graphs.py; they are made when missing

Random graphs on 8 devices, cut at random or into blocks of neighbours (few cuts), and the training step of ResNet-50
with 8 towers. Whatever is compared has to give the same result first. Times are the processor's, as a busy machine
disturbs them least, but for threads; they are taken in turn, and a ratio is the median of those of each turn.
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from ctypes import CDLL
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # the reference is among the tests

import engine_twin
from engine_problems import (
    DEVICES,
    Case,
    Described,
    check_columns,
    described,
    random_cases,
    random_step,
    resnet,
    switched_case,
)

from simulator import SimulationOptions, evaluate, evaluate_with_peaks, prepare
from simulator.execution import engine
from simulator.execution.flattening import laid_out
from tests.execution import simpy_reference
from tests.oracle import grappler

SIZES = (10_000, 100_000, 1_000_000)
DESCRIBED = (10_000, 100_000)  # those that the peers run, too
WANTED_PER_S = {10_000: 4.0e6, 100_000: 3.3e6, 1_000_000: 2.5e6}  # ops, with a random cut
REPEATS, GRAPPLER_CALLS = 9, 3
GRAPPLER_UP_TO = 50_000  # ops: a call for 100,000 takes half a minute
LONGER = 10  # times as many runs where threads are timed, which have to be started
MEMORY = "--memory"  # what a process that only measures its memory is told

Call = Callable[[], object]


def in_turn(*calls: Call, repeats: int = REPEATS, clock: Callable[[], float] = time.process_time) -> np.ndarray:
    """[repeats, calls] seconds, after one call of each that does not count."""
    turns = []
    for _ in range(repeats + 1):
        turn = []
        for call in calls:
            began = clock()
            call()
            turn.append(clock() - began)
        turns.append(turn)
    return np.array(turns[1:])


def median(column: np.ndarray) -> float:
    return float(np.median(column))


def evaluated(case: Case, threads: int = 1, **options: Any) -> Call:
    """Run it as often as it has rows, in one thread."""
    prepared = case.prepared.under(SimulationOptions(**options))
    return lambda: evaluate(prepared, case.rows, threads=threads)


# --- the tables ------------------------------------------------------------------------------------------------------


def loop(cases: list[Case], library: CDLL | None) -> Iterator[str]:
    """The compiled loop and its twin; on the right both count memory, too."""
    yield "| step | transfers | a run | ops/s | wanted | twin | ratio | with peaks | twin | ratio |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for case in cases:
        mine: list[Call] = [evaluated(case), partial(evaluate_with_peaks, case.prepared, case.rows, threads=1)]
        theirs = [] if library is None else twins(case, library)
        turns = in_turn(*mine, *theirs) / len(case.rows)
        wanted = WANTED_PER_S.get(case.ops) if case.random_cut else None
        seconds = median(turns[:, 0])
        row = [case.name, f"{case.transfers:,}", ms(seconds), millions(case.ops / seconds), millions(wanted)]
        for column in (0, 1):
            beside = [ms(median(turns[:, 2 + column])), show_ratio(turns, column, 2 + column)] if theirs else ["", ""]
            row += beside if column == 0 else [ms(median(turns[:, 1])), *beside]
        yield table_row(*row)


def twins(case: Case, library: CDLL) -> list[Call]:
    """The twin without and with memory, once it gives every start and every peak as we do, and the plain loop."""
    twin = engine_twin.Twin(library, laid_out(case.prepared.tables, "serial"))
    makespan, starts, held = twin.record(case.device)
    spans, peaks = evaluate_with_peaks(case.prepared, case.rows[:1])
    assert twin.makespan(case.device) == makespan == spans[0], case.name
    assert peaks[0].tolist() == held.tolist(), case.name
    assert (engine.run(case.prepared.tables, case.device, compiled=True).start_ns == starts).all(), case.name
    if case.ops <= max(DESCRIBED):
        assert (engine.run(case.prepared.tables, case.device).start_ns == starts).all(), case.name
    times = range(len(case.rows))
    return [lambda: [twin.makespan(case.device) for _ in times], lambda: [twin.record(case.device) for _ in times]]


def peers(cases: list[Described]) -> Iterator[str]:
    """The plain loop, SimPy and Grappler; how many compiled runs fit into one of theirs."""
    yield "| step | events | plain loop, events/s | plain | SimPy | Grappler | a call of it |"
    yield "|---|---|---|---|---|---|---|"
    for one in cases:
        case = one.case
        tables, device = case.prepared.tables, case.device
        events = len(tables) + len(engine.run(tables, device).transfers)
        turns = in_turn(partial(engine.makespan, tables, device), evaluated(case), repeats=5)
        plain, mine = median(turns[:, 0]), median(turns[:, 1]) / len(case.rows)
        call_s = grappler_s(one) if case.ops <= GRAPPLER_UP_TO else None
        yield table_row(
            case.name,
            f"{events:,}",
            f"{events / plain / 1e3:,.0f} k",
            f"{plain / mine:.0f} x",
            f"{simpy_s(one) / mine:.0f} x" if one.plain else "",
            "" if call_s is None else f"{call_s / mine:,.0f} x",
            "" if call_s is None else f"{call_s:.2f} s",
        )


def simpy_s(one: Described) -> float:
    """The time of the independent run, once; every start and every end has to be the same."""
    case = one.case
    outcome = engine.run(case.prepared.tables, case.device)
    began = time.process_time()
    times = simpy_reference.simulate(one.graph, one.on, one.priced, case.device.tolist()).times
    took = time.process_time() - began
    spans = zip(outcome.start_ns.tolist(), outcome.end_ns.tolist(), strict=True)
    assert times == dict(zip(case.prepared.tables.names, spans, strict=True)), case.name
    return took


def grappler_s(one: Described) -> float:
    """The time of a call of MeasureCosts inside TensorFlow."""
    devices = [one.on.devices[row].name for row in one.case.assignment.tolist()]
    return grappler.predict(one.grapplers, one.on, step=one.fetching, devices=devices, calls=GRAPPLER_CALLS).call_s


def threads(cases: list[Case]) -> Iterator[str]:
    """Two threads against one, by the clock on the wall."""
    yield "| step | assignments | one thread | two | gain |"
    yield "|---|---|---|---|---|"
    for case in cases:
        rows = np.repeat(case.rows, LONGER, axis=0)
        calls = [partial(evaluate, case.prepared, rows, threads=count) for count in (1, 2)]
        turns = in_turn(*calls, clock=time.perf_counter)
        yield table_row(case.name, len(rows), *map(ms, np.median(turns, axis=0)), show_ratio(turns, 0, 1))


def sharing(cases: list[Case]) -> Iterator[str]:
    """Links shared fairly against links held in turn."""
    yield "| step | in turn | shared | ratio |"
    yield "|---|---|---|---|"
    for case in cases:
        turns = in_turn(evaluated(case, contention="fair"), evaluated(case)) / len(case.rows)
        yield table_row(case.name, ms(median(turns[:, 1])), ms(median(turns[:, 0])), show_ratio(turns, 0, 1))


def growth(cases: list[Case]) -> Iterator[str]:
    """Time per op, over what n log n allows since the first."""
    yield "| step | ns per op | over n log n since the first |"
    yield "|---|---|---|"
    first: dict[str, tuple[int, float]] = {}
    for case in cases:
        seconds = median(in_turn(evaluated(case))) / len(case.rows)
        kind = case.name.partition(", ")[2]
        ops, since = first.setdefault(kind, (case.ops, seconds))
        allowed = since * case.ops * math.log(case.ops) / (ops * math.log(ops))
        yield table_row(case.name, f"{seconds / case.ops * 1e9:.0f}", f"{seconds / allowed:.2f}")


def memory() -> Iterator[str]:
    """The growth of a process of its own, per op."""
    ops = max(SIZES)
    told = subprocess.run([sys.executable, __file__, MEMORY, str(ops)], capture_output=True, check=True, text=True)
    tables, run, peaks = json.loads(told.stdout)
    yield "| ops | tables | a run | both | peaks on top |"
    yield "|---|---|---|---|---|"
    yield table_row(f"{ops:,}", *(f"{nbytes / ops:.0f} B" for nbytes in (tables, run, tables + run, peaks)))


def grown(ops: int) -> list[int]:
    """Bytes that tables, a first run and one that counts memory take, as the system sees them."""
    for case in random_cases(min(SIZES)):
        evaluate_with_peaks(case.prepared, case.rows, threads=1)  # all that is loaded once is
    step = random_step(ops)
    rows = np.random.default_rng(1).integers(0, DEVICES, (1, ops), np.int32)
    seen = [resident()]
    prepared = prepare(*step)
    seen.append(resident())
    for run in (evaluate, evaluate_with_peaks):
        run(prepared, rows, threads=1)
        seen.append(resident())
    return [after - before for before, after in pairwise(seen)]


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    if sys.platform == "linux":
        CDLL(None).malloc_trim(0)  # what was freed goes back to the system
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- words -----------------------------------------------------------------------------------------------------------


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def millions(count: float | None) -> str:
    return "" if count is None else f"{count / 1e6:.1f} M"


def show_ratio(turns: np.ndarray, column: int, to: int) -> str:
    return f"{median(turns[:, column] / turns[:, to]):.2f}"


def table_row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def machine() -> str:
    """The machine and its software."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    compiler = engine_twin.compiler()
    told = "" if compiler is None else subprocess.check_output([compiler, "--version"], text=True)
    return (
        f"{os.cpu_count()} cores of {models[0] if models else platform.processor()}, {platform.platform()}, Python "
        f"{platform.python_version()}, numpy {np.__version__}, llvmlite {llvmlite.__version__}, "
        f"{told.splitlines()[0] if told else 'no C++ compiler'}; load {os.getloadavg()[0]:.1f}"
    )


def main(folder: Path) -> None:
    check_columns()
    print(machine(), end="\n\n", flush=True)
    library = engine_twin.library()
    resnets = resnet(folder)
    cases = [case for ops in SIZES for case in random_cases(ops)]
    switched = [switched_case(ops) for ops in SIZES]
    known = [described(case) for case in cases if case.ops in DESCRIBED]
    real = [one.case for one in resnets]
    for title, lines in (
        ("The compiled loop", loop([*cases, *switched, *real], library)),
        ("Shared links", sharing([*cases[:4], *real])),
        ("Growth", growth(cases)),
        ("Two threads", threads([*cases[:4], *real])),
        ("Memory", memory()),
        ("Peers: their time over that of a compiled run", peers([*known, *resnets])),
    ):
        print(f"{title}\n", *lines, "", sep="\n", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == [MEMORY]:
        print(json.dumps(grown(int(sys.argv[2]))))
    else:
        main(Path(sys.argv[1]).resolve())
