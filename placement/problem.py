"""The placement problem: one step's tables, the groups, and the devices that each group may use, as plain lists.

Algorithms that search need nothing else; `graph` is for one whose rules speak of the nodes themselves. The page
docs/algorithms.md is for those who write an algorithm of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from placement.columns import Columns, columns_of, distinct_rows
from placement.effort import DEFAULT_EFFORT, Effort
from simulator.cluster.cluster import Cluster
from simulator.columns import Ints, ints, smallest_topological
from simulator.errors import InfeasibleError
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import Prepared, may_hand_on
from simulator.execution.routes import Pace, alone_ns
from simulator.execution.tables import Tables
from simulator.graph.graph import Graph
from simulator.placer.constraints import Constraints
from simulator.units import NEVER as NEVER
from simulator.units import Bytes, Nanos, show_bytes
from simulator.wording import counted, repr_of, some


@dataclass(frozen=True, eq=False)
class Problem:
    """Axes: n ops that run, T tensors, G groups, D devices. Lists are not to be changed.

    A node in a loop is several ops, one per iteration, all of one group. The groups are those of the whole graph, then
    one for each tensor that the client feeds or fetches. Such an op is alone and has one device, the client's.
    """

    graph: Graph
    prepared: Prepared
    cluster: Cluster
    constraints: Constraints
    group: list[int]  # [n] row of the op's group
    ops: list[list[int]]  # [G] the group's ops that run
    lawful: list[tuple[int, ...]]  # [G] devices that the constraints leave, the one that TensorFlow prefers first
    allowed: list[tuple[int, ...]]  # [G] those of them that have a cost for every member, and room
    resident: list[Bytes]  # [G]
    instant: list[bool]  # [n]
    nbytes: list[Bytes]  # [T]
    capacity: list[Bytes]  # [D]
    cpu: list[bool]  # [D]
    home: list[int]  # [D] CPU of the device's task
    seen: Mapping[int, int]  # node of the graph -> device that TensorFlow chose; of use where its choice is by chance
    flavour: str  # as in `partition`: how it would be cut
    effort: Effort = DEFAULT_EFFORT  # what an algorithm that searches may spend

    def __repr__(self) -> str:
        sizes = [counted(len(self.group), "op"), counted(len(self.ops), "group"), counted(len(self.cluster), "device")]
        return repr_of(self, *sizes)

    @cached_property
    def topological(self) -> Ints:
        """[n] the ops, each after its predecessors; among ready ones the smaller row first. Read-only."""
        tables = self.tables
        source, target = tables.tensor_op[tables.edge_tensor], tables.consumer
        if (source < target).all():
            return ints(np.arange(len(tables)))
        return ints(smallest_topological(np.bincount(target, minlength=len(tables)), source, target))

    @cached_property
    def run(self) -> list[list[Nanos]]:
        """[n][D] the time of an op, -1: no kernel. Like the lists below it is made when it is asked for."""
        found: list[list[Nanos]] = self.tables.run_ns.tolist()
        return found

    @cached_property
    def inputs(self) -> list[list[int]]:
        """[n] tensors, each once."""
        return distinct_rows(self.tables.in_tensor.tolist(), self.tables.in_ptr.tolist())

    @cached_property
    def outputs(self) -> list[range]:
        """[n] tensors."""
        tensors = range(len(self.tables.tensor_op))
        return [tensors[a:b] for a, b in pairwise(self.tables.tensor_ptr.tolist())]

    @cached_property
    def consumers(self) -> list[list[int]]:
        """[T] ops, each once."""
        return distinct_rows(self.tables.consumer.tolist(), self.tables.consumer_ptr.tolist())

    @cached_property
    def may(self) -> npt.NDArray[np.bool_]:
        """[G, D] whether a group may use a device: `allowed` as a matrix."""
        sets = {devices: number for number, devices in enumerate(dict.fromkeys(self.allowed))}
        inside = np.zeros((len(sets), len(self.capacity)), bool)
        for devices, number in sets.items():
            inside[number, list(devices)] = True
        return inside[[sets[devices] for devices in self.allowed]]

    @cached_property
    def merge(self) -> list[bool]:
        """[n] whether an op starts at the first of its data inputs, as a Merge does."""
        return _listed(self.tables.merge)

    @cached_property
    def control(self) -> list[bool]:
        """[T] whether it is a control edge, which moves no bytes."""
        return _listed(self.tables.tensor_row < 0)

    @cached_property
    def stays(self) -> list[bool]:
        """[T] whether it is a signal that every device has at once."""
        return _listed(self.tables.stays)

    @cached_property
    def replicable(self) -> list[bool]:
        """[T] whether it is a small constant: CPUs get copies of it instead of transfers."""
        return _listed(self.tables.replicable)

    @cached_property
    def columns(self) -> Columns:
        """The same as columns of whole numbers."""
        return columns_of(self.tables, self.group, self.allowed, self.resident)

    @property
    def size(self) -> int:
        """The work on the step, in ops of at most four reads each: a dense graph counts by its reads."""
        return max(len(self.group), len(self.tables.consumer) // 4)

    @cached_property
    def tight(self) -> bool:
        """Whether memory may run out: a device holds a value at most twice, its own and a copy in its host's memory."""
        tables = self.tables
        most = 2 * int(tables.tensor_bytes.sum()) + int(tables.scratch_bytes.sum()) + int(tables.resident_bytes.sum())
        return most > min(self.capacity)

    @property
    def prioritised(self) -> bool:
        """Whether a plan may say in which order devices take their ops; one that does not runs by ready time."""
        return self.options.order in ("auto", "priority")

    @property
    def handing(self) -> Sequence[int]:
        """[D] the task of each device if tasks hand on what comes from another one, as in a master's cut; else ()."""
        return self.cluster.task_of if may_hand_on(self.cluster, self.flavour) else ()

    @property
    def tables(self) -> Tables:
        """The step's tables."""
        return self.prepared.tables

    @property
    def options(self) -> SimulationOptions:
        """The options by which a plan will be simulated."""
        return self.prepared.options

    def transfer_ns(self, source: int, target: int, nbytes: Bytes) -> Nanos:
        """The time of a transfer that waits for nothing, packed and unpacked; NEVER where no route leads."""
        rows, paces = self._paces
        pace = paces[rows[source][target]]
        return NEVER if pace is None else alone_ns(pace, nbytes)

    def transfers_ns(self, source: int, nbytes: Bytes) -> list[Nanos]:
        """[D] the same from one device to each."""
        rows, paces = self._paces
        times = [NEVER if pace is None else alone_ns(pace, nbytes) for pace in paces]
        return [times[row] for row in rows[source]]

    @cached_property
    def _paces(self) -> tuple[list[list[int]], Sequence[Pace | None]]:
        of, paces = self.tables.routes.paces
        return of.tolist(), paces


