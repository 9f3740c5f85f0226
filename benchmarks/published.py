"""Simulated steps beside times that others measured on GPUs: a table for RESULTS.md.

    python benchmarks/published.py FOLDER      FOLDER holds the graphs that published.csv names, as NAME.pb

`published.csv` has the measured times: images per second of TensorFlow's benchmarks page (2017; TensorFlow 1.1, cuDNN
5.1), as milliseconds of a step, and latencies of NVIDIA's DeepLearningExamples (2020; TensorFlow 1.15, container 20.06,
without XLA). `fitted` says whether a row was seen while the figures of `Chip` were chosen. No row is independent: the
others have a GPU and a graph of rows that were seen. Beside each is the time
by a roofline at the peaks of the data sheet.
"""

import csv
import statistics
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from placement import place
from simulator import Cluster, choose_step, estimate, load_cluster, partition, read_graph, simulate

FIELDS = Path(__file__).with_suffix(".csv")
APART = 1.1  # pairs of rows whose measured times differ by less are in no order


class Row(NamedTuple):
    """One measured time, ours, and the roofline's."""

    name: str
    cluster: str
    measured_ms: float
    simulated_ms: float
    roofline_ms: float
    fitted: bool

    @property
    def error(self) -> float:
        """Less than 0: simulated too fast."""
        return self.simulated_ms / self.measured_ms - 1


def step_ms(path: Path, cluster: Cluster) -> float:
    graph = read_graph(path)
    step, costs = choose_step(graph), estimate(graph, cluster)
    placed = place(graph, cluster, costs, algorithm="tensorflow", step=step)
    return simulate(partition(graph, placed, cluster, step=step), cluster, costs).makespan / 1e6


def rows(folder: Path) -> list[Row]:
    found = []
    with FIELDS.open(encoding="utf-8") as file:
        for one in csv.DictReader(file):
            path = folder / f"{one['graph']}.pb"
            if not path.exists():
                print(f"{path.name} is not in {folder}; its rows are left out.", file=sys.stderr)
                continue
            cluster = load_cluster(one["cluster"])
            bare = replace(cluster, devices=tuple(replace(device, chip=None) for device in cluster.devices))
            times = (step_ms(path, cluster), step_ms(path, bare))
            found.append(
                Row(one["graph"], one["cluster"], float(one["measured_ms"]), *times, fitted=one["fitted"] == "yes")
            )
    return found


def summary(found: list[Row], title: str) -> str:
    errors = sorted(abs(row.error) for row in found)
    bare = sorted(abs(row.roofline_ms / row.measured_ms - 1) for row in found)
    pairs = [
        (a.measured_ms < b.measured_ms) == (a.simulated_ms < b.simulated_ms)
        for a, b in combinations(found, 2)
        if max(a.measured_ms, b.measured_ms) > APART * min(a.measured_ms, b.measured_ms)
    ]
    ours, theirs = (f"{statistics.median(column):.1%}, worst {column[-1]:.1%}" for column in (errors, bare))
    return (
        f"{title}, {len(found)} rows: median error {ours}; roofline at peak {theirs}; pairs in the right order "
        f"{sum(pairs)} of {len(pairs)}"
    )


def main() -> None:
    found = rows(Path(sys.argv[1]))
    print("| graph | cluster | measured, ms | simulated | error | roofline at peak | fitted |")
    print("|---|---|---|---|---|---|---|")
    for row in found:
        bare = row.roofline_ms / row.measured_ms - 1
        print(
            f"| {row.name} | {row.cluster} | {row.measured_ms:.1f} | {row.simulated_ms:.1f} | {row.error:+.1%} | "
            f"{bare:+.1%} | {'yes' if row.fitted else 'no'} |"
        )
    print()
    print(summary(found, "All"))
    for fitted in (True, False):
        print(summary([row for row in found if row.fitted == fitted], "Fitted" if fitted else "Not fitted"))


if __name__ == "__main__":
    main()
