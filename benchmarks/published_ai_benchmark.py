"""Simulated steps beside those that AI Benchmark 0.1.2 measured on a V100 and an H100: graphs and times by others.

    pip download --no-deps ai-benchmark==0.1.2 && unzip ai_benchmark-0.1.2-py3-none-any.whl
    python benchmarks/published_ai_benchmark.py ai_benchmark

The package (Ignatov, Apache 2.0) has 16 networks of images as MetaGraphs. A training adds a sum of squares as loss, and
Adam. `published_ai_benchmark.csv` has the times of two public logs. One is of TensorFlow 2.18 and cuDNN 9.7 on a V100
with 16 GB at Google, in March 2025. The other has trainings alone, by TensorFlow 2.16 on an H100. Nothing was fitted to
them but the dispatch of the H100's host (docs/decisions, 0101). Steps are placed and run as by TensorFlow, as in
`published.py`, once as the MetaGraphs are and once as the installed TensorFlow's Grappler rewrites them for these GPUs
(`--grappler`). The V100 gets the log's cuDNN, the H100 has that of its model.

The measured times have more than the step. The client feeds float64, which the session converts to float32 first. By
the steps of ICNet, which hardly compute, that takes 5.4 ns a number on the first machine where the result has more than
32 MiB: malloc takes new pages for it each time. On the second machine it takes 2.1 ns. By Inception-v3's forward step
it takes 1.6 ns elsewhere on the first. So these four steps say nothing about the errors with the client.
"""

import argparse
import csv
import statistics
import sys
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any  # Any: what TensorFlow makes

from simulator import Cluster, load_cluster
from viz import run

try:
    import tensorflow as tf
except ModuleNotFoundError:
    sys.exit('TensorFlow is needed to make these graphs: pip install "simviz[tensorflow]"')

v1 = tf.compat.v1
FIELDS = Path(__file__).with_suffix(".csv")
NEW_PAGES = 32 << 20  # bytes from which a result has new pages
CUDNN = {"1v100-16gb": 9.7}  # where it is newer than the GPU
CONVERTED_NS = {"1v100-16gb": (1.6, 5.4), "1h100": (2.1, 2.1)}  # a number in old pages, and in new ones
TOLD_BY = {("1v100-16gb", "icnet"), ("1h100", "icnet"), ("1v100-16gb", "inception_v3 forward")}


def built(meta: Path, output: list[int]) -> Any:
    """The graph of a network, with a training where it has an output to learn."""
    with tf.Graph().as_default() as graph:
        v1.train.import_meta_graph(str(meta), clear_devices=True)
        if output:
            target = v1.placeholder(tf.float32, output, "learnt")
            loss = 2 * tf.nn.l2_loss(graph.get_tensor_by_name("output:0") - target)
            v1.train.AdamOptimizer(1e-4).minimize(loss, name="learn")
        return graph.as_graph_def(add_shapes=True)


@cache
def measured_on(name: str) -> Cluster:
    """The cluster of a log, with its library."""
    cluster = load_cluster(name)
    return replace(
        cluster,
        devices=tuple(
            replace(device, chip=replace(device.chip, cudnn=CUDNN.get(name, device.chip.cudnn)))
            if device.chip
            else device
            for device in cluster.devices
        ),
    )


def client_ms(count: int, cluster: str) -> float:
    """The conversion of so many fed numbers."""
    return count * CONVERTED_NS[cluster][4 * count > NEW_PAGES] / 1e6


def step_ms(graph: Any, cluster: str, feeds: dict[str, list[int]], fetch: str, *, grappler: bool) -> float:
    """The simulated step of a network."""
    found = run(
        graph,
        cluster=measured_on(cluster),
        algorithm="tensorflow",
        order="tensorflow",
        feeds=feeds,
        fetches=[fetch],
        grappler=grappler,
    )
    return found.trace.makespan / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="the folder of the unpacked package")
    package = parser.parse_args().package
    v1.disable_eager_execution()
    print("| cluster | network | step | input | measured, ms | client | as it is | error | by Grappler | error |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    plain: dict[tuple[str, bool], list[float]] = {}
    corrected: dict[tuple[str, bool], list[float]] = {}
    with FIELDS.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            sizes = [[int(side) for side in row[name].split("x") if side] for name in ("input", "output")]
            feeds = {"input:0": sizes[0]} | ({"learnt:0": sizes[1]} if sizes[1] else {})
            graph = built(package / "models" / f"{row['model']}.meta", sizes[1])
            measured, cluster = float(row["measured_ms"]), row["cluster"]
            client = sum(client_ms(prod(shape), cluster) for shape in feeds.values())
            names = row["model"], f"{row['model']} {row['kind']}"
            told = not TOLD_BY.isdisjoint((cluster, name) for name in names)
            line = f"| {cluster} | {row['model']} | {row['kind']} | {row['input']} | {measured} | {client:.1f} "
            for grappler in (False, True):
                simulated = step_ms(graph, cluster, feeds, "learn" if sizes[1] else "output:0", grappler=grappler)
                error = (simulated + client) / measured - 1
                plain.setdefault((cluster, grappler), []).append(abs(simulated / measured - 1))
                if not told:
                    corrected.setdefault((cluster, grappler), []).append(abs(error))
                line += f"| {simulated:.1f} | {error:+.0%} "
            print(f"{line}|", flush=True)
    for title, found in (("without the client", plain), ("with the client", corrected)):
        for (cluster, grappler), errors in found.items():
            near = sum(error <= 0.25 for error in errors)
            print(
                f"\n{cluster}, {'by Grappler' if grappler else 'as they are'}, {title}: "
                f"{statistics.median(errors):.1%} in the median, {max(errors):.0%} at worst, {near} of {len(errors)} "
                "within 25 %"
            )


if __name__ == "__main__":
    main()
