"""Steps that take from queues and iterators, with what fills these beside them, by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simulator.cluster.cluster import Cluster
from simulator.columns import ids
from simulator.costs.table import MEASURED
from simulator.graph.graph import Graph
from simulator.graph.step import choose_step
from simulator.partitioning.cut import partition
from simulator.training.clients import Client
from simulator.training.programs.program import Program
from tests.execution.cases import assigned, attrs_of, costs
from tests.strategies import Rows, shapes_attr, type_attr, types_attr
from tests.training.queues import INT64, const, number, queue, text, types
from tests.training.workloads import Priced


def enqueue(rows: Rows, handle: str, value: str, *, name: str, many: int = 0, device: str = "") -> str:
    """An op that adds one element, or so many at once."""
    op = "QueueEnqueueManyV2" if many else "QueueEnqueueV2"
    return rows.add(name, op, [handle, value], device=device, Tcomponents=types(INT64))


def dequeue(rows: Rows, handle: str, *, name: str, count: int = 0, device: str = "") -> str:
    """An op that takes one element, or so many at once."""
    shape = shapes_attr((count,) if count else ())
    if not count:
        return rows.add(
            name, "QueueDequeueV2", [handle], device=device, component_types=types(INT64), _output_shapes=shape
        )
    const(rows, f"{name}/n", count, device=device)
    return rows.add(
        name,
        "QueueDequeueManyV2",
        [handle, f"{name}/n"],
        device=device,
        component_types=types(INT64),
        _output_shapes=shape,
    )


def example(rows: Rows, name: str, *, of: str = "", count: int = 0, device: str = "") -> str:
    """An op that makes an example, or makes something of one."""
    if not of:
        of = rows.add(
            f"{name}/x",
            "Const",
            device=device,
            dtype=type_attr(INT64),
            _output_shapes=shapes_attr((count,) if count else ()),
        )
    shape = shapes_attr((count,) if count else ())
    return rows.add(name, "Identity", [of], device=device, T=type_attr(INT64), _output_shapes=shape)


def reading(*, batch: int = 4, capacity: int = 8, **attrs: Any) -> Rows:
    """A queue of examples, which an op `make` makes, and a step that takes a batch and works on it."""
    rows = Rows()
    queue(rows, "examples", capacity=capacity, device="", **attrs)
    enqueue(rows, "examples", example(rows, "make"), name="add")
    rows.add("work", "Identity", [dequeue(rows, "examples", name="batch", count=batch)], **attrs_of("Identity"))
    return rows


def iterating() -> Rows:
    """A step that takes from an iterator whose dataset is not there."""
    rows = Rows()
    outputs = {"output_types": types_attr(INT64), "output_shapes": shapes_attr((4,))}
    rows.add("iterator", "IteratorV2", shared_name=text(""), container=text(""), **outputs)
    rows.add("next", "IteratorGetNext", ["iterator"], _output_shapes=shapes_attr((4,)), **outputs)
    rows.add("work", "Identity", ["next"], **attrs_of("Identity"))
    return rows


def client(
    on: Cluster,
    graph: Graph,
    run_ns: Mapping[str, int],
    *,
    name: str = "worker:0",
    task: int = 0,
    where: Mapping[str, int] | None = None,
    fetches: Sequence[str] = ("work",),
    examples: int = 4,
) -> Priced:
    """A client whose step is `fetches`, all on the first device of its task unless `where` says another."""
    own = next(row for row, place in enumerate(on.task_of) if place == task)
    rows = [(where or {}).get(node, own) for node in graph.names]
    priced = costs(graph, on, [run_ns.get(node, 0) for node in graph.names])
    priced = replace(priced, source=ids([MEASURED] * len(graph)))
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=choose_step(graph, fetches=tuple(fetches)))
    program = Program(name, on.tasks[task], graph, tuple(fetches), examples=examples)
    return Client(program, pieces), priced


__all__ = ["client", "dequeue", "enqueue", "example", "iterating", "number", "reading"]
