"""Lay `Tables` out for compiled code, and take the memory in which it works (`layouts` says what is what)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from mmap import ACCESS_COPY, mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.columns import Ints, flags, ids, pointers
from simulator.execution.arrays import (
    DEAR,
    MAX_SUM_NS,
    SAFE_BYTES,
    BufferLives,
    Flows,
    FoundTransfers,
    State,
    Tasks,
    Threads,
    columns,
)
from simulator.execution.discipline import Discipline, discipline
from simulator.execution.layouts import Arena, FlatMemory, FlatTables, Nodes, Places, Workspace
from simulator.execution.recvs import NO_RECVS
from simulator.execution.table_columns import starts
from simulator.execution.tables import Tables

_ALIGNED = 64  # bytes: a line of a processor's cache


def laid_out(tables: Tables, contention: str, *, task: Sequence[int] = ()) -> FlatTables:
    """The tables as compiled code reads them, laid out once for each contention.

    With the `task` of each device, a tensor crosses to the first reader of a task, which hands it on, as in a master's
    cut. Without, each device fetches it for itself.
    """
    known = tables.layouts.laid
    if (contention, False) not in known:
        known[contention, False] = _laid_out(tables, contention)
    if (contention, bool(task)) not in known:
        alone = known[contention, False]
        known[contention, True] = alone._replace(places=alone.places._replace(task=ids(task)))
    return known[contention, bool(task)]


@contextmanager
def workspace(tables: Tables, contention: str, *, task: Sequence[int] = ()) -> Iterator[Workspace]:
    """A workspace for one thread, as of `laid_out`; it is kept for the next run."""
    idle = tables.layouts.idle.setdefault((contention, bool(task)), [])
    try:
        mine = idle.pop()
    except IndexError:  # all are taken
        laid = laid_out(tables, contention, task=task)
        mine = Workspace(laid, _arena(laid))
    yield mine
    idle.append(mine)


def _arena(laid: FlatTables) -> Arena:
    nodes, places, shared = laid.nodes, laid.places, laid.shared
    n, edges, devices, links = len(nodes.waits), len(nodes.reader), len(places.lanes), len(shared.capacity)
    serial = np.diff(places.held_ptr)
    chain = np.where(places.flowing, 2, np.maximum(serial, 1) + 2 * ((serial > 1) | ((serial > 0) & ~places.even)))
    most = int(chain.max(initial=1)) + 2 * int(places.works[0]) + 2 * int(places.posts[0])
    posts = len(nodes.made)  # at most: one for each Recv
    jobs = n + posts + most * edges + 1
    lanes = np.where(places.cpu, np.minimum(places.lanes, jobs), 1).astype(np.int64)  # more are never used
    sizes = {
        "n": n,
        "O": n + posts,
        "E": edges,
        "X": edges,
        "J": jobs,
        "2J": 2 * jobs,
        "S": int(nodes.slot[-1]) + len(nodes.roots) + posts + jobs,
        "D": devices,
        "D+1": devices + 1,
        "2D": 2 * devices,
        "L": links,
        "L+1": links + 1,
        "W": len(places.pace),
        "W+1": len(places.pace) + 1,
        "U": len(shared.link),
        "F": edges if places.flowing.any() else 0,
        "T+E": len(nodes.tensor_bytes) + edges,
        "T+E+n": len(nodes.tensor_bytes) + edges + n,
        "1": 1,
        "2": 2,
        "10": 10,
        "lanes": int(lanes.sum()),
    }
    made = Arena(*fresh((Tasks, State, Threads, Flows, FoundTransfers, BufferLives), sizes))
    made = made._replace(state=made.state._replace(needs=made.tasks.needs))
    own = int(nodes.slot[-1])
    made.tasks.successor[own : own + len(nodes.roots)] = nodes.roots
    made.tasks.next_from[:n] = nodes.slot[:n]
    made.tasks.released[0] = places.requests[0]
    made.threads.lane_ptr[:] = np.append(0, np.cumsum(lanes))
    made.threads.expense[:n], made.threads.expense[n:] = nodes.expense, DEAR
    made.threads.stream[:] = ~places.cpu
    return made


def _laid_out(tables: Tables, contention: str) -> FlatTables:
    n = len(tables)
    gate = tables.gate
    waits = np.bincount(tables.consumer[~gate], minlength=n)
    waits[np.unique(tables.consumer[gate])] += 1
    roots = np.flatnonzero(waits == 0)
    waits[roots] = 1
    edge_ptr = tables.consumer_ptr
    group_ptr, group_edge = tables.tensor_ptr, edge_ptr
    first = np.flatnonzero(starts(tables.tensor_rank))[: len(tables.tensor_op)]  # tensor of each group
    if len(first) < len(tables.tensor_op):
        group_ptr, group_edge = (
            ids(np.searchsorted(first, tables.tensor_ptr)),
            ids(np.append(edge_ptr[first], edge_ptr[-1])),
        )
    slot = ids(2 * edge_ptr[tables.tensor_ptr] + pointers(tables.post[tables.post >= 0], n))
    nodes = _part(
        Nodes,
        tables,
        tables.recvs or NO_RECVS,
        slot=slot,
        group_ptr=group_ptr,
        group_edge=group_edge,
        reader=ids(np.where(gate, ~np.arange(len(gate)), tables.consumer)) if gate.any() else tables.consumer,
        host=tables.consumer_host,
        waits=ids(waits),
        roots=ids(roots),
        merges=flags([gate.any()]),
    )
    rule = discipline(tables.routes, contention)
    made: FlatTables = rigid(FlatTables(nodes, _places(tables, rule), rule.links, _held(tables)))
    return made


def _part(kind: Any, *sources: object, **made: npt.NDArray[Any]) -> Any:  # Any: a part of `FlatTables`
    """A part of `FlatTables`: what is made for it, and columns of the same name of the first source that has them."""
    return kind(
        *(
            made[name] if name in made else next(getattr(one, name) for one in sources if hasattr(one, name))
            for name in kind._fields
        )
    )


def _places(tables: Tables, rule: Discipline) -> Places:
    routes = tables.routes
    big = np.flatnonzero(tables.tensor_bytes > SAFE_BYTES)
    work = (routes.send_ns, routes.receive_ns, routes.send_ps_per_byte, routes.receive_ps_per_byte)
    recvs = tables.recvs or NO_RECVS
    works = any((column > 0).any() for column in (*work, tables.dispatch_ns))
    sizes = tables.tensor_bytes[big].tolist()
    places: Places = _part(
        Places,
        routes,
        tables,
        recvs,
        route_between=routes.between_all,
        flowing=rule.flows,
        held_ptr=rule.held.ptr,
        held=rule.held.item,
        even=rule.even,
        slower=rule.slower,
        posts=flags([(tables.post >= 0).any() | (len(recvs.made) > 0)]),
        requests=flags([(routes.request_ns > 0).any() | (tables.turn_ns > 0).any() | (len(recvs.drawn) > 0)]),
        works=flags([works]),
        task=ids([]),
        big=ids(big),
        big_ns=_big_ns(sizes, routes.bytes_per_s),
        big_held_ns=_big_ns(sizes, routes.link_bytes_per_s[rule.held.item]),
    )
    return places


def _held(tables: Tables) -> FlatMemory:
    bound = flags(tables.bound >= 0)
    held: FlatMemory = _part(FlatMemory, tables, tensor_edge=tables.consumer_ptr, passes=tables.forwards, bound=bound)
    return held


def _big_ns(sizes: list[int], rates: Ints) -> npt.NDArray[np.int64]:
    """[B, rates] exact times where 64 bits do not hold the product; Python's integers have no bound."""
    exact = [[-(-size * 10**9 // rate) if rate else 0 for rate in rates.tolist()] for size in sizes]
    made = np.array([[ns if ns <= MAX_SUM_NS else -1 for ns in row] for row in exact], np.int64)
    return made.reshape(len(sizes), len(rates))


def rigid(made: Any) -> Any:  # Any: an array or a tuple of them, of which it keeps the type
    """All arrays C-contiguous and read-only, as the loop is compiled for such."""
    if isinstance(made, tuple):
        return type(made)(*map(rigid, made))
    if made.flags.c_contiguous and not made.flags.writeable:
        return made
    copy = np.array(made, order="C")
    copy.setflags(write=False)
    return copy


def fresh(parts: Sequence[type], sizes: Mapping[str, int]) -> list[Any]:  # Any: a tuple of each of these types
    """The parts, of arrays of these sizes by axis, in one piece fresh from the system: what is never written never
    becomes real.
    """
    wanted = [[(name, dtype, sizes[axis]) for name, dtype, axis in columns(part)] for part in parts]
    arrays = _side_by_side([(dtype, size) for columns_of in wanted for _, dtype, size in columns_of])
    return [part(**{name: next(arrays) for name, _, _ in of}) for part, of in zip(parts, wanted, strict=True)]


def _side_by_side(wanted: list[tuple[np.dtype[np.generic], int]]) -> Iterator[npt.NDArray[Any]]:
    """Arrays of these types and lengths, side by side in pages that nobody has used before.

    An allocator would hand out again what was freed, which is real already. A forked process has its own copy.
    """
    sizes = [-(-dtype.itemsize * length // _ALIGNED) * _ALIGNED for dtype, length in wanted]
    pages = mmap(-1, max(sum(sizes), 1), access=ACCESS_COPY)
    at = 0
    for (dtype, length), size in zip(wanted, sizes, strict=True):
        yield np.frombuffer(pages, dtype, length, at)
        at += size
