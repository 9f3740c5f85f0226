"""Find what the clients of a training take their examples from, and how fast each of these inputs is.

An input is a queue into which no client's step enqueues, an iterator, or what a client is fed. One that is found by
the same name on the same device is one input, whoever takes from it: each session that draws from a queue fills it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from simulator.errors import SimvizError
from simulator.graph.shapes import Infer
from simulator.training.crew.operations import origins
from simulator.training.crew.resources import Key, crossing, find, key_of
from simulator.training.crew.synchronising import DEQUEUE, ENQUEUE
from simulator.training.inputs.core_costs import processor
from simulator.training.inputs.datasets import Datasets
from simulator.training.inputs.pipeline import (
    FEED,
    Draw,
    Pipeline,
    Pipelines,
    Producer,
    Rate,
    UnknownRateError,
    together,
)
from simulator.training.inputs.queue_runners import QueueRunners, working_task
from simulator.wording import near, some

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.partitioning import Partitions
    from simulator.training.crew.combining import Client
    from simulator.training.programs.program import Program

GIVEN_BUFFER = 2  # elements that an iterator whose rate is given has room for
MOST_ROOM = 1 << 20  # elements: a queue with room for more counts as one without bound

_ITERATES = re.compile(r"\w*Iterator\w*GetNext\w*")


@dataclass(slots=True)
class _Found:
    """An input that some clients take from."""

    key: Key
    owner: int  # row of the node that makes it, in the pieces of the first client that takes from it
    kept_by: int  # row of the device
    names: set[str]  # by which its rate may be given
    clients: list[int] = field(default_factory=list)
    amount: int = 0  # elements that a step of the first of these takes


def inputs_of(
    clients: Sequence[Client],
    cluster: Cluster,
    costs: Sequence[CostTable],
    *,
    rates: Sequence[Rate] = (),
    infer: Infer | None = None,
) -> Pipelines:
    """The inputs of these clients; `costs` has the table of each client's graph.

    `rates` are those that are given; the others are estimated from what fills queues and from datasets, whose functions
    shapes `infer` is asked for. An input of which nobody knows how fast it is never runs dry; a note says so.
    What clients are fed counts where its rate is given. Raises SimvizError for a rate of an input that there is not.
    """
    found: dict[Key, _Found] = {}
    drawn = _drawn(clients, cluster, found)
    _fed(clients, cluster, rates, found, drawn)
    _check(rates, found)
    made: dict[Key, Pipeline] = {}
    unknown: dict[Key, str] = {}
    for key, one in found.items():
        rate = _rate_of(rates, one)
        if rate is not None and rate.examples_per_s is None:
            continue
        try:
            made[key] = _pipeline(one, rate, clients, cluster, costs, infer)
        except UnknownRateError as error:
            unknown.setdefault(key._replace(device=""), str(error))
    row = {key: at for at, key in enumerate(made)}
    draws = tuple(tuple(Draw(node, row[key], amount) for node, key, amount in one if key in row) for one in drawn)
    notes = [
        f"{key.family} {key.name}: nobody knows how fast it is filled ({why}), so it never runs dry; say it by --input "
        f"{key.name}=1000/s."
        for key, why in unknown.items()
    ]
    return Pipelines(tuple(made.values()), draws, tuple(notes))


class _Op(NamedTuple):
    """An op of a client's pieces on a queue or an iterator."""

    kind: int  # DEQUEUE or ENQUEUE
    node: int
    key: Key
    owner: int  # row of the node that makes it
    device: int  # of the owner
    amount: int  # elements


_Drawn: TypeAlias = list[tuple[int, Key, int]]  # node of the pieces, input, elements


def _drawn(clients: Sequence[Client], cluster: Cluster, found: dict[Key, _Found]) -> list[_Drawn]:
    """What each client takes from queues and iterators."""
    known: dict[int, list[_Op]] = {}
    ops: list[list[_Op]] = []
    for client in clients:
        pieces = client.partitions
        if id(pieces) not in known:
            known[id(pieces)] = _ops(pieces)
        places = [_on(client, op.device) for op in known[id(pieces)]]
        keys = [
            op.key._replace(device=cluster.devices[at].name) for op, at in zip(known[id(pieces)], places, strict=True)
        ]
        moved = zip(known[id(pieces)], keys, places, strict=True)
        ops.append([op._replace(key=key, device=at) for op, key, at in moved])
    filled = {op.key for mine in ops for op in mine if op.kind == ENQUEUE}
    drawn: list[_Drawn] = []
    for c, mine in enumerate(ops):
        taken = [op for op in mine if op.key not in filled]
        for op in taken:
            names = {op.key.name, clients[c].partitions.graph.names[op.owner]}
            one = found.setdefault(op.key, _Found(op.key, op.owner, op.device, names))
            if c not in one.clients:
                one.clients.append(c)
            one.amount += op.amount * (c == one.clients[0])
        drawn.append([(op.node, op.key, op.amount) for op in taken])
    return drawn


def _ops(pieces: Partitions) -> list[_Op]:
    """What takes from queues and iterators, and adds to queues."""
    graph, across, made_by = pieces.graph, crossing(pieces), find(pieces)
    columns = (made_by.kind.tolist(), made_by.rows.tolist(), made_by.key, made_by.owner.tolist())
    every = [
        _Op(kind, node, key, owner, device, max(1, amount))
        for kind, node, key, owner, device, amount in zip(
            *columns, made_by.device.tolist(), made_by.amount.tolist(), strict=True
        )
    ]
    found = [op for op in every if op.kind in (DEQUEUE, ENQUEUE) and op.key.family == "queue"]
    for row, op in enumerate(graph.ops):
        if _ITERATES.fullmatch(op):
            made = origins(graph, row, 0, across)
            if len(made) == 1:
                device = int(pieces.device[made[0]])
                key = key_of(graph, made[0], "iterator", pieces.devices[device])
                found.append(_Op(DEQUEUE, row, key, made[0], device, 1))
    return found


