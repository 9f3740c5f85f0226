"""Simulated steps beside times that others measured on GPUs: fitted, and of models and GPUs that nothing was fitted on.

    python benchmarks/published_graphs.py BUILT
    python benchmarks/published.py BUILT [--plot docs/published.svg]

The graphs are placed as TensorFlow places them (`--algorithm tensorflow`), and run in its executor's order (`--order
tensorflow`), with the chances of seed 0. `published.csv` has the measured times as milliseconds of a step, with source
and year. BUILT holds its graphs. Three kinds of rows are judged and not fitted: steps that wait for the input, by the
source's own tables ("input"), steps that XLA compiled, as the source says ("xla"), and rows that we found later
("judged").

`Constants` (simulator/cluster/chips.py) is fitted to the rows of one GPU: least squares of the logarithm of simulated
by measured, where an error beyond 15 % counts linearly. Each constant is held near its first guess, as weakly as by
half a row. The same is done without each model and without each GPU, and what was left out is predicted. A fit prices
the ops that the GPU runs by the simulator's own formulas. The other time of a step stays as the simulation had it.
"""

import argparse
import csv
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scatter import Point, scatter

from placement import place
from simulator import (
    Assignment,
    Cluster,
    CostTable,
    Graph,
    SimulationOptions,
    Step,
    choose_step,
    estimate,
    load,
    load_cluster,
    partition,
    simulate,
)  # fmt: skip
from simulator.cluster.chips import FITTED, Constants
from simulator.cluster.cluster import Device
from simulator.costs.estimate import works_of
from simulator.costs.roofline import OpWork, time_of
from simulator.graph.handing_on import handed_on
from simulator.graph.messages import GraphDef, Proto

FIELDS = Path(__file__).with_suffix(".csv")
APART = 1.1  # pairs of rows whose measured times differ by less are in no order
HUGE = 0.15  # errors beyond it count linearly
HELD = 0.5  # weight of a constant's distance from its guess, both as logarithms
GUESS = Constants(
    clock=0.5,
    statistics=0.7,
    convolutions=0.8,
    matrix_convolutions=0.55,
    addressing=0.75,
    transformed=1.0,
    direct=0.06,
    loading=0.3,
    feeding=0.2,
    dispatch_ns=12_000,
    library=0.85,
    enqueue_ns=5_000,
)
MOST = {"clock": 1.0, "statistics": 1.0, "convolutions": 1.0, "addressing": 1.0}
FREE = (
    "clock", "statistics", "convolutions", "matrix_convolutions", "addressing", "transformed", "direct",
    "loading", "feeding", "dispatch_ns", "library", "enqueue_ns",
)  # fmt: skip

CONVOLUTIONS = "convolutions"
FAMILIES = {"transformerxl": "attention", "vnet": "volumes", "neumf": "recommendation", "vaecf": "recommendation"}

Numbers = npt.NDArray[np.float64]


