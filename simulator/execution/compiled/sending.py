"""When transfers are asked for (`asking`), and which of them threads of the executor pack (`queues.Executor`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.compiled.heaps import rise, row, sort
from simulator.execution.compiled.kernel import inner
from simulator.execution.flat import Found, Pending, Places, Queues

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints


@inner
def asked_now(
    pending: Pending, queues: Queues, transfer: int, requesting: bool, now: int, size: int, requests: int
) -> tuple[bool, int]:
    """Whether a transfer, of which one more condition holds, waits for nothing more; the size of the heap of ends."""
    conditions, due_ns = pending.conditions, pending.due_ns
    conditions[transfer] -= 1
    if conditions[transfer] > 0:
        return False, size
    if requesting and due_ns[transfer] > now:
        return False, rise(queues.key, queues.task, size, due_ns[transfer], requests + transfer)
    return True, size


@inner
def by_thread(places: Places, found: Found, transfer: int) -> bool:
    """Whether a thread of the executor packs it, not one of gRPC's: `Wiring.by_thread`."""
    return bool(places.cpu[found.source_of[transfer]] and places.send_cores[found.way_of[transfer]] == 1)


@inner
def take_sends(
    places: Places, found: Found, valued: Ints, first: int, values: int, here: int, ops: int, sends: Ids
) -> tuple[int, int]:
    """Take out of `valued`, from `first` on, what a thread of this device packs itself, and put it into `sends`.

    How many are left in `valued`, and how many are in `sends`, sorted.
    """
    count, left = 0, first
    for at in range(first, values):
        transfer = row(valued[at])
        own = found.took_ns[ops + transfer] > 0 and places.home[found.source_of[transfer]] == here
        if own and by_thread(places, found, transfer):
            sends[count] = transfer
            count += 1
        else:
            valued[left] = transfer
            left += 1
    if count > 1:
        sort(sends, count)
    return left, count
