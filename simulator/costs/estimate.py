"""Estimates for a graph: the time of each op on each kind of device by a roofline, and the memory that stays.

An op without a kernel start (`Rule.launches`) costs the executor's dispatch on every device. A kernel of a GPU that
works in host memory alone runs on the CPU that stands for the GPU. It costs what the op costs there.

A graph of thousands of nodes has some hundred different ones. Each of these is priced once, by exact integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster, Device
from simulator.columns import Ids, Ints, flags, ids, ints
from simulator.costs.estimates.collectives import price_collectives
from simulator.costs.estimates.fusion import fused, reading_ns
from simulator.costs.estimates.layout import channels_first
from simulator.costs.estimates.memory import resident_bytes
from simulator.costs.estimates.nccl import all_reduces
from simulator.costs.estimates.notes import alike, assumptions
from simulator.costs.estimates.profiled import profile_notes, profiled_prices
from simulator.costs.formulas.shaped_op import ShapedOp
from simulator.costs.profile import Profile
from simulator.costs.roofline import EXECUTOR_NS, OpWork, Works, time_of, work_of
from simulator.costs.rules import FALLBACK_RULE, Rule, copying, handing_on, rule
from simulator.costs.table import FALLBACK, PROFILED, STATIC, CostTable, scaled_ns
from simulator.errors import ClusterError
from simulator.graph import ops
from simulator.graph.const_values import constant
from simulator.graph.dtypes import INT32
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.handing_on import COPIED, NONE, handed_on
from simulator.graph.ops import Slots
from simulator.graph.step import Step
from simulator.graph.tensors import MAX_RANK


def estimate(
    graph: Graph, cluster: Cluster, profile: Profile | None = None, *, joined: bool = True, step: Step | None = None
) -> CostTable:
    """Price every node on every device kind of the cluster. By a profile CPUs are priced as they were measured.

    The nodes of the step say then what the caches hold; None: those of the one that is run by default. With `joined`,
    ops of a GPU that TensorFlow joins with another's kernel cost next to nothing there.

    An op that the table of `costs/rules.py` lacks costs a launch and the bytes of its known tensors. A call of code
    outside the graph (py_func) costs the call. Both are marked FALLBACK. The notes name them, ops that lack attributes,
    and assumed sizes. Tensors of unknown size count no bytes. Raises ClusterError if two devices of one kind differ in
    type or speed.
    """
    handing = handed_on(graph)
    works = works_of(graph, handing)
    models = _models(cluster)
    fallback = works.flags(lambda work: work.rule is FALLBACK_RULE or work.rule.opaque)
    resident, notes = resident_bytes(graph)
    run_ns = np.array([[time_of(work, model) for model in models] for work in works.different], np.int64)
    run_ns = run_ns.reshape(-1, len(models))[works.which]
    source, errors = np.where(fallback, FALLBACK, STATIC), None
    sources = np.repeat(source[:, None], len(models), axis=1)
    if profile is not None:
        by_profile, errors = profiled_prices(graph, models, works, handing, profile, step)
        by_profile = _on_parts_of_cores(by_profile, models)
        run_ns = np.where(by_profile >= 0, by_profile, run_ns)
        source = np.where((by_profile >= 0).any(1), PROFILED, source)
        sources = np.where(by_profile >= 0, PROFILED, sources)
    of_prices = (sources, *([errors.relative] if errors is not None else []))
    _price_on_gpus(run_ns, of_prices, graph, cluster, models, works)
    if joined:
        _join_on_gpus(run_ns, graph, models)
    exchanged = price_collectives(run_ns, graph, cluster)
    run_ns[~_kernels(graph, models)] = -1
    run_ns.setflags(write=False)
    return CostTable(
        kinds=cluster.kinds,
        run_ns=run_ns,
        scratch_bytes=_scratch(models, works),
        resident_bytes=resident,
        source=ids(source),
        flops=works.ints(lambda work: work.flops),
        moved_bytes=works.ints(lambda work: work.moved),
        notes=(
            *assumptions(graph, models, works, run_ns, sources),
            *exchanged,
            *notes,
            *profile_notes(profile, models, source),
            *(alike(models) if profile is not None else ()),
        ),
        errors=errors,
        handed_on=handing,
        kind_source=sources.astype(np.int32),
        profile=profile,
    )


def _on_parts_of_cores(run_ns: Ints, models: Sequence[Device]) -> Ints:
    """[N, K] times on whole cores, longer where more devices share a processor than it has cores."""
    found = np.array(run_ns)
    for column, model in enumerate(models):
        if model.whole is not None and model.parts > model.whole.cores:
            found[:, column] = scaled_ns(run_ns[:, column], model.parts, model.whole.cores)
    return found


def _scratch(models: Sequence[Device], works: Works) -> Ints:
    """[N] scratch memory; what cuDNN may take for a convolution counts where some device is no CPU."""
    elsewhere = any(model.type != "CPU" for model in models)
    return works.ints(lambda work: work.scratch * (elsewhere or not work.rule.of_cudnn))


def _price_on_gpus(
    run_ns: npt.NDArray[np.int64],
    of_prices: Sequence[npt.NDArray[Any]],
    graph: Graph,
    cluster: Cluster,
    models: Sequence[Device],
    works: Works,
) -> None:
    """Change times on GPUs, [N, K], where the host works, or all GPUs wait for each other.

    What is known of a price, `of_prices`, [N, K] each, goes with it. Any: numbers of any type.
    """
    gpus = [(column, model) for column, model in enumerate(models) if model.type == "GPU"]
    if not gpus:
        return
    held = ops.of_nodes(lambda op, attrs: ops.host_memory(op, attrs, "GPU", graph.library), graph)
    scalar = works.flags(lambda work: work.core_ps > 0)
    hosted = works.flags(lambda work: work.rule.launches) & _in_host_memory(graph, held, scalar)
    summed, summing_ns = all_reduces(graph, cluster)
    hosts = {(kind, cluster.kind_of[home]) for kind, home in zip(cluster.kind_of, cluster.home.tolist(), strict=True)}
    for column, model in gpus:
        own = sorted(host for kind, host in hosts if kind == column)  # all hosts of such GPUs
        slowest = np.array(own)[run_ns[:, own].argmax(1)]
        for table in (run_ns, *of_prices):
            table[hosted, column] = table[hosted, slowest[hosted]]
        run_ns[summed, column] = np.maximum(run_ns[summed, column], model.launch_ns + summing_ns)


def _join_on_gpus(run_ns: npt.NDArray[np.int64], graph: Graph, models: Sequence[Device]) -> None:
    """Change times on GPUs, [N, K], where several kernels are one."""
    gpus = [(column, model) for column, model in enumerate(models) if model.type == "GPU"]
    if not gpus:
        return
    made = fused(graph)
    for column, model in gpus:
        run_ns[made.without_reads, column] = EXECUTOR_NS
        run_ns[made.additions, column] = EXECUTOR_NS + reading_ns(graph, made.additions, model)


def works_of(graph: Graph, handing: Ids) -> Works:
    """The work of the nodes of the graph, by op, shapes and attributes.

    `handing` [N] are the inputs that nodes hand on, or that they copy what others would (`graph.handing_on`).
    """
    tensor_kind: dict[object, int] = {}  # nodes whose tensors have equal shapes, sizes and types cost the same
    sizes, types = graph.tensor_bytes.tolist(), graph.tensor_dtype.tolist()
    kind = [tensor_kind.setdefault(key, len(tensor_kind)) for key in zip(graph.tensor_shape, sizes, types, strict=True)]
    data = graph.edge_tensor >= 0
    tensor = graph.edge_tensor[data].tolist()
    inputs, outputs = np.concatenate([[0], np.cumsum(data)])[graph.in_ptr].tolist(), graph.tensor_ptr.tolist()
    read_kind = [kind[t] for t in tensor]
    how = np.minimum(handing, 0).tolist()
    rows: dict[object, int] = {}
    works: list[OpWork] = []
    which, layout = [], channels_first(graph)
    read_of = ops.of_nodes(_read_attrs, graph)
    for node, (op, attrs) in enumerate(zip(graph.ops, graph.attrs, strict=True)):
        begin, end, first, last = inputs[node], inputs[node + 1], outputs[node], outputs[node + 1]
        read = read_of[node] if how[node] == NONE else ()
        leaps = op == "StridedSlice" and _leaps(graph, tensor[begin:end])
        key = (op, how[node], tuple(read_kind[begin:end]), tuple(kind[first:last]), read, leaps)
        row = rows.get(key)
        if row is None:
            row = rows[key] = len(works)
            taken, given = tensor[begin:end], range(first, last)
            instance = ShapedOp(
                op,
                tuple(_bounded(graph.tensor_shape[t]) for t in taken),
                tuple(_bounded(graph.tensor_shape[t]) for t in given),
                tuple(max(0, sizes[t]) for t in taken),
                tuple(max(0, sizes[t]) for t in given),
                attrs,
                tuple(types[t] for t in taken),
                tuple(types[t] for t in given),
                layout,
                leaps,
            )
            works.append(work_of(_rule(op, how[node]), instance))
        which.append(row)
    return Works(works, ints(which))


def _leaps(graph: Graph, taken: Sequence[int]) -> bool:
    """Tell whether a slice of these inputs has steps other than 1; those that no constant says are taken for 1."""
    steps = constant(graph, int(graph.tensor_node[taken[-1]])) if taken else None
    return steps is not None and any(step != 1 for step in steps)


def _rule(op: str, how: int) -> Rule:
    """The row of an op that hands an input on, 0, or copies it, or does as it always does."""
    return (rule(op) or FALLBACK_RULE) if how == NONE else copying(op) if how == COPIED else handing_on(op)


def _read_attrs(op: str, attrs: Attrs) -> tuple[bytes | None, ...]:
    """The attributes that the price of an op depends on."""
    priced_by = rule(op) or FALLBACK_RULE
    return tuple(attrs[name].SerializeToString() if name in attrs else None for name in priced_by.attrs)


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
        found[node] = len(taken) == slots[node] and len(given) == len(graph.outputs(node))
    return found


def _kernels(graph: Graph, models: Sequence[Device]) -> npt.NDArray[np.bool_]:
    """[N, K] true where TensorFlow has a kernel for the node on the kind's device type."""
    types = [device.type for device in models]

    def known(op: str, attrs: Attrs) -> tuple[bool, ...]:
        found = {device_type for device_type, _ in ops.kernel_types(op, attrs)}
        return tuple(device_type in found for device_type in types)

    exists = np.array(ops.of_alike(known, graph), bool).reshape(-1, len(types))
    return flags(exists[graph.alike[1]])
