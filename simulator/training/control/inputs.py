"""Inputs that may run dry: queues of bounded size which threads fill beside the steps, in closed form.

A thread makes an item, adds its elements as far as there is room, and begins the next item when all are in. Elements
enter in order of their items' ends. An op that takes several gets each as soon as it is there, first come, first served
(`QueueBase` in tensorflow/core/kernels/queue_base.cc). No event is needed: when an element enters follows from the
elements that were taken before, and is found when an op asks for it.

    element k enters at max(its item is made, element k-1 has entered, element k-capacity was taken)
    element k is taken at max(it is asked for, element k-1 was taken, element k+reserve has entered)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulator.execution.backend import Backend

if TYPE_CHECKING:
    from simulator.training.control.arrays import Control


def inputs_of(backend: Backend, lasting: Callable[..., int]) -> tuple[Callable[..., Any], ...]:  # Any: some give none
    """The functions over what that backend runs on: begin, take, restart."""
    inner, whole = backend.inner, backend.whole

    @inner
    def made(control: Control, source: int, begun: int) -> int:
        """When the item is made that a thread begins then."""
        rules, feeds = control.rules, control.feeds
        number, who = feeds.numbers[source], len(rules.clients.gap_ns) + source
        feeds.numbers[source] += 1
        ends: int = begun + lasting(
            control, rules.inputs.task[source], who, number, rules.inputs.period_ns[source], begun
        )
        return ends

    @inner
    def restart_one(control: Control, source: int, now: int) -> None:
        """Lose what is there; all threads begin an item."""
        inputs, feeds = control.rules.inputs, control.feeds
        for thread in range(inputs.thread_ptr[source], inputs.thread_ptr[source + 1]):
            feeds.made_ns[thread] = made(control, source, now)
        feeds.entering[source], feeds.left[source] = 0, 0
        feeds.entered[source], feeds.taken[source] = 0, 0
        feeds.entered_ns[source], feeds.taken_ns[source] = now, now

    @inner
    def enter(control: Control, source: int) -> None:
        """The next element enters."""
        inputs, feeds = control.rules.inputs, control.feeds
        if feeds.left[source] == 0:
            first = whole(inputs.thread_ptr[source])
            for thread in range(first + 1, inputs.thread_ptr[source + 1]):
                if feeds.made_ns[thread] < feeds.made_ns[first]:
                    first = whole(thread)
            feeds.entering[source], feeds.left[source] = first, inputs.item[source]
            feeds.entered_ns[source] = max(feeds.entered_ns[source], feeds.made_ns[first])
        room = inputs.capacity[source]
        if room > 0 and room <= feeds.entered[source]:
            place = inputs.place_ptr[source] + feeds.entered[source] % room
            feeds.entered_ns[source] = max(feeds.entered_ns[source], feeds.taken_at[place])
        feeds.entered[source] += 1
        feeds.left[source] -= 1
        if feeds.left[source] == 0:
            feeds.made_ns[feeds.entering[source]] = made(control, source, feeds.entered_ns[source])

    @inner
    def begin(control: Control) -> None:
        """All inputs are empty, and their threads begin."""
        for source in range(len(control.rules.inputs.item)):
            restart_one(control, source, control.rules.inputs.start_ns[source])

    @inner
    def take(control: Control, source: int, client: int, count: int, now: int) -> int:
        """When a client's op that asks now for so many elements may go on."""
        inputs, feeds = control.rules.inputs, control.feeds
        room = inputs.capacity[source]
        for _ in range(count):
            while feeds.entered[source] <= feeds.taken[source] + inputs.reserve[source]:
                enter(control, source)
            feeds.taken_ns[source] = max(max(feeds.taken_ns[source], now), feeds.entered_ns[source])
            if room > 0:
                feeds.taken_at[inputs.place_ptr[source] + feeds.taken[source] % room] = feeds.taken_ns[source]
            feeds.taken[source] += 1
        when: int = max(now, feeds.taken_ns[source])
        feeds.waited_ns[client] += max(whole(0), when - max(now, feeds.until_ns[client]))
        feeds.until_ns[client] = max(feeds.until_ns[client], when)
        feeds.for_ns[source] += when - now
        return when

    @inner
    def restart(control: Control, task: int, back_ns: int) -> None:
        """A task is gone with what it makes or keeps; all begins anew when it is back."""
        inputs = control.rules.inputs
        for source in range(len(inputs.item)):
            if inputs.task[source] == task or inputs.kept_by[source] == task:
                restart_one(control, source, back_ns)

    return begin, take, restart
