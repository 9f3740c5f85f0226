"""Lay `Tables` out for the compiled loop, and take the memory in which it works (`flat` says what is what)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from mmap import ACCESS_COPY, mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, flags, ids, ints
from simulator.execution.assembling import starts
from simulator.execution.declared import columns
from simulator.execution.flat import PARTS, SAFE_BYTES, Flat, Held, Lines, Nodes, Places, Work
from simulator.execution.flows import Shared
from simulator.execution.tables import Tables
from simulator.execution.ways import Discipline, Ways, discipline

_MAX_NS = 2**61  # as in `crossings`
_ALIGNED = 64  # bytes: a line of a processor's cache


def flattened(tables: Tables, contention: str) -> Flat:
    """The tables as the compiled loop reads them, laid out once for each way to use links (`ways.discipline`)."""
    flats = tables.layouts.flats
    if contention not in flats:
        flats[contention] = _flat(tables, contention)
    return flats[contention]


@contextmanager
def workspace(tables: Tables, contention: str) -> Iterator[Work]:
    """Memory for one thread, with as many lines before links as that contention needs; it is kept for the next."""
    spare = tables.layouts.spare.setdefault(contention, [])
    try:
        mine = spare.pop()
    except IndexError:  # all are taken
        mine = work(flattened(tables, contention))
    yield mine
    spare.append(mine)


def _flat(tables: Tables, contention: str) -> Flat:
    n = len(tables)
    gate = tables.merge[tables.consumer] & (tables.tensor_row[tables.edge_tensor] >= 0)
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
    nodes = Nodes(
        block=ids(edge_ptr[tables.tensor_ptr]),
        group_ptr=group_ptr,
        group_edge=group_edge,
        edge_tensor=tables.edge_tensor,
        consumer=tables.consumer,
        reader=ids(np.where(gate, ~np.arange(len(gate)), tables.consumer)) if gate.any() else tables.consumer,
        host=tables.consumer_host,
        waits=ids(waits),
        roots=ids(roots),
        instant=tables.instant,
        threaded=tables.threaded,
        inexpensive=flags(tables.inexpensive | tables.instant),
        merges=flags([gate.any()]),
        kind_ns=tables.kind_ns,
        tensor_bytes=tables.tensor_bytes,
        post=tables.post,
        stays=tables.stays,
        replicable=tables.replicable,
    )
    rule = discipline(tables.ways, contention)
    made: Flat = rigid(Flat(nodes, _places(tables, rule), _shared(rule, tables.ways), _held(tables)))
    return made


def _places(tables: Tables, rule: Discipline) -> Places:
    ways = tables.ways
    big = np.flatnonzero(tables.tensor_bytes > SAFE_BYTES)
    work = (ways.send_ns, ways.receive_ns, ways.send_ps_per_byte, ways.receive_ps_per_byte)
    rates, slowest = ways.link_bytes_per_s.tolist(), ways.bytes_per_s.tolist()
    even = [all(rates[link] == rate for link in links) for links, rate in zip(rule.held, slowest, strict=True)]
    # where the slowest link is none that serves in turn, small ones overtake on it
    in_turn = [
        not rate or rate == min((rates[link] for link in links), default=-1)
        for links, rate in zip(rule.held, slowest, strict=True)
    ]
    # what a small message leaves to other cores takes less time than what a large one does: it overtakes
    beside = (ways.send_ps_per_byte > 0) & (ways.send_cores > 1)
    beside |= (ways.receive_ps_per_byte > 0) & (ways.receive_cores > 1)
    return Places(
        lanes=tables.lanes,
        cpu=tables.cpu,
        kind=tables.kind,
        home=tables.home,
        way=ways.of,
        latency_ns=ways.latency_ns,
        bytes_per_s=ways.bytes_per_s,
        request_ns=ways.request_ns,
        send_ns=ways.send_ns,
        receive_ns=ways.receive_ns,
        send_ps=ways.send_ps_per_byte,
        receive_ps=ways.receive_ps_per_byte,
        send_cores=ways.send_cores,
        receive_cores=ways.receive_cores,
        flowing=rule.flows,
        held_ptr=_pointers(rule.held),
        held=_joined(rule.held),
        even=flags(even),
        handed=flags([not links for links in ways.links]),
        in_turn=flags((np.array(in_turn, bool) | rule.flows) & ~beside),  # flows: as to their latency
        several=flags([any(len(links) > 1 for links in rule.held) or not all(even)]),
        uneven=flags([not all(even)]),
        pulls=flags([(tables.post >= 0).any() or (ways.request_ns > 0).any()]),
        requests=flags([(ways.request_ns > 0).any()]),
        works=flags([any((column > 0).any() for column in work)]),
        big=ids(big),
        big_ns=_big_ns(tables.tensor_bytes[big].tolist(), slowest),
        big_held_ns=_big_ns(tables.tensor_bytes[big].tolist(), [rates[link] for links in rule.held for link in links]),
    )


def _shared(rule: Discipline, ways: Ways) -> Shared:
    link = _joined(rule.shared)
    return Shared(
        link_ptr=_pointers(rule.shared),
        link=link,
        user_ptr=ids(np.append(0, np.cumsum(np.bincount(link, minlength=len(ways.link_names))))),
        cap=ints(rule.cap),
        capacity=ways.link_bytes_per_s,
    )


def _held(tables: Tables) -> Held:
    passes = tables.forwards.astype(np.int64)
    passing = np.flatnonzero(passes >= 0)
    op = tables.tensor_op[passing].astype(np.int64)
    pairs = tables.edge_tensor.astype(np.int64) * len(tables) + tables.consumer  # sorted
    passes[passing] = np.searchsorted(pairs, passes[passing] * len(tables) + op)
    return Held(
        in_ptr=tables.in_ptr,
        in_edge=tables.in_edge,
        tensor_ptr=tables.tensor_ptr,
        tensor_op=tables.tensor_op,
        tensor_edge=tables.consumer_ptr,
        passes=ids(passes),
        bound=flags(tables.bound >= 0),
        scratch_bytes=tables.scratch_bytes,
        resident_bytes=tables.resident_bytes,
    )


def _pointers(lists: Sequence[Sequence[int]]) -> Ids:
    return ids(np.cumsum([0, *map(len, lists)]))


def _joined(lists: Sequence[Sequence[int]]) -> Ids:
    return ids([value for values in lists for value in values])


def _big_ns(sizes: list[int], rates: list[int]) -> npt.NDArray[np.int64]:
    """[B, W] exact times where 64 bits do not hold the product; Python's integers have no bound."""
    exact = [[-(-size * 10**9 // rate) if rate else 0 for rate in rates] for size in sizes]
    made = np.array([[ns if ns <= _MAX_NS else -1 for ns in row] for row in exact], np.int64)
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


def work(flat: Flat, timers: int = 0) -> Work:
    """Memory for one thread. `timers` is how many tasks its director has, if any, in the heap at most."""
    nodes, places = flat.nodes, flat.places
    n, edges, devices = len(nodes.waits), len(nodes.reader), len(places.lanes)
    jobs = n + 2 * edges if places.works[0] else n
    lanes = np.where(places.cpu, np.minimum(places.lanes, n + 2 * edges), 1).astype(np.int64)  # more are never used
    busy = min(int(places.lanes.sum(dtype=np.int64)), n + 2 * edges)
    twice = 2 if timers else 1  # what waits is moved down when its region is full
    sizes = {
        "n": n,
        "n+1": n + 1,
        "E": edges,
        "X": edges,
        "2E": 2 * edges,
        "n+E": n + edges,
        "E+R": edges + len(nodes.roots) + timers,
        "T+E": len(nodes.tensor_bytes) + edges,
        "n+2E": n + 2 * edges,
        "J": jobs,
        "J+E+1": jobs + edges + 1 + timers,
        "Q": twice * jobs,
        "V": twice * edges,
        "D": devices,
        "D+1": devices + 1,
        "W": len(places.latency_ns),
        "L": len(flat.shared.capacity),
        "U": len(flat.shared.link),
        "P": len(places.held),
        "B": edges * max(int(np.diff(places.held_ptr).max(initial=0)) - 1, 0),
        "H": busy + 2 * edges + 2 * len(places.latency_ns) + 1 + timers,  # of a transfer its end, and that it begins
        "2": 2,
        "lanes": int(lanes.sum()),
    }
    made = Work(*fresh(PARTS, sizes))
    made.found.told[edges : edges + len(nodes.roots)] = nodes.roots
    made.threads.lane_ptr[:] = np.append(0, np.cumsum(lanes))
    return made


def begun_on(lines: Lines, sent_ns: Ints, which: Ids, count: Ids) -> tuple[Ids, Ints]:
    """Of so many first links of each of these transfers: which it is of its way, and when it began, as noted."""
    transfer = np.repeat(which, count)
    place = np.arange(len(transfer)) - np.repeat(np.cumsum(count) - count, count)
    begun, later = sent_ns[transfer], place > 0
    begun[later] = lines.begun_ns[(place[later] - 1) * len(lines.joined) + transfer[later]]
    return ids(place), begun


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
