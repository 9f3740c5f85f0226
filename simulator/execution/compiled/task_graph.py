"""Lower a step under an assignment to tasks, as `execution.task_graph` does, in two passes: over edges and transfers.

The first pass finds the transfers in the order of `transfers_of`, and counts the tasks of each kind. So the second can
number them as `execution.task_graph` does, and write them down.

If `Places.task` is filled in, transfers are those of a master's cut. A tensor crosses to the first reader of another
task, in host memory or not. From there it goes on to the other devices of that task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.arrays import (
    AT_ONCE,
    EXECUTOR,
    INFINITE,
    MOST_IN_ORDER,
    NOWHERE,
    PRIORITY,
    REFUSED,
    SAFE_BYTES,
)
from simulator.execution.event_queue import sort
from simulator.execution.layouts import Arena, FlatTables, Places
from simulator.execution.sharing import MAX_FLOW_BYTES

if TYPE_CHECKING:
    from simulator.columns import Ids
    from simulator.execution.arrays import SharedLinks, Tasks

_COUNTABLE_NS = 2.0**61 * 0.999  # a sum of times above this is left to the specification, which is exact
_LOW = 0xFFFFFFFF
# places in `FoundTransfers.counts`: tasks of each kind, in the order of their numbers
PACKS, UNPACKS, PASSING, LINKS, FLOWS, SLOWER, ARRIVALS, DELAYS, REQUESTS, ANSWERS, KINDS = range(11)


def bytes_ns(nbytes: int, rate: int) -> int:
    """Time of the bytes, rounded up; their number times 10**9 fits 64 bits."""
    # unsigned: one division without the corrections of a signed one
    taken: int = np.int64((np.uint64(nbytes) * np.uint64(10**9) + np.uint64(rate) - np.uint64(1)) // np.uint64(rate))
    return taken


def _work_ns(fixed: int, nbytes: int, ps_per_byte: int) -> int:
    """Time of a core for a transfer, rounded up; -1: more than can be counted."""
    if float(nbytes) * float(ps_per_byte) > _COUNTABLE_NS:
        return -1
    return fixed + (nbytes * ps_per_byte + 999) // 1000


def _share(work_ns: int, cores: int) -> int:
    """The time of a lane that stands for so many cores, rounded up."""
    return (work_ns + cores - 1) // cores


def _beside(places: Places, pace: int, packed: int, unpacked: int, wire_ns: int) -> int:
    """Latency that work outside the lanes adds to a message; see `protocols.outside_lanes_ns`."""
    sends, receives = places.send_ns[pace], places.receive_ns[pace]
    here, there = places.send_cores[pace], places.receive_cores[pace]
    alone = sends + receives - _share(sends, here) - _share(receives, there)
    stream = max(wire_ns, packed - sends, unpacked - receives)
    lanes = _share(packed, here) + _share(unpacked, there)
    beside: int = max(alone, sends + receives + stream - wire_ns - lanes)
    return beside


def place_of(values: Ids, value: int) -> int:
    """The place of a value."""
    for at in range(len(values)):
        if values[at] == value:
            return at
    return 0


def find(laid: FlatTables, own: Arena, device: Ids, order: int, notes: int) -> int:
    """The transfers of an assignment, as `transfers_of`; how many there are, or REFUSED. Ops become tasks.

    What `measure` alone reads of `FoundTransfers` is filled in for a run that notes something. Long, because its arrays
    are in local names.
    """
    nodes, places, shared, tasks, found = laid.nodes, laid.places, laid.shared, own.tasks, own.found
    slot, group_ptr, group_edge, edge_tensor = nodes.slot, nodes.group_ptr, nodes.group_edge, nodes.edge_tensor
    consumer, reader, host, kind_ns, kind = nodes.consumer, nodes.reader, nodes.host, nodes.kind_ns, places.kind
    cpu, home, route_between, replicable = places.cpu, places.home, places.route_between, nodes.replicable
    made_host, host_device = nodes.made_host, places.host_device
    bytes_per_s, tensor_bytes = places.bytes_per_s, nodes.tensor_bytes
    successor, length, resource, needs = tasks.successor, tasks.length, tasks.resource, tasks.needs
    next_to = tasks.next_to
    counts, across, came_by = found.counts, found.across, found.came_by
    group_of, leader, leads, brought = found.group_of, found.leader, found.leads, found.brought
    posting = order == EXECUTOR and len(nodes.made) > 0
    works, noting = places.works[0], notes > 0 or posting
    tasks.ops[0] = len(device)
    task, chained = places.task, len(places.task) > 0
    transfers, slowest, work_ns, total, copies = 0, INFINITE, 0, 0.0, 0
    for at in range(KINDS):
        counts[at] = 0
    for path in range(len(found.flows) if len(laid.shared.link) > 0 else 0):
        found.flows[path] = 0
    for memory in range(len(group_of) if chained else 0):
        group_of[memory] = -1
    for op in range(len(device)):
        here = device[op]
        taken = kind_ns[op, kind[here]]
        if taken < 0:
            return REFUSED
        length[op] = taken
        resource[op] = here
        if nodes.instant[op] and not (order == EXECUTOR and nodes.threaded[op] and cpu[here]):
            resource[op] = AT_ONCE
        needs[op] = nodes.waits[op]
        work_ns += taken
        total += taken
        low, high = slot[op], slot[op + 1]
        for group in range(group_ptr[op], group_ptr[op + 1]):
            first, last = group_edge[group], group_edge[group + 1]
            copied = False
            if replicable[edge_tensor[first]] and cpu[here]:
                for edge in range(first + 1, last):
                    copied |= home[device[consumer[edge]]] != home[device[consumer[first]]]
                if copied and posting:
                    resource[op], found.copied[copies] = AT_ONCE, op
                    copies += 1
            crossing = 0
            for edge in range(first, last):
                target = device[consumer[edge]]
                source = home[target] if copied else here
                changes = made_host[edge_tensor[edge]] != host[edge] and host_device[target] != target
                if (source == target and not changes) or nodes.stays[edge_tensor[edge]]:
                    successor[low] = reader[edge] if reader[edge] >= 0 else ~consumer[edge]
                    low += 1
                    if noting:
                        came_by[edge] = -1
                else:
                    in_host = cpu[target] or host[edge]
                    if chained and task[target] != task[source] and edge_tensor[first] == edge_tensor[last - 1]:
                        memory = task[target] << 1 | in_host
                        if group_of[memory] != group:
                            group_of[memory], leader[memory], leads[memory] = group, target, 0
                    across[crossing] = (target << 1 | in_host) << 32 | edge
                    crossing += 1
            if crossing > 1:
                sort(across, crossing)
                high -= _lead(own, task, group, crossing, transfers) if chained else 0
            high -= crossing
            known, carried, spot, led = -1, -1, high, 0
            for at in range(crossing):
                key, edge = across[at] >> 32, across[at] & _LOW
                if key != known or edge_tensor[edge] != carried:
                    known, carried, spot, led = key, edge_tensor[edge], spot + led, 0
                    target = key >> 1
                    source = home[target] if copied else here
                    found.sent[transfers] = carried
                    lies = host_device[source] if made_host[carried] else source
                    if chained:
                        memory = task[target] << 1 | key & 1
                        if group_of[memory] == group and leader[memory] == target:
                            led = leads[memory]
                        elif group_of[memory] == group:
                            source, found.sent[transfers] = leader[memory], len(tensor_bytes) + brought[memory]
                            lies = host_device[source] if key & 1 else source
                    path = route_between[lies, host_device[target] if key & 1 else target]
                    if path < 0:
                        return REFUSED
                    pace = places.pace[path]
                    nbytes, rate, wire_ns = tensor_bytes[carried], bytes_per_s[pace], 0
                    if rate > 0 and nbytes <= SAFE_BYTES:
                        wire_ns = bytes_ns(nbytes, rate)
                    elif rate > 0:
                        wire_ns = places.big_ns[place_of(places.big, carried), pace]
                        if wire_ns < 0:
                            return REFUSED
                    late, pack, unpack = places.latency_ns[pace], 0, 0
                    if works:
                        pack = _work_ns(places.send_ns[pace], nbytes, places.send_ps_per_byte[pace])
                        if places.dispatched[pace]:
                            pack = places.dispatch_ns[source]  # a Send within a GPU, too
                        unpack = _work_ns(places.receive_ns[pace], nbytes, places.receive_ps_per_byte[pace])
                        staging = _work_ns(0, nbytes, places.staging_ps_per_byte[pace])
                        if pack < 0 or unpack < 0 or staging < 0:
                            return REFUSED
                        work_ns += pack + unpack
                        total += pack + unpack
                        late += staging + _beside(places, pace, pack, unpack, wire_ns)
                        pack = _share(pack, places.send_cores[pace])
                        unpack = _share(unpack, places.receive_cores[pace])
                        found.pack_ns[transfers], found.unpack_ns[transfers] = pack, unpack
                        counts[PACKS] += pack > 0
                        counts[UNPACKS] += unpack > 0
                    links = places.held_ptr[path + 1] - places.held_ptr[path]
                    work_ns += wire_ns * max(links, 1)  # once where others may use its links at the same time
                    total += late + wire_ns * max(links, 1)
                    if places.flowing[path] and nbytes > 0:
                        if nbytes > MAX_FLOW_BYTES:
                            return REFUSED
                        counts[FLOWS] += 1
                        counts[DELAYS] += late > 0
                        found.flows[path] += 1
                        slowest = min(slowest, rate)
                    elif links == 0:
                        counts[DELAYS] += 1
                    elif links == 1 and places.even[path]:
                        counts[LINKS] += 1
                    else:
                        counts[PASSING if nbytes == 0 else LINKS] += links - 1
                        counts[LINKS] += 1
                        slower = places.slower[path] and wire_ns > _longest(
                            places, shared, carried, nbytes, path, wire_ns
                        )
                        counts[SLOWER] += slower
                        counts[ARRIVALS] += slower or links > 1
                    if nodes.post[carried] >= 0 or (posting and cpu[target]):
                        counts[REQUESTS] += places.request_ns[pace] > 0
                        threaded = order == EXECUTOR and cpu[source] and places.send_cores[pace] == 1
                        counts[ANSWERS] += threaded and pack > 0
                    found.tensor_of[transfers], found.route_of[transfers], found.op_of[transfers] = carried, path, op
                    if works or noting:
                        found.source_of[transfers], found.target_of[transfers] = source, target
                    if posting:
                        found.made[transfers], found.in_host[transfers] = INFINITE, key & 1
                        far = chained and task[target] != task[source]
                    found.wire_ns[transfers], found.late_ns[transfers] = wire_ns, late
                    found.span_from[transfers] = spot
                    transfers += 1
                successor[spot] = reader[edge] if reader[edge] >= 0 else ~consumer[edge]
                spot += 1
                found.span_to[transfers - 1] = spot + led
                if led > 0:
                    found.next_led[transfers - 1] = spot
                if noting:
                    came_by[edge] = transfers - 1
                    if posting:
                        made = nodes.made_far[edge] if far else nodes.made[edge]
                        found.made[transfers - 1] = min(found.made[transfers - 1], made)
        next_to[op] = low
    if posting:
        _post(laid, own, device, transfers)
        _begin(laid, own, len(device), copies)
    found.work_ns[0] = work_ns  # 64 bits hold it where the step is not refused
    return transfers if total < _COUNTABLE_NS and counts[FLOWS] <= slowest else REFUSED


def _post(laid: FlatTables, own: Arena, device: Ids, transfers: int) -> None:
    """Find who posts each Recv, and when a GPU comes to it: `transfers.posted`. Posts are ops behind the others."""
    nodes, places, found, followers = laid.nodes, laid.places, own.found, own.found.followers
    key, posts = found.across, 0
    for where in range(len(followers)):
        followers[where] = 0
    for at in range(len(nodes.begins)):
        followers[device[nodes.begins[at]]] += 1
    for transfer in range(transfers):
        poster, target = nodes.post[found.tensor_of[transfer]], found.target_of[transfer]
        found.poster[transfer], found.turn_ns[transfer] = poster, 0
        if poster < 0 and target != found.source_of[transfer]:
            followers[target] += 1
            if places.cpu[target]:
                key[posts] = found.made[transfer] << 32 | transfer
                posts += 1
    sort(key, posts)
    for at in range(posts):
        found.poster[key[at] & _LOW] = len(device) + at
    own.tasks.ops[0] = len(device) + posts
    turns = 0
    for transfer in range(transfers):
        target = found.target_of[transfer]
        waits = nodes.post[found.tensor_of[transfer]] >= 0 or target == found.source_of[transfer]
        if places.gpu[target] >= 0 and followers[target] > MOST_IN_ORDER and not waits:
            row = places.gpu[target] * len(nodes.tensor_bytes) + found.tensor_of[transfer]
            key[turns] = (places.gpu[target] * len(nodes.tensor_bytes) + nodes.drawn[row]) << 32 | transfer
            turns += 1
    sort(key, turns)
    before, moment = -1, 0
    for at in range(turns):
        transfer = key[at] & _LOW
        target = found.target_of[transfer]
        if target != before:
            before, moment = target, 0
        found.turn_ns[transfer] = moment
        if not found.in_host[transfer]:
            moment += places.launch_ns[target]


def _begin(laid: FlatTables, own: Arena, ops: int, copies: int) -> None:
    """Write down what follows the beginning of the step: first ops that a thread passes, then copies, then posts."""
    nodes, successor, copied = laid.nodes, own.tasks.successor, own.found.copied
    at, copy = nodes.slot[len(nodes.slot) - 1], 0
    for place in range(len(nodes.roots)):
        if copy < copies and copied[copy] == nodes.roots[place]:
            copy += 1
        else:
            successor[at] = nodes.roots[place]
            at += 1
    for copy in range(copies):
        successor[at + copy] = copied[copy]
    at += copies - ops
    for op in range(ops, own.tasks.ops[0]):
        successor[at + op] = op


def _lead(own: Arena, task: Ids, group: int, crossing: int, transfers: int) -> int:
    """Find which transfer brings a tensor to each task and memory, and how many hand it on there; all of the latter."""
    found, known, led = own.found, -1, 0
    for at in range(crossing):
        key = found.across[at] >> 32
        if key != known:
            known, memory = key, task[key >> 1] << 1 | key & 1
            if found.group_of[memory] == group and found.leader[memory] == key >> 1:
                found.brought[memory] = transfers
            elif found.group_of[memory] == group:
                found.leads[memory] += 1
                led += 1
            transfers += 1
    return led


def add_up_work(laid: FlatTables, own: Arena, ops: int) -> None:
    """Find the work of the first ops on each device that has one lane; a run with a limit alone looks at it."""
    left_ns, lanes, length, resource = own.state.left_ns, laid.places.lanes, own.tasks.length, own.tasks.resource
    for where in range(len(lanes)):
        left_ns[where] = 0
    for op in range(ops):
        where = resource[op]
        if where >= 0 and lanes[where] == 1:
            left_ns[where] += length[op]


def held_ns(places: Places, shared: SharedLinks, tensor: int, nbytes: int, place: int, path: int, wire_ns: int) -> int:
    """The time for which a link is held; `wire_ns` is that of the slowest link of the route."""
    rate = shared.capacity[places.held[place]]
    if rate == places.bytes_per_s[places.pace[path]]:
        return wire_ns
    if nbytes <= SAFE_BYTES:
        taken: int = bytes_ns(nbytes, rate)
        return taken
    return places.big_held_ns[place_of(places.big, tensor), place]


def _longest(places: Places, shared: SharedLinks, tensor: int, nbytes: int, path: int, wire_ns: int) -> int:
    """The time for which the slowest of its serial links is held."""
    longest: int = 0
    for place in range(places.held_ptr[path], places.held_ptr[path + 1]):
        longest = max(longest, held_ns(places, shared, tensor, nbytes, place, path, wire_ns))
    return longest


def write(laid: FlatTables, own: Arena, device: Ids, ranked: Ids, order: int, notes: int, transfers: int) -> int:
    """Write the transfers down as tasks, and the beginning of the step: how many tasks there are."""
    nodes, places, shared, tasks, found = laid.nodes, laid.places, laid.shared, own.tasks, own.found
    counts, at_number = found.counts, found.numbers
    length, resource, needs, lag_ns, onward = tasks.length, tasks.resource, tasks.needs, tasks.lag_ns, tasks.onward
    arrival = tasks.arrival
    next_from, next_to, successor, release_ns = tasks.next_from, tasks.next_to, tasks.successor, tasks.release_ns
    first_root, posting = nodes.slot[len(nodes.slot) - 1], order == EXECUTOR and len(nodes.made) > 0
    devices, free = len(places.lanes), first_root + len(nodes.roots) + len(nodes.made)
    routes = devices + len(shared.capacity)
    requests, posts = places.requests[0], places.posts[0]
    begin = tasks.ops[0]
    for op in range(len(device), begin):  # which post Recvs
        length[op], needs[op] = 0, 1
        next_from[op], next_to[op] = free + op, free + op
    for kind in range(KINDS):
        at_number[kind] = begin
        begin += counts[kind]
    for one in range(len(device), begin + 1 if requests else 0):
        release_ns[one] = 0
    for one in range(len(device), begin + 1 if order == EXECUTOR else 0):  # what an earlier run wrote for other tasks
        own.threads.packs[one] = False
    for transfer in range(transfers):
        tensor, path = found.tensor_of[transfer], found.route_of[transfer]
        pace = places.pace[path]
        nbytes, wire_ns, late = nodes.tensor_bytes[tensor], found.wire_ns[transfer], found.late_ns[transfer]
        low, high = found.span_from[transfer], found.span_to[transfer]
        from_place, to_place = places.held_ptr[path], places.held_ptr[path + 1]
        links, poster = to_place - from_place, found.poster[transfer] if posting else nodes.post[tensor]
        # from its end to its beginning: who tells the readers, and who is told by whom before
        end = -1
        wire = -1
        if places.flowing[path] and nbytes > 0:
            end = _new(at_number, FLOWS)
            length[end], resource[end], needs[end] = nbytes, routes + path, 1
            wire = end
            if late > 0:
                wire = _new(at_number, DELAYS)
                length[wire], resource[wire], needs[wire] = late, NOWHERE, 1
                _follow(tasks, free, wire, end)
        elif links == 0:
            end = _new(at_number, DELAYS)
            length[end], resource[end], needs[end] = late + wire_ns, NOWHERE, 1
            wire = end
        elif links == 1 and places.even[path]:
            end = _new(at_number, LINKS)
            length[end], resource[end], needs[end] = wire_ns, devices + places.held[from_place], 1
            lag_ns[end], onward[end], arrival[end] = late, -1, -1
            wire = end
        else:
            slower = -1
            if places.slower[path] and wire_ns > _longest(places, shared, tensor, nbytes, path, wire_ns):
                slower = _new(at_number, SLOWER)
            if slower >= 0 or links > 1:
                end = _new(at_number, ARRIVALS)
                length[end], resource[end], needs[end] = late, NOWHERE, links
                own.state.links_ns[end] = 0
            arriving = -1 if slower >= 0 else end
            before = -1
            for place in range(from_place, to_place):
                one = _new(at_number, PASSING if place > from_place and nbytes == 0 else LINKS)
                length[one] = held_ns(places, shared, tensor, nbytes, place, path, wire_ns)
                resource[one], needs[one] = devices + places.held[place], 1
                lag_ns[one], onward[one], arrival[one] = 0, -1, arriving
                if before < 0:
                    wire = one
                else:
                    onward[before] = one
                if end < 0:
                    lag_ns[one] = late
                    end = one
                elif before < 0 and slower >= 0:
                    length[slower], resource[slower], needs[slower] = wire_ns - length[one], NOWHERE, 1
                    _follow(tasks, free, one, slower)
                    _follow(tasks, free, slower, end)
                elif arriving < 0:
                    _follow(tasks, free, one, end)
                before = one
        first, last = wire, end
        if places.works[0]:
            if found.unpack_ns[transfer] > 0:
                last = _new(at_number, UNPACKS)
                length[last], resource[last] = found.unpack_ns[transfer], places.home[found.target_of[transfer]]
                needs[last] = 1
                _follow(tasks, free, end, last)
            if found.pack_ns[transfer] > 0:
                first = _new(at_number, PACKS)
                source = found.source_of[transfer]
                length[first], needs[first] = found.pack_ns[transfer], 1
                resource[first] = source if places.dispatched[pace] else places.home[source]
                _follow(tasks, free, first, wire)
                if order == EXECUTOR:
                    own.threads.packs[first] = places.cpu[source] and places.send_cores[pace] == 1
        next_from[last], next_to[last] = low, high
        if requests and poster < 0:
            release_ns[first] = places.request_ns[pace] + nodes.turn_ns[tensor]
            if posting:
                release_ns[first] += found.turn_ns[transfer]
        if found.sent[transfer] >= len(nodes.tensor_bytes):
            before = found.sent[transfer] - len(nodes.tensor_bytes)
            successor[found.next_led[before]] = first
            found.next_led[before] += 1
        else:
            op = found.op_of[transfer]
            successor[next_to[op]] = first
            next_to[op] += 1
        if posts:
            found.first_of[transfer] = first
        if notes > 0:
            found.wire_of[transfer], found.end_of[transfer], found.last_of[transfer] = wire, end, last
    for transfer in range(transfers if posts else 0):
        poster, first = nodes.post[found.tensor_of[transfer]], found.first_of[transfer]
        if posting:
            poster = found.poster[transfer]
        if poster >= len(device):
            resource[poster] = found.target_of[transfer]
            own.threads.device[poster] = found.target_of[transfer]
        if poster >= 0:
            needs[first] += 1
            pace, source = places.pace[found.route_of[transfer]], found.source_of[transfer]
            threaded = order == EXECUTOR and places.works[0] and found.pack_ns[transfer] > 0
            if threaded and places.cpu[source] and places.send_cores[pace] == 1:
                one = _new(at_number, ANSWERS)
                length[one], resource[one], needs[one] = 0, places.home[source], 1
                own.threads.packs[one] = True
                _follow(tasks, free, one, first)
                first = one
            if places.request_ns[pace] > 0:
                one = _new(at_number, REQUESTS)
                length[one], resource[one], needs[one] = places.request_ns[pace], NOWHERE, 1
                _follow(tasks, free, one, first)
                first = one
            successor[next_to[poster]] = first
            next_to[poster] += 1
    length[begin], resource[begin], needs[begin] = 0, NOWHERE, 1
    next_from[begin], next_to[begin] = first_root, first_root + len(nodes.roots) + tasks.ops[0] - len(device)
    if order == PRIORITY:
        for position in range(len(ranked)):
            tasks.rank[ranked[position]] = position
        for one in range(len(device), len(device) + counts[PACKS] + counts[UNPACKS]):
            tasks.rank[one] = one - len(tasks.rank)
    tasks.shares[0] = counts[FLOWS] > 0
    count: int = begin + 1
    return count


def _new(at_number: Ids, kind: int) -> int:
    """The next task of a kind."""
    number: int = at_number[kind]
    at_number[kind] = number + 1
    return number


def _follow(tasks: Tasks, free: int, task: int, other: int) -> None:
    """The end of a task is an event for one other alone."""
    tasks.next_from[task], tasks.next_to[task] = free + task, free + task + 1
    tasks.successor[free + task] = other
