"""Stages of a pipeline: contiguous parts of a training graph, of about equal work, between which little crosses.

    depth   0 ───────────────▶ n            forward ops, by the time of the longest path to them
            conv1  conv2 ┃ conv3  dense     each backward op is as deep as what it is the gradient of:
            ◀────  ◀──── ┃ ◀────  ◀────     as the variables whose gradient needs it, and the values that it reads

Forward ops are those before the first reader of some variable. So all edges between forward ops lead to the same or a
later stage. All edges between backward ops lead to the same or an earlier one.

The bounds are those of PipeDream's dynamic program: the slowest stage or link is as fast as possible. Among bounds that
are as fast but for a twentieth, those are taken over which the least crosses. Source: Narayanan, Harlap, Phanishayee et
al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP 2019, section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.columns import Floats, Ints
from simulator.graph.dataflow import readers, values_out
from simulator.graph.traversal import closure
from simulator.training.pipelines.microbatches import Division
from simulator.training.recognition.sharing import is_shared

_POINTS = 300  # places at which an order may be cut
_SLACK = 1.05
_SUM_PASSES = 3  # over a gradient: two are read, their sum is written


@dataclass(frozen=True, eq=False)
class Depths:
    """The depth of each op of the divided part, from 0 to `count` - 1."""

    count: int
    forward: frozenset[int]  # rows of copied forward ops
    of: Mapping[int, int]  # row of the tower -> depth
    variable: Mapping[int, int]  # row of a variable -> depth of its first reader


@dataclass(frozen=True, eq=False)
class Loads:
    """Work and bytes at each depth: of one microbatch, forward and backward."""

    run_ns: Floats  # [n, S] on the device of each stage
    kept_bytes: Floats  # [n] what forward ops make
    resident_bytes: Floats  # [n] variables and their slots
    crossing_bytes: Floats  # [n - 1] what crosses, both ways, if cut behind each depth


def depths(division: Division, run_ns: Sequence[int]) -> Depths:
    """Find the depths; `run_ns` [N] is the time of each node, by which forward ops are sorted."""
    graph, copied = division.graph, set(division.copied)
    read_by = _readers(division)
    order = [row for row in graph.topological.tolist() if row in copied]
    place = {row: at for at, row in enumerate(order)}
    first = {variable: min(rows, key=place.__getitem__) for variable, rows in read_by.items()}
    forward = closure(first.values(), lambda row: [at for at in graph.sources(row) if at in copied])
    start: dict[int, int] = {}
    for row in order:
        ends = [start[at] + max(run_ns[at], 0) for at in graph.sources(row) if at in forward] if row in forward else []
        start[row] = max(ends, default=0)
    sorted_rows = sorted(forward, key=lambda row: (start[row], place[row]))
    of = {row: depth for depth, row in enumerate(sorted_rows)}
    variable = {one: of[row] for one, row in first.items()}
    _backward(division, order, of, variable, read_by)
    _around(division, of)
    return Depths(len(sorted_rows), frozenset(forward), of, variable)


def _readers(division: Division) -> dict[int, set[int]]:
    """The copied ops that read each trained variable, through reads and casts that are not copied."""
    graph, copied = division.graph, set(division.copied)
    shares = [row for row in np.flatnonzero(division.found.step.runs).tolist() if is_shared(graph, row)]
    passing = {*division.tower, *shares} - copied
    found: dict[int, set[int]] = {}
    for variable in dict.fromkeys(one.variable for one in division.found.gradients):
        passed = closure([variable], lambda row: (at for at in readers(graph, row) if at in passing))
        rows = {at for row in passed for at in readers(graph, row)} & copied
        if rows:
            found[variable] = rows
    return found


def _backward(
    division: Division,
    order: Sequence[int],
    of: dict[int, int],
    variable: Mapping[int, int],
    read_by: Mapping[int, set[int]],
) -> None:
    """Add the depths of backward ops: the greatest of what they read forward and of what needs them."""
    graph, forward, copied = division.graph, frozenset(of), set(division.copied)
    least: dict[int, int] = {}
    for one, rows in read_by.items():
        for row in rows:
            least[row] = max(least.get(row, 0), variable[one])
    for gradient in division.found.gradients:
        row = int(graph.edge_src[gradient.values[0]])
        least[row] = max(least.get(row, 0), variable.get(gradient.variable, 0))
    for row in reversed(order):
        if row in forward:
            continue
        near = [of[at] for at in graph.sources(row) if at in forward]
        near += [of[at] for at in graph.edge_dst[graph.out_edges(row)].tolist() if at in copied and at not in forward]
        of[row] = max([*near, least.get(row, 0)])


def _around(division: Division, of: dict[int, int]) -> None:
    """Add the depths of nodes of the tower that are not copied: that of their first reader."""
    graph, inside = division.graph, set(division.tower)
    for row in reversed([row for row in graph.topological.tolist() if row in inside and row not in of]):
        near = [of[at] for at in graph.edge_dst[graph.out_edges(row)].tolist() if at in of]
        if near:
            of[row] = min(near)


def loads(
    division: Division,
    found: Depths,
    run_ns: Ints,
    resident: Sequence[int],
    bytes_per_ns: Sequence[float],
) -> Loads:
    """Find the work and bytes at each depth.

    `run_ns` [N, S] are times on each stage's device, `bytes_per_ns` [S] the speed of its memory, by which gradients are
    added up. `resident` [N] are the bytes that stay.
    """
    graph, n = division.graph, found.count
    copied = set(division.copied)
    rows = np.array(division.copied, np.int64)
    at = np.array([found.of[row] for row in division.copied], np.int64)
    work = np.zeros((n, run_ns.shape[1]))
    np.add.at(work, at, np.maximum(run_ns[rows], 0).astype(np.float64))
    kept, held, change = np.zeros(n), np.zeros(n), np.zeros(n + 1)
    for row in division.copied:
        own = found.of[row]
        for tensor in graph.outputs(row):
            size = max(int(graph.tensor_bytes[tensor]), 0)
            ends = [
                found.of[int(graph.edge_dst[edge])]
                for edge in values_out(graph, row)
                if graph.edge_tensor[edge] == tensor and int(graph.edge_dst[edge]) in copied
            ]
            kept[own] += size if row in found.forward and ends else 0
            change[min([own, *ends])] += size
            change[max([own, *ends])] -= size
    slots = division.found.slot_of
    for row in division.found.variables:
        depth = found.variable.get(row, found.variable.get(slots.get(row, -1), -1))
        if depth >= 0:
            held[depth] += resident[row]
        if row in found.variable:
            work[depth] += [_SUM_PASSES * resident[row] / pace for pace in bytes_per_ns]
    return Loads(work, kept, held, np.cumsum(change)[: n - 1])


# ---- bounds ---------------------------------------------------------------------------------------------------------


def bounds(
    loads: Loads, bytes_per_ns: Sequence[float], capacity: Sequence[int], in_flight: Sequence[int]
) -> tuple[int, ...]:
    """The first depth of each stage but the first.

    `bytes_per_ns` [S - 1] is the speed between neighbours, `capacity` [S] the memory of each stage's device, and
    `in_flight` [S] how many microbatches a stage holds. Memory counts where some bounds fit.
    """
    stages, n = loads.run_ns.shape[1], len(loads.run_ns)
    points = _points(loads.crossing_bytes, n)
    crossing = np.concatenate([[0.0], loads.crossing_bytes, [0.0]])[points]
    kept, held = _until(loads.kept_bytes)[points], _until(loads.resident_bytes)[points]
    for tight in (True, False):
        times = []
        for stage in range(stages):
            until = _until(loads.run_ns[:, stage])[points]
            time = until[None, :] - until[:, None]  # [a, b] of the depths from point a up to point b
            arrives = crossing / bytes_per_ns[stage - 1] if stage else np.zeros(len(points))
            time = np.maximum(time, arrives[:, None])
            most = in_flight[stage] * (kept[None, :] - kept[:, None]) + (held[None, :] - held[:, None])
            time[np.tril_indices(len(points))] = np.inf
            if tight:
                time[most > capacity[stage]] = np.inf
            times.append(time)
        slowest = _best(times, np.maximum, [np.zeros(len(points))] * stages)[0]
        if np.isfinite(slowest):
            break
    within = [np.where(time <= slowest * _SLACK, 0.0, np.inf) for time in times]
    _, chosen = _best(within, np.add, [np.zeros(len(points)), *([crossing] * (stages - 1))])
    return tuple(int(points[at]) for at in chosen)


def _best(
    times: Sequence[Floats], join: Callable[[Floats, Floats], Floats], entering: Sequence[Floats]
) -> tuple[float, list[int]]:
    """The least total of a chain of stages from the first point to the last, and the points between them."""
    total = np.full(len(times[0]), np.inf)
    total[0] = 0.0
    before = []
    for time, enter in zip(times, entering, strict=True):
        all_of = join((total + 0.0)[:, None], time + enter[:, None])
        before.append(all_of.argmin(axis=0))
        total = all_of.min(axis=0)
    at, chosen = len(total) - 1, []
    for taken in reversed(before[1:]):
        at = int(taken[at])
        chosen.append(at)
    return float(total[-1]), chosen[::-1]


def _until(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def _points(crossing: Floats, n: int) -> Ints:
    """Both ends, and of equal shares of the places between them that over which the least crosses."""
    inner: Ints = np.arange(1, n)
    if len(inner) > _POINTS:
        inner = np.array([share[crossing[share - 1].argmin()] for share in np.array_split(inner, _POINTS)], np.int64)
    return np.concatenate([[0], inner, [n]]).astype(np.int64)
