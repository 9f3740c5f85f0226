"""The whole way from a file to a scene: load, lower, shapes, step, cluster, costs, place, cut, simulate, check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import GraphError, InfeasibleError, OracleError, OutOfMemoryError, SimvizError

if TYPE_CHECKING:
    from simulator.assignment import Assignment
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.execution.loops import Choice
    from simulator.execution.receiving import Received
    from simulator.execution.trace import Trace
    from simulator.graph.graph import Graph, Shape
    from simulator.graph.step import Step
    from simulator.partitioning import Partitions
    from viz.scene import Scene

PREDICTED = ("tensorflow", "requested")  # algorithms that claim to do what TensorFlow does; all others are pinned


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for, in the words of the command line."""

    graph: str
    cluster: str | None = None
    algorithm: str = "whitepaper"
    signature: str | None = None
    fetches: tuple[str, ...] | None = None
    feeds: Mapping[str, Shape] = field(default_factory=dict)
    batch: int = 1
    keep_calls: bool = False
    costs: str | None = None
    soft: bool = True
    master: str | None = None
    flavour: str = "local"
    recv_scheduling: str | None = None  # by whose rule Recvs are delayed: "whitepaper", "tensorflow", or by none
    order: str = "auto"  # as in `simulate`, like the next one and `engine`
    contention: str = "serial"
    protocol: str | None = None  # between tasks; None: the cluster's own
    engine: str = "auto"
    trips: Mapping[str, int] = field(default_factory=dict)
    branches: Mapping[str, Choice] = field(default_factory=dict)
    check: bool = False
    seed: int = 0


def run(request: Request, say: Callable[[str], None] = lambda stage: None) -> Scene:
    """Do all that was asked and return the values side by side; `say` hears the name of each stage as it begins.

    Raises SimvizError: InfeasibleError when nothing may hold a group, OracleError when --check could not ask
    TensorFlow, any other when the input or the call is wrong. A plan that runs out of memory is returned all the same.
    """
    from placement import place
    from simulator import lower_bound
    from simulator.execution.tables import of_step
    from simulator.graph.step import choose_step
    from viz.scene import Scene

    say("loading the graph")
    graph = _graph(request, say)
    say("choosing the step")
    step = choose_step(graph, feeds=tuple(request.feeds), fetches=request.fetches, signature=request.signature)
    cluster = _cluster(request, graph)
    say("pricing the ops")
    costs = _costs(request, graph, cluster)
    tables = of_step(graph, step, cluster, costs, trips=request.trips, branches=request.branches, seed=request.seed)
    say(f"placing {len(graph)} nodes on {len(cluster)} devices ({request.algorithm})")
    try:
        assignment = place(
            graph,
            cluster,
            costs,
            step=step,
            algorithm=request.algorithm,
            soft=request.soft,
            seed=request.seed,
            tables=tables,
            order=request.order,
            contention=request.contention,
        )
    except (InfeasibleError, GraphError) as error:
        if request.check:
            say("asking TensorFlow")
            said = f"\n{_refused_alike(request, graph, step, cluster, costs, error)}"
        else:
            said = ""
        if isinstance(error, GraphError):
            raise GraphError(f"{error}{said}", node=error.node) from None
        where = f"{request.graph} cannot be placed on {cluster.name}"
        raise InfeasibleError(
            f"{where}: {error}{said}", node=error.node, members=error.members, allows=error.allows
        ) from None
    _check_order(request, assignment)
    partitions, trace, received = _simulated(request, graph, step, cluster, costs, assignment, say)
    bound = lower_bound(graph, cluster, costs, step=step, tables=tables)
    scene = Scene(
        title="standard input" if request.graph == "-" else _shown(Path(request.graph).name),
        graph=graph,
        step=step,
        cluster=cluster,
        costs=costs,
        assignment=assignment,
        partitions=partitions,
        trace=trace,
        lower_bound_ns=bound,
        received=received,
        notes=_unused(request, cluster),
    )
    if not request.check:
        return scene
    say("asking TensorFlow")
    return replace(scene, check=_check(request, scene))


def _check_order(request: Request, assignment: Assignment) -> None:
    if request.order == "priority" and assignment.priority is None:
        raise SimvizError(
            f"--order priority: the placement by {assignment.used} gives the nodes no priorities, as heft alone does, "
            "where they help; choose --order auto, fifo or tensorflow."
        )


def _unused(request: Request, cluster: Cluster) -> tuple[str, ...]:
    """Options that change nothing here, in sentences."""
    if request.protocol is not None and len(cluster.tasks) == 1:
        return (f"{cluster.name} is one task, so nothing is sent by {request.protocol} or another protocol.",)
    return ()


