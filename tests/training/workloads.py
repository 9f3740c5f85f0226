"""Sets of small clients by hand: what each runs, where, for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import ids, ints
from simulator.costs.table import CostTable
from simulator.execution.options import SimulationOptions
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.partitioning.cut import partition
from simulator.training.clients import Client, CombinedTables, Starts, combine_tables
from simulator.training.control.layout import lower_clients
from simulator.training.control.run import run
from simulator.training.control.workload import Workload, workload_of
from simulator.training.disturbances.disturbed import disturb
from simulator.training.programs.program import Program, Role
from simulator.training.regimes import read_regime
from simulator.training.training import Training
from tests.execution.cases import assigned, attrs_of, costs, whole
from tests.strategies import INT32, Rows, shapes_attr, type_attr
from tests.training import queues
from tests.training.queues import INT64, accumulator, const, queue, take, types

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
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))
    program = Program(name, on.devices[task].task, graph, (), role=role, examples=examples, counts=counts)
    return Client(program, pieces), priced


def chain(
    on: Cluster, name: str, stages: Sequence[tuple[int, int]], *, variable: bool = False, **options: object
) -> Priced:
    """A client whose step is one op after the other, each on a device and for a time; values of one float.

    With a variable on device 0, which nobody reads.
    """
    made = Rows()
    if variable:
        queues.variable(made, "v")
    made.add("x", "Const", **attrs_of("Const"))
    before = "x"
    for at in range(len(stages)):
        before = made.add(f"op{at}", "Identity", [before], **attrs_of("Identity"))
    where = {f"op{at}": device for at, (device, _) in enumerate(stages)}
    where["x"] = stages[0][0]
    return client(on, name, made.built(), where, {f"op{at}": ns for at, (_, ns) in enumerate(stages)}, **options)  # type: ignore[arg-type]


def workload(
    given: Sequence[Priced],
    on: Cluster,
    *,
    steps: int,
    tokens: int = 0,
    regime: str = "async",
    start: Sequence[int] = (),
) -> tuple[Workload, CombinedTables]:
    """The clients together."""
    clients = [one for one, _ in given]
    combined = combine_tables(clients, on, [priced for _, priced in given])
    read = read_regime(regime)
    assert read is not None
    count = len(given)
    begins, none = Starts(ints(start or [0] * count), ids([-1] * count)), disturb([], on)
    made = workload_of(clients, combined, begins, none, steps=steps, tokens=tokens, clock_rule=read.clock_rule)
    return made, combined


def pushing(
    on: Cluster,
    name: str,
    stages: Sequence[tuple[int, int]],
    *,
    variables: int = 1,
    apply_ns: int = 0,
    **options: object,
) -> Priced:
    """A worker of SyncReplicasOptimizer: after its stages it pushes a gradient per variable, then takes a token.

    The ps is device 0; a gradient is one float, a token 8 bytes.
    """
    made = Rows()
    made.add("x", "Const", **attrs_of("Const"))
    before = "x"
    where, run_ns = {"x": stages[0][0]}, {}
    for at, (device, ns) in enumerate(stages):
        before = made.add(f"op{at}", "Identity", [before], **attrs_of("Identity"))
        where[before], run_ns[before] = device, ns
    queue(made, "tokens")
    const(made, "step", 0, dtype=INT64)
    for v in range(variables):
        accumulator(made, f"acc{v}")
        made.add(f"apply{v}", "AccumulatorApplyGradient", [f"acc{v}", "step", before], dtype=type_attr())
        run_ns[f"apply{v}"] = apply_ns
    after = [f"^apply{v}" for v in range(variables)]
    made.add(
        "token", "QueueDequeueV2", ["tokens", *after], component_types=types(INT64), _output_shapes=shapes_attr(())
    )
    made.add("local", "Identity", ["token"], T=type_attr(INT64), _output_shapes=shapes_attr(()))
    where["local"] = stages[-1][0]
    return client(on, name, made.built(), where, run_ns, **options)  # type: ignore[arg-type]


def learning(
    on: Cluster,
    name: str,
    *,
    task: int,
    load_ns: int = 0,
    work_ns: int,
    read_ns: int = 0,
    apply_ns: int = 0,
    resource: bool = False,
    **options: object,
) -> Priced:
    """An asynchronous worker on device `task`, the ps is device 0: load, read the variable, work, apply, count.

    Nothing is read before something is loaded. Values are one float; who says what is to be read says it in a message.
    """
    made = Rows()
    made.add("x", "Const", **attrs_of("Const"))
    made.add("load", "Identity", ["x"], **attrs_of("Identity"))
    if resource:
        made.add("v", "VarHandleOp", dtype=type_attr(), shape=AttrValue(shape={}))
        made.add("read", "ReadVariableOp", ["v", "^load"], dtype=type_attr(), _output_shapes=shapes_attr(()))
    else:
        queues.variable(made, "v")
        made.add("read", "Identity", ["v", "^load"], **attrs_of("Identity"))
    made.add("work", "Identity", ["read"], **attrs_of("Identity"))
    made.add("rate", "Const", **attrs_of("Const"))
    apply = "ResourceApplyGradientDescent" if resource else "ApplyGradientDescent"
    made.add("apply", apply, ["v", "rate", "work"], T=type_attr())
    where = {"x": task, "load": task, "work": task}
    run_ns = {"load": load_ns, "read": read_ns, "work": work_ns, "apply": apply_ns}
    return client(on, name, made.built(), where, run_ns, counts=("apply",), **options)  # type: ignore[arg-type]


def updating(
    on: Cluster,
    *,
    aggregate: int,
    handed: int,
    variables: int = 1,
    take_ns: int = 0,
    update_ns: int = 0,
    **options: object,
) -> Priced:
    """The chief's loop on device 0: take gradients of each variable, update, count, hand out tokens."""
    made = Rows()
    queue(made, "tokens")
    const(made, "needed", aggregate)
    run_ns = {"update": update_ns}
    for v in range(variables):
        accumulator(made, f"acc{v}")
        take(made, f"acc{v}", "needed", name=f"take{v}")
        run_ns[f"take{v}"] = take_ns
    made.add("update", "AddN", [f"take{v}" for v in range(variables)], **attrs_of("AddN", variables))
    made.add("count", "Identity", ["update"], **attrs_of("Identity"))
    const(made, "dims", [handed])
    const(made, "value", 7, dtype=INT64)
    made.add("fill", "Fill", ["dims", "value", "^count"], T=type_attr(INT64), index_type=type_attr(INT32))
    made.add("hand_out", "QueueEnqueueManyV2", ["tokens", "fill"], Tcomponents=types(INT64))
    return client(on, "updates", made.built(), {}, run_ns, role="updates", counts=("count",), **options)  # type: ignore[arg-type]


def ran(
    given: Sequence[Priced], on: Cluster, *, order: str = "fifo", contention: str = "serial", **options: object
) -> Training:
    """Let the clients run to their limit."""
    together, combined = workload(given, on, **options)  # type: ignore[arg-type]
    found = run(together, lower_clients(combined, None, SimulationOptions(order=order, contention=contention)))
    assert found is not None
    return found[0]


def step_rows(run: Training) -> list[tuple[int, ...]]:
    """Client, number, start, end, waiting, and waiting for inputs of each step."""
    of = (run.step_client, run.step_number, run.step_start_ns, run.step_end_ns, run.step_waiting_ns, run.step_input_ns)
    return [tuple(row) for row in np.stack(of, axis=1).tolist()]


def update_rows(run: Training) -> list[tuple[int, ...]]:
    """Time, client, staleness, gradients and examples of each update."""
    of = (run.update_ns, run.update_client, run.update_staleness, run.update_gradients, run.update_examples)
    return [tuple(row) for row in np.stack(of, axis=1).tolist()]


def spans(run: Training, client: int) -> list[tuple[int, ...]]:
    """Start and end of the steps of a client."""
    return [step[2:4] for step in step_rows(run) if step[0] == client]
