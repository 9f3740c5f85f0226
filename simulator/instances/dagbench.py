"""Instances of DAGBench: tasks with costs, dependencies with sizes, and a network of nodes with speeds.

The form is that of a problem in SAGA, which https://github.com/ANRGUSC/dag-bench uses for its `graph.json`. Source:
Coleman and Krishnamachari, "Comparing Task Graph Scheduling Algorithms: An Adversarial Approach", 2024.

    the file              here
    task                  an op "Task", which takes cost / speed seconds on a node
    dependency            a tensor of its own, which takes size / speed seconds on an edge of the network
    node                  a CPU device
    edge of the network   a link each way, without contention; two nodes without an edge reach each other nowhere

Any: a value of JSON, narrowed where it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from simulator import limits
from simulator.assignment import Assignment
from simulator.cluster.cluster import MAX_RATE, Cluster, Device, Link
from simulator.cluster.devicespec import LOCAL_TASK
from simulator.columns import ints
from simulator.errors import GraphError
from simulator.instances.fields import listed, mapping, number, text
from simulator.instances.instance import BOUNDLESS_BYTES, Instance, graph_of, node_names
from simulator.limits import Limit
from simulator.wording import counted

FORM = "DAGBench instance"
_MOST = 1e9  # of a cost, a size, a speed
_MOST_S = 86_400  # of a task
_BYTES = 10**6  # of a size of 1, and per second of a speed of 1


def is_dagbench(document: dict[str, Any]) -> bool:
    """Whether a JSON object is such an instance."""
    return isinstance(document.get("task_graph"), dict) and isinstance(document.get("network"), dict)


def read_dagbench(document: dict[str, Any], label: str) -> Instance:
    """The instance of a JSON object. Raises GraphError for one that is malformed."""
    tasks = _named(document["task_graph"], "tasks", "cost", limits.INSTANCE_NODES, label)
    nodes = _named(document["network"], "nodes", "speed", limits.INSTANCE_DEVICES, label)
    slow = next((name for name, speed in nodes.items() if not speed), None)
    if slow is not None:
        raise GraphError(f"{label}: node {slow!r} has the speed 0.")
    most = max(tasks.values()) / min(nodes.values())
    if most > _MOST_S:
        raise GraphError(f"{label}: a task would take {most:g} s, and none takes longer than a day.")
    rows = {name: row for row, name in enumerate(tasks)}
    names = node_names(list(tasks), [f"task{row}" for row in range(len(tasks))])
    inputs: list[list[str]] = [[] for _ in names]
    ports = [0] * len(names)
    sizes: dict[tuple[int, int], int] = {}
    for source, target, size in _edges(document["task_graph"], "dependencies", "size", rows, label):
        inputs[target].append(f"{names[source]}:{ports[source]}")
        sizes[source, ports[source]] = round(size * _BYTES)
        ports[source] += 1
    graph = graph_of(
        names,
        ["Task"] * len(names),
        [""] * len(names),
        inputs,
        [None] * len(names),
        sizes,
        label,
        [f"a {FORM}: its costs and sizes are seconds at a speed of 1, and sizes of 1 are {_BYTES:,} bytes"],
    )
    times = {
        f"node{at}": [round(cost / speed * 1e9) for cost in tasks.values()] for at, speed in enumerate(nodes.values())
    }
    return Instance(
        form=FORM,
        graph=graph,
        cluster=_cluster(document["network"], list(nodes), label),
        run_ns={kind: ints(column) for kind, column in times.items()},
        resident_bytes=ints([0] * len(names)),
        only_there=True,
        written=lambda assignment: _written(document.get("name"), list(tasks), list(nodes), assignment),
    )


def _named(holder: dict[str, Any], key: str, figure: str, limit: Limit, label: str) -> dict[str, float]:
    """Name -> figure of the entries of a list, of which there is one at least."""
    found: dict[str, float] = {}
    for entry in listed(holder, key, limit, label):
        one = mapping(entry, f"an entry of {key!r}", label)
        name = text(one, "name", f"an entry of {key!r}", label)
        if name in found:
            raise GraphError(f"{label}: two entries of {key!r} are called {name!r}.")
        found[name] = number(one, figure, _MOST, repr(name), label)
    if not found:
        raise GraphError(f"{label} is a {FORM} without {key}.")
    return found


def _edges(
    holder: dict[str, Any], key: str, figure: str, rows: Mapping[str, int], label: str
) -> list[tuple[int, int, float]]:
    """Rows of both ends and the figure of each edge; one from a node to itself is left out in a network."""
    found = []
    for entry in listed(holder, key, limits.INSTANCE_EDGES, label):
        edge = mapping(entry, f"an entry of {key!r}", label)
        ends = [text(edge, end, f"an entry of {key!r}", label) for end in ("source", "target")]
        for end in ends:
            if end not in rows:
                raise GraphError(f"{label}: an entry of {key!r} names {end!r}, which is not there.")
        if figure == "speed" and ends[0] == ends[1]:
            continue  # nothing crosses it, and SAGA writes null or infinity there
        size = number(edge, figure, _MOST, f"{ends[0]!r} to {ends[1]!r}", label)
        found.append((rows[ends[0]], rows[ends[1]], size))
    return found


def _cluster(network: dict[str, Any], names: Sequence[str], label: str) -> Cluster:
    rows = {name: row for row, name in enumerate(names)}
    devices = [
        Device(f"{LOCAL_TASK}/device:CPU:{at}", "CPU", f"node{at}", BOUNDLESS_BYTES, 10**12, 10**11, 0, host=name)
        for at, name in enumerate(names)
    ]
    routes: list[list[tuple[int, ...] | None]] = [
        [() if source == target else None for target in rows.values()] for source in rows.values()
    ]
    links: list[Link] = []
    for source, target, speed in _edges(network, "edges", "speed", rows, label):
        rate = min(round(speed * _BYTES), MAX_RATE)
        for start, end in ((source, target), (target, source)):
            if rate and routes[start][end] is None:
                routes[start][end] = (len(links),)
                links.append(Link(f"{names[start]} to {names[end]}", 0, rate, "none"))
    said = f"{counted(len(names), 'node')} of the file; transfers between two of them do not delay each other"
    return Cluster(tuple(devices), tuple(links), tuple(map(tuple, routes)), "its own machines", (said,))


def _written(name: object, tasks: Sequence[str], nodes: Sequence[str], assignment: Assignment) -> str:
    """The tasks of each node, in the order of the file. DAGBench has no form of its own for this."""
    placed: dict[str, list[str]] = {node: [] for node in nodes}
    for task, row in zip(tasks, assignment.device.tolist(), strict=True):
        placed[nodes[row]].append(task)
    return json.dumps({"name": name, "placement": placed}, indent=1) + "\n"
