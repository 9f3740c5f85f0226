"""Lower bounds on the makespan of a step: no assignment and no order can be faster."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.execution.preparing import prepare
from simulator.execution.routes import AT_ONCE, Pace, alone_ns
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.execution.preparing import Prepared
    from simulator.execution.tables import Tables
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step

_NEVER: Nanos = 2**61  # the end of an op where it has no kernel: later than any other time, and far from overflow


def lower_bound(
    graph: Graph, cluster: Cluster, costs: CostTable, *, step: Step, prepared: Prepared | None = None
) -> Nanos:
    """The larger of two bounds: the critical path, and the work that must fit the lanes.

    Both take each op at its fastest. On the path an op runs where it ends first. A value that moves to another kind of
    device takes the fastest route between two of these kinds, with free links and processors. The work is that of
    all ops, and also of those ops that only some kinds of device can run. `prepared` is the result of `prepare` for the
    same values, where the caller has it.
    """
    if prepared is None:
        prepared = prepare(graph, step, cluster, costs)
    tables = prepared.tables
    fastest = _fastest(tables)
    return max(_critical_path_ns(tables), _work_ns(tables, fastest))


def _fastest(tables: Tables) -> npt.NDArray[np.int64]:
    """[n] time on the fastest device with a kernel; 0 where there is none."""
    never = np.iinfo(np.int64).max
    run_ns = tables.run_ns
    fastest = np.where(run_ns < 0, never, run_ns).min(axis=1, initial=never)
    return np.where(fastest == never, 0, fastest)


def _kinds(tables: Tables) -> tuple[npt.NDArray[np.int64], list[list[Pace]]]:
    """[n, K] run times per kind of equally fast devices, and [to][from] the pace between two such kinds.

    Each part of a pace is the best of any pair of devices. Within a kind a transfer takes no time, as the two devices
    may be the same one.
    """
    run_ns, kind = np.unique(tables.run_ns, axis=1, return_inverse=True)
    members = [np.flatnonzero(kind == k) for k in range(run_ns.shape[1])]
    routes = [[AT_ONCE] * len(members) for _ in members]
    of, known = tables.routes.paces
    for target, there in enumerate(members):
        for source, here in enumerate(members):
            rows = np.unique(of[np.ix_(here, there)]).tolist()
            joined = [pace for row in rows if (pace := known[row]) is not None]
            if source != target and joined:
                rates = [pace.bytes_per_s for pace in joined]
                routes[target][source] = Pace(
                    min(pace.latency_ns for pace in joined),
                    min(rates) and max(rates),  # a hand-over has no rate, as bytes cost no time there
                    min(pace.send_ns for pace in joined),
                    min(pace.receive_ns for pace in joined),
                    min(pace.send_ps_per_byte for pace in joined),
                    min(pace.receive_ps_per_byte for pace in joined),
                    max(pace.send_cores for pace in joined),  # with more cores nothing takes longer
                    max(pace.receive_cores for pace in joined),
                )
    return run_ns, routes


def _critical_path_ns(tables: Tables) -> Nanos:
    """The longest chain of ops that wait for each other; a Merge waits for the first of its data inputs.

    Per op and kind of device: the earliest end of the op there, with each op before it on its best kind.
    """
    times, routes = _kinds(tables)
    duration = np.where((times >= 0).any(axis=1, keepdims=True), np.where(times < 0, _NEVER, times), 0).tolist()
    tensor_ptr, consumer_ptr = tables.tensor_ptr.tolist(), tables.consumer_ptr.tolist()
    consumer, merge = tables.consumer.tolist(), tables.merge.tolist()
    data, nbytes, stays = (tables.tensor_row >= 0).tolist(), tables.tensor_bytes.tolist(), tables.stays.tolist()
    change = {size: _waits(routes, size) for size in set(nbytes)}
    waits = np.diff(tables.in_ptr).tolist()
    ready = [[0] * len(routes)] * len(tables)
    first: dict[int, list[Nanos]] = {}  # of a Merge
    done = [op for op, left in enumerate(waits) if not left]
    longest = 0
    for op in done:  # grows in the loop: a topological order
        start = list(map(max, ready[op], first[op])) if op in first else ready[op]
        end = list(map(add, start, duration[op]))
        longest = max(longest, min(end, default=0))
        for tensor in range(tensor_ptr[op], tensor_ptr[op + 1]):
            if len(routes) == 1:
                arrived = end
            elif stays[tensor]:
                arrived = [min(end)] * len(routes)
            else:
                arrived = [min(map(add, end, route)) for route in change[nbytes[tensor]]]
            for other in consumer[consumer_ptr[tensor] : consumer_ptr[tensor + 1]]:
                if merge[other] and data[tensor]:
                    first[other] = list(map(min, first[other], arrived)) if other in first else arrived
                else:
                    ready[other] = list(map(max, ready[other], arrived))
                waits[other] -= 1
                if not waits[other]:
                    done.append(other)
    return longest


def _waits(routes: list[list[Pace]], nbytes: int) -> list[list[Nanos]]:
    """[to][from] time of a value of that size between kinds, packed and unpacked.

    A master's cut sends a value to one device of a task, which hands it on. So a route by a third kind may be faster.
    """
    direct = [[alone_ns(pace, nbytes) for pace in row] for row in routes]
    kinds = range(len(direct))
    return [[min(direct[to][by] + direct[by][of] for by in kinds) for of in kinds] for to in kinds]


def _work_ns(tables: Tables, run_ns: npt.NDArray[np.int64]) -> Nanos:
    """The work of all ops over all lanes; also, per set of devices, that of the ops that can run only there."""
    able = tables.run_ns >= 0
    bound = 0
    for usable in np.unique(np.vstack([able, np.ones((1, able.shape[1]), bool)]), axis=0):
        lanes = int(tables.lanes[usable].sum())
        if lanes:
            bound = max(bound, -(-int(run_ns[~(able & ~usable).any(axis=1)].sum()) // lanes))
    return bound
