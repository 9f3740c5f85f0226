"""Steps with an enforced order and without it, on real processes beside simulated ones; writes rows for RESULTS.md.

    python benchmarks/enforcing.py [NAME ..] [--rounds N]

Each model is a training step. It runs on one of two processes first, which gives the times of its ops. By these it is
placed on both, and the placed graph runs there twice: as it is, and with the control edges of `--order enforced`.
Both take turns, and of the rounds the middle counts. A round starts its processes anew.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # where the children look for the models

from accuracy_models import MODELS, made
from memory_graphs import GRAPHS
from small_graphs import SMALL
from steps import built

from simulator.graph.graph_def import placed_graph_def
from simulator.oracle.placed_steps import RealSteps, real_cluster
from viz import Result, run
from viz.figures import fed_shapes

CLUSTER = "worker=2"
SECONDS = 8.0  # of a placement in one round
NAMES = (*MODELS, "clipped gradients", "wide dense layers, Adam", "transformer, Adam", "an autoencoder, Adam")


class Model(NamedTuple):
    """A training step without devices."""

    graph: bytes
    fetches: list[str]
    feeds: Mapping[str, tuple[int, ...]]


def model(name: str) -> Model:
    """The model of that name."""
    if name in MODELS:
        found = made([name])[name]
        return Model(found.graph, [found.fetch], {})
    assert name in GRAPHS or name in SMALL
    step = built(name)
    graph: bytes = step.graph.as_graph_def(add_shapes=True).SerializeToString()
    feeds = {str(name): value.shape for name, value in step.feeds.items()}
    return Model(graph, [one.name for one in step.fetches], feeds)


def real(result: Result) -> RealSteps:
    """Steps of a placement on real processes, with the control edges that it has."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "placed.pb"
        path.write_bytes(placed_graph_def(result.graph, result.assignment.placed_on, result.waits).SerializeToString())
        feeds = {name: shape for name, shape in fed_shapes(result).items() if shape is not None}
        again = run(path, cluster=CLUSTER, algorithm="requested", fetches=result.step.fetches, feeds=feeds)
        with real_cluster(again.graph, again.cluster, step=again.step, seconds=SECONDS) as steps:
            return steps(again.assignment.placed_on)


def measured(given: Model, asked: Mapping[str, Any], path: Path) -> None:
    """Write the times of the ops, where all of them run on the first process."""
    alone = run(given.graph, **asked, algorithm="tensorflow")
    lines = [f"{one.node},CPU,{one.ns}" for one in real(alone).measured.samples]
    path.write_text("\n".join(["node,kind,ns", *lines]), encoding="utf-8")


def row(name: str, rounds: int) -> str:
    """A row of the table: simulated and real, of one placement without and with the edges, and of another one.

    The other one was searched by TensorFlow's order.
    """
    given = model(name)
    asked: dict[str, Any] = {"cluster": CLUSTER, "fetches": given.fetches, "feeds": dict(given.feeds)}
    asked["ignore_devices"] = True
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times.csv"
        measured(given, asked, times)
        asked["costs"] = times
        held, searched = (run(given.graph, **asked, order=order) for order in ("enforced", "tensorflow"))
        pins = dict(zip(held.graph.names, held.assignment.placed_on, strict=True))
        free = run(given.graph, **asked, order="tensorflow", algorithm="requested", pins=pins)
    ways = (free, held, searched)
    took = [[real(one).step_ns for one in ways] for _ in range(rounds)]
    ours = [one.trace.makespan for one in ways]
    cells = [f"{ns / 1e6:.2f}" for ns in (*ours, *map(statistics.median, zip(*took, strict=True)))]
    return f"| {name} | {len(held.waits)} | {' | '.join(cells)} |"


def main(given: Sequence[str] | None = None) -> None:
    """Measure the named models, or all, and print a row for each as it is done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args(given)
    print("| | edges | simulated, ms: free | enforced | searched | real, ms: free | enforced | searched |")
    print("|---|---|---|---|---|---|---|---|")
    for name in asked.names or NAMES:
        print(row(name, asked.rounds), flush=True)


if __name__ == "__main__":
    main()
