"""Lower a step under an assignment to tasks on resources: an op is one task, a transfer a chain of tasks.

    value ─▶ pack ─▶ first link ─▶ arrive ─▶ unpack ─▶ readers
                        ┆               ▲
                        └▶ next link ───┘

    pack        the processor at the source works, or the host of a GPU that copies; left out where there is no work
    links       one task for each serial link of the route, for the time of its bytes there; the next joins its link
                when the one before it starts. Bytes of a later link that has no bytes to wait for go before all others
    slower      the route has a slower link that is no serial one: what is left of its time after the first link
    arrive      the latency, once all links have had their time; with one link alone it is the `lag_ns` of its task
    latency     before bytes share links; a delay alone where the route has no serial link
    flow        bytes on shared links
    unpack      the processor at the target works

A posted Recv is an event more that the first of these waits for; its request is a delay in between. Where a Recv is
posted when the step begins, its turn and the request are the time before which that task is not released.

Under TensorFlow's executor a thread at the source answers the request, which takes it no time but its turn. Where the
tables are those of a step, threads of CPUs also pass the posts of Recvs (`transfers.posted`).

Tasks are numbered: ops, posts of a cut to come, packs, unpacks, later links without bytes, links, flows, slower ones,
arrivals, latencies, requests, answers. Each kind is in order of transfers, and the beginnings of steps come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, flags, ids, ints, pointers, stable_order
from simulator.errors import ClusterError, SimvizError
from simulator.execution.arrays import AT_ONCE, EXECUTOR, MAX_SUM_NS, NOWHERE, PRIORITY, Tasks
from simulator.execution.discipline import Discipline, discipline
from simulator.execution.sharing import MAX_FLOW_BYTES
from simulator.execution.tables import Tables
from simulator.execution.trace import Kind
from simulator.execution.transfers import Transfers, bytes_ns, posted

Rows = npt.NDArray[np.int64]
_NONE = -1


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """Tasks, and the stretch of a transfer for which each stands. Axes: J tasks, n ops, X transfers, P posts."""

    tasks: Tasks
    transfers: Transfers
    device: Ids  # [n] of each op
    posts: Ids  # [P] device of each op that posts a Recv of a cut to come
    first: Ids  # [X] the first of the chain
    pack: Ids  # [X] -1: no work
    answer: Ids  # [X] a thread of the executor hears of the request; -1: that is no thread's work
    wire: Ids  # [X] the first on the wires
    arrive: Ids  # [X] its end is the arrival
    kind: Ids  # [J] `Kind` of each task; of the beginnings, which come last, that of an op
    transfer: Ids  # [J] of each task; -1: it is none of a transfer
    late_ns: Ints  # [J] latency with which its time ends, after its bytes


class _Chains:
    """Transfers as tasks: numbers, and who follows whom."""

    def __init__(self, begin: int) -> None:
        self.count = begin
        self.parts: list[tuple[Kind, Rows, Rows, Rows, Rows]] = []  # of tasks: lengths, resources, transfers
        self.edges: list[tuple[Rows, Rows]] = []

    def number(self, there: npt.NDArray[np.bool_]) -> Rows:
        """A new task for each row that is there, in order; -1 for the others."""
        found = np.full(len(there), _NONE, np.int64)
        found[there] = self.count + np.arange(int(there.sum()))
        self.count += int(there.sum())
        return found

    def describe(
        self, kind: Kind, task: Rows, length: npt.ArrayLike, resource: npt.ArrayLike, transfer: npt.ArrayLike
    ) -> None:
        """Length, resource and transfer of the tasks that are there."""
        own = np.flatnonzero(task >= 0)
        ns, where, whose = (np.broadcast_to(np.asarray(one), task.shape)[own] for one in (length, resource, transfer))
        self.parts.append((kind, task[own], ns, where, whose))

    def follow(self, task: Rows, other: Rows) -> None:
        """The end of each task is an event for the other, where both are there."""
        both = np.flatnonzero((task >= 0) & (other != _NONE))
        self.edges.append((task[both], other[both]))


def lower(
    tables: Tables,
    device: Ids,
    crossing: Transfers,
    contention: str,
    order: int = 0,
    place: Sequence[int] | npt.NDArray[np.integer] = (),
    op_ptr: Sequence[int] | npt.NDArray[np.integer] = (),
) -> TaskGraph:
    """The tasks of a step, given the device of each op and the transfers that follow.

    `place` is that of each op in order of priority, for the order PRIORITY. `op_ptr` says where the ops of each client
    begin, if there are several: each has a beginning of its own. Raises ClusterError for transfers that
    shared links can't count, and SimvizError where times add up to more than a 64-bit integer can count.
    """
    n, routes, devices = len(tables), tables.routes, len(tables.devices)
    rule = discipline(routes, contention)
    nbytes = tables.tensor_bytes[crossing.tensor]
    flows = flags(rule.flows[crossing.route] & (nbytes > 0))  # what has no bytes only takes its latency
    _check_flows(tables, crossing, flows, nbytes)
    hold = _holds(tables, crossing, rule)
    links = np.diff(hold.ptr)
    owner = np.repeat(np.arange(len(crossing)), links)
    place_on = np.arange(len(owner)) - hold.ptr[:-1][owner]
    longest = np.zeros(len(crossing), np.int64)
    np.maximum.at(longest, owner, hold.ns)
    head = np.zeros(len(crossing), np.int64)
    head[owner[place_on == 0]] = hold.ns[place_on == 0]
    posts = posted(tables, device, crossing, order)
    ops = n + len(posts.transfer)
    made = _Chains(ops)
    pack, unpack = made.number(crossing.pack_ns > 0), made.number(crossing.unpack_ns > 0)
    early = (place_on > 0) & (nbytes[owner] == 0)
    passing, held = made.number(early), made.number(~early)
    link = np.where(early, passing, held)
    flow = made.number(flows)
    slower = made.number((links > 0) & (crossing.wire_ns > longest))
    alone = (links == 1) & (slower < 0)
    arrive = made.number(~alone & ~flows & (links > 0))
    delay = made.number(((links == 0) & ~flows) | (flows & (crossing.latency_ns > 0)))
    request_ns = routes.request_ns[routes.pace[crossing.route]]
    poster = np.where(posts.op >= 0, n + posts.op.astype(np.int64), tables.post[crossing.tensor])
    request = made.number((poster >= 0) & (request_ns > 0))
    answer = made.number((poster >= 0) & crossing.by_thread & (order == EXECUTOR))
    bounds = np.array(op_ptr if len(op_ptr) else [0, ops], np.int64)  # of clients
    begin, count = made.count, made.count + len(bounds) - 1

    first_link = np.full(len(crossing), _NONE, np.int64)
    first_link[owner[place_on == 0]] = link[place_on == 0]
    wire = np.where(links > 0, first_link, np.where(delay >= 0, delay, flow))
    end = np.where(flows, flow, np.where(links == 0, delay, np.where(alone, first_link, arrive)))
    first = np.where(pack >= 0, pack, wire)
    out = np.where(unpack >= 0, unpack, end)

    run_ns = tables.kind_ns[np.arange(n), tables.kind[device]]
    at_once = tables.instant
    if order == EXECUTOR:
        at_once = at_once & ~(tables.threaded & tables.cpu[device] & ~posts.copied)
    each = np.arange(len(crossing))
    made.describe(Kind.OP, np.arange(n), run_ns, np.where(at_once, AT_ONCE, device), _NONE)
    made.describe(Kind.PACK, pack, crossing.pack_ns, crossing.packer, each)
    made.describe(Kind.UNPACK, unpack, crossing.unpack_ns, tables.home[crossing.target], each)
    made.describe(Kind.LINK, link, hold.ns, devices + hold.link, owner)
    made.describe(Kind.FLOW, flow, nbytes, routes.first_shared + crossing.route, each)
    made.describe(Kind.FLOW, slower, crossing.wire_ns - head, NOWHERE, each)
    made.describe(Kind.LATENCY, arrive, crossing.latency_ns, NOWHERE, each)
    made.describe(Kind.LATENCY, np.where(flows, delay, _NONE), crossing.latency_ns, NOWHERE, each)
    made.describe(Kind.FLOW, np.where(flows, _NONE, delay), crossing.latency_ns + crossing.wire_ns, NOWHERE, each)
    made.describe(Kind.REQUEST, np.arange(n, ops), 0, crossing.target[posts.transfer], posts.transfer)
    made.describe(Kind.REQUEST, request, request_ns, NOWHERE, each)
    made.describe(Kind.REQUEST, answer, 0, tables.home[crossing.source], each)
    made.describe(Kind.OP, np.arange(begin, count), 0, NOWHERE, _NONE)

    reader = np.where(tables.gate, ~tables.consumer.astype(np.int64), tables.consumer)
    stays = np.flatnonzero(crossing.of_edge < 0)
    crosses = np.flatnonzero(crossing.of_edge >= 0)
    made.edges.append((tables.tensor_op[tables.edge_tensor[stays]].astype(np.int64), reader[stays]))
    made.follow(tables.tensor_op[crossing.tensor].astype(np.int64), first)
    heard = np.where(answer >= 0, answer, first)
    made.follow(poster, np.where(request >= 0, request, heard))
    made.follow(request, heard)
    made.follow(answer, first)
    made.follow(pack, wire)
    made.follow(np.where(flows, delay, _NONE), flow)
    last = np.where(place_on == 0, np.where(slower >= 0, slower, arrive)[owner], arrive[owner])
    made.follow(link, np.where(alone[owner], _NONE, last))
    made.follow(slower, arrive)
    made.follow(end, unpack)
    made.edges.append((out[crossing.of_edge[crosses]], reader[crosses]))

    length, resource, kinds, transfer, lag, release = (np.zeros(count, np.int64) for _ in range(6))
    for kind, task, *columns in made.parts:
        kinds[task] = kind
        length[task], resource[task], transfer[task] = columns
    onward = np.full(count, _NONE, np.int64)
    lag[first_link[alone]] = crossing.latency_ns[alone]
    late = lag.copy()
    delayed = (links == 0) & ~flows & (routes.bytes_per_s[routes.pace[crossing.route]] > 0)  # not handed over
    late[delay[delayed]] = crossing.latency_ns[delayed]
    release[first] = np.where(poster < 0, request_ns + tables.turn_ns[crossing.tensor] + posts.turn_ns, 0)
    onward[link[np.flatnonzero(place_on > 0) - 1]] = link[place_on > 0]
    arrival = np.full(count, _NONE, np.int64)
    arrival[link] = np.where(slower < 0, arrive, _NONE)[owner]

    source, target = (np.concatenate(column) for column in zip(*made.edges, strict=True))
    needs = np.bincount(target[target >= 0], minlength=count)
    needs[np.unique(~target[target < 0])] += 1
    np.add.at(needs, onward[onward >= 0], 1)
    roots = np.flatnonzero(needs[:begin] == 0)
    roots = roots[np.lexsort((np.append(posts.copied, np.zeros(begin - n, bool))[roots], roots >= n))]
    needs[roots] = 1
    needs[begin:] = 1
    beginning = begin + np.searchsorted(bounds, roots, side="right") - 1
    source, target = np.append(source, beginning), np.append(target, roots)
    by_source = stable_order(source)
    ptr = pointers(source, count)
    _check_total(length, resource, crossing, routes.first_shared)
    ranks = np.zeros(count, np.int64)
    if order == PRIORITY:
        ranks = np.arange(count) - count  # the work of transfers comes before all ops
        ranks[:n] = place
    tasks = Tasks(
        length=ints(length),
        resource=ids(resource),
        lag_ns=ints(lag),
        release_ns=ints(release),
        needs=ids(needs),
        onward=ids(onward),
        arrival=ids(arrival),
        next_from=ids(ptr[:-1]),
        next_to=ids(ptr[1:]),
        successor=ids(target[by_source]),
        rank=ids(ranks),
        ops=ids([ops]),
        released=ids([release.any()]).astype(bool),
        shares=ids([flows.any()]).astype(bool),
    )
    return TaskGraph(
        tasks=tasks,
        transfers=crossing,
        device=device,
        posts=ids(crossing.target[posts.transfer]),
        first=ids(first),
        pack=ids(pack),
        answer=ids(answer),
        wire=ids(wire),
        arrive=ids(end),
        kind=ids(kinds),
        transfer=ids(transfer),
        late_ns=ints(late),
    )


class _Holds(NamedTuple):
    """The serial links that transfers hold. Axes: X transfers, H holds."""

    ptr: Ids  # [X+1]
    link: Ids  # [H] in order of the route
    ns: Ints  # [H] how long: the bytes at the link's own rate, rounded up


def _holds(tables: Tables, crossing: Transfers, rule: Discipline) -> _Holds:
    """A row for each serial link of each transfer."""
    first = rule.held.ptr[crossing.route]
    count = rule.held.ptr[crossing.route.astype(np.int64) + 1] - first
    ptr = np.append(0, np.cumsum(count))
    place = np.arange(ptr[-1]) - np.repeat(ptr[:-1], count)
    link = rule.held.item[np.repeat(first, count) + place]
    nbytes = np.repeat(tables.tensor_bytes[crossing.tensor], count)
    return _Holds(ids(ptr), ids(link), bytes_ns(tables.routes.link_bytes_per_s[link], ints(nbytes)))


def _check_flows(tables: Tables, crossing: Transfers, flows: Flags, nbytes: Ints) -> None:
    """Refuse what shared links can't count: too large a transfer, or links too slow for as many flows."""
    if not flows.any():
        return
    largest = int(np.argmax(np.where(flows, nbytes, 0)))
    if nbytes[largest] > MAX_FLOW_BYTES:
        name = tables.names[tables.tensor_op[crossing.tensor[largest]]]
        raise ClusterError(
            f"The output of {name!r} has {int(nbytes[largest])} bytes, and a transfer over shared links can have "
            f'{MAX_FLOW_BYTES} at most; choose the contention "serial" or "none" for them.'
        )
    slowest = int(tables.routes.bytes_per_s[tables.routes.pace[crossing.route[flows]]].min())
    if slowest < int(flows.sum()):
        raise ClusterError(
            f"{int(flows.sum())} transfers may share a link of {slowest} bytes/s, which leaves less than one byte per "
            'second for each; use faster links or the contention "serial".'
        )


def _check_total(length: Rows, resource: Rows, crossing: Transfers, routes: int) -> None:
    """Times must not add up to more than can be counted."""
    total = float(length[resource < routes].astype(np.float64).sum()) + float(
        crossing.latency_ns.astype(np.float64).sum() + crossing.wire_ns.astype(np.float64).sum()
    )
    if total > MAX_SUM_NS:
        raise SimvizError("The times of this step add up to more than 2^61 ns (73 years); check the cost table.")
