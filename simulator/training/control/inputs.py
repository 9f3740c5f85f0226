"""Inputs that may run dry: queues of bounded size which threads fill beside the steps, in closed form.

A thread makes an item, adds its elements as far as there is room, and begins the next item when all are in. Elements
enter in order of their items' ends. An op that takes several gets each as soon as it is there, first come, first served
(`QueueBase` in tensorflow/core/kernels/queue_base.cc). No event is needed: when an element enters follows from the
elements that were taken before, and is found when an op asks for it.

    element k enters at max(its item is made, element k-1 has entered, element k-capacity was taken)
    element k is taken at max(it is asked for, element k-1 was taken, element k+reserve has entered)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.training.control.durations import lasting

if TYPE_CHECKING:
    from simulator.training.control.arrays import Control


def _made(control: Control, source: int, begun: int) -> int:
    """The moment at which an item is made that a thread begins at `begun`."""
    rules, input_state = control.rules, control.input_state
    number, who = input_state.numbers[source], len(rules.clients.gap_ns) + source
    input_state.numbers[source] += 1
    ends: int = begun + lasting(control, rules.inputs.task[source], who, number, rules.inputs.period_ns[source], begun)
    return ends


def _restart_one(control: Control, source: int, now: int) -> None:
    """Lose what is there; all threads begin an item."""
    inputs, input_state = control.rules.inputs, control.input_state
    for thread in range(inputs.thread_ptr[source], inputs.thread_ptr[source + 1]):
        input_state.made_ns[thread] = _made(control, source, now)
    input_state.entering[source], input_state.left[source] = 0, 0
    input_state.entered[source], input_state.taken[source] = 0, 0
    input_state.entered_ns[source], input_state.taken_ns[source] = now, now


def _enter(control: Control, source: int) -> None:
    """The next element enters."""
    inputs, input_state = control.rules.inputs, control.input_state
    if input_state.left[source] == 0:
        first = inputs.thread_ptr[source]
        for thread in range(first + 1, inputs.thread_ptr[source + 1]):
            if input_state.made_ns[thread] < input_state.made_ns[first]:
                first = thread
        input_state.entering[source], input_state.left[source] = first, inputs.item[source]
        input_state.entered_ns[source] = max(input_state.entered_ns[source], input_state.made_ns[first])
    room = inputs.capacity[source]
    if room > 0 and room <= input_state.entered[source]:
        place = inputs.place_ptr[source] + input_state.entered[source] % room
        input_state.entered_ns[source] = max(input_state.entered_ns[source], input_state.taken_at[place])
    input_state.entered[source] += 1
    input_state.left[source] -= 1
    if input_state.left[source] == 0:
        input_state.made_ns[input_state.entering[source]] = _made(control, source, input_state.entered_ns[source])


def begin(control: Control) -> None:
    """All inputs are empty, and their threads begin."""
    for source in range(len(control.rules.inputs.item)):
        _restart_one(control, source, control.rules.inputs.start_ns[source])


def take(control: Control, source: int, client: int, count: int, now: int) -> int:
    """The moment at which a client's op that asks now for `count` elements may go on."""
    inputs, input_state = control.rules.inputs, control.input_state
    room = inputs.capacity[source]
    for _ in range(count):
        while input_state.entered[source] <= input_state.taken[source] + inputs.reserve[source]:
            _enter(control, source)
        input_state.taken_ns[source] = max(max(input_state.taken_ns[source], now), input_state.entered_ns[source])
        if room > 0:
            input_state.taken_at[inputs.place_ptr[source] + input_state.taken[source] % room] = input_state.taken_ns[
                source
            ]
        input_state.taken[source] += 1
    when: int = max(now, input_state.taken_ns[source])
    input_state.waited_ns[client] += max(0, when - max(now, input_state.until_ns[client]))
    input_state.until_ns[client] = max(input_state.until_ns[client], when)
    input_state.for_ns[source] += when - now
    return when


def restart(control: Control, task: int, back_ns: int) -> None:
    """A task is gone with what it makes or keeps; all begins anew when it is back."""
    inputs = control.rules.inputs
    for source in range(len(inputs.item)):
        if inputs.task[source] == task or inputs.kept_by[source] == task:
            _restart_one(control, source, back_ns)
