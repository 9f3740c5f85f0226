"""All clients of a run side by side in one table: whose rows are whose, and when each may go on.

Every client keeps its rows together, ops and tensors alike, so that a client alone has just the tables that its pieces
have. A client that is like another has that one's rows, with its own devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, ids, ints
from simulator.errors import SimvizError
from simulator.execution.tables import Tables
from simulator.training.regimes import NO_RULE, ClockRule

if TYPE_CHECKING:
    from simulator.partitioning import Partitions
    from simulator.training.disturbances.disturbed import Disturbed
    from simulator.training.programs.program import Program

# The kinds of synchronisation ops. Four use accumulators and queues. TAKE and DEQUEUE block until they get what they
# ask for. COUNT counts an update of the global step when it ends. READ takes the value of a variable that its client
# trains. DRAW waits for elements of an input.
APPLY, TAKE, ENQUEUE, DEQUEUE, COUNT, READ, DRAW = range(7)
UNBOUNDED = -1  # capacity of a queue


@dataclass(frozen=True, eq=False)
class Client:
    """A program with its pieces on this cluster."""

    program: Program
    partitions: Partitions  # of `program`, or of the one that it is like
    devices: Ids | None = None  # [D] where a device of those pieces is for this client; None: as it stands


class SyncOps(NamedTuple):
    """Ops that do more than take time, sorted by op; the ENDs are not among them. Axis: M of them."""

    op: Ids  # row of the combined tables
    kind: Ids  # APPLY .. READ
    sync_resource: Ids  # row of `SyncResources`, of DRAW row of `Producers`; -1 for COUNT and READ
    amount: Ints  # gradients that a take waits for, tokens that are added or taken, elements that are drawn
    reserve: Ints  # tokens that must remain in the queue


class SyncResources(NamedTuple):
    """What clients share besides devices and links. Axis: H accumulators and queues."""

    names: tuple[str, ...]  # for messages
    queue: Flags  # a queue of tokens; not: an accumulator
    capacity: Ints  # of a queue; UNBOUNDED
    tokens: Ints  # in a queue when the run begins, all of step 0
    task: Ids  # row of Cluster.tasks that keeps it


class Producers(NamedTuple):
    """Inputs that may run dry: each is filled by threads of its own (`control.inputs`). Axis: I inputs."""

    names: tuple[str, ...]
    threads: Ids  # that make items at once
    period_ns: Ints  # a thread takes for an item
    item: Ints  # elements of an item
    capacity: Ints  # elements for which there is room; UNBOUNDED
    reserve: Ints  # elements that must remain, fewer than there is room for
    task: Ids  # row of Cluster.tasks that makes them
    kept_by: Ids  # row of Cluster.tasks that keeps them
    start_ns: Ints  # the threads begin


_NOTHING = ints([])
NO_PRODUCERS = Producers((), ids([]), _NOTHING, _NOTHING, _NOTHING, _NOTHING, ids([]), ids([]), _NOTHING)


class ClockLatency(NamedTuple):
    """The latency of a clock message to and from the task that keeps all clocks. Axis: C clients."""

    to_server_ns: Ints
    from_server_ns: Ints


@dataclass(frozen=True, eq=False)
class Workload:
    """Whose rows are whose, and what the controller must know of them. Axes: C clients, D devices."""

    names: tuple[str, ...]  # [C]
    op_ptr: Ids  # [C+1] rows of the combined tables; the last of each client is its END
    task: Ids  # [C] row of Cluster.tasks: its session's master
    task_of: Ids  # [D] row of Cluster.tasks
    start_ns: Ints  # [C] its session starts
    gap_ns: Ints  # [C] from the end of a step to the next
    clock_latency: ClockLatency  # of messages about the workers' clocks
    clocked: Flags  # [C] its steps are training steps
    counts: Flags  # [C] the end of its step is an update
    background: Flags  # [C] background traffic: the run does not wait for it
    examples: Ints  # [C] that a step works on; 0: unknown
    sync_ops: SyncOps
    sync_resources: SyncResources
    limit: int  # updates after which the run ends
    sources: Producers = NO_PRODUCERS
    clock_rule: ClockRule = NO_RULE  # how workers wait for the slowest of them
    keeps: Flags | None = None  # [K] tasks that keep variables; None: none does
    disturbed: Disturbed | None = None  # noise, pauses and crashes
    seed: int = 0  # of the noise
    notes: tuple[str, ...] = ()  # what was assumed of queues

    def __len__(self) -> int:
        return len(self.names)


class CombinedTables(NamedTuple):
    """The tables of several clients, one after the other."""

    tables: Tables
    device: Ids  # [n] of each op
    op_ptr: Ids  # [C+1]


# How the columns of `Tables` go together: by the axis that their numbers are rows of, plus what is not numbered at all.
_ROWS_OF = {
    "tensor_ptr": "tensor",
    "tensor_op": "op",
    "post": "op",
    "forwards": "tensor",
    "consumer_ptr": "edge",
    "consumer": "op",
    "in_ptr": "edge",
    "in_edge": "edge",
    "tensor_rank": "tensor",
}
_POINTERS = ("tensor_ptr", "consumer_ptr", "in_ptr")
_OF_CLUSTER = ("devices", "cpu", "kind", "home", "lanes", "routes", "latency_ns", "bytes_per_s")


def join(parts: Sequence[tuple[Tables, Ids]], maps: Sequence[Ids | None]) -> CombinedTables:
    """Lay tables and the devices of their ops out one after the other; `maps` says where a device is for each part.

    All are of one cluster. Raises SimvizError where there are more rows than a table can have.
    """
    tables = [table for table, _ in parts]
    sizes = {
        "op": [len(table) for table in tables],
        "tensor": [len(table.tensor_op) for table in tables],
        "edge": [len(table.consumer) for table in tables],
    }
    starts = {axis: np.concatenate([[0], np.cumsum(counts)]) for axis, counts in sizes.items()}
    if max(int(begins[-1]) for begins in starts.values()) > np.iinfo(np.int32).max:
        raise SimvizError("The clients have more than 2^31 rows together; use fewer of them, or smaller graphs.")
    iterations: dict[tuple[int, ...], int] = {(): 0}
    columns: dict[str, object] = {}
    for name in (field.name for field in fields(Tables) if field.init):
        columns[name] = _joined(name, tables, starts, maps, iterations)
    columns["iterations"] = tuple(iterations)
    mapped = [device if place is None else place[device] for (_, device), place in zip(parts, maps, strict=True)]
    return CombinedTables(Tables(**columns), ids(np.concatenate(mapped)), ids(starts["op"]))  # type: ignore[arg-type]  # by name


def _joined(
    name: str,
    tables: Sequence[Tables],
    starts: dict[str, npt.NDArray[np.integer]],
    maps: Sequence[Ids | None],
    iterations: dict[tuple[int, ...], int],
) -> object:
    if name in _OF_CLUSTER:
        return getattr(tables[0], name)
    given = [getattr(table, name) for table in tables]
    if name == "iterations":
        return ()
    if name in ("names", "notes", "dead_fetches"):
        return (
            tuple(entry for column in given for entry in column)
            if name == "names"
            else tuple(dict.fromkeys(sum(given, ())))
        )
    if name == "iteration":
        rows = [[iterations.setdefault(one, len(iterations)) for one in table.iterations] for table in tables]
        given = [np.array(row, np.int32)[column] for row, column in zip(rows, given, strict=True)]
    elif name == "bound":
        given = [
            column if place is None else np.where(column < 0, -1, place[column])
            for column, place in zip(given, maps, strict=True)
        ]
    elif name in _ROWS_OF:
        given = [
            np.where(column < 0, column, column + begin)
            for column, begin in zip(given, starts[_ROWS_OF[name]].tolist()[:-1], strict=True)
        ]
    if name in _POINTERS:
        given = [*(column[:-1] for column in given[:-1]), given[-1]]
    column = np.concatenate(given).astype(given[0].dtype)
    column.setflags(write=False)
    return column
