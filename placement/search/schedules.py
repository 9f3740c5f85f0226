"""List schedules: each op of a list goes to the device on which it ends first, as in HEFT (Topcuoglu, Hariri, Wu 2002).

Its inputs are sent there and wait for links that earlier ones hold. So it is in Sinnen and Sousa, "Communication
contention in task scheduling", IEEE TPDS 16(6), 2005. Plain Python, to be compiled.
"""

from __future__ import annotations

from typing import NamedTuple

from simulator.columns import Ints
from simulator.units import NEVER

RATE_BITS = 20  # of fractions of ns per byte


class Jobs(NamedTuple):
    """The input of a list schedule. Axes: n ops, T tensors, G groups, D devices, W routes, L links."""

    group: Ints  # [n]
    may: Ints  # [G * D] 1: the group may go there
    run_ns: Ints  # [n * D] -1: not there
    instant: Ints  # [n]
    first: Ints  # [n+1] first input of each op
    tensor: Ints  # inputs
    maker: Ints  # [T] op
    nbytes: Ints  # [T] at most 2**32
    free: Ints  # [T] 1: it is everywhere at once
    route: Ints  # [D * D] -1: none
    fixed_ns: Ints  # [W] what a transfer takes besides its bytes
    per_byte: Ints  # [W] ns per byte, with RATE_BITS of a fraction
    held_first: Ints  # [W+1]
    held: Ints  # links that a transfer has to itself, one after the other
    link_per_byte: Ints  # [L] ns per byte, with RATE_BITS of a fraction
    lanes: Ints  # [D]
    resident: Ints  # [G]


class ScheduleState(NamedTuple):
    """The result of a list schedule, and its working memory."""

    device: Ints  # [G] -1: open
    of_op: Ints  # [n] -1: open
    end_ns: Ints  # [n]
    arrive_ns: Ints  # [T * D] -1: not sent there
    free_ns: Ints  # [L] when each link is free
    trial_ns: Ints  # [L] the same with the transfers of a device that is tried
    trial: Ints  # [L] the number of the trial that wrote there
    lane_ns: Ints  # [D * most lanes] when each lane is free
    room: Ints  # [D] bytes left; less than 0 on the first: some group found no room
    order: Ints  # [n] the ops by falling rank, each after its inputs


def _sent(jobs: Jobs, state: ScheduleState, tensor: int, to: int, trial: int, aware: int) -> int:
    """The time at which a tensor is on a device; with a trial of -1 it is sent there, else it would be."""
    devices, maker = len(jobs.lanes), jobs.maker[tensor]
    source = state.of_op[maker]
    if source < 0 or source == to or jobs.free[tensor]:
        return state.end_ns[maker]
    known = state.arrive_ns[tensor * devices + to]
    if known >= 0:
        return known
    route = jobs.route[source * devices + to]
    if route < 0:
        return NEVER
    begin, nbytes = state.end_ns[maker], jobs.nbytes[tensor]
    low = jobs.held_first[route]
    high = jobs.held_first[route + 1] if aware else low
    for at in range(low, high):
        link = jobs.held[at]
        begin = max(begin, state.trial_ns[link] if trial >= 0 and state.trial[link] == trial else state.free_ns[link])
    for at in range(low, high):
        link = jobs.held[at]
        until = begin + ((nbytes * jobs.link_per_byte[link]) >> RATE_BITS)
        if trial >= 0:
            state.trial_ns[link], state.trial[link] = until, trial
        else:
            state.free_ns[link] = until
    return begin + ((nbytes * jobs.per_byte[route]) >> RATE_BITS) + jobs.fixed_ns[route]


def _settle(jobs: Jobs, state: ScheduleState, op: int, to: int) -> None:
    """Put a constant that waited for its first reader beside it, or where it may be."""
    group, devices = jobs.group[op], len(jobs.lanes)
    if state.device[group] < 0:
        chosen = to
        if not jobs.may[group * devices + to]:
            chosen = 0
            while not jobs.may[group * devices + chosen]:
                chosen += 1
        state.device[group] = chosen
        state.room[chosen] -= jobs.resident[group]
    state.of_op[op] = state.device[group]


def list_schedule(jobs: Jobs, state: ScheduleState, aware: int) -> None:
    """Give each op of the list the device on which it ends first; `aware`: transfers wait for the links they hold."""
    devices, trial = len(jobs.lanes), 0
    most = len(state.lane_ns) // devices
    for turn in range(len(state.order)):
        op = state.order[turn]
        group = jobs.group[op]
        if jobs.instant[op] and jobs.first[op] == jobs.first[op + 1] and state.device[group] < 0:
            continue  # a constant: its first reader decides
        best, chosen, lane = 2 * NEVER, -1, 0
        for to in range(devices):
            length = jobs.run_ns[op * devices + to]
            if state.device[group] >= 0:
                if state.device[group] != to:
                    continue
            elif not jobs.may[group * devices + to] or jobs.resident[group] > state.room[to]:
                continue
            if length < 0:
                continue
            trial += 1
            ready, soonest, which = 0, NEVER, 0
            for at in range(jobs.first[op], jobs.first[op + 1]):
                ready = max(ready, _sent(jobs, state, jobs.tensor[at], to, trial, aware))
            for one in range(jobs.lanes[to]):
                if state.lane_ns[to * most + one] < soonest:
                    soonest, which = state.lane_ns[to * most + one], one
            end = (ready if jobs.instant[op] else max(ready, soonest)) + length
            if end < best:
                best, chosen, lane = end, to, which
        if chosen < 0:
            state.room[0] = -1
            return
        if state.device[group] < 0:
            state.device[group] = chosen
            state.room[chosen] -= jobs.resident[group]
        state.of_op[op], state.end_ns[op] = chosen, best
        if not jobs.instant[op]:
            state.lane_ns[chosen * most + lane] = best
        for at in range(jobs.first[op], jobs.first[op + 1]):
            tensor = jobs.tensor[at]
            if state.of_op[jobs.maker[tensor]] < 0:
                _settle(jobs, state, jobs.maker[tensor], chosen)
            if state.of_op[jobs.maker[tensor]] != chosen:
                state.arrive_ns[tensor * devices + chosen] = _sent(jobs, state, tensor, chosen, -1, aware)
