"""Draw a training as Chrome trace events: the first steps of all clients op by op, and every step as a bar.

A process per task, with a thread for the steps of each client whose session is there, one for each kind of what
happened to the task (it came up late, stood still, was gone and read its checkpoint) and a thread per lane of its
devices; one process for the links; arrows from the op that made a value to its reader. Clients and steps are in the
arguments of what they ran. The time before a session starts is a slice that says for which task the client waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.cluster.master import short_task
from simulator.costs.rules import category
from viz.figures import notes
from viz.formats.trace_events import MAX_BYTES, Args, Event, named, named_places, shortened, slice_of, written
from viz.palette import PACKING, UNPACKING
from viz.scene import Scene, Trained
from viz.tracks import LINKS, Carried, Place, carried_by, processes
from viz.training.arrows import MOST_ARROWS, arrows
from viz.training.happened import Band, bands
from viz.training.recorded import Crossings, Slices, crossings, slices
from viz.training_figures import regime

MOST_STEPS = 200_000  # bars, and as many updates: the first ones
_WORK = {"send": PACKING, "receive": UNPACKING}
_TRACKS = {"late": "coming up", "pause": "pauses", "gone": "crashes", "restores": "crashes"}
_SAID = {"late": "is not up yet", "pause": "stands still", "gone": "is gone", "restores": "reads its checkpoint"}


@dataclass(frozen=True, slots=True)
class _Stage:
    """A training and where all of it is drawn."""

    trained: Trained
    cluster: Cluster
    ran: Slices
    crossed: Crossings
    happened: Sequence[Band]
    clients: Sequence[Place]  # [C]
    bands: Mapping[tuple[int, str], Place]  # of (task, kind)
    lanes: Mapping[tuple[int, int], Place]  # of (device, lane)
    carried: Carried
    links: Mapping[tuple[int, int], Place]  # of (link, track)


def draw_training(scene: Scene, trained: Trained, *, max_bytes: int = MAX_BYTES) -> str:
    """JSON text of the trace; where it would exceed max_bytes, events are left out and `otherData` says how many.

    Steps come before ops and ops in order of start, so what is missing is what comes last.
    """
    cluster = scene.cluster
    crossed = crossings(trained)
    ran = slices(trained, crossed, cluster.home)
    happened = bands(trained)
    clients, threads, lanes = _threads(trained, cluster, ran, happened)
    assert trained.training.trace is not None
    carried = carried_by(trained.training.trace, cluster, crossed.source, crossed.target)
    rows = sorted({(link, bar.track) for link, on in carried.items() for bar in on}, key=lambda at: (at[0] < 0, at))
    links = {at: (processes(cluster)[LINKS], number + 1) for number, at in enumerate(rows)}
    stage = _Stage(trained, cluster, ran, crossed, happened, clients, threads, lanes, carried, links)
    parts = (
        _names(stage),
        _sessions(stage),
        _happened(stage),
        _steps(stage),
        _cut_off(stage),
        _updates(stage),
        _ops(stage),
        _transfers(stage),
        arrows(trained, crossed, cluster.home, lanes, _first_wires(stage)),
    )
    other: Args = {
        "title": scene.title,
        "regime": regime(trained),
        "end_ns": trained.training.end_ns,
        "recorded": "ops are those of the first steps of each client",
    }
    steps, updates = len(trained.training.step_client), len(trained.training.update_ns)
    if max(steps, updates) > MOST_STEPS:
        other["bars"] = f"the first {MOST_STEPS:,} of {steps:,} steps and of {updates:,} updates"
    if len(crossed.label) > MOST_ARROWS:
        other["arrows"] = f"of the first {MOST_ARROWS:,} of {len(crossed.label):,} transfers"
    return written(chain.from_iterable(parts), other, notes(scene), max_bytes=max_bytes)


def _first_wires(stage: _Stage) -> dict[int, Place]:
    """Where each transfer is on the first link of its way."""
    found: dict[int, Place] = {}
    routes, crossed = stage.cluster.routes, stage.crossed
    source, target = crossed.source.tolist(), crossed.target.tolist()
    for link, bars in stage.carried.items():
        for row, track, _, _ in bars:
            if (routes[source[row]][target[row]] or (-1,))[0] == link:
                found[row] = stage.links[link, track]
    return found


def _threads(
    trained: Trained, cluster: Cluster, ran: Slices, happened: Sequence[Band]
) -> tuple[list[Place], dict[tuple[int, str], Place], dict[tuple[int, int], Place]]:
    """The threads of clients, first within the process of their task, of what happened to it, and of its lanes."""
    training = trained.training
    process = processes(cluster)
    following = dict.fromkeys(process.values(), 1)

    def place(task: str) -> Place:
        at = process[task]
        following[at] += 1
        return at, following[at] - 1

    clients = [place(training.tasks[task]) for task in training.client_task.tolist()]
    kinds = sorted({(band.task, _TRACKS[band.kind]) for band in happened})
    bands_of = {(task, kind): place(training.tasks[task]) for task, kind in kinds}
    lanes = np.zeros(len(cluster), np.int64)
    np.maximum.at(lanes, ran.device, ran.lane + 1)
    found = {
        (row, lane): place(device.task)
        for row, device in enumerate(cluster.devices)
        for lane in range(max(1, int(lanes[row])))
    }
    return clients, bands_of, found


def _names(stage: _Stage) -> Iterator[Event]:
    cluster = stage.cluster
    yield from named_places(cluster, stage.lanes, stage.links)
    for name, place in zip(stage.trained.training.clients, stage.clients, strict=True):
        yield from named("thread", place, shortened(f"steps of {name}"), place[1])
    for (row, kind), place in stage.bands.items():
        yield from named("thread", place, shortened(f"{kind} of {short_task(cluster.tasks[row])}"), place[1])


def _sessions(stage: _Stage) -> Iterator[Event]:
    """What each client waits for before its session starts."""
    training = stage.trained.training
    columns = (training.session_ns.tolist(), training.waited_for.tolist())
    for name, place, start, task in zip(training.clients, stage.clients, *columns, strict=True):
        if start:
            what = f"waits for {short_task(training.tasks[task])}" if task >= 0 else "waits"
            yield slice_of(what, "session", place, 0, start, {"client": name})


def _happened(stage: _Stage) -> Iterator[Event]:
    """What happened to tasks, until the run ended."""
    training = stage.trained.training
    for band in stage.happened:
        task = short_task(training.tasks[band.task])
        args: Args = {"task": task, "until ns": band.end_ns}
        if band.kind == "gone":
            args["updates lost"] = band.lost
            args["steps cut short"] = len(band.cut)
            if band.lost:
                args["checkpoint ns"] = band.saved_ns
            if band.cut:
                args["begun before ns"] = sum(one.end_ns - one.start_ns for one in band.cut)
        place, end = stage.bands[band.task, _TRACKS[band.kind]], min(band.end_ns, training.end_ns)
        yield slice_of(f"{task} {_SAID[band.kind]}", "disturbance", place, band.start_ns, end, args)


def _steps(stage: _Stage) -> Iterator[Event]:
    training = stage.trained.training
    columns = (
        training.step_client,
        training.step_number,
        training.step_start_ns,
        training.step_end_ns,
        training.step_waiting_ns,
        training.step_input_ns,
    )
    rows = np.lexsort((training.step_client, training.step_start_ns))[:MOST_STEPS]
    for client, number, start, end, waited, dry in zip(*(column[rows].tolist() for column in columns), strict=True):
        args: Args = {"client": training.clients[client], "step": number, "waited for tokens or gradients ns": waited}
        if training.inputs:
            args["waited for input ns"] = dry
        yield slice_of(f"step {number}", "step", stage.clients[client], start, end, args)


def _cut_off(stage: _Stage) -> Iterator[Event]:
    """Steps that the end of the run or a crash cut off; how long they waited is not known."""
    training = stage.trained.training
    for client, number, start in training.under_way if len(training.step_client) <= MOST_STEPS else ():
        cut: Args = {"client": training.clients[client], "step": number, "cut off": "by the end of the run"}
        yield slice_of(f"step {number}", "step", stage.clients[client], start, training.end_ns, cut)
    for one in training.cut_short:
        gone = short_task(training.tasks[int(stage.trained.disturbed.crash_task[one.crash])])
        short: Args = {
            "client": training.clients[one.client],
            "step": one.number,
            "cut off": f"by the crash of {gone}",
        }
        yield slice_of(f"step {one.number}", "step", stage.clients[one.client], one.start_ns, one.end_ns, short)


def _updates(stage: _Stage) -> Iterator[Event]:
    training = stage.trained.training
    columns = (
        training.update_ns,
        training.update_client,
        training.update_staleness,
        training.update_gradients,
        training.update_examples,
    )
    for number, (when, client, stale, gradients, examples) in enumerate(
        zip(*(column[:MOST_STEPS].tolist() for column in columns), strict=True)
    ):
        args: Args = {
            "client": training.clients[client],
            "staleness": stale,
            "gradients": gradients,
            "examples": examples,
        }
        yield slice_of(f"update {number + 1}", "update", stage.clients[client], when, when, args)


def _ops(stage: _Stage) -> Iterator[Event]:
    """Ops and the work for transfers, of the recorded steps."""
    ran, names = stage.ran, stage.trained.training.clients
    kinds = [_WORK.get(op) or category(op) for op in ran.ops]
    columns = (ran.label, ran.client, ran.step, ran.device, ran.lane, ran.ready_ns, ran.start_ns, ran.end_ns)
    for label, client, step, device, lane, ready, start, end in zip(*(c.tolist() for c in columns), strict=True):
        args: Args = {"op": ran.ops[label], "client": names[client], "step": step, "waited ns": start - ready}
        yield slice_of(ran.labels[label], kinds[label], stage.lanes[device, lane], start, end, args)


def _transfers(stage: _Stage) -> Iterator[Event]:
    """What crossed, on each link of its way."""
    crossed, cluster, names = stage.crossed, stage.cluster, stage.trained.training.clients
    for link, bars in stage.carried.items():
        for row, track, start, end in bars:
            args: Args = {
                "client": names[int(crossed.client[row])],
                "step": int(crossed.step[row]),
                "from": cluster.devices[int(crossed.source[row])].name,
                "to": cluster.devices[int(crossed.target[row])].name,
                "bytes": int(crossed.nbytes[row]),
                "arrives ns": int(crossed.came_ns[row]),
            }
            yield slice_of(crossed.label[row], "transfer", stage.links[link, track], start, end, args)
