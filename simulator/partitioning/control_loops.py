"""Loops across devices: what keeps the pieces of a loop in step.

A device that takes part in a loop without owning it gets a small loop of its own, driven by the predicate; whatever it
receives in each iteration waits for that loop's Merge (`tensorflow/core/graph/graph_partition.cc`):

    Const -> Enter -> Merge -> Switch -> NextIteration -> (Merge)
                        |        ^
                        v     LoopCond
                      Recv
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.graph.dtypes import INT32
from simulator.graph.messages import AttrValue
from simulator.graph.op_classes import ENTERS
from simulator.partitioning.draft import (
    CONTROL,
    EMPTY,
    LAST,
    Added,
    Column,
    Wires,
    empty_attrs,
    float_attrs,
    name_and_origin,
    wires,
)
from simulator.partitioning.frames import Frame, find_frames, seen_from_outside

if TYPE_CHECKING:
    from simulator.graph.graph import Attrs, Graph

_Row = tuple[int, int, int, int]  # src, port, dst, slot


def close_loops(
    graph: Graph, whole: Wires, given: Wires, device: Column, added: Added, client: int, next_id: int, suffix: str
) -> tuple[Wires, int, str | None]:
    """Give every device that takes part in a loop from afar a loop of its own, nested as the loop is.

    Returns the wires with those of the new loops, how many of the new names are numbered, and what TensorFlow says
    where it refuses to cut: a node reads from inside and from outside a loop (as one does whose loop was fed from
    outside), or a loop has no predicate; here that is cut without control loops. Loops are made in order of the edge
    that needs them first; `next_id` is the first free edge id. `whole` are the wires before constants
    were copied, of the graph's nodes and the first `client` ones of those added: a copy is in the loop of its original.
    """
    frames, frame = find_frames(graph, whole, len(graph) + client)
    if len(frames) == 1:
        return given, 0, None
    frame = np.concatenate([frame, frame[np.array(added.origin[client:], np.int64)]])
    inside, mixed = _frame_of_wire(graph, given, frames, frame)
    far = np.flatnonzero((inside > 0) & (device[given.src] != device[given.dst]))
    far = far[np.argsort(given.id[far], kind="stable")]
    before = len(added)
    rows: list[_Row] = []  # edges of the loops, in order of id
    merges: dict[tuple[int, int], int] = {}
    remote: list[tuple[int, int]] = []  # (loop, destination) of each wire from afar
    refused = "has inputs from different frames" if mixed else None
    for loop, dst in zip(inside[far].tolist(), given.dst[far].tolist(), strict=True):
        lacking = _without_predicate(frames, loop)
        if lacking is None:
            remote.append((loop, dst))
            _ensure(graph, frames, added, loop, dst, int(device[dst]), merges, rows, before, suffix)
        else:
            refused = refused or f"A cross-device loop must have a pivot predicate: {lacking.name}"
    where = [*device.tolist(), *added.device[before:]]
    remote += [(int(frame[src]), dst) for src, _, dst, _ in rows if src < len(graph) and where[src] != where[dst]]
    rows += [(merges[loop, where[dst]], CONTROL, dst, LAST) for loop, dst in remote]
    made = wires((*row, next_id + at) for at, row in enumerate(rows))
    ops = dict(enumerate(added.ops, len(graph)))
    back = [ops.get(src) == "NextIteration" for src, _, _, _ in rows]
    made = replace(made, back=np.array(back, bool), loop=np.arange(len(rows)) >= len(rows) - len(remote))
    return given.join(made), len(added) - before, refused


def _frame_of_wire(graph: Graph, given: Wires, frames: list[Frame], frame: Column) -> tuple[Column, bool]:
    """The loop inside which each wire runs, 0 outside loops; and whether a wire enters or leaves a loop by itself.

    Only an Enter and an Exit may (`tensorflow/core/graph/control_flow.cc`); such a wire counts as outside.
    """
    found = frame[given.src]
    other = frame[given.dst]
    for wire in np.flatnonzero(found + other > 0).tolist():
        src, dst = int(given.src[wire]), int(given.dst[wire])
        found[wire] = seen_from_outside(graph, frames, src, int(found[wire]))
        if dst < len(graph) and graph.ops[dst] in ENTERS:
            other[wire] = frames[int(other[wire])].parent
    alike = found == other
    return np.where(alike, found, 0), not bool(alike.all())


def _without_predicate(frames: list[Frame], loop: int) -> Frame | None:
    """The innermost of a loop and those around it that has no LoopCond."""
    while loop:
        if frames[loop].pivot < 0:
            return frames[loop]
        loop = frames[loop].parent
    return None


def _ensure(
    graph: Graph,
    frames: list[Frame],
    added: Added,
    loop: int,
    dst: int,
    device: int,
    merges: dict[tuple[int, int], int],
    rows: list[_Row],
    first: int,
    suffix: str,
) -> None:
    """Make the control loops that a device lacks, from the innermost outwards."""
    enter = -1
    while loop and (loop, device) not in merges:
        inner = enter
        enter, merge = _control_loop(graph, frames[loop], added, dst, device, rows, first, suffix)
        merges[loop, device] = merge
        if inner >= 0:
            rows.append((merge, 0, inner, 0))
        loop = frames[loop].parent
    if enter < 0:
        return
    if loop:
        rows.append((merges[loop, device], 0, enter, 0))
    else:
        name, origin = name_and_origin(graph, added, dst)
        const = added.node(f"{name}{suffix}{len(added) - first}", "Const", empty_attrs(), origin, device, (EMPTY,))
        rows.append((len(graph) + const, 0, enter, 0))


def _control_loop(
    graph: Graph, frame: Frame, added: Added, dst: int, device: int, rows: list[_Row], first: int, suffix: str
) -> tuple[int, int]:
    """Add one loop; its Enter and its Merge."""
    name, origin = name_and_origin(graph, added, dst)
    nodes = []
    for op, attrs, outputs in (
        ("Enter", {**float_attrs(), **_enter_attrs(frame)}, (EMPTY,)),
        ("Merge", {**float_attrs(), "N": AttrValue(i=2)}, (EMPTY, (INT32, (), 4))),
        ("Switch", float_attrs(), (EMPTY, EMPTY)),
        ("NextIteration", float_attrs(), (EMPTY,)),
    ):
        number = len(added) - first
        nodes.append(len(graph) + added.node(f"_cloop{name}{suffix}{number}", op, attrs, origin, device, outputs))
    enter, merge, switch, following = nodes
    rows += [
        (merge, 0, switch, 0),
        (frame.pivot, 0, switch, 1),
        (switch, 1, following, 0),
        (enter, 0, merge, 0),
        (following, 0, merge, 1),
    ]
    return enter, merge


def _enter_attrs(frame: Frame) -> Attrs:
    return {
        "frame_name": AttrValue(s=frame.name.encode()),
        "is_constant": AttrValue(b=False),
        "parallel_iterations": AttrValue(i=frame.parallel),
    }
