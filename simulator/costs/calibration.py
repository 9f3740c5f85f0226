"""Lay measured times over an estimate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from simulator.cluster.cluster import Cluster
from simulator.columns import ids
from simulator.costs.measuring import Measurement, Sample, read_measurement
from simulator.costs.table import MEASURED, CostTable
from simulator.errors import ClusterError
from simulator.graph.graph import Graph
from simulator.units import Nanos
from simulator.wording import near, some

__all__ = ["calibrate", "read_measurement"]

# The partitioner appends "/_12" to the nodes that it replicates or cuts (graph_partition.cc, NewName).
_SUFFIX = re.compile(r"/_\d+$")
_TYPE = re.compile(r"(?i)[/:](cpu|gpu):\d+$")
_SHOWN = 5  # names listed in a note


def calibrate(costs: CostTable, measurement: Measurement, graph: Graph, cluster: Cluster) -> CostTable:
    """The estimate, with measured times where the measurement has them: by node name and device kind.

    Of several times for one node and kind the median counts, rounded up. A device that the cluster does not have stands
    for all kinds of its type. Where an op has no kernel a measurement makes none. Names that the graph lacks, and times
    on a type of device that the cluster lacks, are counted in the notes. Raises ClusterError for a kind that it does
    not have.
    """
    places: dict[str, tuple[int, ...]] = {}
    times: dict[tuple[int, int], list[Nanos]] = {}
    launch = [next(d.launch_ns for d in cluster.devices if d.kind == kind) for kind in costs.kinds]
    unmatched: Counter[str] = Counter()
    elsewhere = 0
    for sample in measurement.samples:
        columns = places.get(sample.where)
        if columns is None:
            columns = places[sample.where] = _columns(sample, measurement, cluster, costs.kinds)
        node = graph.index.get(sample.node, graph.index.get(_SUFFIX.sub("", sample.node)))
        if node is None:
            unmatched[sample.node] += not sample.node.startswith("_")  # the session's own: _SOURCE, _arg_x_0_0
            continue
        elsewhere += not columns
        for column in columns:
            launched = launch[column] if sample.kernels_only else 0
            times.setdefault((node, column), []).append(sample.ns + launched)
    run_ns, source = costs.run_ns.copy(), costs.source.copy()
    laid = 0
    for (node, column), measured in times.items():
        if run_ns[node, column] >= 0:
            run_ns[node, column] = _median(measured)
            source[node] = MEASURED
            laid += 1
    run_ns.setflags(write=False)
    notes = _notes(measurement, int((source == MEASURED).sum()), len(graph), len(times) - laid, unmatched)
    if elsewhere:
        notes.append(f"measured times left out, because {cluster.name} has no device of their type: {elsewhere}")
    return replace(costs, run_ns=run_ns, source=ids(source), notes=(*costs.notes, *notes))


def _columns(sample: Sample, measurement: Measurement, cluster: Cluster, kinds: Sequence[str]) -> tuple[int, ...]:
    """The kinds for which a sample speaks, as columns of the cost table."""
    if sample.where in kinds:
        return (kinds.index(sample.where),)
    row = cluster.index.get(sample.where)
    if row is not None:
        return (kinds.index(cluster.devices[row].kind),)
    named = _TYPE.search(sample.where)
    wanted = named[1].upper() if named else sample.where.upper()
    types = {device.kind: device.type for device in cluster.devices}
    if wanted in ("CPU", "GPU"):
        return tuple(column for column, kind in enumerate(kinds) if types[kind] == wanted)
    where = f"{measurement.source}, line {sample.line}" if sample.line else measurement.source
    raise ClusterError(
        f"{where}: {cluster.name} has no device kind {sample.where[:80]!r}.{near(sample.where, kinds)} It has "
        f"{', '.join(kinds)}; CPU and GPU stand for all kinds of that type",
        line=sample.line or None,
    )


def _median(times: list[Nanos]) -> Nanos:
    ordered = sorted(times)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else -(-(ordered[middle - 1] + ordered[middle]) // 2)


def _notes(measurement: Measurement, nodes: int, total: int, without_kernel: int, unmatched: Counter[str]) -> list[str]:
    notes = [f"nodes with measured times from {measurement.source}: {nodes} of {total}"]
    names = sorted(name for name, count in unmatched.items() if count)
    if names:
        notes.append(f"measured names that are not in the graph: {len(names)} ({some(names, _SHOWN)})")
    if without_kernel:
        notes.append(f"measured times left out, because TensorFlow 2.21 has no such kernel: {without_kernel}")
    return notes
