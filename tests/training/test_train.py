"""Many steps of many clients: the law of one client, what asynchronous workers do to each other."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simulator import load_cluster
from simulator.cluster.cluster import Cluster
from simulator.cluster.contention import Contention
from simulator.columns import ints
from simulator.costs.table import CostTable
from simulator.errors import ClusterError
from simulator.execution.laws import task_laws
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.execution.tables import of_partitions
from simulator.execution.trace import Kind, Trace
from simulator.execution.transfers import transfers_of
from simulator.graph.graph import Graph
from simulator.partitioning.cut import partition
from simulator.partitioning.partitions import Partitions
from simulator.training.clients import Client
from simulator.training.programs.program import Program
from simulator.training.train import train
from simulator.training.training import Training
from tests.execution.cases import apart, assigned, dags, whole, worlds
from tests.execution.tasks import held
from tests.strategies import Rows
from tests.training import queues
from tests.training.workloads import chain, client


@settings(max_examples=25)
@given(dags(), st.data())
def test_a_client_alone_repeats_the_step_that_is_simulated(graph: Graph, data: st.DataObject) -> None:
    on, priced, rows, how = data.draw(worlds(graph))
    priority = data.draw(st.none() | st.lists(st.integers(0, 3), min_size=len(graph), max_size=len(graph)))
    own: tuple[Contention | None, ...] = data.draw(st.sampled_from([(None,), (None, "none"), ("none", None)]))
    on = replace(
        on, links=tuple(replace(link, contention=own[at % len(own)]) for at, link in enumerate(on.links))
    )  # so that a transfer may wait for one link and share another
    placed = assigned(on, rows)
    if priority is not None:
        placed, how = replace(placed, priority=ints(priority)), replace(how, order="priority")
    try:
        pieces = partition(graph, placed, on, step=whole(graph))
        trace = simulate(pieces, on, priced, replace(how, engine="python"))
    except ClusterError:
        assume(False)
    client = Client(Program("alone", on.client_task, graph, ()), pieces)
    for steps in (1, 3):
        run = train([client], on, [priced], regime=None, steps=steps, options=how)
        assert run.step_start_ns.tolist() == [k * trace.makespan for k in range(steps)]
        assert run.step_end_ns.tolist() == [(k + 1) * trace.makespan for k in range(steps)]
        assert run.usage.device_busy_ns.tolist() == (steps * trace.busy_ns).tolist()
        assert run.usage.message_ns.tolist() == [steps * worked for worked in handled(trace, pieces, on)]
        assert run.usage.link_busy_ns.tolist() == [steps * busy for busy in busy_links(trace, pieces, on, priced)]
        check_repeats(run, trace, steps)


def handled(trace: Trace, pieces: Partitions, on: Cluster) -> list[int]:
    """[D] how long the processors that stand for the ends of transfers pack and unpack them."""
    worked, tasks = [0] * len(on), trace.tasks
    for row in tasks.rows(Kind.PACK, Kind.UNPACK).tolist():
        pair = trace.transfers.row[tasks.of[row]]
        source, target = int(pieces.src_device[pair]), int(pieces.dst_device[pair])
        end = int(on.home[source if tasks.kind[row] == Kind.PACK else target])
        if on.task_of[source] == on.task_of[target]:
            end = source  # a GPU, whose host dispatches a copy
        worked[end] += int(tasks.end_ns[row] - tasks.start_ns[row])
    return worked


def test_transfers_of_unknown_size_are_said() -> None:
    """They take no time but latency, so that a training is too fast."""
    on = apart(2)
    client, priced = chain(on, "worker:1", [(1, 50), (0, 30)], task=1)
    sizes = client.partitions.nbytes
    assert train([client], on, [priced], regime=None, steps=1).notes == ()
    blind = replace(client, partitions=replace(client.partitions, nbytes=ints([-1] * len(sizes))))
    (note,) = train([blind, blind], on, [priced, priced], regime=None, steps=1).notes
    assert note == f"{2 * len(sizes)} transfers of unknown size in a step of all clients, counted as 0 bytes."


def busy_links(trace: Trace, pieces: Partitions, on: Cluster, priced: CostTable) -> list[int]:
    """How long some bytes were on each link, from one moment at which some come or go to the next."""
    latency_ns = transfers_of(*of_partitions(pieces, on, priced)).latency_ns.tolist()  # what other cores work included
    spans: list[list[tuple[int, int]]] = [[] for _ in on.links]
    lasts = trace.moments.crossing_ns.tolist()
    every = held(trace.tasks, len(trace.transfers))
    for row, transfer in enumerate(trace.transfers.row.tolist()):
        source, target = int(pieces.src_device[transfer]), int(pieces.dst_device[transfer])
        route = on.routes[source][target] or ()
        start, end = int(trace.moments.sent_ns[row]), int(trace.moments.through_ns[row])
        if any((on.links[link].contention or trace.contention) == "fair" for link in route):
            start = min(start + latency_ns[row], end)
        elif route:
            end = start + lasts[row]  # it may wait for others of its links after that
        serial = {link: (a, b) for link, a, b in every[row]}
        for link in route:
            spans[link].append(serial.get(link, (start, end)))
    found = []
    for taken in spans:
        moments = sorted({when for span in taken for when in span})
        found.append(sum(b - a for a, b in pairwise(moments) if any(s <= a and b <= e for s, e in taken)))
    return found


def check_repeats(run: Training, trace: Trace, steps: int) -> None:
    """Each recorded step is the trace, later."""
    recorded = run.trace
    assert recorded is not None
    assert list(task_laws(recorded.tasks)) == []
    for step in range(min(steps, 2)):
        ops, moved = recorded.ops.step == step, recorded.transfers.step == step
        check_later(recorded.ops, trace.ops, ops, step * trace.makespan, ("task", "step"))
        check_later(recorded.transfers, trace.transfers, moved, 0, ("step",))
        check_later(recorded.moments, trace.moments, moved, step * trace.makespan, ("crossing_ns",))
        assert recorded.moments.crossing_ns[moved].tolist() == trace.moments.crossing_ns.tolist()
        mine = np.flatnonzero((recorded.step == step) & (recorded.tasks.kind != Kind.OP))
        assert recorded.tasks.kind[mine].tolist() == trace.tasks.kind[trace.tasks.kind != Kind.OP].tolist()
        links, theirs = mine[recorded.tasks.kind[mine] == Kind.LINK], trace.tasks.rows(Kind.LINK)
        for name in ("resource", "start_ns", "end_ns"):
            shift = step * trace.makespan if name.endswith("_ns") else 0
            assert (
                getattr(recorded.tasks, name)[links].tolist() == (getattr(trace.tasks, name)[theirs] + shift).tolist()
            )


def check_later(ours: Any, theirs: Any, rows: Any, shift: int, but: tuple[str, ...]) -> None:  # Any: tables of a trace
    """The rows are the other table, its times that much later; some columns are not compared."""
    for name in (field.name for field in fields(theirs) if field.name not in but):
        later = shift if name.endswith("_ns") else 0
        assert getattr(ours, name)[rows].tolist() == (getattr(theirs, name) + later).tolist(), name


def test_asynchronous_workers_queue_at_the_parameter_server() -> None:
    """Device 0 is the ps, 1 and 2 are workers: 50 ns of work each, then 30 ns at the ps; a hop takes 104 ns."""
    on = apart(3)
    workers = [chain(on, f"worker:{k}", [(k, 50), (0, 30)], task=k) for k in (1, 2)]
    run = train([one for one, _ in workers], on, [priced for _, priced in workers], regime=None, steps=2)
    assert run.step_client.tolist() == [0, 1, 0, 1]
    assert run.step_start_ns.tolist() == [0, 0, 184, 214]
    assert run.step_end_ns.tolist() == [184, 214, 368, 398]
    assert run.update_staleness.tolist() == [0, 1, 1, 1]
    assert run.usage.device_busy_ns.tolist() == [120, 130, 100]  # the first is in its third step
    assert run.end_ns == 398
    assert run.usage.task_ns.tolist() == [[120, 0, 208, 70], [130, 0, 208, 60], [100, 0, 208, 90]]
    assert run.trace is not None
    assert list(task_laws(run.trace.tasks)) == []  # one waits for the other


def test_a_training_says_that_nobody_waits_for_a_queue_that_none_of_its_clients_fills() -> None:
    """Its runner does, as that of a reader of examples; once, however many workers take from it."""
    rows, on = Rows(), load_cluster("ps=1,worker=2")
    queues.queue(rows, "input", device="/job:ps/task:0")
    rows.add("next", "QueueDequeueV2", ["input"], device="/job:ps/task:0", component_types=queues.types(queues.INT64))
    given = [client(on, f"worker:{k}", rows.built(), {}, {"next": 5}, task=1 + k) for k in range(2)]
    for engine in ("python", "compiled"):
        found = train(
            [one for one, _ in given],
            on,
            [priced for _, priced in given],
            options=SimulationOptions(engine=engine),
            regime=None,
            steps=3,
        )
        (note,) = found.notes
        assert note.startswith("queue input: its rate is unknown (nothing in the graph fills it)")
