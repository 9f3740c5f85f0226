"""Measured times replace estimates, matched by node name and device kind.

file ──▶ samples ──by name──▶ node ──▶ all its copies (tower_1/.., replica_2/..)
                 └─by device─▶ kind
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.cluster.models import model_of
from simulator.columns import ids
from simulator.costs.estimates.fusion import joined_into
from simulator.costs.measured import ANYWHERE, MeasuredTimes, Sample
from simulator.costs.table import MEASURED, CostTable
from simulator.errors import ClusterError
from simulator.graph.graph import Graph
from simulator.units import Nanos
from simulator.wording import counted, near, some

_Times: TypeAlias = dict[tuple[int, int], list[Nanos]]  # by node and column of the cost table

# Numbers that TensorFlow gives as it goes, and that differ from run to run: "/_12" of the nodes that the partitioner
# replicates or cuts (graph_partition.cc, NewName), and of those that lowering makes of a loop or branch.
_NUMBER = re.compile(r"/_\d+(?=/|$)")
_TYPE = re.compile(r"(?i)[/:](cpu|gpu):\d+$")
_SHOWN = 5  # names listed in a note
_LEAST_SHARE = 0.1  # of a file's names that the graph has; a forward pass has a third of its training's


@dataclass(slots=True)
class _FileUse:
    """The use of one file: its names, and the samples that count."""

    source: str
    form: str
    names: dict[str, bool] = field(default_factory=dict)  # measured name -> whether the graph has it
    ops: dict[str, bool] = field(default_factory=dict)  # name with a known op -> whether the graph's node is one
    kernels: dict[tuple[int, str], set[int]] = field(default_factory=dict)  # joined: node, op -> columns
    used: int = 0  # samples that count for some kind
    elsewhere: Counter[str] = field(default_factory=Counter)  # samples by devices of which the cluster has no type


def with_measured(
    costs: CostTable,
    measurement: MeasuredTimes | Sequence[MeasuredTimes],
    graph: Graph,
    cluster: Cluster,
    *,
    described: Cluster | None = None,
) -> CostTable:
    """The estimate, with measured times where a measurement has them: by node name and device kind.

    The median of all times of a node on a kind counts, rounded up, over all measurements; TensorFlow writes one file
    per step. A model stands for its parts, too, the CPUs that share a host, where these have no times of their own. A
    device that the cluster lacks stands for all kinds of its type. A copy that replication made takes its original's
    time where it was not measured itself. Each copy works on as many examples as the given graph. TensorFlow adds
    numbers to names at run time. So a name that the graph lacks stands for the nodes of that op whose names differ only
    in numbers.

    `described` is the measured cluster, where `cluster` has more or fewer tasks. Its kinds and devices are known, too,
    and an unused measurement is no error then. A part of a model that only `cluster` has takes the times of others.

    A product or convolution that an optimizer joined with what follows it has its time there, and none of its own. A
    measurement adds no kernel to an op that has none. The notes count names that the graph lacks, and times on a type
    of device that the cluster lacks. They count nodes that were measured on some kinds of a type and are estimated on
    others. Raises ClusterError for an unknown kind, and for a useless measurement: no name is the graph's, or the
    cluster lacks devices of such a type.
    """
    given = [measurement] if isinstance(measurement, MeasuredTimes) else list(measurement)
    rows_of = _Names(graph)
    named, of_models = _Times(), _Times()
    uses = [_gather(one, rows_of, costs, cluster, described or cluster, named, of_models) for one in given]
    times = of_models | named
    inside = _join(times, uses, graph)
    for one in uses if described is None else ():
        _check_used(one, graph, cluster)
    run_ns, sources = costs.run_ns.copy(), costs.sources.copy()
    without_kernel = 0
    for (node, column), measured in times.items():
        if run_ns[node, column] >= 0:
            run_ns[node, column] = _median(measured)
            sources[node, column] = MEASURED
        else:
            without_kernel += 1
    nodes = int(np.count_nonzero((sources == MEASURED).any(1)))
    _copy(run_ns, sources, times, graph)
    run_ns.setflags(write=False)
    source = np.where((sources == MEASURED).any(1), MEASURED, costs.source)
    copied = int(np.count_nonzero(source == MEASURED)) - nodes
    notes = [*_notes(uses, nodes, copied, graph, cluster, without_kernel), *_partly_measured(times, costs, cluster)]
    if names := sorted(graph.names[node] for node in inside):
        notes.append(f"measured within a later op's kernel, so without a time of their own: {some(names, _SHOWN)}")
    within = ids([inside.get(node, -1) for node in range(len(graph))])
    if (errors := costs.errors) is not None:  # a measured time is taken as it is
        errors = replace(errors, relative=np.where(sources == MEASURED, 0.0, errors.relative))
    costs = replace(costs, run_ns=run_ns, source=ids(source), kind_source=sources)
    return replace(costs, notes=(*costs.notes, *notes), errors=errors, within=within)


def _join(times: _Times, uses: Sequence[_FileUse], graph: Graph) -> dict[int, int]:
    """Add no time for the nodes that ran within another's kernel, on its kinds; return them, each with that other."""
    timed: dict[int, set[int]] = {}  # column -> nodes with times of their own
    for node, column in times:
        timed.setdefault(column, set()).add(node)
    inside: dict[int, int] = {}
    for (last, op), columns in (kernel for one in uses for kernel in one.kernels.items()):
        for column in columns:
            for node in joined_into(graph, last, op, timed[column]):
                times[node, column] = [0]
                inside[node] = last
    return inside