@dataclass
class Row:
    """One measured step, and what was simulated."""

    graph: str
    batch: int
    cluster: str
    measured_ms: float
    source: str
    note: str = ""  # why it is not fitted: "input" bounds it, "xla" compiled it, or it is "judged" by
    simulated_ms: float = 0.0  # by the simulator as it is
    bare_ms: float = 0.0  # by a roofline at the peaks of the data sheet
    rest_ms: float = 0.0  # of the simulated time, what the GPU's ops do not account for
    gpu: Device | None = None
    works: Sequence[tuple[OpWork, int]] = ()  # of the GPU's ops, and how many there are
    fitted_ms: float = 0.0
    without_model_ms: float = 0.0  # by a fit without its model
    without_gpu_ms: float = 0.0  # by a fit without its GPU

    @property
    def gpus(self) -> int:
        """Of training; a forward step takes one."""
        return 1 if "_forward_" in self.graph else int(self.graph.split("_")[1])

    @property
    def model(self) -> str:
        """ResNet-50 in both forms, in training and forward, is one model."""
        return self.graph.split("_")[0].removesuffix("v15")

    @property
    def family(self) -> str:
        """The kind of network."""
        return FAMILIES.get(self.model, CONVOLUTIONS)

    @property
    def gpu_name(self) -> str:
        """V100 with 16 and 32 GB are one GPU, and so is K80 with one or both at work."""
        name = self.cluster.removeprefix("dgx1-").lstrip("18")
        return name.split("-")[0] if name.startswith(("v100", "a100", "k80")) else name

    @property
    def kind(self) -> str:
        """The graph without its batch."""
        parts = self.graph.split("_")
        return "_".join(part for part in parts if part != str(self.batch) or part == parts[0])

    def ms_by(self, constants: Constants) -> float:
        """The time by other constants."""
        if self.gpu is None or self.gpu.chip is None:
            raise ValueError(f"{self.graph}: {self.cluster} has no GPU of known multiprocessors")
        device = replace(self.gpu, chip=replace(self.gpu.chip, constants=constants))
        return self.rest_ms + sum(count * time_of(work, device) for work, count in self.works) / 1e6


# --- simulation ------------------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """A graph, its step, and where TensorFlow puts it."""

    graph: Graph
    step: Step
    assignment: Assignment


def unjoined(path: Path) -> Proto:
    """The graph for a TensorFlow before 1.14, which joined no ReLU with a convolution and its bias.

    So were all networks here that have such ones measured. A control edge keeps Grappler from joining.
    """
    message = GraphDef.FromString(path.read_bytes())
    ops = {node.name: node.op for node in message.node}
    for node in message.node:
        if node.op == "Relu" and ops.get(node.input[0]) == "BiasAdd":
            node.input.append(f"^{node.input[0]}")
    return message


def placed_on(path: Path, cluster: Cluster) -> Placed:
    """Read a graph and place it, which asks for no speeds: GPUs of all models get the same."""
    graph = load(unjoined(path))
    step = choose_step(graph)
    return Placed(graph, step, place(graph, cluster, estimate(graph, cluster), algorithm="tensorflow", step=step))


def step_ms(placed: Placed, cluster: Cluster, costs: CostTable) -> float:
    """Milliseconds of a simulated step."""
    pieces = partition(placed.graph, placed.assignment, cluster, step=placed.step)
    return simulate(pieces, cluster, costs, SimulationOptions(order="tensorflow")).makespan / 1e6


def prepare(row: Row, placed: Placed) -> None:
    """Simulate the step, and take the GPU's ops out for the fit."""
    cluster, graph = load_cluster(row.cluster), placed.graph
    costs = estimate(graph, cluster)
    row.simulated_ms = step_ms(placed, cluster, costs)
    if row.gpus > 1:
        return
    bare = replace(cluster, devices=tuple(replace(device, chip=None) for device in cluster.devices))
    row.bare_ms = step_ms(placed, bare, estimate(graph, bare))
    (number,) = (number for number, device in enumerate(cluster.devices) if device.type == "GPU")
    row.gpu = gpu = cluster.devices[number]
    works, which = works_of(graph, handed_on(graph))
    times = [time_of(work, gpu) for work in works]
    column = costs.kinds.index(gpu.kind)
    # what is priced otherwise than by its work, such as a kernel in host memory, is left to the rest
    mine = [
        node
        for node in placed.step.runs.nonzero()[0].tolist()
        if placed.assignment.device[node] == number and costs.run_ns[node, column] == times[which[node]]
    ]
    counts = Counter(int(which[node]) for node in mine)
    row.works = [(works[work], count) for work, count in counts.items()]
    row.rest_ms = row.simulated_ms - float(costs.run_ns[mine, column].sum()) / 1e6


# --- fit -------------------------------------------------------------------------------------------------------------


class Fit(NamedTuple):
    """Constants, and the slopes of all rows' errors there."""

    constants: Constants
    slopes: Numbers  # [rows, free]


