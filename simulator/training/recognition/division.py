"""Work that a graph divides by itself: among devices that its strings name, or among towers that it holds.

    gpu:0  tower 0 ─▶ gradients ─┐
    gpu:1  tower 1 ─▶ gradients ─┴─▶ mean ─▶ Apply          layer 0 (gpu:0) ─▶ layer 1 (gpu:1) ─▶ ..

Such a graph is a whole already: a copy of it would hold several models, or need several devices. Towers are told by
what hangs together. Nothing that works on both examples and variables belongs to two towers, for they meet only where
their gradients do. A network whose weights are used several times, as a cell that is unrolled, meets in its loss.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cluster.devicespec import DeviceSpec, parse
from simulator.columns import Flags, flags
from simulator.graph.graph import Graph
from simulator.graph.step.fanin import fan_in
from simulator.training.recognition.anatomy import Anatomy
from simulator.training.recognition.batch import SUMS
from simulator.training.recognition.clipping import as_computed
from simulator.training.recognition.plain_updates import on_examples
from simulator.wording import counted, some

# What averages gradients, or hands them on, on their way from the towers to an update.
_JOINS = SUMS | frozenset(
    """
    Cast Div DivNoNan ExpandDims Identity IdentityN Mean Mul Neg RealDiv Reshape Split SplitV Squeeze StopGradient
    Sum Unpack
    """.split()  # noqa: SIM905  # a list of quoted names would be twice as long
)
# Scopes of TensorFlow's multi-GPU CIFAR-10 and tf_cnn_benchmarks (tower_0), tf.distribute (replica_1), and TF-Slim's
# model_deploy (clone_0).
_SCOPE = re.compile(r"(?:^|/)(tower|replica|clone)_(\d+)(?:/|$)")
_ABOUT = 2  # times as many nodes as another tower: one of them also regularises, or writes summaries


@dataclass(frozen=True, slots=True)
class Division:
    """Among how many devices and towers a graph divides the work of a step."""

    devices: tuple[DeviceSpec, ...]  # those of one type that its strings name, if these are several; in order
    towers: int  # copies of the model whose gradients meet, 1: none

    def __bool__(self) -> bool:
        return bool(self.devices) or self.towers > 1

    def __str__(self) -> str:
        said = []
        if self.devices:
            said.append(f"names {some([str(one).removeprefix('/device:') for one in self.devices])} itself")
        if self.towers > 1:
            said.append(f"holds {counted(self.towers, 'tower')}")
        return " and ".join(said)


def division(graph: Graph, found: Anatomy) -> Division:
    """How the graph of a training divides its step; `found` is its anatomy.

    A CPU beside one GPU is no second device: variables and input pipelines stand there as a rule. Towers are counted
    as `tower_count` does.
    """
    return Division(devices_named(graph, found.step.runs), tower_count(graph, found))


def devices_named(graph: Graph, runs: Flags) -> tuple[DeviceSpec, ...]:
    """The devices of one type that the strings of the nodes that run name, if these are several; else none.

    Only type and number count, and of several types with several devices GPUs before CPUs.
    """
    texts = {graph.requested[row] for row in np.flatnonzero(runs).tolist()}
    specs = {DeviceSpec(type=spec.type, id=spec.id) for spec in map(parse, texts) if spec.type and spec.id is not None}
    for kind in sorted({str(spec.type) for spec in specs}, reverse=True):
        named = sorted(spec for spec in specs if spec.type == kind)
        if len(named) > 1:
            return tuple(named)
    return ()


def tower_count(graph: Graph, found: Anatomy) -> int:
    """How many copies of the model a graph holds whose gradients meet at one variable; 1 where it holds none.

    Copies are alike: they have as many ops of each kind. Where gradients meet in another way than by sums, scopes that
    are called `tower_0`, `tower_1`, .. count as towers if nothing leads into one of them from outside.
    """
    found = as_computed(graph, found)
    into = [edge for one in found.gradients for edge in one.all_values if graph.edge_tensor[edge] >= 0]
    mixed = _mixed(graph, found, into)
    return max(_by_structure(graph, found, mixed), _by_scopes(graph, mixed))


def _mixed(graph: Graph, found: Anatomy, into: Sequence[int]) -> Flags:
    """[N] what gradients need that depends on examples and on variables that are trained.

    Examples may lie in variables, too, as where a benchmark draws them once: in those that nothing trains.
    """
    needed = fan_in(graph, [int(graph.edge_src[edge]) for edge in into])
    learnt = {one.variable for one in found.gradients}
    by_learnt = _by_data(graph, learnt)
    for live in (np.frombuffer(on_examples(graph), np.bool_), _by_data(graph, set(found.variables) - learnt)):
        if (needed & by_learnt & live).any():
            return flags(needed & by_learnt & live)
    return flags(np.zeros(len(graph), np.bool_))


def _by_data(graph: Graph, sources: Iterable[int]) -> Flags:
    """[N] what depends on the values of the sources."""
    reached = np.zeros(len(graph), np.bool_)
    pending = sorted(sources)
    reached[pending] = True
    while pending:
        row = pending.pop()
        for edge in graph.out_edge[graph.out_ptr[row] : graph.out_ptr[row + 1]].tolist():
            reader = int(graph.edge_dst[edge])
            if graph.edge_tensor[edge] >= 0 and not reached[reader]:
                reached[reader] = True
                pending.append(reader)
    return flags(reached)


# ---- by structure ---------------------------------------------------------------------------------------------------


def _by_structure(graph: Graph, found: Anatomy, mixed: Flags) -> int:
    parts = [_parts(graph, one.values, mixed) for one in found.gradients]
    joins = set().union(*(between for between, _ in parts))
    home = _components(graph, [row for row in np.flatnonzero(mixed).tolist() if row not in joins])
    meeting: dict[int, set[int]] = {}  # variable -> components whose gradients it takes
    for one, (_, ends) in zip(found.gradients, parts, strict=True):
        meeting.setdefault(one.variable, set()).update(home[row] for row in ends)
    kinds: dict[int, Counter[str]] = {root: Counter() for root in home.values()}
    for row, root in home.items():
        kinds[root][graph.ops[row]] += 1
    alike = [roots for roots in meeting.values() if _are_alike([kinds[root] for root in roots])]
    return max((len(roots) for roots in alike), default=1)


def _are_alike(kinds: Sequence[Counter[str]]) -> bool:
    return all(one == kinds[0] for one in kinds)


def _parts(graph: Graph, gradient: int, mixed: Flags) -> tuple[set[int], set[int]]:
    """What joins the parts of a gradient, and the nodes at which these end."""
    pending, joins, ends = [int(graph.edge_src[gradient])], set[int](), set[int]()
    while pending:
        row = pending.pop()
        if row in joins or not mixed[row]:
            continue
        if graph.ops[row] not in _JOINS:
            ends.add(row)
            continue
        joins.add(row)
        into = range(graph.in_ptr[row], graph.in_ptr[row + 1])
        pending += [int(graph.edge_src[edge]) for edge in into if graph.edge_tensor[edge] >= 0]
    return joins, ends


def _components(graph: Graph, rows: Sequence[int]) -> dict[int, int]:
    """Node -> the first node of those with which it hangs together by values, among these."""
    above = {row: row for row in rows}

    def root(row: int) -> int:
        while above[row] != row:
            above[row] = above[above[row]]
            row = above[row]
        return row

    for row in rows:
        for edge in range(graph.in_ptr[row], graph.in_ptr[row + 1]):
            source = int(graph.edge_src[edge])
            if graph.edge_tensor[edge] >= 0 and source in above:
                one, other = sorted((root(row), root(source)))
                above[other] = one
    return {row: root(row) for row in rows}


# ---- by names -------------------------------------------------------------------------------------------------------


def _by_scopes(graph: Graph, mixed: Flags) -> int:
    """How many scopes are numbered as towers are, are about as large, and get nothing from one another."""
    scope = {row: found for row in np.flatnonzero(mixed).tolist() if (found := _SCOPE.search(graph.names[row]))}
    own = {row: (found[1], found[2]) for row, found in scope.items()}
    for row, name in own.items():
        for edge in range(graph.in_ptr[row], graph.in_ptr[row + 1]):
            source = int(graph.edge_src[edge])
            if graph.edge_tensor[edge] >= 0 and mixed[source] and own.get(source) != name:
                return 1
    sizes: dict[str, Counter[str]] = {}
    for word, number in own.values():
        sizes.setdefault(word, Counter())[number] += 1
    about = [counts for counts in sizes.values() if max(counts.values()) <= _ABOUT * min(counts.values())]
    return max(map(len, about), default=1)
