"""Estimate how long each op takes on each kind of device: a roofline with a launch overhead.

    time = launch + max(flops / peak, bytes / bandwidth)

The maximum, not the sum that Grappler takes: hardware overlaps memory traffic with arithmetic, so that the slower of
the two bounds the kernel (Williams, Waterman, Patterson: Roofline, CACM 2009). No efficiency is assumed below the
peaks of the device: measured times (`calibrate`) say better. A peak is that of the number format in which the op
computes (`precision`), for products and convolutions of tensor cores or AMX.
Ops for which no kernel starts (`Rule.launches`) cost the executor's dispatch on every device; so does, on a GPU, the
launch of a kernel that works in host memory alone.

A graph of thousands of nodes has some hundred different ones: each is priced once, by exact integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster, Device
from simulator.cluster.peaks import peak
from simulator.columns import flags, ids, ints
from simulator.costs.flops import FALLBACK_RULE, rule
from simulator.costs.formulas.instance import Instance
from simulator.costs.precision import is_complex, number_format, real_operations
from simulator.costs.residents import MAX_RANK, resident_bytes
from simulator.costs.rule import CHECKPOINT, Rule
from simulator.costs.table import FALLBACK, MAX_NS, STATIC, CostTable
from simulator.errors import ClusterError
from simulator.graph import ops
from simulator.graph.dtypes import INT32
from simulator.graph.graph import Graph, Shape
from simulator.units import Nanos
from simulator.wording import by_count

DISPATCH_NS: Nanos = 130  # the executor's own time per op: TensorFlow 2.21 on one x86 core, measured 2026
STORAGE_BYTES_PER_S = 500_000_000  # a guess for checkpoints: a disk on SATA, 6 Gbit/s
MAX_COUNT = 2**60  # larger counts are capped: one such op takes days anywhere


class _Work(NamedTuple):
    """What one op does, wherever it runs."""

    flops: int  # operations on real numbers
    moved: int  # bytes
    scratch: int  # bytes
    number: str  # the format in which it computes
    matrix: bool  # on matrix units, where there are some
    capped: bool  # one of the counts was larger than MAX_COUNT


def estimate(graph: Graph, cluster: Cluster) -> CostTable:
    """Price every node on every device kind of the cluster.

    Ops that the table of `costs/flops.py` lacks cost a launch and the bytes of their known tensors; they are marked
    FALLBACK and named in the notes, as are ops that lack attributes. Tensors of unknown size count no bytes. Raises
    ClusterError if two devices of one kind differ in type or speed.
    """
    priced, which = _instances(graph)
    works = [_work(rule, instance) for rule, instance in priced]
    column = np.array([work[:3] for work in works], np.int64).reshape(-1, 3)[which]
    unlisted = np.array([rule is FALLBACK_RULE for rule, _ in priced], bool)[which]
    resident, resident_notes = resident_bytes(graph)
    capped = int(np.array([work.capped for work in works], bool)[which].sum())
    models = _models(cluster)
    run_ns = _run_ns(graph, models, priced, works, which)
    return CostTable(
        kinds=cluster.kinds,
        run_ns=run_ns,
        scratch_bytes=ints(column[:, 2]),
        resident_bytes=resident,
        source=ids(np.where(unlisted, FALLBACK, STATIC)),
        flops=ints(column[:, 0]),
        moved_bytes=ints(column[:, 1]),
        notes=(*_notes(graph, unlisted, capped), *_assumed(models, works, which, run_ns), *resident_notes),
    )


def price(rule: Rule, instance: Instance, device: Device) -> Nanos:
    """The time of one op on one device, launch included, whether or not TensorFlow has a kernel for it there."""
    return _time(rule, _work(rule, instance), device)


def _run_ns(
    graph: Graph,
    models: Sequence[Device],
    priced: Sequence[tuple[Rule, Instance]],
    works: Sequence[_Work],
    which: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """[N, K] time per node and kind, -1 without a kernel."""
    times = [[_time(rule, work, model) for model in models] for (rule, _), work in zip(priced, works, strict=True)]
    run_ns = np.array(times, np.int64).reshape(-1, len(models))[which]
    launched = np.array([rule.launches for rule, _ in priced], bool)[which]
    for column, model in enumerate(models):
        if model.type == "GPU":
            run_ns[launched & _in_host_memory(graph), column] -= model.launch_ns - DISPATCH_NS
    run_ns[~_kernels(graph, models)] = -1
    run_ns.setflags(write=False)
    return run_ns


def _instances(graph: Graph) -> tuple[list[tuple[Rule, Instance]], npt.NDArray[np.int64]]:
    """The different ops of the graph with their shapes, and [N] which of them each node is."""
    tensor_kind: dict[object, int] = {}  # nodes whose tensors have equal shapes, sizes and types cost the same
    sizes, types = graph.tensor_bytes.tolist(), graph.tensor_dtype.tolist()
    kind = [tensor_kind.setdefault(key, len(tensor_kind)) for key in zip(graph.tensor_shape, sizes, types, strict=True)]
    first, sources = graph.in_ptr.tolist(), graph.edge_tensor.tolist()
    outputs = graph.tensor_ptr.tolist()
    rows: dict[object, int] = {}
    priced: list[tuple[Rule, Instance]] = []
    which = []
    for node, (op, attrs) in enumerate(zip(graph.ops, graph.attrs, strict=True)):
        priced_by = rule(op) or FALLBACK_RULE
        taken = [t for t in sources[first[node] : first[node + 1]] if t >= 0]
        given = range(outputs[node], outputs[node + 1])
        read = [attrs[name].SerializeToString() if name in attrs else None for name in priced_by.attrs]
        key = (op, tuple([kind[t] for t in taken]), tuple(kind[given.start : given.stop]), *read)
        row = rows.get(key)
        if row is None:
            row = rows[key] = len(priced)
            instance = Instance(
                op,
                tuple(_bounded(graph.tensor_shape[t]) for t in taken),
                tuple(_bounded(graph.tensor_shape[t]) for t in given),
                tuple(max(0, sizes[t]) for t in taken),
                tuple(max(0, sizes[t]) for t in given),
                attrs,
                tuple(types[t] for t in taken),
                tuple(types[t] for t in given),
            )
            priced.append((priced_by, instance))
        which.append(row)
    return priced, np.array(which, np.int64)


def _bounded(shape: Shape | None) -> Shape | None:
    """The shape; unknown where it has more dimensions than TensorFlow allows, which only a broken file has."""
    return None if shape is not None and len(shape) > MAX_RANK else shape


def _work(rule: Rule, instance: Instance) -> _Work:
    operations = real_operations(rule, instance, rule.flops(instance))
    exact = (operations, rule.moved(instance), rule.scratch(instance))
    flops, moved, scratch = (min(max(0, count), MAX_COUNT) for count in exact)
    matrix = rule.on_matrix_units and not is_complex(instance.input_types)
    return _Work(flops, moved, scratch, number_format(rule, instance), matrix, max(exact) > MAX_COUNT)


def _time(rule: Rule, work: _Work, device: Device) -> Nanos:
    if not rule.launches:
        return DISPATCH_NS
    rate = min(device.bytes_per_s, STORAGE_BYTES_PER_S) if rule.category == CHECKPOINT else device.bytes_per_s
    speed, _ = _speed(work, device)
    busy = max(-(-work.flops * 10**9 // speed), -(-work.moved * 10**9 // rate))
    return min(device.launch_ns + busy, MAX_NS)


def _speed(work: _Work, device: Device) -> tuple[int, bool]:
    """Operations per second at the device's peak, and whether they are assumed."""
    return peak(device.flop_per_s, device.peaks, work.number, matrix=work.matrix)


