"""Instances of dnn-partitioning: layers or operators on accelerators with a memory limit, and on CPU cores.

Tarnawski, Phanishayee, Devanur, Mahajan, Nina Paravecino: "Efficient Algorithms for Device Placement of DNN Graph
Operators", NeurIPS 2020. The form is described at https://github.com/msr-fiddle/dnn-partitioning.

    the file              here
    node                  an op "Layer" or "BackwardLayer"; `cpuLatency` and `fpgaLatency` in milliseconds are its times
    size                  resident bytes, on whatever device
    colorClass            `_class`, beside the first node of that class
    supportedOnFpga: 0    the request "/device:CPU:*"
    maxFPGAs              GPUs of `maxSizePerFPGA` bytes, each with a link in and a link out
    maxCPUs               lanes of one CPU device; with 0 all nodes request "/device:GPU:*"
    cost of an edge       the time of its source's output on such a link; between two accelerators twice that time

The cost is a time and not a size. So the links have some round rate, and a tensor as many bytes as take that time. The
memory of an accelerator is larger than its limit by the sum of these bytes, so that they fill nothing.

Any: a value of JSON, narrowed where it is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from simulator import limits
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster, Device, Link
from simulator.cluster.devicespec import LOCAL_TASK
from simulator.columns import ints
from simulator.errors import GraphError
from simulator.instances.fields import listed, mapping, number, whole
from simulator.instances.instance import BOUNDLESS_BYTES, Instance, graph_of, node_names
from simulator.wording import counted

FORM = "dnn-partitioning instance"
_NS = 1_000_000  # of the file's unit of time, a millisecond
_MOST_TIME = 1e8  # a day, in that unit
_MOST_BYTES = 2.0**50
_RATES = (10**9, 10**8, 10**7, 10**6)  # bytes per second, the largest first
_SHARE = 100  # the sizes of tensors are together at most such a part of the limit, where a rate allows it


@dataclass(frozen=True, slots=True)
class _Node:
    """A node as it was read."""

    number: int
    wanted: object  # name, if any
    cpu: float
    accelerator: float
    size: int
    supported: bool
    backward: bool
    color: int | None


def is_dnn_partitioning(document: dict[str, Any]) -> bool:
    """Whether a JSON object is such an instance."""
    return "nodes" in document and "edges" in document and "maxFPGAs" in document


def read_dnn_partitioning(document: dict[str, Any], label: str) -> Instance:
    """The instance of a JSON object. Raises GraphError for one that is malformed."""
    nodes = [_node(entry, label) for entry in listed(document, "nodes", limits.INSTANCE_NODES, label)]
    if not nodes:
        raise GraphError(f"{label} is a {FORM} without nodes.")
    row_of = {node.number: row for row, node in enumerate(nodes)}
    if len(row_of) < len(nodes):
        twice = next(node.number for row, node in enumerate(nodes) if row_of[node.number] != row)
        raise GraphError(f"{label}: two nodes have the id {twice}.")
    accelerators = whole(document, "maxFPGAs", limits.INSTANCE_DEVICES.most, "the file", label)
    cpus = whole(document, "maxCPUs", 2**20, "the file", label, 0)
    if not accelerators and not cpus:
        raise GraphError(f"{label} has neither accelerators (maxFPGAs) nor CPUs (maxCPUs).")
    limit = int(number(document, "maxSizePerFPGA", _MOST_BYTES, "the file", label))
    edges, costs, notes = _edges(document, row_of, nodes, label)
    times = _Times(
        cpu=tuple(node.cpu for node in nodes),
        accelerator=tuple(node.accelerator for node in nodes),
        output=tuple(costs),
        edges=tuple(edges),
        size=tuple(node.size for node in nodes),
        limit=limit,
    )
    crossing_ns = [_nanos(cost) for cost in costs]
    rate = next((rate for rate in _RATES if sum(crossing_ns) * rate <= limit * 10**9 // _SHARE), _RATES[-1])
    sizes = [(time * rate + 10**9 // 2) // 10**9 for time in crossing_ns]
    names = node_names([node.wanted for node in nodes], [f"node{node.number}" for node in nodes])
    inputs: list[list[str]] = [[] for _ in nodes]
    for source, target in edges:
        inputs[target].append(names[source])
    graph = graph_of(
        names,
        ["BackwardLayer" if node.backward else "Layer" for node in nodes],
        [_requested(node, cpus, accelerators, label) for node in nodes],
        inputs,
        _classes(nodes, names),
        {(row, 0): size for row, size in enumerate(sizes)},
        label,
        [f"a {FORM}: its times are milliseconds, and tensors have the bytes that take their times", *notes],
    )
    numbers = [node.number for node in nodes]
    return Instance(
        form=FORM,
        graph=graph,
        cluster=_cluster(accelerators, cpus, limit + sum(sizes), rate),
        run_ns={
            "CPU": ints([_nanos(node.cpu) for node in nodes]),
            "GPU": ints([_nanos(node.accelerator) if node.supported else -1 for node in nodes]),
        },
        resident_bytes=ints([node.size for node in nodes]),
        only_there=True,
        written=lambda assignment: _written(times, numbers, accelerators, assignment),
    )


def _node(entry: Any, label: str) -> _Node:
    node = mapping(entry, "a node", label)
    at = whole(node, "id", 2**53, "a node", label)
    what = f"node {at}"
    color = node.get("colorClass")
    if color is not None and (isinstance(color, bool) or not isinstance(color, int)):
        raise GraphError(f"{label}: 'colorClass' of {what} is {repr(color)[:40]}; give a whole number.")
    return _Node(
        at,
        node.get("name"),
        number(node, "cpuLatency", _MOST_TIME, what, label),
        number(node, "fpgaLatency", _MOST_TIME, what, label),
        math.ceil(number(node, "size", _MOST_BYTES, what, label, 0)),
        _flag(node, "supportedOnFpga", what, label, default=True),
        _flag(node, "isBackwardNode", what, label, default=False),
        color,
    )


def _flag(node: dict[str, Any], key: str, what: str, label: str, *, default: bool) -> bool:
    found = node.get(key, default)
    if found not in (0, 1):
        raise GraphError(f"{label}: {key!r} of {what} is {repr(found)[:40]}; give true or false.")
    return bool(found)


def _edges(
    document: dict[str, Any], row_of: dict[int, int], nodes: Sequence[_Node], label: str
) -> tuple[list[tuple[int, int]], list[float], list[str]]:
    """Distinct edges as rows, the cost of each node's output, and what is assumed of outputs with several costs."""
    found: dict[tuple[int, int], None] = {}
    costs: dict[int, float] = {}
    several: set[int] = set()
    for entry in listed(document, "edges", limits.INSTANCE_EDGES, label):
        edge = mapping(entry, "an edge", label)
        ends = [whole(edge, key, 2**53, "an edge", label) for key in ("sourceId", "destId")]
        for end in ends:
            if end not in row_of:
                raise GraphError(f"{label}: an edge from {ends[0]} to {ends[1]}, but no node has the id {end}.")
        source, target = row_of[ends[0]], row_of[ends[1]]
        cost = number(edge, "cost", _MOST_TIME, f"the edge from {ends[0]} to {ends[1]}", label)
        if not math.isclose(costs.setdefault(source, cost), cost, rel_tol=1e-6, abs_tol=1e-6):
            several.add(source)
        costs[source] = max(costs[source], cost)
        found[source, target] = None
    notes = [f"{counted(len(several), 'output')} with several costs, of which the largest counts"] if several else []
    return list(found), [costs.get(row, 0.0) for row in range(len(nodes))], notes


