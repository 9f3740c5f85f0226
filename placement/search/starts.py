"""Placements from which a search starts: plans of all other algorithms, an order cut into stretches, list schedules.

`ask` has the plans of all other algorithms, so a search never falls behind one. In large steps the dearest of those of
papers are left out, by the time that machine code takes for an op: in practice the linear program of `m_sct`. No clock
is read: the same step asks the same ones.

`cuts` gives each device a stretch of an order of the groups, by dynamic programming. No stretch may have much more than
its share of the work, or of the memory. Of all such cuts the one is taken over which the least has to cross. Layers
over devices are such cuts; Baechi's m-TOPO (Jeon et al. 2020) fills one device after the other in one order.

`apart` gives each device a part of the step, or a stretch of one (`parts`), and spreads over all what parts share. Data
parallelism with parameters on several servers is such a placement (Dean et al., "Large scale distributed deep
networks", NIPS 2012). Then models with large weights come to these, as in Krizhevsky, "One weird trick for
parallelizing convolutional neural networks", 2014.

`layers` gives each device groups that hand on much among themselves (`layers`), in the order in which these begin.
So the layers of an unrolled network are each on a device, as in Sutskever, Vinyals and Le, "Sequence to sequence
learning with neural networks", NIPS 2014. Where many small ops run faster on processors, these share them.

`besides` sets groups aside that the CPU beside a device runs faster, transfers included (`processors`). So half of the
ops of a step may leave its GPUs at once. The others are cut as if these were not there.

`cuts` and `layers` give a device work in proportion to its speed, and begin with the fastest.

`lists` takes ops by falling upward rank, in machine code, aware of the links that transfers hold. The list is HEFT's
(Topcuoglu, Hariri and Wu 2002). An op goes to the device on which it ends first. Its inputs are sent there and wait for
links that earlier ones hold, as in Sinnen and Sousa, "Communication contention in task scheduling", IEEE TPDS 16(6),
2005. This is done over all devices and over some of them, as fewer are often faster. Those of one task come first, as
each hop between hosts may cost a recurrence more than a second GPU brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placement.effort import Effort, seconds_of
from placement.plan import Plan, completed
from placement.problem import Problem
from placement.scheduling.insertion import plans
from placement.search.decisions import Decisions, Floats, Vector, working
from placement.search.gathering import layers_of, nets_of
from placement.search.parts import spread
from placement.search.processors import Ground, for_cpus, ground, placed
from placement.search.schedules import RATE_BITS, Jobs, ScheduleState
from placement.search.tidying import pulled, values_of
from simulator.columns import Ints, positions
from simulator.errors import InfeasibleError
from simulator.execution.buffers import LIST
from simulator.execution.discipline import discipline

ALWAYS = ("single", "whitepaper", "heft", "tensorflow", "requested")
# microseconds of an op, and of an op for each device: benchmarks/RESULTS.md; cheap ones come first
PAPERS = {"m_topo": (3, 0.1), "cpop": (2, 0.1), "peft": (2, 0.2), "etf": (2, 0.2), "m_etf": (2, 0.2), "m_sct": (180, 4)}
LISTED = (*ALWAYS, *PAPERS)
_LINEAR = 4_600  # ops up to which a linear program's time grows as they do; then by their power of 1.5
_BOTH = ("heft", "cpop", "peft", "etf", "m_etf", "m_sct")  # their function takes the better of two plans
_LEAST_S = 1.0  # what algorithms of papers may take where no time is given
_SHARE = 0.5  # of a time that is given, for those of papers and those that are always asked
_ALWAYS_US = 6  # of an op, what these take
_SLACKS = (0.3, 0.02, 0.8)  # share by which a stretch may pass its part of the whole
_OF_LAYERS = (1.1, 0.6)  # share of a device's part of the work that a layer has at most
_BEGUN = 0.1  # share of a layer's work after which it has begun
_PULLS = 2  # times that all go where most of their values are
_POINTS = 400  # places at which an order may be cut


# --- plans of other algorithms ----------------------------------------------------------------------------------------


class Listed(NamedTuple):
    """A plan of another algorithm."""

    algorithm: str
    plan: Plan


class Asked(NamedTuple):
    """The algorithms that were asked."""

    found: list[Listed]
    failed: list[InfeasibleError]  # of those that find no plan
    names: tuple[str, ...]
    left_out: tuple[str, ...]


def ask(problem: Problem, tell: Callable[[Listed], object] = lambda _: None) -> Asked:
    """Ask each algorithm that fits, and `tell` each plan as soon as it is there; `single` comes first, as it is fast.

    Plans with a group where it may not be are dropped.

    A list schedule is there with and without its order. Its own function takes the better of both by its own cut, which
    takes long.
    """
    from placement.algorithms import load  # late: the table names `search`

    names = fitting(problem.size, len(problem.capacity), problem.effort)
    asked = Asked([], [], names, tuple(name for name in LISTED if name not in names))
    for name in names:
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
            if all(device in allowed for device, allowed in zip(plan.device, problem.allowed, strict=True)):
                asked.found.append(Listed(name, completed(problem, plan)))
                tell(asked.found[-1])
    return asked


def fitting(ops: int, devices: int, effort: Effort) -> tuple[str, ...]:
    """The names of the algorithms that are asked, for a step of so many ops: as many as fit into half of a time that
    is given, so that the search has the other half. Else they may take a second, or what a number of placements takes.
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


