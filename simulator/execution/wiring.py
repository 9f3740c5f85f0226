"""Who is told when something ends, under one assignment: the loop's view of tables and transfers, as lists.

A *job* takes a lane: an op, or the work of a processor at either end of a transfer. Jobs are numbered

    0 .. n-1           ops
    n .. n+X-1         packing of transfer x = job - n          on the CPU that stands for its source
    n+X .. n+2X-1      unpacking of transfer x = job - n - X    on the CPU that stands for its target
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, ids, ints
from simulator.errors import SimvizError
from simulator.execution.assembling import pointers
from simulator.execution.crossings import MAX_NS, Crossings
from simulator.execution.tables import Tables

# The executor runs an op inline whose time it estimates at no more than 8000 cycles (tensorflow/core/common_runtime/
# executor.cc, kOpIsExpensiveThresholdCycles); at the 2.5 GHz of a usual server's processor this many nanoseconds.
INEXPENSIVE_NS = 3200


@dataclass(frozen=True, eq=False)
class Wiring:
    """Axes: n ops, X transfers, J = n + 2X jobs, E edges. A Merge's data input is written ~edge, all else is an op."""

    waits: list[int]  # [n] inputs that an op needs; 1 for one that needs none
    roots: list[int]
    local: list[int]  # told on the same device, by op
    local_ptr: list[int]  # [n+1]
    asked_ptr: list[int]  # [n+1] transfers are numbered by op
    posts: dict[int, list[int]]  # op -> transfers whose Recv it posts
    conditions: list[int]  # [X] what a transfer waits for: its value, and its Recv where that waits, too
    request_ns: list[int]  # [X]
    served: list[int]  # told by transfer
    served_ptr: list[int]  # [X+1]
    device: list[int]  # [J]
    run_ns: list[int]  # [J]
    by_thread: list[bool]  # [X] TensorFlow's executor packs it on one of its threads, not on one of gRPC's

    @property
    def pulls(self) -> bool:
        """Whether a transfer may wait for more than its value."""
        return bool(self.posts) or any(self.request_ns)


def wire(tables: Tables, device: Ids, crossing: Crossings) -> Wiring:
    """Lay out the lists. Raises SimvizError where times add up to more than a 64-bit integer can count."""
    n = len(tables)
    gate = tables.merge[tables.consumer] & (tables.tensor_row[tables.edge_tensor] >= 0)
    told = np.where(gate, ~np.arange(len(gate)), tables.consumer)
    waits = np.bincount(tables.consumer[~gate], minlength=n)
    waits[np.unique(tables.consumer[gate])] += 1
    roots = np.flatnonzero(waits == 0)
    waits[roots] = 1
    stays = np.flatnonzero(crossing.of_edge < 0)
    crosses = np.flatnonzero(crossing.of_edge >= 0)
    crosses = crosses[np.argsort(crossing.of_edge[crosses], kind="stable")]
    poster = tables.post[crossing.tensor]
    posts: dict[int, list[int]] = {}
    for transfer in np.flatnonzero(poster >= 0).tolist():
        posts.setdefault(int(poster[transfer]), []).append(transfer)
    run_ns = job_ns(tables, device, crossing)
    links = np.array([max(1, len(route)) for route in tables.ways.links], np.float64)[crossing.way]
    columns = (run_ns, crossing.wire_ns * links, crossing.latency_ns)  # it may wait anew for each of its links
    if sum(float(column.sum(dtype=np.float64)) for column in columns) > MAX_NS:
        raise SimvizError("The times of this step add up to more than 2^61 ns (73 years); check the cost table.")
    return Wiring(
        waits=waits.tolist(),
        roots=roots.tolist(),
        local=told[stays].tolist(),
        local_ptr=pointers(ids(tables.tensor_op[tables.edge_tensor[stays]]), n).tolist(),
        asked_ptr=pointers(ids(tables.tensor_op[crossing.tensor]), n).tolist(),
        posts=posts,
        conditions=np.where(poster >= 0, 2, 1).tolist(),
        request_ns=tables.ways.request_ns[crossing.way].tolist(),
        served=told[crosses].tolist(),
        served_ptr=pointers(ids(crossing.of_edge[crosses]), len(crossing)).tolist(),
        device=job_device(tables, device, crossing).tolist(),
        run_ns=run_ns.tolist(),
        by_thread=(tables.cpu[crossing.source] & (tables.ways.send_cores[crossing.way] == 1)).tolist(),
    )


def job_device(tables: Tables, device: Ids, crossing: Crossings) -> Ids:
    """[J] where each job runs."""
    return ids(np.concatenate([device, tables.home[crossing.source], tables.home[crossing.target]]))


def job_ns(tables: Tables, device: Ids, crossing: Crossings) -> Ints:
    """[J] how long each job takes; 0 for work that a transfer's protocol does not ask for."""
    run_ns = tables.kind_ns[np.arange(len(tables)), tables.kind[device]]
    return ints(np.concatenate([run_ns, crossing.pack_ns, crossing.unpack_ns]))


def ranks(tables: Tables, priority: Sequence[int] | npt.NDArray[np.integer]) -> list[int]:
    """[n] the place of each op in order of (priority, row)."""
    column = ints(priority)
    if column.shape != (len(tables),):
        raise SimvizError(f"There are {column.size} priorities for {len(tables)} ops; give one per op that runs.")
    place = np.empty(len(column), np.int64)
    place[np.argsort(column, kind="stable")] = np.arange(len(column))
    found: list[int] = place.tolist()
    return found