def pose(
    graph: Graph,
    prepared: Prepared,
    cluster: Cluster,
    constraints: Constraints,
    *,
    seen: Mapping[int, int] = MappingProxyType({}),
    flavour: str = "auto",
    effort: Effort = DEFAULT_EFFORT,
) -> Problem:
    """State the problem; a group that no device has costs or memory for is left without one."""
    tables = prepared.tables
    clients = np.flatnonzero(tables.bound >= 0)
    group = constraints.group[tables.node].tolist()
    for row, op in enumerate(clients.tolist(), len(constraints.members)):
        group[op] = row
    lawful = [*constraints.allowed, *((device,) for device in tables.bound[clients].tolist())]
    ops: list[list[int]] = [[] for _ in lawful]
    resident = [0] * len(lawful)
    for op, (row, nbytes) in enumerate(zip(group, tables.resident_bytes.tolist(), strict=True)):
        ops[row].append(op)
        resident[row] += nbytes
    capacity = [device.memory_bytes for device in cluster.devices]
    return Problem(
        graph=graph,
        prepared=prepared,
        cluster=cluster,
        constraints=constraints,
        group=group,
        ops=ops,
        lawful=lawful,
        allowed=_usable(tables, lawful, group, resident, capacity),
        resident=resident,
        instant=tables.instant.tolist(),
        nbytes=tables.tensor_bytes.tolist(),
        capacity=capacity,
        cpu=tables.cpu.tolist(),
        home=tables.home.tolist(),
        seen=seen,
        flavour=flavour,
        effort=effort,
    )


def _usable(
    tables: Tables, lawful: list[tuple[int, ...]], group: list[int], resident: list[Bytes], capacity: list[Bytes]
) -> list[tuple[int, ...]]:
    """[G] the lawful devices that have a cost for every member that runs, and room for what stays resident."""
    able = np.ones((len(lawful), len(capacity)), bool)
    op, device = np.nonzero(tables.run_ns < 0)
    able[np.array(group, np.int64)[op], device] = False
    smallest = min(capacity, default=0)
    for row in [row for row, nbytes in enumerate(resident) if nbytes > smallest]:
        able[row] &= [resident[row] <= room for room in capacity]
    masks = able.view(np.dtype((np.void, len(capacity))))[:, 0].tolist()  # a byte for each device
    known = {key: tuple(d for d in key[0] if key[1][d]) for key in set(zip(lawful, masks, strict=True))}
    return [known[key] for key in zip(lawful, masks, strict=True)]


def require_feasible(problem: Problem) -> None:
    """Raise InfeasibleError for the first group that no allowed device has costs or memory for."""
    for row, devices in enumerate(problem.allowed):
        if not devices:
            raise _no_device(problem, row)


def no_room(problem: Problem, row: int, room: Sequence[Bytes]) -> InfeasibleError:
    """The error for a group whose resident bytes no allowed device has left."""
    names = [problem.tables.names[op] for op in problem.ops[row]]
    devices = [problem.cluster.devices[d].name for d in problem.allowed[row]]
    left = some([f"{problem.cluster.devices[d].short} {show_bytes(max(room[d], 0))}" for d in problem.allowed[row]])
    return InfeasibleError(
        f"No device has room for the {show_bytes(problem.resident[row])} that stay resident with {names[0]!r}: left "
        f"are {left}. Use devices with more memory or more of them, or ask for less to be held.",
        members=names,
        allows=dict.fromkeys(names, devices),
    )


def _no_device(problem: Problem, row: int) -> InfeasibleError:
    tables, devices, before = problem.tables, problem.cluster.devices, problem.lawful[row]
    ops, resident = problem.ops[row], problem.resident[row]
    names = [tables.names[op] for op in ops]
    able = tables.run_ns >= 0
    allows = {tables.names[op]: tuple(devices[d].name for d in before if able[op, d]) for op in ops}
    largest = max(devices[d].memory_bytes for d in before)
    if resident > largest:
        why = f"it keeps {show_bytes(resident)} resident, and its largest possible device has {show_bytes(largest)}"
        remedy = "Use devices with more memory"
    else:
        why = "no single device that it may use has a cost for each of them"
        remedy = "Give a cluster with such a device"
    tied = f" and {counted(len(names) - 1, 'other node')} that must share its device" if len(names) > 1 else ""
    return InfeasibleError(
        f"Cannot place {names[0]!r}{tied}: {why}. {remedy}.",
        members=names,
        allows=allows,
    )


def _listed(column: npt.NDArray[np.bool_]) -> list[bool]:
    found: list[bool] = column.tolist()
    return found
