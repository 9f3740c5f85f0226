"""The stages from a request to a scene: load, place, cut, simulate, train, check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from placement.effort import Effort, read_effort
from placement.placing import name_of, place
from simulator.assignment import Assignment
from simulator.bounds import bound
from simulator.cluster.cluster import Cluster
from simulator.cluster.device_strings import without_devices
from simulator.comparison.placement_log import Logged
from simulator.errors import GraphError, InfeasibleError, SimvizError
from simulator.execution.memory import out_of_memory
from simulator.execution.receiving import Received, receive_late
from simulator.execution.simulate import simulate
from simulator.execution.trace import Trace
from simulator.partitioning import Partitions, partition
from simulator.wording import counted
from viz.command.ingredients import Ingredients, read_inputs
from viz.command.request import Request
from viz.hints import HELD, Pinned, affordable, input_notes, pinned
from viz.scene import Scene, Trained


def run(request: Request, say: Callable[[str], None] = lambda stage: None, given: Ingredients | None = None) -> Scene:
    """Run a request and return all its values; `say` gets the name of each stage when it begins.

    `given` are its ingredients, if they have been read already.
    Raise InfeasibleError if no device may hold a group, OracleError if --check could not ask TensorFlow, and another
    SimvizError if the input or the call is wrong. A plan that runs out of memory is returned, too.
    """
    log = None if request.log is None else _log(request.log)
    given = read_inputs(request, say) if given is None else given
    assignment = _placed(request, given, say)
    partitions, trace, received = _simulated(request, given, assignment, say)
    graph, step, cluster = given.graph, given.step, given.cluster
    held = None if given.training is not None else pinned(graph, step, cluster, assignment, partitions, trace)
    scene = Scene(
        title=title(request),
        graph=graph,
        step=step,
        cluster=cluster,
        costs=given.costs,
        assignment=assignment,
        partitions=partitions,
        trace=trace,
        bound=bound(
            graph,
            cluster,
            given.costs,
            step=step,
            prepared=given.prepared,
            constraints=assignment.constraints,
            options=request.simulation,
            compiled=assignment.search is not None,
        ),
        received=received,
        pinned=None if held is None else _without_strings(request, given, held, assignment, trace, say),
        training=_trained(request, given, (assignment, partitions), say),
        notes=(*_unused(request, given.cluster), *_made(request, given), *_input_notes(given, partitions, trace)),
    )
    if log is not None:
        from viz.command.check import check_with_log

        return check_with_log(request, scene, log)
    if not request.check:
        return scene
    from viz.command.check import check_with_tensorflow

    say("asking TensorFlow")
    return check_with_tensorflow(request, scene)


def _log(path: str) -> Logged:
    from viz.command.check import read  # late: most runs have no log

    return read(path)


def _placed(request: Request, given: Ingredients, say: Callable[[str], None]) -> Assignment:
    """Place the graph. With --check, the message of an error says whether TensorFlow refuses the graph, too."""
    say(f"placing {len(given.graph)} nodes on {len(given.cluster)} devices ({name_of(request.algorithm)})")
    try:
        assignment = place(
            given.graph,
            given.cluster,
            given.costs,
            step=given.step,
            algorithm=request.algorithm,
            soft=request.soft,
            prepared=given.prepared,
            flavour=request.flavour,
            effort=read_effort(request.budget, say) if request.budget is not None else Effort(say=say),
        )
    except (InfeasibleError, GraphError) as error:
        said = ""
        if request.check:
            from viz.command.check import refusal

            say("asking TensorFlow")
            said = f"\n{refusal(request, given, error)}"
        if isinstance(error, GraphError):
            raise GraphError(f"{error}{said}", node=error.node) from None
        where = f"{request.name} cannot be placed on {given.cluster.name}"
        raise InfeasibleError(
            f"{where}: {error}{said}", node=error.node, members=error.members, allows=error.allows
        ) from None
    if request.simulation.order == "priority" and assignment.priority is None:
        raise SimvizError(
            f"--order priority: the placement by {assignment.used} has no priorities. Only heft gives some, where they "
            "help. Choose --order auto, fifo or tensorflow."
        )
    return assignment


def _simulated(
    request: Request, given: Ingredients, assignment: Assignment, say: Callable[[str], None]
) -> tuple[Partitions, Trace, Received | None]:
    """The partitions and their trace; with delayed Recvs also both without the delay."""
    graph, step, cluster = given.graph, given.step, given.cluster

    def cut(*, late: bool = False) -> Partitions:
        say("cutting the graph")
        return partition(graph, assignment, cluster, step=step, flavour=request.flavour, recv_scheduling=late)

    def run(pieces: Partitions) -> Trace:
        say("simulating the step")
        return simulate(pieces, cluster, given.costs, request.simulation)

    pieces = cut()
    if request.recv_scheduling is None:
        return pieces, run(pieces), None
    if request.recv_scheduling == "tensorflow":
        late = cut(late=True)
        received = Received(request.recv_scheduling, pieces, late, run(pieces), run(late))
    else:
        received = receive_late(pieces, cluster, run)
    return received.partitions, received.trace, received


def _without_strings(
    request: Request, given: Ingredients, held: Pinned, first: Assignment, trace: Trace, say: Callable[[str], None]
) -> Pinned | None:
    """Add the makespan of the step without the strings; None if it cannot be placed or run."""
    if not affordable(first, trace):
        return held
    free, request = replace(given, graph=without_devices(given.graph, HELD)), replace(request, budget=None)
    try:
        assignment = _placed(replace(request, check=False), free, say)
        partitions, freed, _ = _simulated(request, free, assignment, say)
    except SimvizError:  # the requested step itself is there
        return None
    if out_of_memory(freed, partitions, given.cluster) is not None:
        return None
    return replace(held, without_ns=freed.makespan)


def _trained(
    request: Request, given: Ingredients, first: tuple[Assignment, Partitions], say: Callable[[str], None]
) -> Trained | None:
    if given.training is None or request.training is None or not request.training.trains:
        return None
    from viz.command.training_run import trained  # late: most runs train nothing

    return trained(request, given.training, given.cluster, first, say)


def _unused(request: Request, cluster: Cluster) -> tuple[str, ...]:
    """Notes on options without effect, and on a cut that no TensorFlow makes."""
    if request.flavour == "local" and len(cluster.tasks) > 1:
        return (
            f"The cut is that of one session over {counted(len(cluster.tasks), 'task')}, which no TensorFlow makes: "
            "each device fetches for itself. By default a tensor comes to a task once and is shared there.",
        )
    if request.protocol is not None and len(cluster.tasks) == 1:
        return (f"{cluster.name} is one task, so nothing is sent by {request.protocol} or another protocol.",)
    return ()


def _made(request: Request, given: Ingredients) -> tuple[str, ...]:
    """A note on whose step is shown, if a graph was replicated and nothing is trained."""
    if given.training is None or request.training is None or request.training.trains:
        return ()
    programs = given.training.programs
    return (f"{given.training.made}; the step of {programs[0].name} is shown, of {counted(len(programs), 'client')}.",)


def _input_notes(given: Ingredients, partitions: Partitions, trace: Trace) -> tuple[str, ...]:
    """Notes on inputs that consecutive steps would wait for; a training simulates them."""
    if given.training is not None:
        return ()
    return input_notes(given.graph, given.step, given.cluster, given.costs, partitions, trace)


def title(request: Request) -> str:
    """The user's word for the graph: its file name."""
    return "standard input" if request.graph == "-" else shown(Path(request.name).name)


def shown(name: str) -> str:
    """A file name as text: the system allows any bytes, a page only UTF-8 (PEP 383)."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
