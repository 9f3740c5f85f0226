"""Max-min fair sharing of links by the transfers that are on them, in integers.

The model of flow-level network simulation (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2, progressive
filling): no flow's rate can grow without that of one with no larger rate shrinking. Rates are whole bytes per second,
so that work, rate times nanoseconds, is a whole number of nanobytes (10^-9 byte): 64-bit integers hold what a transfer
of MAX_FLOW_BYTES still has before it. Shares are rounded down and ends up, so a link never carries more than its rate
over any interval, and a transfer that is alone takes exactly its bytes at the slowest link, rounded up.

All flows of one way (the same links) have the same rate and make one class, which keeps how much each of its flows
has been served since the class was last empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from simulator.units import Nanos

NANO = 10**9
MAX_FLOW_BYTES = 2**62 // NANO  # 4.6 GB; twice it still fits a signed 64-bit integer
NEVER: Nanos = 2**62


def shares(
    flows: Mapping[int, int], links_of: Sequence[Sequence[int]], capacity: Sequence[int], cap: Sequence[int]
) -> dict[int, int]:
    """Bytes per second of each flow, by class; `flows` says how many each class has, none of them zero.

    Repeat: the link with the smallest share (what is left of its capacity over the flows that have no rate yet, rounded
    down; ties: the lowest link) gives that rate to its classes. A class whose `cap` (0: none) is not larger than that
    share takes its cap first; ties: the lowest class.
    """
    left: dict[int, int] = {}
    waiting: dict[int, int] = {}  # link -> flows without a rate; no link without such
    ways_of: dict[int, list[int]] = {}
    for way in sorted(flows):
        for link in links_of[way]:
            left[link] = capacity[link]
            waiting[link] = waiting.get(link, 0) + flows[way]
            ways_of.setdefault(link, []).append(way)
    capped = sorted(((cap[way], way) for way in flows if cap[way]), reverse=True)
    rates: dict[int, int] = {}
    while waiting:
        share, tightest = min([(left[link] // many, link) for link, many in waiting.items()])
        while capped and capped[-1][1] in rates:
            capped.pop()
        if capped and capped[-1][0] <= share:
            share, fixed = capped[-1][0], [capped[-1][1]]
        else:
            fixed = [way for way in ways_of[tightest] if way not in rates]
        for way in fixed:
            rates[way] = share
            for link in links_of[way]:
                left[link] -= share * flows[way]
                waiting[link] -= flows[way]
                if not waiting[link]:
                    del waiting[link]
    return rates


class Sharing:
    """The flows that are on their way. `next_ns`: when the first of them ends if nothing changes; NEVER: none is."""

    def __init__(self, links_of: Sequence[Sequence[int]], capacity: Sequence[int], cap: Sequence[int]) -> None:
        self.links_of, self.capacity, self.cap = links_of, capacity, cap
        self.flows: dict[int, list[tuple[int, int]]] = {}  # class -> heap of (service at which it ends, transfer)
        self.served: dict[int, int] = {}  # nanobytes, by class
        self.rate: dict[int, int] = {}
        self.now: Nanos = 0  # until when `served` counts
        self.next_ns: Nanos = NEVER
        self.changed = False

    def join(self, transfer: int, way: int, nbytes: int, now: Nanos) -> None:
        """A flow begins."""
        self._advance(now)
        if way not in self.flows:
            self.flows[way], self.served[way] = [], 0
        heappush(self.flows[way], (self.served[way] + nbytes * NANO, transfer))
        self.changed = True

    def ended(self, now: Nanos) -> list[int]:
        """Take out the transfers that end now."""
        self._advance(now)
        found = []
        for way, heap in list(self.flows.items()):
            while heap and heap[0][0] <= self.served[way]:
                found.append(heappop(heap)[1])
                self.changed = True
            if not heap:
                del self.flows[way]
        return found

    def settle(self) -> None:
        """Give every flow its rate, once all that begin or end now have done so."""
        if not self.changed:
            return
        self.changed = False
        self.rate = shares({way: len(heap) for way, heap in self.flows.items()}, self.links_of, self.capacity, self.cap)
        self.next_ns = min(
            (
                self.now - (self.served[way] - heap[0][0]) // self.rate[way]  # rounded up
                for way, heap in self.flows.items()
            ),
            default=NEVER,
        )

    def _advance(self, now: Nanos) -> None:
        if now > self.now:
            for way in self.flows:
                self.served[way] += self.rate[way] * (now - self.now)
        self.now = now
