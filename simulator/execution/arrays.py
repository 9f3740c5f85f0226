"""Arrays that the event loop reads and writes: a lowered step, its state, and the machinery of some disciplines.

Names and meaning are documented here for lists (`task_graph`) and compiled arrays (`compiled.task_graph`) alike. Axes
of the step: J tasks, O of them ops, n ops of the tables, E entries of `successor`. Axes of the cluster: D devices, L
links, W routes, P places in lists of links.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints

INFINITE = 2**62  # no limit, or no instant
SAFE_BYTES = 2**33  # up to here bytes times 10**9 fit a signed 64-bit integer
MAX_SUM_NS = 2**61  # no sum of times may pass this: twice it still fits a signed 64-bit integer
ARRIVAL, BEGINNING = -1, -2  # what makes ops ready, where no op does
# resources of a delay, of a task that ends when it is ready, and of one about which a controller is asked then
NOWHERE, AT_ONCE, ASKS = -1, -2, -3
MOST_IN_ORDER = 8  # followers of a node that TensorFlow keeps in an array, in order (graph/edgeset.h)
BY_TIME, CHEAP, DEAR = 0, 1, 2  # for TensorFlow's executor an op is worth a thread by its time, never or always
FIFO, PRIORITY, EXECUTOR = 0, 1, 2  # how a device chooses among the tasks that are ready
CODES = {"fifo": FIFO, "priority": PRIORITY, "tensorflow": EXECUTOR}  # of `options.ORDERS`
TIMES, INSTANTS = 1, 2  # what a run notes of its tasks: when they are ready and start; instants of start and end
GIVEN_UP, REFUSED, STUCK = -1, -2, -3  # instead of a makespan: past the limit; not for the compiled loop; a deadlock


class Tasks(NamedTuple):
    """A step under an assignment. Ops come first, in their order; the last task begins the step.

    Read-only but for a controller, who lets marked ops ask, and sets when tasks of the next step are released.

    Resources are numbered: devices, links, routes whose links are shared.
    """

    length: Annotated[Ints, "J"]  # ns; on a route whose links are shared: bytes
    resource: Annotated[Ids, "J"]  # or NOWHERE, AT_ONCE, ASKS
    lag_ns: Annotated[Ints, "J"]  # of a link's task, from the moment at which it leaves the link until its end
    release_ns: Annotated[Ints, "J"]  # it is not ready before
    needs: Annotated[Ids, "J"]  # in-degree: events, mostly ends of its predecessors, that it waits for
    onward: Annotated[Ids, "J"]  # the task for which its start is an event, -1: none
    arrival: Annotated[Ids, "J"]  # the delay that waits for links alone, notified early of this task's end; -1: none
    next_from: Annotated[Ids, "J"]  # its successors, for which its end is an event, stand from here
    next_to: Annotated[Ids, "J"]  # to here
    successor: Annotated[Ids, "S"]  # ~task: a data input of a Merge, of which the first alone counts
    rank: Annotated[Ids, "J"]  # smaller goes first, for the order PRIORITY
    ops: Annotated[Ids, "1"]  # how many of them are ops, those included that post Recvs of a cut to come (`recvs`)
    released: Annotated[Flags, "1"]  # some `release_ns` is not 0
    shares: Annotated[Flags, "1"]  # some task is on a route whose links are shared


class State(NamedTuple):
    """Everything that changes in a run, but the parts of executor and shared links."""

    needs: Annotated[Ids, "J"]  # events that have not come yet
    merged: Annotated[Flags, "O"]  # a data input of this Merge has come
    ready_ns: Annotated[Ints, "J"]  # -1: never
    start_ns: Annotated[Ints, "J"]
    end_ns: Annotated[Ints, "J"]  # of tasks on shared routes: of all others it follows from start, length and lag
    links_ns: Annotated[Ints, "J"]  # of an arrival: when the links are done with its bytes, as far as is known
    idle: Annotated[Ids, "D"]  # lanes
    left_ns: Annotated[Ints, "D"]  # work of ops that have not begun, where there is one lane, for a run with a limit
    head: Annotated[Ids, "D"]  # of the ready queue: its first task, or the root of its heap; -1: empty
    last: Annotated[Ids, "D"]  # of the ready queue
    behind: Annotated[Ids, "J"]  # the next in a queue, or a child in a heap; -1: none
    beside: Annotated[Ids, "J"]  # the other child in a heap
    free_ns: Annotated[Ints, "L"]  # until when each link is reserved by the tasks that have come to it
    queued: Annotated[Ids, "L"]  # the last of the tasks that wait for a link and whose start is an event; -1: none
    batch: Annotated[Ids, "2J"]  # events of a round: ends of tasks; J + task: it begins; 2 J + task: it is released
    fresh: Annotated[Ids, "J"]  # tasks that are ready in a round
    later: Annotated[Ids, "J"]  # tasks that are ready in the next round
    starting: Annotated[Ids, "J"]  # tasks that take a lane in a round
    chain: Annotated[Ids, "O"]  # tasks that end at once
    woken: Annotated[Ids, "O"]  # ops that one event made ready, for the executor
    touched: Annotated[Ids, "D"]  # devices whose lanes or queues changed in a round
    touched_in: Annotated[Ids, "D"]  # the last round in which they did
    noted: Annotated[Ids, "1"]  # number of the last instant at which anything happened, if noted
    began_in: Annotated[Ids, "J"]  # number of the instant of its start, if noted
    ended_in: Annotated[Ids, "J"]  # number of the instant of its end, if noted
    key: Annotated[Ints, "2J"]  # of the event queue, where it is an array: times
    event: Annotated[Ids, "2J"]  # tasks


class Threads(NamedTuple):
    """TensorFlow's executor. A lane is a thread of a CPU or the stream of a GPU."""

    expense: Annotated[Ids, "O"]  # what the executor takes an op for
    packs: Annotated[Flags, "J"]  # the work of a transfer that threads of the executor do, not those of gRPC
    device: Annotated[Ids, "O"]  # of each op
    stream: Annotated[Flags, "D"]  # a GPU
    lane_ptr: Annotated[Ids, "D+1"]  # first lane of each device
    free: Annotated[Flags, "lanes"]  # nothing runs on it
    own_head: Annotated[Ids, "lanes"]  # queue of each thread, -1: empty
    own_last: Annotated[Ids, "lanes"]
    pool_head: Annotated[Ids, "D"]  # queue of each device, -1: empty
    pool_last: Annotated[Ids, "D"]
    message_head: Annotated[Ids, "D"]  # work of transfers that is ready, -1: none
    message_last: Annotated[Ids, "D"]
    lane: Annotated[Ids, "J"]  # of the tasks that have begun, within the device
    unlaunched: Annotated[Ids, "O"]  # inputs that keep an op of a GPU from being launched
    merged: Annotated[Flags, "O"]  # Merges of which a data input counts
    stack: Annotated[Ids, "O"]  # ops that are launched and whose readers are not notified yet
    sending: Annotated[Ids, "J"]  # packings that the end of an op made ready