def _requested(node: _Node, cpus: int, accelerators: int, label: str) -> str:
    if not node.supported and not cpus:
        raise GraphError(f"{label}: node {node.number} needs a CPU, and there is none (maxCPUs).")
    if not node.supported or not accelerators:
        return "/device:CPU:*"
    return "" if cpus else "/device:GPU:*"


def _classes(nodes: Sequence[_Node], names: Sequence[str]) -> list[str | None]:
    first: dict[int, int] = {}
    beside: list[str | None] = []
    for row, node in enumerate(nodes):
        head = row if node.color is None else first.setdefault(node.color, row)
        beside.append(None if head == row else names[head])
    return beside


def _nanos(time: float) -> int:
    return round(time * _NS)


def _cluster(accelerators: int, cpus: int, memory_bytes: int, rate: int) -> Cluster:
    """A CPU and accelerators; what goes between two of these crosses one link after the other, through host memory."""
    lanes = max(1, min(cpus, 4096))
    cpu = Device(f"{LOCAL_TASK}/device:CPU:0", "CPU", "cpu", BOUNDLESS_BYTES, 10**12, 10**11, 0, lanes, "host", 1)
    devices = [cpu]
    links = [Link("through host memory", 0, rate // 2, "none")]
    ways: list[tuple[int, int]] = [(-1, -1)]  # links out and in of each device
    for at in range(accelerators):
        name = f"{LOCAL_TASK}/device:GPU:{at}"
        devices.append(Device(name, "GPU", "accelerator", memory_bytes, 10**12, 10**11, 0, 1, "host"))
        ways.append((len(links), len(links) + 1))
        links += [Link(f"accelerator {at} out", 0, rate), Link(f"accelerator {at} in", 0, rate)]
    routes = [[_route(source, target, ways) for target in range(len(devices))] for source in range(len(devices))]
    said = f"{counted(accelerators, 'accelerator')} and {counted(cpus, 'CPU core')}, as the file describes them"
    return Cluster(tuple(devices), tuple(links), tuple(map(tuple, routes)), "its own machines", (said,))


def _route(source: int, target: int, ways: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    if source == target:
        return ()
    if not source:
        return (ways[target][1],)
    return (ways[source][0],) if not target else (ways[source][0], 0, ways[target][1])


def _written(times: _Times, numbers: Sequence[int], accelerators: int, assignment: Assignment) -> str:
    """The split, in the form of the published ones, with what both objectives of the paper give for it."""
    device = np.asarray(assignment.device)
    split = [[int(row) for row in np.flatnonzero(device == at)] for at in range(accelerators + 1)]
    of_cpu, *of_accelerators = loads(times, split)
    whole_latency = total_latency(times, split)
    written: dict[str, Any] = {
        "cpus": [{"load": of_cpu, "nodes": [numbers[row] for row in split[0]]}],
        "fpgas": [
            {"load": load, "nodes": [numbers[row] for row in rows]}
            for load, rows in zip(of_accelerators, split[1:], strict=True)
        ],
        "maxLoad": max(of_cpu, *of_accelerators) if of_accelerators else of_cpu,
    }
    if whole_latency is not None:  # an accelerator whose nodes are not contiguous has no such latency
        written["totalLatency"] = whole_latency
    over = [sum(times.size[row] for row in rows) - times.limit for rows in split[1:]]
    if any(lack > 0 for lack in over):  # the simulation had room for it, as its memory is a little larger
        written["oversize"] = [max(lack, 0) for lack in over]
    return json.dumps(written, indent=1) + "\n"


# --- the objectives of the paper, in the unit of the file -------------------------------------------------------------


# An accelerator fetches all that its nodes read from outside, runs them, and then puts out all that is read outside,
# one after the other. Any number of CPU nodes run at once. A simulation of the same split differs: an op starts as soon
# as its own inputs are there, and transfers go on beside ops.


@dataclass(frozen=True, slots=True)
class _Times:
    """The times of an instance. Rows are nodes."""

    cpu: tuple[float, ...]
    accelerator: tuple[float, ...]
    output: tuple[float, ...]  # between an accelerator and host memory
    edges: tuple[tuple[int, int], ...]
    size: tuple[int, ...]
    limit: int  # of an accelerator


def loads(times: _Times, split: Sequence[Sequence[int]]) -> list[float]:
    """The load of each device, the CPU first: of an accelerator ops and transfers, each output once in and once out."""
    owner = {row: device for device, rows in enumerate(split) for row in rows}
    enter = {(source, owner[target]) for source, target in times.edges if owner[source] != owner[target]}
    leave = {source for source, target in times.edges if owner[source] != owner[target]}
    found = [sum(times.cpu[row] for row in split[0])]
    for device, rows in enumerate(split[1:], 1):
        moved = sum(times.output[source] for source, target in sorted(enter) if target == device)
        moved += sum(times.output[row] for row in rows if row in leave)
        found.append(sum(times.accelerator[row] for row in rows) + moved)
    return found


def total_latency(times: _Times, split: Sequence[Sequence[int]]) -> float | None:
    """The latency of one sample, None where an accelerator would have to be called more than once."""
    calls = loads(times, split)
    unit_of: dict[int, int] = {row: -device for device, rows in enumerate(split[1:], 1) for row in rows}
    unit_of.update({row: row for row in split[0]})  # accelerators are -1, -2, ...
    takes = {unit: times.cpu[unit] if unit >= 0 else calls[-unit] for unit in set(unit_of.values())}
    before: dict[int, set[int]] = {unit: set() for unit in takes}
    for source, target in times.edges:
        start, end = unit_of[source], unit_of[target]
        if start != end:
            before[end].add(start)
    ends: dict[int, float] = {}
    try:
        for unit in TopologicalSorter(before).static_order():
            ends[unit] = takes[unit] + max((ends[other] for other in before[unit]), default=0.0)
    except CycleError:  # an accelerator would wait for itself
        return None
    return max(ends.values(), default=0.0)
