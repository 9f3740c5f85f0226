"""The trace: every task that ran, of an op or of a transfer, and what memory held, as columns.

A task is an op, or a stretch of a transfer: the request of its Recv, packing, links, latency, unpacking. It waits for
events, which are ends or starts of other tasks, and may wait for its resource after that. All else about time is read
from this one table. `Trace.ops` and `Trace.moments` show it by op and by transfer.

A lane is one queue of one device, numbered within the device. Nodes that only stand for communication (Send, Recv and
the dummies of control edges) take no lane and are not shown. Other nodes that take no time (fed nodes, Const, NoOp) are
shown on lane 0. What is dead does not run and is not shown. A node in a loop runs once per iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from simulator.columns import Flags, Ids, Ints, flags, ids, ints, stable_order
from simulator.notebook import Drawn
from simulator.units import Nanos, show_nanos
from simulator.wording import counted, repr_of


class Kind(IntEnum):
    """The work of a task. All but the first are stretches of a transfer."""

    OP = 0
    REQUEST = 1  # from the posted Recv until the sender knows of it
    PACK = 2  # the processor at the source works
    LINK = 3  # it has a serial link to itself
    FLOW = 4  # its bytes are on links that others may use at the same time, or are handed over in memory
    LATENCY = 5
    UNPACK = 6  # the processor at the target works


class Event(IntEnum):
    """The event of another task for which a task waits."""

    END = 0
    START = 1
    FIRST = 2  # the end of a data input of a Merge, of which the first alone counts


@dataclass(frozen=True, eq=False)
class TraceTasks:
    """Tasks; those of each kind are in order of (client, step). Axes: J tasks, E events that they wait for."""

    kind: Ids  # [J] `Kind`
    of: Ids  # [J] of an op: row of `Trace.instances`; else row of `Trace.transfers`
    resource: Ids  # [J] row of Cluster.devices, or their number + row of Cluster.links; -1: none
    lane: Ids  # [J] lane within its device, 0 on a link; -1: it takes none
    ready_ns: Ints  # [J] the last event for which it waits
    start_ns: Ints  # [J]
    end_ns: Ints  # [J]
    need_ptr: Ids  # [J+1]
    need: Ids  # [E] the task whose event it is
    event: Ids  # [E] `Event`
    devices: int  # of the cluster

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.kind), "task"))

    def rows(self, *kinds: Kind) -> Ids:
        """The tasks of these kinds, ascending."""
        return ids(np.flatnonzero(np.isin(self.kind, kinds)))

    def links(self, rows: Ids) -> Ids:
        """The link of each of these tasks of the kind LINK."""
        return ids(self.resource[rows] - self.devices)

    @cached_property
    def moments(self) -> Moments:
        """The moments of each transfer."""
        return _moments(self)


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of each transfer. Axis: X rows of `Trace.transfers`."""

    asked_ns: Ints  # [X] the value is there and asked for
    packed_ns: Ints  # [X] as before where the protocol asks for no work
    sent_ns: Ints  # [X] on the wire: its first link begins with it; of what shares links: its latency begins
    crossing_ns: Ints  # [X] how long its bytes take on the slowest link; where links are shared, since it was sent
    through_ns: Ints  # [X] its bytes are through all of its links
    arrived_ns: Ints  # [X] a latency later; at once what shares links, whose latency comes first
    unpacked_ns: Ints  # [X] the readers have it

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.asked_ns), "transfer"))


def _moments(tasks: TraceTasks) -> Moments:
    kind, of, start, end = tasks.kind, tasks.of, tasks.start_ns, tasks.end_ns
    count = int(of[kind != Kind.OP].max(initial=-1)) + 1
    moved = np.flatnonzero((kind != Kind.OP) & (kind != Kind.REQUEST))
    wires, sent = tasks.rows(Kind.LINK, Kind.FLOW), tasks.rows(Kind.LINK, Kind.FLOW, Kind.LATENCY)
    never = np.iinfo(np.int64).max
    asked_ns, sent_ns = np.full(count, never), np.full(count, never)
    through_ns, arrived_ns, crossing_ns = (np.zeros(count, np.int64) for _ in range(3))
    np.minimum.at(asked_ns, of[moved], tasks.ready_ns[moved])
    np.minimum.at(sent_ns, of[sent], start[sent])
    np.maximum.at(through_ns, of[wires], end[wires])
    np.maximum.at(arrived_ns, of[sent], end[sent])
    since = np.where(kind[wires] == Kind.LINK, start[wires], sent_ns[of[wires]])
    np.maximum.at(crossing_ns, of[wires], end[wires] - since)
    packed_ns, unpacked_ns = asked_ns.copy(), arrived_ns.copy()
    for found, wanted in ((packed_ns, Kind.PACK), (unpacked_ns, Kind.UNPACK)):
        rows = tasks.rows(wanted)
        found[of[rows]] = end[rows]
    columns = (asked_ns, packed_ns, sent_ns, crossing_ns, through_ns, arrived_ns, unpacked_ns)
    return Moments(*map(ints, columns))


@dataclass(frozen=True, eq=False)
class OpInstances:
    """The ops of the tasks, in their order. Axis: O."""

    node: Ids  # [O] row of Partitions.graph
    iteration: Ids  # [O] row of `Trace.iterations`
    shown: Flags  # [O] not made by the cut, and not dead
    client: Ids  # [O] 0 while there is one client
    step: Ids  # [O] 0 while there is one step

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.node), "op"))


