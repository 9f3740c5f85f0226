"""Pipelining: a training graph of one device, made into one whose microbatches pass through stages on several devices.

The variables of a stage stand on its device, with the ops that read and update them. Microbatches are copies that share
them, as towers are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import get_args

import numpy as np

from simulator import limits
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import DeviceSpec, parse
from simulator.costs.estimate import estimate
from simulator.costs.table import CostTable
from simulator.errors import ClusterError, SimvizError
from simulator.graph.captured import own_variables
from simulator.graph.graph import Graph
from simulator.graph.purposes import apply_nodes
from simulator.training.pipelines.building import Builder, Pipeline
from simulator.training.pipelines.microbatches import Division, divide
from simulator.training.pipelines.orders import Order, held, turns
from simulator.training.pipelines.stages import Depths, bounds, depths, loads
from simulator.training.programs.replicated import check_one_device
from simulator.training.programs.tasks import computing, first_cpu, worker_tasks
from simulator.training.programs.towers import without_gpus
from simulator.training.recognition.captured import each_alone, handing_to, unsized_variables
from simulator.units import is_whole
from simulator.wording import counted, near


def pipeline(
    graph: Graph,
    cluster: Cluster,
    *,
    microbatches: int,
    order: Order = "1f1b",
    stages: int | None = None,
    batch: int | None = None,
    fetch: Sequence[str] | None = None,
    price: Callable[[Graph, Cluster], CostTable] = estimate,
) -> Pipeline:
    """The same training step in so many microbatches, over stages on the devices of the cluster that train.

    `graph` has its shapes (`load`, `with_shapes`), and works on the whole batch. `batch` is the number of its examples,
    where it does not say. `order` is that of the turns of a stage. By "gpipe" it takes all microbatches forward and
    then all backward, by "1f1b" one forward and one backward in turn. `stages` are as many as there are such devices,
    all GPUs or else the first CPU of each task, if nothing is said. `fetch` gives the fetches of the step, as
    `choose_step` takes them. `price` gives the times by which the work of stages is balanced.

    Gradients are added up over the microbatches and divided by their number before the one update. So the loss has to
    be a mean over the batch. What normalises by statistics of its batch does so within a microbatch. Moving averages,
    summaries and fetched values see the first microbatch. Fed tensors, queues and iterators hand out the whole batch,
    which is split.

    Raises GraphError for a graph without gradients, and for one that names jobs or several devices of a type. So it
    does for a batch that is unknown or no multiple of `microbatches`, and for loops and branches over the examples. It
    also does for a loss that is no mean. Raises ClusterError for a cluster with fewer devices than `stages`, and
    SimvizError for an order or a number that is none.
    """
    known = get_args(Order)
    if order not in known:
        raise SimvizError(f"there is no order {order!r} of a pipeline; give {' or '.join(known)}.{near(order, known)}")
    if not (is_whole(microbatches) and 1 < microbatches <= limits.MICROBATCHES.most):
        most, remedy = f"{limits.MICROBATCHES.most:,}", limits.MICROBATCHES.remedy
        said = f"{microbatches!r} microbatches are not possible; give a whole number from 2 to {most} ({remedy})."
        raise SimvizError(said)
    if refusal := unsized_variables(own_variables(graph)):
        raise refusal
    check_one_device(graph, fetch)
    where = _devices(cluster, stages)
    alone = _each_alone(without_gpus(graph), fetch or ())
    division = divide(alone, microbatches, batch=batch, fetch=fetch)
    found, first = _cut(division, cluster, where, order, price)
    stage = {row: int(np.searchsorted(first, depth, side="right")) for row, depth in found.of.items()}
    return Builder(division, found, stage, where, order, first_cpu(cluster, cluster.client_task)).built()


def _each_alone(graph: Graph, fetch: Sequence[str]) -> Graph:
    """The graph without IdentityNs before optimizers' ops, to whose copies the gradients of all stages would come."""
    fetched = {name.lstrip("^").partition(":")[0] for name in fetch}
    handing = handing_to(graph, set(apply_nodes(graph)))
    return each_alone(graph, [row for row in handing if graph.names[row] not in fetched])


def _devices(cluster: Cluster, stages: int | None) -> list[str]:
    """The device of each stage, as graphs name it."""
    known = computing(cluster, worker_tasks(cluster))
    wanted = len(known) if stages is None else stages
    if not is_whole(wanted) or wanted < 1:
        raise SimvizError(f"{stages!r} stages are not possible; give a whole number from 1.")
    if wanted > len(known):
        said = f"{cluster.name!r} trains on {counted(len(known), 'device')}, too few for {wanted} stages"
        raise ClusterError(f"{said}; ask for fewer, or add devices.")
    return known[:wanted]


def _cut(
    division: Division,
    cluster: Cluster,
    where: Sequence[str],
    order: Order,
    price: Callable[[Graph, Cluster], CostTable],
) -> tuple[Depths, tuple[int, ...]]:
    """The depths of ops, and the first depth of each stage but the first."""
    costs = price(division.graph, cluster)
    known = {_place(one.name): at for at, one in enumerate(cluster.devices)}
    rows = [known[_place(name)] for name in where]
    kinds = [costs.kinds.index(cluster.devices[row].kind) for row in rows]
    found = depths(division, costs.run_ns[:, kinds[0]].tolist())
    if len(where) > found.count:
        raise SimvizError(
            f"{division.graph.source}: a forward pass of {counted(found.count, 'op')} makes no {len(where)} stages; "
            "ask for fewer."
        )
    paces = [cluster.devices[row].bytes_per_s / 1e9 for row in rows]
    load = loads(division, found, costs.run_ns[:, kinds], costs.resident_bytes.tolist(), paces)
    speed = [_bytes_per_ns(cluster, one, other) for one, other in pairwise(rows)]
    flying = [held(taken) for taken in turns(order, len(where), division.count)]
    return found, bounds(load, speed, [cluster.devices[row].memory_bytes for row in rows], flying)


def _place(name: str) -> DeviceSpec:
    """A device's name, whether or not it says that its replica is the first."""
    return parse(name)._replace(replica=None)


def _bytes_per_ns(cluster: Cluster, source: int, target: int) -> float:
    route = cluster.routes[source][target]
    if route is None:
        one, other = cluster.devices[source].short, cluster.devices[target].short
        raise ClusterError(
            f"{cluster.name!r} has no route from {one} to {other}, which would be neighbours; add a link."
        )
    return min((cluster.links[link].bytes_per_s / 1e9 for link in route), default=float("inf"))
