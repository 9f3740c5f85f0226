"""Links under an assignment: transfers that occupy them in turn, and transfers that share them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.errors import ClusterError
from simulator.execution.routes import Discipline
from simulator.execution.sharing import MAX_FLOW_BYTES
from simulator.execution.tables import Tables
from simulator.execution.transfers import Transfers, bytes_ns


class Holds(NamedTuple):
    """The serial links that transfers hold. Axes: X transfers, H holds."""

    ptr: Ids  # [X+1]
    link: Ids  # [H] in order of the route
    ns: Ints  # [H] how long: the bytes at the link's own rate, rounded up


def holds(tables: Tables, crossing: Transfers, rule: Discipline) -> Holds:
    """A row for each serial link of each transfer."""
    first = rule.held_ptr[crossing.route]
    count = rule.held_ptr[crossing.route.astype(np.int64) + 1] - first
    ptr = np.append(0, np.cumsum(count))
    place = np.arange(ptr[-1]) - np.repeat(ptr[:-1], count)
    link = rule.held_link[np.repeat(first, count) + place]
    nbytes = np.repeat(tables.tensor_bytes[crossing.tensor], count)
    return Holds(ids(ptr), ids(link), bytes_ns(tables.routes.link_bytes_per_s[link], ints(nbytes)))


def flowing(tables: Tables, crossing: Transfers, rule: Discipline) -> Flags:
    """[X] transfers that share links; what has no bytes only takes its latency."""
    return flags(rule.flows[crossing.route] & (tables.tensor_bytes[crossing.tensor] > 0))


def check_flows(tables: Tables, crossing: Transfers, flows: Flags, nbytes: Ints) -> None:
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
    slowest = int(tables.routes.bytes_per_s[crossing.route[flows]].min())
    if slowest < int(flows.sum()):
        raise ClusterError(
            f"{int(flows.sum())} transfers may share a link of {slowest} bytes/s, which leaves less than one byte per "
            'second for each; use faster links or the contention "serial".'
        )
