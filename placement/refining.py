"""The loop of the white paper (TensorFlow 2015, section 3.2.1): place, run, take the measured costs, place again.

costs ──place──▶ plan ──run──▶ times of its ops
  ▲                                  │
  └──────── laid over the estimate ──┘    until what another plan promises is below the noise
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement.effort import DEFAULT_EFFORT, Effort
from placement.placing import place
from placement.plan import Algorithm
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.costs.estimate import estimate
from simulator.costs.matching import with_measured
from simulator.costs.measured import MeasuredTimes
from simulator.costs.table import CostTable
from simulator.errors import SimvizError
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.oracle.placed_steps import RealSteps, real_cluster
from simulator.partitioning.cut import partition
from simulator.progress import Say, silent
from simulator.units import Nanos, show_nanos
from simulator.wording import counted, repr_of

NOISE, SEEN, ROUNDS = (
    "the predicted gain is below the noise",
    "the plan has run before",
    "no more rounds were asked for",
)


@dataclass(frozen=True, eq=False)
class Round:
    """A plan, what was predicted of it before it ran, and what it took."""

    assignment: Assignment
    predicted_ns: Nanos  # by the costs that were known before
    real: RealSteps

    def __repr__(self) -> str:
        return repr_of(self, f"predicted {show_nanos(self.predicted_ns)}", f"took {show_nanos(self.measured_ns)}")

    @property
    def measured_ns(self) -> Nanos:
        """The median of its steps."""
        return self.real.step_ns

    @property
    def noise_ns(self) -> Nanos:
        """Half of the distance between the quartiles of its steps."""
        return self.real.noise_ns


@dataclass(frozen=True, eq=False)
class Refinement:
    """The rounds in order, the costs after the last of them, and why it was the last."""

    rounds: tuple[Round, ...]
    costs: CostTable
    ended: str  # NOISE, SEEN or ROUNDS
    gain_ns: Nanos  # that the next plan promised; less than 0: it is slower

    def __repr__(self) -> str:
        return repr_of(self, self.sentence().rstrip("."))

    @property
    def best(self) -> Round:
        """The round with the shortest measured step, the first of equals."""
        return min(self.rounds, key=lambda one: one.measured_ns)

    def sentence(self) -> str:
        """The rounds in a line."""
        best, ran = self.best, counted(len(self.rounds), "plan")
        took, promised = show_nanos(best.measured_ns), show_nanos(best.predicted_ns)
        return f"Refined: {ran} ran, in {took} at best (predicted: {promised}). Ended, as {self.ended}."

    def facts(self) -> Mapping[str, object]:
        """The rounds as JSON, with the place of the fastest among them."""
        times = ("predicted_ns", "measured_ns", "noise_ns")
        rounds = [{name: getattr(one, name) for name in times} for one in self.rounds]
        return {"rounds": rounds, "best": self.rounds.index(self.best), "ended": self.ended, "gain_ns": self.gain_ns}

    def __str__(self) -> str:
        lines = ["round  predicted   measured    noise"]
        for number, one in enumerate(self.rounds, start=1):
            shown = (show_nanos(ns) for ns in (one.predicted_ns, one.measured_ns, one.noise_ns))
            mark = " *" if one is self.best else ""
            lines.append("  ".join((f"{number:5}", *(f"{text:<10}" for text in shown))).rstrip() + mark)
        return "\n".join((*lines, f"Ended, as {self.ended}; * is the fastest."))


def refine(
    graph: Graph,
    cluster: Cluster,
    *,
    step: Step,
    algorithm: str | Algorithm = "search",
    soft: bool = True,
    flavour: str = "auto",
    effort: Effort = DEFAULT_EFFORT,
    costs: CostTable | None = None,
    options: SimulationOptions | None = None,
    rounds: int = 5,
    seconds: float = 2.0,
    timeout_s: float = 120.0,
    say: Say = silent,
) -> Refinement:
    """Place the graph, run it on a local cluster of real processes, and place it again by the measured times.

    The cluster's tasks become processes of this machine, with one thread for ops each; it has CPUs alone. `costs` are
    those of the first round, by default the estimate. After each round the measured times of all rounds lie over them.
    The loop ends when another plan promises no more than the noise of the last step, or has run before. It also ends
    after so many rounds. `soft`, `flavour` and `effort` are those of `place`. A round runs for about `seconds`, and may
    take `timeout_s`. Fed tensors get made-up values. The graph is executed: refine only graphs that you trust.

    No process and no port outlives the call. Raises OracleError if TensorFlow is missing or does not run the step,
    SimvizError for the order "priority", and as `place` does. `say` gets a phrase for each part of a round.
    """
    if rounds < 1:
        raise SimvizError(f"{rounds} rounds: give a number of at least 1")
    known = base = estimate(graph, cluster) if costs is None else costs
    options = options or SimulationOptions(order="tensorflow")
    if options.order == "priority":  # a later plan may have no priorities
        raise SimvizError('Real processes know no priorities; choose the order "tensorflow".')
    done: list[Round] = []
    measured: list[MeasuredTimes] = []

    def placed() -> Assignment:
        return place(
            graph,
            cluster,
            known,
            step=step,
            algorithm=algorithm,
            soft=soft,
            options=options,
            flavour=flavour,
            effort=effort,
        )

    def predicted(plan: Assignment) -> Nanos:
        return simulate(partition(graph, plan, cluster, step=step, flavour=flavour), cluster, known, options).makespan

    with real_cluster(graph, cluster, step=step, seconds=seconds, timeout_s=timeout_s) as run:  # checks the cluster
        plan = placed()
        while True:
            say(f"round {len(done) + 1}: running the step")
            promised = predicted(plan)
            done.append(Round(plan, promised, run(plan.placed_on)))
            measured.append(done[-1].real.measured)
            known = with_measured(base, measured, graph, cluster)
            say(f"round {len(done)}: placing by what was measured")
            following = placed()
            gain = predicted(plan) - predicted(following)
            if gain <= done[-1].noise_ns:
                return Refinement(tuple(done), known, NOISE, gain)
            if any((one.assignment.device == following.device).all() for one in done):
                return Refinement(tuple(done), known, SEEN, gain)
            if len(done) == rounds:
                return Refinement(tuple(done), known, ROUNDS, gain)
            plan = following
