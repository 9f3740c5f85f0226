"""`Tables` as the compiled loop reads them, one flat value; and the memory in which a thread plays a step.

Every array is C-contiguous and of one fixed type, as the loop is compiled for exactly these. Names and meaning are
documented here, of shared links in `flows`; benchmarks hand the same arrays to their twin in C++. `flattening` makes
both.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints
from simulator.execution.flows import Fair, Shared

SAFE_BYTES = 2**33  # up to here bytes times 10**9 fit a signed 64-bit integer
NEVER = 2**62
LATEST = 2**61  # a time above this is left to the specification
PLAIN, RANKED, EXECUTOR = 0, 1, 2
CODES = {"fifo": PLAIN, "priority": RANKED, "tensorflow": EXECUTOR}  # of `engine.ORDERS`
GIVEN_UP, REFUSED, STUCK = -1, -2, -3  # instead of a makespan: past the limit; not for the compiled loop; a deadlock


class Held(NamedTuple):
    """What memory the step takes; part of `Flat`."""

    in_ptr: Ids  # [n+1]
    in_edge: Ids  # inputs of each op
    tensor_ptr: Ids  # [n+1] first tensor of each op
    tensor_op: Ids  # [T]
    tensor_edge: Ids  # [T+1] first edge of each tensor
    passes: Ids  # [T] edge whose copy it passes on unless another woke the Merge; OWN; RESIDENT
    bound: Flags  # [n] the client gets it: it keeps what it reads
    scratch_bytes: Ints  # [n]
    resident_bytes: Ints  # [n]


class Nodes(NamedTuple):
    """What runs and who reads what; part of `Flat`.

    A *group* is the tensors of one rank (`Tables.tensor_rank`): one tensor, or the readers of one reference output.
    """

    block: Ids  # [n+1] first edge of each op
    group_ptr: Ids  # [n+1] first group of each op
    group_edge: Ids  # [G+1] first edge of each group
    edge_tensor: Ids  # [E]
    consumer: Ids  # [E] op
    reader: Ids  # [E] op that is told when the value is there; ~edge where a Merge is told of a data input
    host: Flags  # [E] a GPU reads it in host memory
    waits: Ids  # [n] inputs that an op needs: of a Merge's data inputs one; 1 where there are none
    roots: Ids  # [R] ops that need none
    instant: Flags  # [n] takes no lane and no time
    threaded: Flags  # [n] is instant, but TensorFlow's executor passes it on a thread
    inexpensive: Flags  # [n] its kernel says so
    merges: Flags  # [1] some op is a Merge that starts at the first of its data inputs
    kind_ns: npt.NDArray[np.int64]  # [n, K] time on each kind of device, -1: no kernel
    tensor_bytes: Ints  # [T]
    post: Ids  # [T] the op at whose end a Recv waits for the tensor, -1: when the step begins
    stays: Flags  # [T] it never crosses
    replicable: Flags  # [T] a constant that may be copied to the CPUs where it is read


class Places(NamedTuple):
    """Devices and the ways between them; part of `Flat`."""

    lanes: Ids  # [D]
    cpu: Flags  # [D]
    kind: Ids  # [D] column of `kind_ns`
    home: Ids  # [D] CPU that stands for a device
    way: npt.NDArray[np.int32]  # [D, D] -1: none
    latency_ns: Ints  # [W]
    bytes_per_s: Ints  # [W] of the slowest link; 0: bytes cost no time
    request_ns: Ints  # [W] from the posted Recv until the sender knows of it
    send_ns: Ints  # [W] work of one core at the sender per transfer
    receive_ns: Ints  # [W] at the receiver
    send_ps: Ints  # [W] per byte
    receive_ps: Ints  # [W] per byte
    send_cores: Ints  # [W] for which a lane of the sender's processor stands
    receive_cores: Ints  # [W] of the receiver's
    flowing: Flags  # [W] what has bytes shares links
    held_ptr: Ids  # [W+1]
    held: Ids  # [P] serial links, in order of the route: a transfer has one after the other to itself
    even: Flags  # [W] no link of `held` is faster than the slowest of the way: each is held as long as bytes take
    handed: Flags  # [W] a hand-over: no links
    in_turn: Flags  # [W] transfers arrive in the order in which they went to the wire
    several: Flags  # [1] some way has several serial links, or is not even: transfers pass from line to line
    uneven: Flags  # [1] some way is not even
    pulls: Flags  # [1] some Recv is posted late, or some request takes time
    requests: Flags  # [1] some request takes time
    works: Flags  # [1] some protocol keeps processors busy
    big: Ids  # [B] tensors of more than SAFE_BYTES, in order
    big_ns: npt.NDArray[np.int64]  # [B, W] their time without latency, -1: more than can be counted
    big_held_ns: npt.NDArray[np.int64]  # [B, P] for which they hold each link


class Flat(NamedTuple):
    """Read-only. Axes: n ops, T tensors, B big ones, G groups, E edges, R roots, D devices, K kinds, W ways, L links, P
    places of links on ways.

    What has a pointer [k+1] beside it holds a list for each of k rows, from its pointer to the next.
    """

    nodes: Nodes
    places: Places
    shared: Shared
    held: Held


class Threads(NamedTuple):
    """TensorFlow's executor; part of `Work`. A lane is a thread of a CPU or the stream of a GPU."""

    lane_ptr: Annotated[Ids, "D+1"]  # first lane of each device
    free: Annotated[Flags, "lanes"]  # nothing runs on it
    own_head: Annotated[Ids, "lanes"]  # queue of each thread, -1: empty
    own_tail: Annotated[Ids, "lanes"]  # its last
    pool_head: Annotated[Ids, "D"]  # queue of each device, -1: empty
    pool_tail: Annotated[Ids, "D"]  # its last
    message_head: Annotated[Ids, "D"]  # work of transfers that is ready, -1: none
    message_tail: Annotated[Ids, "D"]  # its last
    following: Annotated[Ids, "J"]  # next job in its queue, -1: none
    lane: Annotated[Ids, "J"]  # of the jobs that have begun, within the device
    unlaunched: Annotated[Ids, "n"]  # inputs that keep an op of a GPU from being launched
    at_once: Annotated[Flags, "n"]  # needs no thread
    merged: Annotated[Flags, "n"]  # Merges of which a data input counts
    stack: Annotated[Ids, "n"]  # ops that are launched and whose readers are not told yet


