"""How often a rate's 95 % interval holds the truth: a table for RESULTS.md.

    python benchmarks/intervals.py [SEEDS]        40 seeds for each row, by default

Each row trains one configuration with many seeds. The truth is the rate of a run of 40 times as many steps, or, where
something comes once, the mean rate of equally long runs of 200 other seeds. Runs without noise differ by their seed in
the time between two steps; each has a truth of its own. Times at which things happen differ by the seed, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from simulator.execution.options import SimulationOptions

sys.path.insert(0, str(Path(__file__).parents[1]))

import simulator
from placement.sessions import clients
from simulator.training.answers.answers import Answers, answers
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.programs.distributed import distributed
from simulator.training.programs.program import estimate_each
from simulator.training.regimes import read_regime
from simulator.training.train import train
from simulator.training.training import Training

GRAPH = Path(__file__).parents[1] / "examples" / "ps_training.pbtxt"
LENGTHS = (20, 50, 200)
LONG = 40  # times as many steps for the truth
OTHERS = 200  # seeds for the truth of what comes once


@dataclass(frozen=True)
class Case:
    """A training; `{}` in a disturbance stands for a time in ms that the seed draws from 0 to `within_ms`."""

    name: str
    regime: str
    disturb: tuple[str, ...] = ()
    cluster: str = "ps=2,worker=4x1gpu"
    within_ms: int = 0
    varied: bool = False  # its gap is the seed's, and the truth its own

    @property
    def once(self) -> bool:
        """Whether something comes that comes no more."""
        return any("at=" in text for text in self.disturb)


CASES = (
    Case("async, lognormal noise 0.3", "async", ("worker:*=noise:lognormal:0.3",)),
    Case("async, lognormal noise 1 on all", "async", ("*=noise:lognormal:1.0",)),
    Case("async, a slow worker, exponential noise", "async", ("worker:1=slow:3", "worker:*=noise:exponential:0.5")),
    Case("sync, lognormal noise 0.3", "sync", ("worker:*=noise:lognormal:0.3",)),
    Case("sync, exponential noise", "sync", ("worker:*=noise:exponential",)),
    Case("sync with a backup, lognormal noise 0.5", "sync:aggregate=3", ("worker:*=noise:lognormal:0.5",)),
    Case("ssp:bound=1, exponential noise", "ssp:bound=1", ("worker:*=noise:exponential:0.5",)),
    Case("ssp:bound=4, a slow worker, noise", "ssp:bound=4", ("worker:1=slow:2", "worker:*=noise:lognormal:0.3")),
    Case("one worker, lognormal noise 0.5", "async", ("*=noise:lognormal:0.5",), "ps=2,worker=1x1gpu"),
    Case("async, pauses of a ps, noise", "async", ("ps:0=pause:every=150 ms,for=40 ms,phase={} ms",
         "worker:*=noise:lognormal:0.2"), within_ms=150),
    Case("async, pauses of a worker", "async", ("worker:1=pause:every=170 ms,for=60 ms,phase={} ms",), within_ms=170),
    Case("sync, rare pauses of a worker", "sync", ("worker:1=pause:every=900 ms,for=300 ms,phase={} ms",),
         within_ms=900),
    Case("async, a worker crashes, noise", "async", ("worker:1=crash:at={} ms,for=100 ms",
         "worker:*=noise:lognormal:0.3"), within_ms=400),
    Case("sync, a ps crashes, noise", "sync", ("ps:1=crash:at={} ms,for=80 ms,restore=50 ms",
         "worker:*=noise:lognormal:0.3"), within_ms=400),
    Case("async, alike workers", "async", varied=True),
    Case("async, workers of different speed", "async", ("worker:1=slow:2", "worker:2=slow:1.37"), varied=True),
    Case("sync, alike workers", "sync", varied=True),
    Case("sync with a backup, a slow worker", "sync:aggregate=3", ("worker:1=slow:4",), varied=True),
    Case("ssp:bound=2, a slow worker", "ssp:bound=2", ("worker:1=slow:3",), varied=True),
)  # fmt: skip


class Stage:
    """A case, ready to run."""

    def __init__(self, case: Case) -> None:
        self.case, self.cluster = case, simulator.load_cluster(case.cluster)
        self.regime = read_regime(case.regime)
        graph = simulator.load(GRAPH)
        self.programs = distributed(graph, self.cluster, regime=self.regime)
        self.costs = estimate_each(self.programs, self.cluster)
        self.clients = clients(self.programs, self.cluster, self.costs)

    def run(self, seed: int, steps: int) -> Training:
        """That many steps with what the seed draws."""
        drawn = Random(seed)
        said = [
            text.format(drawn.randrange(self.case.within_ms // 4, self.case.within_ms or 1))
            for text in self.case.disturb
        ]
        gap_ns = drawn.randrange(20_000_000) if self.case.varied else 0
        made_clients = [replace(one, program=replace(one.program, gap_ns=gap_ns)) for one in self.clients]
        return train(
            made_clients,
            self.cluster,
            self.costs,
            options=SimulationOptions(seed=seed, engine="compiled"),
            regime=self.regime,
            steps=steps,
            disturbances=[read_disturbance(text) for text in said],
            record=0,
        )

    def truth(self, seed: int, steps: int, known: dict[object, float]) -> float:
        """The rate that the interval should hold."""
        key: object = seed if self.case.varied else steps if self.case.once else None
        if key not in known:
            if self.case.once:
                known[key] = mean([rate_of(answers(self.run(10**6 + other, steps))) for other in range(OTHERS)])
            else:
                known[key] = rate_of(answers(self.run(10**6 if key is None else seed, LONG * max(LENGTHS))))
        return known[key]


def rate_of(found: Answers) -> float:
    assert found.steps_per_s is not None
    return found.steps_per_s


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def row(case: Case, seeds: int) -> None:
    """Of each length how many intervals hold the truth, of how many that there are, and how wide they are."""
    stage, known = Stage(case), dict[object, float]()
    cells = []
    for steps in LENGTHS:
        held, widths, none = 0, [], 0
        for seed in range(seeds):
            found = answers(stage.run(seed, steps))
            truth = stage.truth(seed, steps, known)
            if found.half_width is None:
                none += 1
                continue
            widths.append(found.half_width)
            held += abs(rate_of(found) - truth) <= found.half_width * rate_of(found) + 1e-9 * truth
        cells.append(f"{held} of {len(widths)}" + (f", ±{100 * mean(widths):.2g} %" if widths else ""))
    print(f"| {case.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    chosen = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print(f"| | {' | '.join(f'{steps} steps' for steps in LENGTHS)} |\n|---|{'---|' * len(LENGTHS)}")
    for one in CASES:
        row(one, chosen)
