"""Estimates for a graph: the time of each op on each kind of device by a roofline, and the memory that stays.

An op without a kernel start (`Rule.launches`) costs the executor's dispatch on every device. On a GPU so does the
launch of a kernel that works in host memory alone.

A graph of thousands of nodes has some hundred different ones. Each of these is priced once, by exact integers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster, Device
from simulator.columns import Ids, Ints, flags, ids, ints
from simulator.costs.collectives import all_reduces
from simulator.costs.formulas.shaped_op import ShapedOp
from simulator.costs.fusion import fused, reading_ns
from simulator.costs.profile import Profile
from simulator.costs.profiled import profile_notes, profiled_prices
from simulator.costs.roofline import DISPATCH_NS, OpWork, busy_ns, speed_of, time_of, work_of
from simulator.costs.rules import FALLBACK_RULE, handing_on, rule
from simulator.costs.table import FALLBACK, PROFILED, STATIC, CostTable
from simulator.errors import ClusterError
from simulator.graph import ops
from simulator.graph.dtypes import INT32, STRING
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.handing_on import NONE, handed_on
from simulator.graph.messages import Proto
from simulator.graph.ops import Slots
from simulator.graph.tensors import MAX_BYTES, shape_of, size_of
from simulator.wording import by_count, some


def estimate(graph: Graph, cluster: Cluster, profile: Profile | None = None) -> CostTable:
    """Price every node on every device kind of the cluster. By a profile CPUs are priced as they were measured.

    An op that the table of `costs/rules.py` lacks costs a launch and the bytes of its known tensors. A call of code
    outside the graph (py_func) costs the call. Both are marked FALLBACK. The notes name them, ops that lack attributes,
    and assumed sizes. Tensors of unknown size count no bytes. Raises ClusterError if two devices of one kind differ in
    type or speed.
    """
    handing = handed_on(graph)
    works, which = works_of(graph, handing)
    models = _models(cluster)
    column = np.array([work[:3] for work in works], np.int64).reshape(-1, 3)[which]
    fallback = np.array([work.rule is FALLBACK_RULE or work.rule.opaque for work in works], bool)[which]
    resident, notes = _resident_bytes(graph)
    run_ns = _run_ns(graph, cluster, models, works, which)
    source, errors = np.where(fallback, FALLBACK, STATIC), None
    if profile is not None:
        by_profile, errors = profiled_prices(graph, models, works, which, profile)
        run_ns = ints(np.where((by_profile >= 0) & (run_ns >= 0), by_profile, run_ns))
        source = np.where((by_profile >= 0).any(1), PROFILED, source)
    return CostTable(
        kinds=cluster.kinds,
        run_ns=run_ns,
        scratch_bytes=ints(column[:, 2]),
        resident_bytes=resident,
        source=ids(source),
        flops=ints(column[:, 0]),
        moved_bytes=ints(column[:, 1]),
        notes=(*_assumptions(graph, models, works, which, run_ns), *notes, *profile_notes(profile, models, source)),
        errors=errors,
        handed_on=handing,
    )


def _run_ns(graph: Graph, cluster: Cluster, models: Sequence[Device], works: Sequence[OpWork], which: Ints) -> Ints:
    """[N, K] time per node and kind, -1 without a kernel."""
    times = [[time_of(work, model) for model in models] for work in works]
    run_ns = np.array(times, np.int64).reshape(-1, len(models))[which]
    core_ns = np.array([-(-work.core_ps // 1000) for work in works], np.int64)[which]
    launched = np.array([work.rule.launches for work in works], bool)[which]
    gpus = [(column, model) for column, model in enumerate(models) if model.type == "GPU"]
    kernels = _kernels(graph, models)
    if gpus:
        held = ops.of_each(lambda op, attrs: ops.host_memory(op, attrs, "GPU", graph.library), graph.ops, graph.attrs)
        hosted = launched & _in_host_memory(graph, held, core_ns > 0)
        joined, (summed, summing_ns) = fused(graph), all_reduces(graph, cluster)
    for column, model in gpus:
        working_ns = np.array([busy_ns(work, model) for work in works], np.int64)[which]
        run_ns[hosted, column] = DISPATCH_NS + np.maximum(working_ns, core_ns)[hosted]
        run_ns[joined.relus, column] = DISPATCH_NS
        run_ns[joined.additions, column] = DISPATCH_NS + reading_ns(graph, joined.additions, model)
        run_ns[summed, column] = np.maximum(run_ns[summed, column], model.launch_ns + summing_ns)
    run_ns[~kernels] = -1
    run_ns.setflags(write=False)
    return run_ns


def works_of(graph: Graph, handing: Ids) -> tuple[list[OpWork], Ints]:
    """The work of the different ops of the graph, by op, shapes and attributes, and [N] row of each node.

    `handing` [N] are the inputs that nodes hand on (`graph.handing_on`).
    """
    tensor_kind: dict[object, int] = {}  # nodes whose tensors have equal shapes, sizes and types cost the same
    sizes, types = graph.tensor_bytes.tolist(), graph.tensor_dtype.tolist()
    kind = [tensor_kind.setdefault(key, len(tensor_kind)) for key in zip(graph.tensor_shape, sizes, types, strict=True)]
    first, sources = graph.in_ptr.tolist(), graph.edge_tensor.tolist()
    outputs, kept = graph.tensor_ptr.tolist(), (handing != NONE).tolist()
    rows: dict[object, int] = {}
    works: list[OpWork] = []
    which = []
    for node, (op, attrs) in enumerate(zip(graph.ops, graph.attrs, strict=True)):
        priced_by = handing_on(op) if kept[node] else rule(op) or FALLBACK_RULE
        taken = [t for t in sources[first[node] : first[node + 1]] if t >= 0]
        given = range(outputs[node], outputs[node + 1])
        read = [attrs[name].SerializeToString() if name in attrs else None for name in priced_by.attrs]
        key = (op, kept[node], tuple([kind[t] for t in taken]), tuple(kind[given.start : given.stop]), *read)
        row = rows.get(key)
        if row is None:
            row = rows[key] = len(works)
            instance = ShapedOp(
                op,
                tuple(_bounded(graph.tensor_shape[t]) for t in taken),
                tuple(_bounded(graph.tensor_shape[t]) for t in given),
                tuple(max(0, sizes[t]) for t in taken),
                tuple(max(0, sizes[t]) for t in given),
                attrs,
                tuple(types[t] for t in taken),
                tuple(types[t] for t in given),
            )
            works.append(work_of(priced_by, instance))
        which.append(row)
    return works, np.array(which, np.int64)


def _bounded(shape: Shape | None) -> Shape | None:
    """The shape; unknown where a broken file claims more dimensions than TensorFlow allows."""
    return None if shape is not None and len(shape) > MAX_RANK else shape


def _models(cluster: Cluster) -> list[Device]:
    """[K] one device of each kind, with the fewest cores of any; all of a kind must have the same speed."""
    models: dict[str, Device] = {}
    for device in cluster.devices:
        if min(device.flop_per_s, device.bytes_per_s) < 1:
            raise ClusterError(f"{cluster.name}: {device.name} has no speed or no bandwidth; give both above zero")
        model = models.setdefault(device.kind, device)
        for name in ("type", "flop_per_s", "peaks", "bytes_per_s", "launch_ns", "chip"):
            if getattr(device, name) != getattr(model, name):
                raise ClusterError(
                    f"{cluster.name}: {model.name} and {device.name} are both of kind {device.kind!r} but differ in "
                    f"{name}; give them kinds of their own"
                )
    fewest = {kind: min(device.cores for device in cluster.devices if device.kind == kind) for kind in cluster.kinds}
    return [replace(models[kind], cores=fewest[kind]) for kind in cluster.kinds]


def _in_host_memory(graph: Graph, held: Sequence[Slots], scalar: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """[N] nodes whose GPU kernel works on the host: all inputs and outputs are there, and no kernel is launched.

    These are the int32 kernels, which compute shapes and indices, and some scalar kernels. `held` [N] are inputs and
    outputs in host memory.
    """
    found = np.zeros(len(graph), bool)
    narrow = scalar.copy()
    narrow[graph.tensor_node[graph.tensor_dtype == INT32]] = True
    slots = np.bincount(graph.edge_dst[graph.edge_tensor >= 0], minlength=len(graph))
    for node in np.flatnonzero(narrow).tolist():
        taken, given = held[node]
        outputs = int(graph.tensor_ptr[node + 1] - graph.tensor_ptr[node])
        found[node] = len(taken) == slots[node] and len(given) == outputs
    return found


def _kernels(graph: Graph, models: Sequence[Device]) -> npt.NDArray[np.bool_]:
    """[N, K] true where TensorFlow has a kernel for the node on the kind's device type."""
    types = [device.type for device in models]

    def known(op: str, attrs: Attrs) -> tuple[bool, ...]:
        found = {device_type for device_type, _ in ops.kernel_types(op, attrs)}
        return tuple(device_type in found for device_type in types)

    exists = ops.of_each(known, graph.ops, graph.attrs)
    return flags(np.array(exists, bool).reshape(len(graph), len(types)))


