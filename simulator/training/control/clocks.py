"""The clocks of workers, and the rules by which workers wait for the slowest of them.

A worker's clock counts the steps that it has ended. One task keeps all clocks, as a parameter server does (Ho et al.,
NIPS 2013). A worker reports that a step has ended. When the slowest clock goes on, the server notifies the workers that
wait for that, in the order in which they asked. Both are messages of no bytes, which hold no link
(docs/decisions/0019).

A rule says how far the slowest clock must be before a worker begins its next step. Each has a code, and a branch of
`needed`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from simulator.columns import Flags, Ids, Ints
from simulator.training.regimes import FREE

CODE, AHEAD = range(2)  # of `ClockRows.numbers`; further ones are a rule's own
SLOWEST, AT_SLOWEST, WAITERS, TOTALS = range(4)  # of `Clocks.totals`; the last is their number


class ClockRows(NamedTuple):
    """The rule, and the messages to and from the server of clocks. Axis: C clients."""

    numbers: Ints
    clocked: Flags  # [C] it has a clock: its steps are training steps
    to_server_ns: Ints  # [C]
    from_server_ns: Ints  # [C]


class Clocks(NamedTuple):
    """The server's state. Axis: C clients."""

    totals: Annotated[Ints, "clock totals"]
    clock: Annotated[Ints, "C"]
    waiting: Annotated[Ids, "C"]  # for the slowest clock, in the order in which they asked
    waits: Annotated[Flags, "C"]
    known_ns: Annotated[Ints, "2A+2"]  # of the last clocks: the server knows that all have come to it


def needed(rules: ClockRows, clocks: Clocks, client: int) -> int:
    """The slowest clock with which this client may begin its next step; 0 or less: it need not know of any."""
    if rules.numbers[CODE] == FREE or not rules.clocked[client]:
        return 0
    least: int = clocks.clock[client] - rules.numbers[AHEAD]
    return least


def may_begin(rules: ClockRows, clocks: Clocks, client: int) -> bool:
    """Tell whether a client may begin its next step; if not, it waits."""
    if needed(rules, clocks, client) <= clocks.totals[SLOWEST]:
        return True
    clocks.waiting[clocks.totals[WAITERS]] = client
    clocks.waits[client] = True
    clocks.totals[WAITERS] += 1
    return False


def knows_ns(rules: ClockRows, clocks: Clocks, client: int, when: int) -> int:
    """The moment, `when` or later, at which a client that may begin knows it. The server notifies them in turn."""
    least = needed(rules, clocks, client)
    if least <= 0:
        return when
    at = least % len(clocks.known_ns)
    clocks.known_ns[at] += 1
    known: int = max(when, clocks.known_ns[at] + rules.from_server_ns[client])
    return known


def advance(rules: ClockRows, clocks: Clocks, client: int, now: int) -> bool:
    """A client has ended a step; whether the slowest clock goes on with that."""
    totals, clock, clocked = clocks.totals, clocks.clock, rules.clocked
    if not clocked[client]:
        return False
    clock[client] += 1
    at = clock[client] % len(clocks.known_ns)
    clocks.known_ns[at] = max(clocks.known_ns[at], now + rules.to_server_ns[client])
    if clock[client] - 1 > totals[SLOWEST]:
        return False
    totals[AT_SLOWEST] -= 1
    if totals[AT_SLOWEST] > 0:
        return False
    totals[SLOWEST] = clock[client]
    for other in range(len(clocked)):
        if clocked[other]:
            totals[SLOWEST] = min(totals[SLOWEST], clock[other])
    for other in range(len(clocked)):
        totals[AT_SLOWEST] += clocked[other] and clock[other] == totals[SLOWEST]
    return True
