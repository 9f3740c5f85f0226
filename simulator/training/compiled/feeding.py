"""Inputs that may run dry, as `feeding` has them, over arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.kernel import inner
from simulator.training.compiled.lengths import lasting

if TYPE_CHECKING:
    from simulator.training.compiled.arrays import Team


@inner
def _made(crew: Team, source: int, begun: int) -> int:
    """When the item is made that a thread begins then."""
    rules, _, _, _, feeds = crew
    number, who = feeds.numbers[source], len(rules.clients.gap_ns) + source
    feeds.numbers[source] += 1
    ends: int = begun + lasting(crew, rules.inputs.task[source], who, number, rules.inputs.period_ns[source], begun)
    return ends


@inner
def _restart(crew: Team, source: int, now: int) -> None:
    """Lose what is there; all threads begin an item."""
    inputs, feeds = crew.rules.inputs, crew.feeds
    for thread in range(inputs.thread_ptr[source], inputs.thread_ptr[source + 1]):
        feeds.made_ns[thread] = _made(crew, source, now)
    feeds.entering[source], feeds.left[source] = 0, 0
    feeds.entered[source], feeds.taken[source] = 0, 0
    feeds.entered_ns[source], feeds.taken_ns[source] = now, now


@inner
def _enter(crew: Team, source: int) -> None:
    """The next element enters."""
    inputs, feeds = crew.rules.inputs, crew.feeds
    if feeds.left[source] == 0:
        first = np.int64(inputs.thread_ptr[source])
        for thread in range(first + 1, inputs.thread_ptr[source + 1]):
            if feeds.made_ns[thread] < feeds.made_ns[first]:
                first = np.int64(thread)
        feeds.entering[source], feeds.left[source] = first, inputs.item[source]
        feeds.entered_ns[source] = max(feeds.entered_ns[source], feeds.made_ns[first])
    room = inputs.capacity[source]
    if room > 0 and room <= feeds.entered[source]:
        place = inputs.place_ptr[source] + feeds.entered[source] % room
        feeds.entered_ns[source] = max(feeds.entered_ns[source], feeds.taken_at[place])
    feeds.entered[source] += 1
    feeds.left[source] -= 1
    if feeds.left[source] == 0:
        feeds.made_ns[feeds.entering[source]] = _made(crew, source, feeds.entered_ns[source])


@inner
def begin(crew: Team) -> None:
    """All inputs are empty, and their threads begin."""
    for source in range(len(crew.rules.inputs.item)):
        _restart(crew, source, crew.rules.inputs.start_ns[source])


@inner
def take(crew: Team, source: int, client: int, count: int, now: int) -> int:
    """When a client's op that asks now for so many elements may go on."""
    inputs, feeds = crew.rules.inputs, crew.feeds
    room = inputs.capacity[source]
    for _ in range(count):
        while feeds.entered[source] <= feeds.taken[source] + inputs.reserve[source]:
            _enter(crew, source)
        feeds.taken_ns[source] = max(max(feeds.taken_ns[source], now), feeds.entered_ns[source])
        if room > 0:
            feeds.taken_at[inputs.place_ptr[source] + feeds.taken[source] % room] = feeds.taken_ns[source]
        feeds.taken[source] += 1
    when: int = max(np.int64(now), feeds.taken_ns[source])
    feeds.waited_ns[client] += max(np.int64(0), when - max(np.int64(now), feeds.until_ns[client]))
    feeds.until_ns[client] = max(feeds.until_ns[client], when)
    feeds.for_ns[source] += when - now
    return when


@inner
def restart(crew: Team, task: int, back_ns: int) -> None:
    """A task is gone with what it makes or keeps; all begins anew when it is back."""
    inputs = crew.rules.inputs
    for source in range(len(inputs.item)):
        if inputs.task[source] == task or inputs.kept_by[source] == task:
            _restart(crew, source, back_ns)
