"""The faster of two trainings whose tasks compute: the real order beside the simulated one.

Of the trainings that are judged at most two processes are busy, each on a core of its own; with a ps beside two
workers three share two cores, which a cluster can't say, so these are only shown. All trainings take turns, round
after round, on one cluster; a pair is told apart where the middle halves of the rounds don't meet: the slower's upper
quartile is below the faster's lower one. What the simulation knows is measured in the same rounds, on one process or
with one worker: what products of each size take, how fast memory is, what a hop takes, what it works, and what a byte
works.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from training_cluster import Window, cluster, crews, quiet

from simulator.training.answers.steady_state import rate
from tests.oracle.real_cluster import RealClient
from tests.oracle.simulating import Machine, Shape, shape, simulate
from tests.oracle.training_graphs import Training, task

ROUNDS, WINDOW_S = 8, 0.4
ENOUGH_S = 240.0  # then no further round begins
LEAST, MOST = 10, 150  # updates in a window
WARM = 100  # steps of each client before: a new session takes every kernel to be expensive for about 90
KILO, MEGA = 2**10, 2**20
CORES = 2  # on which all processes are pinned
FACTORS = (1.1, 1.5, 2.0, math.inf)


def _async(*products: int, ps: int = 0, **rest: object) -> Training:
    return Training("async", (), products=products, ps=ps, **rest)  # type: ignore[arg-type]  # by name


# With ps=0 the first worker keeps the variables: who reads or writes them waits for its one thread, which computes.
COMPUTING = {
    "1 process": _async(8, side=384),
    "1 process, half the batch": _async(8, side=384, rows=192),
    "1 process, float64": _async(8, side=384, floats="float64"),
    "1 process, 4 MB": _async(8, side=384, elements=MEGA),
    "1 ps, 1 worker": _async(8, side=384, ps=1),
    "1 ps, 1 worker, half the batch": _async(8, side=384, rows=192, ps=1),
    "1 ps, 1 worker, little work": _async(1, side=384, ps=1),
    "1 ps, 1 worker, float64": _async(8, side=384, floats="float64", ps=1),
    "1 ps, 1 worker, 4 MB": _async(8, side=384, elements=MEGA, ps=1),
    "1 ps, 1 worker, 16 MB": _async(8, side=384, elements=4 * MEGA, ps=1),
    "1 ps, 1 worker, 16 x 4 KB": _async(8, side=384, variables=16, elements=KILO, ps=1),
    "1 ps, 1 worker, a chief updates": replace(_async(8, side=384, ps=1), how="sync"),
    "async, 1 ps, 2 workers": _async(8, 8, side=384, ps=1),
    "async, 1 ps, 2 workers, uneven": _async(4, 12, side=384, ps=1),
    "sync, 1 ps, 2 workers": replace(_async(8, 8, side=384, ps=1), how="sync"),
    "sync, 1 ps, 2 workers, uneven": replace(_async(4, 12, side=384, ps=1), how="sync"),
    "in one graph, 1 ps, 2 towers": replace(_async(8, 8, side=384, ps=1), how="in"),
    "async, 2 workers": _async(8, 8, side=384),
    "async, 2 workers, uneven": _async(4, 12, side=384),
    "async, 2 workers, 4 MB": _async(8, 8, side=384, elements=MEGA),
    "sync, 2 workers": replace(_async(8, 8, side=384), how="sync"),
    "sync, 2 workers, uneven": replace(_async(4, 12, side=384), how="sync"),
    "sync, 2 workers, 4 MB": replace(_async(8, 8, side=384, elements=MEGA), how="sync"),
    "in one graph, 2 towers": replace(_async(8, 8, side=384), how="in"),
    "in one graph, 2 towers, uneven": replace(_async(4, 12, side=384), how="in"),
    "in one graph, 2 towers, 4 MB": replace(_async(8, 8, side=384, elements=MEGA), how="in"),
}
IDLE = {  # what everything but the products takes
    "memory": _async(0, side=1, elements=2 * MEGA),
    "hop": _async(0, side=1, ps=1),
    "work": _async(0, side=1, variables=32, ps=1),
    "byte": _async(0, side=1, elements=2 * MEGA, ps=1),
}
FEW = 2  # products whose time is taken off that of many


@dataclass(frozen=True)
class Pair:
    """Two trainings, the first the faster by the median of the rounds."""

    fast: str
    slow: str
    factor: float
    apart: bool  # by more than the spread of the rounds
    ours: float


def computing(trainings: Mapping[str, Training], count: int, calm: float) -> bool:
    """Print the tables; whether all pairs that the rounds tell apart come in the simulated order."""
    shapes = {shape(training): training for training in trainings.values()}
    probes = {**IDLE, **{_probe(one, n): _multiplying(one, n) for one in shapes for n in (FEW, 5 * FEW)}}
    everything = {**probes, **trainings}
    cores = sorted(os.sched_getaffinity(0))
    pinned = {task("ps", 0): cores[0], task("worker", 0): cores[-1], task("worker", 1): cores[0]}
    seen: dict[str, list[Window]] = {name: [] for name in everything}
    made = crews(everything)
    with cluster(everything, made, pinned, calm=calm) as ask:
        updates = {
            name: _updates(ask(name, WARM * (one.workers if one.alone else 1))) for name, one in everything.items()
        }
        began = time.monotonic()
        while len(seen["hop"]) < count and time.monotonic() < began + ENOUGH_S:
            for name, windows in seen.items():
                windows.append(ask(name, updates[name]))
    count, took_s = len(seen["hop"]), time.monotonic() - began
    kept = {name: quiet(windows, calm) for name, windows in seen.items()}
    lost = sum(len(windows) - len(kept[name]) for name, windows in seen.items())
    print(
        f"{count} rounds took {took_s:.0f} s. In {lost} of {count * len(seen)} windows others took more than {calm:.0%}"
        " of the cores; they are left out."
    )
    if min(map(len, kept.values())) < max(2, -(-count // 2)):
        print("Too few are left: the machine is too busy to say anything. Try again, or allow --calm more.")
        return False
    alone = {name: 1e9 / statistics.median(w.steps_per_s for w in kept[name]) for name in probes}
    machine = fitted(alone, made, shapes)
    products = ", ".join(f"{'x'.join(map(str, one))} {ns / 1e6:.2f} ms" for one, ns in machine.product_ns.items())
    print(
        f"Products: {products}. Memory: {machine.bytes_per_s / 1e9:.1f} GB/s. A hop: {machine.hop_ns / 1e3:.0f} us, of "
        f"which {machine.message_ns / 1e3:.0f} us is work, and {machine.byte_ps} ps per byte at each end.\n"
    )
    ours = {
        name: gradients(t) * simulated_per_s(t, made[name], updates[name], machine) for name, t in trainings.items()
    }
    rounds = {
        name: [gradients(t) * w.steps_per_s if w.others <= calm else math.nan for w in seen[name]]
        for name, t in trainings.items()
    }
    return report(rounds, ours, crowded=[name for name, one in trainings.items() if one.ps + one.workers > CORES])


def _updates(window: Window) -> int:
    return min(MOST, max(LEAST, round(WINDOW_S * window.steps_per_s)))


def _probe(one: Shape, products: int) -> str:
    return f"{products} products {one}"


def _multiplying(one: Shape, products: int) -> Training:
    rows, side, floats = one
    return _async(products, rows=rows, side=side, floats=floats)


def gradients(training: Training) -> int:
    """Gradients in an update."""
    return 1 if training.alone else training.workers


def simulated_per_s(training: Training, asked: Sequence[RealClient], updates: int, machine: Machine) -> float:
    """Updates per second."""
    run = simulate(training, asked, max(2 * updates, 20), machine)
    return rate(run.update_ns, len(run.update_ns), max(3, training.workers)) or 0.0


def fitted(
    step_ns: Mapping[str, float], made: Mapping[str, Sequence[RealClient]], shapes: Mapping[Shape, Training]
) -> Machine:
    """The factors that make simulated steps of one worker as long as measured ones, one figure after the other."""
    products = {one: round((step_ns[_probe(one, 5 * FEW)] - step_ns[_probe(one, FEW)]) / (4 * FEW)) for one in shapes}
    machine = Machine(0, product_ns={**products, (1, 1, "float32"): 0})

    def solved(name: str, change: Callable[[Machine, int], Machine], most: int) -> Machine:
        low, high = 0, most
        while high - low > max(1, low // 100):  # the longest that is not too long
            middle = (low + high) // 2
            run = simulate(IDLE[name], made[name], 12, change(machine, middle))
            took = 1e9 / (rate(run.update_ns, len(run.update_ns), 3) or math.inf)
            low, high = (middle, high) if took <= step_ns[name] else (low, middle)
        return change(machine, low)

    machine = solved("memory", lambda m, ps: replace(m, bytes_per_s=10**12 // max(1, ps)), 10_000)
    machine = solved("hop", lambda m, ns: replace(m, hop_ns=ns), 5_000_000)
    machine = solved("work", lambda m, ns: replace(m, message_ns=ns), machine.hop_ns)
    return solved("byte", lambda m, ps: replace(m, byte_ps=ps), 20_000)


def report(rounds: Mapping[str, Sequence[float]], ours: Mapping[str, float], crowded: Collection[str] = ()) -> bool:
    """Print what the rounds say, and which pairs they tell apart, without those that have more processes than cores."""
    medians = {name: statistics.median(_known(seen)) for name, seen in rounds.items()}
    print("| training | gradients/s | quartiles | simulated | off |\n|---|---|---|---|---|")
    for name in sorted(medians, key=medians.__getitem__):
        low, high = quartiles(rounds[name])
        off = ours[name] / medians[name] - 1
        shown = f"{name}{' *' * (name in crowded)}"
        print(f"| {shown} | {medians[name]:.1f} | {low:.1f} to {high:.1f} | {ours[name]:.1f} | {off:+.0%} |")
    if crowded:
        print(f"\n\\* More busy processes than the {CORES} cores: in none of the pairs below.")
    by_speed = sorted(rounds.keys() - set(crowded), key=lambda name: (medians[name], name))
    pairs = [_pair(slow, fast, rounds, medians, ours) for slow, fast in combinations(by_speed, 2)]
    apart = [pair for pair in pairs if pair.apart]
    print("\n| faster by | pairs | told apart | in our order |\n|---|---|---|---|")
    for low, high in zip((1.0, *FACTORS), FACTORS, strict=False):
        all_of = [pair for pair in pairs if low <= pair.factor < high]
        on_progress = [pair for pair in all_of if pair in apart]
        right = sum(pair.ours > 1 for pair in on_progress)
        until = f"up to {high:g}" if high < math.inf else f"more than {low:g}"
        print(f"| {until} | {len(all_of)} | {len(on_progress)} | {right} |")
    wrong = [pair for pair in apart if pair.ours <= 1]
    print(f"\n{len(apart)} of {len(pairs)} pairs are told apart, {len(apart) - len(wrong)} in our order.")
    for pair in wrong:
        print(f"otherwise: {pair.fast} is {pair.factor:.2f} times as fast as {pair.slow}, simulated {pair.ours:.2f}")
    return not wrong


def _known(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _pair(
    slow: str, fast: str, rounds: Mapping[str, Sequence[float]], medians: Mapping[str, float], ours: Mapping[str, float]
) -> Pair:
    apart = quartiles(rounds[slow])[1] < quartiles(rounds[fast])[0]
    return Pair(fast, slow, medians[fast] / medians[slow], apart, ours[fast] / ours[slow])


def quartiles(seen: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper one of the rounds that are known."""
    low, _, high = statistics.quantiles(_known(seen), n=4)
    return low, high
