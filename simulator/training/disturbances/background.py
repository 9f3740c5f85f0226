"""Background traffic as clients of a run: each sends one message again and again, whatever the others do.

A message is a constant at the source that is fetched at the target. Nothing computes, but wires carry it. The
protocol's work at both ends is done, as for any message between tasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simulator.assignment import REQUESTED, Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.master import short_task
from simulator.columns import ids, ints
from simulator.costs.table import CostTable
from simulator.errors import ClusterError
from simulator.execution.routes import alone_ns, routes_of
from simulator.graph.building import build
from simulator.graph.messages import AttrValue
from simulator.graph.step import choose_step
from simulator.partitioning.cut import partition
from simulator.training.clients import Client
from simulator.training.disturbances.disturbed import Disturbed
from simulator.training.programs.program import Program
from simulator.units import SECOND_NS, Bytes, Nanos, show_nanos, show_rate

_UINT8 = 4  # DataType of tensorflow/core/framework/types.proto: one byte per element


class Background(NamedTuple):
    """Clients that send. Axis: B of them."""

    clients: tuple[Client, ...]
    costs: tuple[CostTable, ...]
    notes: tuple[str, ...]  # senders that send less than was asked for on a free route


def background(disturbed: Disturbed) -> Background:
    """The senders of a run.

    A message begins every period where it finds its route free. One that waits delays those after it, as a sender's
    window of one message does. So a full link carries less than was asked for. So does a free link where a message is
    longer under way than its period; `notes` say that. Raises ClusterError for a target that is not
    the CPU by which its task gets messages.
    """
    if not disturbed.senders:
        return Background((), (), ())
    cluster, clients, notes = disturbed.cluster, [], []
    pairs = ints(np.unique([source * len(cluster) + target for source, target, *_ in disturbed.senders]))
    of, paces = routes_of(cluster, pairs).paces
    for row, (source, target, nbytes, period) in enumerate(disturbed.senders):
        name = f"traffic {row}, " + " to ".join(short_task(cluster.devices[end].task) for end in (source, target))
        pace = paces[of[source, target]]
        assert pace is not None  # links lead there
        under_way = alone_ns(pace, nbytes)
        clients.append(_sender(name, source, target, nbytes, max(0, period - under_way), cluster))
        if under_way > period:
            notes.append(
                f"{name}: one message after the other, each {show_nanos(under_way)} under way, is no more than "
                f"{show_rate(nbytes * SECOND_NS // under_way)}; larger messages carry more."
            )
    nothing = ints([0])  # only the transfer takes time
    run_ns = np.zeros((1, len(cluster.kinds)), np.int64)
    free = CostTable(cluster.kinds, run_ns, nothing, nothing, ids(nothing), nothing, nothing)
    return Background(tuple(clients), (free,) * len(clients), tuple(notes))


def _sender(name: str, source: int, target: int, nbytes: Bytes, gap_ns: Nanos, cluster: Cluster) -> Client:
    task = cluster.devices[target].task
    there = replace(cluster, master=task)
    if there.client != target:
        raise ClusterError(
            f"Traffic to {cluster.devices[target].short} is not modelled; let it go to "
            f"{cluster.devices[there.client].short}, where messages for that task arrive."
        )
    shapes = AttrValue()
    shapes.list.shape.add().dim.add(size=nbytes)
    graph = build(
        ["message"],
        ["Const"],
        [cluster.devices[source].name],
        [[]],
        [{"dtype": AttrValue(type=_UINT8), "_output_shapes": shapes}],
        source=name,
    )
    devices = cluster.device_names
    assigned = Assignment(devices, ids([source]), ids([REQUESTED]), "requested", "requested")
    pieces = partition(graph, assigned, there, step=choose_step(graph, fetches=["message:0"]))
    program = Program(name, task, graph, ("message:0",), role="traffic", filters=(task,), gap_ns=gap_ns)
    return Client(program, pieces)
