"""Figures and sentences of a training, shared by the summary, the JSON and the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.cluster.master import short_task
from simulator.training.answers.answers import Answers
from simulator.training.disturbances.disturbance import Degrade
from simulator.training.disturbances.disturbed import links_of
from simulator.training.training import WAITING
from simulator.units import SECOND_NS, show_bytes, show_nanos, show_rate, show_share
from simulator.wording import counted, some
from viz.scene import Trained

MOST_TASKS = 4  # named in the summary, those that wait most
MOST_NAMED = 3
LEAST_SHOWN = 0.001  # of an interval: a narrower one is said to be less
_MATTERS = 0.05  # of the time of a step
_AS_ASKED = 0.95  # of the requested traffic: less is reported
KINDS = ("computing", "handling", "sending", "waiting")  # columns of `Answers.shares`


def regime(trained: Trained) -> str:
    """The regime as an option writes it, with its defaults; "none" for steps without a regime."""
    if trained.regime is None:
        return "none"
    alone = trained.regime.aggregate == trained.workers == 1
    return trained.regime.kind if alone else str(trained.regime)


def client_devices(trained: Trained, cluster: Cluster) -> list[int]:
    """[C] the device of a client's own task that its recorded ops keep busy longest, the first of equal ones.

    -1: background traffic, or a task without a device.
    """
    training, found = trained.training, list[int]()
    assert training.trace is not None
    ops = training.trace.ops
    busy = np.zeros((len(training.clients), len(cluster)), np.int64)
    np.add.at(busy, (ops.client, ops.device), ops.end_ns - ops.start_ns)
    for client, task in enumerate(training.client_task.tolist()):
        own = np.flatnonzero(np.array(cluster.task_of) == task)
        shown = len(own) and trained.clients[client].program.role != "traffic"
        found.append(int(own[busy[client, own].argmax()]) if shown else -1)
    return found


def size(trained: Trained) -> str:
    """The number of workers; a single client may run many copies of the model."""
    return counted(trained.workers, "worker" if trained.workers > 1 else "client")


def sure(trained: Trained) -> str:
    """The precision of the rate, to follow it in a sentence."""
    found, drawn = trained.answers, one_draw(trained)
    if found.cycle is not None:
        many = f"each {found.cycle.updates} updates repeat" if found.cycle.updates > 1 else "all updates are equal"
        return f", deterministic{drawn} ({many})"
    if found.half_width is None:
        return " (too short a run for an interval)"
    shown = f"{found.half_width:.1%}" if found.half_width >= LEAST_SHOWN else f"less than {LEAST_SHOWN:.1%}"
    return f" +- {shown}{drawn}"


def one_draw(trained: Trained) -> str:
    """The condition of all rates where branches were drawn once, to follow a rate; "": they were not."""
    return " for one draw of branches" if trained.training.drawn else ""


def quantiles(trained: Trained) -> str:
    """Quantiles of the times of training steps."""
    times, least = trained.answers.step_ns, trained.unsized.least
    return ", ".join(f"p{q} {least}{show_nanos(times[q])}" for q in times) or "none ended"


def waiting_tasks(trained: Trained) -> list[str]:
    """The tasks that wait most, with the share of time in which they wait, but for those without any work."""
    found, tasks = trained.answers, trained.training.tasks
    order = sorted(working_tasks(trained), key=lambda row: (-found.shares[row, WAITING], row))
    return [f"{short_task(tasks[row])} {show_share(float(found.shares[row, WAITING]))}" for row in order[:MOST_TASKS]]


def working_tasks(trained: Trained) -> list[int]:
    """The rows of the tasks that compute, handle or send something after the warm-up."""
    worked = np.delete(trained.answers.shares, WAITING, axis=1).any(axis=1)
    return [int(row) for row in np.flatnonzero(worked)]


def inputs(trained: Trained) -> Sequence[str]:
    """The source and rate of each input, once for equal inputs. An input that never runs dry is left out."""
    equal: dict[str, list[str]] = {}
    for one in trained.training.inputs:
        task = trained.training.devices[one.device].partition("/device:")[0]
        equal.setdefault(one.words, []).append(short_task(task))
    return [f"{said} (on {some(tasks, MOST_NAMED)})" for said, tasks in equal.items()]


def staleness(found: Answers) -> str:
    """Mean and maximum of the updates by others between the reading and the applying of a gradient."""
    if not any(found.staleness):
        return "0"
    return f"{found.mean_staleness:.3g} on average, at most {max(found.staleness):,}"


def lost(trained: Trained) -> str:
    """The number of updates that crashes of parameter servers took back; "": none."""
    taken = trained.training.lost_updates
    return f"; crashes took back {counted(taken, 'update')}" if taken else ""


def late_sessions(trained: Trained) -> str:
    """The sessions that waited for a task to start; "": none."""
    training = trained.training
    late: dict[tuple[int, int], list[str]] = {}
    for name, start, task in zip(
        training.clients, training.session_ns.tolist(), training.waited_for.tolist(), strict=True
    ):
        if start:
            late.setdefault((task, start), []).append(name)
    said = []
    for (task, start), names in sorted(late.items()):
        said.append(
            f"{some(names, MOST_NAMED)} after {show_nanos(start)}, waiting for {short_task(training.tasks[task])}"
        )
    return "; ".join(said)


def filters(trained: Trained) -> str:
    """The device_filters by job; "": none."""
    return "; ".join(f"{one.job or 'sessions'}: {', '.join(one.texts)}" for one in trained.wanted.filters)


def held(trained: Trained) -> str:
    """The bottleneck as a sentence; tensors of unknown size may be another one."""
    said = trained.bottleneck.sentence
    return f"As far as sizes are known: {said[0].lower()}{said[1:]}" if trained.unsized.tensors else said


def memory_rows(trained: Trained) -> Sequence[tuple[int, int, int]]:
    """Device, resident bytes and bytes at most, of the devices that clients share, the fullest first."""
    held = trained.memory
    rows = [(row, int(held.resident_bytes[row]), int(held.most_bytes[row])) for row in range(len(held.clients))]
    return sorted((row for row in rows if held.clients[row[0]] > 1), key=lambda row: (-row[2], row[0]))


def memory(trained: Trained) -> str:
    """Bounds for the shared device that may hold most; "": no device is shared."""
    rows = memory_rows(trained)
    if not rows:
        return ""
    device, resident, most_bytes = rows[0]
    task, _, place = trained.training.devices[device].partition("/device:")
    count = int(trained.memory.clients[device])
    step = f"a step of {'both' if count == 2 else f'all {count:,}'} clients"
    kept = trained.memory.sums_bytes[device]
    who = f"accumulators and {step}, nothing freed" if kept else f"{step}, with nothing freed"
    most = f"{show_bytes(most_bytes)}{' besides tensors of unknown size' if trained.unsized.least_held else ''}"
    return f"{short_task(task)}/{place}: {show_bytes(resident)} resident, at most {most} ({who})"


def full(trained: Trained) -> str:
    """The device that lacks memory in a step of the first client that does not fit; "": all fit."""
    lacking = trained.out_of_memory
    if lacking is None:
        return ""
    task, _, place = lacking.device.partition("/device:")
    needs = f"needs {show_bytes(lacking.needed_bytes)} where {show_bytes(lacking.free_bytes)} are free"
    return f"{short_task(task)}/{place} {needs}, {show_nanos(lacking.time_ns)} into a step"


def notes(trained: Trained) -> list[str]:
    """Assumptions, crashes after the run, traffic that did not fit, and slowed links that other tasks use."""
    found = (_between_steps, _crashes, _traffic, _needed_by_others)
    return [*trained.training.notes, *chain.from_iterable(said(trained) for said in found)]


def _between_steps(trained: Trained) -> Iterator[str]:
    """A note on the assumed time between steps, if it matters."""
    training = trained.training
    gaps_ns = [client.program.gap_ns or 0 for client in trained.clients if client.program.role == "worker"]
    steps_ns = (training.step_end_ns - training.step_start_ns)[training.is_worker[training.step_client]]
    if trained.wanted.gap_ns is None and gaps_ns and len(steps_ns):
        share = max(gaps_ns) / max(1, max(gaps_ns) + int(np.median(steps_ns)))
        if share >= _MATTERS:
            needs = " to ".join(dict.fromkeys(map(show_nanos, (min(gaps_ns), max(gaps_ns)))))
            yield (
                f"A session is assumed to need {needs} between two steps. That was measured on one machine; --gap says "
                "what yours needs."
            )


def _crashes(trained: Trained) -> Iterator[str]:
    disturbed, training = trained.disturbed, trained.training
    for task, crash in disturbed.crashes:
        said = f"{short_task(training.tasks[task])} crashes at {show_nanos(crash.at_ns)}"
        if crash.at_ns >= training.end_ns:
            yield f"{said}, after the last update at {show_nanos(training.end_ns)}. Increase --steps to see its effect."


def _traffic(trained: Trained) -> Iterator[str]:
    """A note on background traffic that sent less than requested, as its links were busy."""
    disturbed, training, cut_ns = trained.disturbed, trained.training, trained.answers.cut_ns
    senders = range(len(training.clients) - len(disturbed.senders), len(training.clients))
    lasts = max(training.end_ns - cut_ns, 1)
    for client, (_, _, nbytes, period) in zip(senders, disturbed.senders, strict=True):
        sent = int(np.count_nonzero((training.step_client == client) & (training.step_end_ns > cut_ns))) * nbytes
        asked = nbytes * SECOND_NS // period
        if (sent + nbytes) * SECOND_NS < _AS_ASKED * asked * lasts:  # another may have been under way
            yield (
                f"{training.clients[client]}: {show_rate(sent * SECOND_NS // lasts)} of the requested "
                f"{show_rate(asked)} were sent; the links were busy."
            )


def _needed_by_others(trained: Trained) -> Iterator[str]:
    """A note on slowed links between two tasks that are also on routes between other tasks."""
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
                f"{one.text}: {some(shared)} {'is' if len(shared) == 1 else 'are'} on routes between other tasks, "
                "too. These slow down as well."
            )
