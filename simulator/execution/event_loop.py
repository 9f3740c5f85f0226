"""The event loop: tasks on resources. Written once, it runs over lists and, compiled, over arrays.

A task is ready when as many events have come as it needs. It starts when its resource takes it, and ends after its
length. Its end is an event for its successors. Its start is an event for at most one other task (`onward`), so that
bytes cut through from link to link. An op is a task on its device, and a transfer is a chain of tasks (`task_graph`).
The loop does not know one from the other. Resources are

    a device    has lanes and a ready queue: first come first served, by priority, or TensorFlow's executor (`executor`)
    a link      serves one task after the other in the order in which they come; so start and end are known at once.
                An arrival, which waits for links alone, is notified at once, too: its end is the one event of them all
    a route     whose links are shared: all tasks on it advance at the max-min fair rate (`sharing`)
    NOWHERE     a delay: it starts when it is ready
    AT_ONCE     no time and no lane: it ends when it is ready, in the same round

At each instant, in rounds until nothing more happens at it,

    1. all tasks that end now are retired, and their successors are notified;
    2. tasks that are ready join their resources, in order of their numbers;
    3. idle lanes take from the ready queues of their devices.

A task of no length ends at the instant at which it starts, in a round of its own. Bytes that cut through join their
next link a round after their last. Of the data inputs of a Merge the first alone is an event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.execution.arrays import (
    ARRIVAL,
    ASKS,
    AT_ONCE,
    BEGINNING,
    EXECUTOR,
    FIFO,
    GIVEN_UP,
    INFINITE,
    INSTANTS,
    PRIORITY,
    STUCK,
    TIMES,
)
from simulator.execution.event_queue import events_of, first, pop, push, replace, sort
from simulator.execution.executor import append, assign, enqueue, launch, schedule, touch
from simulator.execution.sharing import finish, join, settle

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.execution.arrays import Flows, SharedLinks, State, Tasks, Threads


class Hooks(NamedTuple):
    """Functions of a controller that lets steps begin again and again; it alone knows `control`, a tuple of arrays."""

    asked: Callable[
        ..., Any
    ]  # Any: two arrays or lists. (control): where the loop notes marked tasks that are ready, and its progress
    begin: Callable[..., int]  # (control, state): push the first timers; the size of the event queue
    ended: Callable[..., bool]  # (control, tasks, state, threads, task, now, order): its successors are not notified
    awaits: Callable[..., None]  # (control, task): it is to be released
    released: Callable[..., bool]  # (control, task, now): it is left of a step that was cut short
    joins: Callable[
        ..., bool
    ]  # (control, tasks, state, task, now): a task of a transfer joins; does its start notify others?
    carries: Callable[..., None]  # (control, task, now): such a task starts
    works: Callable[..., int]  # (control, tasks, task, where, now): a task starts on a device; its duration
    act: Callable[..., int]  # (control, tasks, state, threads, size, now, order, asks): at the end of a round


def meld(one: int, other: int, behind: Ids, beside: Ids, rank: Ids) -> int:
    """The root of the skew heap by rank that two become; -1 is an empty one."""
    if one < 0:
        return other
    if other < 0:
        return one
    if rank[other] < rank[one]:
        one, other = other, one
    root = one
    while True:  # along the right sides, which change places with the left ones
        below = beside[one]
        beside[one] = behind[one]
        if below < 0:
            behind[one] = other
            return root
        if rank[other] < rank[below]:
            below, other = other, below
        behind[one] = below
        one = below


def event_loop(hooks: Hooks | None = None) -> Callable[..., int]:
    """The loop with such hooks. Without any there is one step, which begins at once."""
    directed = hooks is not None
    if hooks is not None:  # what is under `if directed` is left out where it is compiled without
        asked_of, begin_run, ended_, awaits, released_, joins, carries, works, act = hooks

    def play(
        tasks: Tasks,
        state: State,
        threads: Threads,
        flows: Flows,
        shared: SharedLinks,
        order: int,
        count: int,
        rest_ns: Ints,
        limit: int,
        notes: int,
        control: Any,  # Any: the arrays of the hooks
    ) -> int:
        """Run a step of so many tasks: its makespan, or why there is none. With hooks it runs until these stop it.

        `rest_ns` is empty or says for each op how long the step takes at least from its start. A run that can't end by
        `limit` is given up, also where a device with one lane has too much left to do. `notes`: what is noted of each
        task, the sum of TIMES and INSTANTS or 0.

        It is long because a call per event would double its time.
        """
        length, resource, lag_ns, release_ns = tasks.length, tasks.resource, tasks.lag_ns, tasks.release_ns
        onward, next_from, next_to, successor = tasks.onward, tasks.next_from, tasks.next_to, tasks.successor
        arrival, links_ns = tasks.arrival, state.links_ns
        rank, needs, merged, ready_ns, start_ns = tasks.rank, state.needs, state.merged, state.ready_ns, state.start_ns
        idle, head, last, behind, beside = state.idle, state.head, state.last, state.behind, state.beside
        free_ns, queued, batch, fresh, later = state.free_ns, state.queued, state.batch, state.fresh, state.later
        starting = state.starting
        chain, woken, sending, touched, touched_in = (
            state.chain,
            state.woken,
            threads.sending,
            state.touched,
            state.touched_in,
        )
        began_in, ended_in, left_ns = state.began_in, state.ended_in, state.left_ns
        events, ops, tailed, ends_ns = events_of(state), tasks.ops[0], len(rest_ns), state.end_ns
        devices, routes, twice = len(idle), len(idle) + len(free_ns), 2 * count
        fifo, ranked, executor = order == FIFO, order == PRIORITY, order == EXECUTOR
        released, sharing = tasks.released[0], tasks.shares[0]
        timing, noting = notes & TIMES > 0, notes & INSTANTS > 0
        now, size, turn, instant, left, ready, waiting = 0, 0, 0, 0, count - 1, 1, 0
        by, woke, sends, answering = ARRIVAL, 0, 0, -1  # the executor's
        watched = False  # a controller counts when its bytes are on links
        asks = 0
        if directed:
            asked, progress = asked_of(control)
            ready = 0
            if progress[3] == 0:
                progress[1], progress[3] = begin_run(control, state), 1
            now, size, turn, ready = progress[0], progress[1], progress[2], progress[5]
        if not directed:
            fresh[0] = count - 1  # the beginning of the step
            ready_ns[count - 1] = 0
        while True:
            # 1. what ends now
            turn += 1
            ending, starts, touches = 0, 0, 0
            while size > 0:
                upcoming, task = first(events)
                if upcoming > now:
                    break
                if task < count:
                    where = resource[task]
                    if 0 <= where < devices:
                        if fifo:
                            other = head[where]
                            if other < 0:
                                idle[where] += 1
                            else:  # the next takes the lane, and its end the place in the event queue
                                head[where] = behind[other]
                                if directed or length[other] == 0:
                                    starting[starts] = other
                                    starts += 1
                                else:
                                    if other < tailed:
                                        if now + rest_ns[other] > limit or now + left_ns[where] > limit:
                                            return GIVEN_UP
                                        left_ns[where] -= length[other]
                                    if timing:
                                        start_ns[other] = now
                                    if noting:
                                        began_in[other] = instant
                                    replace(events, size, now + length[other], other)
                                    batch[ending] = task
                                    ending += 1
                                    continue
                        else:
                            if executor:
                                threads.free[threads.lane_ptr[where] + threads.lane[task]] = 1
                            else:
                                idle[where] += 1
                            touches = touch(where, touched, touched_in, turn, touches)
                elif task < twice:  # the next start on this link takes its place
                    batch[ending] = task
                    ending += 1
                    other = behind[task - count]
                    if other >= 0:
                        replace(events, size, start_ns[other], count + other)
                    else:
                        queued[resource[task - count] - devices] = -1
                        size = pop(events, size)
                    continue
                size = pop(events, size)
                batch[ending] = task
                ending += 1
            if sharing:
                known = ending
                ending = finish(flows, now, turn, batch, ending)
                for at in range(known, ending):
                    ends_ns[batch[at]] = now
            if executor and ending > 1:
                sort(batch, ending)
            for at in range(ending):
                task = batch[at]
                if task >= count:
                    if task >= twice:  # it is released
                        task -= twice
                        if directed:
                            if released_(control, task, now):
                                continue
                        fresh[ready] = task
                        ready += 1
                        continue
                    task -= count  # a link begins with it
                    if directed:
                        carries(control, task, now)
                    if noting:
                        began_in[task] = instant
                    task = onward[task]
                    if task >= 0:
                        needs[task] -= 1
                        if needs[task] == 0:
                            if timing:
                                ready_ns[task] = now
                            left -= 1
                            fresh[ready] = task
                            ready += 1
                    continue
                if directed:
                    if ended_(control, tasks, state, threads, task, now, order):
                        continue
                if noting:
                    ended_in[task] = instant
                low, high, chained, done = next_from[task], next_to[task], 0, 0
                if executor:
                    by, woke, sends, answering = task, 0, 0, -1
                if executor and task >= ops:
                    by = ARRIVAL
                    if threads.packs[task]:
                        answering = task  # or it packs: then no packing follows
                    if task == count - 1:
                        by = BEGINNING
                    touches = launch(threads, tasks, state, -1, low, high, turn, touches)
                while True:
                    for place in range(low, high):
                        task = successor[place]
                        if task < 0:
                            task = ~task
                            if merged[task]:
                                continue
                            merged[task] = 1
                        needs[task] -= 1
                        if needs[task] == 0:
                            if timing:
                                ready_ns[task] = now
                            left -= 1
                            if resource[task] == AT_ONCE:
                                if timing:
                                    start_ns[task] = now
                                if noting:
                                    began_in[task] = instant
                                    ended_in[task] = instant
                                chain[chained] = task
                                chained += 1
                            elif directed and resource[task] == ASKS:
                                asked[asks] = task
                                asks += 1
                            elif released and task >= ops and release_ns[task] > now:  # no op is
                                size = push(events, size, release_ns[task], twice + task)
                                if directed:
                                    awaits(control, task)
                            elif not executor:
                                fresh[ready] = task
                                ready += 1
                            elif task < ops:
                                woken[woke] = task
                                woke += 1
                            elif by >= 0 and threads.packs[task] and resource[task] == threads.device[by]:
                                sending[sends] = task
                                sends += 1
                            elif answering >= 0 and threads.packs[task]:  # the value waits: the same thread sends it
                                where = resource[task]
                                lane = threads.lane_ptr[where] + threads.lane[answering]
                                append(task, lane, threads.own_head, threads.own_last, behind)
                            else:
                                fresh[ready] = task
                                ready += 1
                    if done == chained:
                        break
                    task = chain[done]
                    low, high = next_from[task], next_to[task]
                    done += 1
                if executor:
                    touches = schedule(threads, tasks, state, by, woke, sends, turn, touches)
            # 2. what is ready joins its resource
            waiting = 0
            if ready > 1:
                sort(fresh, ready)
            for at in range(ready):
                task = fresh[at]
                where = resource[task]
                if directed:
                    if where < 0 or where >= devices:
                        watched = joins(control, tasks, state, task, now)
                if 0 <= where < devices:
                    if fifo:
                        if idle[where] > 0 and head[where] < 0:
                            idle[where] -= 1
                            starting[starts] = task
                            starts += 1
                        else:
                            behind[task] = -1
                            if head[where] < 0:
                                head[where] = task
                            else:
                                behind[last[where]] = task
                            last[where] = task
                    elif ranked:
                        behind[task] = -1
                        beside[task] = -1
                        head[where] = meld(head[where], task, behind, beside, rank)
                        touches = touch(where, touched, touched_in, turn, touches)
                    else:
                        touches = enqueue(threads, state, task, where, turn, touches)
                elif devices <= where < routes:
                    begin = free_ns[where - devices]
                    if begin < now:
                        begin = now
                    end = begin + length[task]
                    if timing:
                        start_ns[task] = begin
                    free_ns[where - devices] = end
                    arriving = arrival[task]
                    if arriving < 0:
                        size = push(events, size, end + lag_ns[task], task)
                    else:
                        if links_ns[arriving] < end:
                            links_ns[arriving] = end
                        needs[arriving] -= 1
                        if needs[arriving] == 0:
                            end = links_ns[arriving]
                            links_ns[arriving] = 0
                            if timing:
                                ready_ns[arriving] = end
                                start_ns[arriving] = end
                            left -= 1
                            size = push(events, size, end + length[arriving], arriving)
                    if begin > now:
                        if noting or watched or onward[task] >= 0:
                            start_ns[task], behind[task] = begin, -1
                            if queued[where - devices] < 0:
                                size = push(events, size, begin, count + task)
                            else:
                                behind[queued[where - devices]] = task
                            queued[where - devices] = task
                        continue
                    if directed:
                        if watched:
                            carries(control, task, now)
                    if noting:
                        began_in[task] = instant
                    task = onward[task]
                    if task >= 0:
                        needs[task] -= 1
                        if needs[task] == 0:
                            if timing:
                                ready_ns[task] = now
                            left -= 1
                            later[waiting] = task
                            waiting += 1
                elif where < 0:
                    if timing:
                        start_ns[task] = now
                    if directed:
                        if watched:
                            carries(control, task, now)
                    if noting:
                        began_in[task] = instant
                    size = push(events, size, now + length[task], task)
                else:
                    if timing:
                        start_ns[task] = now
                    if directed:
                        if watched:
                            carries(control, task, now)
                    if noting:
                        began_in[task] = instant
                    join(flows, where - routes, task, length[task], now, turn)
            # 3. idle lanes take from the ready queues
            if touches > 0:
                for at in range(touches):
                    where = touched[at]
                    if executor:
                        starts = assign(threads, where, behind, starting, starts)
                    else:
                        while idle[where] > 0 and head[where] >= 0:
                            task = head[where]
                            head[where] = meld(behind[task], beside[task], behind, beside, rank)
                            idle[where] -= 1
                            starting[starts] = task
                            starts += 1
            if starts > 0:
                for at in range(starts):
                    task = starting[at]
                    if task < tailed:
                        where = resource[task]
                        if now + rest_ns[task] > limit or now + left_ns[where] > limit:
                            return GIVEN_UP
                        left_ns[where] -= length[task]
                    if timing:
                        start_ns[task] = now
                    if noting:
                        began_in[task] = instant
                    taken = length[task]
                    if directed:
                        taken = works(control, tasks, task, resource[task], now)
                    size = push(events, size, now + taken, task)
            if directed:
                size = act(control, tasks, state, threads, size, now, order, asks)
                asks = 0
            ready = waiting
            if waiting > 0:
                for at in range(waiting):
                    fresh[at] = later[at]
            upcoming = INFINITE
            if size > 0:
                upcoming = first(events)[0]
            if sharing:
                soonest = settle(flows, shared, now, turn)
                if soonest < upcoming or size == 0:
                    upcoming = soonest
            if ready > 0:
                upcoming = now
            if directed:
                if progress[4] > 0:  # to be stopped, for good or to be emptied
                    progress[0], progress[1], progress[2], progress[5] = now, size, turn, ready
                    stopped: int = progress[4]
                    return stopped
                if upcoming == INFINITE:
                    progress[0], progress[1] = now, size
                    return STUCK
            if upcoming == INFINITE:
                break
            if upcoming > now:
                instant += 1
                now = upcoming
                if now > limit:
                    return GIVEN_UP
        if noting:
            state.noted[0] = instant
        return now if left == 0 else STUCK

    return play
