"""The optimum of a small step: a search, then a solver that finds better placements or proves that there are none.

The solver is CP-SAT of OR-Tools, which `pip install 'simviz[exact]'` brings. Each op is an interval on one of its
devices, and each transfer one on every link that it has to itself. Pesto (Hafeez et al., Middleware 2021) and Moirai
(Zhang et al., 2023) have exact models of this form.

In the model no step takes longer than in the simulator. A device may wait though it has an op that is ready, and links
that are shared fairly hold nobody up. Memory is that of what stays for the whole step, and a Merge waits for no
transfer. So the solver's lower bound holds for the simulator, too. Its plans are judged by the simulator, as all are.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from math import ceil
from threading import Thread
from typing import Any  # Any: the solver ships no types for what is used

import numpy as np

from placement.algorithms import load
from placement.effort import Effort
from placement.plan import Plan, verdict
from placement.problem import NEVER, Problem
from placement.search.decisions import effective_groups
from simulator import limits
from simulator.assignment import Bound
from simulator.bounds.classes import gates
from simulator.cluster.memories import memory_ends
from simulator.errors import InfeasibleError, UnsupportedError, raise_interrupt
from simulator.execution.discipline import discipline
from simulator.execution.routes import alone_ns
from simulator.units import SECOND_NS, Nanos, show_nanos

WORK = 2.0  # by the solver's own clock, some 10 s: the same result on every machine
_POLL_S = 0.1


def exact(problem: Problem) -> Plan:
    """The best plan that a search and then CP-SAT find, with the least time that any plan can take.

    A budget in seconds is shared evenly; a number of placements is for the search alone. Raises UnsupportedError
    without OR-Tools and for a step that is too large, and InfeasibleError where no placement can hold what stays on the
    devices.
    """
    cp = _solver()
    pairs, most = _pairs(problem), limits.EXACT_PAIRS.most  # of the default the model is made in some seconds
    if pairs > most:
        raise UnsupportedError(
            f"exact is for small steps: over all edges of this one there are {pairs:,} pairs of devices, and it takes "
            f"{most:,}; use search, or fewer devices. {limits.EXACT_PAIRS.remedy}."
        )
    effort = problem.effort
    half = effort if effort.seconds is None else replace(effort, seconds=effort.seconds / 2)
    found = load("search")(replace(problem, effort=half))
    over, taken_ns = verdict(problem, found)
    model = SatModel(cp, problem, _serial_ns(problem) if over or taken_ns >= NEVER else taken_ns)
    model.hint(found)
    effort.say(f"exact: looking for placements below {show_nanos(taken_ns)}, or a proof that there are none")
    solved = model.solve(half)
    if solved is None:
        raise InfeasibleError("No placement holds what stays on the devices for the whole step; use larger devices.")
    plans = [found, *(model.plans(found) if model.placed else ())]
    best: Plan = min(plans, key=lambda plan: verdict(problem, plan))
    return replace(best, notes=found.notes, search=found.search, proven=Bound(solved, "a proof by CP-SAT"))


def _solver() -> Any:
    try:
        return import_module("ortools.sat.python.cp_model")
    except ImportError as error:
        raise_interrupt(error)
        raise UnsupportedError("exact needs OR-Tools: pip install 'simviz[exact]'.") from None


def _pairs(problem: Problem) -> int:
    """The pairs of devices that the ends of edges may have, over all edges."""
    tables, group = problem.tables, effective_groups(problem)
    choices = np.array([max(len(allowed), 1) for allowed in problem.allowed])
    source, target = choices[group[tables.tensor_op[tables.edge_tensor]]], choices[group[tables.consumer]]
    return int((source * target).sum())


def _serial_ns(problem: Problem) -> Nanos:
    """Longer than a step in which nothing overlaps."""
    slowest = sum(max(times, default=0) for times in problem.run if times)
    tables = problem.tables
    source = range(len(problem.capacity))
    sizes, counts = np.unique(tables.tensor_bytes[tables.edge_tensor], return_counts=True)
    moved = 0
    for nbytes, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        times = [ns for here in source for ns in problem.transfers_ns(here, nbytes) if ns < NEVER]
        moved += count * max(times, default=0)
    return min(slowest + moved + 1, 2**53)


class SatModel:
    """A step as CP-SAT sees it."""

    def __init__(self, cp: Any, problem: Problem, last_ns: Nanos) -> None:
        self.cp, self.problem, self.last_ns = cp, problem, last_ns
        self.model = cp.CpModel()
        self.solver = cp.CpSolver()
        self.placed = False
        self.group: list[int] = effective_groups(problem).tolist()
        self.at = self._choices()
        self.start = [self.model.new_int_var(0, last_ns, "") for _ in self.group]
        self.end = [start + self._run(op) for op, start in enumerate(self.start)]
        self._devices()
        self._memory()
        self._edges()
        last = self.model.new_int_var(0, last_ns, "")
        for end in self.end:
            self.model.add(end <= last)
        self.model.minimize(last)

    def _choices(self) -> dict[int, dict[int, Any]]:
        """For each group that runs, whether it is on each of its devices."""
        at: dict[int, dict[int, Any]] = {}
        for group in sorted(set(self.group)):
            at[group] = {device: self.model.new_bool_var("") for device in self.problem.allowed[group]}
            self.model.add_exactly_one(at[group].values())
        return at

    def _run(self, op: int) -> Any:
        """The time of an op, as an expression over its device."""
        times = {device: max(self.problem.run[op][device], 0) for device in self.at[self.group[op]]}
        if len(set(times.values())) == 1:
            return next(iter(times.values()))
        return sum(times[device] * here for device, here in self.at[self.group[op]].items())

    def _devices(self) -> None:
        """As many ops run at once on a device as it has lanes."""
        problem = self.problem
        for device, lanes in enumerate(problem.tables.lanes.tolist()):
            intervals = []
            for op, start in enumerate(self.start):
                here = self.at[self.group[op]].get(device)
                taken = problem.run[op][device]
                if here is not None and taken > 0 and not problem.instant[op]:
                    intervals.append(self.model.new_optional_fixed_size_interval_var(start, taken, here, ""))
            if lanes == 1:
                self.model.add_no_overlap(intervals)
            elif len(intervals) > lanes:
                self.model.add_cumulative(intervals, [1] * len(intervals), lanes)

    def _memory(self) -> None:
        """A device holds what stays there for the whole step."""
        problem = self.problem
        for device, room in enumerate(problem.capacity):
            held = [problem.resident[group] * at[device] for group, at in self.at.items() if device in at]
            if sum(problem.resident[group] for group in self.at) > room:
                self.model.add(sum(held) <= room)

    def _edges(self) -> None:
        """Ops wait for their inputs: those of a Merge for one of them, others for a transfer where it crosses."""
        tables = self.problem.tables
        gate = gates(tables)
        first: dict[int, list[Any]] = {}
        held: dict[tuple[int, int, int], Any] = {}
        on_link: dict[int, list[Any]] = {}
        for edge, (tensor, reader, any_of) in enumerate(
            zip(tables.edge_tensor.tolist(), tables.consumer.tolist(), gate.tolist(), strict=True)
        ):
            source = int(tables.tensor_op[tensor])
            if any_of:
                came = self.model.new_bool_var("")
                self.model.add(self.start[reader] >= self.end[source]).only_enforce_if(came)
                first.setdefault(reader, []).append(came)
                continue
            self.model.add(self.start[reader] >= self.end[source])
            if self.group[source] != self.group[reader] and not tables.unsent[tensor]:
                self._transfer(edge, held, on_link)
        for came_by in first.values():
            self.model.add_bool_or(came_by)
        for intervals in on_link.values():
            self.model.add_no_overlap(intervals)

    def _transfer(
        self,
        edge: int,
        held: dict[tuple[int, int, int], Any],
        on_link: dict[int, list[Any]],
    ) -> None:
        """The least time between two devices, and the links that are held until the reader has it.

        Between tasks a value may come by another device of the reader's task, and once for all that read it there.
        """
        problem, tables, task = self.problem, self.problem.tables, self.problem.cluster.task_of
        tensor, reader = int(tables.edge_tensor[edge]), int(tables.consumer[edge])
        source, nbytes = int(tables.tensor_op[tensor]), problem.nbytes[tensor]
        alone = [NEVER if one is None else alone_ns(one, nbytes) for one in tables.ways.paces]
        pace = tables.ways.pace[tables.way[edge]]
        for here, sent in self.at[self.group[source]].items():
            for there, got in self.at[self.group[reader]].items():
                if here == there:
                    continue
                near = task[here] == task[there]
                entries = [there] if near else [one for one in range(len(task)) if task[one] == task[there]]
                least = min(alone[pace[here, one]] for one in entries)
                if least > self.last_ns:
                    self.model.add_bool_or([sent.negated(), got.negated()])
                    continue
                self.model.add(self.start[reader] >= self.end[source] + least).only_enforce_if([sent, got])
                for link, hold in self._holds(edge, here, entries).items():
                    key = (tensor, there if near else len(task) + task[there], link)
                    if key not in held:
                        used, begin = self.model.new_bool_var(""), self.model.new_int_var(0, self.last_ns, "")
                        interval = self.model.new_optional_fixed_size_interval_var(begin, hold, used, "")
                        on_link.setdefault(link, []).append(interval)
                        self.model.add(begin >= self.end[source]).only_enforce_if(used)
                        held[key] = used, begin
                    used, begin = held[key]
                    self.model.add_bool_or([sent.negated(), got.negated(), used])
                    self.model.add(self.start[reader] >= begin + hold).only_enforce_if([sent, got])

    def _holds(self, edge: int, here: int, entries: list[int]) -> dict[int, Nanos]:
        """The links that a transfer holds to whichever of these devices it goes, and for how long."""
        tables, routes = self.problem.tables, self.problem.tables.routes
        tensor, count = tables.edge_tensor[edge], len(entries)
        made_host, host = np.repeat(tables.made_host[tensor], count), np.repeat(tables.consumer_host[edge], count)
        ends = memory_ends(tables.host_device, np.repeat(here, count), np.array(entries), made_host, host)
        nbytes, rows = self.problem.nbytes[tensor], routes.between(*ends).tolist()
        if not nbytes or min(rows) < 0:
            return {}
        by = discipline(routes, self.problem.options.contention).held
        links = set.intersection(*(set(by[row]) for row in rows))
        times = {link: nbytes * SECOND_NS // int(routes.link_bytes_per_s[link]) for link in sorted(links)}
        return {link: hold for link, hold in times.items() if hold}

    def hint(self, plan: Plan) -> None:
        """Begin from a plan."""
        for group, at in self.at.items():
            for device, here in at.items():
                self.model.add_hint(here, int(plan.device[group] == device))

    def solve(self, effort: Effort) -> Nanos | None:
        """The least time of a step that is proven; None: there is no placement. Ctrl-C ends it at once."""
        given = self.solver.parameters
        given.num_workers, given.catch_sigint_signal = 1, False  # one alone: so that a run repeats
        if effort.seconds is None:
            given.max_deterministic_time = WORK
        else:
            given.max_time_in_seconds = effort.seconds
        said: list[Any] = []
        running = Thread(target=lambda: said.append(self.solver.solve(self.model)))
        running.start()
        try:
            while running.is_alive():
                running.join(_POLL_S)
        finally:
            if running.is_alive():
                self.solver.stop_search()
                running.join()
        self.placed = said[0] in (self.cp.OPTIMAL, self.cp.FEASIBLE)
        if said[0] == self.cp.INFEASIBLE:
            return None
        least: float = self.solver.best_objective_bound
        return max(ceil(least - 1e-6), 0)

    def plans(self, base: Plan) -> list[Plan]:
        """The solver's placement, by ready times and in its order; groups that do not run stay where they are."""
        problem, device = self.problem, list(base.device)
        for group, at in self.at.items():
            device[group] = next(one for one, here in at.items() if self.solver.value(here))
        nodes = problem.tables.node
        place = np.full(len(problem.graph), NEVER)
        np.minimum.at(place, nodes, [self.solver.value(start) for start in self.start])
        return [Plan(device), Plan(device, priority=place.tolist())]
