"""What was assumed of a run; what disturbs it on purpose, but less than asked for, or more than named, or too late."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from simulator.cluster.client import short_task
from simulator.training.disturbances.disturbance import Degrade
from simulator.training.disturbances.disturbed import links_of
from simulator.units import show_nanos, show_rate
from simulator.wording import some
from viz.training.trained import Trained

_SECOND = 10**9  # nanoseconds
_MATTERS = 0.05  # of the time of a step
_AS_ASKED = 0.95  # of the traffic: what is less is told


def notes(trained: Trained) -> list[str]:
    """What was assumed, crashes that no rate knows of, traffic that found no time, and links that others need."""
    found = (_between_steps, _crashes, _traffic, _needed_by_others)
    return [*trained.training.notes, *chain.from_iterable(said(trained) for said in found)]


def _between_steps(trained: Trained) -> Iterator[str]:
    """The time between steps where nobody has said it and it matters."""
    training = trained.training
    gaps_ns = [client.program.gap_ns or 0 for client in trained.clients if client.program.role == "worker"]
    steps_ns = (training.step_end_ns - training.step_start_ns)[training.is_worker[training.step_client]]
    if trained.wanted.gap_ns is None and gaps_ns and len(steps_ns):
        share = max(gaps_ns) / max(1, max(gaps_ns) + int(np.median(steps_ns)))
        if share >= _MATTERS:
            yield (
                f"Between two steps a session is taken to need {show_nanos(max(gaps_ns))}, {share:.0%} of the time, as "
                "measured on one machine; --gap says what yours needs."
            )


def _crashes(trained: Trained) -> Iterator[str]:
    disturbed, training = trained.disturbed, trained.training
    for task, at in zip(disturbed.crash_task.tolist(), disturbed.crash_at_ns.tolist(), strict=True):
        said = f"{short_task(training.tasks[task])} crashes at {show_nanos(at)}"
        if at >= training.end_ns:
            yield f"{said}, after the last update at {show_nanos(training.end_ns)}: take more --steps to meet it."


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


def _needed_by_others(trained: Trained) -> Iterator[str]:
    """Links between two tasks that were made slower, and are on the ways between others, too."""
    cluster = trained.disturbed.cluster
    for one in trained.wanted.disturbances:
        if not isinstance(one.effect, Degrade) or "->" not in one.target:
            continue
        links = set(links_of(one, cluster))
        others: dict[int, set[tuple[int, int]]] = {link: set() for link in sorted(links)}
        for source, row in enumerate(cluster.routes):
            for target, route in enumerate(row):
                for link in links.intersection(route or ()):
                    others[link].add((cluster.task_of[source], cluster.task_of[target]))
        shared = [cluster.links[link].name for link, pairs in others.items() if len(pairs) > 1]
        if shared:
            yield (
                f"{one.text}: {some(shared)} {'is' if len(shared) == 1 else 'are'} on the way between other tasks, "
                "too, which it slows down as well."
            )
