"""Arrays that the controller of a training reads and writes, beside those of the event loop (`execution.arrays`).

Axes: C clients, M synchronisation ops, H synchronisation resources, Z crashes. Axes of the cluster: K tasks, D devices,
W routes that transfers take, L links. Axes of the loop: n ops, X transfers, J tasks. What waits for a resource is a
synchronisation op (its row) or the first tokens of a queue (M + a number). A chief adds these again after a crash:
F = M + H (1 + Z for each chief).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from simulator.columns import Flags, Ids, Ints
from simulator.training.control.clocks import ClockRows, Clocks

LOG_ROWS = 1 << 15  # steps and updates that are noted before Python takes them away
COLUMNS = 6  # of both, of which an update has one less
ROUNDS_AT_ONCE = 1 << 18  # a tenth of a second or so
LATEST = 2**61  # a time above this is left to the plain loop
DONE, MORE, HUNG = 1, 2, 3  # why the loop stopped: enough updates; to be emptied; no update comes any more


class Clients(NamedTuple):
    """The rows and the times of each client; part of `Rules`."""

    op_ptr: Ids  # [C+1]
    sync_op_ptr: Ids  # [C+1]
    start_ns: Ints  # [C]
    gap_ns: Ints  # [C]
    counts: Flags  # [C]
    background: Flags  # [C]
    own_step: Flags  # [C] it reads the global step itself
    chief: Flags  # [C] it makes others' updates
    examples: Ints  # [C]
    gradients: Ints  # [C]


class Work(NamedTuple):
    """Tasks of the loop as the controller knows them; part of `Rules`. The last of them are timers: first the
    beginnings of clients' steps, then synchronisation ops that go on, then crashes.
    """

    owner: Ids  # [J] client; -1: a crash
    role: Ids  # [J] sum of FIRST, LAST, WATCHED, SYNC_OP
    transfer: Ids  # [J] -1: it is of none
    needs: Ids  # [J] events that it waits for in a step
    own_ptr: Ids  # [C+1]
    own: Ids  # tasks of a client's transfers
    request_ns: Ints  # [J] from the beginning of the step, before which it is not released
    sync_op_of: Ids  # [J] of an op; M + client for an END; -1: nothing
    resource_of: Ids  # [M] of the op
    source: Ids  # [X] task of the cluster
    target: Ids  # [X]
    route: Ids  # [X]
    nbytes: Ints  # [X]
    wire_ns: Ints  # [X] time of its bytes on links that are not its own; 0 of a flow, until whose end that is
    flows: Flags  # [X]


class SyncOps(NamedTuple):
    """Ops that do more than take time, sorted by op; the ENDs are not among them. Part of `Rules`."""

    op: Ids  # [M]
    client: Ids  # [M]
    kind: Ids  # [M] APPLY .. DRAW
    sync_resource: Ids  # [M] row of `SyncResources`, of DRAW row of `Inputs`; -1 for COUNT and READ
    amount: Ints  # [M] gradients that a take waits for, tokens that are added or taken, elements that are drawn
    reserve: Ints  # [M] tokens that must remain in the queue


class SyncResources(NamedTuple):
    """Accumulators and queues, which clients share; part of `Rules`."""

    queue: Flags  # [H] a queue of tokens; not: an accumulator
    capacity: Ints  # [H] of a queue; -1: without bound
    tokens: Ints  # [H] in a queue when the run begins, all of step 0
    task: Ids  # [H] of the cluster, that keeps it


class Inputs(NamedTuple):
    """Inputs that may run dry: each is filled by threads of its own. Part of `Rules`. Axis: I inputs."""

    thread_ptr: Ids  # [I+1] its region of `InputState.made_ns`: the threads that make items at once
    period_ns: Ints  # [I] a thread takes for an item
    item: Ints  # [I] elements of an item
    capacity: Ints  # [I] elements for which there is room; -1: without bound
    reserve: Ints  # [I] elements that must remain, fewer than there is room for
    task: Ids  # [I] of the cluster, that makes them
    kept_by: Ids  # [I] task that keeps them
    start_ns: Ints  # [I] the threads begin
    place_ptr: Ids  # [I+1] its region of `InputState.taken_at`


class DisturbanceRows(NamedTuple):
    """Crashes, noise and pauses; part of `Rules`."""

    crash_task: Ids  # [Z]
    crash_at_ns: Ints  # [Z]
    away_ns: Ints  # [Z]
    checkpoint_ns: Ints  # [Z] the last one before it; -1: nothing is lost
    restores: Flags  # [Z] the task keeps variables, accumulators or queues
    hit_ptr: Ids  # [Z+1]
    hit: Ids  # clients with an op on the task
    noise: Ints  # a table of factors after the other
    noise_of: Ids  # [K] which; -1: none
    phase_ns: Ints  # [K]
    period_ns: Ints  # [K]
    length_ns: Ints  # [K] 0: never


class Rules(NamedTuple):
    """Read-only."""

    clients: Clients
    clocks: ClockRows
    work: Work
    sync_ops: SyncOps
    sync_resources: SyncResources
    run_ptr: Ids  # [H+1] the region of each resource in `SyncState.run_token`
    inputs: Inputs
    disturbances: DisturbanceRows
    task_of: Ids  # [D]
    on_ptr: Ids  # [W+1]
    on: Ids  # links on which a transfer is not alone
    numbers: Ints  # SEED .. ACTIVITY


SEED, PATIENCE, RECORDED, TIMERS, ACTIVITY = range(5)  # of `Rules.numbers`
# Of a transfer: first on the wires; last; it puts bytes on links that it does not hold. Of an op: it synchronises.
FIRST, LAST, WATCHED, SYNC_OP = 1, 2, 4, 8


class SyncState(NamedTuple):
    """Accumulators, queues, and what waits for them; part of `Control`."""

    stored: Annotated[Ints, "H"]  # gradients since the last take; tokens
    step: Annotated[Ints, "H"]  # of an accumulator
    gathered: Annotated[Ints, "H"]
    first_taker: Annotated[Ids, "H"]  # the first op that waits to take, -1: none
    last_taker: Annotated[Ids, "H"]
    first_adder: Annotated[Ids, "H"]
    last_adder: Annotated[Ids, "H"]
    behind: Annotated[Ids, "F"]  # the next in the same queue of waiting ops
    needs: Annotated[Ints, "F"]  # what it still takes or adds
    token: Annotated[Ints, "F"]  # that it adds
    run_token: Annotated[Ints, "runs"]  # rings of equal tokens
    run_count: Annotated[Ints, "runs"]
    run_head: Annotated[Ids, "H"]
    runs: Annotated[Ids, "H"]  # how many in the ring
    touched: Annotated[Ints, "H"]
    is_touched: Annotated[Flags, "H"]
    released: Annotated[Ints, "2F"]  # what waits no longer
    released_size: Annotated[Ints, "1"]
    local_step: Annotated[Ints, "C"]
    takes: Annotated[Ints, "C"]
    gradients: Annotated[Ints, "C"]
    taken_examples: Annotated[Ints, "C"]
    enqueuing: Annotated[Ints, "C"]
    blocked: Annotated[Ints, "C"]
    blocked_from_ns: Annotated[Ints, "C"]
    waited_ns: Annotated[Ints, "C"]


class InputState(NamedTuple):
    """The elements in each input; part of `Control`. Axis: I inputs."""

    made_ns: Annotated[Ints, "threads"]  # when each thread's item is made
    taken_at: Annotated[Ints, "places"]  # rings: when what had each place was taken
    numbers: Annotated[Ints, "I"]  # items that were ever begun
    entering: Annotated[Ids, "I"]  # the thread whose elements enter
    left: Annotated[Ints, "I"]  # how many of them still have to
    entered: Annotated[Ints, "I"]
    taken: Annotated[Ints, "I"]
    entered_ns: Annotated[Ints, "I"]
    taken_ns: Annotated[Ints, "I"]
    for_ns: Annotated[Ints, "I"]
    waited_ns: Annotated[Ints, "C"]
    until_ns: Annotated[Ints, "C"]


# Of `Steps.progress`, which the loop shares: the time, the size of the event queue, the round, whether the run is under
# way, why it stops (0: it does not), and ready tasks.
NOW, EVENTS, ROUND, BEGUN, WHY, READY = range(6)


class Steps(NamedTuple):
    """The step of each client, and the log; part of `Control`."""

    progress: Annotated[Ints, "6"]  # NOW .. READY
    totals: Annotated[Ints, "totals"]  # GLOBAL_STEP ..
    going_on_ns: Annotated[Ints, "M"]  # -1: it does not
    acted: Annotated[Ints, "M+C"]  # synchronisation ops that ended in this round
    asked: Annotated[Ints, "M+C"]  # synchronisation ops and ENDs that are ready in it
    ends: Annotated[Ids, "M+C"]  # clients whose step ends in it
    number: Annotated[Ints, "C"]
    running: Annotated[Flags, "C"]
    begin_ns: Annotated[Ints, "C"]
    back_ns: Annotated[Ints, "C"]
    base: Annotated[Ints, "C"]
    own: Annotated[Ints, "C"]
    has_read: Annotated[Flags, "C"]
    at_end: Annotated[Flags, "C"]
    restarted: Annotated[Flags, "C"]
    remains: Annotated[Ints, "C"]  # tasks and transfers under way of a step that was cut short
    active: Annotated[Ints, "C"]  # tasks on devices, transfers and requests under way
    gone: Annotated[Ids, "C"]  # clients whose remains ran out in this round
    crashing: Annotated[Ints, "Z"]  # crashes of this round
    saved: Annotated[Ints, "Z"]  # the global step at its checkpoint
    lost: Annotated[Ints, "Z"]  # updates since then
    cut_number: Annotated[Ints, "hits"]  # the step of a client that a crash cut short; -1: none was under way
    cut_start_ns: Annotated[Ints, "hits"]
    asleep: Annotated[Ids, "C"]
    sleeps: Annotated[Flags, "C"]
    steps: Annotated[Ints, "log"]  # client, number, start, end, waiting, waiting for inputs
    updates: Annotated[Ints, "log"]  # time, client, staleness, gradients, examples


(
    GLOBAL_STEP,
    LIMIT,  # updates after which the run ends
    STEPS,  # in the log
    UPDATES,
    DROPPED,
    DYING,
    GONE,
    CRASHING,
    ASLEEP,
    WOKEN,  # work of a client begins that is no background client
    SINCE_UPDATE,  # steps
    TOUCHED,
    FILLED,
    ACTED,
    PENDING,  # tasks, transfers, requests and timers under way that are of no background client
    COUNTED,  # updates, of the whole run
    NEXT_SAMPLE,  # updates at which the next sample is taken
    ROUNDS,  # until the loop stops, so that Python is asked now and then whether it was interrupted
    TOTALS,
) = range(19)


class Counters(NamedTuple):
    """The use of tasks, devices and links; part of `Control`."""

    under_way: Annotated[Ints, "3K"]  # [kind, K] how much
    task_ns: Annotated[Ints, "3K"]  # [kind, K]
    since_ns: Annotated[Ints, "K"]
    busy_ns: Annotated[Ints, "D"]  # with all of what has begun
    message_ns: Annotated[Ints, "D"]  # of it, of the work for transfers
    carried: Annotated[Ints, "W"]
    on_link: Annotated[Ints, "L"]  # flows
    reserved_ns: Annotated[Ints, "L"]  # for which serial links were reserved
    through_ns: Annotated[Ints, "L"]  # until when `link_ns` has all
    link_ns: Annotated[Ints, "L"]
    took_ns: Annotated[Ints, "took"]  # of each task of a device, where it may vary


class Control(NamedTuple):
    """All that the controller knows."""

    rules: Rules
    sync: SyncState
    clocks: Clocks
    steps: Steps
    counters: Counters
    input_state: InputState


WRITTEN = (SyncState, Clocks, Steps, Counters, InputState)
