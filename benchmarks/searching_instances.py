"""Problems made in Python for `searching.py`: random graphs on one and two hosts, and deep LSTMs.

Ops are abstract tasks with times by hand, so that nothing but the search is measured.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from placement.plan import Plan
from placement.problem import Problem, pose
from simulator import choose_step, estimate
from simulator.cluster.cluster import Cluster, Device, Link
from simulator.columns import ints
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.graph.graph import Graph
from simulator.placer.constraints import constrain
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.strategies import Rows

OPTIMA = Path(__file__).with_name("searching_optima.json")
_NIC, _NEAR = 250_000_000, 1_000_000_000  # bytes per second between hosts, and within one
_ROOM = 2**40
_LAYERS, _VALUE_BYTES, _WEIGHT_BYTES = 4, 128_000, 8_000_000  # of an LSTM with 512 units, for 64 sequences
# multiplication, gates, state, output; the same backwards
_TOOK_NS = {
    "w": 1000,
    "m": 60_000,
    "g": 10_000,
    "c": 10_000,
    "o": 10_000,
    "O": 10_000,
    "C": 20_000,
    "G": 20_000,
    "M": 120_000,
}


def posed(graph: Graph, cluster: Cluster, options: SimulationOptions = SimulationOptions()) -> Problem:
    """The problem of a real graph, with estimated costs."""
    prepared = prepare(graph, choose_step(graph), cluster, estimate(graph, cluster), options)
    return pose(graph, prepared, cluster, constrain(graph, cluster))


def optimal(family: str) -> dict[int, int]:
    """The proven optima, in nanoseconds, by seed: `searching_exact.py` writes them."""
    found: dict[str, dict[str, int]] = json.loads(OPTIMA.read_text())
    return {int(seed): ns for seed, ns in found[family].items()}


def layered(seed: int, options: SimulationOptions = SimulationOptions()) -> Problem:
    """A random graph of 30 to 60 ops on two to four devices of one process, a link for each ordered pair."""
    chance = np.random.default_rng(seed)
    cluster = cluster_of("g" * int(chance.integers(2, 5)), latency_ns=int(chance.integers(0, 2000)))
    return _random(chance, cluster, int(chance.integers(30, 61)), options)


def two_level(seed: int, options: SimulationOptions = SimulationOptions()) -> Problem:
    """A random graph of 30 to 60 ops on two hosts of two devices."""
    chance = np.random.default_rng(seed)
    return _random(chance, two_hosts(), int(chance.integers(30, 61)), options)


def unplaced(seed: int, count: int, options: SimulationOptions) -> Problem:
    """A random graph of so many ops on four devices, whose optimum nobody knows."""
    return _random(np.random.default_rng(seed), cluster_of("gggg", latency_ns=1000), count, options)


def two_hosts() -> Cluster:
    """Four devices, two on each host with links of their own; transfers between hosts share an adapter each way."""
    names = [f"/job:localhost/replica:0/task:0/device:GPU:{row}" for row in range(4)]
    devices = tuple(
        Device(name, "GPU", f"kind{row}", _ROOM, 10**12, 10**12, 0, 1, f"host{row // 2}")
        for row, name in enumerate(names)
    )
    near = [(0, 1), (1, 0), (2, 3), (3, 2)]
    links = tuple(
        [Link(f"{s}>{t}", 1000, _NEAR) for s, t in near] + [Link(f"nic {host}", 10_000, _NIC) for host in "01"]
    )
    routes = tuple(
        tuple(() if s == t else (near.index((s, t)),) if s // 2 == t // 2 else (len(near) + s // 2,) for t in range(4))
        for s in range(4)
    )
    return Cluster(devices, links, routes, name="two hosts of two GPUs")


def _random(chance: np.random.Generator, cluster: Cluster, count: int, options: SimulationOptions) -> Problem:
    """Ops in layers of random width, each with a few readers in later layers; devices may differ by a fifth."""
    width = int(chance.integers(2, 9)) * max(count // 60, 1)
    layer = np.sort(chance.integers(0, max(count // width, 2), count))
    mean_ns, ratio = 20_000, float(chance.choice([0.05, 0.2, 1.0, 3.0]))  # of the time of a transfer to that of an op
    edges: dict[tuple[str, str], int | None] = {}
    for target in range(count):
        before = np.flatnonzero(layer < layer[target])
        if len(before):
            near = before[-3 * width :]
            for source in chance.choice(near, min(len(near), int(chance.integers(1, 4))), replace=False).tolist():
                edges[f"n{source}", f"n{target}"] = int(chance.integers(1, int(2 * mean_ns * ratio)))
    run = chance.integers(mean_ns // 4, 2 * mean_ns, (count, 1)) * np.ones((1, len(cluster)), np.int64)
    if chance.random() < 0.5:
        run = run * chance.integers(80, 121, run.shape) // 100
    graph = tasks(edges, [f"n{at}" for at in range(count)])
    return problem_of(graph, cluster, costs_of(cluster, run.tolist()), options=options)


def lstm(steps: int, options: SimulationOptions, *, backward: bool, shuffled: bool) -> Problem:
    """Cells of four ops in a grid of layers and steps, on four GPUs.

    Each cell reads its layer's weights, its state of the step before, and the layer below; backwards the same edges
    turn round. `shuffled`: nodes have a random order and no names, so that nothing but edges shows the layers.
    """
    inputs: dict[str, list[str]] = {f"w{layer}": [] for layer in range(_LAYERS)}
    for layer, step in product(range(_LAYERS), range(steps)):
        before = [f"o{layer}_{step - 1}"] if step else []
        below = [f"o{layer - 1}_{step}"] if layer else []
        _chain(inputs, "mgco", f"{layer}_{step}", [f"w{layer}", *before, *below])
    for layer, step in product(reversed(range(_LAYERS)), reversed(range(steps))) if backward else ():
        after = [f"M{layer}_{step + 1}"] if step + 1 < steps else []
        above = [f"M{layer + 1}_{step}"] if layer + 1 < _LAYERS else []
        _chain(inputs, "OCGM", f"{layer}_{step}", [f"o{layer}_{step}", f"w{layer}", *after, *above])
    names = list(inputs)
    if shuffled:
        names = [names[at] for at in np.random.default_rng(0).permutation(len(names)).tolist()]
    rows = Rows()
    for name in names:
        rows.add(name, "Task", [f"{source}:0" for source in inputs[name]])
    graph = rows.built()
    sizes = [_WEIGHT_BYTES if graph.names[node][0] == "w" else _VALUE_BYTES for node in graph.tensor_node]
    cluster = cluster_of("gggg", latency_ns=5000, bytes_per_s=10**10)
    run = [[_TOOK_NS[name[0]]] * len(cluster) for name in names]
    resident = [_WEIGHT_BYTES if name[0] == "w" else 0 for name in names]
    problem_graph = replace(graph, tensor_bytes=ints(sizes))
    return problem_of(problem_graph, cluster, costs_of(cluster, run, resident), options=options)


def _chain(inputs: dict[str, list[str]], ops: str, at: str, first: list[str]) -> None:
    """Add the ops of a cell: one reads the other."""
    for op in ops:
        inputs[f"{op}{at}"] = first
        first = [f"{op}{at}"]


def layer_each(problem: Problem) -> Plan:
    """The plan that gives each layer of `lstm` a GPU."""
    device = [0] * len(problem.allowed)
    for node, name in enumerate(problem.graph.names):
        device[int(problem.constraints.group[node])] = int(name[1:].split("_")[0])
    return Plan(device)
