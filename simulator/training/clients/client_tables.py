"""Clients, and their tables side by side: one table of all, for one event loop.

Every client keeps its rows together, ops and tensors alike, so that a client alone has just the tables that its pieces
have. A client that is like another has that one's rows, with its own devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, ids
from simulator.errors import SimvizError
from simulator.execution.loops import SharedChoices
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_partitions

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.partitioning import Partitions
    from simulator.training.programs.program import Program


@dataclass(frozen=True, eq=False)
class Client:
    """A program with its pieces on this cluster."""

    program: Program
    partitions: Partitions  # of `program`, or of the one that it is like
    devices: Ids | None = None  # [D] where a device of those pieces is for this client; None: as it stands


class CombinedTables(NamedTuple):
    """The tables of several clients, one after the other."""

    tables: Tables
    device: Ids  # [n] of each op
    op_ptr: Ids  # [C+1]


def original(client: Client, clients: Sequence[Client]) -> Client:
    """The client whose pieces this one has: another one, or itself."""
    return client if client.program.like is None else clients[client.program.like]


def combine_tables(
    clients: Sequence[Client],
    cluster: Cluster,
    costs: Sequence[CostTable],
    options: SimulationOptions = SimulationOptions(),
) -> CombinedTables:
    """The tables of all clients; those that have the same pieces share the work.

    Each client heeds the trips and branches that it has. Raises SimvizError for those that none has.
    """
    known: dict[int, tuple[Tables, Ids]] = {}
    choices = SharedChoices(options)
    for client, priced in zip(clients, costs, strict=True):
        if id(client.partitions) not in known:
            own = replace(cluster, master=original(client, clients).program.task)
            cut = partial(of_partitions, client.partitions, own, priced, ending=True)
            known[id(client.partitions)] = choices.apply(cut)
    choices.check()
    return join([known[id(client.partitions)] for client in clients], [client.devices for client in clients])


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
