"""What the report holds of a training: its figures and charts, as plain values for JSON."""

from __future__ import annotations

import numpy as np

from simulator.cluster.client import short_task
from simulator.cluster.cluster import Cluster
from simulator.columns import Ints
from simulator.training.disturbances.disturbance import Disturbance
from viz.content_of_time import Json
from viz.palette import CATEGORY_COLOURS, HUES, PACKING, device_colour
from viz.training import caveats, figures
from viz.training.content_of_time import recorded, timeline
from viz.training.happened import not_drawn
from viz.training.trained import Trained

MOST_LINKS = 12
BINS = 32  # of the chart of step times

_KIND_COLOURS = (HUES[0], CATEGORY_COLOURS[PACKING], CATEGORY_COLOURS["communication"], "")
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
        "filters": figures.filters(trained),
        "memory": [
            [cluster.devices[row].short, always, most, cluster.devices[row].memory_bytes]
            for row, always, most in figures.memory_rows(trained)[:MOST_LINKS]
        ],
        "steps_per_s": found.steps_per_s,
        "half_width": found.half_width,
        "sure": figures.sure(found).removeprefix(",").strip().replace("+-", "±"),
        "between_upsets_per_s": found.between_upsets_per_s,
        "examples_per_s": found.examples_per_s,
        "warm_up": found.warm_up,
        "settled": found.settled,
        "narrow": trained.narrow,
        "until_ci": trained.wanted.until_ci,
        "updates": found.updates,
        "dropped": found.dropped,
        "lost": trained.training.lost_updates,
        "gate_share": found.gate_share,
        "input_share": found.input_share,
        "inputs": figures.inputs(trained),
        "quantiles": [[q, nanos] for q, nanos in found.step_ns.items()],
        "step_times": _step_times(trained),
        "staleness_in_words": figures.staleness(found),
        "staleness": [[late, count] for late, count in found.staleness.items()],
        "colours": [device_colour(row) for row in range(len(trained.training.tasks))],
        "kinds": list(zip(figures.KINDS, _KIND_COLOURS, strict=True)),
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
        "notes": [*caveats.notes(trained), figures.late_sessions(trained), not_drawn(trained)],
        "timeline": timeline(trained),
        "recorded": recorded(trained, cluster),
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
    used = [row for row in range(len(training.links)) if found.spent.link_bytes[row]]
    order = sorted(used, key=lambda row: (-found.link_share[row], row))
    shown: list[Json] = [
        [training.links[row], float(found.link_share[row]), int(found.spent.link_bytes[row])]
        for row in order[:MOST_LINKS]
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
