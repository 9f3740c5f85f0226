"""The report: a scene as one HTML file with graph, timeline, memory and tables, without network or server.

The page carries the scene as JSON, deflated and in base64, in an element that browsers do not run. Its code draws on
canvases and writes text as text nodes only. A policy in the page allows only its own script and style, by their hashes.
So no name in a graph file can run as code.

The JSON has columns of plain numbers and strings. They keep the order and the row numbers of the values that they come
from, so that the page's code can be read beside them. Strings that repeat (ops, dtypes, shapes) are written once and
referred to by number.
"""

from __future__ import annotations

import base64
import hashlib
import html
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, astuple
from functools import cache
from importlib import resources
from itertools import count
from typing import Any, TypeVar  # Any: JSON

import numpy as np

from placement.algorithms import TABLE
from simulator.assignment import COST, RULES, SENTENCES, SINGLE
from simulator.cluster.cluster import Cluster
from simulator.cluster.master import short_task
from simulator.costs.rules import MATRIX, category
from simulator.costs.table import SOURCES
from simulator.graph.graph import Attrs
from simulator.graph.ops import of_nodes
from simulator.graph.tensors import SHAPES
from simulator.json_text import encoded, plain
from simulator.shapes.unknown import Unsized, unknown_shapes
from simulator.training.disturbances.disturbance import Disturbance
from viz import agreement, figures, training_figures
from viz.attributes import shown_dtype, shown_shape, shown_value
from viz.difference.difference import TensorCrossings, difference, headline
from viz.difference.explanation import PathRow
from viz.difference.outline import OP
from viz.difference.trainings import SAID, sentences, training_difference
from viz.page.folding import fold, hosts, item_order
from viz.page.packing import packed_parts
from viz.page.time_content import Json, recorded_contents, step_contents, steps_contents
from viz.palette import CATEGORY_COLOURS, PACKING, device_colour, device_colours
from viz.scene import Scene, Trained
from viz.timeline.training_timeline import not_drawn
from viz.what_if import as_json as what_if_json

# Joined into one script in this order; each file names at its top the files that it needs.
SCRIPTS = (
    "format.js",
    "timeline.js",
    "unpacking.js",
    "model.js",
    "canvas.js",
    "layers.js",
    "edges.js",
    "boxes.js",
    "routes.js",
    "graph_drawing.js",
    "graph_view.js",
    "timeline_drawing.js",
    "timeline_window.js",
    "ranges.js",
    "timeline_step.js",
    "cards.js",
    "comparison.js",
    "tables.js",
    "tracing.js",
    "what_if.js",
    "devices.js",
    "edge_panel.js",
    "transfer_panel.js",
    "panel.js",
    "search.js",
    "training_charts.js",
    "training_bands.js",
    "timeline_training.js",
    "training_comparison.js",
    "training.js",
    "links.js",
    "main.js",
)
_Value = TypeVar("_Value")
_LEFT_TO_RIGHT = "\u200e"  # a browser's tab turns around by the first letter of its title
LEVEL = 5  # of zlib: a fiftieth larger than its default, in half of the time


def draw_report(scene: Scene) -> str:
    """One HTML document that shows the scene; equal scenes give equal text."""
    packed = base64.b64encode(
        _deflated(packed_parts(_parts(scene), scene.graph, compared=scene.against is not None))
    ).decode()
    page, style, script = _assets()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"{_LEFT_TO_RIGHT}{html.escape(scene.title)}"
    return _filled(page, {"title": title, "policy": policy, "style": style, "script": script, "scene": packed})


def _deflated(parts: Iterable[tuple[str, Json]]) -> bytes:
    """The members of one JSON object, deflated. A thread packs each while the next is made; none is held for long."""
    packer, packed, sign = zlib.compressobj(LEVEL), [], b"{"
    aside = ThreadPoolExecutor(1)
    try:
        for name, value in parts:
            packed.append(aside.submit(packer.compress, b'%b"%b":%b' % (sign, name.encode(), encoded(value))))
            sign = b","
        packed.append(aside.submit(packer.compress, b"}"))
        return b"".join([*(piece.result() for piece in packed), packer.flush()])
    finally:
        aside.shutdown(wait=False, cancel_futures=True)


@cache
def _assets() -> tuple[str, str, str]:
    """The page, its style and its script."""
    folder = resources.files("viz") / "assets"
    script = "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS)
    return (folder / "report.html").read_text("utf-8"), lean((folder / "report.css").read_text("utf-8")), lean(script)


