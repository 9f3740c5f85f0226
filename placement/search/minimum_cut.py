"""Groups that the CPU beside a device should run: the least time of ops and transfers, found by a minimum cut.

One half of a cut goes to the CPU (`simulator.bounds.cuts`). The cut pays for the time of groups there, and for a
transfer of each value whose maker and some readers are in different halves. So scalars of an optimizer, or small ops of
a recurrence, come to the CPU all at once. One at a time they would each pay for transfers.

The cut sees no waiting. A GPU works on while it waits for a transfer, so several shares of a transfer's time are tried.
Nor does it see that a CPU may have more to do than each of its GPUs. So its time has a price: one, the price at which
CPUs and GPUs have as much to do, and some between them. At that last price values may cross too often to pay: in loops
each iteration waits for them.

`besides` makes grounds of these cuts: up to half of the ops of a step leave its GPUs at once. All others are cut as if
these had no work. Hubs (`hubs`) leave them, too. The cut takes all devices for one, so it can't tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from math import sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placement.search.decisions import ENDLESS, Decisions, fastest_on, wire_times
from placement.search.hubs import hubs_of
from placement.search.order_cuts import Ground, ground, placed, speeds_of
from placement.search.reach import within_reach
from simulator.bounds.cuts import Values, halves
from simulator.columns import Flags, Floats, Ints, alike

_SHARES = (1.0, 0.25)  # of the time of a transfer
_PRICES, _DEAR = 5, 4.0  # cuts that look for a price, and the highest, for each of the devices that share a CPU
_BETWEEN = (4, 5, 6, 7)  # prices between one and that, as eighths of its logarithm
_GROUPS = 200_000  # in larger steps few starts are judged, and the arcs take memory


def besides(decisions: Decisions, device: npt.ArrayLike) -> Iterator[tuple[Ground, Ints]]:
    """Grounds with no group on a CPU, with hubs there, and with those, too, that CPUs should run.

    Each comes with the devices [G] that it makes with all else on the fastest device.
    """
    speeds, every = speeds_of(decisions), np.arange(len(decisions.free))
    one = max(within_reach(decisions.problem), key=lambda device: (not decisions.problem.cpu[device], speeds[device]))
    hubs = hubs_of(decisions)
    for beside in chain((None,), (hubs,) if hubs.any() else (), (cpus | hubs for cpus in for_cpus(decisions))):
        own = ground(decisions, device, beside)
        yield own, placed(decisions, own, every, np.zeros_like(every), [one])


def for_cpus(decisions: Decisions) -> Iterator[Flags]:
    """[M] the groups that CPUs should run, for each share of the time of transfers and each price; different ones.

    Where there are CPUs alone there are none, nor in very large steps.
    """
    problem = decisions.problem
    busy = np.array([device for device in within_reach(problem) if not problem.cpu[device]], np.int64)
    if not 0 < len(decisions.free) <= _GROUPS or not len(busy):
        return
    home, seen = np.array(problem.home)[busy], set[bytes]()
    device_ns, cpu_ns = fastest_on(decisions, busy), fastest_on(decisions, home)
    wire_ns = (wire_times(problem, busy, home) + wire_times(problem, home, busy)) / 2
    tensor, values = _handed(decisions, busy, home, wire_ns)
    together = len(busy) / len(np.unique(home))

    def cut(price: float, share: float) -> _Cut:
        dear_ns = np.minimum(cpu_ns * price, ENDLESS).astype(np.int64)
        cost = np.rint(wire_ns[tensor] * share).astype(np.int64)
        some = halves(dear_ns - device_ns, values, cost, cost).far
        return _Cut(price, some, int(cpu_ns[some].sum()), int(device_ns[~some].sum()) / together)

    for share in _SHARES:
        plain = cut(1.0, share)
        even = _even(plain, partial(cut, share=share), _DEAR * together)
        dearer = () if even is plain else (*(cut(_part(even.price, eighths), share) for eighths in _BETWEEN), even)
        for one in (plain, *dearer):
            if one.cpus.any() and one.cpus.tobytes() not in seen:
                seen.add(one.cpus.tobytes())
                yield one.cpus


def _part(price: float, eighths: int) -> float:
    """The price to the power of so many eighths, by square roots: rounded alike on every machine, as a power is not."""
    found, root = 1.0, price
    for bit in (4, 2, 1):
        root = sqrt(root)
        found *= root if eighths & bit else 1.0
    return found


class _Cut(NamedTuple):
    """A cut at some price of the CPUs' time."""

    price: float
    cpus: Flags  # [M] groups that go to CPUs
    cpu_ns: float  # work of all CPUs
    device_ns: float  # work of all devices, divided by those that share a CPU


def _even(plain: _Cut, cut: Callable[[float], _Cut], dearest: float) -> _Cut:
    """The cut with which CPUs and the devices beside them have as much to do, by bisection of the price.

    That is `plain` where its CPUs have no more than their devices.
    """
    best, low, high = plain, plain.price, dearest
    for _ in range(_PRICES if plain.cpu_ns > plain.device_ns else 0):
        one = cut(sqrt(low * high))  # rounded alike on every machine, as a power need not be
        low, high = (one.price, high) if one.cpu_ns > one.device_ns else (low, one.price)
        best = min(best, one, key=lambda one: max(one.cpu_ns, one.device_ns))
    return best


def _handed(decisions: Decisions, busy: Ints, home: Ints, wire_ns: Floats) -> tuple[Ints, Values]:
    """The tensors [Y] that are handed on, and their ends: groups, M: on devices, M + 1: on their CPUs.

    Ends elsewhere, such as parameter servers, are as far from both.
    """
    problem, tables, groups = decisions.problem, decisions.problem.tables, len(decisions.free)
    side = np.full(len(problem.capacity) + 1, -1)
    side[home], side[busy] = groups + 1, groups
    only = np.array([allowed[0] if len(allowed) == 1 else -1 for allowed in problem.allowed], np.int64)
    node = np.where(decisions.row < 0, side[only], decisions.row)[decisions.group]
    maker, reader = node[tables.tensor_op[tables.edge_tensor]], node[tables.consumer]
    kept = (maker >= 0) & (reader >= 0) & (maker != reader) & (wire_ns[tables.edge_tensor] > 0)
    tensor, maker, reader = tables.edge_tensor[kept].astype(np.int64), maker[kept], reader[kept]
    once, _ = alike(tensor, maker, reader)
    first, value = alike(tensor[once])
    return tensor[once][first], Values(maker[once][first], value, reader[once])
