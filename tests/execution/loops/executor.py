"""A second implementation: TensorFlow's executor token by token (propagator_state.cc), without time.

Pending counts per node and iteration, frames made when an Enter comes, iterations begun when a NextIteration does, dead
Exits handed out when their frame is finished. A tag is the loops around a node, each with its iteration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.graph.graph import Graph

Tag = tuple[tuple[str, int], ...]


@dataclass
class Frame:
    """One entry into a loop, found by the tag of its first iteration."""

    width: int = 1  # iterations begun
    constants: list[tuple[int, bool]] = field(default_factory=list)  # Enter, dead
    dead_exits: list[int] = field(default_factory=list)  # of the last iteration


class Executor:
    """Runs a whole graph; `ran` says which nodes ran in which iterations, and whether they were live.

    `goes` tells which output a Switch's value takes.
    """

    def __init__(self, graph: Graph, goes: Callable[[int, Tag], int]) -> None:
        self.graph, self.goes = graph, goes
        self.ran: dict[tuple[int, Tag], bool] = {}
        self.frames: dict[Tag, Frame] = {}
        self.came: dict[tuple[int, Tag], dict[int, tuple[bool, bool]]] = defaultdict(
            dict
        )  # edge -> dead, from an Enter
        self.queue: list[tuple[int, Tag]] = []
        for node in range(len(graph)):
            if graph.in_ptr[node] == graph.in_ptr[node + 1]:
                self.start(node, (), dead=False)
        while self.queue or self.finish():
            node, tag = self.queue.pop()
            self.propagate(node, tag, not self.ran[node, tag])

    def start(self, node: int, tag: Tag, *, dead: bool) -> None:
        self.ran[node, tag] = not dead
        self.queue.append((node, tag))

    def finish(self) -> bool:
        """Nothing is under way, so that frames are finished: the innermost first."""
        for tag in sorted(self.frames, key=len, reverse=True):
            exits, self.frames[tag].dead_exits = self.frames[tag].dead_exits, []
            for node in exits:
                self.deliver(node, tag[:-1], dead=True)
            if exits:
                return True
        return False

    def propagate(self, node: int, tag: Tag, dead: bool) -> None:
        op, attrs = self.graph.ops[node], self.graph.attrs[node]
        if op == "Enter":
            first = (*tag, (attrs["frame_name"].s.decode(), 0))
            frame = self.frames.setdefault(first, Frame())
            if "is_constant" in attrs and attrs["is_constant"].b:
                frame.constants.append((node, dead))
                for iteration in range(frame.width):
                    self.deliver(node, at(first, iteration), dead=dead)
            else:
                self.deliver(node, first, dead=dead)
        elif op == "Exit":
            if not dead:
                self.deliver(node, tag[:-1], dead=False)
            elif self.frames[at(tag, 0)].width == tag[-1][1] + 1:
                self.frames[at(tag, 0)].dead_exits.append(node)
        elif op == "NextIteration":
            if not dead:
                self.go_on(self.frames[at(tag, 0)], tag)
                self.deliver(node, at(tag, tag[-1][1] + 1), dead=False)
        else:
            self.deliver(node, tag, dead=dead)

    def go_on(self, frame: Frame, tag: Tag) -> None:
        following = tag[-1][1] + 1
        if following == frame.width:
            frame.width += 1
            frame.dead_exits.clear()
            for enter, dead in frame.constants:
                self.deliver(enter, at(tag, following), dead=dead)

    def deliver(self, node: int, tag: Tag, *, dead: bool) -> None:
        graph = self.graph
        for edge in graph.out_edge[graph.out_ptr[node] : graph.out_ptr[node + 1]].tolist():
            tensor, gone = int(graph.edge_tensor[edge]), dead
            if graph.ops[node] == "Switch" and tensor >= 0 and not dead:
                gone = self.goes(node, tag) != graph.tensor_port[tensor]
            self.arrive(int(graph.edge_dst[edge]), edge, tag, gone, graph.ops[node] == "Enter")

    def arrive(self, node: int, edge: int, tag: Tag, dead: bool, enter: bool) -> None:
        graph, came = self.graph, self.came[node, tag]
        came[edge] = dead, enter
        edges = range(graph.in_ptr[node], graph.in_ptr[node + 1])
        if (node, tag) in self.ran:
            return
        if graph.ops[node] != "Merge":
            if len(came) == len(edges):
                gone = graph.ops[node] != "ControlTrigger" and any(gone for gone, _ in came.values())
                self.start(node, tag, dead=gone)
            return
        if any(edge not in came for edge in edges if graph.edge_tensor[edge] < 0):
            return
        values = [came.get(edge) for edge in edges if graph.edge_tensor[edge] >= 0]
        live = any(value is not None and not value[0] for value in values)
        if live or None not in values or any(value == (True, True) for value in values):
            self.start(node, tag, dead=not live)


def at(tag: Tag, iteration: int) -> Tag:
    """The same loops in another iteration of the innermost."""
    return (*tag[:-1], (tag[-1][0], iteration))
