"""How a case of the partitioner is written: a graph, and every node of its pieces on a line of its own.

    CPU:1 a/_1 = _Recv(^b) edge_3_a at 0

Before it stands the device of its piece, after its inputs (control inputs last) its `tensor_name` and `_start_time`.

In one process a device is "CPU:1", in a cluster "worker:0/CPU:1". What a graph asks for is where its nodes are placed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from simulator.comparison.cut_nodes import CutNode
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import Step, choose_step
from tests.strategies import INT32, Rows, type_attr, typed

CPUS, GPUS, TASKS = "4cpu", "chief=1,worker=1x2gpu", "chief=1,ps=1,worker=1x2cpu"
LOCAL, MASTER, WORKERS = "a local session", "a master", "a master's workers"
STRING = 7


@dataclass(frozen=True)
class Case:
    """A graph, who cuts it, the step that is run (none: all nodes that nothing reads), and the pieces."""

    section: str  # of docs/tensorflow.md
    write: Callable[[Rows], object]
    pieces: frozenset[str]
    cluster: str = CPUS
    by: str = LOCAL
    fetches: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    log: tuple[str, ...] = ()  # lines "node: device" of the placer's log, where it says something else
    recv_scheduling: bool = False

    def graph(self) -> Graph:
        rows = Rows()
        self.write(rows)
        return rows.built()

    def step(self, graph: Graph) -> Step:
        read = {text.strip("^").split(":")[0] for row in range(len(graph)) for text in graph.inputs_of(row)}
        return choose_step(
            graph, feeds=self.feeds, fetches=self.fetches or [name for name in graph.names if name not in read]
        )


def keeping(cases: dict[str, Case]) -> Callable[..., Callable[..., object]]:
    """A decorator that keeps a case under the name of the function that writes its graph, or under another."""

    def case(section: str, pieces: str, name: str = "", **options: Any) -> Callable[..., object]:
        def keep(write: Callable[[Rows], object]) -> Callable[[Rows], object]:
            found = frozenset(line.strip() for line in pieces.strip().splitlines())
            assert (name or write.__name__) not in cases
            cases[name or write.__name__] = Case(section, write, found, **options)
            return write

        return keep

    return case


def lines(nodes: Iterable[CutNode]) -> list[str]:
    """Nodes as a case writes them."""
    found = []
    for node in nodes:
        inputs = ", ".join([*node.data, *(f"^{name}" for name in sorted(node.controls))])
        line = f"{short(node.device)} {node.name} = {node.op}({inputs}) {node.text('tensor_name')}".rstrip()
        if "_start_time" in node.attrs:
            line += f" at {AttrValue.FromString(node.attrs['_start_time']).i}"
        found.append(line)
    return found


def short(device: str) -> str:
    """ "worker:0/CPU:1" of a full name, "CPU:1" of one of a local session."""
    fields = dict(part.split(":", 1) for part in device.strip("/").split("/"))
    task = "" if fields["job"] == "localhost" else f"{fields['job']}:{fields['task']}/"
    return task + fields["device"]


# ---- what the graphs are made of -------------------------------------------------------------------------------------


def add(rows: Rows, on: str, name: str, op: str, *inputs: str, **attrs: Any) -> str:
    """A node on the device of that short name; "": it asks for none."""
    if on:
        task, _, own = on.rpartition("/")
        job, _, number = (task or "localhost:0").partition(":")
        on = f"/job:{job}/replica:0/task:{number}/device:{own}"
    return rows.add(name, op, inputs, device=on, **attrs)


def const(rows: Rows, on: str, name: str, *waits: str, size: int | None = 17) -> str:
    """Above 16 elements it is not copied to its readers; None: a scalar."""
    return add(rows, on, name, "Const", *waits, **typed("Const", () if size is None else (size,)))


def neg(rows: Rows, on: str, name: str, *inputs: str) -> str:
    return add(rows, on, name, "Neg", *inputs, T=type_attr())


def mul(rows: Rows, on: str, name: str, *inputs: str) -> str:
    return add(rows, on, name, "Mul", *inputs, T=type_attr())


def op(rows: Rows, on: str, name: str, *waits: str) -> str:
    return add(rows, on, name, "NoOp", *waits)


def shape(rows: Rows, on: str, name: str, given: str) -> str:
    return add(rows, on, name, "Shape", given, T=type_attr(), out_type=type_attr(INT32))


def reshape(rows: Rows, on: str, name: str, given: str, to: str) -> str:
    return add(rows, on, name, "Reshape", given, to, T=type_attr(), Tshape=type_attr(INT32))


def cast(rows: Rows, on: str, name: str, given: str) -> str:
    return add(rows, on, name, "Cast", given, SrcT=type_attr(INT32), DstT=type_attr())


def switch(rows: Rows, on: str, name: str, given: str, test: str) -> str:
    return add(rows, on, name, "Switch", given, test, T=type_attr())


def enter(rows: Rows, on: str, name: str, given: str, frame: str, *, constant: bool = False) -> str:
    attrs = {"frame_name": AttrValue(s=frame.encode()), "is_constant": AttrValue(b=constant)}
    return add(rows, on, name, "Enter", given, T=type_attr(), parallel_iterations=AttrValue(i=7), **attrs)


def merge(rows: Rows, on: str, name: str, *inputs: str) -> str:
    return add(rows, on, name, "Merge", *inputs, T=type_attr(), N=AttrValue(i=2))


def test(rows: Rows, on: str, name: str, given: str) -> str:
    """Whether to go on: LoopCond `name` of a node `less`."""
    less = add(rows, on, f"{name}_test", "IsFinite", given, T=type_attr())
    return add(rows, on, name, "LoopCond", less)


def back(rows: Rows, on: str, name: str, given: str) -> str:
    return add(rows, on, name, "NextIteration", given, T=type_attr())


def leave(rows: Rows, on: str, name: str, given: str) -> str:
    return add(rows, on, name, "Exit", given, T=type_attr())
