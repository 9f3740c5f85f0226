"""Graphs that divide their work themselves: among devices that their strings name, or among towers that they hold.

    gpu:0  tower 0 ─▶ gradients ─┐
    gpu:1  tower 1 ─▶ gradients ─┴─▶ mean ─▶ Apply          layer 0 (gpu:0) ─▶ layer 1 (gpu:1) ─▶ ..

A copy of such a graph would hold several models, or need several devices. Towers are the connected components of the
ops that depend on both examples and variables: two towers are joined only where their gradients are. A network that
uses its weights several times, such as an unrolled cell, is joined in its loss and is one component.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cluster.devicespec import DeviceSpec, parse
from simulator.columns import Flags, flags
from simulator.graph.dataflow import depending_on, sources_of
from simulator.graph.graph import Graph
from simulator.graph.traversal import closure, fan_in
from simulator.training.recognition.anatomy import Anatomy
from simulator.training.recognition.batch import SUMS
from simulator.training.recognition.clipping import as_computed
from simulator.training.recognition.variable_flow import on_examples
from simulator.wording import counted, some

# Ops that average gradients, or hand them on, between the towers and an update.
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
class OwnDivision:
    """The devices and towers among which a graph divides the work of a step."""

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


def own_division(graph: Graph, found: Anatomy) -> OwnDivision:
    """The division of a training graph's step; `found` is its anatomy.

    A CPU beside one GPU is no second device: variables and input pipelines stand there as a rule. `tower_count` counts
    the towers.
    """
    return OwnDivision(devices_named(graph, found.step.runs), tower_count(graph, found))


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
    """The number of copies of the model whose gradients are joined at one variable; 1: the graph holds no copies.

    Copies are identical: they have as many ops of each kind. Gradients may be joined by other ops than sums. Then
    scopes called `tower_0`, `tower_1`, .. count as towers if no value leads into one of them from outside.
    """
    found = as_computed(graph, found)
    into = [edge for one in found.gradients for edge in one.values if graph.edge_tensor[edge] >= 0]
    mixed = _mixed(graph, found, into)
    return max(_by_structure(graph, found, mixed), _by_scopes(graph, mixed))


def _mixed(graph: Graph, found: Anatomy, into: Sequence[int]) -> Flags:
    """[N] whether gradients need a node that depends both on examples and on trained variables.

    Examples may also lie in variables that nothing trains, as where a benchmark draws them once.
    """
    needed = fan_in(graph, [int(graph.edge_src[edge]) for edge in into])
    trained = {one.variable for one in found.gradients}
    by_trained = depending_on(graph, trained)
    for live in (on_examples(graph), depending_on(graph, set(found.variables) - trained)):
        if (needed & by_trained & live).any():
            return flags(needed & by_trained & live)
    return flags(np.zeros(len(graph), np.bool_))


# ---- by structure ---------------------------------------------------------------------------------------------------


def _by_structure(graph: Graph, found: Anatomy, mixed: Flags) -> int:
    parts = [_parts(graph, one.values[0], mixed) for one in found.gradients]
    joins = set().union(*(between for between, _ in parts))
    home = _components(graph, [row for row in np.flatnonzero(mixed).tolist() if row not in joins])
    joined: dict[int, set[int]] = {}  # variable -> components whose gradients it takes
    for one, (_, ends) in zip(found.gradients, parts, strict=True):
        joined.setdefault(one.variable, set()).update(home[row] for row in ends)
    kinds: dict[int, Counter[str]] = {root: Counter() for root in home.values()}
    for row, root in home.items():
        kinds[root][graph.ops[row]] += 1
    copies = [roots for roots in joined.values() if len({frozenset(kinds[root].items()) for root in roots}) <= 1]
    return max((len(roots) for roots in copies), default=1)


def _parts(graph: Graph, gradient: int, mixed: Flags) -> tuple[set[int], set[int]]:
    """The ops that join the parts of a gradient, and the nodes at which the parts end."""
    reached = closure(
        [int(graph.edge_src[gradient])],
        lambda row: sources_of(graph, row) if mixed[row] and graph.ops[row] in _JOINS else (),
    )
    inside = {row for row in reached if mixed[row]}
    joins = {row for row in inside if graph.ops[row] in _JOINS}
    return joins, inside - joins


def _components(graph: Graph, rows: Sequence[int]) -> dict[int, int]:
    """Node -> the first node of its component, as values connect these nodes."""
    above = {row: row for row in rows}

    def root(row: int) -> int:
        while above[row] != row:
            above[row] = above[above[row]]
            row = above[row]
        return row

    for row in rows:
        for source in sources_of(graph, row):
            if source in above:
                one, other = sorted((root(row), root(source)))
                above[other] = one
    return {row: root(row) for row in rows}


# ---- by names -------------------------------------------------------------------------------------------------------


def _by_scopes(graph: Graph, mixed: Flags) -> int:
    """The number of scopes with tower numbers, of about one size, that get no value from one another."""
    scope = {row: found for row in np.flatnonzero(mixed).tolist() if (found := _SCOPE.search(graph.names[row]))}
    own = {row: (found[1], found[2]) for row, found in scope.items()}
    if any(mixed[source] and own.get(source) != name for row, name in own.items() for source in sources_of(graph, row)):
        return 1
    sizes: dict[str, Counter[str]] = {}
    for word, number in own.values():
        sizes.setdefault(word, Counter())[number] += 1
    about = [counts for counts in sizes.values() if max(counts.values()) <= _ABOUT * min(counts.values())]
    return max(map(len, about), default=1)