# --- notes -----------------------------------------------------------------------------------------------------------


_WORTH_A_NOTE_PS = 1_000_000  # a microsecond: one string, such as the name of a checkpoint, needs no note


def _assumptions(
    graph: Graph, models: Sequence[Device], works: Sequence[OpWork], which: Ints, run_ns: Ints
) -> tuple[str, ...]:
    """Notes on the assumptions of a cost table; `which` is the row of each node in `works`."""
    notes = []
    missing = ops.of_each(ops.missing_attrs, graph.ops, graph.attrs)
    lacking = Counter(op for op, names in zip(graph.ops, missing, strict=True) if names)
    if lacking:
        notes.append(
            f"attributes on which kernels depend are missing from {lacking.total()} nodes, which count as having every "
            f"kernel of their op: {by_count(lacking)}"
        )
    unlisted = _nodes([work.rule is FALLBACK_RULE for work in works], which)
    if unlisted:
        counts = Counter(graph.ops[node] for node in unlisted)
        notes.append(
            f"fallback cost (a launch and the bytes of known tensors) for {counts.total()}: {by_count(counts)}"
        )
    opaque = _nodes([work.rule.opaque for work in works], which)
    if opaque:
        counts = Counter(graph.ops[node] for node in opaque)
        names = some([graph.names[node] for node in opaque])
        notes.append(
            f"the graph does not hold the code of {by_count(counts)}: only the calls are priced; measured times "
            f"(--costs) can replace that: {names}"
        )
    capped = len(_nodes([work.capped for work in works], which))
    if capped:
        notes.append(f"work or bytes of {capped} nodes are beyond 2^60 and were capped: are their shapes right?")
    notes += _sizes(graph, works, which)
    notes += _speeds(models, works, which, run_ns)
    return tuple(notes)