def lean(text: str) -> str:
    """A script or style without indents, empty lines and lines of comment, a seventh of it.

    No text in it may span lines.
    """
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _filled(page: str, values: dict[str, str]) -> str:
    """The page with each `<!--simviz:name-->` replaced, in one pass, so that no value is searched in its turn."""
    pieces = page.split("<!--simviz:")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("-->")
        filled += [values[name], rest]
    return "".join(filled)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# --- content ---------------------------------------------------------------------------------------------------------


FORMAT = 1
MOST_LINKS = 12
BINS = 32  # of the chart of step times

_KIND_COLOURS = (CATEGORY_COLOURS[MATRIX], CATEGORY_COLOURS[PACKING], CATEGORY_COLOURS["communication"], "")
_KINDS = {
    "slow": "its ops take that many times as long",
    "noise": "the work of each step takes longer or shorter by chance",
    "pause": "it stops for a while",
    "late": "it starts late, and sessions wait for it",
    "crash": "it is gone for a while, then restores its checkpoint",
    "degrade": "transfers on these links take that many times as long",
    "traffic": "background clients send over these links, too",
}


def contents(scene: Scene) -> dict[str, Any]:  # Any: JSON
    """Everything that the page shows."""
    return {name: plain(value) for name, value in _parts(scene)}


def _parts(scene: Scene) -> Iterator[tuple[str, Json]]:
    """The members of `contents`, each made when it is asked for: those of a large graph need not be held together."""
    yield "format", FORMAT
    yield "title", scene.title
    yield "categories", {"names": list(CATEGORY_COLOURS), "colours": list(CATEGORY_COLOURS.values())}
    yield "rules", list(RULES)
    yield "sources", list(SOURCES)
    for name, value in _run(scene, device_colours(scene.cluster.devices)):
        if name == "nodes":
            yield name, {**_nodes(scene), **value}
        elif name == "edges":
            yield name, {**_edges(scene), **value}
        else:
            yield name, value
    beside = _beside(scene)
    yield "tensors", _tensors(scene)
    yield "tree", _tree(scene, beside)
    yield "against", _against(scene, beside)
    yield "what_if", None if scene.what_if is None else what_if_json(scene.what_if)
    yield "check", _plain(agreement.as_json(scene))
    yield "training", None if scene.training is None else training_contents(scene.training, scene.cluster)
    yield "training_against", _training_against(scene)
    yield "command", scene.command


def _plain(value: object, depth: int = 6) -> Json:
    """A value as JSON; a value that JSON does not know becomes text."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if depth and isinstance(value, dict):
        return {str(key): _plain(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value]
    return str(value)


def _beside(scene: Scene) -> Scene | None:
    """The run that the scene is compared with, if all of it is known and both are of the same nodes and edges."""
    other = scene.against
    if not isinstance(other, Scene) or other.graph.names != scene.graph.names:
        return None
    columns = ("edge_src", "edge_dst", "edge_tensor")
    equal = all(np.array_equal(getattr(other.graph, name), getattr(scene.graph, name)) for name in columns)
    return other if equal else None


def _run(scene: Scene, colours: Sequence[str]) -> Iterator[tuple[str, Any]]:  # Any: JSON
    """Members that differ from run to run of one graph; `colours` are those of the devices."""
    yield "summary", _summary(scene)
    yield "cluster", _cluster(scene, colours)
    yield "nodes", _placed(scene)
    yield "edges", {"transfer": _transfer_of_edges(scene)}
    yield from step_contents(scene).items()
    yield "tables", _tables(scene)


def _against(scene: Scene, beside: Scene | None) -> Json:
    """The differences from another run, which comes first in each pair. `run` is that run, None if not all is known."""
    found = difference(scene)
    if found is None:
        return None
    row_of = {name: row for row, name in enumerate(scene.graph.names)}
    return {
        "names": list(found.names),
        "makespan_ns": list(found.makespan_ns),
        "headline": headline(found),
        "parts": [
            [part.sentence, *part.ns, [[row_of.get(_node_of(row), -1), row.subject, *row.ns] for row in part.rows]]
            for part in found.parts
        ],
        "moved": [[row_of[one.node], *one.devices, int(one.runs)] for one in found.moved],
        "crossings": [[one.tensor, row_of.get(_node_of(one), -1), *one.times, *one.nbytes] for one in found.crossings],
        "links": [[one.link, *one.nbytes] for one in found.links],
        "devices": [[one.device, *one.busy_ns, *one.peak_bytes] for one in found.devices],
        "run": None if beside is None else dict(_run(beside, _colours_beside(scene.cluster, beside.cluster))),
    }


def _training_against(scene: Scene) -> Json:
    """The differences from another training, and that training itself; that run comes first in each pair."""
    found, other = training_difference(scene), scene.against
    if found is None or not isinstance(other, Scene) or other.training is None:
        return None
    return {
        "names": list(found.names),
        "sentences": sentences(found),
        "figures": [[one.what, one.unit, *one.values] for one in found.figures],
        "parts": [[SAID[part.what], *part.ns] for part in found.parts],
        "tasks": [[one.task, *(None if of is None else list(of) for of in one.shares)] for one in found.tasks],
        "devices": [[one.name, *one.shares] for one in found.devices],
        "links": [[one.name, *one.shares] for one in found.links],
        "training": training_contents(other.training, other.cluster),
        "cluster": _cluster(other, _colours_beside(scene.cluster, other.cluster)),
    }


def _node_of(one: PathRow | TensorCrossings) -> str:
    """The node of a subject: itself, or that which makes the tensor."""
    name = one.tensor if isinstance(one, TensorCrossings) else one.subject
    if isinstance(one, PathRow) and one.kind == OP:
        return name
    return name[1:] if name.startswith("^") else name.rpartition(":")[0]


def _colours_beside(cluster: Cluster, other: Cluster) -> tuple[str, ...]:
    """Colours of the other cluster's devices: those that both have look alike, all others look like none of these."""
    mine = {device.name: row for row, device in enumerate(cluster.devices)}
    fresh = count(len(cluster.devices))
    return tuple(device_colour(mine[one.name] if one.name in mine else next(fresh)) for one in other.devices)


