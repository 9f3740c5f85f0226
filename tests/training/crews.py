"""Crews of small clients by hand: what each runs, where, for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simulator.cluster.cluster import Cluster
from simulator.columns import ints
from simulator.costs.table import CostTable
from simulator.graph.graph import Graph
from simulator.partitioning import partition
from simulator.training.assembling import crew_of, lay_out
from simulator.training.combining import UNBOUNDED, Client, Crew, Joined
from simulator.training.program import Program, Role
from tests.execution.cases import assigned, attrs_of, costs, whole
from tests.strategies import Rows

Priced = tuple[Client, CostTable]


def client(
    on: Cluster,
    name: str,
    graph: Graph,
    where: Mapping[str, int],
    run_ns: Mapping[str, int],
    *,
    role: Role = "worker",
    task: int = 0,
    examples: int = 0,
    counts: tuple[str, ...] = (),
) -> Priced:
    """A client of the graph: `where` has the device of each node (else 0), `run_ns` its time (else 0)."""
    rows = [where.get(node, 0) for node in graph.names]
    priced = costs(graph, on, [run_ns.get(node, 0) for node in graph.names])
    pieces = partition(graph, assigned(on, rows), on, step=whole(graph))
    program = Program(name, on.devices[task].task, graph, (), role=role, examples=examples, counts=counts)
    return Client(program, pieces), priced


def chain(on: Cluster, name: str, stages: Sequence[tuple[int, int]], **options: object) -> Priced:
    """A client whose step is one op after the other, each on a device and for a time; values of one float."""
    made = Rows()
    made.add("x", "Const", **attrs_of("Const"))
    before = "x"
    for at in range(len(stages)):
        before = made.add(f"op{at}", "Identity", [before], **attrs_of("Identity"))
    where = {f"op{at}": device for at, (device, _) in enumerate(stages)}
    where["x"] = stages[0][0]
    return client(on, name, made.built(), where, {f"op{at}": ns for at, (_, ns) in enumerate(stages)}, **options)  # type: ignore[arg-type]


def crew(
    given: Sequence[Priced],
    on: Cluster,
    *,
    steps: int,
    tokens: int = 0,
    bound: int = UNBOUNDED,
    start: Sequence[int] = (),
) -> tuple[Crew, Joined]:
    """The clients together."""
    clients = [one for one, _ in given]
    laid = lay_out(clients, on, [priced for _, priced in given])
    start_ns = ints(start or [0] * len(given))
    return crew_of(clients, laid, on, start_ns, steps=steps, tokens=tokens, bound=bound), laid
