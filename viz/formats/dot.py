"""The folded graph in DOT, for papers: boxes coloured by device, in clusters per task and device, with moved bytes.

Scopes are opened from the outside in, those with most device time first, as long as the picture stays readable.
`render` hands the text to Graphviz.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from shutil import which

import numpy as np

from simulator.errors import SimvizError
from simulator.units import show_bytes, show_nanos
from simulator.wording import cut_off, ending
from viz.figures import bytes_by_pair, devices_of_nodes, pair_of_edges, slice_nodes, taking_part
from viz.page.folding import Folding, fold
from viz.palette import device_colour, mixed
from viz.scene import Scene

MAX_NODES = 30  # boxes on a page of a paper
MAX_EDGES = 400  # between boxes; Graphviz takes seconds for as many and minutes for thousands
MAX_LABEL = 40
MM_PER_INCH = 25.4
FORMATS = ("svg", "png", "pdf")
_MISSING = (
    ".svg, .png and .pdf need Graphviz's program `dot`, which is not on the PATH. Install it (Debian: apt-get install "
    "graphviz), or write .dot or .html instead"
)
_MADE = re.compile(rb"(?<=/CreationDate \(D:)[0-9]{14}")  # the same graph is the same bytes at any time
_TAG = re.compile(rb"<[^>]*>")
_ID = re.compile(rb'(?<=\s)(?:xlink:href="#|id=")|="url\(#')  # where an id is given or named
_DIGEST = 10  # hexadecimal digits: two of a thousand pictures share them once in a million times


def draw_graph(
    scene: Scene, *, max_nodes: int = MAX_NODES, max_depth: int | None = None, width_mm: float | None = None
) -> str:
    """DOT text of the part of the graph that runs, folded to at most about max_nodes boxes.

    A box on one device stands in that device's cluster; one on several shows them as stripes, by their share of time.
    Edges within a device are thin. An edge between devices has its bytes, and the number of its transfers if several.
    Scopes are opened `max_depth` deep at most. A picture that would be wider than `width_mm` is made smaller.
    """
    folding = fold(scene.graph)
    times = _device_times(scene, folding)
    shown = _shown(folding, times, max_nodes, max_depth)
    box_of = _box_of_nodes(folding, shown)
    lines = [
        "digraph simviz {",
        f"  label={quoted(scene.title)}; labelloc=t; fontsize=16;",
        *([] if width_mm is None else [f'  size="{width_mm / MM_PER_INCH:.3f},100";']),
        '  rankdir=LR; compound=true; newrank=true; ranksep=0.5; nodesep=0.18; fontname="Helvetica";',
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10, penwidth=0.8,',
        '    margin="0.1,0.05"];',
        '  edge [fontname="Helvetica", fontsize=8, color="#9aa3ad", arrowsize=0.5, penwidth=0.7];',
        *_clustered(scene, folding, shown, times),
        *_edges(scene, box_of),
        "}",
    ]
    return "\n".join(lines) + "\n"


def check_program() -> None:
    """Raise SimvizError if Graphviz's `dot` is missing."""
    if which("dot") is None:
        raise SimvizError(_MISSING)


def render(source: str, format: str, *, placed: bool = False, shapes: bool = False) -> bytes:
    """The picture that Graphviz makes of DOT text, as "svg", "png" or "pdf"; `placed`: all places are in the text.

    With `shapes` an SVG holds the shapes of its letters, as cairo draws them; a PDF and a PNG always do.
    Raises SimvizError if the format is none of these, or Graphviz's `dot` is missing or fails.
    """
    import graphviz

    if format not in FORMATS:
        raise SimvizError(f"graphviz format {format!r} is not offered; use one of {', '.join(FORMATS)}")
    try:
        # not Source.pipe, which hands `dot` line after line and, interrupted meanwhile, leaves it behind
        engine, as_placed = ("neato", 2) if placed else ("dot", None)
        renderer = "cairo" if shapes and format == "svg" else None
        with _in_utc():
            drawn: bytes = graphviz.pipe(engine, format, source.encode(), renderer=renderer, neato_no_op=as_placed)
    except graphviz.ExecutableNotFound:
        raise SimvizError(_MISSING) from None
    except graphviz.CalledProcessError as error:
        said = (error.stderr or b"").decode("utf-8", "replace").strip().splitlines()
        raise SimvizError(
            f"Graphviz's `dot` failed: {said[0] if said else error}; write .dot or .html instead"
        ) from None
    if format == "svg":
        return _with_own_ids(drawn)
    return _MADE.sub(b"20000101000000", drawn) if format == "pdf" else drawn