def _models(cluster: Cluster) -> list[Device]:
    """[K] one device of each kind; all of a kind must have the same speed."""
    models: dict[str, Device] = {}
    for device in cluster.devices:
        if min(device.flop_per_s, device.bytes_per_s) < 1:
            raise ClusterError(
                f"{cluster.name}: {device.name} does nothing per second; give it a speed and a bandwidth"
            )
        model = models.setdefault(device.kind, device)
        for name in ("type", "flop_per_s", "peaks", "bytes_per_s", "launch_ns"):
            if getattr(device, name) != getattr(model, name):
                raise ClusterError(
                    f"{cluster.name}: {model.name} and {device.name} are both of kind {device.kind!r} but differ in "
                    f"{name}; give them kinds of their own"
                )
    return [models[kind] for kind in cluster.kinds]


def _in_host_memory(graph: Graph) -> npt.NDArray[np.bool_]:
    """[N] nodes whose GPU kernel works on the host: all inputs and outputs lie there, so that nothing is launched.

    These are the int32 kernels, which compute shapes and indices; only they are looked up.
    """
    found = np.zeros(len(graph), bool)
    narrow = np.zeros(len(graph), bool)
    narrow[graph.tensor_node[graph.tensor_dtype == INT32]] = True
    slots = np.bincount(graph.edge_dst[graph.edge_tensor >= 0], minlength=len(graph))
    for node in np.flatnonzero(narrow).tolist():
        taken, given = ops.host_memory(graph.ops[node], graph.attrs[node], "GPU", graph.library)
        outputs = int(graph.tensor_ptr[node + 1] - graph.tensor_ptr[node])
        found[node] = len(taken) == slots[node] and len(given) == outputs
    return found


