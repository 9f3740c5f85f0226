"""What the report holds of a training's timeline: steps, updates, what happened to tasks, and the recorded steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.cluster.master import short_task
from simulator.columns import Ids, Ints, ids, ints
from simulator.training.crew.combining import Client
from simulator.training.training import Training
from simulator.wording import counted
from viz.content_of_time import Json, turn_rows
from viz.palette import GREY, HUES, device_colour
from viz.scene import Trained
from viz.training.happened import Band, bands, lost_updates
from viz.training.recorded import crossings, slices

MOST_STEPS = 20_000  # on the page's timeline; what comes later is left out, and said
MOST_UPDATES = 20_000
MOST_SLICES = 40_000  # ops of the recorded steps, the longest ones
MOST_CROSSINGS = 20_000
WHOLE, BY_END = -2, -1  # of a step that nothing cut off, and of one that the end of the run did


def timeline(trained: Trained) -> Json:
    """Steps as bars by client, updates as ticks, and who waited for which task to come up."""
    training = trained.training
    steps, happened = _bars(training), bands(trained)
    count = len(steps)
    shown = steps[np.argsort(steps[:, 2], kind="stable")[:MOST_STEPS]]
    updates = training.update_ns[:MOST_UPDATES]
    cut_off = count > MOST_STEPS or len(training.update_ns) > MOST_UPDATES
    end = int(training.end_ns)
    if cut_off:
        last_step = int(shown[:, 3].max()) if count > MOST_STEPS else end
        last_update = int(updates[-1]) if len(training.update_ns) > MOST_UPDATES else end
        end = min(end, last_step, last_update)
    left_out = f"what comes after is not shown: {counted(count, 'step')} would be too many" if cut_off else ""
    return {
        "clients": [
            [name, task, short_task(training.tasks[task]), bool(worker), _colour(client, task)]
            for name, task, worker, client in zip(
                training.clients,
                training.client_task.tolist(),
                training.is_worker.tolist(),
                trained.clients,
                strict=True,
            )
        ],
        "session_ns": training.session_ns.tolist(),
        "waited_for": [short_task(training.tasks[task]) if task >= 0 else "" for task in training.waited_for.tolist()],
        "client": shown[:, 0].tolist(),
        "number": shown[:, 1].tolist(),
        "start_ns": shown[:, 2].tolist(),
        "end_ns": shown[:, 3].tolist(),
        "waiting_ns": shown[:, 4].tolist(),
        "input_ns": shown[:, 5].tolist(),
        "cut": shown[:, 6].tolist(),
        "update_ns": updates.tolist(),
        "update_client": training.update_client[: len(updates)].tolist(),
        "update_staleness": training.update_staleness[: len(updates)].tolist(),
        "lost": [row for row in lost_updates(trained, happened).tolist() if row < len(updates)],
        "bands": [_band(band, training) for band in happened],
        "cut_ns": int(trained.answers.cut_ns),
        "whole_ns": end,
        "left_out": left_out,
    }


def _bars(training: Training) -> npt.NDArray[np.int64]:
    """[S, 7] client, number, start, end, waiting for tokens, for inputs, and what cut it off: WHOLE, BY_END or a crash.

    How long a step waited that was cut off is not known: -1.
    """
    whole = (
        training.step_client,
        training.step_number,
        training.step_start_ns,
        training.step_end_ns,
        training.step_waiting_ns,
        training.step_input_ns,
        np.full(len(training.step_client), WHOLE),
    )
    left = [(*row, training.end_ns, -1, -1, BY_END) for row in training.under_way]
    left += [
        (one.client, one.number, one.start_ns, one.end_ns, -1, -1, one.crash)
        for one in training.cut_short
        if one.start_ns < one.end_ns
    ]
    return np.concatenate([np.stack(whole, axis=1).astype(np.int64), np.array(left, np.int64).reshape(len(left), 7)])


def _colour(client: Client, task: int) -> str:
    """That of its task; what only keeps links busy trains nothing, and is grey."""
    return HUES[GREY] if client.program.role == "traffic" else device_colour(task)


def _band(band: Band, training: Training) -> Json:
    return {
        "kind": band.kind,
        "task": band.task,
        "name": short_task(training.tasks[band.task]),
        "start_ns": band.start_ns,
        "end_ns": band.end_ns,
        "crash": band.crash,
        "lost": band.lost,
        "saved_ns": band.saved_ns,
        "cut": [[one.client, one.number, one.start_ns] for one in band.cut],
    }


def recorded(trained: Trained, cluster: Cluster) -> Json:
    """The first steps of all clients op by op, as far as a page can hold them."""
    crossed = crossings(trained)
    ran = slices(trained, crossed, cluster.home)
    shown = _longest(ran.start_ns, ran.end_ns, MOST_SLICES)
    wires = _longest(crossed.start_ns, ints(crossed.start_ns + crossed.crossing_ns), MOST_CROSSINGS)
    names, label = _numbered([crossed.label[row] for row in wires.tolist()])
    links = [
        list(cluster.routes[source][target] or (-1,))
        for source, target in zip(crossed.source[wires].tolist(), crossed.target[wires].tolist(), strict=True)
    ]
    trace = trained.training.trace
    assert trace is not None
    left_out = len(ran.start_ns) - len(shown) + len(crossed.label) - len(wires)
    return {
        "devices": [device.short for device in cluster.devices],
        "task_of": list(cluster.task_of),
        "links": [link.name for link in cluster.links],
        "labels": list(ran.labels),
        "ops": list(ran.ops),
        "label": ran.label[shown].tolist(),
        "client": ran.client[shown].tolist(),
        "step": ran.step[shown].tolist(),
        "device": ran.device[shown].tolist(),
        "lane": ran.lane[shown].tolist(),
        "start_ns": ran.start_ns[shown].tolist(),
        "end_ns": ran.end_ns[shown].tolist(),
        "transfers": {
            "labels": names,
            "label": label,
            "client": crossed.client[wires].tolist(),
            "step": crossed.step[wires].tolist(),
            "source": crossed.source[wires].tolist(),
            "target": crossed.target[wires].tolist(),
            "bytes": crossed.nbytes[wires].tolist(),
            "links": links,
            "start_ns": crossed.start_ns[wires].tolist(),
            "crossing_ns": crossed.crossing_ns[wires].tolist(),
            "turns": turn_rows(trace, wires.tolist()),
            "came_ns": crossed.came_ns[wires].tolist(),
        },
        "left_out": left_out,
    }


def _longest(start_ns: Ints, end_ns: Ints, most: int) -> Ids:
    """The rows that last longest, at most so many, in order of (start, end)."""
    kept = np.lexsort((np.arange(len(start_ns)), start_ns - end_ns))[:most]
    return ids(kept[np.lexsort((kept, end_ns[kept], start_ns[kept]))])


def _numbered(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """The different strings in order of first appearance, and the number of each value."""
    table: dict[str, int] = {}
    rows = [table.setdefault(value, len(table)) for value in values]
    return list(table), rows