def besides(decisions: Decisions, device: npt.ArrayLike) -> Iterator[tuple[Ground, Vector]]:
    """Grounds with no group on a CPU and with those that CPUs should run (`processors`); each with the devices [G] that
    it makes with all else on the fastest device.
    """
    speeds, every = speeds_of(decisions), np.arange(len(decisions.free))
    one = max(range(len(speeds)), key=lambda device: (not decisions.problem.cpu[device], speeds[device]))
    for beside in chain((None,), for_cpus(decisions)):
        own = ground(decisions, device, beside)
        yield own, placed(decisions, own, every, np.zeros_like(every), [one])


def cuts(decisions: Decisions, base: Ground, *, tight: bool) -> Iterator[Vector]:
    """Devices [G] of cuts; a group keeps its device of `base` where it may not have that of its stretch.

    `tight`: memory could be short, so cuts by memory come first.
    """
    speeds = speeds_of(decisions)
    kinds = [(base.work_ns, speeds), (held_by(decisions), np.ones(len(speeds)))]
    crossing = [crossing_of(decisions, order) for order in decisions.orders]
    for slack in _SLACKS:
        for weight, fast in kinds[::-1] if tight else kinds:
            for some in _teams(working(decisions.problem), speeds):
                for row, order in enumerate(decisions.orders):
                    stretch = stretches(crossing[row], weight[order], fast[some], slack)
                    yield placed(decisions, base, order, stretch, some)


def apart(decisions: Decisions, base: Ground) -> Iterator[Vector]:
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


def layers(decisions: Decisions, base: Ground) -> Iterator[Vector]:
    """Devices [G] of layers, in the order in which they begin: on devices that work, all or some, or on CPUs."""
    place = np.full(len(decisions.free), len(decisions.group))
    row = decisions.row[decisions.group[decisions.problem.topological]]
    np.minimum.at(place, row[row >= 0], np.flatnonzero(row >= 0))
    cpus = [device for device, cpu in enumerate(decisions.problem.cpu) if cpu]
    sets = [working(decisions.problem)] + [cpus] * (len(cpus) > 1 and len(cpus) < len(decisions.problem.cpu))
    nets, whole, speeds, seen = nets_of(decisions), base.work_ns.sum(), speeds_of(decisions), set()
    for share in _OF_LAYERS:
        for busy in sets:
            for some in _teams(busy, speeds):
                layer = layers_of(nets, whole * share / len(some))
                order = np.lexsort((place, _begun(layer, place, base.work_ns)[layer]))
                crossing = crossing_of(decisions, order)
                for slack in _SLACKS[:2]:
                    stretch = stretches(crossing, base.work_ns[order], speeds[some], slack)
                    device = placed(decisions, base, order, stretch, some)
                    if device.tobytes() not in seen:
                        seen.add(device.tobytes())
                        yield device


def _begun(layer: Vector, place: Vector, work_ns: Floats) -> Vector:
    """[M] the place at which a tenth of the work of each layer is done."""
    order = np.lexsort((place, layer))
    done = np.cumsum(work_ns[order] + 1)
    whole = np.bincount(layer, work_ns + 1, len(place))
    before = np.cumsum(whole) - whole
    late = np.flatnonzero(done - before[layer[order]] >= _BEGUN * whole[layer[order]])[::-1]
    found = np.zeros(len(place), np.int64)
    found[layer[order[late]]] = place[order[late]]  # the first stays, as it is written last
    return found


def speeds_of(decisions: Decisions) -> Floats:
    """[D] how fast each device does all of the work, of what has a kernel there."""
    times = decisions.problem.tables.kind_ns[decisions.ops].astype(np.float64)
    fastest = np.where(times < 0, np.inf, times).min(axis=1)
    taken = np.where(times < 0, np.where(fastest < np.inf, fastest, 0)[:, None], times).sum(axis=0)
    speed = (1.0 / (taken + 1))[decisions.problem.tables.kind]
    shares: Floats = speed / speed.max()
    return shares


