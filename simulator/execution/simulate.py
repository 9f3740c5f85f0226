"""Simulate the pieces of a step: when everything runs, what crosses when, and what memory holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.columns import Ints, ids, ints
from simulator.execution.choosing import choose
from simulator.execution.critical import critical_path
from simulator.execution.engine import StepRun, run
from simulator.execution.lifetimes import allocations, residents, usage
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_partitions
from simulator.execution.trace import Kind, Trace, TraceTasks
from simulator.execution.trace_tasks import trace_of
from simulator.execution.transfers import no_route
from simulator.graph.op_classes import calling
from simulator.partitioning.partitions import carried
from simulator.shapes.unknown import unsized
from simulator.wording import counted

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.partitioning.partitions import Partitions


def simulate(
    partitions: Partitions,
    cluster: Cluster,
    costs: CostTable,
    options: SimulationOptions = SimulationOptions(),
) -> Trace:
    """Run one step of the pieces.

        trace = simulate(pieces, cluster, costs)
        shared = simulate(pieces, cluster, costs, SimulationOptions(contention="fair"))

    A transfer starts when its value is there, its Recv was posted and the request for it has arrived. Its protocol may
    keep the processors at both ends busy for a while. A plan that exceeds a device's memory is simulated all the same:
    ask `memory.out_of_memory`.

    Trips and branches that nothing decides are chosen otherwise where a fetch would be dead. `Trace.notes` says
    what was done, and `dead_fetches` what is dead all the same, for which TensorFlow refuses the step.

    Raises UnsupportedError for a call whose body is at hand, unless the graph keeps calls on purpose
    (`load(..., keep_calls=True)`). So it does for a compiled engine that cannot be had. Raises SimvizError where
    priorities are asked for and there are none, and for an unknown loop or predicate. So it does for one that kills a
    fetch, and for more trips than can be unrolled. Raises ClusterError where two devices have no route, InfeasibleError
    where a device has no kernel, and DeadlockError where nodes wait for each other.
    """
    order = options.order_for(partitions.priority)
    tables, device = of_partitions(partitions, cluster, costs, options)
    _check_routes(partitions, tables)
    compiled = choose(options.engine, len(tables) + len(partitions.send))
    own = None if partitions.priority is None else partitions.priority[tables.node]
    ran = run(tables, device, own, options, compiled=compiled)
    how = {"order": order, "contention": options.contention, "engine": "compiled" if compiled else "python"}
    return _trace(partitions, tables, ran, how)


def _check_routes(partitions: Partitions, tables: Tables) -> None:
    """The engine would say so, too, by the names in the pieces; a transfer in a loop that never runs needs no route."""
    here, there = partitions.src_device, partitions.dst_device
    lost = np.flatnonzero(tables.routes.between(here, there) < 0)
    for row in lost[np.isin(partitions.send[lost], tables.node)].tolist():
        name = carried(partitions, row)
        what = f"the control edge from {name[1:]!r}" if partitions.tensor[row] < 0 else f"the tensor {name!r}"
        raise no_route(partitions.devices[here[row]], partitions.devices[there[row]], what)


def _trace(partitions: Partitions, tables: Tables, ran: StepRun, how: Mapping[str, str]) -> Trace:
    held = allocations(tables, ran)
    used = usage(tables, ran, held)
    made = trace_of(
        tables,
        ran.lowered,
        [ran.times],
        ran.tasks,
        [partitions],
        ids([0, len(tables)]),
        makespan=ran.makespan,
        busy_ns=_busy(tables, ran.tasks),
        memory_device=used.device,
        memory_time_ns=used.time_ns,
        memory_bytes=used.nbytes,
        peak_bytes=used.peak_bytes,
        resident_bytes=used.resident_bytes,
        **how,
        notes=_notes(partitions, tables),
        dead_fetches=tables.dead_fetches,
        endless=tables.endless,
        peak_ns=used.peak_ns,
        allocations=held,
        residents=residents(tables, ran.device),
    )
    path = critical_path(ran.tasks)
    of_cut = (made.tasks.kind[path] == Kind.OP) & ~np.append(made.instances.shown, True)[made.tasks.of[path]]
    return replace(made, critical=ids(path[~of_cut]))


def _busy(tables: Tables, tasks: TraceTasks) -> Ints:
    """[D] time of lanes in which ops ran and transfers were packed and unpacked."""
    busy = np.zeros(len(tables.devices), np.int64)
    rows = np.flatnonzero((tasks.lane >= 0) & (tasks.resource < len(busy)))
    np.add.at(busy, tasks.resource[rows], tasks.end_ns[rows] - tasks.start_ns[rows])
    return ints(busy)


def _notes(partitions: Partitions, tables: Tables) -> tuple[str, ...]:
    notes, graph = list(tables.notes), partitions.graph
    kept = calling(graph, range(len(graph)))
    if kept:
        notes.append(f"{counted(len(kept), 'call')} of functions counted as one op each, whatever their bodies do.")
    notes += unsized_transfers(partitions)
    unknown = _unsized(partitions, tables)
    if unknown:
        notes.append(f"{counted(unknown, 'tensor')} of unknown size, without memory here.")
    return tuple(notes)


def unsized_transfers(partitions: Partitions) -> tuple[str, ...]:
    """Notes on transfers of a step whose size is unknown; (): there are none."""
    unknown = int((partitions.nbytes < 0).sum())
    return (f"{counted(unknown, 'transfer')} of unknown size, counted as 0 bytes.",) if unknown else ()


def _unsized(partitions: Partitions, tables: Tables) -> int:
    """Tensors of unknown size that something reads, each once, wherever and however often it is held."""
    graph = partitions.graph
    read = np.zeros(len(graph.tensor_node), bool)
    read[tables.tensor_row[tables.tensor_row >= 0]] = True
    node = graph.tensor_node[read & unsized(graph, graph.tensor_bytes)]
    given = partitions.endpoint[node]  # the tensor that the client hands in there
    return int((~partitions.inserted[node]).sum()) + len(np.unique(given[given >= 0]))
