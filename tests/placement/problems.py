"""Small problems to place: graphs of abstract tasks with times by hand, and clusters with known links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from placement.problem import Problem, pose
from simulator.cluster.cluster import Cluster, Device, Link
from simulator.columns import flags, ids, ints
from simulator.costs.table import CostTable
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.placer.constraints import constrain
from tests.strategies import Rows

GIGABYTE = 10**9


def cluster_of(
    types: str,
    *,
    latency_ns: int = 0,
    bytes_per_s: int = GIGABYTE,
    memory: Sequence[int] | None = None,
    lanes: int = 1,
    shared: bool = False,
) -> Cluster:
    """One process with a device per letter ("c" CPU, "g" GPU) and a link of its own per ordered pair.

    At the default rate a byte takes one nanosecond. Each device is a kind of its own; `shared`: one link for all.
    """
    numbers = {"c": 0, "g": 0}
    devices = []
    for row, letter in enumerate(types):
        name = f"/job:localhost/replica:0/task:0/device:{'CPU' if letter == 'c' else 'GPU'}:{numbers[letter]}"
        numbers[letter] += 1
        room = 2**40 if memory is None else memory[row]
        kind = "CPU" if letter == "c" else "GPU"
        devices.append(Device(name, kind, f"kind{row}", room, 10**12, 10**12, 0, lanes, "here"))
    count = len(devices)
    pairs = [(s, t) for s in range(count) for t in range(count) if s != t]
    links = tuple(Link(f"{s}>{t}", latency_ns, bytes_per_s) for s, t in ([(0, 0)] if shared else pairs))
    place = {pair: 0 if shared else row for row, pair in enumerate(pairs)}
    routes = tuple(tuple((place[s, t],) if s != t else () for t in range(count)) for s in range(count))
    return Cluster(tuple(devices), links, routes, name=f"test of {types}")


def tasks(edges: Mapping[tuple[str, str], int | None], names: Sequence[str] = ()) -> Graph:
    """A graph of ops that TensorFlow does not know, so that any device runs them, with an output of its own per edge.

    The value of an edge is the output's size in bytes; None makes a control edge. Nodes come in the given order, else
    in order of first mention.
    """
    order = list(names) or list(dict.fromkeys(name for edge in edges for name in edge))
    rows = Rows()
    sizes_of: dict[str, list[int]] = {name: [] for name in order}
    for (source, _), nbytes in edges.items():
        if nbytes is not None:
            sizes_of[source].append(nbytes)
    taken = dict.fromkeys(order, 0)
    inputs: dict[str, list[str]] = {name: [] for name in order}
    for (source, target), nbytes in edges.items():
        if nbytes is not None:
            inputs[target].append(f"{source}:{taken[source]}")
            taken[source] += 1
    for (source, target), nbytes in edges.items():
        if nbytes is None:
            inputs[target].append(f"^{source}")
    for name in order:
        rows.add(name, "Task", inputs[name])
    graph = rows.built()
    sizes = [sizes_of[graph.names[node]][port] for node, port in zip(graph.tensor_node, graph.tensor_port, strict=True)]
    return replace(graph, tensor_bytes=ints(sizes))


def costs_of(cluster: Cluster, run_ns: Sequence[Sequence[int]], resident: Sequence[int] | None = None) -> CostTable:
    """Costs from a time per node and device, for a cluster of `cluster_of`."""
    count = len(run_ns)
    nothing = ints([0] * count)
    return CostTable(
        cluster.kinds,
        np.array(run_ns, np.int64).reshape(count, len(cluster.kinds)),
        nothing,
        nothing if resident is None else ints(resident),
        ids([0] * count),
        nothing,
        nothing,
    )


def whole(graph: Graph) -> Step:
    """A step that runs every node."""
    return Step((), (), flags(np.ones(len(graph), bool)), "all of it")


def problem_of(
    graph: Graph,
    cluster: Cluster,
    costs: CostTable,
    *,
    soft: bool = True,
    options: SimulationOptions = SimulationOptions(),
) -> Problem:
    """The problem of a step that runs every node."""
    prepared = prepare(graph, whole(graph), cluster, costs, options)
    return pose(graph, prepared, cluster, constrain(graph, cluster, soft=soft))