def errors(rows: Sequence[Row], constants: Constants) -> Numbers:
    """Logarithm of simulated by measured, per row."""
    return np.array([math.log(row.ms_by(constants) / row.measured_ms) for row in rows])


def values(constants: Constants) -> Numbers:
    return np.log([getattr(constants, name) for name in FREE])


def moved(constants: Constants, by: Numbers) -> Constants:
    """Constants that are larger by so many logarithms, within what they may be."""
    found = {}
    for name, step in zip(FREE, by, strict=True):
        value = min(getattr(constants, name) * math.exp(step), MOST.get(name, math.inf))
        found[name] = round(value) if name.endswith("_ns") else value
    return replace(constants, **found)


def shares(rows: Sequence[Row]) -> Numbers:
    """Weights of rows. The batches of one graph on one GPU come from one table, and weigh together as one row."""
    series = Counter((row.kind, row.cluster) for row in rows)
    return np.array([1 / series[row.kind, row.cluster] for row in rows])


def step_of(rows: Sequence[Row], found: Numbers, slopes: Numbers, constants: Constants) -> Numbers:
    """The next step of a fit, of weighted least squares."""
    weight = shares(rows) * np.minimum(1, HUGE / np.maximum(abs(found), 1e-9))
    held = HELD**2 * (values(constants) - values(GUESS))
    matrix = slopes.T @ (weight[:, None] * slopes) + HELD**2 * np.eye(len(FREE))
    step: Numbers = np.clip(-np.linalg.solve(matrix, slopes.T @ (weight * found) + held), -0.4, 0.4)
    return step


def loss(rows: Sequence[Row], found: Numbers, constants: Constants) -> float:
    """The error that a fit makes as small as it can."""
    size = abs(found)
    held = HELD * (values(constants) - values(GUESS))
    return float(shares(rows) @ np.where(size < HUGE, size**2, 2 * HUGE * size - HUGE**2) + held @ held)


def slopes_at(rows: Sequence[Row], constants: Constants, found: Numbers) -> Numbers:
    """The change of each row's error with each constant."""
    step, columns = 0.02, np.eye(len(FREE))
    # downwards, as some constants are at their upper end
    by_constant = [(found - errors(rows, moved(constants, -step * column))) / step for column in columns]
    slopes: Numbers = np.array(by_constant).T
    return slopes


def fit(rows: Sequence[Row], rounds: int = 6) -> Fit:
    """Fit the constants to all rows."""
    constants, best = GUESS, math.inf
    found = errors(rows, constants)
    slopes = slopes_at(rows, constants, found)
    for _ in range(rounds):
        best, step = loss(rows, found, constants), step_of(rows, found, slopes, constants)
        for _ in range(4):
            tried = moved(constants, step)
            at = errors(rows, tried)
            if loss(rows, at, tried) < best:
                break
            step /= 2
        else:
            break
        constants, found = tried, at
        slopes = slopes_at(rows, constants, found)
        if loss(rows, found, constants) > 0.999 * best:
            break
    return Fit(constants, slopes)


def fits_without(rows: Sequence[Row], group: Callable[[Row], str], whole: Fit) -> Iterator[tuple[Row, Constants]]:
    """Each row with the constants that are fitted without all rows of its group."""
    fitted = [row for row in rows if not row.note]
    for left in dict.fromkeys(map(group, rows)):
        constants = fit_without(fitted, [group(row) == left for row in fitted], whole)
        yield from ((row, constants) for row in rows if group(row) == left)