@dataclass(frozen=True, eq=False)
class TraceTransfers:
    """The transfers of the tasks, in order of (client, step, iteration, transfer of the partitions). Axis: X."""

    row: Ids  # [X] row of the partitions' transfers
    nbytes: Ints  # [X] 0 for a dead one, -1 unknown
    iteration: Ids  # [X] row of `Trace.iterations`
    dead: Flags  # [X] only says that there is no value: takes no bytes
    client: Ids  # [X]
    step: Ids  # [X]

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.row), "transfer"))

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class OpRuns:
    """The ops that are shown, in order of (start, device, lane), ties as in `Tables`. Axis: S."""

    task: Ids  # [S] row of `Trace.tasks`
    node: Ids  # [S] row of Partitions.graph
    iteration: Ids  # [S] row of `Trace.iterations`
    client: Ids  # [S]
    step: Ids  # [S]
    device: Ids  # [S] row of Cluster.devices
    lane: Ids  # [S] within the device
    ready_ns: Ints  # [S]
    start_ns: Ints  # [S]
    end_ns: Ints  # [S]

    def __len__(self) -> int:
        return len(self.node)

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self), "run"))


@dataclass(frozen=True, eq=False)
class Allocations:
    """Every stretch of memory with its life: outputs, received copies, scratch. Axis: A allocations.

    Not among them: what is resident, and outputs that are a view of another buffer or written over it, which they keep
    alive instead.
    """

    tensor: Ids  # [A] tensor of Partitions.graph; -1 - node: scratch of that node
    transfer: Ids  # [A] row of the trace's transfers that brought this copy, -1: it was made here
    device: Ids  # [A]
    start_ns: Ints  # [A]
    end_ns: Ints  # [A]
    nbytes: Ints  # [A]

    def __repr__(self) -> str:
        return repr_of(self, f"{len(self.nbytes):,} stretches of memory")


@dataclass(frozen=True, eq=False)
class Residents:
    """Variables and constants of the nodes that run, which a device holds all the time. Axis: R of them."""

    node: Ids  # [R] row of Partitions.graph
    device: Ids  # [R]
    nbytes: Ints  # [R]

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.nbytes), "node"))


@dataclass(frozen=True, eq=False)
class Trace(Drawn):
    """One simulated step, or the recorded steps of a training. Axes: M memory events, D devices, I iterations."""

    tasks: TraceTasks
    instances: OpInstances
    transfers: TraceTransfers
    makespan: Nanos
    busy_ns: Ints  # [D] lane time in which ops ran and transfers were packed and unpacked
    memory_device: Ids  # [M] one row per change, in order of time
    memory_time_ns: Ints  # [M]
    memory_bytes: Ints  # [M] in use on that device from that moment
    peak_bytes: Ints  # [D]
    resident_bytes: Ints  # [D] before the step begins and after it ends
    iterations: tuple[tuple[int, ...], ...] = ((),)  # [I] iteration of each loop around, outermost first
    order: str = "fifo"  # how a device chose among ready ops
    contention: str = "serial"  # how transfers shared a link that does not say it itself
    engine: str = "python"  # which loop ran it
    critical: Ids | None = None  # [..] tasks that set the makespan, in order; each ends when the next starts
    notes: tuple[str, ...] = ()  # loops run once, ...
    dead_fetches: tuple[str, ...] = ()  # what the client never gets, whatever is chosen: TensorFlow refuses the step
    endless: tuple[str, ...] = ()  # of the notes those on loops that TensorFlow never ends
    peak_ns: Ints | None = None  # [D] when the peak was reached first
    allocations: Allocations | None = None  # whose memory it was
    residents: Residents | None = None  # whose memory it was before the step began

    def __repr__(self) -> str:
        ops, transfers = counted(len(self.ops), "op"), counted(len(self.transfers), "transfer")
        return repr_of(self, show_nanos(self.makespan), ops, transfers)

    @property
    def moments(self) -> Moments:
        """The moments of each transfer."""
        return self.tasks.moments

    @cached_property
    def ops(self) -> OpRuns:
        """The ops that ran: a row for each iteration and step."""
        tasks, known = self.tasks, self.instances
        rows = tasks.rows(Kind.OP)[known.shown]  # instances are in the order of their tasks
        lane = np.maximum(tasks.lane[rows], 0)
        order = stable_order(tasks.start_ns[rows], tasks.resource[rows], lane, rows)
        rows = rows[order]
        of = tasks.of[rows]
        return OpRuns(
            task=ids(rows),
            node=ids(known.node[of]),
            iteration=ids(known.iteration[of]),
            client=ids(known.client[of]),
            step=ids(known.step[of]),
            device=ids(tasks.resource[rows]),
            lane=ids(lane[order]),
            ready_ns=ints(tasks.ready_ns[rows]),
            start_ns=ints(tasks.start_ns[rows]),
            end_ns=ints(tasks.end_ns[rows]),
        )

    @cached_property
    def client(self) -> Ids:
        """[J] of each task."""
        return self._whose(self.instances.client, self.transfers.client)

    @cached_property
    def step(self) -> Ids:
        """[J] of each task."""
        return self._whose(self.instances.step, self.transfers.step)

    def _whose(self, of_op: Ids, of_transfer: Ids) -> Ids:
        """[J] given columns of instances and of transfers."""
        tasks = self.tasks
        both = np.concatenate([of_op, of_transfer])
        return ids(both[np.where(tasks.kind == Kind.OP, tasks.of, len(of_op) + tasks.of)])

    @cached_property
    def on_critical_path(self) -> Flags:
        """[J] whether each task is on the critical path."""
        found = np.zeros(len(self.tasks.kind), bool)
        if self.critical is not None:
            found[self.critical] = True
        return flags(found)
