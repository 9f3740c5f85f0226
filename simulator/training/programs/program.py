"""The program of one client: the graph and the step that it runs again and again, before anything is placed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from simulator.cluster.cluster import Cluster
from simulator.costs.estimate import estimate
from simulator.costs.table import CostTable
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.units import Nanos
from simulator.wording import repr_of, some

# Steps that do nothing on TensorFlow 2.21, the client in its own task: 63 us in a session of one task; where one more
# task has a part 0.38 ms besides the message that ends it (benchmarks/messages.py, a loopback, 2026). For each further
# task the master sends a message to begin the step and one to clean up after it: 80 us is what two messages work at one
# end. A null step on 16 ps tasks takes 1.8 ms (Abadi et al., "TensorFlow: A System for Large-Scale Machine Learning",
# OSDI 2016, section 6.2), 1.6 ms without two hops; here it is 1.58 ms.
_LOCAL_NS, _DISTRIBUTED_NS, _TASK_NS = 60_000, 300_000, 80_000

Role: TypeAlias = Literal["worker", "updates", "reader", "traffic"]


@dataclass(frozen=True, eq=False)
class Program:
    """One client: a session at a task, and the step that it runs in a loop.

    Between-graph replication has one per worker, in-graph replication one in all, or one per tower where towers do not
    wait for each other. A chief that averages gradients in a thread of its own (SyncReplicasOptimizer's queue runner)
    has a second one with the role "updates". A client without gradients, such as one that fills queues, is a "reader".
    Programs come in order of their workers, readers after them, updates last.

    Of programs that are identical but for the task, all but the first are `like` it: they are placed and cut once.
    """

    name: str  # "worker:3", "worker:0 updates", "worker:0 tower:1"
    task: str  # "/job:worker/replica:0/task:3": its master's; feeds and fetches pass through its CPU
    graph: Graph  # with the devices that it asks for
    fetches: tuple[str, ...]  # nodes or tensors that a step runs
    feeds: tuple[str, ...] = ()
    role: Role = "worker"  # only a worker's steps are training steps; "traffic" only keeps links busy
    like: int | None = None  # row of the program that is identical but for the task
    examples: int = 0  # of one step; 0: unknown
    handing: tuple[str, ...] = ()  # nodes that hand out so many each time they run, as in a loop; none: a step does
    counts: tuple[str, ...] = ()  # nodes whose end is an update of the global step; empty: the end of a step is
    filters: tuple[str, ...] = ()  # device_filters of the session; empty: it waits for all tasks
    replicas: int = 1  # whose gradients an update of this client alone averages; towers within a worker count as one
    joined: int = 1  # workers whose steps are one update, as collectives join them; 1: its steps are its own updates
    # Time of client and master from the end of a step to the beginning of the next. None: `between_steps_ns`, once
    # `placement.clients` knows the tasks; 0 in a client that is made without it.
    gap_ns: Nanos | None = None
    unoptimized: Graph | None = None  # the client's graph, where `graph` is what its session makes of it

    @property
    def written(self) -> Graph:
        """The graph as the client hands it to its session."""
        return self.graph if self.unoptimized is None else self.unoptimized

    def __repr__(self) -> str:
        fetched = some(self.fetches, 3)
        return repr_of(self, self.name, f"{self.role} at {self.task}", f"fetches {fetched}", repr(self.graph))


def between_steps_ns(others: int) -> Nanos:
    """The time of a session between two steps that have parts on so many tasks besides its own.

    It is the time of Python, the client, the master, and the messages that begin and end a step on each task. It
    occupies no lane.
    """
    return _DISTRIBUTED_NS + _TASK_NS * others if others else _LOCAL_NS


def updates_of(worker: Program, step: Step, counts: tuple[str, ...]) -> Program:
    """The program that runs this step of a worker's graph in a thread of its own, to make the updates."""
    return replace(
        worker,
        name=f"{worker.name} updates",
        fetches=step.fetches,
        feeds=step.feeds,
        role="updates",
        like=None,
        examples=0,
        counts=counts,
    )


def estimate_each(
    programs: Sequence[Program], cluster: Cluster, price: Callable[[Graph, Cluster], CostTable] = estimate
) -> tuple[CostTable, ...]:
    """The cost table of each program's graph, made by `price`; identical programs, or those of one graph, share one."""
    known: dict[int, CostTable] = {}
    made: list[CostTable] = []
    for program in programs:
        if program.like is not None:
            made.append(made[program.like])
            continue
        if id(program.graph) not in known:
            known[id(program.graph)] = price(program.graph, cluster)
        made.append(known[id(program.graph)])
    return tuple(made)