class SharedLinks(NamedTuple):
    """Links that are shared. Axis: W routes."""

    link_ptr: Annotated[Ids, "W+1"]
    link: Annotated[Ids, "U"]  # links that transfers of a route share
    user_ptr: Annotated[Ids, "L+1"]  # first of as many places in `Flows.user` as routes share a link
    cap: Annotated[Ints, "W"]  # bytes per second that the other links let a sharing transfer have; 0: no bound
    capacity: Annotated[Ints, "L"]  # bytes per second


class Flows(NamedTuple):
    """Tasks on routes whose links are shared. Those of one route are a class."""

    base: Annotated[Ids, "W"]  # where its region of `key` and `task` begins
    key: Annotated[Ints, "F"]  # a heap per route: service at which a flow ends, nanobytes
    task: Annotated[Ids, "F"]
    active: Annotated[Ids, "W"]  # flows on it
    served: Annotated[Ints, "W"]  # nanobytes, for each
    since_ns: Annotated[Ints, "W"]  # until when
    rate: Annotated[Ints, "W"]  # of each flow
    next_ns: Annotated[Ints, "W"]  # when the first of them ends
    soonest: Annotated[Ids, "W"]  # a heap of the routes with flows by `next_ns`
    rank: Annotated[Ids, "W"]  # where in it
    changed: Annotated[Ids, "W"]  # routes with flows that began or ended in this round
    seen: Annotated[Ids, "W"]  # round in which it was changed or found
    counted: Annotated[Ids, "W"]  # flows when rates were found last
    share: Annotated[Ints, "W"]  # rate that was found for each
    share_by: Annotated[Ids, "W"]  # the link that fixed it; less than 0: its cap
    trial: Annotated[Ints, "W"]  # rate that it would get
    trial_by: Annotated[Ids, "W"]  # from this link; its cap: the route less W, which comes before all links
    part: Annotated[Ids, "W"]  # routes with flows that began or ended, or over a link that is filled anew
    user: Annotated[Ids, "U"]  # routes with flows, a region per link
    users: Annotated[Ids, "L"]  # how many
    many: Annotated[Ids, "L"]  # flows of all of them
    load: Annotated[Ints, "L"]  # bytes per second of all of them; of thousands of links of MAX_RATE 64 bits hold it
    level: Annotated[Ints, "L"]  # share at which it fixes the rate of flows; INFINITE: of none
    least: Annotated[Ints, "L"]  # share that it can give at least
    link_seen: Annotated[Ids, "L"]  # round in which it is filled anew
    span: Annotated[Ids, "L"]  # links that are filled anew
    sizes: Annotated[Ids, "2"]  # of `soonest`, `changed`


