"""Clients: programs that are placed and cut, the starts of their sessions, and their tables side by side.

Every client keeps its rows together, ops and tensors alike, so that a client alone has just the tables that its pieces
have. A client that is like another has that one's rows, with its own devices.

A session starts once every task has answered that its device_filters do not leave out. A master that is asked for a
session first asks all workers of its cluster for their devices. As long as one does not answer, it logs "CreateSession
still waiting for response from worker". Source: `DeviceFinder` in TensorFlow's `core/distributed_runtime/master.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from simulator.cluster.devicespec import DeviceSpec, compatible, parse
from simulator.cluster.master import connected
from simulator.columns import Ids, Ints, frozen, ids, ints
from simulator.errors import ClusterError, SimvizError
from simulator.execution.loops import SharedChoices
from simulator.execution.options import SimulationOptions
from simulator.execution.routes import pairs_of
from simulator.execution.table_columns import cluster_columns
from simulator.execution.tables import Tables, of_partitions
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.partitioning.partitions import Partitions
    from simulator.training.programs.program import Program

_Found = TypeVar("_Found")


@dataclass(frozen=True, eq=False)
class Client:
    """A program with its pieces on this cluster."""

    program: Program
    partitions: Partitions  # of `program`, or of the one that it is like
    devices: Ids | None = None  # [D] where a device of those pieces is for this client; None: as it stands

    def __repr__(self) -> str:
        return repr_of(self, self.program.name, f"on {self.program.task}")

    def on(self, device: Ids) -> Ids:
        """The rows in the cluster of devices of the pieces."""
        return device if self.devices is None else self.devices[device]


def check_equal(clients: Sequence[object], costs: Sequence[object]) -> None:
    """Raise SimvizError where clients or their programs have not a table of costs each, and where there are none."""
    if not clients:
        raise SimvizError("There is no client, so nothing to train; give the programs that `distributed` makes.")
    if len(clients) != len(costs):
        said = f"{counted(len(clients), 'client')} and {counted(len(costs), 'table')} of costs"
        raise SimvizError(f"There are {said}; give a table for each, as `estimate_each` makes them.")


def original(client: Client, clients: Sequence[Client]) -> Client:
    """The client whose pieces this one has: another one, or itself."""
    return client if client.program.like is None else clients[client.program.like]


def once_each(clients: Sequence[Client], find: Callable[[Client], _Found]) -> list[_Found]:
    """The answer of `find` for each client; of those that have the same pieces only the first is asked about."""
    known: dict[int, _Found] = {}
    for client in clients:
        if id(client.partitions) not in known:
            known[id(client.partitions)] = find(client)
    return [known[id(client.partitions)] for client in clients]


# ---- the starts of sessions -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Starts:
    """Axis: C programs."""

    session_ns: Ints  # [C] the session starts
    waited_for: Ids  # [C] row of the task that came up last of those it waited for; -1: all were there from the start


def starts(programs: Sequence[Program], cluster: Cluster, up_ns: Ints) -> Starts:
    """The time at which the session of each program starts; `up_ns` [K] has the time at which each task comes up.

    A client asks for its session at once, in vain while its own task is not up. Of tasks that come up together the
    first counts as the last. Raises ClusterError for a program at a task that the cluster lacks, and for a device
    filter that is no device specification.
    """
    row = cluster.task_index
    specs = [parse(task) for task in cluster.tasks]
    seen: dict[tuple[tuple[str, ...], int], tuple[int, int]] = {}  # programs with the same filters are many
    found = []
    for program in programs:
        if program.task not in row:
            said = f"{program.name} has its session at {program.task}, which {cluster.name!r} lacks"
            raise ClusterError(f"{said}; give a cluster with that task")
        asked = (program.filters, row[program.task] if program.filters else -1)  # without filters all ask all
        if asked not in seen:
            seen[asked] = _last(specs, up_ns, *asked)
        found.append(seen[asked])
    return Starts(ints([start for start, _ in found]), ids([task for _, task in found]))


def waits_for(task: DeviceSpec, filters: Sequence[str]) -> bool:
    """Tell whether a session with those filters asks that task: one agrees with its job, replica and task number.

    A filter's device type and number do not count, as a task has none. No filters leave nobody out. Raises
    ClusterError for a filter that is no device specification.
    """
    return not filters or any(compatible(_of_task(text), task) for text in filters)


@cache
def _of_task(text: str) -> DeviceSpec:
    return parse(text).without_device()


def _last(specs: Sequence[DeviceSpec], up_ns: Ints, filters: tuple[str, ...], own: int) -> tuple[int, int]:
    """The time at which the last of the tasks comes up, and that task; -1: all are up from the start."""
    asked = [k for k, spec in enumerate(specs) if k == own or waits_for(spec, filters)]
    last = asked[int(np.argmax(up_ns[asked]))]
    return int(up_ns[last]), last if up_ns[last] > 0 else -1


# ---- one table of all, for one event loop ---------------------------------------------------------------------------


class CombinedTables(NamedTuple):
    """The tables of several clients, one after the other."""

    tables: Tables
    device: Ids  # [n] of each op
    op_ptr: Ids  # [C+1]


def combine_tables(
    clients: Sequence[Client],
    cluster: Cluster,
    costs: Sequence[CostTable],
    options: SimulationOptions = SimulationOptions(),
) -> CombinedTables:
    """The tables of all clients; those that have the same pieces share the work.

    Each client heeds the trips and branches that it has. Raises SimvizError for those that none has.
    """
    choices, price = SharedChoices(options), dict(zip(map(id, clients), costs, strict=True))

    def tables_of(client: Client) -> tuple[Tables, Ids]:
        own = connected(cluster, original(client, clients).program.task)
        return choices.apply(partial(of_partitions, client.partitions, own, price[id(client)], ending=True))

    found = once_each(clients, tables_of)
    choices.check()
    combined = _join(found, clients)
    routes = cluster_columns(cluster, _pairs(clients, len(cluster))).routes
    return combined._replace(tables=replace(combined.tables, routes=routes))


def _pairs(clients: Sequence[Client], devices: int) -> Ints:
    """The pairs of devices between which transfers of some client go, as `routes_of` takes them."""
    ends = [(one.on(one.partitions.src_device), one.on(one.partitions.dst_device)) for one in clients]
    source, target = (
        np.concatenate([np.zeros(0, np.int64), *of]) for of in (zip(*ends, strict=True) if ends else ((), ()))
    )
    return pairs_of(source, target, devices)


# How the columns of `Tables` go together: by the axis that their numbers are rows of; what is of the cluster, stays.
_ROWS_OF = {
    "tensor_ptr": "tensor",
    "tensor_op": "op",
    "post": "op",
    "forwards": "edge",
    "keeper": "tensor",
    "kept": "edge",
    "writer": "op",
    "written": "tensor",
    "over": "edge",
    "consumer_ptr": "edge",
    "consumer": "op",
    "in_ptr": "edge",
    "in_edge": "edge",
    "tensor_rank": "tensor",
}
_POINTERS = ("tensor_ptr", "consumer_ptr", "in_ptr")
_OF_CLUSTER = ("devices", "cpu", "kind", "home", "dispatch_ns", "host_device", "lanes", "routes")
_OF_STEPS = ("recvs",)  # pieces have none


def _join(parts: Sequence[tuple[Tables, Ids]], clients: Sequence[Client]) -> CombinedTables:
    """Lay the clients' tables and the devices of their ops out one after the other; all are of one cluster.

    Raises SimvizError where there are more rows than a table can have.
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
    rows = [[iterations.setdefault(one, len(iterations)) for one in table.iterations] for table in tables]
    columns: dict[str, object] = {"iterations": tuple(iterations)}
    for name in (field.name for field in fields(Tables) if field.init and field.name not in columns):
        given = [getattr(table, name) for table in tables]
        if name in (*_OF_CLUSTER, *_OF_STEPS):
            columns[name] = given[0]
            continue
        if name in ("names", "notes", "dead_fetches", "endless"):
            entries = chain.from_iterable(given)
            columns[name] = tuple(entries if name == "names" else dict.fromkeys(entries))
            continue
        if name == "iteration":
            given = [np.array(row, np.int32)[column] for row, column in zip(rows, given, strict=True)]
        elif name == "bound":
            given = [np.where(column < 0, -1, client.on(column)) for column, client in zip(given, clients, strict=True)]
        elif name in _ROWS_OF:
            pairs = zip(given, starts[_ROWS_OF[name]].tolist()[:-1], strict=True)
            given = [np.where(column < 0, column, column + begin) for column, begin in pairs]
        if name in _POINTERS:
            given = [*(column[:-1] for column in given[:-1]), given[-1]]
        columns[name] = frozen(np.concatenate(given), given[0].dtype)
    mapped = [client.on(device) for (_, device), client in zip(parts, clients, strict=True)]
    return CombinedTables(Tables(**columns), ids(np.concatenate(mapped)), ids(starts["op"]))  # type: ignore[arg-type]  # by name
