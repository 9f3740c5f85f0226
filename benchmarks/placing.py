"""TensorFlow's placement and cut, as simviz makes them and as TensorFlow does: a table for RESULTS.md.

    python benchmarks/placing.py FOLDER      FOLDER holds the graphs of graphs.py; they are made when missing

Ours is plain Python, in a process that never imports TensorFlow: constraints, placer, and the cut in both flavours, of
a loaded graph with costs. TensorFlow's is one question to a process that has answered others before: handing the graph
over, placing and cutting it for a master before stand-in workers, and its answer. Medians of several, in turn.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from placement import place
from simulator import choose_step, estimate, load_cluster, partition, read_graph
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import conversation, dry_run, extended

T = TypeVar("T")
REPEATS = 5
STEMS = ("resnet50_1", "resnet50_3", "resnet50_8")
CLUSTER = "ps=2,worker=2x4gpu"


def timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def row(path: Path, asking: Asking) -> tuple[int, int, list[float]]:
    """Node count, then median seconds: placing, cutting as a session, as a master and its workers, TensorFlow's."""
    graph, cluster = read_graph(path), extended(load_cluster(CLUSTER))
    step, costs = choose_step(graph), estimate(graph, cluster)
    times = []
    for _ in range(REPEATS):
        placing, placed = timed(lambda: place(graph, cluster, costs, step=step, algorithm="tensorflow"))
        cut = partial(partition, graph, placed, cluster, step=step)
        cuts = [timed(partial(cut, flavour=flavour))[0] for flavour in ("local", "master")]
        theirs, seen = timed(lambda: dry_run(graph, cluster, step=step, asking=asking))
        same = [placed.name_of(node) == seen.placement[name] for node, name in enumerate(graph.names)]
        times.append((placing, *cuts, theirs))
    assert "tensorflow" not in sys.modules
    return len(graph), sum(same), [statistics.median(column) for column in zip(*times, strict=True)]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not all((folder / f"{stem}.pb").exists() for stem in STEMS):
        subprocess.run([sys.executable, str(Path(__file__).with_name("graphs.py")), str(folder)], check=True)
    print("| graph | nodes | placed alike | place | cut, session | cut, master | place + cut | TensorFlow | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    with conversation() as asking:
        for stem in STEMS:
            nodes, same, (placing, local, master, theirs) = row(folder / f"{stem}.pb", asking)
            print(
                f"| {stem} | {nodes} | {same} | {placing:.2f} s | {local:.2f} s | {master:.2f} s "
                f"| {placing + master:.2f} s | {theirs:.2f} s | {theirs / (placing + master):.1f} x |",
                flush=True,
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
