"""What one client runs again and again: its graph, before anything is placed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.units import Nanos

Role: TypeAlias = Literal["worker", "updates", "reader", "traffic"]


@dataclass(frozen=True, eq=False)
class Program:
    """One client: a session at a task, and the step that it runs in a loop.

    Between-graph replication has one per worker, in-graph replication one in all, or one per tower where towers do not
    wait for each other. A chief that averages gradients in a thread of its own (SyncReplicasOptimizer's queue runner)
    has a second one with the role "updates". One that only brings what others need, such as a job that reads, is a
    "reader". Programs come in order of their workers, readers after them, updates last.

    Where many are the same but for the task, all but the first are `like` it: they are placed and cut once.
    """

    name: str  # "worker:3", "worker:0 updates", "worker:0 tower:1"
    task: str  # "/job:worker/replica:0/task:3": its master's; what is fed and fetched passes through its CPU
    graph: Graph  # with the devices that it asks for
    fetches: tuple[str, ...]  # nodes or tensors that a step runs
    feeds: tuple[str, ...] = ()
    role: Role = "worker"  # a worker's steps are training steps, others' are not; "traffic" only keeps links busy
    like: int | None = None  # row of the program that is the same with `task` in place of its own
    examples: int = 0  # that one step works on; 0: unknown
    counts: tuple[str, ...] = ()  # nodes whose end is an update of the global step; none: the end of the step is
    filters: tuple[str, ...] = ()  # device_filters of the session; none: it waits for all tasks
    gap_ns: Nanos = 0  # what client and master take from the end of a step to the beginning of the next


def beside(worker: Program, step: Step, counts: tuple[str, ...]) -> Program:
    """The program that takes this step of a worker's graph in a thread of its own, to make the updates."""
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
