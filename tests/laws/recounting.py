"""A second account of memory: every instant of a trace, and what is in use then, holder by holder.

Nothing of `simulator/execution` is called. Predicates hold, so what reads a Switch's first output is dead. A buffer is
in use from its birth until the last of its holders has ended:
its maker, whoever reads it or a view of it, transfers of it, and the client until the end of the step. An output lies
over an input of the same type and size if the input's other holders have ended when the op begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from simulator.cluster.cluster import Cluster
from simulator.costs.table import CostTable
from simulator.execution.trace import Trace
from simulator.graph.handing_on import REUSES
from simulator.partitioning.partitions import Partitions

FIRST_INPUT = {"Identity", "Reshape", "Switch", "Merge", "ReadVariableOp", "_Send", "_HostSend"}
STATE = {"Const", "VariableV2", "VarHandleOp"}
RECVS = {"_Recv", "_HostRecv"}
REFERENCE = 100  # from here on dtypes are references


@dataclass
class Buffer:
    """Some memory of one device."""

    device: int
    nbytes: int
    born: int
    ends: list[tuple[int, int]] = field(default_factory=list)  # of its holders, and who they are

    def alive(self, now: int) -> bool:
        return self.born <= now < max(self.ends)[0]


class Recount:
    """The buffers of a trace.

    Two things it does not say: `took` is what each Merge passed on, as (node, port); `queued` the ends of what the cut
    inserted, where TensorFlow's executor queues it like any other node.
    """

    def __init__(
        self,
        trace: Trace,
        pieces: Partitions,
        on: Cluster,
        priced: CostTable,
        took: Mapping[int, tuple[int, int]],
        queued: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self.trace, self.pieces, self.on, self.priced, self.took = trace, pieces, on, priced, took
        self.queued = queued
        self.graph = pieces.graph
        self.transfer = {recv: row for row, recv in enumerate(pieces.recv.tolist())}
        nodes = trace.ops.node.tolist()
        self.begin: dict[int, int] = dict(zip(nodes, trace.ops.start_ns.tolist(), strict=True))
        self.end: dict[int, int] = dict(zip(nodes, trace.ops.end_ns.tolist(), strict=True))
        # all graphs here have one predicate; it holds, unless a fetch needs the other side
        self.dead_port = int(any("taken false" in note for note in trace.notes))
        self.died: dict[int, bool] = {}
        self.buffers: dict[tuple[int, int], Buffer | None] = {}
        for row in range(len(self.graph)):
            self.times(row)
        for row in range(len(self.graph)):
            self.hold(row)
        self.join()

    def inputs(self, row: int) -> list[tuple[int, int]]:
        """(node, port) of each input, -1: control; data first, in order of slot."""
        edges = [e for e in range(self.graph.in_ptr[row], self.graph.in_ptr[row + 1]) if not self.graph.edge_back[e]]
        tensors = [int(self.graph.edge_tensor[e]) for e in edges]
        ports = [-1 if tensor < 0 else int(self.graph.tensor_port[tensor]) for tensor in tensors]
        return list(zip([int(self.graph.edge_src[e]) for e in edges], ports, strict=True))

    def times(self, row: int) -> int:
        """The end of a node; what the cut inserted takes no time and waits for all its inputs."""
        if row not in self.end:
            came = [self.times(node) for node, _ in self.inputs(row)]
            if row in self.transfer:
                came.append(int(self.trace.moments.unpacked_ns[self.transfer[row]]))
            ready = max(came, default=0)
            self.begin[row] = self.end[row] = self.queued.get(row, ready)
            assert self.end[row] >= ready
            if self.pieces.endpoint[row] >= 0:
                self.begin[row] = ready  # what the client hands in is there from the beginning
        return self.end[row]

    def dead(self, row: int, port: int = 0) -> bool:
        """Whether an output brings no value; a Merge needs one, all others all."""
        if row not in self.died:
            came = [self.dead(node, given) for node, given in self.inputs(row) if given >= 0]
            waited = [self.dead(node, -1) for node, given in self.inputs(row) if given < 0]
            if row in self.transfer:
                came = [self.dead(int(self.pieces.send[self.transfer[row]]))]
            self.died[row] = all(came) if self.graph.ops[row] == "Merge" else any([*came, *waited])
        return self.died[row] or (self.graph.ops[row] == "Switch" and port == self.dead_port)

    def unborn(self, row: int) -> bool:
        """Whether a node does not run, as something that it needs is dead."""
        self.dead(row)
        return self.died[row]

    def buffer(self, row: int, port: int) -> Buffer | None:
        """The memory in which an output lies; None: it was there before the step."""
        if (row, port) not in self.buffers:
            self.buffers[row, port] = self.found(row, port)
        return self.buffers[row, port]

    def found(self, row: int, port: int) -> Buffer | None:
        op, tensor = self.graph.ops[row], int(self.graph.tensor_ptr[row]) + port
        dead = self.dead(int(self.pieces.send[self.transfer[row]])) if row in self.transfer else self.dead(row, port)
        if op in STATE or self.graph.tensor_dtype[tensor] > REFERENCE or dead:
            return None
        nbytes, device = max(int(self.graph.tensor_bytes[tensor]), 0), int(self.pieces.device[row])
        if row in self.transfer:
            crossing = self.transfer[row]
            if self.on.routes[self.pieces.src_device[crossing]][self.pieces.dst_device[crossing]]:
                start, end = self.trace.moments.sent_ns, self.trace.moments.unpacked_ns
                return Buffer(device, nbytes, int(start[crossing]), [(int(end[crossing]), -1)])
            node, port = self.inputs(int(self.pieces.send[crossing]))[0]  # handed over
            return self.buffer(node, port)
        if (slot := self.handed_on(row)) >= 0:
            return self.buffer(*self.inputs(row)[slot])
        if op == "IdentityN" or (op in FIRST_INPUT and not (op == "Merge" and port)):
            slot = port if op == "IdentityN" else self.taken(row) if op == "Merge" else 0
            return self.buffer(*self.inputs(row)[slot])
        fed = self.pieces.endpoint[row] >= 0  # the client keeps what it hands in
        return Buffer(device, nbytes, self.begin[row], [(self.trace.makespan if fed else self.end[row], row)])

    def handed_on(self, row: int) -> int:
        """The input that a node hands on because it changes nothing, -1: none."""
        told = self.priced.handed_on
        return -1 if told is None or self.pieces.inserted[row] else int(told[self.pieces.origin[row]])

    def taken(self, row: int) -> int:
        """The slot that a Merge passes on: one of those that came first; of these the run has chosen."""
        given = [one for one in self.inputs(row) if one[1] >= 0]
        slot = given.index(self.took[row])
        assert self.end[given[slot][0]] == min(self.end[node] for node, port in given if not self.dead(node, port))
        return slot

    def hold(self, row: int) -> None:
        """Whatever a node makes and holds."""
        if not self.pieces.inserted[row]:  # what the client hands in is there for its readers only
            for port in range(self.graph.tensor_ptr[row + 1] - self.graph.tensor_ptr[row]):
                self.buffer(row, port)
        until = self.trace.makespan if self.pieces.endpoint[row] >= 0 else self.end[row]
        if row in self.pieces.send:
            crossing = self.pieces.send.tolist().index(row)
            until = max(until, int(self.trace.moments.arrived_ns[crossing]))
        for node, port in self.inputs(row):
            held = self.buffer(node, port) if port >= 0 else None
            if held is not None:
                held.ends.append((until, row))
        scratch = int(self.priced.scratch_bytes[self.pieces.origin[row]])
        if scratch and not self.pieces.inserted[row] and not self.unborn(row):
            self.buffers[row, -1] = Buffer(
                int(self.pieces.device[row]), scratch, self.begin[row], [(self.end[row], row)]
            )

    def over(self, row: int) -> Buffer | None:
        """The memory over which a node writes its output, if it does."""
        port, first, last = REUSES[self.graph.ops[row]]
        output, given = int(self.graph.tensor_ptr[row]) + port, [one for one in self.inputs(row) if one[1] >= 0]
        for slot in range(first, min(last + 1, len(given))):
            node, at = given[slot]
            read, held = int(self.graph.tensor_ptr[node]) + at, self.buffer(node, at)
            alike = self.graph.tensor_dtype[read] % REFERENCE == self.graph.tensor_dtype[output] % REFERENCE
            alike = alike and 0 < self.graph.tensor_bytes[read] == self.graph.tensor_bytes[output]
            if held is None or not held.nbytes or not alike or given.count(given[slot]) > 1:
                continue
            if all(end <= self.begin[row] for end, who in held.ends if who != row):
                return held
        return None

    def join(self) -> None:
        """Put each output that is written over an input where that lies."""
        asks = [row for row, op in enumerate(self.graph.ops) if op in REUSES and not self.unborn(row)]
        asks = [row for row in asks if self.handed_on(row) < 0 and not self.pieces.inserted[row]]
        found = {row: over for row in asks if (over := self.over(row)) is not None}
        for row in sorted(found, key=lambda row: self.begin[row]):
            mine, over = self.buffer(row, REUSES[self.graph.ops[row]].port), found[row]
            if mine is None:
                continue
            over.ends += mine.ends
            self.buffers = {key: over if one is mine else one for key, one in self.buffers.items()}
            found = {key: over if one is mine else one for key, one in found.items()}

    def resident(self, device: int) -> int:
        """Bytes of the variables and constants that run on a device; a copied constant is as large as its output."""
        held = 0
        for row in [row for row in range(len(self.graph)) if self.pieces.device[row] == device]:
            if not self.pieces.inserted[row]:
                held += int(self.priced.resident_bytes[self.pieces.origin[row]])
            elif self.graph.ops[row] == "Const":
                held += max(int(self.graph.tensor_bytes[self.graph.tensor_ptr[row]]), 0)
        return held

    def instants(self) -> list[int]:
        """Every time at which anything begins or ends."""
        held = [one for one in self.buffers.values() if one is not None]
        return sorted({0, *(one.born for one in held), *(end for one in held for end, _ in one.ends)})

    def level(self, device: int, now: int, *, passing: bool = False) -> int:
        """Bytes in use on a device from a moment on; `passing`: with what begins and ends at that very moment."""
        distinct = {id(one): one for one in self.buffers.values() if one is not None and one.device == device}
        used = [one for one in distinct.values() if one.alive(now) or (passing and one.born == now)]
        return self.resident(device) + sum(one.nbytes for one in used)
