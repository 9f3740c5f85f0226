"""Hold simulated training against real clusters of local processes: tables for RESULTS.md.

    python benchmarks/training.py [--only WORD] [--computing] [--rounds N] [--calm SHARE]

Each training is made by TensorFlow (tests/oracle/training_graphs.py), run by real servers over loopback gRPC with one
thread for ops each, every process pinned to a core, and simulated from the same graphs. A worker's work is a sleep
within its step, in its own process, so that any number of them can be busy on two cores; the simulation is told how
long the sleeps are. With `--computing` it is products of matrices (training_computing.py).

All trainings take turns on one cluster, a stretch of updates each, some times. Before and after each stretch the
machine is asked what it adds, with one worker that nobody disturbs: what a hop between two tasks takes, as a step with
more of them tells; what client and master need between two steps, so that a step without any work takes as long
simulated as for real; how much longer than asked for a sleep is, and how that is spread, as noise; without noise equal
workers stay in step for ever. Workers that wait for nobody begin each stretch together, so they are simulated in
stretches of the same length, each with noise of its own. A stretch in which other processes took more than the share
`--calm` of the cores, or between whose ends a hop changed by more than half, is tried again and then left out; a row of
which too little is left says that and no figures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from training_cluster import Window, awaited, cluster, crews
from training_computing import COMPUTING, computing
from training_computing import ROUNDS as MANY
from training_probing import PROBES, UPDATES, calibrated, stretches

from simulator.training.answers.steady_state import rate
from simulator.training.training import COMPUTING as WORKED
from simulator.training.training import Training as Run
from tests.oracle.real_cluster import RealClient, RealStep
from tests.oracle.simulating import Machine, simulate
from tests.oracle.training_graphs import Training, shares, task

ROUNDS = 3  # windows of a row, more than half of which must be undisturbed
SEEDS = 36  # simulated windows of those who wait for nobody
AGAIN = 4  # times as many windows where all workers are alike: who overtakes whom in one is chance
CALM = 0.1  # what others may take of the cores
SLEEPING = {
    "async, 1 ps, 1 worker": Training("async", sleeps_s=(0.06,)),
    "async, 1 ps, 2 workers": Training("async", sleeps_s=(0.06, 0.06)),
    "async, 1 ps, 3 workers, one slow": Training("async", sleeps_s=(0.05, 0.06, 0.1)),
    "async, 2 ps, 2 workers, one slow": Training("async", sleeps_s=(0.04, 0.1), ps=2, variables=2),
    "async, 2 ps, 3 workers": Training("async", sleeps_s=(0.05, 0.06, 0.07), ps=2, variables=2),
    "ssp:bound=1, 2 workers, one slow": Training("ssp", sleeps_s=(0.04, 0.1), bound=1),
    "ssp:bound=3, 3 workers, one slow": Training("ssp", sleeps_s=(0.05, 0.06, 0.1), bound=3),
    "sync, 1 ps, 2 workers": Training("sync", sleeps_s=(0.06, 0.06)),
    "sync, 1 ps, 3 workers, one slow": Training("sync", sleeps_s=(0.05, 0.06, 0.1)),
    "sync, 2 ps, 2 workers, one slow": Training("sync", sleeps_s=(0.04, 0.1), ps=2, variables=2),
    "sync 2 of 3, the third slow": Training("sync", sleeps_s=(0.06, 0.06, 0.15), aggregate=2),
    "sync 1 of 2, one slow": Training("sync", sleeps_s=(0.05, 0.08), aggregate=1),
    "sync 4 of 2 workers": Training("sync", sleeps_s=(0.05, 0.08), aggregate=4),
    "in one graph, 2 towers": Training("in", sleeps_s=(0.06, 0.06)),
    "in one graph, 2 ps, 2 towers, one slow": Training("in", sleeps_s=(0.04, 0.1), ps=2, variables=2),
    "in one graph, 3 towers, one slow": Training("in", sleeps_s=(0.05, 0.06, 0.1)),
    "one client, 2 towers apart": Training("towers", sleeps_s=(0.06, 0.08)),
    "one client, 3 towers apart": Training("towers", sleeps_s=(0.05, 0.06, 0.1)),
}


@dataclass(frozen=True)
class Seen:
    """The course of a training, measured or simulated."""

    steps_per_s: float
    staleness: float | None  # mean updates by others between read and update of a worker; None: nobody can be late
    # by the length of the sleep, as equal workers share tokens by chance: the share of the steps that such workers wait
    # for a token, or of all time that they may not begin one yet, or, in one graph, that they are idle
    waiting: Mapping[float, float]
    dropped: float | None  # share of the gradients that come too late


def sleeping(trainings: Mapping[str, Training], rounds: int, calm: float) -> bool:
    """Print the table; whether there are figures in each row."""
    everything = {**PROBES, **trainings}
    made = crews({**everything, **{f"{name} simulated": _plain(one) for name, one in trainings.items()}})
    cores = sorted(os.sched_getaffinity(0))
    pinned = {name: cores[row % len(cores)] for row, name in enumerate(_tasks(trainings))}
    with cluster(everything, made, pinned, calm=calm) as ask:
        found = stretches(_taking_turns(trainings), rounds, ask)
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    whole = True
    for name, training in trainings.items():
        said = [stretch.disturbed(calm) for stretch in found[name]]
        kept = [stretch for stretch, why in zip(found[name], said, strict=True) if not why]
        if 2 * len(kept) <= len(said):
            print(f"| {name} | disturbed: {'; '.join(filter(None, said))} |" + " |" * (len(HEADS) - 2))
            whole = False
            continue
        machine = calibrated(kept, made["idle"])
        measured = real(training, [stretch.window for stretch in kept])
        print(table(name, machine, measured, simulated(training, made[f"{name} simulated"], machine)))
    return whole


def _taking_turns(trainings: Mapping[str, Training]) -> list[str]:
    """Each in a round, some of them several times."""
    alike = {name for name, one in trainings.items() if one.alone and one.workers > len(set(one.sleeps_s)) == 1}
    return [name for time in range(AGAIN) for name in trainings if not time or name in alike]


def _plain(training: Training) -> Training:
    """Bounded staleness is simulated without the queues that keep the real workers to it."""
    return replace(training, how="async") if training.how == "ssp" else training


def _tasks(trainings: Mapping[str, Training]) -> list[str]:
    """Workers first, so that neighbours are on different cores."""
    named = {one for training in trainings.values() for one in training.tasks}
    return sorted(named, key=lambda one: ("ps" in one, one))


def real(training: Training, windows: Sequence[Window]) -> Seen:
    """The figures of all windows together, without the updates with which each begins."""
    rates, late, waited, used, pushed = [], [], [], 0, 0
    for window in windows:
        rates.append(1 / window.steps_per_s)
        begin, end = (window.updates[row].end_ns for row in (window.cut, -1))
        counted = [step for step in window.updates if step.end_ns > begin]
        late += [step.notes["after"] - step.notes["read"] - 1 for step in counted if training.alone]
        steps = [step for step in window.steps if step.end_ns > begin and "updates" not in step.client]
        waited += _waited(training, steps)
        if training.how == "sync":
            used += sum(sum(shares(step.notes["mean"], training.aggregate or training.workers)) for step in counted)
            pushed += sum(begin < step.notes["pushed"] < end for step in steps)
    return Seen(
        steps_per_s=1 / statistics.mean(rates),
        staleness=statistics.mean(late) if training.alone else None,
        waiting=by_sleep(training, waited),
        dropped=max(0.0, 1 - used / pushed) if training.how == "sync" else None,
    )


Wait = tuple[int, float, float]  # worker, nanoseconds that it waited, of so many


def _waited(training: Training, steps: Sequence[RealStep]) -> list[Wait]:
    """How long each step waited."""
    if training.how == "in":
        lengths = [step.end_ns - step.start_ns for step in steps]
        sleeps = enumerate(training.sleeps_s)
        return [(row, length - 1e9 * seconds, length) for row, seconds in sleeps for length in lengths]
    if training.how == "sync":
        return [(_worker(step), step.end_ns - step.notes["pushed"], step.end_ns - step.start_ns) for step in steps]
    if training.how == "ssp":
        return [(_worker(step), step.notes["began"] - step.start_ns, step.end_ns - step.start_ns) for step in steps]
    return []


def _worker(step: RealStep) -> int:
    return int(step.client.removeprefix("worker:"))


def by_sleep(training: Training, waits: Sequence[Wait]) -> dict[float, float]:
    """The share that workers with equal sleeps wait together."""
    found = {}
    for seconds in dict.fromkeys(training.sleeps_s):
        own = [(waited, of) for row, waited, of in waits if training.sleeps_s[row] == seconds]
        if own:
            found[seconds] = sum(waited for waited, _ in own) / sum(of for _, of in own)
    return found


def simulated(training: Training, asked: Sequence[RealClient], machine: Machine) -> Seen:
    """Who waits for nobody begins each window in step with the others, simulated, too; others go on where they were."""
    cut, windows = max(3, training.workers), training.how in ("async", "towers")
    runs = [
        simulate(training, asked, UPDATES if windows else UPDATES * ROUNDS, machine, seed)
        for seed in range(SEEDS if windows else 1)
    ]
    dropped = sum(run.dropped for run in runs)
    pushed = dropped + sum(int(run.update_gradients.sum()) for run in runs)
    late = [stale for run in runs for stale in run.update_staleness[cut:].tolist()]
    return Seen(
        steps_per_s=1 / statistics.mean(1 / (rate(run.update_ns, len(run.update_ns), cut) or 1.0) for run in runs),
        staleness=statistics.mean(late) if training.alone else None,
        waiting=by_sleep(training, [wait for run in runs for wait in _waits(training, run, machine.gap_ns)]),
        dropped=dropped / pushed if training.how == "sync" else None,
    )


def _waits(training: Training, run: Run, gap_ns: int) -> list[Wait]:
    workers = range(training.workers)
    if training.how == "in":
        rows = [run.tasks.index(task("worker", worker)) for worker in workers]
        return [(worker, run.end_ns - run.usage.task_ns[rows[worker], WORKED], run.end_ns) for worker in workers]
    found: list[Wait] = []
    for worker in workers if training.how in ("sync", "ssp") else ():
        own = run.step_client == worker
        start, end, waited = run.step_start_ns[own], run.step_end_ns[own], run.step_waiting_ns[own]
        if training.how == "ssp":  # from one step to the next
            found.append((worker, float((start[1:] - end[:-1] - gap_ns).sum()), float(end[-1] - start[0])))
        else:
            found.append((worker, float(waited.sum()), float((end - start).sum())))
    return found


HEADS = (
    "training",
    "a hop",
    "between",
    "steps/s",
    "simulated",
    "off",
    "staleness",
    "off",
    "waiting, by sleep",
    "dropped",
)


def table(name: str, machine: Machine, measured: Seen, ours: Seen) -> str:
    cells = [
        name,
        f"{machine.hop_ns / 1e3:.0f} us",
        f"{machine.gap_ns / 1e3:.0f} us",
        f"{measured.steps_per_s:.2f}",
        f"{ours.steps_per_s:.2f}",
        f"{ours.steps_per_s / measured.steps_per_s - 1:+.1%}",
        _two(measured.staleness, ours.staleness, "{:.2f}"),
        f"{ours.staleness / measured.staleness - 1:+.1%}" if measured.staleness and ours.staleness else "",
        "; ".join(
            f"{1e3 * seconds:.0f} ms: {share:.0%}, {ours.waiting[seconds]:.0%}"
            for seconds, share in measured.waiting.items()
        ),
        _two(measured.dropped, ours.dropped, "{:.0%}"),
    ]
    return "| " + " | ".join(cells) + " |"


def _two(measured: float | None, ours: float | None, form: str) -> str:
    return "" if measured is None or ours is None else f"{form.format(measured)}, {form.format(ours)}"


def main(arguments: Sequence[str] | None = None) -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--only", default="", help="trainings whose names hold this")
    asked.add_argument("--computing", action="store_true", help="products of matrices in place of sleeps")
    asked.add_argument("--calm", type=float, default=CALM, help="what others may take of the cores")
    asked.add_argument("--rounds", type=int, help=f"{ROUNDS}, or {MANY} where it computes")
    options = asked.parse_args(arguments)
    every, hold, rounds = (COMPUTING, computing, MANY) if options.computing else (SLEEPING, sleeping, ROUNDS)
    trainings = {name: training for name, training in every.items() if options.only in name}
    return 0 if awaited(options.calm) and hold(trainings, options.rounds or rounds, options.calm) else 1


if __name__ == "__main__":
    sys.exit(main())
