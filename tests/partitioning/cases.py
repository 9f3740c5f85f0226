"""Random placed graphs with all that the cut knows: references, host memory, small constants, branches, loops.

TensorFlow accepts every one of them: shapes fit, what a reference ties together is on one device, and no node has so
many edges that TensorFlow itself takes them in an order of chance (more than eight).
"""

from __future__ import annotations

from random import Random
from typing import Any

from simulator.graph.dtypes import FLOAT
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from tests.strategies import INT32, Rows, type_attr, typed

MOST_READERS = 5
STRING = 7


class Maker:
    """Appends random nodes to rows; `device` is a row of devices per node."""

    def __init__(self, random: Random, devices: int, prefix: str = "") -> None:
        self.random, self.devices, self.prefix = random, devices, prefix
        self.rows = Rows()
        self.device: list[int] = []
        self.floats: list[str] = []
        self.readers: dict[str, int] = {}

    def add(self, op: str, inputs: list[str], *, on: int | None = None, name: str = "", **attrs: Any) -> str:
        """A node on a random device, or on the given one."""
        made = f"{self.prefix}{name or f'{op}_{len(self.rows.names)}'}"
        self.device.append(self.random.randrange(self.devices) if on is None else on)
        for one in inputs:
            self.readers[one.strip("^").split(":")[0]] = self.readers.get(one.strip("^").split(":")[0], 0) + 1
        return self.rows.add(made, op, inputs, **attrs)

    def reads(self, *names: str) -> list[str]:
        """The names and perhaps a control input."""
        free = [name for name in self.rows.names if self.readers.get(name, 0) < MOST_READERS and "while" not in name]
        extra = [f"^{self.random.choice(free)}"] if free and self.random.random() < 0.25 else []
        return [*names, *extra]

    def float(self) -> str:
        """A float output with a reader to spare."""
        free = [one for one in self.floats if self.readers.get(one.split(":")[0], 0) < MOST_READERS]
        return self.random.choice(free) if free else self.const()

    def const(self, size: int | None = None) -> str:
        made = self.add("Const", self.reads(), **typed("Const", () if size is None else (size,)))
        self.floats.append(made)
        return made

    def step(self) -> None:
        """One node, or one of the larger patterns."""
        plain = ["const", "large", "one", "two", "two", "square"]
        special = ["variable", "resource", "shape", "integers", "branch", "no_op", "text"]
        getattr(self, f"_{self.random.choice([*plain, *special])}")()

    def _const(self) -> None:
        self.const()

    def _large(self) -> None:
        self.const(20)

    def _one(self) -> None:
        op = self.random.choice(["Neg", "Identity", "Relu"])
        self.floats.append(self.add(op, self.reads(self.float()), T=type_attr()))

    def _two(self) -> None:
        op = self.random.choice(["AddV2", "Mul"])
        self.floats.append(self.add(op, self.reads(self.float(), self.float()), T=type_attr()))

    def _square(self) -> None:
        given = self.float()
        self.floats.append(self.add("Mul", self.reads(given, given), T=type_attr()))

    def _variable(self) -> None:
        """A reference: its Assign stays with it, its readers may be anywhere, twice in one node."""
        variable = self.add("VariableV2", [], **typed("VariableV2", ()))
        on, value = self.device[-1], self.add("Const", [], **typed("Const", ()))
        self.add("Assign", [variable, value], on=on, T=type_attr())
        self.floats.append(self.add("Mul", self.reads(variable, variable), T=type_attr()))
        self.floats.append(self.add("Identity", self.reads(variable), T=type_attr()))
        if self.random.random() < 0.5:  # what the reader's own inputs are is waited for as often as it reads them
            other = self.float()
            given = self.reads(variable, other, other)
            self.floats.append(self.add("IdentityN", given, T=AttrValue(list={"type": [FLOAT] * 3})))

    def _resource(self) -> None:
        """A handle, which stays with all that use it, and a read that goes anywhere."""
        handle = self.add("VarHandleOp", [], dtype=type_attr(), shape=AttrValue(shape={"unknown_rank": True}))
        on = self.device[-1]
        stored = self.add("AssignVariableOp", [handle, self.float()], on=on, dtype=type_attr())
        read = self.add("ReadVariableOp", [handle, f"^{stored}"], on=on, dtype=type_attr())
        self.floats.append(self.add("Identity", self.reads(read), T=type_attr()))

    def _integers(self) -> None:
        """Integers that some kernels of a GPU keep in host memory and others do not."""
        given = self.add("Cast", self.reads(self.float()), SrcT=type_attr(), DstT=type_attr(INT32))
        total = self.add("AddV2", self.reads(given, given), T=type_attr(INT32))
        kept = self.add("Identity", self.reads(total), T=type_attr(INT32))
        self.floats.append(self.add("Cast", self.reads(kept), SrcT=type_attr(INT32), DstT=type_attr()))
        self.add("AddV2", self.reads(given, kept), T=type_attr(INT32))

    def _shape(self) -> None:
        """A small integer in host memory that several ops read, some of them in device memory."""
        given = self.float()
        shape = self.add("Shape", self.reads(given), T=type_attr(), out_type=type_attr(INT32))
        self.floats.append(self.add("Reshape", self.reads(given, shape), T=type_attr(), Tshape=type_attr(INT32)))
        self.add("Neg", self.reads(shape), T=type_attr(INT32))

    def _branch(self) -> None:
        first, other = self.const(), self.float()
        test = self.add("IsFinite", self.reads(first), T=type_attr())
        switch = self.add("Switch", self.reads(other, test), T=type_attr())
        sides = [self.add("Neg", [f"{switch}:{port}"], T=type_attr()) for port in (0, 1)]
        self.floats.append(self.add("Merge", sides, T=type_attr(), N=AttrValue(i=2)))

    def _no_op(self) -> None:
        self.add("NoOp", [f"^{self.float().split(':')[0]}", *self.reads()])

    def _text(self) -> None:
        text = self.add("AsString", self.reads(self.float()), T=type_attr())
        self.add("Identity", self.reads(text), T=type_attr(STRING))

    def loop(self, start: str, depth: int = 1) -> str:
        """A counting loop whose nodes are anywhere, perhaps with another one inside; returns its Exit."""
        at = f"while{len(self.rows.names)}"
        parallel = (1, 2, 7)[len(self.rows.names) % 3]
        frame = {"frame_name": AttrValue(s=f"{self.prefix}{at}".encode()), "parallel_iterations": AttrValue(i=parallel)}
        kind = {"T": type_attr()}
        enter = self.add("Enter", [start], name=f"{at}/Enter", is_constant=AttrValue(b=False), **frame, **kind)
        outside = self.add("Const", [f"^{start}"], name=f"{at}/outside", **typed("Const", ()))
        fixed = self.add("Enter", [outside], name=f"{at}/fixed", is_constant=AttrValue(b=True), **frame, **kind)
        back = f"{self.prefix}{at}/NextIteration"
        merge = self.add("Merge", [enter, back], name=f"{at}/Merge", N=AttrValue(i=2), **kind)
        limit = self.add("Const", [f"^{merge}"], name=f"{at}/limit", **typed("Const", ()))
        less = self.add("Less", [merge, limit], name=f"{at}/Less", **kind)
        test = self.add("LoopCond", [less], name=f"{at}/LoopCond")
        switch = self.add("Switch", [merge, test], name=f"{at}/Switch", **kind)
        body = self.add("Identity", [f"{switch}:1"], name=f"{at}/Identity", **kind)
        for _ in range(self.random.randrange(1, 4)):
            one = self.add("Const", [f"^{body}"], name=f"{at}/one{len(self.rows.names)}", **typed("Const", ()))
            if self.random.random() < 0.3:  # a node that nothing but a constant puts into the loop
                one = self.add("Neg", [one], name=f"{at}/Neg{len(self.rows.names)}", **kind)
            other = self.random.choice([one, one, fixed, body])
            body = self.add("Mul", [body, other], name=f"{at}/Mul{len(self.rows.names)}", **kind)
        if depth > 1:
            body = self.loop(body, depth - 1)
        self.add("NextIteration", [body], name=f"{at}/NextIteration", **kind)
        return self.add("Exit", [switch], name=f"{at}/Exit", **kind)


