"""Placements from which a search starts: plans of all other algorithms, an order cut into stretches, list schedules.

`ask` has the plans of other algorithms, so a search never falls behind one that it asks. Those that are cheap are
always asked. In large steps and short budgets the dearest of those of papers are left out, by the time that machine
code takes for an op. By default that is the linear program of `m_sct`. No clock is read: the same step asks the same
ones.

`cuts` gives each device a stretch of an order of the groups (`order_cuts`), with its share of the work, or of the
memory. Like `layers` it gives work in proportion to speed, and begins with the fastest device.

`apart` gives each device a part of the step, or a stretch of one (`parts`), and spreads over all what parts share. Data
parallelism with parameters on several servers is such a placement (Dean et al., "Large scale distributed deep
networks", NIPS 2012). Then models with large weights come to these, as in Krizhevsky, "One weird trick for
parallelizing convolutional neural networks", 2014.

`layers` gives each device groups that hand on much among themselves (`layers`), in the order in which these begin.
So the layers of an unrolled network are each on a device. So they are in Sutskever, Vinyals and Le, "Sequence to
sequence learning with neural networks", NIPS 2014. Where many small ops run faster on processors, these share them.

`packs` gives each device such layers whatever their order (`packing`), for what may run at once.

`lists` takes ops by falling upward rank, in machine code, aware of the links that transfers hold (`schedules`). This is
done over all devices and over some of them, as fewer are often faster. Those of one task come first, as each hop
between hosts may cost a recurrence more than a second GPU brings.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placement.effort import Effort, seconds_of
from placement.plan import Plan, completed
from placement.problem import Problem
from placement.scheduling.insertion import plans
from placement.search.decisions import Decisions
from placement.search.gathering import begun, bins_of, layers_of, nets_of
from placement.search.order_cuts import Ground, crossing_of, held_by, placed, speeds_of, stretches, subsets, teams
from placement.search.parts import spread
from placement.search.reach import within_reach, working
from placement.search.schedules import RATE_BITS, Jobs, ScheduleState
from placement.search.tidying import pulled, values_of
from simulator.columns import Ints, positions
from simulator.errors import InfeasibleError
from simulator.execution.discipline import discipline

ALWAYS = ("single", "whitepaper", "heft", "tensorflow", "requested", "m_topo")
# microseconds of an op, and of an op for each device: benchmarks/RESULTS.md; cheap ones come first
PAPERS = {"cpop": (2, 0.1), "peft": (2, 0.2), "etf": (2, 0.2), "m_etf": (2, 0.2), "m_sct": (180, 4)}
LISTED = (*ALWAYS, *PAPERS)
_LINEAR = 4_600  # ops up to which a linear program's time grows as they do; then by their power of 1.5
_BOTH = ("heft", "cpop", "peft", "etf", "m_etf", "m_sct")  # their function takes the better of two plans
_LEAST_S = 1.0  # what algorithms of papers may take where no time is given
_SHARE = 0.5  # of a time that is given, for those of papers and those that are always asked
_ALWAYS_US = 9  # of an op, what these take
_SLACKS = (0.3, 0.02, 0.8)  # share by which a stretch may pass its part of the whole
_OF_LAYERS = (1.1, 0.6)  # share of a device's part of the work that a layer has at most
_OF_BINS, _PULLED = (0.25, 0.12, 0.5), (1.0, 3.0, 0.3)  # such shares of packed layers, and of what they exchange
_PULLS = 2  # times that all go where most of their values are


# --- plans of other algorithms ----------------------------------------------------------------------------------------


class Listed(NamedTuple):
    """A plan of another algorithm."""

    algorithm: str
    plan: Plan


class Asked(NamedTuple):
    """The algorithms that are asked."""

    found: list[Listed]
    failed: list[InfeasibleError]  # of those that find no plan
    names: tuple[str, ...]
    left_out: tuple[str, ...]


def ask(problem: Problem) -> Asked:
    """Ask each algorithm that fits."""
    asked = whom(problem)
    for _ in plans_of(problem, asked):
        continue
    return asked


def whom(problem: Problem) -> Asked:
    """The algorithms that fit; none has been asked yet."""
    names = fitting(problem.size, len(problem.capacity), problem.effort)
    return Asked([], [], names, tuple(name for name in LISTED if name not in names))


def plans_of(problem: Problem, asked: Asked) -> Iterator[Listed]:
    """Ask each algorithm, and yield each plan as soon as it is there; `single` comes first, as it is fast.

    Plans with a group where it may not be are dropped.

    A list schedule is there with and without its order. Its own function takes the better of both by its own cut, which
    takes long.
    """
    from placement.algorithms import load  # late: the table names `search`

    for name in asked.names:
        try:
            given: tuple[Plan, ...]
            if name in _BOTH:
                given = plans(import_module(f"placement.algorithms.{name}").schedule(problem))
            else:
                given = (load(name)(problem),)
        except InfeasibleError as error:
            asked.failed.append(error)
            continue
        for plan in given:
            if problem.may[np.arange(len(plan.device)), plan.device].all():
                asked.found.append(Listed(name, completed(problem, plan)))
                yield asked.found[-1]


def fitting(ops: int, devices: int, effort: Effort) -> tuple[str, ...]:
    """The names of the algorithms that are asked, for a step of so many ops. They are as many as fit into half of a
    time that is given, so that the search has the other half. Else they may take a second, or what a number of
    placements takes.
    """
    names, left_s = list(ALWAYS), max(seconds_of(effort, ops), _LEAST_S)
    if effort.seconds is not None:
        left_s = effort.seconds * _SHARE - ops * _ALWAYS_US / 1e6
    for name, (of_op, of_device) in PAPERS.items():
        slower = max(ops / _LINEAR, 1.0) ** 0.5 if name == "m_sct" else 1.0
        left_s -= slower * ops * (of_op + of_device * devices) / 1e6
        if left_s >= 0:
            names.append(name)
    return tuple(names)


# --- cuts of an order ------------------------------------------------------------------------------------------------


def cuts(decisions: Decisions, base: Ground, *, tight: bool) -> Iterator[Ints]:
    """Devices [G] of cuts; a group keeps its device of `base` where it may not have that of its stretch.

    `tight`: memory could be short, so cuts by memory come first.
    """
    speeds = speeds_of(decisions)
    kinds = [(base.work_ns, speeds), (held_by(decisions), np.ones(len(speeds)))]
    crossing = [crossing_of(decisions, order) for order in decisions.orders]
    for slack in _SLACKS:
        for weight, fast in kinds[::-1] if tight else kinds:
            for some in teams(working(decisions.problem), speeds):
                for row, order in enumerate(decisions.orders):
                    stretch = stretches(crossing[row], weight[order], fast[some], slack)
                    yield placed(decisions, base, order, stretch, some)


def apart(decisions: Decisions, base: Ground) -> Iterator[Ints]:
    """Devices [G] of parts, where there are several, one after the other: each is on a device, or cut.

    What parts share is spread. Then all goes where most of its values are, as weights may be dear to send.
    """
    parts, busy = int(decisions.part.max(initial=-1)) + 1, working(decisions.problem)
    if parts < 2:
        return
    order = decisions.orders[0]
    order = order[decisions.part[order] >= 0]
    order = order[np.argsort(decisions.part[order], kind="stable")]
    crossing, weight = crossing_of(decisions, order), base.work_ns[order]
    values, seen = values_of(decisions), set()
    for k in dict.fromkeys((min(parts, len(busy)), len(busy))):
        for slack in _SLACKS[:2]:
            stretch = stretches(crossing, weight, np.ones(k), slack)
            if stretch.tobytes() in seen:
                continue
            seen.add(stretch.tobytes())
            some = np.full(len(decisions.free), -1)
            some[order] = stretch
            every = spread(some, decisions.pair, decisions.pair_ns, decisions.resident, k)
            device = placed(decisions, base, np.arange(len(every)), every, busy)
            yield device
            for _ in range(_PULLS):
                moves = pulled(decisions, values, device)
                device = device.copy()
                device[moves[:, 0]] = moves[:, 1]
            yield device


def layers(decisions: Decisions, base: Ground) -> Iterator[Ints]:
    """Devices [G] of layers, in the order in which they begin: on devices that work, all or some, or on CPUs."""
    place = np.full(len(decisions.free), len(decisions.group))
    row = decisions.row[decisions.group[decisions.problem.topological]]
    np.minimum.at(place, row[row >= 0], np.flatnonzero(row >= 0))
    reach = within_reach(decisions.problem)
    cpus = [device for device in reach if decisions.problem.cpu[device]]
    sets = [working(decisions.problem)] + [cpus] * (1 < len(cpus) < len(reach))
    nets, speeds, seen = nets_of(decisions, base.work_ns), speeds_of(decisions), set()
    for share in _OF_LAYERS:
        for busy in sets:
            for some in teams(busy, speeds):
                layer = layers_of(nets, base.work_ns.sum() * share / len(some))
                order = np.lexsort((place, begun(layer, place, base.work_ns)[layer]))
                crossing = crossing_of(decisions, order)
                for slack in _SLACKS[:2]:
                    stretch = stretches(crossing, base.work_ns[order], speeds[some], slack)
                    device = placed(decisions, base, order, stretch, some)
                    if device.tobytes() not in seen:
                        seen.add(device.tobytes())
                        yield device


def packs(decisions: Decisions, base: Ground) -> Iterator[Ints]:
    """Devices [G] of layers that are packed into devices that work, all or some (`packing`)."""
    nets, speeds, seen = nets_of(decisions, base.work_ns), speeds_of(decisions), set()
    every = np.arange(len(decisions.free))
    for share in _OF_BINS:
        for some in teams(working(decisions.problem), speeds):
            layer = layers_of(nets, base.work_ns.sum() * share / len(some))
            for bins in bins_of(nets, layer, base.beside, 1 / speeds[some], _PULLED):
                device = placed(decisions, base, every, bins, some)
                if device.tobytes() not in seen:
                    seen.add(device.tobytes())
                    yield device


# --- list schedules --------------------------------------------------------------------------------------------------


def lists(decisions: Decisions, ranks: Ints) -> Iterator[Ints]:
    """Devices [G] of list schedules, with and without links; those that run out of room are left out."""
    from placement.search.compiled import schedule as run  # late: it loads LLVM

    problem = decisions.problem
    order = np.lexsort((positions(problem.topological, len(ranks)), -ranks)).astype(np.int64)
    jobs, devices = _jobs(decisions), len(problem.capacity)
    links = max(len(problem.tables.routes.link_names), 1)
    for some in subsets(problem, speeds_of(decisions)):
        use = np.isin(np.arange(devices), some).astype(np.int64)
        may = jobs.may.reshape(-1, devices)
        chosen = np.where((may * use).any(axis=1, keepdims=True), may * use, may)
        for aware in (1, 0):
            state = ScheduleState(
                device=np.full(len(may), -1),
                of_op=np.full(len(ranks), -1),
                end_ns=np.zeros(len(ranks), np.int64),
                arrive_ns=np.full(len(problem.nbytes) * devices, -1),
                free_ns=np.zeros(links, np.int64),
                trial_ns=np.zeros(links, np.int64),
                trial=np.full(links, -1),
                lane_ns=np.zeros(devices * int(jobs.lanes.max()), np.int64),
                room=np.array(problem.capacity, np.int64),
                order=order,
            )
            run(jobs._replace(may=np.ascontiguousarray(chosen.reshape(-1))), state, aware)
            if state.room.min() < 0:
                continue
            first = np.array([allowed[0] if allowed else 0 for allowed in problem.allowed], np.int64)
            yield np.where(state.device < 0, first, state.device)


def _jobs(decisions: Decisions) -> Jobs:
    """The input of the schedule, as columns of 64 bits."""
    problem = decisions.problem
    tables, routes = problem.tables, problem.tables.routes
    held = discipline(routes, problem.options.contention).held
    fixed = routes.latency_ns + routes.send_ns + routes.receive_ns + routes.request_ns

    def column(values: npt.ArrayLike) -> Ints:
        return np.array(values, np.int64).reshape(-1)

    return Jobs(
        group=column(decisions.group),
        may=column(problem.may),
        run_ns=column(tables.run_ns),
        instant=column(tables.instant),
        first=problem.columns.first,
        tensor=problem.columns.tensor,
        maker=column(tables.tensor_op),
        nbytes=column(np.minimum(tables.tensor_bytes, 2**32)),
        free=column(tables.unsent),
        route=column(routes.of),
        fixed_ns=column(fixed[routes.pace]),
        per_byte=_per_byte(routes.bytes_per_s)[routes.pace],
        held_first=column(held.ptr),
        held=column(held.item if len(held.item) else [0]),
        link_per_byte=_per_byte(routes.link_bytes_per_s) if len(routes.link_names) else column([0]),
        lanes=column(np.minimum(tables.lanes, 64)),
        resident=column(problem.resident),
    )


def _per_byte(bytes_per_s: Ints) -> Ints:
    """Nanoseconds per byte, with RATE_BITS of a fraction; 0 where bytes cost no time."""
    rate = np.maximum(bytes_per_s, 1).astype(np.float64)
    found: Ints = np.where(bytes_per_s > 0, np.minimum(1e9 * 2**RATE_BITS / rate, 2.0**30), 0).astype(np.int64)
    return found