def _enforced(scene: Scene) -> Json | None:
    found = scene.enforced
    if found is None or not found.edges:
        return None
    return {"edges": len(found.edges), "without_ns": found.without_ns, "planned_ns": found.planned_ns}


def _summary(scene: Scene) -> Json:
    step = scene.step
    return {
        "makespan_ns": scene.trace.makespan,
        "another_order_ns": figures.another_order_ns(scene),
        "enforced": _enforced(scene),
        "by_profile_ns": figures.by_profile_ns(scene),
        "unsized": _unsized(scene.unsized),
        "lower_bound_ns": scene.bound.ns,
        "lower_bound_by": scene.bound.why + scene.bounded,
        "at_most": figures.at_most(scene),
        "moved_bytes": figures.moved_bytes(scene),
        "transfers": len(scene.trace.transfers.row),
        "nodes": len(scene.graph),
        "running": int(step.runs.sum()),
        "rule": step.rule,
        "feeds": list(step.feeds),
        "fetches": list(step.fetches),
        "asked": scene.assignment.asked,
        "used": scene.assignment.used,
        "simulation": asdict(figures.simulation(scene)),
    }


def _unsized(found: Unsized) -> Json:
    """The marks of times, memory and rates that are bounds, and why; the texts are empty if all sizes are known."""
    marks = {"least": found.least, "least_held": found.least_held, "most": found.most}
    return {**marks, "words": found.words, "cure": found.cure}


def _cluster(scene: Scene, colours: Sequence[str]) -> Json:
    cluster = scene.cluster
    one_task = len(cluster.tasks) == 1  # then "GPU:0" says it all
    devices: list[Json] = [
        {
            "name": device.name,
            "short": device.short.rpartition("/")[2] if one_task else device.short,
            "kind": device.kind,
            "memory_bytes": device.memory_bytes,
            "lanes": device.lanes,
        }
        for device in cluster.devices
    ]
    return {
        "name": cluster.name,
        "tasks": len(cluster.tasks),
        "devices": devices,
        "colours": list(colours),
        "links": [{"name": k.name, "latency_ns": k.latency_ns, "bytes_per_s": k.bytes_per_s} for k in cluster.links],
    }


def _numbered(values: Sequence[_Value]) -> tuple[list[_Value], list[int]]:
    """The different values in order of first appearance, and the number of each value."""
    table = list(dict.fromkeys(values))
    number = {value: row for row, value in enumerate(table)}
    return table, [number[value] for value in values]