class _Names:
    """Nodes by the names that a measurement may give them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.bare: dict[str, list[int]] = {}
        for row, name in enumerate(graph.names):
            self.bare.setdefault(_NUMBER.sub("", name), []).append(row)

    def rows(self, sample: Sample) -> list[int]:
        """The nodes of a sample's name; where the sample lacks the op, only if the name fits one node."""
        if (row := self.graph.index.get(sample.node)) is not None:
            return [row]
        found = self.bare.get(_NUMBER.sub("", sample.node), [])
        if sample.op:
            return [row for row in found if self.graph.ops[row] == sample.op]
        return found if len(found) == 1 else []


def _gather(
    measurement: MeasuredTimes,
    names: _Names,
    costs: CostTable,
    cluster: Cluster,
    described: Cluster,
    named: _Times,
    of_models: _Times,
) -> _FileUse:
    """Add a file's samples to the times of the kinds that it names, and of parts of the models that it names."""
    places: dict[str, tuple[tuple[_Times, int], ...]] = {}
    models = [next(device for device in cluster.devices if device.kind == kind) for kind in costs.kinds]
    file = _FileUse(measurement.source, measurement.form)
    for sample in measurement.samples:
        columns = places.get(sample.where)
        if columns is None:
            kinds = _kinds(sample, measurement, described)
            same = {sample.where, *map(model_of, kinds)}
            columns = places[sample.where] = tuple(
                (named if kind in kinds else of_models, column)
                for column, kind in enumerate(costs.kinds)
                if kind in kinds or model_of(kind) in (same if kind not in described.kinds else {sample.where})
            )
        rows = names.rows(sample)
        if not sample.node.startswith("_") or rows:  # the session's own: _SOURCE, _arg_x_0_0
            file.names[sample.node] = bool(rows)
        if rows and sample.op:
            kernel = (rows[0], sample.op)
            joins = kernel in file.kernels or bool(joined_into(names.graph, *kernel, ()))
            file.ops[sample.node] = names.graph.ops[rows[0]] == sample.op or joins
            if joins:
                file.kernels.setdefault(kernel, set()).update(column for _, column in columns)
        if rows and not columns:
            file.elsewhere[sample.where] += 1
        for times, column in columns:
            for row in rows:
                took = models[column].op_ns(sample.ns) if sample.kernels_only else sample.ns
                times.setdefault((row, column), []).append(took)
                file.used += 1
    return file


def _check_used(file: _FileUse, graph: Graph, cluster: Cluster) -> None:
    """Raise ClusterError for a file without a time of this graph on this cluster, and for one of another graph."""
    if file.used:
        _check_same(file, graph)
        return
    if file.elsewhere:
        raise ClusterError(
            f"{file.source} measured times on {some(sorted(file.elsewhere))}, and {cluster.name} has no device of "
            "that type, so nothing of it is used; give a cluster that has one, or measure on what it has."
        )
    names = sorted(file.names)
    measured = f"measured {some([*map(repr, names)], _SHOWN)}" if names else "has the session's own names only"
    known = some([*map(repr, graph.names)], _SHOWN)
    hint = next((hint for name in names[:_SHOWN] if (hint := near(name, graph.names))), "")
    raise ClusterError(
        f"{file.source} {measured}, and none of that is a node of {graph.source}, which has {known}, so nothing of it "
        f"is used.{hint}"
    )