def _fed(
    clients: Sequence[Client],
    cluster: Cluster,
    rates: Sequence[Rate],
    found: dict[Key, _Found],
    drawn: list[_Drawn],
) -> None:
    """Add what clients are fed, where its rate is given: by its name, or for all inputs where there is no other."""
    general = any(rate.name is None and rate.examples_per_s is not None for rate in rates) and not found
    asked = {rate.name for rate in rates if rate.name is not None}
    for c, client in enumerate(clients):
        program, pieces = client.program, client.partitions
        names = {FEED, *program.feeds, *(name.removesuffix(":0") for name in program.feeds)}
        if program.role != "worker" or not program.feeds or not (general or names & asked):
            continue
        begins = np.diff(pieces.graph.in_ptr) == 0
        nodes = np.flatnonzero((pieces.endpoint >= 0) & begins).tolist()
        if nodes:
            device = _on(client, int(pieces.device[nodes[0]]))
            key = Key("", program.name, cluster.devices[device].name, FEED)
            found[key] = _Found(key, nodes[0], device, names, [c], 1)
            drawn[c].append((nodes[0], key, 1))


def _on(client: Client, device: int) -> int:
    """Where a device of a client's pieces is for that client."""
    return device if client.devices is None else int(client.devices[device])


def _rate_of(rates: Sequence[Rate], one: _Found) -> Rate | None:
    """What is said of an input: of it by name, else of all; the last word counts."""
    named = [rate for rate in rates if rate.name in one.names]
    said = named or [rate for rate in rates if rate.name is None]
    return said[-1] if said else None


def _check(rates: Sequence[Rate], found: dict[Key, _Found]) -> None:
    known = sorted({FEED if one.key.family == FEED else one.key.name for one in found.values()})
    for rate in rates:
        if rate.name is not None and not any(rate.name in one.names for one in found.values()):
            there = f"takes its examples from {some(known)}" if known else "takes examples from no queue or iterator"
            raise SimvizError(
                f"{rate.text!r}: there is no input {rate.name!r}; the training {there}.{near(rate.name, known)}"
            )


def _pipeline(
    one: _Found,
    rate: Rate | None,
    clients: Sequence[Client],
    cluster: Cluster,
    costs: Sequence[CostTable],
    infer: Infer | None,
) -> Pipeline:
    first = clients[one.clients[0]]
    attrs = first.partitions.graph.attrs[one.owner]
    capacity = int(attrs["capacity"].i) if "capacity" in attrs else -1
    reserve = int(attrs["min_after_dequeue"].i) if "min_after_dequeue" in attrs else 0
    examples = first.program.examples // one.amount
    where = processor(cluster, first.program.task).device
    if rate is not None:
        if one.key.family == FEED and not examples:
            raise SimvizError(
                f"{rate.text!r}: nothing says how many examples {first.program.name} is fed; add --batch."
            )
        producer = Producer(1, rate.element_ns(examples or 1))
        capacity = {"queue": capacity, FEED: 1}.get(one.key.family, GIVEN_BUFFER)
    elif one.key.family == "queue":
        producer, where = _fillers(one, clients, cluster, costs)
    else:
        producer, capacity = _iterated(one, clients, cluster, infer)
    if capacity > MOST_ROOM or capacity < 1:
        capacity = -1
    return Pipeline(
        key=one.key,
        producer=producer,
        device=where,
        kept_by=one.kept_by,
        capacity=capacity,
        reserve=max(0, reserve if capacity < 0 else min(reserve, capacity - 1)),
        examples=examples,
        given=rate is not None,
        clients=tuple(one.clients),
    )


def _fillers(
    one: _Found, clients: Sequence[Client], cluster: Cluster, costs: Sequence[CostTable]
) -> tuple[Producer, int]:
    """Who fills a queue, and where the first of them works: the queue runners of each session that takes from it."""
    name = clients[one.clients[0]].partitions.graph.names[one.owner]
    made: dict[tuple[int, int], Producer] = {}
    sessions: dict[str, Producer] = {}
    works_at: list[int] = []
    for c in one.clients:
        program, lead = clients[c].program, _lead(clients, c)
        row = lead.graph.index.get(name, -1)
        task = working_task(lead.graph, row)
        where = processor(cluster, program.task if task in (None, lead.task) or task not in cluster.tasks else task)
        works_at.append(where.device)
        key = (id(lead.graph), where.column)
        if key not in made:
            made[key] = QueueRunners(lead.graph, costs[c], where).producer(row)
        sessions.setdefault(program.task, made[key])
    return together(list(sessions.values())), works_at[0]


def _iterated(one: _Found, clients: Sequence[Client], cluster: Cluster, infer: Infer | None) -> tuple[Producer, int]:
    """Who makes the elements of an iterator, on its session's task, and for how many there is room."""
    first = clients[one.clients[0]]
    graph = _lead(clients, one.clients[0]).graph
    row = graph.index.get(first.partitions.graph.names[one.owner], -1)
    if row < 0 or "Iterator" not in graph.ops[row]:
        raise UnknownRateError("its dataset is not in the graph")
    made = Datasets(graph, processor(cluster, first.program.task), infer)
    return made.producer(row)


def _lead(clients: Sequence[Client], c: int) -> Program:
    program = clients[c].program
    return program if program.like is None else clients[program.like].program
