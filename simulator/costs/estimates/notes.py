"""Notes on the assumptions of an estimate: kernels, sizes, code and speeds that nothing says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from simulator.cluster.cluster import Device
from simulator.cluster.models import model_of
from simulator.columns import Ints
from simulator.costs.roofline import OpWork, Works, speed_of
from simulator.costs.rules import FALLBACK_RULE
from simulator.costs.table import FALLBACK, PROFILED
from simulator.graph import ops
from simulator.graph.graph import Graph
from simulator.wording import by_count, some

_WORTH_A_NOTE_PS = 1_000_000  # a microsecond: one string, such as the name of a checkpoint, needs no note


def assumptions(graph: Graph, models: Sequence[Device], works: Works, run_ns: Ints, sources: Ints) -> tuple[str, ...]:
    """Notes on the assumptions of a cost table; `sources` [N, K] are those of prices on each kind."""
    notes = []
    missing = ops.of_nodes(ops.missing_attrs, graph)
    lacking = Counter(op for op, names in zip(graph.ops, missing, strict=True) if names)
    if lacking:
        notes.append(
            f"attributes on which kernels depend are missing from {lacking.total()} nodes, which count as having every "
            f"kernel of their op: {by_count(lacking)}"
        )
    unlisted = _nodes(works, lambda work: work.rule is FALLBACK_RULE)
    profiled = [node for node in unlisted if PROFILED in sources[node]]
    if profiled:
        counts = Counter(graph.ops[node] for node in profiled)
        notes.append(
            f"ops that neither cost table nor profile knows take on a CPU what others take: {by_count(counts)}"
        )
    unlisted = [node for node in unlisted if FALLBACK in sources[node]]
    if unlisted:
        counts = Counter(graph.ops[node] for node in unlisted)
        notes.append(
            f"fallback cost (a launch and the bytes of known tensors) for {counts.total()}: {by_count(counts)}"
        )
    opaque = _nodes(works, lambda work: work.rule.opaque)
    if opaque:
        counts = Counter(graph.ops[node] for node in opaque)
        names = some([graph.names[node] for node in opaque])
        notes.append(
            f"no op of the graph does the work of {by_count(counts)}: only the calls are priced; measured times "
            f"(--costs, or --observe where no Python is called) can replace that: {names}"
        )
    capped = len(_nodes(works, lambda work: work.capped))
    if capped:
        notes.append(f"work or bytes of {capped} nodes are beyond 2^60 and were capped: are their shapes right?")
    notes += _sizes(graph, works)
    notes += _speeds(models, works, run_ns)
    return tuple(notes)


def alike(models: Sequence[Device]) -> list[str]:
    """A note on CPUs of several models, which a profile prices as one machine."""
    names = list(dict.fromkeys(model_of(model.kind) for model in models if model.type == "CPU"))
    if len(names) < 2:
        return []
    return [f"the profile prices CPUs of {len(names)} models as one machine, by their cores alone: {some(names)}"]


def _nodes(works: Works, test: Callable[[OpWork], bool]) -> list[int]:
    """The nodes whose work passes a test."""
    return [int(node) for node in np.flatnonzero(works.flags(test))]


def _sizes(graph: Graph, works: Works) -> list[str]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for node in _nodes(works, lambda work: bool(work.assumed) and work.core_ps > _WORTH_A_NOTE_PS):
        found[works.of(node).assumed][graph.ops[node]] += 1
    return [
        f"sizes that the graph does not hold: {words} are assumed for {counts.total()}: {by_count(counts)}"
        for words, counts in sorted(found.items())
    ]


def _speeds(models: Sequence[Device], works: Works, run_ns: Ints) -> list[str]:
    """A note for each kind that lacks the speed in a format in which ops compute."""
    notes = []
    for column, model in enumerate(models):
        guessed = _nodes(works, partial(_computes_at_a_guess, model))
        counts = Counter(works.of(node).number for node in guessed if run_ns[node, column] >= 0)
        if counts:
            notes.append(
                f"number formats without a speed of {model.kind}, and the number of nodes that compute in them: "
                f"{by_count(counts)}; float64 is taken as half as fast as float32, the others as equally fast"
            )
    return notes


def _computes_at_a_guess(model: Device, work: OpWork) -> bool:
    return work.flops > 0 and speed_of(work, model)[1]