def _with_own_ids(svg: bytes) -> bytes:
    """The SVG with a digest of it before each id, so that several pictures can stand in one page."""
    own = b"f" + hashlib.sha256(svg).hexdigest()[:_DIGEST].encode() + b"-"
    return _TAG.sub(lambda tag: _ID.sub(rb"\g<0>" + own, tag[0]), svg)


@contextmanager
def _in_utc() -> Iterator[None]:
    """Let Graphviz write the date of a PDF in UTC, so that it is equally long anywhere: the file has offsets behind."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before


def quoted(text: str) -> str:
    """A DOT string that shows exactly this text, whatever it holds."""
    kept = "".join(c if c.isprintable() else "\\n" if c == "\n" else "�" for c in text.replace("\\", "\\\\"))
    return '"' + kept.replace('"', '\\"') + '"'


def _device_times(scene: Scene, folding: Folding) -> list[Counter[int]]:
    """[I] device -> time that ops of an item ran on it; empty where nothing of it runs."""
    scopes, trace = folding.scopes, scene.trace
    times: list[Counter[int]] = [Counter() for _ in range(len(folding.parent))]
    device = devices_of_nodes(scene).tolist()
    for row in np.flatnonzero(taking_part(scene)).tolist():
        times[scopes + row][device[row]] += 0
    took = (trace.ops.end_ns - trace.ops.start_ns).tolist()
    for node, at, nanos in zip(slice_nodes(scene).tolist(), trace.ops.device.tolist(), took, strict=True):
        times[scopes + node][at] += nanos
    parent = folding.parent.tolist()
    for item in [*range(scopes, len(parent)), *range(scopes - 1, 0, -1)]:  # children before parents
        above = times[parent[item]]
        for at, nanos in times[item].items():
            above[at] += nanos
    return times


def _shown(folding: Folding, times: list[Counter[int]], most: int, deepest: int | None) -> list[int]:
    """The items to draw: scopes are opened while there is room, those on several devices and with most time first."""
    children = folding.children()
    running = [[child for child in inside if times[child]] for inside in children]
    shown = set(running[0])
    queue: list[tuple[bool, int, int, int]] = []
    for item in running[0]:
        heappush(queue, (len(times[item]) < 2, -sum(times[item].values()), item, 0))
    while queue:
        _, _, item, depth = heappop(queue)
        if item >= folding.scopes or depth == deepest or len(shown) - 1 + len(running[item]) > most:
            continue
        shown.remove(item)
        for child in running[item]:
            shown.add(child)
            heappush(queue, (len(times[child]) < 2, -sum(times[child].values()), child, depth + 1))
    return sorted(shown)


def _box_of_nodes(folding: Folding, shown: list[int]) -> list[int]:
    """[N] the shown item that a node is or lies in; -1 for none."""
    box, parent = [-1] * len(folding.parent), folding.parent.tolist()
    for item in shown:
        box[item] = item
    for item in range(1, len(parent)):  # scopes come before what they hold
        if box[item] < 0 and parent[item] >= 0:
            box[item] = box[parent[item]]
    return box[folding.scopes :]


def _clustered(scene: Scene, folding: Folding, shown: list[int], times: list[Counter[int]]) -> list[str]:
    """The boxes: in a cluster per device, within one per task where there are several; mixed ones outside."""
    on_device: dict[int, list[int]] = defaultdict(list)
    mixed_boxes = []
    for item in shown:
        if len(times[item]) == 1:
            on_device[next(iter(times[item]))].append(item)
        else:
            mixed_boxes.append(item)
    lines = [_box(scene, folding, item, times[item], "  ") for item in mixed_boxes]
    tasks = scene.cluster.tasks
    for number, task in enumerate(tasks):
        mine = [row for row in on_device if scene.cluster.devices[row].task == task]
        if not mine:
            continue
        if len(tasks) > 1:
            lines.append(
                f'  subgraph cluster_task{number} {{ label={quoted(task)}; color="#c4cad2"; fontcolor="#5b6673";'
            )
        for row in sorted(mine):
            short, colour = scene.cluster.devices[row].short, device_colour(row)
            lines.append(
                f"    subgraph cluster_device{row} {{ label={quoted(short)}; style=rounded; color={quoted(colour)};"
            )
            lines += [_box(scene, folding, item, times[item], "      ") for item in on_device[row]]
            lines.append("    }")
        if len(tasks) > 1:
            lines.append("  }")
    return lines


def _box(scene: Scene, folding: Folding, item: int, times: Counter[int], indent: str) -> str:
    name = ending(_name(scene, folding, item), MAX_LABEL)
    if item < folding.scopes:
        label = f"{name}\n{show_nanos(sum(times.values()))}"
    else:
        op = scene.graph.ops[item - folding.scopes]
        label = name if name.rpartition("/")[2] == op else f"{name}\n{cut_off(op, MAX_LABEL)}"
    look = f"label={quoted(label)}, fillcolor={quoted(_fill(times))}"
    if item < folding.scopes:
        look += ", penwidth=1.4"
    if len(times) > 1:
        look += ', style="striped"'
    return f"{indent}i{item} [{look}];"


def _name(scene: Scene, folding: Folding, item: int) -> str:
    """Its last two parts: no box stands for an opened scope, so its name tells one "weights" or tower from another."""
    if item >= folding.scopes:
        return "/".join(scene.graph.names[item - folding.scopes].split("/")[-2:])
    above = int(folding.parent[item])
    while folding.series[above]:  # a series is no scope of the file
        above = int(folding.parent[above])
    return "/".join(f"{folding.labels[above]}/{folding.labels[item]}".lstrip("/").split("/")[-2:])


def _fill(times: Counter[int]) -> str:
    """A pale shade of the device, or a stripe of each, wide as its share of the time."""
    shades = {device: mixed(device_colour(device), "#ffffff", 0.55) for device in sorted(times)}
    if len(shades) < 2:
        return next(iter(shades.values()), "#ffffff")
    whole = sum(times.values())
    # Graphviz refuses shares that add up to more than 1, so the last one takes what is left.
    stripes = [
        f"{shade};{max(0.02, times[device] / whole if whole else 1 / len(times)) / (1 + 0.02 * len(times)):.4f}"
        for device, shade in shades.items()
    ]
    stripes[-1] = stripes[-1].partition(";")[0]
    return ":".join(stripes)


def _edges(scene: Scene, box_of: list[int]) -> list[str]:
    """One line per pair of boxes that an edge joins; a transfer has the colour of its source, and its bytes.

    At most MAX_EDGES pairs are drawn, those with most bytes, then most edges. A line counts the others.
    """
    carried, count, data = _bundles(scene, box_of)
    nbytes = bytes_by_pair(scene)
    moved = {pair: int(np.maximum(nbytes[sorted(rows)], 0).sum()) for pair, rows in carried.items()}
    order = sorted(count, key=lambda pair: (pair not in carried, -moved.get(pair, 0), -count[pair], pair))
    lines = [_edge(scene, pair, carried.get(pair, set()), moved.get(pair, 0), pair in data) for pair in order]
    if len(lines) > MAX_EDGES:
        left = len(lines) - MAX_EDGES
        lines[MAX_EDGES:] = [f'  left_out [shape=plaintext, style="", label="{left} edges with least bytes left out"];']
    return lines


def _bundles(
    scene: Scene, box_of: list[int]
) -> tuple[dict[tuple[int, int], set[int]], Counter[tuple[int, int]], set[tuple[int, int]]]:
    """Per pair of boxes: the transfers between them, the number of edges, and whether one of them carries data."""
    graph = scene.graph
    carried: dict[tuple[int, int], set[int]] = defaultdict(set)
    count: Counter[tuple[int, int]] = Counter()
    data = set()
    columns = (graph.edge_src, graph.edge_dst, graph.edge_tensor, pair_of_edges(scene), graph.edge_back)
    for src, dst, tensor, transfer, back in zip(*(column.tolist() for column in columns), strict=True):
        pair = (box_of[src], box_of[dst])
        if min(pair) < 0 or pair[0] == pair[1] or back:
            continue
        count[pair] += 1
        if tensor >= 0:
            data.add(pair)
        if transfer >= 0:
            carried[pair].add(transfer)
    return carried, count, data


def _edge(scene: Scene, pair: tuple[int, int], transfers: set[int], nbytes: int, has_data: bool) -> str:
    look = [] if has_data else ["style=dashed"]
    if transfers:
        cut, rows = scene.partitions, sorted(transfers)
        size = show_bytes(nbytes) if (cut.tensor[rows] >= 0).any() else "control"
        said = f"{'≥ ' if (cut.nbytes[rows] < 0).any() else ''}{size}{f' · {len(rows)}' if len(rows) > 1 else ''}"
        colour = device_colour(int(scene.partitions.ends[0][min(transfers)]))
        look += [f"label={quoted(said)}", f"color={quoted(colour)}", "penwidth=1.6"]
    return f"  i{pair[0]} -> i{pair[1]}{' [' + ', '.join(look) + ']' if look else ''};"
