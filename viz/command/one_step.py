"""The way of one step: place it, cut it, simulate it, and say how fast any placement could be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from placement.algorithms import judges
from placement.placing import name_of, place
from simulator.assignment import Assignment
from simulator.bounds import Bound, bound
from simulator.errors import GraphError, InfeasibleError, SimvizError
from simulator.execution.enforcing import Enforced, enforce
from simulator.execution.loops import SharedChoices
from simulator.execution.memory import attained
from simulator.execution.options import SimulationOptions
from simulator.execution.receiving import Received, receive_late
from simulator.execution.simulate import simulate
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.partitioning.cut import partition
from simulator.partitioning.partitions import Partitions
from simulator.progress import Say, silent
from simulator.units import Nanos
from viz.command.ingredients import Ingredients
from viz.command.request import Request

Made = TypeVar("Made")

MOST_TASKS = 200_000  # of a step that is simulated in a second order: it takes a second


class WithoutPriorities(SimvizError):
    """A placement gives no priorities, by which the ops were to run."""


def placed(request: Request, given: Ingredients, say: Say) -> Assignment:
    """Place the graph. With --check, the message of an error says whether TensorFlow refuses the graph, too.

    Where an order is to be enforced, plans are judged by TensorFlow's order, too. A search looks for another one, and
    `single` may take a plan's place. The plan whose step takes less in the end is the result, the first on a tie. One
    that fits in memory goes before one that does not.
    """
    usual = _placed(request, given, say)
    if not (request.enforces and judges(request.algorithm)):
        return usual

    def rank(one: Assignment) -> tuple[bool, Nanos]:
        made = simulated(request, given, one, silent)
        return attained(made.trace, given.cluster)

    in_order = replace(request.simulation, order="tensorflow")
    return min(usual, _placed(request, given, say, in_order), key=rank)


def _placed(request: Request, given: Ingredients, say: Say, options: SimulationOptions | None = None) -> Assignment:
    """Place the graph, under other options of the simulation if some are given."""
    say(f"placing {len(given.graph)} nodes on {len(given.cluster)} devices ({name_of(request.algorithm)})")
    try:
        assignment = place(
            given.graph,
            given.cluster,
            given.costs,
            step=given.step,
            prepared=given.prepared,
            options=options,
            fallback=request.fallback,
            **request.placing(say),
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
        raise WithoutPriorities(
            f"--order priority: the placement by {assignment.used} has no priorities. List schedulers, such as "
            "heft, give some where they help. Choose --order auto, fifo or tensorflow."
        )
    return assignment


@dataclass(frozen=True, eq=False)
class Simulated:
    """A placed graph, cut and simulated."""

    partitions: Partitions
    trace: Trace
    received: Received | None = None  # with and without delayed Recvs; None: none was to be delayed
    enforced: Enforced | None = None  # with and without an enforced order; None: none was to be enforced


def simulated(request: Request, given: Ingredients, assignment: Assignment, say: Say) -> Simulated:
    """Cut a placed graph, and simulate it by what the request says of orders and Recvs."""
    graph, step, cluster = given.graph, given.step, given.cluster

    def cut(graph: Graph = graph, *, late: bool = False) -> Partitions:
        say("cutting the graph")
        return partition(graph, assignment, cluster, step=step, flavour=request.flavour, recv_scheduling=late)

    def run(pieces: Partitions, options: SimulationOptions = request.simulation) -> Trace:
        say("simulating the step")
        return simulate(pieces, cluster, given.costs, options)

    pieces = cut()
    if request.enforces:
        in_order = replace(request.simulation, order="tensorflow")
        in_turn = partial(run, options=in_order)
        enforced = enforce(graph, step, pieces, run(pieces), cluster=cluster, cut=cut, simulate=in_turn)
        return Simulated(enforced.partitions, enforced.trace, enforced=enforced)
    if request.recv_scheduling is None:
        return Simulated(pieces, run(pieces))
    if request.recv_scheduling == "tensorflow":
        late = cut(late=True)
        received = Received(request.recv_scheduling, pieces, late, run(pieces), run(late))
    else:
        received = receive_late(pieces, cluster, run)
    return Simulated(received.partitions, received.trace, received)


def of_own(request: Request, given: Ingredients, make: Callable[[Request], Made]) -> Made:
    """Make it of the step that is shown. In a training the trips and branches that this lacks are of other steps."""
    if given.training is None or not request.trains:
        return make(request)
    return SharedChoices(request.simulation).apply(lambda *, options: make(replace(request, simulation=options)))


def in_tensorflow_order(
    request: Request, given: Ingredients, pieces: Partitions, trace: Trace, say: Say
) -> Nanos | None:
    """The makespan if devices took their ready ops as TensorFlow's executor does, where no order was asked for.

    None for problems of others, and steps of more than MOST_TASKS ops and transfers.
    """
    unasked = request.simulation.order == "auto" and given.instance is None
    if not unasked or request.enforces or len(trace.ops) + len(trace.transfers) > MOST_TASKS:
        return None
    say("simulating the step in TensorFlow's order")
    return simulate(pieces, given.cluster, given.costs, replace(request.simulation, order="tensorflow")).makespan


def bounded(request: Request, given: Ingredients, assignment: Assignment, *, compiled: bool) -> Bound:
    """The least time of a step under any placement; `compiled`: by machine code, which takes a while to load."""
    return bound(
        given.graph,
        given.cluster,
        given.costs,
        step=given.step,
        prepared=given.prepared,
        constraints=assignment.constraints,
        options=request.simulation,
        compiled=compiled,
    )
