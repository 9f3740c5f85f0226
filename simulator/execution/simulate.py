"""Simulate the pieces of a step: when everything runs, what crosses when, and what memory holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, flags, ids, ints
from simulator.execution.choosing import choose
from simulator.execution.critical import critical_path
from simulator.execution.engine import Outcome, run
from simulator.execution.lifetimes import allocations, residents, usage
from simulator.execution.links import crossing_ns
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_partitions
from simulator.execution.trace import Trace
from simulator.execution.transfers import no_route
from simulator.graph.op_classes import calling
from simulator.graph.shapes import unsized
from simulator.partitioning.partitions import carried
from simulator.wording import counted

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.graph.graph import Graph
    from simulator.partitioning import Partitions


def simulate(
    partitions: Partitions,
    cluster: Cluster,
    costs: CostTable,
    options: SimulationOptions = SimulationOptions(),
) -> Trace:
    """Run one step of the pieces.

        trace = simulate(pieces, cluster, costs)
        shared = simulate(pieces, cluster, costs, SimulationOptions(contention="fair"))

    A transfer starts when its value is there, its Recv was posted and the request for it has arrived; its protocol may
    keep the processors at both ends busy for a while. A plan that exceeds a device's memory is simulated all the same:
    ask `memory.out_of_memory`.

    Trips and branches that nothing tells are chosen otherwise where something fetched would be dead. `Trace.notes` says
    what was done, and `dead_fetches` what is dead all the same, for which TensorFlow refuses the step.

    Raises UnsupportedError for a call whose body is at hand, unless the graph keeps calls on purpose
    (`load(..., keep_calls=True)`), and for a compiled engine that cannot be had. Raises SimvizError where priorities
    are asked for and there are none, for an unknown loop or predicate, for one that kills a fetch and for more trips
    than can be unrolled, ClusterError where two devices have no route, InfeasibleError where a device has no kernel,
    DeadlockError where nodes wait for each other.
    """
    order = options.order_for(partitions.priority)
    tables, device = of_partitions(partitions, cluster, costs, options)
    _check_routes(partitions, tables)
    compiled = choose(options.engine, len(tables) + len(partitions.send))
    own = None if partitions.priority is None else partitions.priority[tables.node]
    outcome = run(tables, device, own, options, compiled=compiled)
    how = {"order": order, "contention": options.contention, "engine": "compiled" if compiled else "python"}
    return _trace(partitions, tables, outcome, how)


def _check_routes(partitions: Partitions, tables: Tables) -> None:
    """The engine would say so, too, by the names in the pieces; a transfer in a loop that never runs needs no route."""
    here, there = partitions.src_device, partitions.dst_device
    lost = np.flatnonzero(tables.latency_ns[here, there] < 0)
    for row in lost[np.isin(partitions.send[lost], tables.node)].tolist():
        name = carried(partitions, row)
        what = f"the control edge from {name[1:]!r}" if partitions.tensor[row] < 0 else f"the tensor {name!r}"
        raise no_route(partitions.devices[here[row]], partitions.devices[there[row]], what)


def _trace(partitions: Partitions, tables: Tables, outcome: Outcome, how: Mapping[str, str]) -> Trace:
    shown = np.flatnonzero(~(partitions.inserted[tables.node] | tables.silent))
    device, lane, start = outcome.device, outcome.lane, outcome.start_ns
    rows = shown[np.lexsort((shown, lane[shown], device[shown], start[shown]))]
    nothing = ids(np.zeros(len(rows), np.int32))
    sender = tables.tensor_op[outcome.transfers.tensor]
    transfer_of = np.full(len(partitions.graph), -1)
    transfer_of[partitions.send] = np.arange(len(partitions.send))
    held = allocations(tables, outcome)
    used = usage(tables, outcome, held)
    critical, critical_ns = _critical(tables, outcome, rows)
    return Trace(
        node=ids(tables.node[rows]),
        iteration=ids(tables.iteration[rows]),
        device=ids(device[rows]),
        lane=ids(lane[rows]),
        client=nothing,
        step=nothing,
        ready_ns=ints(outcome.ready_ns[rows]),
        start_ns=ints(start[rows]),
        end_ns=ints(outcome.end_ns[rows]),
        transfer=ids(transfer_of[tables.node[sender]]),
        transfer_iteration=ids(tables.iteration[sender]),
        transfer_dead=flags(tables.silent[sender]),
        transfer_client=ids(np.zeros(len(sender))),
        transfer_step=ids(np.zeros(len(sender))),
        transfer_ready_ns=outcome.transfer_ready_ns,
        pack_start_ns=outcome.pack_start_ns,
        pack_end_ns=outcome.pack_end_ns,
        transfer_start_ns=outcome.transfer_start_ns,
        wire_end_ns=outcome.wire_end_ns,
        crossing_ns=crossing_ns(
            outcome.transfers.wire_ns, outcome.hold_ptr, outcome.transfer_start_ns, outcome.wire_end_ns
        ),
        transfer_end_ns=outcome.transfer_end_ns,
        unpack_start_ns=outcome.unpack_start_ns,
        unpack_end_ns=outcome.unpack_end_ns,
        pack_lane=outcome.pack_lane,
        unpack_lane=outcome.unpack_lane,
        hold_ptr=outcome.hold_ptr,
        hold_link=outcome.hold_link,
        hold_start_ns=outcome.hold_start_ns,
        hold_end_ns=outcome.hold_end_ns,
        memory_device=used.device,
        memory_time_ns=used.time_ns,
        memory_bytes=used.nbytes,
        peak_bytes=used.peak_bytes,
        resident_bytes=used.resident_bytes,
        busy_ns=_busy(tables, outcome),
        makespan=outcome.makespan,
        iterations=tables.iterations,
        **how,
        critical=critical,
        critical_ns=critical_ns,
        notes=_notes(partitions.graph, partitions, tables),
        dead_fetches=tables.dead_fetches,
        peak_ns=used.peak_ns,
        allocations=held,
        residents=residents(tables, device),
    )


def _busy(tables: Tables, outcome: Outcome) -> Ints:
    """[D] time of lanes in which ops ran and transfers were packed and unpacked."""
    busy, home, crossing = np.zeros(len(tables.devices), np.int64), tables.home, outcome.transfers
    np.add.at(busy, outcome.device, outcome.end_ns - outcome.start_ns)
    np.add.at(busy, home[crossing.source], outcome.pack_end_ns - outcome.pack_start_ns)
    np.add.at(busy, home[crossing.target], outcome.unpack_end_ns - outcome.unpack_start_ns)
    return ints(busy)


def _critical(tables: Tables, outcome: Outcome, rows: npt.NDArray[np.intp]) -> tuple[Ids, Ints]:
    """The critical path in rows of slices and transfers, and how long each; what the cut inserted is left out."""
    slice_of = np.full(len(tables), -1)
    slice_of[rows] = np.arange(len(rows))
    path = critical_path(tables, outcome)
    task = np.array([task for task, _ in path], np.int64)
    begins = np.array([begin for _, begin in path], np.int64)
    lasts = np.diff(begins, append=outcome.makespan)
    shown = np.where(task < 0, task, slice_of[np.maximum(task, 0)] if len(slice_of) else -1)
    kept = (task < 0) | (shown >= 0)
    return ids(shown[kept]), ints(lasts[kept])


def _notes(graph: Graph, partitions: Partitions, tables: Tables) -> tuple[str, ...]:
    notes = list(tables.notes)
    kept = calling(graph, range(len(graph)))
    if kept:
        notes.append(f"{counted(len(kept), 'call')} of functions counted as one op each, whatever their bodies do.")
    notes += unsized_transfers(partitions)
    unknown = _unsized(graph, partitions, tables)
    if unknown:
        notes.append(f"{counted(unknown, 'tensor')} of unknown size, without memory here.")
    return tuple(notes)


def unsized_transfers(partitions: Partitions) -> tuple[str, ...]:
    """What is said of the transfers of a step whose size is unknown; (): there are none."""
    unknown = int((partitions.nbytes < 0).sum())
    return (f"{counted(unknown, 'transfer')} of unknown size, counted as 0 bytes.",) if unknown else ()


def _unsized(graph: Graph, partitions: Partitions, tables: Tables) -> int:
    """Tensors of unknown size that something reads, each once, wherever and however often it is held."""
    read = np.zeros(len(graph.tensor_node), bool)
    read[tables.tensor_row[tables.tensor_row >= 0]] = True
    node = graph.tensor_node[read & unsized(graph, graph.tensor_bytes)]
    given = partitions.endpoint[node]  # the tensor that the client hands in there
    return int((~partitions.inserted[node]).sum()) + len(np.unique(given[given >= 0]))
