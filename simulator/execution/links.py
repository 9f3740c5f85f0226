"""How the transfers of an assignment use links: who holds which in turn, who shares them, when bytes are through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.errors import ClusterError
from simulator.execution.crossings import Crossings, bytes_ns
from simulator.execution.loop import Wires
from simulator.execution.sharing import MAX_FLOW_BYTES, Sharing
from simulator.execution.tables import Tables
from simulator.execution.ways import Discipline, discipline


def wires_of(tables: Tables, crossing: Crossings, contention: str) -> Wires:
    """What the loop reads. Raises ClusterError for what shared links can't count, and as `discipline` does."""
    ways = tables.ways
    rule = discipline(ways, contention)
    way, flows = crossing.way, flowing(tables, crossing, rule)
    every = holds(tables, crossing, rule.held)
    check_flows(tables, crossing, flows, tables.tensor_bytes[crossing.tensor])
    sharing = Sharing(rule.shared, ways.link_bytes_per_s.tolist(), rule.cap) if flows.any() else None
    return Wires(
        held=[rule.held[row] for row in way.tolist()],
        held_ptr=every.ptr.tolist(),
        held_ns=every.ns.tolist(),
        wire_ns=np.where(flows, 0, crossing.wire_ns).tolist(),
        latency_ns=crossing.latency_ns.tolist(),
        flows=flows.tolist(),
        sharing=sharing,
        links=len(ways.link_names),
    )


class Holds(NamedTuple):
    """The serial links that transfers hold. Axes: X transfers, H holds."""

    ptr: Ids  # [X+1]
    link: Ids  # [H] in order of the route
    ns: Ints  # [H] how long: the bytes at the link's own rate, rounded up


def holds(tables: Tables, crossing: Crossings, held: Sequence[tuple[int, ...]]) -> Holds:
    """A row for each serial link of each transfer; `held` is that of `Discipline`, by way."""
    of_way = np.array([len(links) for links in held], np.int64)
    count, first = of_way[crossing.way], (np.cumsum(of_way) - of_way)[crossing.way]  # first: among those of all ways
    ptr = np.append(0, np.cumsum(count))
    place = np.arange(ptr[-1]) - np.repeat(ptr[:-1], count)
    every = np.array([link for links in held for link in links], np.int64)
    link, nbytes = every[np.repeat(first, count) + place], np.repeat(tables.tensor_bytes[crossing.tensor], count)
    return Holds(ids(ptr), ids(link), bytes_ns(tables.ways.link_bytes_per_s[link], ints(nbytes)))


def flowing(tables: Tables, crossing: Crossings, rule: Discipline) -> Flags:
    """[X] transfers that share links; what has no bytes only takes its latency."""
    return flags(rule.flows[crossing.way] & (tables.tensor_bytes[crossing.tensor] > 0))


def wire_end(tables: Tables, way: Ids, latency_ns: Ints, flows: Flags, came: Ints) -> Ints:
    """[X] when the bytes were through of transfers that came then.

    A latency earlier; a flow has its latency before its bytes, and a hand-over is over when it arrives.
    """
    wires = ~flows & (tables.ways.bytes_per_s[way] > 0)
    return ints(came - np.where(wires, latency_ns, 0))


def crossing_ns(wire_ns: Ints, hold_ptr: Ids, sent: Ints, through: Ints) -> Ints:
    """[X] how long the bytes of each take without a wait; of those that hold no link, all the time until through."""
    return ints(np.where(np.diff(hold_ptr) > 0, wire_ns, through - sent))


def check_flows(tables: Tables, crossing: Crossings, flows: Flags, nbytes: Ints) -> None:
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
    slowest = int(tables.ways.bytes_per_s[crossing.way[flows]].min())
    if slowest < int(flows.sum()):
        raise ClusterError(
            f"{int(flows.sum())} transfers may share a link of {slowest} bytes/s, which leaves less than one byte per "
            'second for each; use faster links or the contention "serial".'
        )
