"""The event loop of `engine`, compiled: the same results, bit for bit, at the speed of machine code.

`engine` says what simulated time means and `lifetimes` what memory holds; nothing is decided here. What is different
is how it is found:

    - a pass over the edges finds the transfers of an assignment, numbered as `crossings` numbers them, and puts the
      readers that one event tells next to each other;
    - the heap of ends holds only what runs: an op per busy lane, and per way the first of its transfers, as those of
      one way end in the order in which they were asked for;
    - within a round ops that are ready are sorted by row and transfers that are asked for by number, so that nothing
      depends on the order in which its events are taken;
    - memory is counted by reference while the loop runs, round by round.

Kernel and helpers share this module, because numba's cache does not notice an edit in another file. `play` alone has
a signature and a cache: what it calls is compiled into it. Import this module where it is used, not before: numba
takes longer to load than a small step to simulate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
from numba import boolean, from_dtype, int32, int64, njit, types, void

from simulator.columns import ids, ints
from simulator.execution import engine
from simulator.execution.crossings import checked, crossings
from simulator.execution.engine import Outcome, lanes, outcome
from simulator.execution.flat import FIRST, GIVEN_UP, MATRICES, REFUSED, SAFE_BYTES, STUCK, Flat, Work, dtypes
from simulator.execution.loop import Played
from simulator.execution.tables import OWN

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.execution.tables import Tables

    Rows = npt.NDArray[np.int32]


NEVER = 2**62  # a limit that no makespan passes
_COUNTABLE_NS = 2.0**61 * 0.999  # a sum of times above this is left to the specification, which is exact
_LOW = 0xFFFFFFFF

_F = TypeVar("_F", bound=Callable[..., object])


def _inner(function: _F) -> _F:
    """Compiled into what calls it. Nothing is allocated, so that arrays need no reference counts (_nrt)."""
    made: _F = njit(function, nogil=True, error_model="numpy", _nrt=False)
    return made


@_inner
def _sort(values: Ints, count: int) -> None:
    """Sort the first values: by insertion, as they are few or nearly in order; by heap where that takes long."""
    budget = 16 * count
    for i in range(1, count):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
        budget -= i - j
        if budget < 0:
            break
    if budget >= 0:
        return
    for turn in range(2 * count - 1):  # first build the heap, from the last parent up; then take the largest, in turn
        size = min(count, 2 * count - 1 - turn)
        root = max(count - 1 - turn, 0)
        value = values[root]
        if turn >= count:
            value = values[size]
            values[size] = values[0]
        child = 2 * root + 1
        while child < size:
            if child + 1 < size and values[child + 1] > values[child]:
                child += 1
            if values[child] <= value:
                break
            values[root] = values[child]
            root = child
            child = 2 * root + 1
        values[root] = value


@_inner
def _rise(key: Ints, task: Ids, size: int, when: int, what: int) -> int:
    """Add an end to the heap; its new size."""
    hole = size
    while hole > 0:
        above = (hole - 1) >> 1
        if key[above] <= when:
            break
        key[hole], task[hole] = key[above], task[above]
        hole = above
    key[hole], task[hole] = when, what
    return size + 1


@_inner
def _sink(key: Ints, task: Ids, size: int, when: int, what: int) -> None:
    """Put an end in the place of the first."""
    hole, child = 0, 1
    while child < size:
        if child + 1 < size and key[child + 1] < key[child]:
            child += 1
        if key[child] >= when:
            break
        key[hole], task[hole] = key[child], task[child]
        hole = child
        child = 2 * hole + 1
    key[hole], task[hole] = when, what


@_inner
def _offer(queue: Ids, base: int, count: int, place: int) -> None:
    """Add a place to a device's heap of `count`."""
    hole = count
    while hole > 0:
        above = (hole - 1) >> 1
        if queue[base + above] <= place:
            break
        queue[base + hole] = queue[base + above]
        hole = above
    queue[base + hole] = place