def _kernels(graph: Graph, models: Sequence[Device]) -> npt.NDArray[np.bool_]:
    """[N, K] whether TensorFlow has a kernel for the node on the kind's device type."""
    types = [device.type for device in models]
    answers: dict[object, tuple[bool, ...]] = {}
    exists = []
    for op, attrs in zip(graph.ops, graph.attrs, strict=True):
        supported = ops.kernel_types(op, attrs)
        if supported not in answers:
            found = {device_type for device_type, _ in supported}
            answers[supported] = tuple(device_type in found for device_type in types)
        exists.append(answers[supported])
    return flags(np.array(exists, bool).reshape(len(graph), len(types)))


def _notes(graph: Graph, unlisted: npt.NDArray[np.bool_], capped: int) -> tuple[str, ...]:
    notes = []
    lacking = Counter(op for op, attrs in zip(graph.ops, graph.attrs, strict=True) if ops.missing_attrs(op, attrs))
    if lacking:
        notes.append(
            f"attributes on which kernels depend are missing from {lacking.total()} nodes, which count as having every "
            f"kernel of their op: {by_count(lacking)}"
        )
    if unlisted.any():
        counts = Counter(graph.ops[node] for node in np.flatnonzero(unlisted).tolist())
        notes.append(
            f"fallback cost (a launch and the bytes of known tensors) for {counts.total()}: {by_count(counts)}"
        )
    if capped:
        notes.append(f"work or bytes of {capped} nodes are beyond 2^60 and were capped: are their shapes right?")
    return tuple(notes)


def _assumed(
    models: Sequence[Device],
    works: Sequence[_Work],
    which: npt.NDArray[np.int64],
    run_ns: npt.NDArray[np.int64],
) -> list[str]:
    """A note for each kind that lacks the speed in a format in which ops compute, with the number of its ops."""
    notes = []
    for column, model in enumerate(models):
        guessed = [work.flops > 0 and _speed(work, model)[1] for work in works]
        nodes = np.flatnonzero(np.array(guessed, bool)[which] & (run_ns[:, column] >= 0)).tolist()
        if nodes:
            counts = Counter(works[which[node]].number for node in nodes)
            notes.append(
                f"number formats whose speed {model.kind} does not give, and how many nodes compute in them: "
                f"{by_count(counts)}; float64 is taken as half as fast as float32, the others as equally fast"
            )
    return notes