def fit_without(rows: Sequence[Row], left: Sequence[bool], whole: Fit) -> Constants:
    """Fit the constants to the other rows, from the guess and with the slopes of the whole fit."""
    kept = [number for number, out in enumerate(left) if not out]
    others, slopes = [rows[number] for number in kept], whole.slopes[kept]
    constants = GUESS
    found = errors(others, constants)
    for _ in range(12):
        before, step = loss(others, found, constants), step_of(others, found, slopes, constants)
        for _ in range(3):
            tried = moved(constants, step)
            at = errors(others, tried)
            if loss(others, at, tried) < before:
                break
            step /= 2
        else:
            break
        constants, found = tried, at
        if loss(others, found, constants) > 0.999 * before:
            break
    return constants


# --- report ----------------------------------------------------------------------------------------------------------


def summary(title: str, rows: Sequence[Row], taken: Callable[[Row], float]) -> str:
    off = sorted(abs(taken(row) / row.measured_ms - 1) for row in rows)
    pairs = [
        (a.measured_ms < b.measured_ms) == (taken(a) < taken(b))
        for a, b in combinations(rows, 2)
        if max(a.measured_ms, b.measured_ms) > APART * min(a.measured_ms, b.measured_ms)
    ]
    within = [sum(error <= bound for error in off) / len(off) for bound in (0.1, 0.25)]
    return (
        f"| {title} | {len(rows)} | {statistics.median(off):.1%} | {off[-1]:.1%} | {within[0]:.0%} | {within[1]:.0%} | "
        f"{sum(pairs) / max(1, len(pairs)):.1%} |"
    )


def signed(rows: Iterable[Row], taken: Callable[[Row], float]) -> str:
    return " ".join(f"{100 * (taken(row) / row.measured_ms - 1):+.0f}" for row in rows)


def table(rows: Sequence[Row]) -> str:
    """A line for each graph and GPU; errors in percent by batch."""
    lines = ["| graph | GPU | batch | measured, ms | fit of all | its model left out | its GPU left out |"]
    lines.append("|---|---|---|---|---|---|---|")
    for kind, cluster, source in dict.fromkeys((row.kind, row.cluster, row.source) for row in rows):
        mine = [row for row in rows if (row.kind, row.cluster, row.source) == (kind, cluster, source)]
        batches = " ".join(str(row.batch) for row in mine)
        times = " ".join(f"{row.measured_ms:.3g}" for row in mine)
        lines.append(
            f"| {kind} | {cluster[1:]} | {batches} | {times} | {signed(mine, lambda row: row.fitted_ms)} | "
            f"{signed(mine, lambda row: row.without_model_ms)} | {signed(mine, lambda row: row.without_gpu_ms)} |"
        )
    return "\n".join(lines)


