"""Problems on which the event loop is timed: random graphs, as columns at once where a million nodes would take
minutes, and the training step of ResNet-50 with 8 towers.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from placement import place
from simulator import (
    Cluster,
    CostTable,
    Graph,
    Prepared,
    Step,
    choose_step,
    estimate,
    load_cluster,
    prepare,
    read_graph,
)
from simulator.cluster.cluster import Link
from simulator.columns import Ids, flags, ids, ints, pointers
from simulator.execution.transfers import transfers_of
from tests.execution.cases import apart, attrs_of, cluster, costs, whole
from tests.strategies import Rows, typed

DEVICES = 8
NEAR = 200  # an op reads from ops at most this many rows before it
INPUTS = 3  # at most
NBYTES = 4000  # of each output
SHORTEST_NS, LONGEST_NS = 1_000, 100_000
OPS_A_TIME = 200_000  # so many are run at least between two looks at the clock
STEM = "resnet50_8"


@dataclass(frozen=True)
class Case:
    """A step under one assignment. Axes: N nodes of the graph, n ops that run."""

    name: str
    prepared: Prepared
    assignment: npt.NDArray[np.integer]  # [N]
    random_cut: bool

    @property
    def ops(self) -> int:
        """How many run."""
        return len(self.prepared.tables)

    @cached_property
    def rows(self) -> npt.NDArray[np.int32]:
        """[B, N] the assignment as often as it has to be run to be timed."""
        return np.repeat(self.assignment.astype(np.int32)[None], max(1, OPS_A_TIME // self.ops), axis=0)

    @cached_property
    def device(self) -> Ids:
        """[n] that of each op."""
        device = self.prepared.tables.placed(ids(self.assignment)).copy()
        for op, beside in self.prepared.moves:
            device[op] = device[beside]
        return ids(device)

    @cached_property
    def transfers(self) -> int:
        """How many tensors cross."""
        return len(transfers_of(self.prepared.tables, self.device))


@dataclass(frozen=True)
class Described:
    """The same step as the peers take it: node by node."""

    case: Case
    graph: Graph
    on: Cluster
    priced: CostTable
    grapplers: Graph  # as Grappler understands it
    fetching: Step
    plain: bool  # nothing in it that the independent run does not know


# --- random graphs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """Variables of 4 kB first, then ops that add up a few values from shortly before them."""

    source: npt.NDArray[np.int64]  # [E] rows, in order of reader, then source; no pair twice
    reader: npt.NDArray[np.int64]  # [E]
    run_ns: npt.NDArray[np.int64]  # [n]

    def __len__(self) -> int:
        return len(self.run_ns)

    @property
    def unread(self) -> npt.NDArray[np.bool_]:
        """[n]"""
        unread: npt.NDArray[np.bool_] = np.bincount(self.source, minlength=len(self)) == 0
        return unread


def drawn(ops: int, seed: int = 0) -> Drawn:
    chance = np.random.default_rng(seed)
    row = np.arange(DEVICES, ops)
    picked = row[:, None] - 1 - chance.integers(0, np.minimum(row, NEAR)[:, None], (len(row), INPUTS))
    wanted = np.arange(INPUTS) < chance.integers(1, INPUTS + 1, len(row))[:, None]
    reader = np.broadcast_to(row[:, None], picked.shape)[wanted]
    pairs = np.unique(reader * ops + picked[wanted])
    return Drawn(pairs % ops, pairs // ops, chance.integers(SHORTEST_NS, LONGEST_NS, ops))


def random_step(ops: int, on: Cluster | None = None) -> tuple[Graph, Step, Cluster, CostTable]:
    """The arguments of `prepare`; without a cluster there is a link of its own for each pair of devices."""
    problem, on = drawn(ops), on or apart(DEVICES)
    graph = columns_of(problem)
    return graph, whole(graph), on, costs(graph, on, problem.run_ns)


def random_cases(ops: int) -> list[Case]:
    """A step under two assignments."""
    prepared = prepare(*random_step(ops))
    scattered = np.random.default_rng(1).integers(0, DEVICES, ops)
    return [
        Case(f"{ops:,}, random cut", prepared, scattered, True),
        Case(f"{ops:,}, few cuts", prepared, np.arange(ops) * DEVICES // ops, False),
    ]


def switched_case(ops: int) -> Case:
    """A random cut where each transfer passes three lines: its source's, that of half of the devices, its target's."""
    ends = [Link(f"{device} {route}", 100, 10**9) for device in range(DEVICES) for route in ("out", "in")]
    halves = [Link(f"spine {half}", 100, 4 * 10**9) for half in range(2)]
    routes = {
        (s, t): (2 * s, len(ends) + s * 2 // DEVICES, 2 * t + 1)
        for s in range(DEVICES)
        for t in range(DEVICES)
        if s != t
    }
    on = cluster([f"w:{task}/CPU:0" for task in range(DEVICES)], [*ends, *halves], routes)
    scattered = np.random.default_rng(1).integers(0, DEVICES, ops)
    return Case(f"{ops:,}, random cut, three links", prepare(*random_step(ops, on)), scattered, False)


def described(case: Case) -> Described:
    """A case of `random_cases`."""
    problem, on = drawn(case.ops), apart(DEVICES)
    graph = graph_of(problem)
    last = [f"n{row}" for row in np.flatnonzero(problem.unread).tolist()]
    asked = graph_of(problem, shaped=True)
    return Described(
        case, graph, on, costs(graph, on, problem.run_ns), asked, choose_step(asked, fetches=last), plain=True
    )


def graph_of(problem: Drawn, *, shaped: bool = False) -> Graph:
    """The graph, node by node; `shaped`: its variables say their shape, as one who knows no `_output_shapes` needs."""
    made, rows = Rows(), np.split(problem.source, np.searchsorted(problem.reader, np.arange(1, len(problem))))
    attrs = {count: attrs_of("AddN", count, NBYTES // 4) for count in range(1, INPUTS + 1)}
    variable = typed("VariableV2", (NBYTES // 4,))
    variable["shape"].shape.dim.add(size=NBYTES // 4)
    for at, inputs in enumerate(rows):
        if len(inputs):
            made.add(f"n{at}", "AddN", [f"n{row}" for row in inputs.tolist()], **attrs[len(inputs)])
        elif shaped:
            made.add(f"n{at}", "VariableV2", **variable)
        else:
            made.add(f"n{at}", "Const", **attrs_of("Const", 1, NBYTES // 4))
    return made.built()


def columns_of(problem: Drawn) -> Graph:
    """The same graph, a column at a time: node by node a million would take a minute."""
    n, constant = len(problem), np.arange(len(problem)) < DEVICES
    arity = np.bincount(problem.reader, minlength=n)
    attrs = [attrs_of("Const", 1, NBYTES // 4), *(attrs_of("AddN", count, NBYTES // 4) for count in (1, 2, 3))]
    return Graph(
        names=tuple(f"n{row}" for row in range(n)),
        ops=tuple("Const" if one else "AddN" for one in constant.tolist()),
        requested=("",) * n,
        attrs=tuple(attrs[count] for count in arity.tolist()),
        tensor_ptr=ids(np.arange(n + 1)),
        tensor_node=ids(np.arange(n)),
        tensor_port=ids(np.zeros(n)),
        tensor_dtype=ids(np.ones(n)),
        tensor_shape=((NBYTES // 4,),) * n,
        tensor_bytes=ints(np.full(n, NBYTES)),
        in_ptr=pointers(ids(problem.reader), n),
        edge_src=ids(problem.source),
        edge_dst=ids(problem.reader),
        edge_tensor=ids(problem.source),
        edge_back=flags(np.zeros(len(problem.source))),
        order=ids(np.arange(n)),
    )


def check_columns() -> None:
    """See on a small graph that every column is as if it had been built node by node."""
    ours, theirs = vars(columns_of(drawn(1000))), vars(graph_of(drawn(1000)))
    for name, column in ours.items():
        same = np.array_equal(column, theirs[name]) if isinstance(column, np.ndarray) else column == theirs[name]
        assert same, name


# --- ResNet-50 -------------------------------------------------------------------------------------------------------


def resnet(folder: Path) -> list[Described]:
    """As TensorFlow places it, and with every op anywhere where it has a kernel."""
    file = folder / f"{STEM}.pb"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, str(Path(__file__).with_name("graphs.py")), str(folder)], check=True)
    graph, on = read_graph(file), load_cluster("8gpu")
    step, priced = choose_step(graph), estimate(graph, on)
    prepared = prepare(graph, step, on, priced)
    placed = place(graph, on, priced, step=step, algorithm="tensorflow").device
    scattered = np.zeros(len(graph), np.int64)
    able, chance = prepared.tables.run_ns >= 0, np.random.default_rng(0)
    for op in np.flatnonzero(prepared.tables.bound < 0).tolist():
        scattered[prepared.tables.node[op]] = chance.choice(np.flatnonzero(able[op]))
    cases = [
        Case(f"{STEM}, as TensorFlow places it", prepared, placed, False),
        Case(f"{STEM}, random cut", prepared, scattered, True),
    ]
    return [Described(case, graph, on, priced, graph, step, plain=False) for case in cases]
