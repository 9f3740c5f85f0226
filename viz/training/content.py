"""What the report holds of a training: its figures, charts and timeline of steps, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.cluster.client import short_task
from simulator.cluster.cluster import Cluster
from simulator.columns import Ids, Ints, ids
from simulator.training.disturbances.disturbance import Disturbance
from simulator.training.training import Training
from simulator.wording import counted
from viz.content_of_time import Json
from viz.palette import CATEGORY_COLOURS, HUES, device_colour
from viz.training import figures
from viz.training.recorded import crossings, slices
from viz.training.trained import Trained

MOST_STEPS = 20_000  # on the page's timeline; what comes later is left out, and said
MOST_UPDATES = 20_000
MOST_SLICES = 40_000  # ops of the recorded steps, the longest ones
MOST_CROSSINGS = 20_000
MOST_LINKS = 12
BINS = 32  # of the chart of step times

_KINDS = {
    "slow": "its ops take that many times as long",
    "noise": "the work of each step takes longer or shorter by chance",
    "pause": "it stands still for a while",
    "late": "it comes up late, and sessions wait for it",
    "crash": "it is gone for a while, then restores what was saved",
    "degrade": "bytes on these links take that many times as long",
    "traffic": "others send over these links, too",
}


def contents(trained: Trained, cluster: Cluster) -> Json:
    """Everything that the page shows of the training."""
    found = trained.answers
    return {
        "regime": figures.regime(trained),
        "words": trained.regime_in_words,
        "replication": trained.replication,
        "workers": trained.workers,
        "crew": figures.crew(trained),
        "steps_per_s": found.steps_per_s,
        "half_width": found.half_width,
        "examples_per_s": found.examples_per_s,
        "warm_up": found.warm_up,
        "settled": found.settled,
        "narrow": trained.narrow,
        "until_ci": trained.wanted.until_ci,
        "updates": found.updates,
        "dropped": found.dropped,
        "lost": trained.training.lost_updates,
        "gate_share": found.gate_share,
        "quantiles": [[q, nanos] for q, nanos in found.step_ns.items()],
        "step_times": _step_times(trained),
        "staleness_in_words": figures.staleness(found),
        "staleness": [[late, count] for late, count in found.staleness.items()],
        "colours": [device_colour(row) for row in range(len(trained.training.tasks))],
        "kinds": [["computing", HUES[0]], ["sending", CATEGORY_COLOURS["communication"]], ["waiting", ""]],
        "tasks": [[short_task(task), *found.shares[row].tolist()] for row, task in enumerate(trained.training.tasks)],
        "links": _links(trained),
        "bottleneck": _bottleneck(trained),
        "disturbances": [[one.text, _meaning(one)] for one in trained.wanted.disturbances],
        "scaling": [
            [
                row.workers,
                row.steps_per_s,
                row.half_width,
                row.examples_per_s,
                row.efficiency,
                row.link,
                row.link_share,
            ]
            for row in trained.scaling
        ],
        "notes": [*trained.training.notes, *trained.notes, figures.late_sessions(trained)],
        "timeline": _timeline(trained),
        "recorded": _recorded(trained, cluster),
    }


def _meaning(one: Disturbance) -> str:
    kind = one.text.partition("=")[2].partition(":")[0]
    return _KINDS.get(kind, "")


def _bottleneck(trained: Trained) -> Json:
    held = trained.bottleneck
    return {
        "sentence": held.sentence,
        "tried": [
            [one.relief.bottleneck, one.relief.change, one.before_per_s, one.steps_per_s, one.gain]
            for one in held.tried
        ],
    }


def _links(trained: Trained) -> Json:
    """The busiest links, and how many more carried something."""
    training, found = trained.training, trained.answers
    used = [row for row in range(len(training.links)) if found.link_bytes[row]]
    order = sorted(used, key=lambda row: (-found.link_share[row], row))
    shown: list[Json] = [
        [training.links[row], float(found.link_share[row]), int(found.link_bytes[row])] for row in order[:MOST_LINKS]
    ]
    return {"rows": shown, "more": max(0, len(order) - MOST_LINKS)}


def _step_times(trained: Trained) -> Json:
    """How many training steps after the warm-up took how long: the edges of bins of equal width, and the counts."""
    times = _times(trained)
    if not len(times):
        return {"edges_ns": [], "counts": []}
    low, high = int(times.min()), int(times.max())
    edges = np.linspace(low, high, BINS + 1) if high - low >= BINS else np.array([low, high + 1])
    counts, _ = np.histogram(times, edges)
    return {"edges_ns": [round(edge) for edge in edges.tolist()], "counts": counts.tolist()}


def _times(trained: Trained) -> Ints:
    training = trained.training
    worker = training.is_worker[training.step_client]
    late = worker & (training.step_start_ns >= trained.answers.cut_ns)
    kept = late if late.any() else worker
    return (training.step_end_ns - training.step_start_ns)[kept]


def _timeline(trained: Trained) -> Json:
    """Steps as bars by client, updates as ticks, and who waited for which task to come up."""
    training = trained.training
    steps = _bars(training)
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
            [name, training.tasks.index(training.tasks[task]), short_task(training.tasks[task]), bool(worker)]
            for name, task, worker in zip(
                training.clients, training.client_task.tolist(), training.is_worker.tolist(), strict=True
            )
        ],
        "session_ns": training.session_ns.tolist(),
        "waited_for": [short_task(training.tasks[task]) if task >= 0 else "" for task in training.waited_for.tolist()],
        "client": shown[:, 0].tolist(),
        "number": shown[:, 1].tolist(),
        "start_ns": shown[:, 2].tolist(),
        "end_ns": shown[:, 3].tolist(),
        "waiting_ns": shown[:, 4].tolist(),
        "update_ns": updates.tolist(),
        "update_client": training.update_client[: len(updates)].tolist(),
        "update_staleness": training.update_staleness[: len(updates)].tolist(),
        "cut_ns": int(trained.answers.cut_ns),
        "whole_ns": end,
        "left_out": left_out,
    }


def _bars(training: Training) -> npt.NDArray[np.int64]:
    """[S, 5] client, number, start, end, waiting of all steps; of those that the end of the run cut off it is -1."""
    whole = (
        training.step_client,
        training.step_number,
        training.step_start_ns,
        training.step_end_ns,
        training.step_waiting_ns,
    )
    cut = [(*row, training.end_ns, -1) for row in training.under_way]
    return np.concatenate([np.stack(whole, axis=1).astype(np.int64), np.array(cut, np.int64).reshape(len(cut), 5)])


def _recorded(trained: Trained, cluster: Cluster) -> Json:
    """The first steps of all clients op by op, as far as a page can hold them."""
    crossed = crossings(trained)
    ran = slices(trained, crossed, cluster.home)
    shown = _longest(ran.start_ns, ran.end_ns, MOST_SLICES)
    wires = _longest(crossed.start_ns, crossed.end_ns, MOST_CROSSINGS)
    names, label = _numbered([crossed.label[row] for row in wires.tolist()])
    links = [
        list(cluster.routes[source][target] or (-1,))
        for source, target in zip(crossed.source[wires].tolist(), crossed.target[wires].tolist(), strict=True)
    ]
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
            "end_ns": crossed.end_ns[wires].tolist(),
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
