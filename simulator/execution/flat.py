"""`Tables` as the compiled loop reads them, one flat value; and the memory in which a thread plays a step.

Every array is C-contiguous and of one fixed type, as the loop is compiled for exactly these. Names and meaning are
documented here and nowhere else; benchmarks hand the same arrays to their twin in C++.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, flags, ids
from simulator.execution.assembling import starts

if TYPE_CHECKING:
    from simulator.execution.tables import Tables

SAFE_BYTES = 2**33  # up to here bytes times 10**9 fit a signed 64-bit integer
MAX_NS = 2**61  # no sum of times may pass this: twice it still fits a signed 64-bit integer
NO_WAY = -1
GIVEN_UP, REFUSED, STUCK = -1, -2, -3  # instead of a makespan: past the limit; not for the compiled loop; a deadlock
FIRST = -3  # Flat.passes, beside OWN and RESIDENT of `tables`


class Flat(NamedTuple):
    """Read-only. Axes: n ops, T tensors, G groups, E edges, R roots, D devices, W ways, K links on all ways, B big.

    A *group* is the tensors of one rank (`Tables.tensor_rank`): one tensor, or the readers of one reference output. A
    *way* is the links from one device to another; pairs of devices with the same links and figures have the same.
    """

    block: Ids  # [n+1] first edge of each op
    group_ptr: Ids  # [n+1] first group of each op
    group_edge: Ids  # [G+1] first edge of each group
    edge_tensor: Ids  # [E]
    consumer: Ids  # [E] op
    reader: Ids  # [E] op that is told when the value is there; ~edge where a Merge is told of a data input
    host: Flags  # [E] a GPU reads it in host memory
    waits: Ids  # [n] inputs that an op needs: of a Merge's data inputs one; 1 where there are none
    roots: Ids  # [R] ops that need none
    instant: Flags  # [n] takes no lane and no time
    run_ns: npt.NDArray[np.int64]  # [n, D] -1: no kernel
    tensor_bytes: Ints  # [T]
    stays: Flags  # [T] it never crosses
    replicable: Flags  # [T] a constant that may be copied to the CPUs where it is read
    lanes: Ids  # [D]
    cpu: Flags  # [D]
    home: Ids  # [D] CPU that stands for a device
    way: npt.NDArray[np.int32]  # [D, D] NO_WAY: none
    latency_ns: Ints  # [W]
    bytes_per_s: Ints  # [W] of the slowest link; 0: bytes cost no time
    link_ptr: Ids  # [W+1]
    link: Ids  # [K]
    links: Ids  # [1] how many links there are
    big: Ids  # [B] tensors of more than SAFE_BYTES, in order
    big_ns: npt.NDArray[np.int64]  # [B, W] their time without latency, -1: more than can be counted
    # for memory
    in_ptr: Ids  # [n+1] where each op's inputs begin in `in_edge`
    in_edge: Ids  # [E]
    tensor_ptr: Ids  # [n+1] first tensor of each op
    tensor_op: Ids  # [T]
    tensor_edge: Ids  # [T+1] first edge of each tensor
    passes: Ids  # [T] edge whose copy it passes on, OWN, RESIDENT, or FIRST: that which woke the Merge
    merge: Flags  # [n]
    bound: Flags  # [n] the client gets it: it keeps what it reads
    scratch_bytes: Ints  # [n]
    resident_bytes: Ints  # [n]


class Work(NamedTuple):
    """What a thread writes; every run begins by clearing what it needs. Axes as in `Flat`; X transfers, at most E.

    A run leaves in it what a record needs: `ready_ns` and `start_ns`, per transfer `asked_ns` and `sent_ns`.
    """

    told: Ids  # [E+R] `reader` by op: first those on its device, then those of each transfer; `roots` at the end
    local_end: Ids  # [n] where in `told` those on its device end; they begin at `block`
    asked_ptr: Ids  # [n+1] first transfer of each op
    took_ns: Ints  # [n] run time where it is
    span_from: Ids  # [X] where in `told` the readers of each transfer are
    span_to: Ids  # [X]
    way_of: Ids  # [X]
    end_ns: Ints  # [X] how long it takes; once it is asked for, when it ends
    waits: Ids  # [n] inputs that it still waits for
    merged: Ids  # [n] round in which a Merge's first data input came, 0: none has
    first: Ids  # [n] the edge of that input; the lowest of those that came in that round
    woken: Ints  # [n] ops that are ready, of this round
    asking: Ints  # [E] transfers that are asked for in this round; before: edges of a group that cross
    chain: Ids  # [n] from the front instant ops whose readers are not told yet, from the back ops of no length
    touched: Ids  # [n] devices of ops that ended in this round
    queue: Ids  # [n] ops that wait for a lane, a region per device: in order, or a heap of places
    wire: Ids  # [X] transfers that are asked for, a region per way; the first that has not ended is in the heap
    key: Ints  # [H] a heap of ends: when
    task: Ids  # [H] what: an op, n + transfer; n + E + transfer: it begins
    idle: Ids  # [D] lanes
    region: Ids  # [D] where in `queue` its region begins
    head: Ids  # [D] where the first of its queue is
    end: Ids  # [D] where its queue ends
    wire_head: Ids  # [W] where in `wire` the first of its transfers that has not ended is
    wire_end: Ids  # [W] where they end
    free_ns: Ints  # [L] when each link is free
    place: Ids  # [n] of each op in order of (priority, row)
    # a record
    ready_ns: Ints  # [n]
    start_ns: Ints  # [n]
    asked_ns: Ints  # [X]
    sent_ns: Ints  # [X]
    # memory; a copy is a tensor, or T + the transfer that brought it
    tensor_of: Ids  # [X]
    target_of: Ids  # [X]
    came_by: Ids  # [E] transfer that brings the value, -1: it is there
    began: Ids  # [n+E] tasks that began in this round
    ended: Ids  # [n+E] tasks that ended in this round, in order
    over: Flags  # [n+E] ops and transfers that have ended
    owner: Ids  # [T+E] copy whose buffer it is, -1: resident
    holds: Ids  # [T+E] who needs the buffer: its producer, readers, transfers
    since_ns: Ints  # [T+E] when it was allocated
    held_by: Ids  # [T+E] device
    nbytes: Ints  # [T+E]
    level: Ints  # [D] bytes in use
    peak: Ints  # [D]
    freed: Ints  # [D] in this instant
    begun: Ints  # [D] in this instant
    brief: Ints  # [D] begun and freed in this instant


MATRICES = frozenset({"run_ns", "way", "big_ns"})  # all other arrays have one axis


def flat(tables: Tables) -> Flat:
    """Lay the tables out for the compiled loop."""
    n = len(tables)
    gate = tables.merge[tables.consumer] & (tables.tensor_row[tables.edge_tensor] >= 0)
    waits = np.bincount(tables.consumer[~gate], minlength=n)
    waits[np.unique(tables.consumer[gate])] += 1
    roots = np.flatnonzero(waits == 0)
    waits[roots] = 1
    first = np.flatnonzero(starts(tables.tensor_rank))[: len(tables.tensor_op)]  # tensor of each group
    edge_ptr = tables.consumer_ptr
    ways = tables.ways
    big = np.flatnonzero(tables.tensor_bytes > SAFE_BYTES)
    made = Flat(
        block=ids(edge_ptr[tables.tensor_ptr]),
        group_ptr=ids(np.searchsorted(first, tables.tensor_ptr)),
        group_edge=ids(np.append(edge_ptr[first], edge_ptr[-1])),
        edge_tensor=tables.edge_tensor,
        consumer=tables.consumer,
        reader=ids(np.where(gate, ~np.arange(len(gate)), tables.consumer)),
        host=tables.consumer_host,
        waits=ids(waits),
        roots=ids(roots),
        instant=tables.instant,
        run_ns=tables.run_ns,
        tensor_bytes=tables.tensor_bytes,
        stays=tables.stays,
        replicable=tables.replicable,
        lanes=tables.lanes,
        cpu=tables.cpu,
        home=tables.home,
        way=ways.of,
        latency_ns=ways.latency_ns,
        bytes_per_s=ways.bytes_per_s,
        link_ptr=ids(np.cumsum([0, *map(len, ways.links)])),
        link=ids([link for links in ways.links for link in links]),
        links=ids([len(ways.link_names)]),
        big=ids(big),
        big_ns=_big_ns(tables.tensor_bytes[big].tolist(), ways.bytes_per_s.tolist()),
        in_ptr=tables.in_ptr,
        in_edge=tables.in_edge,
        tensor_ptr=tables.tensor_ptr,
        tensor_op=tables.tensor_op,
        tensor_edge=tables.consumer_ptr,
        passes=_views(tables),
        merge=tables.merge,
        bound=flags(tables.bound >= 0),
        scratch_bytes=tables.scratch_bytes,
        resident_bytes=tables.resident_bytes,
    )
    return Flat(*map(_rigid, made))  # type: ignore[arg-type]  # each keeps its type


def _views(tables: Tables) -> Ids:
    """[T] the edge by which an op reads the tensor that it passes on as this one."""
    view = tables.forwards.astype(np.int64)
    passing = np.flatnonzero(view >= 0)
    op = tables.tensor_op[passing].astype(np.int64)
    pairs = tables.edge_tensor.astype(np.int64) * len(tables) + tables.consumer  # sorted
    found = np.searchsorted(pairs, view[passing] * len(tables) + op)
    view[passing] = np.where(tables.merge[op], FIRST, found)
    return ids(view)


def _rigid(column: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """C-contiguous and read-only."""
    if column.flags.c_contiguous and not column.flags.writeable:
        return column
    made = np.array(column, order="C")
    made.setflags(write=False)
    return made


def _big_ns(sizes: list[int], rates: list[int]) -> npt.NDArray[np.int64]:
    """[B, W] exact times where 64 bits do not hold the product; Python's integers have no bound."""
    exact = [[-(-size * 10**9 // rate) if rate else 0 for rate in rates] for size in sizes]
    made = np.array([[ns if ns <= MAX_NS else -1 for ns in row] for row in exact], np.int64)
    made = made.reshape(len(sizes), len(rates))
    made.setflags(write=False)
    return made


def work(flat: Flat) -> Work:
    """Memory for one thread. What a run never writes costs nothing: the system gives pages when they are touched."""
    n, edges, tensors = len(flat.waits), len(flat.reader), len(flat.tensor_bytes)
    devices, ways = len(flat.lanes), len(flat.latency_ns)
    heap = min(int(flat.lanes.sum(dtype=np.int64)), n) + 2 * ways + 1
    sizes: dict[str, int] = {
        **dict.fromkeys(("told",), edges + len(flat.roots)),
        **dict.fromkeys(("asked_ptr",), n + 1),
        **dict.fromkeys(("local_end", "took_ns", "waits", "merged", "first", "woken", "chain", "touched", "queue"), n),
        **dict.fromkeys(("span_from", "span_to", "way_of", "end_ns", "asking", "wire"), edges),
        **dict.fromkeys(("key", "task"), heap),
        **dict.fromkeys(("place", "ready_ns", "start_ns"), n),
        **dict.fromkeys(("asked_ns", "sent_ns", "tensor_of", "target_of", "came_by"), edges),
        **dict.fromkeys(("began", "ended", "over"), n + edges),
        **dict.fromkeys(("owner", "holds", "since_ns", "held_by", "nbytes"), tensors + edges),
        **dict.fromkeys(("idle", "region", "head", "end"), devices),
        **dict.fromkeys(("level", "peak", "freed", "begun", "brief"), devices),
        **dict.fromkeys(("wire_head", "wire_end"), ways),
        "free_ns": int(flat.links[0]),
    }
    made = Work(**{name: np.empty(sizes[name], dtype) for name, dtype in dtypes(Work).items()})
    made.told[edges:] = flat.roots
    return made


def dtypes(table: type[Flat] | type[Work]) -> dict[str, type[np.generic]]:
    """The type of each array's elements, in order, as the fields above say it."""
    return {name: get_args(get_args(hint)[1])[0] for name, hint in get_type_hints(table).items()}
