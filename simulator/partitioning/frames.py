"""The loops of a graph: which frame each node executes in (`tensorflow/core/graph/control_flow.cc`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.graph.op_classes import ENTERS, EXITS
from simulator.partitioning.draft import Column, Wires

if TYPE_CHECKING:
    from simulator.graph.graph import Attrs, Graph


@dataclass(frozen=True, slots=True)
class Frame:
    """A loop, named by the `frame_name` of its Enters."""

    name: str
    parent: int  # row of the list of frames; the root, 0, is its own
    parallel: int  # iterations in flight
    pivot: int = -1  # its LoopCond


def find_frames(graph: Graph, given: Wires, count: int) -> tuple[list[Frame], Column]:
    """The loops of the step, the root first, and the innermost one of each node; an Exit counts as inside.

    `count` is the number of nodes, those of the client included.
    """
    frames = [Frame("", 0, 1)]
    of = np.zeros(count, np.int64)
    if not any(op in ENTERS for op in graph.ops):
        return frames, of
    row_of: dict[str, int] = {}
    frame = of.tolist()
    inputs: list[list[int]] = [[] for _ in range(count)]
    forward = np.flatnonzero(~given.back)
    for src, dst in zip(given.src[forward].tolist(), given.dst[forward].tolist(), strict=True):
        inputs[dst].append(src)
    for node in [*graph.topological.tolist(), *range(len(graph), count)]:
        inside = max((seen_from_outside(graph, frames, one, frame[one]) for one in inputs[node]), default=0)
        # an Enter that does not run says nothing of where its loop lies
        if node < len(graph) and graph.ops[node] in ENTERS and inputs[node]:
            name, parallel = _frame_of(graph.attrs[node])
            if name not in row_of:
                row_of[name] = len(frames)
                frames.append(Frame(name, inside, parallel))
            inside = row_of[name]
        frame[node] = inside
        if node < len(graph) and graph.ops[node] == "LoopCond" and inside:
            frames[inside] = replace(frames[inside], pivot=node)
    return frames, np.array(frame, np.int64)


def seen_from_outside(graph: Graph, frames: list[Frame], node: int, frame: int) -> int:
    """The frame of what a node puts out: an Exit's output is in the frame around its loop."""
    return frames[frame].parent if node < len(graph) and graph.ops[node] in EXITS else frame


def _frame_of(attrs: Attrs) -> tuple[str, int]:
    name, parallel = attrs.get("frame_name"), attrs.get("parallel_iterations")
    return name.s.decode("utf-8", "replace") if name else "", int(parallel.i) if parallel else 10
