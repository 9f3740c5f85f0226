"""Loading, the event loop, and the whole command in a fresh process, on ResNet-50 graphs: a table for RESULTS.md.

    python benchmarks/whole.py FOLDER      FOLDER holds the graphs of benchmarks/graphs.py; they are made when missing

Everything is timed in one run; each figure is the median of several, and loading is compared with protobuf's own
`text_format` (into the same messages) in turn, pair by pair.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from google.protobuf import text_format

from placement import place
from simulator import choose_step, estimate, load_cluster, read_graph
from simulator.execution.engine import run
from simulator.execution.tables import of_step
from simulator.graph.graph import Graph
from simulator.graph.messages import GraphDef

REPEATS = 5
STEMS = ("resnet50_1", "resnet50_3", "resnet50_8")


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def loading(folder: Path, stem: str) -> list[float]:
    """Seconds for pb, pbtxt and text_format, medians of runs in turn."""
    text = (folder / f"{stem}.pbtxt").read_text(encoding="utf-8")
    runs = [
        (
            seconds(lambda: read_graph(folder / f"{stem}.pb")),
            seconds(lambda: read_graph(folder / f"{stem}.pbtxt")),
            seconds(lambda: text_format.Parse(text, GraphDef())),
        )
        for _ in range(3)
    ]
    return [statistics.median(column) for column in zip(*runs, strict=True)]


def loop(graph: Graph) -> float:
    """Events per second of the event loop on the placed step; an event is the end of an op or of a transfer."""
    step, cluster = choose_step(graph), load_cluster("8gpu")
    costs = estimate(graph, cluster)
    placed = place(graph, cluster, costs, step=step, algorithm="whitepaper")
    tables = of_step(graph, step, cluster, costs)
    device = tables.placed(placed.device)
    events = len(tables) + len(run(tables, device).transfers)
    return events / statistics.median(seconds(lambda: run(tables, device)) for _ in range(REPEATS))


def command(*arguments: str) -> float:
    """Median seconds of the command in a fresh process, after one run that is not counted."""
    with tempfile.TemporaryDirectory() as scratch:
        line = [sys.executable, "-m", "viz", *arguments]
        runs = [
            seconds(lambda: subprocess.run(line, check=True, cwd=scratch, capture_output=True))
            for _ in range(REPEATS + 1)
        ]
    return statistics.median(runs[1:])


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, str(Path(__file__).with_name("graphs.py")), str(folder)], check=True)
    print(
        "| graph | nodes | load pb | load pbtxt | nodes/s | text_format alone | ratio | events/s | simviz pb | pbtxt |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for stem in STEMS:
        graph = read_graph(folder / f"{stem}.pb")
        nodes = len(graph)
        pb, pbtxt, peer = loading(folder, stem)
        whole = [command(str(folder / f"{stem}.{suffix}")) for suffix in ("pb", "pbtxt")]
        print(
            f"| {stem} | {nodes} | {pb:.3f} s | {pbtxt:.3f} s | {nodes / pbtxt:,.0f} | {peer:.2f} s "
            f"| {peer / pbtxt:.1f} x | {loop(graph):,.0f} | {whole[0]:.2f} s | {whole[1]:.2f} s |",
            flush=True,
        )
    print(f"\n`simviz --help`: {command('--help'):.3f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