class Memory(NamedTuple):
    """Memory in use; part of `Work`. A copy is a tensor, or T + the transfer that brought it."""

    came_by: Annotated[Ids, "E"]  # transfer that brings the value, -1: it is there
    began: Annotated[Ids, "n+E"]  # ops, and n + transfers, that began in this round
    ended: Annotated[Ids, "n+2E"]  # in order: ops that ended, n + transfers that came, n + E + those that left the wire
    over: Annotated[Flags, "n+E"]  # ops, and n + transfers, that have ended
    owner: Annotated[Ids, "T+E"]  # copy whose buffer it is, -1: resident
    holds: Annotated[Ids, "T+E"]  # who needs the buffer: its producer, readers, transfers
    since_ns: Annotated[Ints, "T+E"]  # when it was allocated
    held_by: Annotated[Ids, "T+E"]  # device
    nbytes: Annotated[Ints, "T+E"]
    level: Annotated[Ints, "D"]  # bytes in use
    peak: Annotated[Ints, "D"]
    freed: Annotated[Ints, "D"]  # in this instant
    begun: Annotated[Ints, "D"]  # in this instant
    brief: Annotated[Ints, "D"]  # begun and freed in this instant


class Found(NamedTuple):
    """The transfers of an assignment, in the order of `crossings`; part of `Work`."""

    told: Annotated[Ids, "E+R"]  # `reader` by op: first those on its device, then of each transfer; `roots` at the end
    local_end: Annotated[Ids, "n"]  # where in `told` those on its device end; they begin at `block`
    asked_ptr: Annotated[Ids, "n+1"]  # first transfer of each op
    took_ns: Annotated[Ints, "J"]  # time of each job where it is
    span_from: Annotated[Ids, "X"]  # where in `told` the readers of each transfer are
    span_to: Annotated[Ids, "X"]
    way_of: Annotated[Ids, "X"]
    tensor_of: Annotated[Ids, "X"]
    source_of: Annotated[Ids, "X"]  # device
    target_of: Annotated[Ids, "X"]  # device
    late_ns: Annotated[Ints, "X"]  # how much later it arrives than its bytes are through; the whole loop reads it
    end_ns: Annotated[Ints, "X"]  # time on the wire, of a flow its latency; once its last link is known, its end