def _simulated(
    request: Request,
    graph: Graph,
    step: Step,
    cluster: Cluster,
    costs: CostTable,
    assignment: Assignment,
    say: Callable[[str], None],
) -> tuple[Partitions, Trace, Received | None]:
    """The pieces and how they run; where Recvs are delayed also what they and the step were without that."""
    from simulator import partition, simulate
    from simulator.execution.receiving import Received, receive_late

    def cut(*, late: bool = False) -> Partitions:
        say("cutting the graph")
        flavour = request.flavour
        made: Partitions = partition(graph, assignment, cluster, step=step, flavour=flavour, recv_scheduling=late)
        return made

    def run(pieces: Partitions) -> Trace:
        say("simulating the step")
        ran: Trace = simulate(
            pieces,
            cluster,
            costs,
            engine=request.engine,
            order=request.order,
            contention=request.contention,
            trips=request.trips,
            branches=request.branches,
            seed=request.seed,
        )
        return ran

    pieces = cut()
    if request.recv_scheduling is None:
        return pieces, run(pieces), None
    if request.recv_scheduling == "tensorflow":
        late = cut(late=True)
        received = Received(request.recv_scheduling, pieces, late, run(pieces), run(late))
    else:
        received = receive_late(pieces, cluster, run)
    return received.partitions, received.trace, received


def _shown(name: str) -> str:
    """A file name as text: the system allows any bytes, a page only UTF-8 (PEP 383 says how Python spells the rest)."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _graph(request: Request, say: Callable[[str], None]) -> Graph:
    from simulator import load
    from simulator.graph.inlining import inline, lower
    from simulator.graph.shapes import with_shapes

    graph = load(request.graph)
    graph = lower(graph if request.keep_calls else inline(graph))

    def ask(graph: Graph, feeds: Mapping[str, Shape]) -> list[Shape | None]:
        from simulator.oracle.shapes import infer

        say("asking TensorFlow for shapes")
        return infer(graph, feeds)

    return with_shapes(graph, batch=request.batch, feeds=request.feeds, infer=ask)


def _cluster(request: Request, graph: Graph) -> Cluster:
    from simulator.cluster.client import connected
    from simulator.cluster.protocols import with_protocol
    from simulator.cluster.reading import default_cluster, load_cluster

    cluster = default_cluster(graph) if request.cluster is None else load_cluster(request.cluster)
    if request.protocol is not None:
        cluster = with_protocol(cluster, request.protocol)
    return cluster if request.master is None else connected(cluster, request.master)


def _costs(request: Request, graph: Graph, cluster: Cluster) -> CostTable:
    from simulator import estimate

    costs: CostTable = estimate(graph, cluster)
    if request.costs is None:
        return costs
    from simulator.costs.calibration import calibrate, read_measurement

    return calibrate(costs, read_measurement(request.costs), graph, cluster)


def _check(request: Request, scene: Scene) -> Mapping[str, Any]:
    """Ask the real TensorFlow. Any: the JSON object of --check."""
    from placement import place
    from simulator import partition
    from simulator.execution.laws import check_trace
    from simulator.oracle import check, extended

    graph, step, cluster, assignment = scene.graph, scene.step, scene.cluster, scene.assignment
    mode = "predict" if request.algorithm in PREDICTED else "pin"
    partitions = scene.partitions if scene.received is None else scene.received.cut  # TensorFlow delays no Recv here
    moved = 0
    longer = extended(cluster)

    def predicted(seen: Mapping[str, str]) -> Assignment:
        made: Assignment = place(
            graph, longer, scene.costs, step=step, algorithm=request.algorithm, soft=request.soft, seen=seen
        )
        return made

    if mode == "predict" and longer is not cluster:  # what is asked about is what is predicted
        cluster, assignment = longer, predicted({})
        partitions = partition(graph, assignment, cluster, step=step)
        moved = sum(scene.assignment.name_of(row) != assignment.name_of(row) for row in range(len(graph)))
    found: Mapping[str, Any] = check(
        graph,
        cluster,
        assignment,
        partitions,
        step,
        mode=mode,
        soft=request.soft,
        informed=predicted if mode == "predict" else None,
    )
    laws = [*found["laws"], *check_trace(scene.trace, scene.partitions, scene.cluster)]
    return {**found, "laws": laws, "moved_by_added_task": moved}


def _refused_alike(
    request: Request, graph: Graph, step: Step, cluster: Cluster, costs: CostTable, error: InfeasibleError | GraphError
) -> str:
    """What TensorFlow says of a graph that cannot be placed as we say, in a sentence."""
    from placement import place
    from simulator.oracle import check_refusal, extended
    from viz.checked import shortened

    longer = extended(cluster)
    algorithm = request.algorithm if request.algorithm in PREDICTED else "tensorflow"  # the others obey the same rules
    if longer is not cluster or algorithm != request.algorithm:
        try:
            place(graph, longer, costs, step=step, algorithm=algorithm, soft=request.soft)
        except (InfeasibleError, GraphError) as other:  # compared below with TensorFlow's
            error = other
        else:
            needs = f"; its master needs the task {longer.client_task} besides" if longer is not cluster else ""
            return f"TensorFlow was not asked: by its own rules the graph can be placed{needs}."
    try:
        return shortened(check_refusal(graph, longer, error, step, soft=request.soft).said)
    except OracleError as missing:  # the graph is refused with or without TensorFlow's word
        return f"TensorFlow could not be asked: {missing}"


def exit_code(error: SimvizError) -> int:
    """1 when nothing feasible was found or TensorFlow could not be asked, 2 when the input or the call is wrong."""
    return 1 if isinstance(error, (InfeasibleError, OutOfMemoryError, OracleError)) else 2
