"""The transfers of an assignment, numbered as `crossings` numbers them, found in one pass over the edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.heaps import row, sort
from simulator.execution.compiled.kernel import inner
from simulator.execution.flat import NEVER, REFUSED, SAFE_BYTES, Found, Nodes, Places, Queues
from simulator.execution.sharing import MAX_FLOW_BYTES

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints

_COUNTABLE_NS = 2.0**61 * 0.999  # a sum of times above this is left to the specification, which is exact
_LOW = 0xFFFFFFFF


@inner
def bytes_ns(nbytes: int, rate: int) -> int:
    """Time of the bytes, rounded up; their number times 10**9 fits 64 bits."""
    # unsigned: one division without the corrections of a signed one
    taken: int = np.int64((np.uint64(nbytes) * np.uint64(10**9) + np.uint64(rate) - np.uint64(1)) // np.uint64(rate))
    return taken


@inner
def _work_ns(fixed: int, nbytes: int, ps_per_byte: int) -> int:
    """Time of a core for a transfer, rounded up; -1: more than can be counted."""
    if float(nbytes) * float(ps_per_byte) > _COUNTABLE_NS:
        return -1
    return fixed + (nbytes * ps_per_byte + 999) // 1000


@inner
def _share(work_ns: int, cores: int) -> int:
    """For how long that takes a lane that stands for so many cores, rounded up."""
    return (work_ns + cores - 1) // cores


@inner
def _beside(places: Places, path: int, packed: int, unpacked: int, wire_ns: int) -> int:
    """What the work outside the lanes adds to a message's latency; see `protocols.beside_ns`."""
    sends, receives = places.send_ns[path], places.receive_ns[path]
    here, there = places.send_cores[path], places.receive_cores[path]
    alone = sends + receives - _share(sends, here) - _share(receives, there)
    stream = max(wire_ns, packed - sends, unpacked - receives)
    lanes = _share(packed, here) + _share(unpacked, there)
    beside: int = max(alone, sends + receives + stream - wire_ns - lanes)
    return beside


@inner
def place_of(values: Ids, value: int) -> int:
    """Where a value is."""
    for at in range(len(values)):
        if values[at] == value:
            return at
    return 0


@inner
def find(
    nodes: Nodes,
    places: Places,
    found: Found,
    queues: Queues,
    across: Ints,
    came_by: Ids,
    device: Ids,
    full: bool,
    record: bool,
) -> int:
    """The transfers of an assignment, as `crossings`; how many there are, or REFUSED.

    Counts on the way what each device and each way may have to queue. `full`: not only what the plain loop asks for.
    Long, because its arrays are in local names.
    """
    block, group_ptr, group_edge, edge_tensor = nodes.block, nodes.group_ptr, nodes.group_edge, nodes.edge_tensor
    consumer, reader, host, kind_ns, kind = nodes.consumer, nodes.reader, nodes.host, nodes.kind_ns, places.kind
    cpu, home, way, replicable, flowing = places.cpu, places.home, places.way, nodes.replicable, places.flowing
    stays, end, wire_end = nodes.stays, queues.end, queues.wire_end
    works, tells = full and places.works[0], full or places.pulls[0] or places.uneven[0]
    latency_ns, bytes_per_s, tensor_bytes = places.latency_ns, places.bytes_per_s, nodes.tensor_bytes
    told, local_end, asked_ptr, took_ns = found.told, found.local_end, found.asked_ptr, found.took_ns
    span_from, span_to, way_of, end_ns = found.span_from, found.span_to, found.way_of, found.end_ns
    late_ns = found.late_ns
    tensor_of, source_of, target_of = found.tensor_of, found.source_of, found.target_of
    n, edges = len(device), len(consumer)
    transfers, flows, slowest = 0, 0, np.int64(NEVER)
    total = 0.0
    for op in range(n):
        here = row(device[op])
        taken = kind_ns[op, row(kind[here])]
        if taken < 0:
            return REFUSED
        took_ns[op] = taken
        total += taken
        end[here] += 1
        asked_ptr[op] = transfers
        low, high = row(block[op]), row(block[op + 1])
        for group in range(row(group_ptr[op]), row(group_ptr[op + 1])):
            first, last = row(group_edge[group]), row(group_edge[group + 1])
            copied = False
            if replicable[row(edge_tensor[first])] and cpu[here]:
                for edge in range(first + 1, last):
                    copied |= home[device[consumer[edge]]] != home[device[consumer[first]]]
            crossing = 0
            for edge in range(first, last):
                target = row(device[row(consumer[edge])])
                source = row(home[target]) if copied else here
                if source == target or stays[row(edge_tensor[edge])]:
                    told[low] = reader[edge]
                    low += 1
                    if record:
                        came_by[edge] = -1
                else:
                    key = np.int64(target) << 1 | (cpu[target] or host[edge])
                    across[crossing] = key << 32 | edge
                    crossing += 1
            if crossing > 1:
                sort(across, crossing)
            high -= crossing
            known, carried = np.int64(-1), np.int64(-1)
            for at in range(crossing):
                key, edge = across[at] >> 32, across[at] & _LOW
                if key != known or edge_tensor[edge] != carried:
                    known, carried = key, np.int64(edge_tensor[edge])
                    target = row(key >> 1)
                    source = row(home[target]) if copied else here
                    path = np.int64(way[source, target])
                    if path < 0:
                        return REFUSED
                    nbytes, rate, wire_ns = tensor_bytes[carried], bytes_per_s[path], np.int64(0)
                    if rate > 0 and nbytes <= SAFE_BYTES:
                        wire_ns = bytes_ns(nbytes, rate)
                    elif rate > 0:
                        wire_ns = places.big_ns[place_of(places.big, carried), path]
                        if wire_ns < 0:
                            return REFUSED
                    late, alone_ns = latency_ns[path], wire_ns
                    total += late + wire_ns
                    if full and flowing[path] and nbytes > 0:
                        if nbytes > MAX_FLOW_BYTES:
                            return REFUSED
                        flows += 1
                        slowest = min(slowest, rate)
                        wire_ns = np.int64(0)
                    if works:
                        pack = _work_ns(places.send_ns[path], nbytes, places.send_ps[path])
                        unpack = _work_ns(places.receive_ns[path], nbytes, places.receive_ps[path])
                        if pack < 0 or unpack < 0:
                            return REFUSED
                        total += pack + unpack
                        late += _beside(places, path, pack, unpack, alone_ns)
                        pack = _share(pack, places.send_cores[path])
                        unpack = _share(unpack, places.receive_cores[path])
                        took_ns[n + transfers], took_ns[n + edges + transfers] = pack, unpack
                        end[row(home[source])] += pack > 0
                        end[row(home[target])] += unpack > 0
                    if tells:
                        tensor_of[transfers] = carried
                    if full:
                        source_of[transfers], target_of[transfers] = source, target
                        late_ns[transfers] = late
                    way_of[transfers] = path
                    wire_end[path] += 1
                    end_ns[transfers] = late + wire_ns
                    span_from[transfers] = high + at
                    transfers += 1
                told[high + at] = reader[edge]
                span_to[transfers - 1] = high + at + 1
                if record:
                    came_by[edge] = transfers - 1
        local_end[op] = low
    asked_ptr[n] = transfers
    return transfers if total < _COUNTABLE_NS and flows <= slowest else REFUSED
