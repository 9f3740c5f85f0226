"""A step on a cluster, ready to be placed, bounded and run under many assignments.

Some assignments are cut before they are judged, as a master and its workers cut them otherwise than one session. A
master's cut sends a tensor to a task once, and the worker there hands it on to its other devices. Recvs of references
may wait for less or for more than where one cut does all. A loop across devices has a control loop on each, for whose
predicate its Recvs wait. The copies of a constant wait for its control inputs where they are read. The tables of a
step know none of these, so such a plan takes as long as its pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.assignment import Assignment
from simulator.columns import Flags, Ids, flags, ids
from simulator.errors import SimvizError
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_partitions, of_step
from simulator.execution.transfers import copied, crosses, hands_on
from simulator.graph.dtypes import REF
from simulator.graph.op_classes import ENTERS
from simulator.partitioning.cut import partition
from simulator.partitioning.levels import flavour_of
from simulator.partitioning.passes.control_flow import moves_of_step
from simulator.partitioning.passes.replication import is_small
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step


@dataclass(frozen=True, eq=False)
class Given:
    """The arguments from which a step was prepared."""

    graph: Graph
    step: Step
    cluster: Cluster
    costs: CostTable

    def __repr__(self) -> str:
        return repr_of(self, repr(self.graph), repr(self.cluster))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step on a cluster, ready for many assignments. Axes: N nodes of the graph, n ops of the tables."""

    tables: Tables
    names: tuple[str, ...]  # [N]
    moves: tuple[tuple[int, int], ...]  # control-flow node, the one whose device it takes in the cut; N + c: a client's
    given: Given | None = None  # None: tables alone, which can't be cut
    options: SimulationOptions = SimulationOptions()

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.tables), "op"), counted(len(self.names), "node"))

    def under(self, options: SimulationOptions) -> Prepared:
        """The same step, to be run by other options. Raises SimvizError where these change its loops or branches."""
        if not options.unrolls_like(self.options):
            raise SimvizError("These options have other trips, branches or another seed; prepare the step with them.")
        if options.order == "tensorflow" != self.options.order and self.given is not None:
            return prepare(self.given.graph, self.given.step, self.given.cluster, self.given.costs, options)
        return replace(self, options=options)

    def check(self, graph: Graph, cluster: Cluster) -> None:
        """Raise SimvizError where it was made of another graph, or for other devices."""
        devices = self.tables.run_ns.shape[1]
        known = cluster if self.given is None else self.given.cluster  # tables alone say no names
        if len(self.names) != len(graph) or self.names != tuple(graph.names):
            said = f"The prepared step is of a graph of {len(self.names):,} nodes, not of this one"
            raise SimvizError(f"{said}; prepare it again.")
        if devices != len(cluster) or known.device_names != cluster.device_names:
            said = f"The prepared step is of {devices:,} devices, which are not the {len(cluster):,} of {cluster.name}"
            raise SimvizError(f"{said}; prepare it again.")

    @cached_property
    def column(self) -> Ids:
        """[n] the node whose device each op takes; ~device: an op of the client is always there."""
        beside = np.arange(len(self.names) + int((self.tables.bound >= 0).sum()))
        beside[len(self.names) :] = ~self.tables.bound[self.tables.bound >= 0].astype(np.int64)
        for node, other in self.moves:
            beside[node] = beside[other]
        return ids(np.where(self.tables.bound >= 0, ~self.tables.bound, beside[self.tables.node]))

    def devices(self, assignment: npt.NDArray[np.integer]) -> Ids:
        """[n] the device of each op under an assignment [N]."""
        return devices_of(self.column, assignment)

    @cached_property
    def lacks_kernels(self) -> bool:
        """Some op cannot run everywhere."""
        return bool((self.tables.kind_ns[self.tables.bound < 0] < 0).any())


def devices_of(column: Ids, assignment: npt.NDArray[np.integer]) -> Ids:
    """[n] the device of each op: of the node that `column` names, else the one that it holds as ~device."""
    row = np.maximum(column, 0)  # ~device is no row, and may be far beyond the rows of a small graph
    return ids(np.where(column >= 0, assignment[row], ~column))


def prepare(
    graph: Graph,
    step: Step,
    cluster: Cluster,
    costs: CostTable,
    options: SimulationOptions = SimulationOptions(),
) -> Prepared:
    """Reduce a step to what every assignment of it shares; by the options it will be run, as by `simulate`."""
    tables = of_step(graph, step, cluster, costs, options)
    clients = int((tables.bound >= 0).sum())
    there = {*np.flatnonzero(step.runs).tolist(), *range(len(graph), len(graph) + clients)}
    moves = (move for move in moves_of_step(graph, step) if there.issuperset(move))
    given = Given(graph, step, cluster, costs)
    return Prepared(tables, graph.names, tuple(moves), given, options)


def may_hand_on(cluster: Cluster, flavour: str) -> bool:
    """Tell whether a cut by this flavour may send a tensor to a task that hands it on to more of its devices."""
    return flavour_of(flavour, cluster) == "master" and 1 < len(cluster.tasks) < len(cluster)


