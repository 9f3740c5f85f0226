"""Which transfers are asked for: those whose value is there and whose Recv was posted early enough."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappush

from simulator.units import Nanos


def asked_now(
    transfers: Iterable[int],
    conditions: list[int],
    due: list[Nanos],
    now: Nanos,
    heap: list[int],
    shift: int,
    request: int,
) -> list[int]:
    """Of transfers of which one more condition holds, in order, those that wait for nothing more.

    `conditions` and `due` are those of `loop.State`. Whose request is still under way goes into the heap as task
    `request` + transfer, and is asked for when that ends.
    """
    found = []
    for transfer in transfers:
        conditions[transfer] -= 1
        if conditions[transfer] <= 0:  # below: its request has arrived
            if due[transfer] > now:
                heappush(heap, due[transfer] << shift | request + transfer)
            else:
                found.append(transfer)
    return found
