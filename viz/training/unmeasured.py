"""What disturbs a run on purpose, but not as was asked for, or not while rates are measured."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.cluster.client import short_task
from simulator.units import show_nanos, show_rate
from viz.training.trained import Trained

_SECOND = 10**9  # nanoseconds
_AS_ASKED = 0.95  # of the traffic: what is less is told


def notes(trained: Trained) -> list[str]:
    """What was assumed, crashes that no rate knows of, and traffic that found no time."""
    return [*trained.training.notes, *_crashes(trained), *_traffic(trained)]


def _crashes(trained: Trained) -> Iterator[str]:
    disturbed, training, cut_ns = trained.disturbed, trained.training, trained.answers.cut_ns
    for task, at in zip(disturbed.crash_task.tolist(), disturbed.crash_at_ns.tolist(), strict=True):
        said = f"{short_task(training.tasks[task])} crashes at {show_nanos(at)}"
        if at >= training.end_ns:
            yield f"{said}, after the last update at {show_nanos(training.end_ns)}: take more --steps to meet it."
        elif at < cut_ns:
            yield f"{said}, in the warm-up, which the rates leave out: take more --steps before it and after it."


def _traffic(trained: Trained) -> Iterator[str]:
    """Traffic that was sent after the warm-up, where it is less than was asked for: its way was taken."""
    disturbed, training, cut_ns = trained.disturbed, trained.training, trained.answers.cut_ns
    senders = range(len(training.clients) - len(disturbed.traffic_bytes), len(training.clients))
    lasts = max(training.end_ns - cut_ns, 1)
    columns = (disturbed.traffic_bytes.tolist(), disturbed.traffic_period_ns.tolist())
    for client, nbytes, period in zip(senders, *columns, strict=True):
        sent = int(np.count_nonzero((training.step_client == client) & (training.step_end_ns > cut_ns))) * nbytes
        asked = nbytes * _SECOND // period
        if (sent + nbytes) * _SECOND < _AS_ASKED * asked * lasts:  # another may have been under way
            yield (
                f"{training.clients[client]}: {show_rate(sent * _SECOND // lasts)} of the {show_rate(asked)} asked for "
                "found time."
            )