def _nodes(scene: Scene) -> dict[str, Json]:
    """Nodes as the file has them."""
    graph = scene.graph
    ops, op = _numbered(graph.ops)
    asked, requested = _numbered(graph.requested)
    known = {name: row for row, name in enumerate(CATEGORY_COLOURS)}
    return {
        "names": list(graph.names),
        "ops": ops,
        "op": op,
        "category": [known[category(name)] for name in ops],
        "asked": asked,
        "requested": requested,
        "attributes": _attributes(scene),
    }


def _attributes(scene: Scene) -> Json:
    """The attributes of each node as a number of `sets`; a set has numbers of `texts`, "name: value"."""
    texts: dict[str, int] = {}
    sets: dict[tuple[int, ...], int] = {}

    def number(_: str, attrs: Attrs) -> int:
        shown = tuple(
            texts.setdefault(f"{name}: {shown_value(attrs[name])}", len(texts))
            for name in sorted(attrs)
            if name != SHAPES  # shapes are shown with the outputs
        )
        return sets.setdefault(shown, len(sets))

    rows = of_nodes(number, scene.graph)
    return {"texts": list(texts), "sets": [list(one) for one in sets], "set": rows}


def _placed(scene: Scene) -> dict[str, Json]:
    """Nodes as the run places and prices them."""
    graph, costs, placed = scene.graph, scene.costs, scene.assignment
    device = figures.devices_of_nodes(scene)
    kind_of = np.array(scene.cluster.kind_of, np.int64)
    return {
        "device": device,
        "moved": np.flatnonzero(device != placed.device),
        "why": placed.why,
        "cited": cited(placed.used),
        "runs": figures.taking_part(scene).astype(int),
        "fed": figures.fed_nodes(scene),
        "cost_ns": costs.run_ns[np.arange(len(graph)), kind_of[device]] if len(graph) else [],
        "source": figures.price_sources(scene),
        "flops": costs.flops,
        "moved_bytes": costs.moved_bytes,
        "scratch_bytes": costs.scratch_bytes,
        "resident_bytes": costs.resident_bytes,
    }


def cited(algorithm: str) -> list[tuple[tuple[str, str], ...]]:
    """The sentences behind each row of RULES, in a run that this algorithm placed: pairs of where and what."""
    chosen = ((algorithm, TABLE[algorithm].help),) if algorithm in TABLE else ()
    return [chosen if rule in (COST, SINGLE) else SENTENCES.get(rule, ()) for rule in range(len(RULES))]


def _tensors(scene: Scene) -> Json:
    graph = scene.graph
    shapes, shape = _numbered(graph.tensor_shape)
    types, dtype = _numbered(graph.tensor_dtype.tolist())
    return {
        "ptr": graph.tensor_ptr,
        "shapes": list(map(shown_shape, shapes)),
        "shape": shape,
        "dtypes": list(map(shown_dtype, types)),
        "dtype": dtype,
        "bytes": graph.tensor_bytes,
    }


def _edges(scene: Scene) -> dict[str, Json]:
    """Edges as the file has them."""
    graph = scene.graph
    return {
        "src": graph.edge_src,
        "dst": graph.edge_dst,
        "tensor": graph.edge_tensor,
        "back": np.flatnonzero(graph.edge_back),
    }


def _transfer_of_edges(scene: Scene) -> Json:
    """The transfer of each edge, -1 for none."""
    taken = scene.trace.transfers.row[::-1]
    first = np.full(len(scene.partitions.send) + 1, -1)  # row of the trace, for a loop's of its first iteration
    first[taken] = np.arange(len(taken))[::-1]
    return first[figures.pair_of_edges(scene)]


def _tree(scene: Scene, beside: Scene | None) -> Json:
    folding = fold(scene.graph)
    host = hosts(scene) if beside is None else hosts(scene, beside)
    folded = np.flatnonzero(host >= 0)
    return {
        "labels": list(folding.labels),
        "series": np.flatnonzero(folding.series),
        "parent": folding.parent,
        "hubs": np.flatnonzero(folding.hub),
        "order": item_order(scene.graph.topological, folding),
        "folded": folded,
        "host": host[folded],
    }