def _nodes(chosen: Sequence[bool], which: Ints) -> list[int]:
    """The nodes whose row is chosen."""
    return [int(node) for node in np.flatnonzero(np.array(chosen, bool)[which])]


def _sizes(graph: Graph, works: Sequence[OpWork], which: Ints) -> list[str]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for node in _nodes([bool(work.assumed) and work.core_ps > _WORTH_A_NOTE_PS for work in works], which):
        found[works[which[node]].assumed][graph.ops[node]] += 1
    return [
        f"sizes that the graph does not hold: {words} are assumed for {counts.total()}: {by_count(counts)}"
        for words, counts in sorted(found.items())
    ]


def _speeds(models: Sequence[Device], works: Sequence[OpWork], which: Ints, run_ns: Ints) -> list[str]:
    """A note for each kind that lacks the speed in a format in which ops compute."""
    notes = []
    for column, model in enumerate(models):
        guessed = _nodes([work.flops > 0 and speed_of(work, model)[1] for work in works], which)
        counts = Counter(works[which[node]].number for node in guessed if run_ns[node, column] >= 0)
        if counts:
            notes.append(
                f"number formats without a speed of {model.kind}, and the number of nodes that compute in them: "
                f"{by_count(counts)}; float64 is taken as half as fast as float32, the others as equally fast"
            )
    return notes


# --- resident memory -------------------------------------------------------------------------------------------------


MAX_RANK = 254  # TensorShape::MaxDimensions, tensorflow/core/framework/tensor_shape.h
_VARIABLES = frozenset(("Variable", "VariableV2", "VarHandleOp"))
_CONSTANTS = frozenset(("Const", "HostConst", "_EagerConst"))
_TABLES = ("HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2", "MutableHashTableOfTensors")
_UNSIZED = frozenset((*_TABLES, "MutableHashTableOfTensorsV2", "MutableDenseHashTable", "MutableDenseHashTableV2"))


def _resident_bytes(graph: Graph) -> tuple[Ints, tuple[str, ...]]:
    """[N] resident bytes per node, 0 for most, and notes on nodes of unknown size.

    An optimizer's slots are variables themselves. A VarHandleOp hands out a handle; its size is in its attributes. The
    graph does not hold the size of a lookup table, which counts 0 and gets a note.
    """
    held = [0] * len(graph)
    unknown: Counter[str] = Counter()
    for node, op in enumerate(graph.ops):
        if op in _VARIABLES:
            size = _declared_bytes(graph.attrs[node])
            if size < 0 and op != "VarHandleOp":
                size = _output_bytes(graph, node)
        elif op in _CONSTANTS:
            size = _constant_bytes(graph, node)
        elif op in _UNSIZED:
            size = -1
        else:
            continue
        held[node] = size if 0 <= size <= MAX_BYTES else 0
        if not 0 <= size <= MAX_BYTES:
            unknown[op] += 1
    note = f"memory held by {unknown.total()} nodes is unknown and counts 0: {by_count(unknown)}"
    return ints(held), (note,) if unknown else ()


def _declared_bytes(attrs: Attrs) -> int:
    """Bytes by the attributes `dtype` and `shape`; -1 if they are missing or leave the size open."""
    return _bytes_of(attrs["dtype"].type, attrs["shape"].shape) if "dtype" in attrs and "shape" in attrs else -1


def _output_bytes(graph: Graph, node: int) -> int:
    first, last = graph.tensor_ptr[node], graph.tensor_ptr[node + 1]
    return int(graph.tensor_bytes[first]) if last > first else -1


def _constant_bytes(graph: Graph, node: int) -> int:
    """Bytes of a constant; strings by their length in the file."""
    size = _output_bytes(graph, node)
    value = graph.attrs[node].get("value")
    if size >= 0 or value is None:
        return size
    held = value.tensor
    letters = sum(map(len, held.string_val)) or len(held.tensor_content)
    return letters if held.dtype == STRING else _bytes_of(held.dtype, held.tensor_shape)


def _bytes_of(dtype: int, shape: Proto) -> int:
    return -1 if len(shape.dim) > MAX_RANK else size_of(dtype, shape_of(shape))
