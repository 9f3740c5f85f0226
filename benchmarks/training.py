"""Hold simulated training against real clusters of local processes: tables for RESULTS.md.

    python benchmarks/training.py [--only WORD] [--steps N] [--computing]

Each training is made by TensorFlow (tests/oracle/training_graphs.py), run by real servers over loopback gRPC with one
thread for ops each, and simulated from the same graphs. A worker's work is a sleep within its step, in its own process,
so that any number of them can be busy on two cores; the simulation is told how long the sleeps are. With `--computing`
it is products of matrices, on as many tasks as there are cores, and what counts is which training is the faster.

What the machine adds is measured first, with one worker that nobody disturbs: what a hop between two tasks takes, so
that a step without any work takes as long simulated as for real, how much longer than asked for a sleep is, and how
that is spread, as noise; without noise equal workers stay in step for ever. A product is measured the same way.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from simulator.columns import ints
from simulator.oracle.processes import RealStep, measure
from simulator.training.answers.answers import rate
from simulator.training.training import COMPUTING
from simulator.training.training import Training as Run
from tests.oracle.simulating import Machine, simulate
from tests.oracle.training_graphs import Training, clients, shares, task

TIMEOUT_S = 300.0
STEPS_ALONE, ALONE_S = 150, 0.06
SLEEPING = {
    "async, 1 ps, 2 workers": Training("async", sleeps_s=(0.06, 0.06)),
    "async, 1 ps, 3 workers, one slow": Training("async", sleeps_s=(0.05, 0.06, 0.1)),
    "async, 2 ps, 2 workers, one slow": Training("async", sleeps_s=(0.04, 0.1), ps=2, variables=2),
    "sync, 1 ps, 2 workers": Training("sync", sleeps_s=(0.06, 0.06)),
    "sync, 1 ps, 3 workers, one slow": Training("sync", sleeps_s=(0.05, 0.06, 0.1)),
    "sync, 2 ps, 2 workers, one slow": Training("sync", sleeps_s=(0.04, 0.1), ps=2, variables=2),
    "sync 2 of 3, the third slow": Training("sync", sleeps_s=(0.06, 0.06, 0.15), aggregate=2),
    "sync 1 of 2, one slow": Training("sync", sleeps_s=(0.05, 0.08), aggregate=1),
    "sync 4 of 2 workers": Training("sync", sleeps_s=(0.05, 0.08), aggregate=4),
    "one client, 3 towers apart": Training("towers", sleeps_s=(0.05, 0.06, 0.1)),
    "in one graph, 2 towers": Training("in", sleeps_s=(0.06, 0.06)),
    "in one graph, 3 towers, one slow": Training("in", sleeps_s=(0.05, 0.06, 0.1)),
}

SIDE, PRODUCTS, REPEATS = 512, 8, 3
MULTIPLYING = {
    "async, 1 worker": Training("async", (), products=(8,), side=SIDE),
    "async, 2 workers": Training("async", (), products=(8, 8), side=SIDE),
    "async, 2 workers, one with more": Training("async", (), products=(4, 12), side=SIDE),
    "sync, 2 workers": Training("sync", (), products=(8, 8), side=SIDE),
    "sync, 2 workers, one with more": Training("sync", (), products=(4, 12), side=SIDE),
    "in one graph, 2 towers": Training("in", (), products=(8, 8), side=SIDE),
    "in one graph, 2 towers, one with more": Training("in", (), products=(4, 12), side=SIDE),
}


@dataclass(frozen=True)
class Seen:
    """What a training does, measured or simulated."""

    steps_per_s: float
    staleness: float | None  # mean updates by others within a step; None: nobody can be late
    as_read: float | None  # the same from the moment at which the worker reads; None: not known
    histogram: tuple[tuple[int, int], ...]
    # of each worker: the share of its steps that it waits for a token, or, in one graph, of all time that it is idle
    waiting: tuple[float, ...]
    dropped: float | None  # share of the gradients that come too late


built = cache(clients)


def real(training: Training, steps: int) -> Seen:
    cores = sorted(os.sched_getaffinity(0))
    pinned = {task("worker", row): cores[row] for row in range(len(training.products))}
    made = measure(built(training), steps, tasks=training.tasks, cores=pinned, timeout_s=TIMEOUT_S)
    begin = min(step.start_ns for step in made)
    counted = [step for step in made if "updates" in step.client or training.how != "sync"]
    speed = rate(ints([step.end_ns - begin for step in counted]), len(counted))
    late = [_others(step, counted) for step in counted]
    read = [step.notes["after"] - step.notes["read"] - 1 for step in counted if "after" in step.notes]
    return Seen(
        steps_per_s=speed or 0.0,
        staleness=statistics.mean(late) if training.alone else None,
        as_read=statistics.mean(read) if training.alone else None,
        histogram=tuple(sorted(Counter(late).items())) if training.alone else (),
        waiting=_waited(training, made),
        dropped=_dropped(training, counted, made) if training.how == "sync" else None,
    )


def _others(own: RealStep, steps: Sequence[RealStep]) -> int:
    """How many steps of others ended within this one."""
    return sum(own.start_ns < step.end_ns < own.end_ns for step in steps if step.client != own.client)


def _waited(training: Training, made: Sequence[RealStep]) -> tuple[float, ...]:
    if training.how == "in":
        span = made[-1].end_ns - made[0].start_ns
        return tuple(1 - len(made) * 1e9 * seconds / span for seconds in training.sleeps_s)
    found = []
    for worker in range(training.workers if training.how == "sync" else 0):
        own = [step for step in made if step.client == f"worker:{worker}"]
        waited = sum(step.end_ns - step.notes["pushed"] for step in own)
        found.append(waited / max(1, sum(step.end_ns - step.start_ns for step in own)))
    return tuple(found)


def _dropped(training: Training, updates: Sequence[RealStep], made: Sequence[RealStep]) -> float:
    """Of the gradients pushed until the last update began to be made, those that are in none."""
    used = sum(sum(shares(step.notes["mean"], training.aggregate or training.workers)) for step in updates)
    last = updates[-1].end_ns
    pushed = sum(step.notes["pushed"] < last for step in made if "pushed" in step.notes)
    return max(0.0, 1 - used / pushed)


def calibrated() -> Machine:
    """The median steps of a worker without work, and of one that sleeps, give a hop and a sleep."""
    awake, asleep = _alone(0.0), _alone(ALONE_S)
    at_0, at_60 = statistics.median(awake), statistics.median(asleep)
    idle = Training("async", sleeps_s=(0.0,))
    slow, fast = (1e9 / simulated(idle, STEPS_ALONE, Machine(hop)).steps_per_s for hop in (2_000_000, 1_000_000))
    hop_ns = round(1_000_000 + (at_0 - fast) / (slow - fast) * 1_000_000)  # simulated steps grow evenly with a hop
    spread = tuple(1 + (length - at_60) / 1e9 / ALONE_S for length in asleep)
    return Machine(max(0, hop_ns), at_0, max(0, round(at_60 - at_0 - 1e9 * ALONE_S)), spread)


def _alone(seconds: float) -> list[int]:
    """Nanoseconds from each end of a step to the next."""
    return _lengths(Training("async", sleeps_s=(seconds,)))


def _lengths(training: Training) -> list[int]:
    cores = {task("worker", 0): min(os.sched_getaffinity(0))} if training.products else {}
    made = measure(built(training), STEPS_ALONE, tasks=training.tasks, cores=cores, timeout_s=TIMEOUT_S)
    return [after.end_ns - before.end_ns for before, after in pairwise(made)]


def simulated(training: Training, steps: int, machine: Machine) -> Seen:
    run = simulate(training, built(training), steps, machine)
    pushed = run.dropped + int(run.update_gradients.sum())
    late = run.update_staleness.tolist()
    return Seen(
        steps_per_s=rate(run.update_ns, len(run.update_ns)) or 0.0,
        staleness=statistics.mean(late) if training.alone else None,
        as_read=None,
        histogram=tuple(sorted(Counter(late).items())) if training.alone else (),
        waiting=_waits(training, run),
        dropped=run.dropped / pushed if training.how == "sync" else None,
    )


def _waits(training: Training, run: Run) -> tuple[float, ...]:
    if training.how == "in":
        rows = [run.tasks.index(task("worker", worker)) for worker in range(training.workers)]
        return tuple(1 - run.task_ns[row, COMPUTING] / run.end_ns for row in rows)
    lengths = run.step_end_ns - run.step_start_ns
    workers = [run.step_client == row for row in range(training.workers if training.how == "sync" else 0)]
    return tuple(run.step_waiting_ns[own].sum() / lengths[own].sum() for own in workers)


def table(name: str, machine: Machine, measured: Seen, ours: Seen) -> str:
    cells = [
        name,
        f"{machine.hop_ns / 1e3:.0f} us",
        f"{measured.steps_per_s:.2f}",
        f"{ours.steps_per_s:.2f}",
        _off(measured.steps_per_s, ours.steps_per_s),
    ]
    cells += [_two(measured.staleness, ours.staleness, "{:.2f}")]
    cells += ["" if measured.as_read is None else f"{measured.as_read:.2f}"]
    cells += [" ".join(f"{share:.0%}" for share in seen.waiting) for seen in (measured, ours)]
    cells += [_two(measured.dropped, ours.dropped, "{:.0%}")]
    return "| " + " | ".join(cells) + " |"


def _off(measured: float, ours: float) -> str:
    return f"{ours / measured - 1:+.1%}"


def _two(measured: float | None, ours: float | None, form: str) -> str:
    return "" if measured is None or ours is None else f"{form.format(measured)}, {form.format(ours)}"


HEADS = ("training", "a hop", "steps/s", "simulated", "off", "staleness", "as read", "waiting", "simulated", "dropped")


def main(arguments: Sequence[str] | None = None) -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--only", default="", help="trainings whose names hold this")
    asked.add_argument("--computing", action="store_true", help="products of matrices in place of sleeps")
    asked.add_argument("--steps", type=int, default=60)
    options = asked.parse_args(arguments)
    if options.computing:
        return 0 if computing(options.steps) else 1
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}", flush=True)
    for name, training in SLEEPING.items():
        if options.only in name:
            machine = calibrated()  # each time, as it has its moods
            ours = simulated(training, options.steps, machine)
            print(table(name, machine, real(training, options.steps), ours), flush=True)
    return 0


def computing(steps: int) -> bool:
    """A table of gradients per second; whether all pairs that the repeats tell apart come in the same order."""
    machine, alone = calibrated(), []
    found: dict[str, list[float]] = {name: [] for name in MULTIPLYING}
    for _ in range(REPEATS):  # in turn
        alone.append(measure_products())
        for name, training in MULTIPLYING.items():
            found[name].append(gradients(training) * real(training, steps).steps_per_s)
    product_ns = round((statistics.median(alone) - machine.step_ns) / PRODUCTS)
    machine = replace(machine, spread=(), product_ns=product_ns)
    print(f"a product: {product_ns / 1e6:.2f} ms, a hop: {machine.hop_ns / 1e3:.0f} us\n")
    ours = {
        name: gradients(training) * simulated(training, steps, machine).steps_per_s
        for name, training in MULTIPLYING.items()
    }
    print("| training | gradients/s, repeats | simulated |\n|---|---|---|")
    for name, seen in found.items():
        print(f"| {name} | {' '.join(f'{one:.2f}' for one in sorted(seen))} | {ours[name]:.2f} |")
    apart = [(a, b) for a in found for b in found if max(found[a]) < min(found[b])]
    wrong = [(a, b) for a, b in apart if ours[a] >= ours[b]]
    pairs = len(found) * (len(found) - 1) // 2
    print(f"\n{len(apart)} of {pairs} pairs are told apart by the repeats, {len(apart) - len(wrong)} in our order.")
    for a, b in wrong:
        print(f"otherwise: {a} is slower than {b}")
    return not wrong


def measure_products() -> float:
    """Nanoseconds of a step of one worker that multiplies and is alone."""
    return statistics.median(_lengths(Training("async", (), products=(PRODUCTS,), side=SIDE)))


def gradients(training: Training) -> int:
    """Gradients in an update."""
    return 1 if training.alone else training.workers


if __name__ == "__main__":
    sys.exit(main())