def without_predicate() -> Rows:
    """A loop that nothing ever stops: it has no Switch."""
    rows = Rows()
    rows.add("x", "Const", [], **typed("Const", (17,)))
    rows.add("e", "Enter", ["x"], T=type_attr(), frame_name=AttrValue(s=b"f"))
    rows.add("m", "Merge", ["e", "next"], T=type_attr(), N=AttrValue(i=2))
    rows.add("y", "Neg", ["m"], T=type_attr())
    rows.add("next", "NextIteration", ["y"], T=type_attr())
    return rows


def random_rows(
    random: Random, devices: int, *, nodes: int, loops: int = 0, depth: int = 3, prefix: str = ""
) -> tuple[Rows, list[int]]:
    """Rows of a graph, and a device for each node."""
    maker = Maker(random, devices, prefix)
    for _ in range(nodes):
        maker.step()
    for _ in range(loops):
        left = maker.loop(maker.const(), random.randint(1, depth))
        # Not the Exit itself: were a Switch to read it, the order in which TensorFlow moves the two would be by chance
        maker.floats.append(maker.add("Neg", [left], T=type_attr()))
        maker.step()
    return maker.rows, maker.device


def random_graph(seed: int, devices: int, *, nodes: int = 12, loops: int = 0) -> tuple[Graph, list[int]]:
    """A graph, and a device for each node."""
    rows, device = random_rows(Random(seed), devices, nodes=nodes, loops=loops)
    return rows.built(), device