def cut_first(prepared: Prepared, rows: npt.NDArray[np.int32], flavour: str) -> npt.NDArray[np.bool_]:
    """[B] the assignments, of [B, N], that have to be cut: their cuts hand a tensor on, add loops or wait otherwise.

    In the order of TensorFlow's executor these are all with a transfer where tasks hand on. There the order of a
    worker's Recvs hangs on all that its task has. And a thread posts each Recv of a reference that waits.
    """
    found = np.zeros(len(rows), bool)
    if prepared.given is None:
        return found
    tables, cluster = prepared.tables, prepared.given.cluster
    source = tables.tensor_op[tables.edge_tensor]
    handing, executor = may_hand_on(cluster, flavour), prepared.options.order == "tensorflow"
    apart, waiting = _apart(prepared, source, posted=executor), _waiting_constants(prepared)
    if not handing and not len(apart) and not waiting.any():
        return found
    task, (giver, reader) = ids(cluster.task_of), _references(prepared) if handing else (ids([]), ids([]))
    for row, device in enumerate(map(prepared.devices, rows)):
        found[row] = (device[source[apart]] != device[tables.consumer[apart]]).any()
        found[row] |= waiting.any() and copied(tables, device, waiting).any()
        if handing and not found[row] and executor:
            found[row] = crosses(tables, device).any()
        elif handing and not found[row]:
            found[row] = hands_on(tables, device, task) or _waits_otherwise(tables, device, task, giver, reader)
    return found


def _apart(prepared: Prepared, source: npt.NDArray[np.integer], *, posted: bool) -> npt.NDArray[np.intp]:
    """The edges which only a cut knows to cross: of loops, and with `posted` of references whose Recvs wait."""
    found = _inside_loops(prepared, source)
    late = np.flatnonzero(prepared.tables.post[prepared.tables.edge_tensor] >= 0)
    return np.union1d(found, late) if posted else found


def _waiting_constants(prepared: Prepared) -> Flags:
    """[T] constants with control inputs that a cut copies to the CPUs where they are read (`copied`)."""
    given, tables = prepared.given, prepared.tables
    assert given is not None
    graph, found = given.graph, np.zeros(len(tables.tensor_op), bool)
    if int(tables.cpu.sum()) < 2:
        return flags(found)
    waits = np.diff(tables.in_ptr) > 0
    waits[tables.tensor_op[tables.tensor_row < 0]] = False  # another op waits for their end
    for tensor in np.flatnonzero(waits[tables.tensor_op] & (np.diff(tables.consumer_ptr) > 1)).tolist():
        op = tables.tensor_op[tensor]
        node = int(tables.node[op])
        found[tensor] = tables.bound[op] < 0 and graph.ops[node] == "Const" and is_small(graph, node)
    return flags(found)


def _inside_loops(prepared: Prepared, source: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """The edges within a loop, with those of the values that enter it: a device of its own at one end needs a loop."""
    given, tables = prepared.given, prepared.tables
    assert given is not None
    if len(tables.iterations) == 1:
        return np.flatnonzero(np.zeros(0, bool))
    ops = given.graph.ops
    inside = tables.iteration > 0
    entering = np.array([row < len(ops) and ops[row] in ENTERS for row in tables.node.tolist()], bool)
    return np.flatnonzero((inside | entering)[source] & inside[tables.consumer])


def _references(prepared: Prepared) -> tuple[Ids, Ids]:
    """The ops at both ends of each reference that is read."""
    given, tables = prepared.given, prepared.tables
    assert given is not None
    graph = given.graph
    op = np.full(len(graph), -1)
    op[tables.node[::-1]] = np.arange(len(tables))[::-1]  # an op of the node's; all of them share its device
    edge = np.flatnonzero(graph.edge_tensor >= 0)
    edge = edge[graph.tensor_dtype[graph.edge_tensor[edge]] > REF]
    edge = edge[(op[graph.edge_src[edge]] >= 0) & (op[graph.edge_dst[edge]] >= 0)]
    return ids(op[graph.edge_src[edge]]), ids(op[graph.edge_dst[edge]])


def _waits_otherwise(tables: Tables, device: Ids, task: Ids, source: Ids, target: Ids) -> bool:
    """A reader of another device's reference has inputs from another task and from its own task's devices.

    The Recv of a reference waits for its reader's other inputs (§5.6). A master's waits for those that its task has or
    gets, wherever there. A worker's waits also for references that came from another task and so are values now.
    """
    readers = np.unique(target[device[source] != device[target]])
    if not len(readers):
        return False
    edge = np.flatnonzero(np.isin(tables.consumer, readers))
    reader, giver = tables.consumer[edge], tables.tensor_op[tables.edge_tensor[edge]]
    away = task[device[giver]] != task[device[reader]]
    beside = ~away & (device[giver] != device[reader])
    return bool(np.isin(reader[away], reader[beside]).any())


def pieces(
    prepared: Prepared, assignment: npt.NDArray[np.integer], priority: npt.NDArray[np.integer] | None, flavour: str
) -> tuple[Tables, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The pieces of an assignment [N] in a cut of that flavour: tables, [1, n] devices, [0 or 1, n] orders.

    `priority` is [N]; None: there is none.
    """
    given = prepared.given
    assert given is not None
    names = given.cluster.device_names
    placed = Assignment(names, ids(assignment), ids(np.zeros(len(assignment))), "given", "given")
    cut = partition(given.graph, placed, given.cluster, step=given.step, flavour=flavour, legal=False)
    tables, device = of_partitions(cut, given.cluster, given.costs, prepared.options)
    if priority is None:
        return tables, device[None], np.zeros((0, len(tables)), np.int32)
    first = np.argsort(priority[cut.origin[tables.node]], kind="stable")
    return tables, device[None], first[None].astype(np.int32)
