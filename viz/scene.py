"""The scene: all values of one run, side by side, for printing and drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from simulator.assignment import Assignment
from simulator.bounds import Bound
from simulator.cluster.cluster import Cluster
from simulator.costs.table import CostTable
from simulator.errors import OutOfMemoryError
from simulator.execution.enforcing import Enforced
from simulator.execution.live import live_step
from simulator.execution.memory import out_of_memory
from simulator.execution.receiving import Received
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.instances.instance import Instance
from simulator.notebook import Drawn
from simulator.observed.observed_step import ObservedStep
from simulator.partitioning.partitions import Partitions
from simulator.shapes.unknown import SIZED, Unsized, unsized_of
from simulator.training.answers.answers import Answers
from simulator.training.answers.bottleneck import Bottleneck
from simulator.training.answers.memory_bounds import MemoryBounds
from simulator.training.answers.scaling import ScalingRow
from simulator.training.clients import Client
from simulator.training.disturbances.disturbed import Disturbed
from simulator.training.regimes import Regime
from simulator.training.training import Training
from simulator.units import Nanos, show_figure, show_nanos
from simulator.wording import counted, repr_of
from viz.command.training_request import TrainingRequest
from viz.difference.outline import Outline
from viz.hints import Pinned
from viz.pipelined import Pipelined
from viz.what_if import WhatIf

if TYPE_CHECKING:
    from placement.refining import Refinement


@dataclass(frozen=True, eq=False)
class Trained(Drawn):
    """A training that was run: its programs and its results."""

    wanted: TrainingRequest
    replication: str  # phrase on how the programs were made
    regime: Regime | None  # with its defaults; None: steps without synchronisation
    regime_in_words: str
    clients: tuple[Client, ...]  # [C] of `training`: those of the programs, then background traffic
    disturbed: Disturbed  # disturbances, by task and link
    training: Training
    answers: Answers
    bottleneck: Bottleneck
    memory: MemoryBounds
    steps: int  # simulated steps
    narrow: bool | None = None  # the confidence interval is as narrow as requested; None: none was requested
    scaling: tuple[ScalingRow, ...] = ()
    out_of_memory: OutOfMemoryError | None = None  # in a step of the first client that lacks memory
    unsized: Unsized = SIZED  # of the client's step that has most of them; rates are upper bounds where there are some

    def __repr__(self) -> str:
        rate = self.answers.steps_per_s
        said = "no rate" if rate is None else f"{self.unsized.most}{show_figure(rate)} steps/s"
        return repr_of(self, self.training.regime, counted(self.workers, "worker"), said)

    @property
    def workers(self) -> int:
        """Clients whose steps train."""
        return int(self.training.is_worker.sum())


@dataclass(frozen=True, eq=False)
class Scene(Drawn):
    """One graph on one cluster: the values of one run, from the graph to the trace."""

    title: str  # the user's word for the graph: its file name
    graph: Graph
    step: Step
    cluster: Cluster
    costs: CostTable
    assignment: Assignment
    partitions: Partitions
    trace: Trace
    bound: Bound  # no placement on this cluster can be faster; see `bounded`
    tensorflow_order_ns: Nanos | None = (
        None  # its makespan if devices took ready ops as TensorFlow does; None: not asked
    )
    received: Received | None = None  # with and without delayed Recvs; None: none was to be delayed
    enforced: Enforced | None = None  # with and without an enforced order; None: none was to be enforced
    pinned: Pinned | None = None  # ops that device strings hold on CPUs; None: no noticeable part of the step
    pipelined: Pipelined | None = None  # microbatches of the step; None: nobody asked for some
    training: Trained | None = None  # many steps of this program and others; None: one step is all
    check: Mapping[str, Any] | None = None  # Any: the JSON object of --check, as docs/json.md describes it
    observed: ObservedStep | None = None  # a step that really ran, from which shapes, loops and times are
    unobserved: str | None = None  # why there is none though one was asked for
    notes: tuple[str, ...] = ()
    against: Scene | Outline | None = None  # the run to compare with; Outline: an earlier one
    instance: Instance | None = None  # the problem of which this is an answer, where the file was one
    refined: Refinement | None = None  # rounds on real processes, of which the fastest is shown; None: none were run
    what_if: WhatIf | None = None  # the step with one change at a time; None: nobody asked
    command: str | None = None  # that makes this run again; None: it was asked for with values in memory
    label: str = ""  # a name of the run for sentences; "": by algorithm and cluster

    def __repr__(self) -> str:
        took = f"a step takes {self.unsized.least}{show_nanos(self.trace.makespan)}"
        return repr_of(self, self.title, f"on {self.cluster.name}", f"placed by {self.assignment.used}", took)

    @cached_property
    def unsized(self) -> Unsized:
        """The tensors of the step whose size is unknown; times and sizes are lower bounds where there are some."""
        return unsized_of(self.graph, self.live)

    @cached_property
    def live(self) -> Step:
        """The step without sides of branches that are never taken."""
        return live_step(self.graph, self.step, self.partitions, self.trace)

    @cached_property
    def out_of_memory(self) -> OutOfMemoryError | None:
        """The first moment at which a device holds more than it has: in the step, else in one of another client."""
        full = out_of_memory(self.trace, self.partitions, self.cluster)
        return self.training.out_of_memory if full is None and self.training is not None else full

    @property
    def cut(self) -> Partitions:
        """The pieces that TensorFlow makes by itself: without delayed Recvs, and without an enforced order."""
        changed = self.received or self.enforced
        return self.partitions if changed is None else changed.cut

    @property
    def waits(self) -> list[tuple[int, int]]:
        """The control edges (first, then) that enforce an order, as rows of the graph."""
        return [] if self.enforced is None else self.enforced.edges

    def memory_bounded(self) -> Scene:
        """The scene with the bound of placements whose memory suffices, where this is one and that bound is larger."""
        if self.bound.fitting is None or self.out_of_memory is not None:
            return self
        return replace(self, bound=self.bound.fitting)

    @property
    def bounded(self) -> str:
        """The runs for which the bound holds, where these are not all: a pipeline's graph has its stages and turns."""
        return "" if self.pipelined is None or self.pipelined.made is None else " of these stages and turns"
