"""Inputs of a training: the queues, iterators and feeds from which clients take examples, and the rate of each.

An input is a queue into which no client's step enqueues, an iterator, or the feed of a client. Inputs of one name on
one device are one input, whoever takes from it: each session that takes from a queue also fills it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from simulator.errors import GraphError, SimvizError
from simulator.graph.graph import Shape
from simulator.shapes.iterators import dataset_of
from simulator.training.clients import Client, once_each, original
from simulator.training.inputs.pipeline import FEED, Draw, InputPipeline, InputPipelines, Rate
from simulator.training.inputs.producers import (
    Datasets,
    Producer,
    QueueRunners,
    UnknownRateError,
    processor,
    together,
    working_task,
)
from simulator.training.recognition.sync_ops import (
    DEQUEUE,
    ENQUEUE,
    ResourceKey,
    SyncOp,
    find,
    key_of,
    moved,
    origins,
    sends_of_recvs,
)
from simulator.wording import counted, near, some

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable

GIVEN_BUFFER = 2  # elements that an iterator of given rate has room for
MOST_ROOM = 1 << 20  # elements: a queue with room for more counts as one without bound

_ITERATES = re.compile(r"\w*Iterator\w*GetNext\w*")


@dataclass(slots=True)
class _Found:
    """An input that some clients take from."""

    key: ResourceKey
    owner: int  # row of the node that makes it, in the pieces of the first client that takes from it
    kept_by: int  # row of the device
    names: set[str]  # by which its rate may be given
    clients: list[int] = field(default_factory=list)
    amount: int = 0  # elements that a step of the first of these takes
    shapes: tuple[Shape | None, ...] = ()  # of what it takes at once


_Drawn: TypeAlias = list[tuple[int, ResourceKey, int]]  # node of the pieces, input, elements


def inputs_of(
    clients: Sequence[Client],
    cluster: Cluster,
    costs: Sequence[CostTable],
    *,
    rates: Sequence[Rate] = (),
) -> InputPipelines:
    """The inputs of these clients; `costs` has the table of each client's graph.

    `rates` are given rates. Others are estimated from the ops that fill a queue and from datasets. An input of unknown
    rate never runs dry; a note says so. The feed of a client counts where its rate is given. Raises SimvizError for a
    rate of an input that does not exist.
    """
    search = _InputSearch(clients, cluster, costs, rates)
    drawn = search.drawn()
    search.add_feeds(drawn)
    search.check_rates()
    made: dict[ResourceKey, InputPipeline] = {}
    unknown: dict[ResourceKey, str] = {}
    for key, one in search.found.items():
        rate = search.rate_of(one)
        if rate is not None and rate.examples_per_s is None:
            continue
        try:
            made[key] = search.pipeline(one, rate)
        except UnknownRateError as error:
            unknown.setdefault(key._replace(device=""), str(error))
    row = {key: at for at, key in enumerate(made)}
    draws = tuple(tuple(Draw(node, row[key], amount) for node, key, amount in one if key in row) for one in drawn)
    notes = [
        f"{key.family} {key.name}: it may be slower, as the functions of {some(one.producer.vague)} have tensors of "
        "unknown size"
        for key, one in made.items()
        if one.producer.vague
    ]
    notes += [
        f"{key.family} {key.name}: its rate is unknown ({why}), so it never runs dry. Give its rate by --input "
        f"{key.name}=1000/s."
        for key, why in unknown.items()
    ]
    return InputPipelines(tuple(made.values()), draws, tuple(notes))


@dataclass(frozen=True)
class _InputSearch:
    """The clients of a training, and the inputs found so far."""

    clients: Sequence[Client]
    cluster: Cluster
    costs: Sequence[CostTable]
    rates: Sequence[Rate]
    found: dict[ResourceKey, _Found] = field(default_factory=dict)

    def drawn(self) -> list[_Drawn]:
        """[C] the elements that each client takes from queues and iterators."""
        names = self.cluster.device_names
        found = once_each(self.clients, _operations)
        ops = [moved(own, client.devices, names) for client, own in zip(self.clients, found, strict=True)]
        filled = {op.key for mine in ops for op in mine if op.kind == ENQUEUE}
        drawn: list[_Drawn] = []
        for c, mine in enumerate(ops):
            taken = [op for op in mine if op.key not in filled]
            for op in taken:
                known_as = {op.key.name, self.clients[c].partitions.graph.names[op.owner]}
                one = self.found.setdefault(op.key, _Found(op.key, op.owner, op.device, known_as))
                if c not in one.clients:
                    one.clients.append(c)
                if c == one.clients[0]:
                    pieces = self.clients[c].partitions.graph
                    one.amount += max(1, op.amount)
                    one.shapes = tuple([pieces.tensor_shape[tensor] for tensor in pieces.outputs(op.row)])
            drawn.append([(op.row, op.key, max(1, op.amount)) for op in taken])
        return drawn

    def add_feeds(self, drawn: list[_Drawn]) -> None:
        """Add the feeds of clients whose rate is given: by name, or for all inputs where there is no other."""
        general = not self.found and any(rate.name is None and rate.examples_per_s is not None for rate in self.rates)
        asked = {rate.name for rate in self.rates if rate.name is not None}
        for c, client in enumerate(self.clients):
            program, pieces = client.program, client.partitions
            names = {FEED, *program.feeds, *(name.removesuffix(":0") for name in program.feeds)}
            if program.role != "worker" or not program.feeds or not (general or names & asked):
                continue
            begins = np.diff(pieces.graph.in_ptr) == 0
            nodes = np.flatnonzero((pieces.endpoint >= 0) & begins).tolist()
            if nodes:
                device = int(client.on(pieces.device[nodes[:1]])[0])
                key = ResourceKey("", program.name, self.cluster.devices[device].name, FEED)
                self.found[key] = _Found(key, nodes[0], device, names, [c], 1)
                drawn[c].append((nodes[0], key, 1))

    def rate_of(self, one: _Found) -> Rate | None:
        """The given rate of an input: by its name, else for all inputs; the last one counts."""
        named = [rate for rate in self.rates if rate.name in one.names]
        given = named or [rate for rate in self.rates if rate.name is None]
        return given[-1] if given else None

    def check_rates(self) -> None:
        """Raise SimvizError for a rate of an input that does not exist."""
        known = sorted({FEED if one.key.family == FEED else one.key.name for one in self.found.values()})
        for rate in self.rates:
            if rate.name is not None and not any(rate.name in one.names for one in self.found.values()):
                there = (
                    f"takes its examples from {some(known)}" if known else "takes examples from no queue or iterator"
                )
                raise SimvizError(
                    f"{rate.text!r}: there is no input {rate.name!r}; the training {there}.{near(rate.name, known)}"
                )

    def pipeline(self, one: _Found, rate: Rate | None) -> InputPipeline:
        """The pipeline behind an input. Raises UnknownRateError, and SimvizError for a feed of unknown size."""
        first = self.clients[one.clients[0]]
        attrs = first.partitions.graph.attrs[one.owner]
        capacity = int(attrs["capacity"].i) if "capacity" in attrs else -1
        reserve = int(attrs["min_after_dequeue"].i) if "min_after_dequeue" in attrs else 0
        examples = first.program.examples // one.amount
        where = processor(self.cluster, first.program.task).device
        if rate is not None:
            if one.key.family == FEED and not examples:
                raise SimvizError(
                    f"{rate.text!r}: nothing says how many examples {first.program.name} is fed; add --batch."
                )
            producer = Producer(1, rate.element_ns(examples or 1))
            capacity = {"queue": capacity, FEED: 1}.get(one.key.family, GIVEN_BUFFER)
        elif one.key.family == "queue":
            producer, where = self._queue_runners(one)
        else:
            producer, capacity = self._dataset(one)
        if capacity > MOST_ROOM or capacity < 1:
            capacity = -1
        return InputPipeline(
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

    def _queue_runners(self, one: _Found) -> tuple[Producer, int]:
        """The queue runners of each session that takes from a queue, and the device of the first of them."""
        name = self.clients[one.clients[0]].partitions.graph.names[one.owner]
        made: dict[tuple[int, int], Producer] = {}
        sessions: dict[str, Producer] = {}
        works_at: list[int] = []
        for c in one.clients:
            program, lead = self.clients[c].program, original(self.clients[c], self.clients).program
            row = lead.graph.index.get(name, -1)
            task = working_task(lead.graph, row)
            own = task in (None, lead.task) or task not in self.cluster.tasks
            where = processor(self.cluster, program.task if task is None or own else task)
            works_at.append(where.device)
            key = (id(lead.graph), where.column)
            if key not in made:
                made[key] = QueueRunners(lead.graph, self.costs[c], where).producer(row)
            sessions.setdefault(program.task, made[key])
        return together(list(sessions.values())), works_at[0]

    def _dataset(self, one: _Found) -> tuple[Producer, int]:
        """The threads behind an iterator, on its session's task, and the elements that it has room for."""
        first = self.clients[one.clients[0]]
        graph = original(first, self.clients).program.graph
        row = graph.index.get(first.partitions.graph.names[one.owner], -1)
        try:
            found = dataset_of(graph, row) if row >= 0 and "Iterator" in graph.ops[row] else None
        except GraphError as error:
            raise UnknownRateError(str(error)) from None
        if found is None:
            raise UnknownRateError("its dataset is not in the graph")
        elements, made = found
        examples = first.program.examples // one.amount
        taken = one.shapes if any(one.shapes) else ((examples,),) * (examples > 0)
        fitting = elements.making(made, taken)
        where, profile = processor(self.cluster, first.program.task), self.costs[one.clients[0]].profile
        producer = Datasets(fitting or elements, where, profile).producer(made)
        if fitting is None:
            raise UnknownRateError(_other_batch(elements.firsts(made), taken))
        return producer


def _other_batch(made: Sequence[int], taken: Sequence[Shape | None]) -> str:
    """The reason for an unknown rate: nothing shows how elements would have the first dimensions of those `taken`."""
    pairs = [(first, shape[0]) for first, shape in zip(made, taken, strict=False) if shape]
    first, wanted = next((first, one) for first, one in pairs if first != one >= 0)
    size = "an unknown number of examples" if first < 0 else counted(first, "example")
    return f"an element of its dataset has {size}, and nothing shows how it would have the {wanted:,} that a step takes"


def _operations(client: Client) -> tuple[SyncOp, ...]:
    """The ops that take from queues and iterators, and that add to queues."""
    pieces = client.partitions
    graph, across = pieces.graph, sends_of_recvs(pieces)
    found = [one for one in find(pieces).ops if one.key.family == "queue"]
    for row, op in enumerate(graph.ops):
        if _ITERATES.fullmatch(op):
            made = origins(graph, row, 0, across)
            if len(made) == 1:
                device = int(pieces.device[made[0]])
                found.append(SyncOp(row, DEQUEUE, made[0], key_of(graph, made[0], "iterator"), 1, device=device))
    return tuple(found)