def _check_same(file: _FileUse, graph: Graph) -> None:
    """Raise ClusterError for a file that names some of the graph's nodes by chance, as `x` and `Const` are in many.

    An optimizer may change an op and keep its name, so some other ops are no proof.
    """
    known, others = sum(file.names.values()), [name for name, same in file.ops.items() if not same]
    if 2 * len(others) > len(file.ops):
        said = (
            f"has other ops in {len(others)} of {counted(len(file.ops), 'node')} of these names, such as {others[0]!r}"
        )
    elif known < _LEAST_SHARE * len(file.names):
        said = f"has only {known} of its {counted(len(file.names), 'node')}"
    else:
        return
    raise ClusterError(
        f"{file.source} is of another graph: {graph.source} {said}, so nothing of it is used. Measure this graph, or "
        "give CSV lines node,kind,ns of the nodes that both have."
    )


def _copy(run_ns: npt.NDArray[np.int64], sources: npt.NDArray[np.int32], times: _Times, graph: Graph) -> None:
    """Give copies without times of their own the times of their originals."""
    for name, original in graph.copies.items():
        row, origin = graph.index.get(name), graph.index.get(original)
        if row is None or origin is None:
            continue
        for column in range(run_ns.shape[1]):
            if (origin, column) in times and (row, column) not in times and run_ns[row, column] >= 0:
                run_ns[row, column] = run_ns[origin, column]
                sources[row, column] = MEASURED


def _kinds(sample: Sample, measurement: MeasuredTimes, described: Cluster) -> set[str]:
    """The kinds of a sample's device; none of a model that the cluster has in parts alone."""
    types = {device.kind: device.type for device in described.devices}
    named = _TYPE.search(sample.where)
    wanted = named[1].upper() if named else sample.where.upper()
    if sample.where == ANYWHERE:
        return set(types)
    if sample.where in types:
        return {sample.where}
    if (row := described.index.get(sample.where)) is not None:
        return {described.devices[row].kind}
    if any(model_of(kind) == sample.where for kind in types):
        return set()
    if wanted in ("CPU", "GPU"):
        return {kind for kind, its in types.items() if its == wanted}
    where = f"{measurement.source}, line {sample.line}" if sample.line else measurement.source
    raise ClusterError(
        f"{where}: {described.name} has no device kind {sample.where[:80]!r}.{near(sample.where, described.kinds)} "
        f"It has {some(described.kinds)}; CPU and GPU stand for all kinds of that type",
        line=sample.line or None,
    )


def _median(times: list[Nanos]) -> Nanos:
    ordered = sorted(times)
    return -(-(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2)


def _notes(
    uses: Sequence[_FileUse], nodes: int, copied: int, graph: Graph, cluster: Cluster, without_kernel: int
) -> list[str]:
    files = " and ".join(f"{one.source} ({one.form})" for one in uses)
    also = f", {copied} of them as copies of others" if copied else ""
    notes = [f"measured times from {files}: matched {nodes + copied} of {counted(len(graph), 'op')}{also}"]
    for one in uses:
        unknown = sorted(name for name, known in one.names.items() if not known)
        of = one.source if len(uses) > 1 else "measured"
        if unknown:
            notes.append(
                f"{of} names that are not in the graph: {len(unknown)} of {len(one.names)} ({some(unknown, _SHOWN)})"
            )
    if without_kernel:
        notes.append(f"measured times left out, because TensorFlow 2.21 has no such kernel: {without_kernel}")
    elsewhere = sum(one.elsewhere.total() for one in uses)
    if elsewhere:
        notes.append(f"measured times left out, because {cluster.name} has no device of their type: {elsewhere}")
    return notes


def _partly_measured(times: _Times, costs: CostTable, cluster: Cluster) -> list[str]:
    """A note for each kind on which nodes are estimated that were measured on another kind of its type."""
    type_of = {device.kind: device.type for device in cluster.devices}  # in the order of the columns
    nodes_of: dict[str, set[int]] = {type: set() for type in type_of.values()}
    for node, column in times:
        nodes_of[type_of[costs.kinds[column]]].add(node)
    estimated = {
        kind: sum(1 for node in nodes_of[its] if (node, column) not in times and costs.run_ns[node, column] >= 0)
        for column, (kind, its) in enumerate(type_of.items())
    }
    return [
        f"measured on another kind of {type_of[kind]} alone, so estimated on {kind}: {counted(nodes, 'op')}"
        for kind, nodes in estimated.items()
        if nodes
    ]
