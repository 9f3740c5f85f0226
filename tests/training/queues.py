"""Graphs of accumulators and queues for the tests: ops by hand, as TensorFlow's Python would write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import choose_step
from simulator.partitioning.cut import partition
from simulator.partitioning.partitions import Partitions
from tests.strategies import FLOAT, INT32, Rows, shapes_attr, type_attr, typed

INT64 = 9
PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def text(value: str) -> Any:
    return AttrValue(s=value.encode())


def number(value: int) -> Any:
    return AttrValue(i=value)


def types(*dtypes: int) -> Any:
    made = AttrValue()
    made.list.type.extend(dtypes)
    return made


def const(rows: Rows, name: str, values: int | Sequence[int], *, device: str = PS, dtype: int = INT32) -> str:
    """A Const of whole numbers: a scalar for one number, else a vector."""
    array = np.array(values, np.int32 if dtype == INT32 else np.int64)
    value = AttrValue()
    value.tensor.dtype = dtype
    value.tensor.tensor_shape.SetInParent()
    for size in array.shape:
        value.tensor.tensor_shape.dim.add(size=size)
    value.tensor.tensor_content = array.tobytes()
    return rows.add(name, "Const", device=device, dtype=type_attr(dtype), value=value)


def accumulator(
    rows: Rows, name: str, *, shared: str = "", device: str = PS, op: str = "ConditionalAccumulator"
) -> str:
    shape = AttrValue()
    shape.shape.SetInParent()
    return rows.add(
        name, op, device=device, dtype=type_attr(), shape=shape, container=text(""), shared_name=text(shared)
    )


def queue(rows: Rows, name: str, *, capacity: int = -1, device: str = PS, op: str = "FIFOQueueV2", **attrs: Any) -> str:
    return rows.add(name, op, device=device, component_types=types(INT64), capacity=number(capacity), **attrs)


def gradient(rows: Rows, name: str = "g", *, device: str = WORKER) -> str:
    return rows.add(
        name, "Placeholder", device=device, dtype=type_attr(), shape=AttrValue(shape={}), _output_shapes=shapes_attr(())
    )


def apply(rows: Rows, handle: str, *, name: str = "apply", device: str = PS, after: Sequence[str] = ()) -> str:
    step = const(rows, f"{name}/step", 0, dtype=INT64, device=WORKER)
    given = gradient(rows, f"{name}/g")
    return rows.add(
        name, "AccumulatorApplyGradient", [handle, step, given, *after], device=device, dtype=type_attr(FLOAT)
    )


def take(rows: Rows, handle: str, needed: str, *, name: str = "take", device: str = PS) -> str:
    return rows.add(name, "AccumulatorTakeGradient", [handle, needed], device=device, dtype=type_attr(FLOAT))


def cut(
    graph: Graph, cluster: Cluster | str, fetches: Sequence[str] | None = None, flavour: str = "local"
) -> Partitions:
    """The pieces of a step, placed as TensorFlow would."""
    from placement.placing import place
    from simulator.costs.estimate import estimate

    on = load_cluster(cluster) if isinstance(cluster, str) else cluster
    step = choose_step(graph, fetches=fetches)
    placed = place(graph, on, estimate(graph, on), step=step, algorithm="tensorflow")
    return partition(graph, placed, on, step=step, flavour=flavour)


def synchronised(*, aggregate: int, handed: int, tokens: int | None, devices: tuple[str, str] = (PS, WORKER)) -> Graph:
    """What SyncReplicasOptimizer makes around one variable: a worker's train op, the chief's loop, the first tokens."""
    ps, worker = devices
    rows = Rows()
    accumulator(rows, "acc", shared="w:0/grad_accum", device=ps)
    queue(rows, "q", shared_name=text("sync_token_q"), device=ps)
    variable(rows, "w", device=ps)
    variable(rows, "global_step", dtype=INT64, device=ps)
    variable(rows, "local_step", dtype=INT64, device=worker)
    rows.add("local_step/read", "Identity", ["local_step"], device=worker, T=type_attr(INT64))
    given = gradient(rows, device=worker)
    rows.add("apply", "AccumulatorApplyGradient", ["acc", "local_step/read", given], device=ps, dtype=type_attr())
    rows.add("token", "QueueDequeueV2", ["q", "^apply"], device=ps, component_types=types(INT64))
    rows.add("train", "Assign", ["local_step", "token"], device=worker, T=type_attr(INT64))
    take(rows, "acc", const(rows, "needed", aggregate, device=ps), device=ps)
    rate = rows.add("rate", "Const", device=ps, **typed("Const", ()))
    rows.add("update", "ApplyGradientDescent", ["w", rate, "take"], device=ps, T=type_attr())
    one = const(rows, "one", 1, dtype=INT64, device=ps)
    rows.add("count", "AssignAdd", ["global_step", one, "^update"], device=ps, T=type_attr(INT64))
    rows.add("global_step/read", "Identity", ["global_step"], device=ps, T=type_attr(INT64))
    for name, number_of, after in (("tokens", handed, ["^count"]), ("start", tokens, [])):
        if number_of is not None:
            const(rows, f"{name}/dims", [number_of], device=ps)
            rows.add(f"{name}/fill", "Fill", [f"{name}/dims", "global_step/read", *after], device=ps)
            rows.attrs[-1].update(T=type_attr(INT64), index_type=type_attr(INT32))
            rows.add(name, "QueueEnqueueManyV2", ["q", f"{name}/fill"], device=ps, Tcomponents=types(INT64))
    return rows.built()


def variable(rows: Rows, name: str, *, dtype: int = FLOAT, device: str = PS) -> str:
    return rows.add(name, "VariableV2", device=device, dtype=type_attr(dtype), shape=AttrValue(shape={}))