def _teams(busy: Sequence[int], speeds: Floats) -> list[list[int]]:
    """Some sets of these devices, the fastest ones of each size, in their order."""
    fastest = sorted(busy, key=lambda device: -speeds[device])
    return [sorted(fastest[:k], key=busy.index) for k in _counts(len(busy))]


def _counts(devices: int) -> list[int]:
    """The numbers of devices that are tried, of so many."""
    return [k for k in range(devices, 1, -1) if k <= 4 or k in (6, 8, 12, 16, 24, 32) or k == devices]


def held_by(decisions: Decisions) -> Floats:
    """[M] the bytes of each group: resident, and what its ops put out."""
    tables = decisions.problem.tables
    row = decisions.row[decisions.group[tables.tensor_op]]
    kept = (row >= 0) & (tables.forwards != LIST)
    out: Floats = np.bincount(row[kept], tables.tensor_bytes[kept], len(decisions.free)) + decisions.resident.astype(
        float
    )
    return out


def crossing_of(decisions: Decisions, order: Vector) -> Floats:
    """[-1 + groups in the order] what crosses if it is cut behind each place: each value between them once."""
    tables, count = decisions.problem.tables, len(order)
    place = np.append(positions(order, len(decisions.free)), -1)[decisions.row[decisions.group]]
    maker, target = place[tables.tensor_op], place[tables.consumer]
    tensor = np.flatnonzero(np.diff(tables.consumer_ptr))  # whose readers stand together
    first = tables.consumer_ptr[tensor]
    low = np.minimum.reduceat(np.where(target < 0, count, target), first)
    high = np.maximum.reduceat(target, first)
    kept = (maker[tensor] >= 0) & (high >= 0)
    tensor, low, high = tensor[kept], low[kept], high[kept]
    wire_ns = decisions.wire_ns[tensor]
    change: Floats = np.bincount(np.minimum(low, maker[tensor]), wire_ns, count + 1).astype(float)
    change -= np.bincount(np.maximum(high, maker[tensor]), wire_ns, count + 1)
    return np.cumsum(change)[: count - 1]


def stretches(crossing: Floats, weight: Floats, speeds: Floats, slack: float) -> Vector:
    """[groups in the order] the stretch of each under the best cut; where none weighs anything, all weigh as much."""
    bounds = best_cut(crossing, weight + 1e-9, speeds, slack)
    return np.searchsorted(bounds, np.arange(len(weight)), side="right")


def best_cut(crossing: Floats, weight: Floats, speeds: Floats, slack: float) -> Vector:
    """[k - 1] before which groups to cut, so that least crosses and no stretch weighs (1 + slack) times its share.

    Shares are in proportion to the speeds [k] of devices.

    Of a long order it tries some places alone, those where least crosses.
    """
    until, cost = np.append(0.0, np.cumsum(weight)), np.concatenate([[0.0], crossing, [0.0]])
    points = _points(cost)
    until, cost = until[points], cost[points]
    most = np.maximum(until[-1] * (1 + slack) * speeds / speeds.sum(), np.diff(until).max(initial=0)) * (1 + 1e-9)
    best = np.where(until <= most[0], cost, np.inf)  # of one stretch more each time, by where the last ends
    before: list[Vector] = []
    same = False  # whether the last stretch changed nothing: then the next one of its weight doesn't, either
    for limit, last in zip(most[1:], most, strict=False):
        if not same or limit != last:
            first = np.searchsorted(until, until - limit)  # where a stretch that ends at each point may begin
            before.append(_lowest(best, first))
            further = best[before[-1]] + cost
            same = np.array_equal(best, further)
            best = further
        else:
            before.append(before[-1])
    at, bounds = len(until) - 1, []
    for taken in reversed(before):
        at = int(taken[at])
        bounds.append(at)
    found: Vector = points[np.array(bounds[::-1], np.int64)]
    return found