@_inner
def _take(queue: Ids, base: int, count: int) -> np.int32:
    """Take the smallest place from a device's heap of `count`."""
    found: np.int32 = queue[base]
    place = queue[base + count - 1]
    hole, child = 0, 1
    while child < count - 1:
        if child + 1 < count - 1 and queue[base + child + 1] < queue[base + child]:
            child += 1
        if queue[base + child] >= place:
            break
        queue[base + hole] = queue[base + child]
        hole = child
        child = 2 * hole + 1
    queue[base + hole] = place
    return found


@_inner
def _wire_ns(nbytes: int, rate: int) -> int:
    """Time of the bytes, rounded up; their number times 10**9 fits 64 bits."""
    # unsigned: one division without the corrections of a signed one
    taken: int = np.int64((np.uint64(nbytes) * np.uint64(10**9) + np.uint64(rate) - np.uint64(1)) // np.uint64(rate))
    return taken


@_inner
def _row(values: Ids, value: int) -> int:
    """Where a value is."""
    for row in range(len(values)):
        if values[row] == value:
            return row
    return 0


@_inner
def _find(flat: Flat, work: Work, device: Ids, record: bool) -> int:
    """The transfers of an assignment, as `crossings`; how many there are, or why it cannot run."""
    block, group_ptr, group_edge, edge_tensor = flat.block, flat.group_ptr, flat.group_edge, flat.edge_tensor
    consumer, reader, host, run_ns = flat.consumer, flat.reader, flat.host, flat.run_ns
    cpu, home, way, replicable, stays = flat.cpu, flat.home, flat.way, flat.replicable, flat.stays
    told, local_end, asked_ptr, took_ns = work.told, work.local_end, work.asked_ptr, work.took_ns
    span_from, span_to, way_of, end_ns = work.span_from, work.span_to, work.way_of, work.end_ns
    tensor_of, target_of, came_by, across = work.tensor_of, work.target_of, work.came_by, work.asking
    latency_ns, bytes_per_s, tensor_bytes, big, big_ns = (
        flat.latency_ns,
        flat.bytes_per_s,
        flat.tensor_bytes,
        flat.big,
        flat.big_ns,
    )
    transfers = 0
    total = 0.0
    for op in range(len(took_ns)):
        here = device[op]
        taken = run_ns[op, here]
        if taken < 0:
            return REFUSED
        took_ns[op] = taken
        total += taken
        asked_ptr[op] = transfers
        low, high = block[op], block[op + 1]
        for group in range(group_ptr[op], group_ptr[op + 1]):
            first, last = group_edge[group], group_edge[group + 1]
            copied = False
            if replicable[edge_tensor[first]] and cpu[here]:
                for edge in range(first + 1, last):
                    copied |= home[device[consumer[edge]]] != home[device[consumer[first]]]
            crossing = 0
            for edge in range(first, last):
                target = device[consumer[edge]]
                source = home[target] if copied else here
                if source == target or stays[edge_tensor[edge]]:
                    told[low] = reader[edge]
                    low += 1
                    if record:
                        came_by[edge] = -1
                else:
                    key = np.int64(target) << 1 | (cpu[target] or host[edge])
                    across[crossing] = key << 32 | edge
                    crossing += 1
            if crossing > 1:
                _sort(across, crossing)
            high -= crossing
            known, carried = np.int64(-1), np.int64(-1)
            for at in range(crossing):
                key, edge = across[at] >> 32, across[at] & _LOW
                if key != known or edge_tensor[edge] != carried:
                    known, carried = key, np.int64(edge_tensor[edge])
                    path = way[home[key >> 1] if copied else here, key >> 1]
                    if path < 0:
                        return REFUSED
                    nbytes, rate, wire_ns = tensor_bytes[carried], bytes_per_s[path], np.int64(0)
                    if rate > 0 and nbytes <= SAFE_BYTES:
                        wire_ns = _wire_ns(nbytes, rate)
                    elif rate > 0:
                        wire_ns = big_ns[_row(big, carried), path]
                        if wire_ns < 0:
                            return REFUSED
                    way_of[transfers] = path
                    end_ns[transfers] = latency_ns[path] + wire_ns
                    total += latency_ns[path] + wire_ns
                    span_from[transfers] = high + at
                    tensor_of[transfers], target_of[transfers] = carried, key >> 1
                    transfers += 1
                told[high + at] = reader[edge]
                span_to[transfers - 1] = high + at + 1
                if record:
                    came_by[edge] = transfers - 1
        local_end[op] = low
    asked_ptr[len(took_ns)] = transfers
    return transfers if total < _COUNTABLE_NS else REFUSED


@_inner
def _reset(flat: Flat, work: Work, device: Ids, transfers: int) -> None:
    """Clear what a run needs clear, and give each device and each way its region of the queues."""
    all_waits, waits, merged, way_of, lanes = flat.waits, work.waits, work.merged, work.way_of, flat.lanes
    idle, region, head, end = work.idle, work.region, work.head, work.end
    wire_head, wire_end, free_ns = work.wire_head, work.wire_end, work.free_ns
    for where in range(len(idle)):
        idle[where] = lanes[where]
        end[where] = 0
    for way in range(len(wire_end)):
        wire_end[way] = 0
    for link in range(len(free_ns)):
        free_ns[link] = 0
    for op in range(len(device)):
        waits[op] = all_waits[op]
        merged[op] = 0
        end[device[op]] += 1
    for transfer in range(transfers):
        wire_end[way_of[transfer]] += 1
    at = np.int64(0)
    for where in range(len(idle)):
        region[where], head[where] = at, at
        at += end[where]
        end[where] = head[where]
    at = np.int64(0)
    for way in range(len(wire_end)):
        wire_head[way] = at
        at += wire_end[way]
        wire_end[way] = wire_head[way]


@_inner
def _resident(flat: Flat, work: Work, device: Ids, transfers: int) -> None:
    """What each device holds all the time; a copied constant is held by every CPU that keeps a copy."""
    cpu, home, tensor_ptr, tensor_edge = flat.cpu, flat.home, flat.tensor_ptr, flat.tensor_edge
    consumer, replicable, resident_bytes = flat.consumer, flat.replicable, flat.resident_bytes
    level, peak, over = work.level, work.peak, work.over
    for where in range(len(level)):
        level[where] = 0
        peak[where] = -1
    for op in range(len(device)):
        if resident_bytes[op] == 0:
            continue
        copied = False
        for tensor in range(tensor_ptr[op], tensor_ptr[op + 1] if cpu[device[op]] else 0):
            first, last = tensor_edge[tensor], tensor_edge[tensor + 1] if replicable[tensor] else 0
            for edge in range(first, last):
                copied |= home[device[consumer[edge]]] != home[device[consumer[first]]]
            for edge in range(first, last if copied else 0):
                where = home[device[consumer[edge]]]
                if peak[where] != op:  # used as a stamp
                    peak[where] = op
                    level[where] += resident_bytes[op]
        if not copied:
            level[device[op]] += resident_bytes[op]
    for where in range(len(level)):
        peak[where] = level[where]
        work.freed[where], work.begun[where], work.brief[where] = 0, 0, 0
    for task in range(len(device) + transfers):
        over[task] = False


@_inner
def _advance(level: Ints, peak: Ints, freed: Ints, begun: Ints, brief: Ints) -> None:
    """An instant is over: first what ended is freed, then what began is added, then what also ended at it is freed."""
    for where in range(len(level)):
        now = level[where] - freed[where] + begun[where]
        peak[where] = max(peak[where], now)
        level[where] = now - brief[where]
        freed[where] = 0
        begun[where] = 0
        brief[where] = 0


@_inner
def _drop(
    buffer: int, now: int, holds: Ids, since_ns: Ints, held_by: Ids, nbytes: Ints, freed: Ints, brief: Ints
) -> None:
    """One needs the buffer less; when none does, it is freed."""
    if buffer >= 0:
        holds[buffer] -= 1
        if holds[buffer] == 0 and since_ns[buffer] < now:
            freed[held_by[buffer]] += nbytes[buffer]
        elif holds[buffer] == 0:
            brief[held_by[buffer]] += nbytes[buffer]


@_inner
def _begin_all(flat: Flat, work: Work, device: Ids, count: int, now: int) -> None:
    """What began in this round takes memory."""
    began, way_of, tensor_of, target_of = work.began, work.way_of, work.tensor_of, work.target_of
    owner, holds, since_ns, held_by, nbytes = work.owner, work.holds, work.since_ns, work.held_by, work.nbytes
    begun, link_ptr, tensor_bytes, passes = work.begun, flat.link_ptr, flat.tensor_bytes, flat.passes
    scratch_bytes, tensor_ptr = flat.scratch_bytes, flat.tensor_ptr
    n, tensors = len(device), len(tensor_bytes)
    for i in range(count):
        task = began[i]
        if task < n:
            here = device[task]
            begun[here] += scratch_bytes[task]
            low, high = np.int64(tensor_ptr[task]), np.int64(tensor_ptr[task + 1])
        else:
            here = target_of[task - n]
            low = tensors + task - n
            owner[low] = -1  # handed over: as its tensor, once that is there
            handed = link_ptr[way_of[task - n]] == link_ptr[way_of[task - n] + 1]
            high = low if handed else low + 1
        for copy in range(low, high):
            owner[copy] = -1
            if copy >= tensors or passes[copy] == OWN:
                owner[copy], holds[copy], since_ns[copy], held_by[copy] = copy, 1, now, here
                nbytes[copy] = tensor_bytes[copy if copy < tensors else tensor_of[copy - tensors]]
                begun[here] += nbytes[copy]


@_inner
def _end_all(flat: Flat, work: Work, device: Ids, count: int, now: int) -> None:
    """What ended in this round hands its outputs to those who wait for them, and lets go of what it read."""
    consumer, edge_tensor, tensor_op, tensor_ptr = flat.consumer, flat.edge_tensor, flat.tensor_op, flat.tensor_ptr
    tensor_edge, in_ptr, in_edge, passes = flat.tensor_edge, flat.in_ptr, flat.in_edge, flat.passes
    scratch_bytes, bound, tensors, n = flat.scratch_bytes, flat.bound, len(flat.tensor_bytes), len(device)
    owner, holds, over, came_by, told, first = work.owner, work.holds, work.over, work.came_by, work.told, work.first
    since_ns, held_by, nbytes, ended = work.since_ns, work.held_by, work.nbytes, work.ended
    tensor_of, span_from, span_to, asked_ptr = work.tensor_of, work.span_from, work.span_to, work.asked_ptr
    start_ns, freed, brief = work.start_ns, work.freed, work.brief
    for i in range(count):
        task = ended[i]
        over[task] = True
        low, high = 0, 0  # the buffers that it filled
        if task >= n:
            tensor, copy = tensor_of[task - n], tensors + task - n
            if owner[copy] >= 0:
                low, high = copy, copy + 1
            else:
                owner[copy] = owner[tensor]
            for place in range(span_from[task - n], span_to[task - n]):
                reader = told[place]
                if owner[copy] >= 0 and not over[reader if reader >= 0 else consumer[~reader]]:
                    holds[owner[copy]] += 1
            _drop(owner[tensor], now, holds, since_ns, held_by, nbytes, freed, brief)
        else:
            low, high = tensor_ptr[task], tensor_ptr[task + 1]
            for tensor in range(low, high):
                if passes[tensor] >= 0 or passes[tensor] == FIRST:
                    edge = passes[tensor] if passes[tensor] >= 0 else first[task]
                    owner[tensor] = owner[edge_tensor[edge] if came_by[edge] < 0 else tensors + came_by[edge]]
                for edge in range(tensor_edge[tensor], tensor_edge[tensor + 1]):
                    if owner[tensor] >= 0 and came_by[edge] < 0 and not over[consumer[edge]]:
                        holds[owner[tensor]] += 1
            for transfer in range(asked_ptr[task], asked_ptr[task + 1]):
                if owner[tensor_of[transfer]] >= 0:
                    holds[owner[tensor_of[transfer]]] += 1
            if start_ns[task] < now:
                freed[device[task]] += scratch_bytes[task]
            else:
                brief[device[task]] += scratch_bytes[task]
            for place in range(
                in_ptr[task], in_ptr[task + 1] if not bound[task] else 0
            ):  # the client keeps what it gets
                edge = in_edge[place]
                tensor, transfer = edge_tensor[edge], came_by[edge]
                # a value that comes too late for its Merge will find that it has ended
                if over[tensor_op[tensor] if transfer < 0 else n + transfer]:
                    buffer = owner[tensor if transfer < 0 else tensors + transfer]
                    _drop(buffer, now, holds, since_ns, held_by, nbytes, freed, brief)
        for copy in range(low, high):
            if owner[copy] == copy:
                _drop(copy, now, holds, since_ns, held_by, nbytes, freed, brief)


@_inner
def _play(flat: Flat, work: Work, device: Ids, order: Ids, tail: Ints, limit: int, record: bool) -> int:
    """One run: its makespan, or why there is none. `order`: ops by (priority, row), empty for first ready first.

    Long, because the state of the loop is in local names. `tail` is empty or says for each op how long the step takes
    at least from its start.
    """
    transfers = _find(flat, work, device, record)
    if transfers < 0:
        return transfers
    _reset(flat, work, device, transfers)
    block, instant, consumer, link_ptr, link = flat.block, flat.instant, flat.consumer, flat.link_ptr, flat.link
    told, local_end, asked_ptr, took_ns, waits = work.told, work.local_end, work.asked_ptr, work.took_ns, work.waits
    span_from, span_to, way_of, end_ns, wire = work.span_from, work.span_to, work.way_of, work.end_ns, work.wire
    key, task, woken, asking, chain = work.key, work.task, work.woken, work.asking, work.chain
    queue, free_ns, merged, first, place_of = work.queue, work.free_ns, work.merged, work.first, work.place
    idle, region, head, queue_end = work.idle, work.region, work.head, work.end
    wire_head, wire_end, touched = work.wire_head, work.wire_end, work.touched
    ready_ns, start_ns, sent_ns, asked_ns = work.ready_ns, work.start_ns, work.sent_ns, work.asked_ns
    began, ended = work.began, work.ended
    n, edges, ranked, bounded = len(took_ns), len(consumer), len(order) > 0, len(tail) > 0
    for position in range(len(order)):
        place_of[order[position]] = position
    if record:
        _resident(flat, work, device, transfers)
    low, high = edges, len(told)  # who is told first: those that wait for nothing
    now, size, left, turn = np.int64(0), np.int64(0), n, 0
    opening = True
    while True:
        turn += 1
        ready, asks, brief, served = 0, 0, 0, 0
        starts, ends = np.int64(0), np.int64(0)
        while True:  # each end of this round
            if not opening:
                if size == 0 or key[0] > now:
                    break
                what = np.int64(task[0])
                if what >= n + edges:
                    began[starts] = what - edges
                    starts += 1
                    size -= 1
                    _sink(key, task, size, key[size], task[size])
                    continue
                if record:
                    ended[ends] = what
                    ends += 1
                if what >= n:
                    transfer = what - n
                    low, high = span_from[transfer], span_to[transfer]
                    way = way_of[transfer]
                    wire_head[way] += 1
                    if wire_head[way] < wire_end[way]:
                        transfer = wire[wire_head[way]]
                        _sink(key, task, size, end_ns[transfer], n + transfer)
                        if record:
                            if sent_ns[transfer] > now:
                                size = _rise(key, task, size, sent_ns[transfer], n + edges + transfer)
                            else:
                                began[starts] = n + transfer
                                starts += 1
                    else:
                        size -= 1
                        _sink(key, task, size, key[size], task[size])
                else:
                    low, high = block[what], local_end[what]
                    for transfer in range(asked_ptr[what], asked_ptr[what + 1]):
                        asking[asks] = transfer
                        asks += 1
                    here = device[what]
                    op = queue[head[here]] if head[here] < queue_end[here] and not ranked else -1
                    if op >= 0:
                        head[here] += 1
                        if record:
                            start_ns[op] = now
                            began[starts] = op
                            starts += 1
                        if bounded and now + tail[op] > limit:
                            return GIVEN_UP
                    if op >= 0 and took_ns[op] > 0:
                        _sink(key, task, size, now + took_ns[op], op)
                    else:
                        size -= 1
                        _sink(key, task, size, key[size], task[size])
                        if op >= 0:
                            brief += 1
                            chain[n - brief] = op
                        else:
                            idle[here] += 1
                            touched[served] = here
                            served += 1
            opening = False
            chained = 0
            while True:
                for place in range(low, high):
                    op = told[place]
                    if op < 0:
                        edge = ~op
                        op = consumer[edge]
                        if merged[op]:
                            if merged[op] == turn:
                                first[op] = min(first[op], edge)
                            continue
                        merged[op], first[op] = turn, edge
                    waits[op] -= 1
                    if waits[op] == 0:
                        left -= 1
                        if record:
                            ready_ns[op] = now
                        if instant[op]:
                            chain[chained] = op
                            chained += 1
                        else:
                            woken[ready] = op
                            ready += 1
                if chained == 0:
                    break
                chained -= 1
                op = chain[chained]
                low, high = block[op], local_end[op]
                for transfer in range(asked_ptr[op], asked_ptr[op + 1]):
                    asking[asks] = transfer
                    asks += 1
                if record:
                    start_ns[op] = now
                    began[starts], ended[ends] = op, op
                    starts, ends = starts + 1, ends + 1
        if asks > 1:
            _sort(asking, asks)
        for i in range(asks):
            transfer = asking[i]
            way = way_of[transfer]
            begin = now
            for place in range(link_ptr[way], link_ptr[way + 1]):
                begin = max(begin, free_ns[link[place]])
            end = begin + end_ns[transfer]
            for place in range(link_ptr[way], link_ptr[way + 1]):
                free_ns[link[place]] = end
            end_ns[transfer] = end
            alone = wire_head[way] == wire_end[way]
            wire[wire_end[way]] = transfer
            wire_end[way] += 1
            if alone:
                size = _rise(key, task, size, end, n + transfer)
            if record:
                asked_ns[transfer], sent_ns[transfer] = now, begin
                if alone and begin > now:
                    size = _rise(key, task, size, begin, n + edges + transfer)
                elif alone:
                    began[starts] = n + transfer
                    starts += 1
        if ready > 1:
            _sort(woken, ready)
        for i in range(ready):
            op = np.int32(woken[i])
            here = device[op]
            if ranked:
                _offer(queue, region[here], queue_end[here] - head[here], place_of[op])
                queue_end[here] += 1
                touched[served] = here
                served += 1
            elif idle[here] > 0:
                idle[here] -= 1
                brief += 1
                chain[n - brief] = op
                if record:
                    start_ns[op] = now
                    began[starts] = op
                    starts += 1
            else:
                queue[queue_end[here]] = op
                queue_end[here] += 1
        for i in range(served if ranked else 0):
            here = touched[i]
            while idle[here] > 0 and head[here] < queue_end[here]:
                brief += 1
                chain[n - brief] = order[_take(queue, region[here], queue_end[here] - head[here])]
                queue_end[here] -= 1
                idle[here] -= 1
        for i in range(brief):
            op = chain[n - 1 - i]
            if bounded and now + tail[op] > limit:
                return GIVEN_UP
            if record and ranked:
                start_ns[op] = now
                began[starts] = op
                starts += 1
            size = _rise(key, task, size, now + took_ns[op], op)
        if record:
            _begin_all(flat, work, device, starts, now)
            _end_all(flat, work, device, ends, now)
        if size == 0:
            break
        if key[0] > now:
            if record:
                _advance(work.level, work.peak, work.freed, work.begun, work.brief)
            now = key[0]
            if now > limit:
                return GIVEN_UP
    if record:
        _advance(work.level, work.peak, work.freed, work.begun, work.brief)
    return now if left == 0 else STUCK


def _signature() -> object:
    """The one type of `play`, as the fields of `Flat` and `Work` say it."""

    def table(kind: type[Flat] | type[Work], *, readonly: bool) -> object:
        columns = [
            types.Array(from_dtype(np.dtype(dtype)), 2 if name in MATRICES else 1, "C", readonly=readonly)
            for name, dtype in dtypes(kind).items()
        ]
        return types.NamedTuple(columns, kind)

    rows, tail = types.Array(int32, 2, "C", readonly=True), types.Array(int64, 1, "C", readonly=True)
    given = (table(Flat, readonly=True), table(Work, readonly=False), rows, rows, tail, int64, boolean)
    return void(*given, int64, int64, int64[::1], int64[:, ::1])


def _play_some(
    flat: Flat,
    work: Work,
    devices: Rows,
    orders: Rows,
    tail: Ints,
    limit: int,
    record: bool,
    start: int,
    step: int,
    makespans: Ints,
    peaks: npt.NDArray[np.int64],
) -> None:
    """Runs start, start + step, ... of `devices` [B, n] without Python's lock; see `_play`.

    `orders` has no row, one for all runs, or one per run. Fills in `makespans` [B] and, where it has rows, `peaks`
    [B, D]; a record is in `work`, of the last run.
    """
    for run in range(start, len(devices), step):
        order = orders[min(run, len(orders) - 1)] if len(orders) > 0 else devices[run][:0]
        makespans[run] = _play(flat, work, devices[run], order, tail, limit, record)
        for where in range(peaks.shape[1] if len(peaks) > 0 else 0):
            peaks[run, where] = work.peak[where]


def made(
    function: Callable[..., None], signature: object, compiler: Callable[..., Callable[..., Callable[..., None]]] = njit
) -> tuple[Callable[..., None], bool]:
    """The function compiled, now or taken from numba's cache, and whether it is kept there.

    numba keeps it in NUMBA_CACHE_DIR, else beside this file, else in the user's cache; where none can be written it is
    compiled again by every process.
    """
    options = {"nogil": True, "error_model": "numpy", "_nrt": False}
    try:
        return compiler(signature, cache=True, **options)(function), True
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return compiler(signature, **options)(function), False


play, kept = made(_play_some, _signature())


def run(
    tables: Tables,
    device: Sequence[int] | npt.NDArray[np.integer],
    priority: Sequence[int] | npt.NDArray[np.integer] | None = None,
) -> Outcome:
    """The same as `engine.run`, errors included: what the compiled loop cannot do it leaves to the specification."""
    column = checked(tables, device)
    if not base(tables):
        return engine.run(tables, device, priority)
    order: npt.NDArray[np.integer] = np.zeros((0, len(column)), np.int32)
    if priority is not None:
        order = np.argsort(ints(priority), kind="stable")[None]
        if order.shape != (1, len(column)):
            return engine.run(tables, device, priority)
    makespan = np.zeros(1, np.int64)
    with tables.workspace() as work:
        rows = ids(column[None]), ids(order)
        play(tables.flat, work, *rows, ints([]), NEVER, True, 0, 1, makespan, np.zeros((0, 0), np.int64))
        if makespan[0] < 0:
            return engine.run(tables, device, priority)
        crossing, nothing = crossings(tables, column), np.zeros(0, np.int64)
        count, works = len(crossing), np.zeros(2 * len(crossing), np.int64)
        start = ints(np.append(work.start_ns, works))
        played = Played(
            makespan=int(makespan[0]),
            ready=work.ready_ns,
            first=np.where(tables.merge, work.first, -1),
            start=nothing,
            asked=nothing,
            sent=work.sent_ns[:count],
            came=work.end_ns[:count],
        )
        end = ints(start + np.append(work.took_ns, works))
        lane = lanes(tables, column, crossing, start)
        return outcome(tables, column, crossing, played, start, end, ints(work.asked_ns[:count]), lane)


def base(tables: Tables) -> bool:
    """Whether links are all that transfers take, one at a time: what this loop knows."""
    ways = tables.ways
    work = (ways.request_ns, ways.send_ns, ways.receive_ns, ways.send_ps_per_byte, ways.receive_ps_per_byte)
    own = any(one not in (None, "serial") for one in ways.link_contention)
    return not (own or any(column.any() for column in work) or (tables.post >= 0).any())
