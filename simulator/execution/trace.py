"""The trace: what ran when, what crossed when, and what memory held, as columns.

A lane is one queue of one device, numbered within the device. Nodes that only stand for communication (Send, Recv and
the dummies of control edges) take no lane and are not slices. Other nodes that take no time (fed nodes, Const, NoOp)
are slices of no length on lane 0. What is dead does not run and is no slice. A node in a loop has one per iteration.

A hold is the time for which a transfer occupies a serial link of its route: as long as its bytes take there. A transfer
takes one link after the other, the next beginning no earlier, and later where others are before it in that link's
queue.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.columns import Flags, Ids, Ints
from simulator.units import Nanos, show_nanos
from simulator.wording import counted, repr_of

# A transfer is a chain of stretches. Its place in `Trace.critical` is one number below zero for each of them.
REQUEST, PACK, WIRE, LATENCY, UNPACK = range(5)
STRETCHES = 5


def transfer_task(transfer: int, stretch: int) -> int:
    """The number in `Trace.critical` of a stretch of a transfer."""
    return -1 - (STRETCHES * transfer + stretch)


def transfer_of(task: int) -> tuple[int, int]:
    """The transfer and the stretch that a number below zero in `Trace.critical` stands for."""
    return divmod(-1 - task, STRETCHES)


@dataclass(frozen=True, eq=False)
class Allocations:
    """Every stretch of memory with its life: outputs, received copies, scratch. Axis: A allocations.

    Not among them: what is resident, and outputs that are a view of another buffer, which they keep alive instead.
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
    """What a device holds all the time: variables and constants of the nodes that run. Axis: R of them."""

    node: Ids  # [R] row of Partitions.graph
    device: Ids  # [R]
    nbytes: Ints  # [R]

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.nbytes), "node"))


@dataclass(frozen=True, eq=False)
class Trace:
    """One simulated step.

    Axes: S slices in order of (start, device, lane), ties as in `Tables`, X transfers in order of (iteration, transfer
    of the partitions), H holds in order of (transfer, place of the link on its route), M memory events, D devices, I
    iterations.
    """

    node: Ids  # [S] row of Partitions.graph
    iteration: Ids  # [S] row of `iterations`
    device: Ids  # [S] row of Cluster.devices
    lane: Ids  # [S] lane within the device
    client: Ids  # [S] 0 while there is one client
    step: Ids  # [S] 0 while there is one step
    ready_ns: Ints  # [S]
    start_ns: Ints  # [S]
    end_ns: Ints  # [S]
    transfer: Ids  # [X] row of the partitions' transfers
    transfer_iteration: Ids  # [X] row of `iterations`
    transfer_dead: Flags  # [X] only says that there is no value: takes no bytes
    transfer_client: Ids  # [X] as `client`
    transfer_step: Ids  # [X] as `step`
    transfer_ready_ns: Ints  # [X] the value is there and asked for
    pack_start_ns: Ints  # [X] the processor at the source works; no length where the protocol asks for no work
    pack_end_ns: Ints  # [X]
    transfer_start_ns: Ints  # [X] on the wire: its first link begins with it
    wire_end_ns: Ints  # [X] its bytes are through all of its links
    crossing_ns: Ints  # [X] how long that takes on the slowest link; where links are shared, since it was sent
    transfer_end_ns: Ints  # [X] arrived: a latency later; at once what shares links, whose latency comes first
    unpack_start_ns: Ints  # [X] the processor at the target works
    unpack_end_ns: Ints  # [X] the readers have it
    pack_lane: Ids  # [X] lane of the CPU that stands for the source, 0 where there is no work
    unpack_lane: Ids  # [X]
    hold_ptr: Ids  # [X+1] first hold of each transfer; it has none without serial links
    hold_link: Ids  # [H] row of Cluster.links
    hold_start_ns: Ints  # [H]
    hold_end_ns: Ints  # [H]
    memory_device: Ids  # [M] one row per change, in order of time
    memory_time_ns: Ints  # [M]
    memory_bytes: Ints  # [M] in use on that device from that moment
    peak_bytes: Ints  # [D]
    resident_bytes: Ints  # [D] before the step begins and after it ends
    busy_ns: Ints  # [D] lane time in which ops ran and transfers were packed and unpacked
    makespan: Nanos
    iterations: tuple[tuple[int, ...], ...] = ((),)  # [I] iteration of each loop around, outermost first
    order: str = "fifo"  # how a device chose among ready ops
    contention: str = "serial"  # how transfers shared a link that does not say it itself
    engine: str = "python"  # which loop ran it
    critical: Ids | None = None  # [..] what set the makespan, in order: rows of slices, `transfer_task`s
    critical_ns: Ints | None = None  # [..] for how long each did
    notes: tuple[str, ...] = ()  # loops run once, ...
    dead_fetches: tuple[str, ...] = ()  # what the client never gets, whatever is chosen: TensorFlow refuses the step
    peak_ns: Ints | None = None  # [D] when the peak was reached first
    allocations: Allocations | None = None  # whose memory it was
    residents: Residents | None = None  # whose memory it was before the step began

    def __repr__(self) -> str:
        ops, transfers = counted(len(self.node), "op"), counted(len(self.transfer), "transfer")
        return repr_of(self, show_nanos(self.makespan), ops, transfers)
