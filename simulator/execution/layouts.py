"""`Tables` as compiled code reads them, and the memory in which a thread lowers and runs a step.

Every array is C-contiguous and of one fixed type, as the code is compiled for exactly these. `flattening` makes both.
Axes of the step: n ops, T tensors, B big ones, G groups or GPUs, E edges, R roots. Axes of the cluster: D devices, K
kinds, W routes, Q paces of routes, L links, P places of links on routes. A column that has a pointer [k+1] beside it
holds a list for each of k rows, from its pointer to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints
from simulator.execution.arrays import BufferLives, Flows, FoundTransfers, SharedLinks, State, Tasks, Threads

MATRICES = frozenset({"kind_ns", "route_between", "big_ns", "big_held_ns"})  # all other arrays have one axis


class FlatMemory(NamedTuple):
    """The memory that the step takes; part of `FlatTables`."""

    in_ptr: Ids  # [n+1]
    in_edge: Ids  # inputs of each op
    tensor_ptr: Ids  # [n+1] first tensor of each op
    tensor_op: Ids  # [T]
    tensor_edge: Ids  # [T+1] first edge of each tensor
    passes: Ids  # [T] edge whose copy it passes on unless another woke the Merge; OWN; RESIDENT
    made_bytes: Ints  # [T] of a buffer of its own
    out_of: Ids  # [T] edge of the list whose copy it is a part of, if what it passes on is on another device
    keeper: Ids  # [K] list
    kept: Ids  # [K] edge by which what it keeps came
    writer: Ids  # [P] op that may write over an input
    written: Ids  # [P] its tensor, -1: nobody reads it
    over: Ids  # [P] edge by which the input came
    bound: Flags  # [n] the client gets it: it keeps what it reads
    scratch_bytes: Ints  # [n]
    resident_bytes: Ints  # [n]


class Nodes(NamedTuple):
    """Ops, their tensors and the readers of these; part of `FlatTables`.

    A *group* is the tensors of one rank (`Tables.tensor_rank`): one tensor, or the readers of one reference output.
    """

    slot: (
        Ids  # [n+1] where its successors begin; there are two places for each edge and one for each Recv that it posts
    )
    group_ptr: Ids  # [n+1] first group of each op
    group_edge: Ids  # [G+1] first edge of each group
    edge_tensor: Ids  # [E]
    consumer: Ids  # [E] op
    reader: Ids  # [E] op that is notified when the value is there; ~edge where it is a Merge and a data input
    host: Flags  # [E] a GPU reads it in host memory
    waits: Ids  # [n] inputs that an op needs: of a Merge's data inputs one; 1 where there are none
    roots: Ids  # [R] ops that need none
    instant: Flags  # [n] takes no lane and no time
    threaded: Flags  # [n] is instant, but TensorFlow's executor passes it on a thread
    expense: Ids  # [n]
    merges: Flags  # [1] some op is a Merge that starts at the first of its data inputs
    kind_ns: npt.NDArray[np.int64]  # [n, K] time on each kind of device, -1: no kernel
    tensor_bytes: Ints  # [T]
    made_host: Flags  # [T] a GPU makes it in host memory
    post: Ids  # [T] the op at whose end a Recv waits for the tensor, -1: when the step begins
    turn_ns: Ints  # [T] until the executor of a GPU comes to a Recv that is posted when the step begins
    stays: Flags  # [T] it never crosses
    replicable: Flags  # [T] a constant that may be copied to the CPUs where it is read
    made: Ids  # [E] as of `recvs.StepRecvs`; empty but in TensorFlow's order, and of pieces
    made_far: Ids  # [E] likewise
    begins: Ids  # likewise
    drawn: Ids  # [G * T] likewise


class Places(NamedTuple):
    """Devices and the routes between them; part of `FlatTables`."""

    lanes: Ids  # [D]
    cpu: Flags  # [D]
    kind: Ids  # [D] column of `kind_ns`
    home: Ids  # [D] CPU that stands for a device
    dispatch_ns: Ints  # [D] for a copy
    host_device: Ids  # [D] in whose memory it has values in host memory
    route_between: npt.NDArray[np.int32]  # [D, D] of memories; -1: none
    pace: Ids  # [W]
    latency_ns: Ints  # [Q]
    bytes_per_s: Ints  # [Q] of the slowest link; 0: bytes cost no time
    request_ns: Ints  # [Q] from the posted Recv until the sender knows of it
    send_ns: Ints  # [Q] work of one core at the sender per transfer, or the dispatch of a GPU's copy
    dispatched: Flags  # [Q] the device of the Send dispatches a copy, in its own lane
    receive_ns: Ints  # [Q] at the receiver
    send_ps_per_byte: Ints  # [Q]
    receive_ps_per_byte: Ints  # [Q]
    staging_ps_per_byte: Ints  # [Q] of whole copies of GPUs
    send_cores: Ints  # [Q] for which a lane of the sender's processor stands
    receive_cores: Ints  # [Q] of the receiver's
    gpu: Ids  # [D] as of `recvs.StepRecvs`, if there are
    launch_ns: Ints  # [D] likewise
    flowing: Flags  # [W] what has bytes shares links
    held_ptr: Ids  # [W+1]
    held: Ids  # [P] serial links, in order of the route: a transfer has one after the other to itself
    even: Flags  # [W] no link of `held` is faster than the slowest of the route: each is held as long as bytes take
    slower: Flags  # [W] the slowest link of the route is none of `held`
    handed: Flags  # [W] a hand-over: no links
    requests: Flags  # [1] some request takes time, or some Recv waits for its turn
    posts: Flags  # [1] some Recv is posted late
    works: Flags  # [1] some transfer keeps a lane busy
    task: Ids  # [D] a tensor crosses to the first reader of a task, which hands it on; empty: to each device
    big: Ids  # [B] tensors of more than SAFE_BYTES, in order
    big_ns: npt.NDArray[np.int64]  # [B, Q] their time without latency, -1: more than can be counted
    big_held_ns: npt.NDArray[np.int64]  # [B, P] for which they hold each link


class Arena(NamedTuple):
    """All that the compiled loop works in."""

    tasks: Tasks
    state: State
    threads: Threads
    flows: Flows
    found: FoundTransfers
    lives: BufferLives


class FlatTables(NamedTuple):
    """The tables as the compiled loop reads them."""

    nodes: Nodes
    places: Places
    shared: SharedLinks
    held: FlatMemory


@dataclass(frozen=True, eq=False)
class Workspace:
    """Tables and memory in which one thread lowers and runs the step."""

    laid: FlatTables
    arena: Arena
    _bound: dict[PartialFunction, Callable[..., None]] = field(default_factory=dict)

    def run(self, function: PartialFunction, *others: object) -> None:
        """Call a compiled function on the tables, the memory and these; the addresses of the first are found once."""
        if function not in self._bound:
            self._bound[function] = function.partial(self.laid, self.arena)
        self._bound[function](*others)


class PartialFunction(Protocol):
    """A compiled function (`compiled.kernel`)."""

    def partial(self, *values: object) -> Callable[..., None]:
        """The function with its first arguments given."""


class Layouts(NamedTuple):
    """Layouts and workspaces that were made of tables, kept with them for the next run.

    Keys are the contention, and whether a tensor is handed on.
    """

    laid: dict[tuple[str, bool], FlatTables]
    idle: dict[tuple[str, bool], list[Workspace]]  # of threads that do not run now

    def __reduce__(self) -> tuple[type[Layouts], tuple[dict[object, object], dict[object, object]]]:
        """Empty once it is copied or in another process: addresses hold in one process, and a run makes all anew."""
        return Layouts, ({}, {})