class Queues(NamedTuple):
    """What waits, and for what; part of `Work`."""

    key: Annotated[Ints, "H"]  # a heap of ends: when
    task: Annotated[Ids, "H"]  # what
    queue: Annotated[Ids, "Q"]  # jobs that wait for a lane, a region per device: in order, or a heap of places
    idle: Annotated[Ids, "D"]  # lanes
    region: Annotated[Ids, "D"]  # where in `queue` its region begins
    head: Annotated[Ids, "D"]  # where the first of its queue is
    end: Annotated[Ids, "D"]  # where its queue ends
    place: Annotated[Ids, "n"]  # of each op in order of (priority, row)
    wire: Annotated[Ids, "V"]  # transfers on the wire, a region per way; where they go in turn the first is in the heap
    wire_base: Annotated[Ids, "W"]  # where in `wire` its region begins
    wire_head: Annotated[Ids, "W"]  # where the first of its transfers that is on the wire is
    wire_end: Annotated[Ids, "W"]  # where those end of which the arrival is known; behind them: `Lines`
    free_ns: Annotated[Ints, "L"]  # until when each link is promised to those in its line
    promised_ns: Annotated[Ints, "L"]  # for how long in all, where steps follow each other


class Lines(NamedTuple):
    """Who waits before which of several serial links; part of `Work`. An even way with one has no use for it.

    Transfers of a way pass its links in one order, that of its region of `Queues.wire`: first those whose arrival is
    known, then those that wait for the last link but one, and so on. The heap of ends has the first of each.
    """

    head: Annotated[Ids, "P"]  # where in `wire` the first is that waits for this link of the way to begin
    end: Annotated[Ids, "P"]  # where those that have joined its line end
    joined: Annotated[Ids, "X"]  # links of its way whose lines it has joined; 0 of what waits for none
    onward_ns: Annotated[Ints, "X"]  # when the link begins before which it waits, and it goes on
    through_ns: Annotated[Ints, "X"]  # when the links that it has joined so far have had their time with it, at least
    begun_ns: Annotated[Ints, "B"]  # when its second link began, of all transfers; then the third; where that is noted


class Pending(NamedTuple):
    """Inputs and conditions that are not there yet; part of `Work`."""

    waits: Annotated[Ids, "n"]  # inputs that it still waits for
    merged: Annotated[Ids, "n"]  # round in which a Merge's first data input came, 0: none has
    first: Annotated[Ids, "n"]  # the edge of that input; the lowest of those that came in that round; -1: none
    conditions: Annotated[Ids, "X"]  # what it still waits for: its value, and its Recv where that waits, too
    due_ns: Annotated[Ints, "X"]  # when the sender knows of its Recv
    post_head: Annotated[Ids, "n"]  # first transfer whose Recv the op posts, -1: none
    post_next: Annotated[Ids, "X"]  # the next that the same op posts


class Round(NamedTuple):
    """What happens in a round; part of `Work`."""

    batch: Annotated[Ints, "J+E+1"]  # tasks that end
    woken: Annotated[Ints, "J"]  # jobs that are ready
    fresh: Annotated[Ints, "2E"]  # work of transfers that is ready
    valued: Annotated[Ints, "2E"]  # transfers of which one more condition holds
    asking: Annotated[Ints, "E"]  # transfers that go to the wire; before: edges of a group that cross
    chain: Annotated[Ids, "J"]  # from the front instant ops that have readers to tell, from the back jobs that begin
    touched: Annotated[Ids, "D"]  # devices whose lanes or queues change
    touched_in: Annotated[Ids, "D"]  # the last round in which they did


class Record(NamedTuple):
    """When everything happened; part of `Work`."""

    ready_ns: Annotated[Ints, "n"]  # -1: never
    start_ns: Annotated[Ints, "J"]
    asked_ns: Annotated[Ints, "X"]
    sent_ns: Annotated[Ints, "X"]  # on the wire: its first link begins
    came_ns: Annotated[Ints, "X"]  # arrived


class Work(NamedTuple):
    """What a thread writes; every run begins by clearing what it needs. Axes as in `Flat`; X transfers, at most E;
    Q and V places in queues: J and X, twice as many where steps follow each other.

    Jobs take lanes: the n ops, n + x packs transfer x, n + E + x unpacks it; J = n + 2E, or n where no protocol keeps
    processors busy. Tasks are jobs and, from n + 2E on in steps of E, transfers that arrive, requests under way,
    transfers that go on (flows once their latency is over, others to their next link), transfers that begin.
    """

    found: Found
    queues: Queues
    lines: Lines
    pending: Pending
    round: Round
    record: Record
    fair: Fair
    threads: Threads
    memory: Memory


PARTS = (Found, Queues, Lines, Pending, Round, Record, Fair, Threads, Memory)  # of Work
MATRICES = frozenset({"kind_ns", "way", "big_ns", "big_held_ns"})  # all other arrays have one axis