def scaling(rows: Sequence[Row]) -> str:
    """Speed of eight GPUs by that of one, measured and simulated."""
    lines = ["| model | batch | GPU | measured | simulated | error |", "|---|---|---|---|---|---|"]
    for row in (row for row in rows if row.gpus > 1):
        of = (1, row.model, row.batch, row.gpu_name, row.source)
        one = next(r for r in rows if (r.gpus, r.model, r.batch, r.gpu_name, r.source) == of)
        true = row.gpus * one.measured_ms / row.measured_ms
        ours = row.gpus * one.simulated_ms / row.simulated_ms
        lines.append(f"| {row.kind} | {row.batch} | {row.cluster} | {true:.2f} | {ours:.2f} | {ours / true - 1:+.1%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="where the graphs are")
    parser.add_argument("--alone", action="store_true", help="leave out steps of several GPUs")
    parser.add_argument("--plot", type=Path, help="an SVG to write")
    options = parser.parse_args()
    rows, together = [], []
    graphs: dict[Path, Placed] = {}
    for row, path in found(options.folders):
        if row.gpus > 1:
            together.append((row, path))
            continue
        if path not in graphs:
            graphs[path] = placed_on(path, load_cluster(row.cluster))
        prepare(row, graphs[path])
        rows.append(row)
    whole = fit([row for row in rows if not row.note])
    for row in rows:
        row.fitted_ms = row.ms_by(whole.constants)
    for left, constants in fits_without(rows, lambda row: row.model, whole):
        left.without_model_ms = left.ms_by(constants)
    for left, constants in fits_without(rows, lambda row: row.gpu_name, whole):
        left.without_gpu_ms = left.ms_by(constants)
    report(rows, whole)
    if options.plot:
        options.plot.write_text(plot(rows), encoding="utf-8")
    if options.alone:
        return
    for row, path in together:
        prepare(row, placed_on(path, load_cluster(row.cluster)))
    print("\n" + scaling([*rows, *(row for row, _ in together)]))


def found(folders: Sequence[Path]) -> Iterator[tuple[Row, Path]]:
    """The rows of published.csv whose graphs are in one of the folders."""
    with FIELDS.open(encoding="utf-8") as file:
        for one in csv.DictReader(file):
            paths = [folder / f"{one['graph']}.pb" for folder in folders]
            path = next((path for path in paths if path.exists()), None)
            if path is None:
                print(f"{one['graph']}.pb is in no folder; its row is left out.", file=sys.stderr)
                continue
            measured = float(one["measured_ms"])
            yield Row(one["graph"], int(one["batch"]), one["cluster"], measured, one["source"], one["note"]), path


def report(rows: Sequence[Row], whole: Fit) -> None:
    """Print the constants, all rows, and what they come to."""
    print("| constant | shipped | fitted now |\n|---|---|---|")
    for name in FREE:
        print(f"| {name} | {getattr(FITTED, name)} | {getattr(whole.constants, name):.4g} |")
    print("\n" + table(rows) + "\n")
    print(
        "| rows | | median error | worst | within 10 % | within 25 % | pairs in order |\n|---|---|---|---|---|---|---|"
    )
    convolving = [row for row in rows if row.family == CONVOLUTIONS]
    free = [row for row in convolving if row.note not in ("input", "xla")]
    dense = [row for row in free if "resnext101" not in row.model]
    unseen = [row for row in free if row.note == "judged"]
    chosen_by = {
        "all": convolving,
        "not bound by input, nor by XLA": free,
        "nor with grouped convolutions": dense,
        "never fitted": unseen,
        **{f"of {family}": [row for row in rows if row.family == family] for family in FAMILIES.values()},
    }
    for title, chosen in ((title, chosen) for title, chosen in chosen_by.items() if chosen):
        print(summary(f"{title}, shipped constants", chosen, lambda row: row.simulated_ms))
        print(summary(f"{title}, fit of all", chosen, lambda row: row.fitted_ms))
        print(summary(f"{title}, model left out", chosen, lambda row: row.without_model_ms))
        print(summary(f"{title}, GPU left out", chosen, lambda row: row.without_gpu_ms))
        print(summary(f"{title}, roofline at peak", chosen, lambda row: row.bare_ms))


# --- plot ------------------------------------------------------------------------------------------------------------

COLOURS = {
    "training": "#1b6ca8",
    "forward": "#2a9d5c",
    "forward, float16": "#d1782f",
    "grouped convolutions": "#9a9a9a",
    "attention": "#8a4fbf",
    "volumes": "#b03a5b",
    "recommendation": "#6b6b00",
}
FIRST_MS, LAST_MS = 2.5, 8000


def plot(rows: Sequence[Row]) -> str:
    """Each row as a point: measured across, simulated with its GPU left out upwards, both logarithmic."""

    def kind(row: Row) -> str:
        if row.family != CONVOLUTIONS:
            return row.family
        if "resnext101" in row.model:
            return "grouped convolutions"
        return "training" if "forward" not in row.graph else "forward, float16" if "half" in row.graph else "forward"

    points = [Point(row.measured_ms, row.without_gpu_ms, kind(row)) for row in rows]
    upwards = "simulated, the GPU left out of the fit"
    return scatter(points, COLOURS, upwards=upwards, first_ms=FIRST_MS, last_ms=LAST_MS, within=0.25)


if __name__ == "__main__":
    main()
