"""What an estimate had to assume, as sentences with the number of nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Device
from simulator.costs.flops import FALLBACK_RULE
from simulator.costs.rule import Rule
from simulator.costs.work import Work, speed_of
from simulator.graph import ops
from simulator.graph.graph import Graph
from simulator.wording import by_count, some

_WORTH_A_NOTE_PS = 1_000_000  # a microsecond: one string, such as the name of a checkpoint, is no matter


def assumptions(
    graph: Graph,
    models: Sequence[Device],
    rules: Sequence[Rule],
    works: Sequence[Work],
    which: npt.NDArray[np.int64],
    run_ns: npt.NDArray[np.int64],
) -> tuple[str, ...]:
    """The notes of a cost table; `which` is the row of each node in `rules` and `works`."""
    notes = []
    lacking = Counter(op for op, attrs in zip(graph.ops, graph.attrs, strict=True) if ops.missing_attrs(op, attrs))
    if lacking:
        notes.append(
            f"attributes on which kernels depend are missing from {lacking.total()} nodes, which count as having every "
            f"kernel of their op: {by_count(lacking)}"
        )
    unlisted = _nodes([rule is FALLBACK_RULE for rule in rules], which)
    if unlisted:
        counts = Counter(graph.ops[node] for node in unlisted)
        notes.append(
            f"fallback cost (a launch and the bytes of known tensors) for {counts.total()}: {by_count(counts)}"
        )
    opaque = _nodes([rule.opaque for rule in rules], which)
    if opaque:
        counts = Counter(graph.ops[node] for node in opaque)
        names = some([graph.names[node] for node in opaque])
        notes.append(
            f"what {by_count(counts)} compute is not in the graph, and only their calls are priced; measured times "
            f"(--costs) can say how long they take: {names}"
        )
    capped = len(_nodes([work.capped for work in works], which))
    if capped:
        notes.append(f"work or bytes of {capped} nodes are beyond 2^60 and were capped: are their shapes right?")
    notes += _sizes(graph, works, which)
    notes += _speeds(models, works, which, run_ns)
    return tuple(notes)


def _nodes(chosen: Sequence[bool], which: npt.NDArray[np.int64]) -> list[int]:
    """The nodes whose row is chosen."""
    return [int(node) for node in np.flatnonzero(np.array(chosen, bool)[which])]


def _sizes(graph: Graph, works: Sequence[Work], which: npt.NDArray[np.int64]) -> list[str]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for node in _nodes([bool(work.assumed) and work.core_ps > _WORTH_A_NOTE_PS for work in works], which):
        found[works[which[node]].assumed][graph.ops[node]] += 1
    return [
        f"sizes that the graph does not hold: {words} are assumed for {counts.total()}: {by_count(counts)}"
        for words, counts in sorted(found.items())
    ]


def _speeds(
    models: Sequence[Device],
    works: Sequence[Work],
    which: npt.NDArray[np.int64],
    run_ns: npt.NDArray[np.int64],
) -> list[str]:
    """A note for each kind that lacks the speed in a format in which ops compute."""
    notes = []
    for column, model in enumerate(models):
        guessed = _nodes([work.flops > 0 and speed_of(work, model)[1] for work in works], which)
        counts = Counter(works[which[node]].number for node in guessed if run_ns[node, column] >= 0)
        if counts:
            notes.append(
                f"number formats whose speed {model.kind} does not give, and how many nodes compute in them: "
                f"{by_count(counts)}; float64 is taken as half as fast as float32, the others as equally fast"
            )
    return notes
