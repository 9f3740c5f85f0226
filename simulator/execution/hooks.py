"""Hooks of the event loop: functions of a controller that lets steps begin again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Hooks(NamedTuple):
    """The functions that the event loop calls; `control` is the tuple of arrays that they alone know."""

    asked: Callable[
        ..., Any
    ]  # Any: two arrays or lists. (control): where the loop notes marked tasks that are ready, and its progress
    begin: Callable[..., int]  # (control, state): push the first timers; the size of the event queue
    ended: Callable[..., bool]  # (control, tasks, state, threads, task, now, order): its successors hear nothing of it
    awaits: Callable[..., None]  # (control, task): it is to be released
    released: Callable[..., bool]  # (control, task, now): it is left of a step that was cut short
    joins: Callable[
        ..., bool
    ]  # (control, tasks, state, task, now): a task of a transfer joins; is its start to be told?
    carries: Callable[..., None]  # (control, task, now): such a task starts
    works: Callable[..., int]  # (control, tasks, task, where, now): a task starts on a device; its duration
    act: Callable[..., int]  # (control, tasks, state, threads, size, now, order, asks): at the end of a round
