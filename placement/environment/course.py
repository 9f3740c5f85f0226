"""A question to an agent, and the course that it takes through it: which group is decided when, and by which scales.

Ops are taken in an order, each after all that it waits for. "depth" follows a chain as long as it goes, so that a
branch is decided as a whole. "ranks" is by falling upward rank, as HEFT takes them (Topcuoglu, Hariri and Wu 2002).
Where the group of an op is open and has a choice, that is a step of the agent. All other ops follow the device of their
group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike

import numpy as np
import numpy.typing as npt

from placement.algorithms.single import single
from placement.plan import Plan, verdict
from placement.problem import NEVER, Problem, pose, require_feasible
from placement.scheduling.ranks import by_rank, upward_ranks
from placement.scheduling.running import plain
from placement.search.decisions import Decisions, decisions_of, depth_first, pairs
from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.columns import Floats, Ints
from simulator.costs.estimate import estimate
from simulator.costs.table import CostTable
from simulator.errors import InfeasibleError, SimvizError
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.graph.graph import Graph
from simulator.graph.step import Step, choose_step
from simulator.loading import load
from simulator.placer.constraints import constrain
from simulator.units import Nanos, as_python

ORDERS = ("depth", "ranks")


@dataclass(frozen=True, eq=False)
class Question:
    """A step of a graph on a cluster, with what an op costs there. It can be pickled."""

    graph: Graph
    cluster: Cluster
    costs: CostTable
    step: Step
    soft: bool = True
    options: SimulationOptions = SimulationOptions()
    flavour: str = "auto"

    @staticmethod
    def of(
        source: object,
        cluster: str | PathLike[str] | Mapping[str, object] | Cluster = "4gpu",
        *,
        batch: int | None = None,
        ignore_devices: bool = False,
    ) -> Question:
        """Ask about anything that `load` and `load_cluster` take, by estimated costs and the step that is usual.

        Raises what these raise.
        """
        graph = load(source, batch=as_python(batch), ignore_devices=ignore_devices)
        on = load_cluster(cluster)
        return Question(graph, on, estimate(graph, on), choose_step(graph))

    def problem(self) -> Problem:
        """State it for algorithms."""
        prepared = prepare(self.graph, self.step, self.cluster, self.costs, self.options)
        constraints = constrain(self.graph, self.cluster, soft=self.soft)
        return pose(self.graph, prepared, self.cluster, constraints, flavour=self.flavour)


@dataclass(frozen=True, eq=False)
class Course:
    """Axes: n ops, G groups, M decisions in their order, D devices, T tensors."""

    problem: Problem
    decisions: Decisions
    order: list[int]  # [n] ops, each after its predecessors
    turn: list[int]  # [M] group that is decided
    first: list[int]  # [M] its first op in the order
    fixed: list[int]  # [G] the device of a group without a choice; -1: it is decided
    work_ns: Ints  # [G, D] all ops of the group; where a device may not be used it means nothing
    ties: list[list[tuple[int, float]]]  # [G] neighbours with the mean time of the values between both, falling
    unit_ns: float  # the work of a decision on the fastest devices, in the mean
    base_ns: Nanos  # the step on its best single device, which a reward is measured by

    @cached_property
    def facts(self) -> Floats:
        """[M, 5] of each group: work, bytes in and out (all logarithms), rank and depth (shares of the largest)."""
        problem, tables, group = self.problem, self.problem.tables, self.decisions.group
        source, target = group[tables.tensor_op[tables.edge_tensor]], group[tables.consumer]
        crossing = source != target
        nbytes = tables.tensor_bytes[tables.edge_tensor].astype(float)
        into, out = (
            np.bincount(ends[crossing], nbytes[crossing], len(problem.ops)) / 1024 for ends in (target, source)
        )
        least = self.decisions.work_ns[self.decisions.row[self.turn]]
        rank, place = self.decisions.ranks[self.first], np.argsort(self.order)[self.first]
        found: Floats = np.stack(
            [
                np.log1p(least / self.unit_ns),
                np.log1p(into[self.turn]),
                np.log1p(out[self.turn]),
                rank / max(float(self.decisions.ranks.max(initial=0)), 1.0),
                place / max(len(self.order), 1),
            ],
            axis=1,
        )
        return found

    @cached_property
    def between(self) -> npt.NDArray[np.float32]:
        """[D, D] logarithm of the time of a tensor of mean size from a device to another, in units; 0 on one device."""
        tables, devices = self.problem.tables, range(len(self.problem.capacity))
        sizes = tables.tensor_bytes[tables.tensor_bytes > 0]
        size = int(sizes.mean()) if len(sizes) else 0
        times = [[0 if s == t else self.problem.transfer_ns(s, t, size) for t in devices] for s in devices]
        return np.log1p(np.array(times, float) / self.unit_ns).astype(np.float32)

    def plan(self, device: list[int]) -> Plan:
        """The plan of decisions [G]; a group that never runs goes to the first of its devices."""
        chosen = zip(device, self.problem.allowed, strict=True)
        return Plan([where if where >= 0 else allowed[0] for where, allowed in chosen])


def course_of(problem: Problem, order: str = "depth") -> Course:
    """Find the decisions of a problem.

    Raises InfeasibleError where a group has no device, and SimvizError where no group has a choice or for an order that
    is none of ORDERS.
    """
    if order not in ORDERS:
        raise SimvizError(f"order={order!r}: it is one of {', '.join(ORDERS)}.")
    require_feasible(problem)
    ranks = upward_ranks(problem)
    decisions = decisions_of(problem, ranks, problem.options.seed)
    if not len(decisions.free):
        raise SimvizError("There is nothing to decide: each group of this step has one device. Use another cluster.")
    ops = depth_first(problem) if order == "depth" else by_rank(plain(problem), ranks).tolist()
    group, row = decisions.group.tolist(), decisions.row.tolist()
    first: dict[int, int] = {}
    for op in ops:
        if row[group[op]] >= 0:
            first.setdefault(group[op], op)
    run = np.maximum(np.array(problem.run, np.int64).reshape(len(group), -1), 0)
    work_ns = np.zeros((len(problem.ops), len(problem.capacity)), np.int64)
    np.add.at(work_ns, decisions.group, run)
    pair, weight = pairs(problem, decisions.group, decisions.wire_ns)
    ties: list[list[tuple[int, float]]] = [[] for _ in problem.ops]
    for (one, other), ns in zip(pair.tolist(), weight.tolist(), strict=True):
        ties[one].append((other, ns))
        ties[other].append((one, ns))
    for known in ties:
        known.sort(key=lambda tie: (-tie[1], tie[0]))
    fixed = [devices[0] if len(devices) == 1 else -1 for devices in problem.allowed]
    unit_ns = max(float(decisions.work_ns.mean()), 1.0)
    turn, firsts = list(first), list(first.values())
    return Course(problem, decisions, ops, turn, firsts, fixed, work_ns, ties, unit_ns, _base(problem))


def _base(problem: Problem) -> Nanos:
    """The makespan of `single`; where no device holds all, all work in a row, each op where it is fastest."""
    try:
        taken = verdict(problem, single(problem)).ns
    except InfeasibleError:  # no single device holds the graph
        taken = NEVER
    if taken >= NEVER:
        taken = sum(min((ns for ns in times if ns >= 0), default=0) for times in problem.run)
    return max(taken, 1)
