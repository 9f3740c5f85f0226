"""The event loop, for numba.

`execution.loop` says what simulated time means; nothing is decided here. What is different is how it is found:

    - the heap of ends holds only what runs: a job per busy lane, and the first of the transfers that leave a way in
      turn, or wait on it for one link; where order is by readiness the next job takes the place of the one that ended;
    - within a round jobs that are ready are sorted by number, and so are transfers that join a line; what ends in it is
      sorted only for TensorFlow's executor, as nothing else depends on that order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simulator.execution.compiled.clearing import set_up, shift_down
from simulator.execution.compiled.heaps import offer, rise, row, sink, sort, take
from simulator.execution.compiled.kernel import inner
from simulator.execution.compiled.lines import join_lines, leave_line
from simulator.execution.compiled.memory import advance, begin_all, end_all, give_back
from simulator.execution.compiled.sending import asked_now, by_thread, take_sends
from simulator.execution.compiled.shares import join, leave, put_way, serve, settle
from simulator.execution.compiled.threads import append, launch, next_job, schedule, touch
from simulator.execution.flat import EXECUTOR, GIVEN_UP, LATEST, NEVER, PLAIN, RANKED, REFUSED, STUCK, Flat, Work

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints


class Direction(NamedTuple):
    """What a director does, as `inner` functions; `crew` is a tuple of arrays that they alone know.

    Timers are numbered from where the loop's own tasks end. `now` is the present, `turn` the number of the round.
    """

    state: Callable[..., Any]  # (crew): arrays that the loop shares with it, in the order in which it unpacks them
    begin: Callable[..., int]  # (crew, flat, work, order): lay out, push the first timers; the size of the heap
    told: Callable[
        ..., tuple[int, int]
    ]  # (crew, flat, work, timer, now, order): where in `told` those who are told are
    runs_out: Callable[..., bool]  # (crew, flat, work, task, now): it is left of a step that was cut short
    length_of: Callable[..., int]  # (crew, flat, work, job, device, now): how long it takes when it begins now
    job_begins: Callable[..., None]  # (crew, flat, work, job, device, taken, now)
    job_ends: Callable[..., None]  # (crew, job, device, now)
    sends: Callable[..., None]  # (crew, flat, work, transfer, now): it goes to the wire
    is_watched: Callable[..., bool]  # (crew, flat, work, transfer): whether it is told when bytes that wait begin
    carries: Callable[..., None]  # (crew, flat, work, transfer, now): its bytes are on the links from now on
    arrives: Callable[..., None]  # (crew, flat, work, transfer, now)
    act: Callable[..., int]  # (crew, flat, work, ops, size, now, order, acted, asked): at the end of a round


def loop(full: bool, direction: Direction | None = None) -> Callable[..., int]:
    """The loop, whole or without what few runs need: a third of its time goes into asking for that.

    With a director it takes no record of one step: its steps follow each other.
    """
    directed = direction is not None
    if direction is not None:  # numba leaves out what is under `if directed` where it is not
        shared_with, begin_run, told_by, runs_out, length_of, job_begins, job_ends = direction[:7]
        sends, is_watched, carries, arrives, act = direction[7:]

    @inner
    def _play(
        flat: Flat,
        work: Work,
        device: Ids,
        order: int,
        ops: Ids,
        tail: Ints,
        limit: int,
        noting: bool,
        crew: Any,  # Any: what the director's functions take
    ) -> int:
        """One run: its makespan, or why there is none. `ops`: by (priority, row), for the order RANKED.

        Long, because the state of the loop is in local names. `tail` is empty or says for each op how long the step
        takes at least from its start. `noting`: fill in a record and, where there is no director, count memory. A
        directed run stops where the director says so; it goes on with the next call.
        """
        nodes, places, shared, held = flat
        found, queues, lines, pending, in_round, noted, fair, threads, memory = work
        block, instant, consumer, tensor_bytes = nodes.block, nodes.instant, nodes.consumer, nodes.tensor_bytes
        home, flowing, in_turn, request_ns = places.home, places.flowing, places.in_turn, places.request_ns
        held_ptr, held_link, even, latency_ns = places.held_ptr, places.held, places.even, places.latency_ns
        told, local_end, asked_ptr, took_ns = found.told, found.local_end, found.asked_ptr, found.took_ns
        span_from, span_to, way_of, end_ns = found.span_from, found.span_to, found.way_of, found.end_ns
        late_ns = found.late_ns
        tensor_of, source_of, target_of = found.tensor_of, found.source_of, found.target_of
        key, task, queue, free_ns, place_of = queues.key, queues.task, queues.queue, queues.free_ns, queues.place
        idle, region, head, queue_end, wire = queues.idle, queues.region, queues.head, queues.end, queues.wire
        wire_base, wire_head, wire_end = queues.wire_base, queues.wire_head, queues.wire_end
        onward_ns = lines.onward_ns
        waits, merged, first = pending.waits, pending.merged, pending.first
        due_ns, post_head, post_next = pending.due_ns, pending.post_head, pending.post_next
        batch, woken, fresh, asking = in_round.batch, in_round.woken, in_round.fresh, in_round.asking
        valued = in_round.valued if full else asking  # whose value is there goes to the wire at once
        chain, touched, touched_in = in_round.chain, in_round.touched, in_round.touched_in
        ready_ns, start_ns, asked_ns, sent_ns, came_ns = (
            noted.ready_ns,
            noted.start_ns,
            noted.asked_ns,
            noted.sent_ns,
            noted.came_ns,
        )
        began, ended = memory.began, memory.ended
        flow_count, flow_key, served_by, next_ns, soonest, sizes = (
            fair.flows,
            fair.key,
            fair.served,
            fair.next_ns,
            fair.soonest,
            fair.sizes,
        )
        lane_ptr, lane_free, lane_of = threads.lane_ptr, threads.free, threads.lane
        n, edges, bounded = len(device), len(consumer), len(tail) > 0
        pulls, requesting = places.pulls[0], full and places.requests[0]
        works, record, times = full and places.works[0], full and noting and not directed, full and noting
        unpacking, wires = n + edges, n + 2 * edges
        requests, onward, begins, timers = wires + edges, wires + 2 * edges, wires + 3 * edges, wires + 4 * edges
        last, executor, shares = len(chain) - 1, full and order == EXECUTOR, full and len(shared.link) > 0
        asked_by_mark, acted_by_mark = np.int64(0), np.int64(0)  # no literals, for which `act` would be compiled, too
        now, size, left, turn = np.int64(0), np.int64(0), n, 0
        going_on = False
        if directed:
            mark_of, armed, acted, marked, until_ns, queue_room, wire_room, progress, instants = shared_with(crew)
            going_on = progress[3] > 0
        if not going_on:
            transfers = set_up(flat, work, device, order, ops, full, directed, record)
            if transfers < 0:
                return transfers
        if executor:
            instant = threads.at_once
        if directed:
            if not executor:
                instant = instants
            if not going_on:
                progress[1] = begin_run(crew, flat, work, order)
            now, size, turn, progress[3] = progress[0], progress[1], progress[2], 1
        while True:
            turn += 1
            ready, news, values, asks, brief, served, tasks = 0, 0, 0, 0, 0, 0, 0
            starts, ends = np.int64(0), np.int64(0)
            if not directed:
                if turn == 1:
                    batch[0], tasks = -1, 1  # the step begins
            if directed:
                asked_by_mark, acted_by_mark = np.int64(0), np.int64(0)
            while size > 0 and key[0] <= now:
                what = row(task[0])
                when, follows = now, np.int64(-1)  # what takes its place in the heap
                if what < wires:
                    here = row(
                        device[what]
                        if not works or what < n
                        else home[source_of[what - n]]
                        if what < unpacking
                        else home[target_of[what - unpacking]]
                    )
                    if directed:
                        job_ends(crew, what, here, now)
                    if order == PLAIN and head[here] < queue_end[here]:
                        job = row(queue[row(head[here])])
                        head[here] += 1
                        taken = took_ns[job]
                        if directed:
                            taken = length_of(crew, flat, work, job, here, now)
                        if taken > 0:
                            when, follows = now + taken, np.int64(job)
                            if bounded and job < n and now + tail[job] > limit:
                                return GIVEN_UP
                            if directed:
                                job_begins(crew, flat, work, job, here, taken, now)
                            if times:
                                start_ns[job] = now
                            if record and job < n:
                                began[starts] = job
                                starts += 1
                        else:
                            chain[row(last - brief)] = job
                            brief += 1
                    elif executor:
                        lane_free[lane_ptr[here] + lane_of[what]] = True
                        served = touch(here, touched, touched_in, turn, served)
                    else:
                        idle[here] += 1
                        if order == RANKED:
                            served = touch(here, touched, touched_in, turn, served)
                elif not full or what < requests or onward <= what < begins:
                    transfer = row(what - wires if what < requests else what - onward)
                    way = row(way_of[transfer])
                    if directed:
                        if what < requests:
                            arrives(crew, flat, work, transfer, now)
                    if what >= onward and not flowing[way]:
                        transfer = leave_line(places, wire, lines, transfer, way)
                        if transfer >= 0:
                            when, follows = onward_ns[transfer], onward + transfer
                    elif in_turn[way]:
                        wire_head[way] += 1
                        if wire_head[way] < wire_end[way]:
                            transfer = row(wire[row(wire_head[way])])
                            when = end_ns[transfer]
                            if directed:
                                when = until_ns[transfer]
                            joins = shares and flowing[way] and tensor_bytes[tensor_of[transfer]] > 0
                            follows = (onward if joins else wires) + transfer
                elif record and what >= begins:
                    began[starts] = n + what - begins
                    starts += 1
                if directed:
                    if begins <= what < timers:
                        carries(crew, flat, work, what - begins, now)
                if follows >= 0:
                    sink(key, task, size, when, follows)
                else:
                    size -= 1
                    sink(key, task, size, key[size], task[size])
                if directed:
                    if what < begins and runs_out(crew, flat, work, what, now):
                        continue
                if not full or what < begins or (directed and what >= timers):
                    batch[row(tasks)] = what
                    tasks += 1
            while shares and sizes[0] > 0 and next_ns[soonest[0]] <= now:
                way = soonest[0]
                serve(fair, way, now, turn)
                while flow_count[way] > 0 and flow_key[wire_base[way]] <= served_by[way]:
                    batch[tasks] = wires + leave(fair, wire_base[way], way)
                    if directed:
                        arrives(crew, flat, work, batch[tasks] - wires, now)
                        if runs_out(crew, flat, work, batch[tasks], now):
                            continue
                    tasks += 1
                next_ns[way] = NEVER
                put_way(way, 0, soonest, fair.rank, next_ns, sizes[0])
            if executor and tasks > 1:
                sort(batch, tasks)
            for at in range(tasks):
                what = batch[row(at)]
                by, woken_from, valued_from = np.int64(-1), ready, values
                low, high = np.int64(edges), np.int64(len(told))
                if directed:
                    if what >= timers:
                        low, high = told_by(crew, flat, work, what - timers, now, order)
                        if low < 0:
                            continue
                if 0 <= what < n:
                    if directed:
                        if mark_of[what] >= 0:
                            acted[acted_by_mark] = mark_of[what]
                            acted_by_mark += 1
                    by, low, high = what, row(block[what]), row(local_end[what])
                    for transfer in range(row(asked_ptr[what]), row(asked_ptr[what + 1])):
                        valued[row(values)] = transfer
                        values += 1
                    transfer = np.int64(post_head[what] if pulls else -1)
                    while transfer >= 0:
                        if requesting:
                            due_ns[transfer] = now + request_ns[way_of[transfer]]
                        valued[values] = transfer
                        values += 1
                        transfer = post_next[transfer]
                    if record:
                        ended[ends] = what
                        ends += 1
                elif onward <= what < begins:
                    transfer = row(what - onward)
                    path = row(way_of[transfer])
                    if not full:
                        valued[values] = transfer - (edges if end_ns[transfer] == latency_ns[path] else 0)
                        values += 1
                    elif not flowing[path]:
                        asking[asks] = transfer - (edges if end_ns[transfer] == late_ns[transfer] else 0)
                        asks += 1
                    else:
                        join(fair, wire_base[path], path, transfer, tensor_bytes[tensor_of[transfer]], now, turn)
                        if directed:
                            carries(crew, flat, work, transfer, now)
                    continue
                elif full and requests <= what < begins:
                    valued[values] = what - requests
                    values += 1
                    continue
                elif n <= what < begins:
                    transfer = row(
                        what - wires
                        if not works or what >= wires
                        else what - unpacking
                        if what >= unpacking
                        else what - n
                    )
                    if works and what < unpacking:
                        asking[asks] = transfer
                        asks += 1
                        continue
                    if times and what >= wires:
                        came_ns[transfer] = now
                    if record and what >= wires:
                        ended[ends] = unpacking + transfer
                        ends += 1
                    if works and what >= wires and took_ns[unpacking + transfer] > 0:
                        fresh[news] = unpacking + transfer
                        news += 1
                        continue
                    if record:
                        ended[ends] = n + transfer
                        ends += 1
                    low, high = row(span_from[transfer]), row(span_to[transfer])
                if executor and by < 0:
                    served = launch(
                        np.int64(-1),
                        low,
                        high,
                        told,
                        block,
                        local_end,
                        consumer,
                        places.cpu,
                        instant,
                        threads,
                        device,
                        touched,
                        touched_in,
                        turn,
                        served,
                    )
                chained, done = 0, 0
                while True:
                    for place in range(low, high):
                        op = np.int64(told[row(place)])
                        if op < 0:
                            edge = ~op
                            op = row(consumer[edge])
                            if merged[op]:
                                if full and merged[op] == turn:
                                    first[op] = min(first[op], edge)
                                continue
                            merged[op] = turn
                            if full:
                                first[op] = edge
                        waits[op] -= 1
                        if waits[op] == 0:
                            left -= 1
                            if times:
                                ready_ns[op] = now
                            if instant[op]:
                                if directed:
                                    if mark_of[op] >= 0 and armed[mark_of[op]]:
                                        marked[asked_by_mark] = mark_of[op]
                                        asked_by_mark += 1
                                        continue
                                chain[row(chained)] = op
                                chained += 1
                            else:
                                woken[row(ready)] = op
                                ready += 1
                    if done == chained:
                        break
                    op = row(chain[done])
                    done += 1
                    low, high = row(block[op]), row(local_end[op])
                    for transfer in range(row(asked_ptr[op]), row(asked_ptr[op + 1])):
                        valued[row(values)] = transfer
                        values += 1
                    transfer = np.int64(post_head[op] if pulls else -1)
                    while transfer >= 0:
                        if requesting:
                            due_ns[transfer] = now + request_ns[way_of[transfer]]
                        valued[values] = transfer
                        values += 1
                        transfer = post_next[transfer]
                    if times:
                        start_ns[op] = now
                    if record:
                        began[starts], ended[ends] = op, op
                        starts, ends = starts + 1, ends + 1
                if executor:
                    mine = woken_from  # what a thread makes ready on its own device is the thread's, all else is pooled
                    for one in range(woken_from, ready):
                        here = device[woken[one]]
                        if not places.cpu[here]:
                            if threads.unlaunched[woken[one]] > 0:  # else the stream has it already
                                served = launch(
                                    np.int64(woken[one]),
                                    np.int64(0),
                                    np.int64(0),
                                    told,
                                    block,
                                    local_end,
                                    consumer,
                                    places.cpu,
                                    instant,
                                    threads,
                                    device,
                                    touched,
                                    touched_in,
                                    turn,
                                    served,
                                )
                        elif by >= 0 and here == device[by]:
                            woken[mine] = woken[one]
                            mine += 1
                        else:
                            append(woken[one], here, threads.pool_head, threads.pool_tail, threads.following)
                            served = touch(here, touched, touched_in, turn, served)
                    if by >= 0 and places.cpu[device[by]]:
                        here, own = row(device[by]), 0
                        lane = lane_ptr[here] + lane_of[by]
                        if works and values > valued_from:
                            values, count = take_sends(places, found, valued, valued_from, values, here, n, chain)
                            for one in range(count):
                                transfer, asked = row(chain[one]), True
                                if pulls:
                                    asked, size = asked_now(pending, queues, transfer, requesting, now, size, requests)
                                if asked:
                                    if times:
                                        asked_ns[transfer] = now
                                    chain[own] = n + transfer
                                    own += 1
                        schedule(threads, nodes.inexpensive, took_ns, chain, own, woken, woken_from, mine, here, lane)
                        served = touch(here, touched, touched_in, turn, served)
            if not (full or pulls):
                asks = values
            for i in range(values if full or pulls else 0):
                if not full and valued[i] < 0:
                    asking[asks] = valued[i]
                    asks += 1
                    continue
                transfer = row(valued[i])
                if pulls:
                    asked, size = asked_now(pending, queues, transfer, requesting, now, size, requests)
                    if not asked:
                        continue
                if times:
                    asked_ns[transfer] = now
                if works and took_ns[n + transfer] > 0:
                    fresh[news] = n + transfer
                    news += 1
                else:
                    asking[asks] = transfer
                    asks += 1
            if asks > 1:
                sort(asking, asks)
            for i in range(asks):
                transfer = np.int64(asking[row(i)])
                transfer = row(transfer + edges if transfer < 0 else transfer)  # goes on and has no bytes: is first
                way = row(way_of[transfer])
                place, links = row(held_ptr[way]), held_ptr[way + 1] - held_ptr[way]
                late = late_ns[transfer] if full else latency_ns[way]
                wire_ns = end_ns[transfer] - late
                sent, through = now, now + wire_ns  # its first link begins; all of them are done with it
                if links == 1 and even[way]:
                    link = row(held_link[place])
                    sent = max(now, free_ns[link])
                    through = sent + wire_ns
                    free_ns[link] = through
                    if directed:
                        queues.promised_ns[link] += wire_ns
                elif links > 0:
                    sent, through, size = join_lines(
                        flat, work, transfer, way, wire_ns, now, size, onward, directed or times
                    )
                joins = shares and flowing[way] and tensor_bytes[tensor_of[transfer]] > 0
                end = through + late
                if directed:
                    if sent >= 0:
                        sends(crew, flat, work, transfer, now)
                        if sent > now:
                            if is_watched(crew, flat, work, transfer):
                                size = rise(key, task, size, sent, begins + transfer)
                        elif not joins or end == now:
                            carries(crew, flat, work, transfer, now)
                if (directed or times) and sent >= 0:
                    sent_ns[transfer] = sent
                if record and sent > now:
                    size = rise(key, task, size, sent, begins + transfer)
                elif record and sent >= 0:
                    began[starts] = n + transfer
                    starts += 1
                if through < 0:
                    continue  # it waits for one of its links
                if directed:
                    until_ns[transfer] = end
                else:
                    end_ns[transfer] = end
                if joins and end == now:
                    join(fair, wire_base[way], way, transfer, tensor_bytes[tensor_of[transfer]], now, turn)
                else:
                    alone = not in_turn[way] or wire_head[way] == wire_end[way]
                    if in_turn[way]:
                        if directed:
                            if wire_end[way] == wire_room[way]:
                                shift_down(wire, wire_base, wire_head, wire_end, way)
                        wire[row(wire_end[way])] = transfer
                        wire_end[way] += 1
                    if alone:
                        size = rise(key, task, size, end, (onward if joins else wires) + transfer)
            if executor:
                if news > 1:
                    sort(fresh, news)
                for i in range(news):
                    job = fresh[i]
                    here = home[source_of[job - n]] if job < unpacking else home[target_of[job - unpacking]]
                    if job < unpacking and by_thread(places, found, job - n):
                        append(job, here, threads.pool_head, threads.pool_tail, threads.following)
                    else:
                        append(job, here, threads.message_head, threads.message_tail, threads.following)
                    served = touch(here, touched, touched_in, turn, served)
                for i in range(served):
                    here = touched[i]
                    for lane in range(lane_ptr[here], lane_ptr[here + 1]):
                        follows = next_job(threads, here, lane) if lane_free[lane] else np.int64(-1)
                        if follows >= 0:
                            lane_free[lane] = False
                            lane_of[follows] = lane - lane_ptr[here]
                            chain[last - brief] = follows
                            brief += 1
            else:
                for i in range(news):
                    woken[ready] = fresh[i]
                    ready += 1
                if ready > 1 and order == PLAIN:
                    sort(woken, ready)
                for i in range(ready):
                    job = row(woken[row(i)])
                    here = row(
                        device[job]
                        if not works or job < n
                        else home[source_of[job - n]]
                        if job < unpacking
                        else home[target_of[job - unpacking]]
                    )
                    if order == RANKED:
                        place = place_of[job] if job < n else job - wires  # the work of transfers comes before all ops
                        offer(queue, region[here], queue_end[here] - head[here], place)
                        queue_end[here] += 1
                        served = touch(here, touched, touched_in, turn, served)
                    elif idle[here] > 0:
                        idle[here] -= 1
                        chain[row(last - brief)] = job
                        brief += 1
                    else:
                        if directed:
                            if queue_end[here] == queue_room[here]:
                                shift_down(queue, region, head, queue_end, here)
                        queue[row(queue_end[here])] = job
                        queue_end[here] += 1
                for i in range(served):
                    here = touched[i]
                    while idle[here] > 0 and head[here] < queue_end[here]:
                        best = take(queue, region[here], queue_end[here] - head[here])
                        queue_end[here] -= 1
                        idle[here] -= 1
                        chain[last - brief] = ops[best] if best >= 0 else best + wires
                        brief += 1
            for i in range(brief):
                job = row(chain[row(last - i)])
                if bounded and job < n and now + tail[job] > limit:
                    return GIVEN_UP
                if times:
                    start_ns[job] = now
                if record and job < n:
                    began[starts] = job
                    starts += 1
                taken = took_ns[job]
                if directed:
                    here = np.int64(
                        device[job]
                        if job < n
                        else home[source_of[job - n]]
                        if job < unpacking
                        else home[target_of[job - unpacking]]
                    )
                    taken = length_of(crew, flat, work, job, here, now)
                    job_begins(crew, flat, work, job, here, taken, now)
                size = rise(key, task, size, now + taken, job)
            if record:
                begin_all(held, memory, device, tensor_bytes, places.handed, way_of, tensor_of, target_of, starts, now)
                end_all(
                    held,
                    memory,
                    device,
                    consumer,
                    nodes.edge_tensor,
                    told,
                    first,
                    places.handed,
                    way_of,
                    tensor_of,
                    span_from,
                    span_to,
                    asked_ptr,
                    start_ns,
                    len(tensor_bytes),
                    ends,
                    now,
                )
            if directed:
                size = act(crew, flat, work, ops, size, now, order, acted_by_mark, asked_by_mark)
            upcoming = key[0] if size > 0 else np.int64(NEVER)
            if shares:
                if sizes[1] > 0:
                    settle(fair, shared, wire_base, now, turn)
                if sizes[0] > 0:
                    upcoming = min(upcoming, next_ns[soonest[0]])
            if directed:
                if progress[4] > 0:  # the director stops the run, for good or to be emptied
                    progress[0], progress[1], progress[2] = now, size, turn
                    stopped: int = progress[4]
                    return stopped
                if upcoming > LATEST:
                    return STUCK if upcoming == NEVER else REFUSED
            if upcoming == NEVER:
                break
            if upcoming > now:
                if record:
                    advance(memory.level, memory.peak, memory.freed, memory.begun, memory.brief)
                now = upcoming
                if now > limit:
                    return GIVEN_UP
        if record and left == 0:
            give_back(held, memory, nodes.edge_tensor, len(tensor_bytes), now)
            advance(memory.level, memory.peak, memory.freed, memory.begun, memory.brief)
        return now if left == 0 else STUCK

    return _play
