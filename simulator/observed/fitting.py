"""An observed step fitted to a graph, whose step it must be: shapes of its tensors, and times and memory of its ops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from math import prod

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import ints
from simulator.costs.matching import with_measured
from simulator.costs.measured import MeasuredTimes, Sample
from simulator.costs.table import CostTable
from simulator.errors import GraphError
from simulator.graph.attributes import COLOCATION
from simulator.graph.graph import Graph, Shape
from simulator.graph.tensors import SHAPES
from simulator.observed.observed_step import ObservedStep, SeenShape
from simulator.shapes.feeds import written
from simulator.shapes.filling import with_shapes
from simulator.wording import counted

_VALUE_BYTES = 2**10  # a longer constant holds weights, of which shapes do not depend
_PORT_DIGITS = 6
_APART = (SHAPES, COLOCATION)  # attributes that say nothing of what a node does


def digest(graph: Graph, names: Iterable[str]) -> str:
    """A digest of these nodes: ops, inputs and attributes, without devices, claimed shapes and weights."""
    found = sha256()
    for name in sorted(names):
        row = graph.row(name)
        found.update(repr((name, graph.ops[row], graph.inputs_of(row))).encode("utf-8", "surrogatepass"))
        for key, value in sorted(graph.attrs[row].items()):
            if key not in _APART:
                content = value.SerializeToString(deterministic=True)
                found.update(key.encode() + (content if len(content) <= _VALUE_BYTES else b"weights"))
    return found.hexdigest()


def fitted(
    graph: Graph,
    observed: ObservedStep,
    *,
    batch: int | None = None,
    feeds: Mapping[str, Shape] = {},
    apart: Collection[int] = (),
) -> Graph:
    """The graph as `with_shapes` gives it, with the observed shape of each tensor that had a value in the step.

    What was fed has the observed shape, too. A tensor whose shape changed from run to run has the one whose size is
    nearest to their mean; ties: the larger. Tensors that the step did not make have shapes by the rules of their ops.

    Raises GraphError for an observation of another graph, and where `batch` or `feeds` contradict what was observed.
    """
    _check_same(graph, observed)
    asked = graph if batch is None and not feeds else with_shapes(graph, batch=batch, feeds=feeds, apart=apart)
    _check_asked(asked, observed, batch, feeds)
    _check_content(asked, observed)
    shapes, varied = _shapes(asked, observed)
    made = with_shapes(asked, batch=batch, feeds={**observed.feeds, **feeds}, observed=shapes, apart=apart)
    said = f"{counted(len(shapes), 'tensor')} {'has' if len(shapes) == 1 else 'have'} the shape of an observed step"
    said += f" (TensorFlow {observed.tensorflow}, {observed.machine})"
    if varied:
        said += f"; {counted(varied, 'of them')} changed from run to run, and counts with its mean size"
    # the batch was given twice: once for what was asked, once for what was seen
    return replace(made, notes=(*dict.fromkeys(made.notes), said))


def _check_same(graph: Graph, observed: ObservedStep) -> None:
    missing = [
        name
        for name, node in observed.nodes.items()
        if name not in graph.index or graph.ops[graph.index[name]] != node.op
    ]
    whole = len(observed.nodes)
    if missing or not whole:
        first = f", but not {min(missing)!r} ({observed.nodes[min(missing)].op})" if missing else ""
        raise GraphError(
            f"{observed.source} is an observation of another graph ({observed.graph}): {whole - len(missing)} of its "
            f"{counted(whole, 'node')} are in {graph.source} by name and op{first}. Observe this graph, with the same "
            "--keep-calls."
        )
    fetched = sorted(name for name in observed.fetches if name.partition(":")[0] not in graph.index)
    if lost := sorted(name for name in observed.feeds if not _has(graph, name)) + fetched:
        raise GraphError(
            f"{observed.source} is an observation of another graph ({observed.graph}): it fed or fetched {lost[0]!r}, "
            f"which {graph.source} lacks. Observe this graph."
        )


def _check_content(asked: Graph, observed: ObservedStep) -> None:
    """Refuse another graph of the same names. A batch that a file fixes lies in its constants, so it makes another."""
    if digest(asked, observed.nodes) != observed.digest:
        raise GraphError(
            f"{observed.source} is an observation of another graph ({observed.graph}): all of its "
            f"{counted(len(observed.nodes), 'node')} are in {asked.source} by name and op, but their inputs or "
            "attributes differ. Give the batch with which it was observed, or observe this graph."
        )


def _has(graph: Graph, tensor: str) -> bool:
    """Whether the graph has a tensor "node:port"."""
    node, _, port = tensor.rpartition(":")
    row = graph.index.get(node)
    if row is None or not port.isdecimal() or len(port) > _PORT_DIGITS:
        return False
    return int(port) < len(graph.outputs(row))


def _check_asked(asked: Graph, observed: ObservedStep, batch: int | None, feeds: Mapping[str, Shape]) -> None:
    """Refuse a batch and feeds for which the step was not observed; `asked` has their shapes."""
    seen = {name: shape for name, shape in observed.feeds.items() if batch is not None}
    for name in feeds:
        tensor = name if ":" in name else f"{name}:0"
        node, _, port = tensor.rpartition(":")
        found = observed.nodes.get(node)
        outputs = found.outputs.get(int(port), ()) if found is not None else ()
        if tensor in observed.feeds:
            seen[tensor] = observed.feeds[tensor]
        elif outputs:
            seen[tensor] = outputs[0].shape
    for name, shape in sorted(seen.items()):
        now = asked.tensor_shape[asked.tensor_row(name)]
        if now is not None and min(now, default=0) >= 0 and now != shape:
            raise GraphError(
                f"{observed.source} was observed with {name} of the shape {written(shape)}, which would be "
                f"{written(now)} with this batch and these feeds; leave them out, or observe anew."
            )


def _shapes(graph: Graph, observed: ObservedStep) -> tuple[dict[int, Shape], int]:
    """The shape of each observed tensor by its row, and how many had several."""
    shapes, varied = {}, 0
    for name, node in observed.nodes.items():
        outputs = graph.outputs(graph.index[name])
        for port, seen in node.outputs.items():
            if port >= len(outputs):
                raise GraphError(f"{observed.source}: {name!r} has no output {port} in {graph.source}; observe anew.")
            shapes[outputs[port]] = _typical(seen)
            varied += len(seen) > 1
    return shapes, varied


def _typical(seen: tuple[SeenShape, ...]) -> Shape:
    """The shape whose number of elements is nearest to the mean of all runs; ties: the larger, then by its sides."""
    total, runs = sum(one.runs * prod(one.shape) for one in seen), sum(one.runs for one in seen)
    return min((one.shape for one in seen), key=lambda shape: (abs(prod(shape) * runs - total), -prod(shape), shape))


# --- times ------------------------------------------------------------------------------------------------------------


def measured_times(observed: ObservedStep) -> MeasuredTimes:
    """The time of each op on a CPU, once per node.

    Tracing makes ops longer, and what is between them. They ran one at a time. The step may have run without tracing,
    too, and been shorter than all ops together. Then their times shrink by one factor until they fit, rounded up.
    """
    over, of = 1, 1
    total = sum(node.ns * node.runs for node in observed.nodes.values() if node.ns >= 0)
    if 0 < observed.step_ns < total:
        over, of = observed.step_ns, total
    samples = [
        Sample(name, "CPU", -(-node.ns * over // of), op=node.op)
        for name, node in observed.nodes.items()
        if node.ns >= 0
    ]
    return MeasuredTimes(tuple(samples), observed.source, "observed step")


def with_observed_costs(costs: CostTable, observed: ObservedStep, graph: Graph, cluster: Cluster) -> CostTable:
    """The costs with the observed times on every kind of CPU; on a cluster of CPUs alone with the observed memory, too.

    What ops hold while they run is another amount on a GPU, so it is kept where there is one. Copies that replication
    made take what their originals had. A cluster without a CPU, and a step without times, leave the costs unchanged.
    """
    types = {device.type for device in cluster.devices}
    measured = measured_times(observed)
    if "CPU" not in types or not measured.samples:
        return costs
    costs = with_measured(costs, measured, graph, cluster, described=cluster)
    if types != {"CPU"}:
        return costs
    scratch = costs.scratch_bytes.copy()
    for row, name in enumerate(graph.names):
        node = observed.nodes.get(graph.copies.get(name, name))
        if node is not None and node.op == graph.ops[row] and node.ns >= 0:
            scratch[row] = node.scratch_bytes
    return replace(costs, scratch_bytes=ints(np.asarray(scratch)))
