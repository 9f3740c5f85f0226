"""Hold simulated steps of one process against real ones, by a profile of this machine; writes rows for RESULTS.md.

    simviz --calibrate host.toml
    python benchmarks/steps.py host.toml [NAME ..] [--rounds N] [--kept FILE]

A session of TensorFlow runs on one core, with one thread for ops and one for kernels, without Grappler, with oneDNN as
it is by default. It warms up first, as the executor learns which ops are quick. The lower quartile of a step's times
counts, less that of a step that only takes what is fed, and of the rounds the middle. `--kept` keeps the real times, to
which more rounds are added.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from memory_graphs import GRAPHS, v1
from small_graphs import SMALL

from simulator.execution.interval import interval
from simulator.oracle.session import configuration
from viz import run

STEPS = {**GRAPHS, **SMALL}
WARM_S, WARM_MOST, LEAST = 3.0, 120, 7  # steps before those that count; steps of any kind, at least
COUNTED_S, COUNTED_MOST = 2.0, 200
CLUSTER = '[[host]]\nname = "box"\ncpu = "cpu"\ncores = 1\n'


class Built(NamedTuple):
    """A graph and the step of it that runs."""

    graph: Any
    first: Any
    fetches: list[Any]
    feeds: dict[str, Any]
    taken: Any  # waits for what is fed


def built(name: str) -> Built:
    """Build a step. It fetches no tensors, as copies for the client are no part of it."""
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        fetches, feeds = STEPS[name]()
        first = v1.global_variables_initializer()
        taken = tf.group(*(tf.identity(graph.get_tensor_by_name(tensor)) for tensor in feeds))
    return Built(graph, first, [getattr(one, "op", one) for one in fetches], feeds, taken)


def real_ms(step: Built) -> float:
    """The lower quartile of the step's times, less that of a step that only takes what is fed."""
    config = configuration(soft=True)
    config.inter_op_parallelism_threads = config.intra_op_parallelism_threads = 1
    with v1.Session(graph=step.graph, config=config) as session:
        session.run(step.first)
        empty = _quartile_ms(session.make_callable(step.taken, list(step.feeds)), step, COUNTED_S / 4)
        whole = session.make_callable(step.fetches, list(step.feeds))
        _times(whole, step, WARM_S, WARM_MOST)
        return _quartile_ms(whole, step, COUNTED_S) - empty


def _quartile_ms(call: Any, step: Built, most_s: float) -> float:
    return 1e3 * statistics.quantiles(_times(call, step, most_s, COUNTED_MOST), n=4)[0]


def _times(call: Any, step: Built, most_s: float, most: int) -> list[float]:
    """Seconds of each of so many steps, or of those until the time is over."""
    took: list[float] = []
    deadline = time.perf_counter() + most_s
    while len(took) < LEAST or (len(took) < most and time.perf_counter() < deadline):
        begun = time.perf_counter()
        call(*step.feeds.values())
        took.append(time.perf_counter() - begun)
    return took


class Simulated(NamedTuple):
    """A makespan, and the interval that a profile gives it."""

    ms: float
    least_ms: float
    most_ms: float


def simulated(step: Built, cluster: Path, profile: str | None) -> Simulated:
    """The step by a profile, or by the data sheet of the default CPU."""
    found = run(
        step.graph.as_graph_def().SerializeToString(),
        cluster=str(cluster),
        algorithm="single",
        order="tensorflow",
        fetches=[one.name for one in step.fetches],
        feeds={tensor: value.shape for tensor, value in step.feeds.items()},
        profile=profile,
    )
    assert found.trace is not None
    between = interval(found.trace, found.partitions, found.cluster, found.costs)
    least, most = between or (found.trace.makespan, found.trace.makespan)
    return Simulated(found.trace.makespan / 1e6, least / 1e6, most / 1e6)


def main(given: Sequence[str] | None = None) -> None:
    """Print a row for each step, and how far off they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile")
    parser.add_argument(
        "names", nargs="*", help="of GRAPHS in memory_graphs.py and SMALL in small_graphs.py; none: all"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kept", type=Path)
    chosen = parser.parse_args(given)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])  # the threads of a session follow
    names = chosen.names or list(STEPS)
    kept: dict[str, list[float]] = {}
    if chosen.kept is not None and chosen.kept.exists():
        kept = json.loads(chosen.kept.read_text())
    for _ in range(chosen.rounds):
        for name in names:
            kept.setdefault(name, []).append(real_ms(built(name)))
            if chosen.kept is not None:
                chosen.kept.write_text(json.dumps(kept, indent=1))
    print("| step | real, ms | by the profile | ratio | interval | by the data sheet |\n|---|---|---|---|---|---|")
    ratios, inside = [], 0
    with tempfile.TemporaryDirectory() as folder:
        cluster = Path(folder) / "one.toml"
        cluster.write_text(CLUSTER)
        for name in names:
            step, real = built(name), statistics.median(kept[name])
            found, plain = (simulated(step, cluster, source) for source in (chosen.profile, None))
            ratios.append(found.ms / real)
            inside += found.least_ms <= real <= found.most_ms
            print(
                f"| {name} | {real:.2f} | {found.ms:.2f} | {ratios[-1]:.2f} | {found.least_ms:.2f} to "
                f"{found.most_ms:.2f} | {plain.ms:.2f} |",
                flush=True,
            )
    off = sorted(abs(ratio - 1) for ratio in ratios)
    within = [sum(one <= bound for one in off) for bound in (0.1, 0.25)]
    print(
        f"{len(off)} steps: {statistics.median(off):.1%} off in the median, {off[-1]:.1%} at worst, "
        f"{within[0]} within 10 %, {within[1]} within 25 %, {inside} in their intervals"
    )


if __name__ == "__main__":
    main()