class FoundTransfers(NamedTuple):
    """The transfers of an assignment, while compiled code lowers them, in order of `transfers_of`. Axis: X."""

    device: Annotated[Ids, "n"]  # of each op
    across: Annotated[Ints, "E"]  # edges of a group that cross, with where they lead to
    followers: Annotated[Ids, "D"]  # what follows TensorFlow's source, in its order
    copied: Annotated[Ids, "n"]  # constants that are copied, in TensorFlow's order
    came_by: Annotated[Ids, "E"]  # transfer that brings the value of each edge, -1: it is there; if anything is noted
    counts: Annotated[Ids, "10"]  # tasks of each kind
    numbers: Annotated[Ids, "10"]  # next number of each kind
    flows: Annotated[Ids, "W"]  # transfers that share the links of a route
    work_ns: Annotated[Ints, "1"]  # of ops, and of transfers in processors and on each link that they hold, or once
    tensor_of: Annotated[Ids, "X"]
    route_of: Annotated[Ids, "X"]
    op_of: Annotated[Ids, "X"]
    source_of: Annotated[Ids, "X"]  # device
    target_of: Annotated[Ids, "X"]
    wire_ns: Annotated[Ints, "X"]
    late_ns: Annotated[Ints, "X"]
    pack_ns: Annotated[Ints, "X"]
    unpack_ns: Annotated[Ints, "X"]
    made: Annotated[Ints, "X"]  # order in which the cut makes its Recv, in TensorFlow's order
    in_host: Annotated[Flags, "X"]  # it arrives in host memory, in TensorFlow's order
    poster: Annotated[Ids, "X"]  # the op at whose end the Recv is posted, -1: none; in TensorFlow's order
    turn_ns: Annotated[Ints, "X"]  # until a GPU comes to the Recv, in TensorFlow's order
    span_from: Annotated[Ids, "X"]  # its readers stand in `successor` from here
    span_to: Annotated[Ids, "X"]
    first_of: Annotated[Ids, "X"]  # first task of its chain
    wire_of: Annotated[Ids, "X"]  # first task on the wires
    end_of: Annotated[Ids, "X"]  # its end is the arrival
    last_of: Annotated[Ids, "X"]  # it notifies the readers
    sent: Annotated[Ids, "X"]  # copy that it sends, as in `BufferLives`
    next_led: Annotated[Ids, "X"]  # where in `successor` the next stands that it leads
    group_of: Annotated[Ids, "2D"]  # of each task's host and device memory: the group of tensors that came there last
    leader: Annotated[Ids, "2D"]  # device to which it came
    leads: Annotated[Ids, "2D"]  # devices to which it is handed on
    brought: Annotated[Ids, "2D"]  # transfer that brought it


class BufferLives(NamedTuple):
    """Memory in use, found after a run. A copy is a tensor, or T + the transfer that brought it; then come scratches.

    Instants are numbered as in `State.began_in`.
    """

    owner: Annotated[Ids, "T+E"]  # copy whose buffer it is; its own number, or -1: resident
    user: Annotated[Ids, "T+E"]  # op that uses the buffer last, -1: something else does
    others: Annotated[Ids, "T+E"]  # instant at which the last of the others has ended
    joined: Annotated[Ids, "T+E"]  # buffer over which a tensor is written, -1: none
    since: Annotated[Ids, "T+E+n"]  # instant at which it is allocated
    until: Annotated[Ids, "T+E+n"]  # instant at which it is freed
    at: Annotated[Ids, "T+E+n"]  # device
    nbytes: Annotated[Ints, "T+E+n"]
    begin_head: Annotated[Ids, "2J"]  # first of those that are allocated at an instant, -1: none
    begin_next: Annotated[Ids, "T+E+n"]
    end_head: Annotated[Ids, "2J"]  # first of those that are freed at an instant, -1: none
    end_next: Annotated[Ids, "T+E+n"]
    level: Annotated[Ints, "D"]  # bytes in use
    peak: Annotated[Ints, "D"]


@cache
def columns(part: type) -> list[tuple[str, np.dtype[np.generic], str]]:
    """Name, element type and axis of each array of one of these tuples."""
    hints = get_type_hints(part, include_extras=True).items()
    return [(name, _element(hint.__origin__), hint.__metadata__[0]) for name, hint in hints]


def fields(kind: type) -> dict[str, np.dtype[np.generic] | type]:
    """The fields of a tuple, in order: the element type of an array, or a tuple that is part of it."""
    return {name: hint if isinstance(hint, type) else _element(hint) for name, hint in get_type_hints(kind).items()}


def _element(array: object) -> np.dtype[np.generic]:
    """The element type of npt.NDArray[element]."""
    element: np.dtype[np.generic] = np.dtype(get_args(get_args(array)[1])[0])
    return element


def filled(kind: Any, sizes: Mapping[str, int] | None = None, **given: npt.ArrayLike) -> Any:
    """The tuple `kind` with copies of these columns; all others are zeros, as many as their axes have, if any."""
    return kind(
        *(
            np.array(given[name], dtype) if name in given else np.zeros(0 if sizes is None else sizes[axis], dtype)
            for name, dtype, axis in columns(kind)
        )
    )


def listed(part: Any) -> Any:  # Any: one of the tuples of columns, or a tuple of these
    """The same as lists, over which the plain loop runs."""
    if isinstance(part, tuple):
        return type(part)(*map(listed, part))
    return part.tolist()
