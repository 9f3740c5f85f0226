"""What the event loop is timed on: random graphs, as columns at once where a million nodes would take minutes, and the
training step of ResNet-50 with 8 towers.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from placement import place
from simulator import Cluster, CostTable, Graph, Prepared, Step, choose_step, estimate, load, load_cluster, prepare
from simulator.columns import Ids, flags, ids, ints
from simulator.execution.assembling import Edges, layout
from simulator.execution.crossings import crossings
from simulator.execution.tables import OWN, RESIDENT, Tables, of_step
from tests.execution.cases import apart, attrs_of, costs, whole
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
        return len(crossings(self.prepared.tables, self.device))


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
        return np.bincount(self.source, minlength=len(self)) == 0


def drawn(ops: int, seed: int = 0) -> Drawn:
    chance = np.random.default_rng(seed)
    row = np.arange(DEVICES, ops)
    picked = row[:, None] - 1 - chance.integers(0, np.minimum(row, NEAR)[:, None], (len(row), INPUTS))
    wanted = np.arange(INPUTS) < chance.integers(1, INPUTS + 1, len(row))[:, None]
    reader = np.broadcast_to(row[:, None], picked.shape)[wanted]
    pairs = np.unique(reader * ops + picked[wanted])
    return Drawn(pairs % ops, pairs // ops, chance.integers(SHORTEST_NS, LONGEST_NS, ops))


def random_cases(ops: int) -> list[Case]:
    problem = drawn(ops)
    tables = tables_of(problem, apart(DEVICES))
    prepared = Prepared(tables, tables.names, ())
    scattered = np.random.default_rng(1).integers(0, DEVICES, ops)
    return [
        Case(f"{ops:,}, random cut", prepared, scattered, True),
        Case(f"{ops:,}, few cuts", prepared, np.arange(ops) * DEVICES // ops, False),
    ]


def described(case: Case) -> Described:
    """A case of `random_cases`, whose tables are those of its graph."""
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


def tables_of(problem: Drawn, on: Cluster) -> Tables:
    """What `of_step` makes of the graph, a column at a time; what is of the cluster comes from a small graph."""
    small = drawn(2 * DEVICES)
    graph = graph_of(small)
    like = of_step(graph, whole(graph), on, costs(graph, on, small.run_ns))
    n, edges = len(problem), len(problem.source)
    constant = np.arange(n) < DEVICES
    columns, _ = layout(
        Edges(
            source=ids(problem.source),
            target=ids(problem.reader),
            port=ids(np.zeros(edges)),
            row=ids(problem.source),
            nbytes=ints(np.full(edges, NBYTES)),
            apart=flags(np.zeros(edges)),
            host=flags(np.zeros(edges)),
            post=ids(np.full(edges, -1)),
        ),
        n,
    )
    tensors = len(columns["tensor_op"])
    times = np.where(constant, 0, problem.run_ns)[:, None].repeat(len(on), axis=1)
    times.setflags(write=False)
    return replace(
        like,
        names=tuple(f"n{row}" for row in range(n)),
        node=ids(np.arange(n)),
        bound=ids(np.full(n, -1)),
        run_ns=times,
        merge=flags(np.zeros(n)),
        inexpensive=flags(np.zeros(n)),
        instant=flags(constant),
        scratch_bytes=ints(np.where(problem.unread & ~constant, NBYTES, 0)),
        resident_bytes=ints(np.zeros(n)),
        forwards=ids(np.where(columns["tensor_op"] < DEVICES, RESIDENT, OWN)),
        replicable=flags(np.zeros(tensors)),
        post=ids(np.full(tensors, -1)),
        **columns,
    )


def check_tables() -> None:
    """See on a small graph that every column is as `of_step` makes it."""
    problem, on = drawn(1000), apart(DEVICES)
    graph = graph_of(problem)
    theirs = vars(of_step(graph, whole(graph), on, costs(graph, on, problem.run_ns)))
    for name, column in vars(tables_of(problem, on)).items():
        if isinstance(column, np.ndarray):
            assert column.dtype == theirs[name].dtype, name
            assert np.array_equal(column, theirs[name]), name


# --- ResNet-50 -------------------------------------------------------------------------------------------------------


def resnet(folder: Path) -> list[Described]:
    """As TensorFlow places it, and with every op anywhere where it has a kernel."""
    file = folder / f"{STEM}.pb"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, str(Path(__file__).with_name("graphs.py")), str(folder)], check=True)
    graph, on = load(file), load_cluster("8gpu")
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