def _points(cost: Floats) -> Vector:
    """The first and the last place, and of equal shares of those between the one that costs least."""
    inner = np.arange(1, len(cost) - 1)
    if len(inner) > _POINTS:
        width = -(-len(inner) // _POINTS)
        shares = np.full((-(-len(inner) // width), width), np.inf)
        shares.reshape(-1)[: len(inner)] = cost[inner]
        inner = 1 + np.arange(len(shares)) * width + shares.argmin(axis=1)
    return np.concatenate([[0], inner, [len(cost) - 1]])


def _lowest(values: Floats, first: Vector) -> Vector:
    """The place of the least of `values` from `first` up to each place; `first` never falls."""
    found = np.empty(len(values), np.int64)
    queue = [0] * len(values)
    head = tail = 0
    listed, firsts = values.tolist(), first.tolist()
    for at, value in enumerate(listed):
        while tail > head and listed[queue[tail - 1]] > value:
            tail -= 1
        queue[tail] = at
        tail += 1
        while queue[head] < firsts[at]:
            head += 1
        found[at] = queue[head]
    return found


# --- list schedules --------------------------------------------------------------------------------------------------


def lists(decisions: Decisions, ranks: Ints) -> Iterator[Vector]:
    """Devices [G] of list schedules, with and without links; those that run out of room are left out."""
    from placement.search.compiled import schedule as run  # late: it loads LLVM

    problem = decisions.problem
    place = positions(problem.topological, len(ranks))
    order = np.lexsort((place, -ranks)).astype(np.int64)
    jobs, devices = _jobs(decisions), len(problem.capacity)
    lanes = np.minimum(problem.tables.lanes, 64)
    links = max(len(problem.tables.routes.link_names), 1)
    for some in subsets(problem, speeds_of(decisions)):
        use = np.zeros(devices, np.int64)
        use[list(some)] = 1
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
                lane_ns=np.zeros(devices * int(lanes.max()), np.int64),
                room=np.array(problem.capacity, np.int64),
                order=order,
            )
            run(jobs._replace(may=np.ascontiguousarray(chosen.reshape(-1))), state, aware)
            if state.room.min() < 0:
                continue
            first = np.array([allowed[0] if allowed else 0 for allowed in problem.allowed], np.int64)
            yield np.where(state.device < 0, first, state.device)


def subsets(problem: Problem, speeds: Floats) -> list[tuple[int, ...]]:
    """Some sets of devices: all, those of a task of each sort, and the fastest GPUs with all CPUs."""
    devices = range(len(problem.capacity))
    cpus = tuple(device for device in devices if problem.cpu[device])
    others = tuple(sorted((one for one in devices if not problem.cpu[one]), key=lambda one: -speeds[one]))
    task = problem.cluster.task_of
    found = [tuple(devices)]
    of_task = [tuple(device for device in devices if task[device] == one) for one in sorted(set(task))]
    if len(of_task) > 1:
        kinds = {tuple(problem.cluster.kind_of[device] for device in some): some for some in of_task[::-1]}
        found += sorted(kinds.values(), key=lambda some: -sum(speeds[device] for device in some if device in others))
    found += [others[:count] + cpus for count in (2, 3, 4, 6) if count < len(others)]
    return found


def _jobs(decisions: Decisions) -> Jobs:
    """The input of the schedule, as columns of 64 bits."""
    problem = decisions.problem
    tables, routes = problem.tables, problem.tables.routes
    held = discipline(routes, problem.options.contention).held
    may = np.zeros((len(problem.allowed), len(problem.capacity)), np.int64)
    for group, allowed in enumerate(problem.allowed):
        may[group, list(allowed)] = 1
    fixed = routes.latency_ns + routes.send_ns + routes.receive_ns + routes.request_ns
    inputs = [np.array(tensors, np.int64) for tensors in problem.inputs]

    def column(values: npt.ArrayLike) -> Vector:
        return np.array(values, np.int64).reshape(-1)

    return Jobs(
        group=column(decisions.group),
        may=column(may),
        run_ns=column(tables.run_ns),
        instant=column(tables.instant),
        first=column(np.append(0, np.cumsum([len(tensors) for tensors in inputs]))),
        tensor=np.concatenate([*inputs, np.zeros(0, np.int64)]),
        maker=column(tables.tensor_op),
        nbytes=column(np.minimum(tables.tensor_bytes, 2**32)),
        free=column(tables.stays | tables.replicable),
        route=column(routes.of),
        fixed_ns=column(fixed[routes.pace]),
        per_byte=_per_byte(routes.bytes_per_s)[routes.pace],
        held_first=column(held.ptr),
        held=column(held.item if len(held.item) else [0]),
        link_per_byte=_per_byte(routes.link_bytes_per_s) if len(routes.link_names) else column([0]),
        lanes=column(np.minimum(tables.lanes, 64)),
        resident=column(problem.resident),
    )


def _per_byte(bytes_per_s: Ints) -> Vector:
    """Nanoseconds per byte, with RATE_BITS of a fraction; 0 where bytes cost no time."""
    rate = np.maximum(bytes_per_s, 1).astype(np.float64)
    found: Vector = np.where(bytes_per_s > 0, np.minimum(1e9 * 2**RATE_BITS / rate, 2.0**30), 0).astype(np.int64)
    return found
