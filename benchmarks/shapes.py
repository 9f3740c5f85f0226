"""Hold the shapes of random graphs against TensorFlow's, and time the inference; writes figures for RESULTS.md.

    python benchmarks/shapes.py [--graphs 2000] [--first 0]     random graphs, judged by TensorFlow and by their run
    python benchmarks/shapes.py --time FILE ...                 seconds of the inference of files, from no shapes at all

Each graph is inferred twice: with placeholders open as they are, and with all of them fed. "Less": tensors of which
TensorFlow knows more than we do; "other": of which it says something else; "untrue": that run in another shape.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # graphs are drawn among the tests

from simulator.graph.graph_def import graph_def
from simulator.loading import flat
from simulator.oracle import child
from simulator.shapes.propagation import infer
from tests.oracle.judging_shapes import Verdict, judged

BATCH = 100  # graphs to one process
TIMES = 5  # of which the fastest counts


def survey(graphs: int, first: int) -> int:
    """Judge the graphs; 1 if anything differs."""
    verdict, started = Verdict(), time.monotonic()
    for begin in range(first, first + graphs, BATCH):
        judged(range(begin, min(begin + BATCH, first + graphs)), verdict)
        done, rate = verdict.counts["graphs"], verdict.counts["graphs"] / (time.monotonic() - started)
        print(f"{done} graphs, {len(verdict.other)} other, {rate:.1f} a second", file=sys.stderr, flush=True)
    print(", ".join(f"{count:,} {name}" for name, count in sorted(verdict.counts.items())))
    print(f"{len(verdict.other)} other, {len(verdict.untrue)} untrue")
    print("less:", ", ".join(f"{count} {op}" for op, count in verdict.less.most_common(12)))
    for line in (*verdict.other[:20], *verdict.untrue[:20], *verdict.alone[:20]):
        print(line)
    return bool(verdict.other or verdict.untrue)


def clock(paths: list[str]) -> None:
    """Print the time of the inference of each file, and of TensorFlow's import, as processor time of the fastest."""
    for path in paths:
        graph = flat(path)
        nothing = [None] * len(graph.tensor_node)
        spent = []
        for _ in range(TIMES):
            started = time.process_time()
            infer(graph, {}, nothing, batch=8)
            spent.append(time.process_time() - started)
        per_node = min(spent) / len(graph) * 1e6
        message = graph_def(graph, devices=[""] * len(graph)).SerializeToString()
        peer = float(json.loads(child.run("tests.oracle.timing_import", message, timeout_s=300)))
        ratio = f"TensorFlow's import {peer * 1e3:.0f} ms, {peer / min(spent):.1f} x"
        print(f"{Path(path).name}: {len(graph)} nodes, {min(spent) * 1e3:.0f} ms, {per_node:.1f} us a node; {ratio}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Shapes of random graphs against the real TensorFlow.")
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    parser.add_argument("--time", nargs="+", metavar="FILE", help="time the inference of these files instead")
    asked = parser.parse_args()
    if asked.time:
        clock(asked.time)
        return 0
    return survey(asked.graphs, asked.first)


if __name__ == "__main__":
    sys.exit(main())