def _tables(scene: Scene) -> Json:
    return {
        "devices": [asdict(row) for row in figures.devices(scene)],
        "peaks": [_plain(asdict(row)) for row in figures.peaks(scene)],
        "full": None if scene.out_of_memory is None else str(scene.out_of_memory),
        "late": None if (late := figures.late(scene)) is None else _plain(asdict(late)),
        "categories": [[name, *row] for name, row in figures.time_by_category(scene).items()],
        "transfers": [row.transfer for row in figures.longest_transfers(scene)],
        "ops": figures.largest_ops(scene),
        "critical": [[share.what, share.nanos] for share in figures.critical_shares(scene)],
        "fallbacks": [[op, count] for op, count in figures.fallbacks(scene)],
        "unknown": [list(entry) for entry in unknown_shapes(scene.graph, scene.live).items()],
        "notes": list(figures.notes(scene)),
    }


def training_contents(trained: Trained, cluster: Cluster) -> Json:
    """Everything that the page shows of the training."""
    found = trained.answers
    return {
        "regime": training_figures.regime(trained),
        "words": trained.regime_in_words,
        "replication": trained.replication,
        "workers": trained.workers,
        "size": training_figures.size(trained),
        "filters": training_figures.filters(trained),
        "memory": [
            [cluster.devices[row].short, always, most, cluster.devices[row].memory_bytes]
            for row, always, most in training_figures.memory_rows(trained)[:MOST_LINKS]
        ],
        "full": training_figures.full(trained),
        "unsized": _unsized(trained.unsized),
        "steps_per_s": found.steps_per_s,
        "half_width": found.half_width,
        "sure": training_figures.sure(trained).removeprefix(",").strip().replace("+-", "±"),
        "between_upsets_per_s": found.between_upsets_per_s,
        "examples_per_s": found.examples_per_s,
        "warm_up": found.warm_up,
        "narrow": trained.narrow,
        "until_ci": trained.wanted.until_ci,
        "updates": found.updates,
        "dropped": found.dropped,
        "lost": trained.training.lost_updates,
        "gate_share": found.gate_share,
        "input_share": found.input_share,
        "inputs": training_figures.inputs(trained),
        "quantiles": [[q, nanos] for q, nanos in found.step_ns.items()],
        "step_times": _step_times(trained),
        "staleness_in_words": training_figures.staleness(found),
        "staleness": [[late, count] for late, count in found.staleness.items()],
        "kinds": list(zip(training_figures.KINDS, _KIND_COLOURS, strict=True)),
        "tasks": [[short_task(task), *found.shares[row].tolist()] for row, task in enumerate(trained.training.tasks)],
        "links": _links(trained),
        "bottleneck": _bottleneck(trained),
        "disturbances": [[one.text, _meaning(one)] for one in trained.wanted.disturbances],
        "scaling": [list(astuple(row)) for row in trained.scaling],
        "notes": [*training_figures.notes(trained), training_figures.late_sessions(trained), not_drawn(trained)],
        "steps": steps_contents(trained, cluster),
        "timeline": recorded_contents(trained, cluster),
    }


def _meaning(one: Disturbance) -> str:
    kind = one.text.partition("=")[2].partition(":")[0]
    return _KINDS.get(kind, "")


def _bottleneck(trained: Trained) -> Json:
    held = trained.bottleneck
    return {
        "sentence": training_figures.held(trained),
        "tried": [
            [one.relief.bottleneck, one.relief.change, one.before_per_s, one.steps_per_s, one.gain]
            for one in held.tried
        ],
    }


def _links(trained: Trained) -> Json:
    """The busiest links, and how many more carried something."""
    training, found = trained.training, trained.answers
    used = [row for row in range(len(training.links)) if found.usage.link_bytes[row]]
    order = sorted(used, key=lambda row: (-found.link_share[row], row))
    shown: list[Json] = [
        [training.links[row], float(found.link_share[row]), int(found.usage.link_bytes[row])]
        for row in order[:MOST_LINKS]
    ]
    return {"rows": shown, "more": max(0, len(order) - MOST_LINKS)}


def _step_times(trained: Trained) -> Json:
    """A histogram of the times of training steps after the warm-up: edges of bins of equal width, and counts."""
    training = trained.training
    times = (training.step_end_ns - training.step_start_ns)[training.steps_from(trained.answers.cut_ns)]
    if not len(times):
        return {"edges_ns": [], "counts": []}
    low, high = int(times.min()), int(times.max())
    edges = np.linspace(low, high, BINS + 1) if high - low >= BINS else np.array([low, high + 1])
    counts, _ = np.histogram(times, edges)
    return {"edges_ns": [round(edge) for edge in edges.tolist()], "counts": counts.tolist()}
