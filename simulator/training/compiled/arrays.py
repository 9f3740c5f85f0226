"""A crew as the compiled director reads it, and the memory in which it works; `execution.flat` says how to read this.

Axes: C clients, M marked ops, H shared objects, K tasks, D devices, W ways, L links, Z crashes, n ops, E edges; a *who*
is a marked op or M + the number of the filling of a queue, done again by each chief after a crash: F = M + H (1 + C Z).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from simulator.columns import Flags, Ids, Ints

LOG_ROWS = 1 << 15  # steps and updates that are noted before Python takes them away
COLUMNS = 6  # of both, of which an update has one less
ROUNDS_AT_ONCE = 1 << 18  # a tenth of a second or so
DONE, MORE, HUNG = 1, 2, 3  # why the loop stopped: enough updates; to be emptied; no update comes any more


class Clients(NamedTuple):
    """Whose rows are whose; part of `Rules`."""

    op_ptr: Ids  # [C+1]
    root_ptr: Ids  # [C+1] where in the table of ops without inputs its own are
    mark_ptr: Ids  # [C+1]
    start_ns: Ints  # [C]
    gap_ns: Ints  # [C]
    tell_ns: Ints  # [C]
    hear_ns: Ints  # [C]
    clocked: Flags  # [C]
    counts: Flags  # [C]
    idle: Flags  # [C]
    own_step: Flags  # [C] it reads the global step itself
    chief: Flags  # [C] it makes others' updates
    examples: Ints  # [C]
    client_of: Ids  # [n]
    mark_of: Ids  # [n] of an op; M + client for an END; -1: nothing


class Marks(NamedTuple):
    """Ops that do more than take time; part of `Rules`."""

    op: Ids  # [M]
    client: Ids  # [M]
    kind: Ids  # [M]
    shared: Ids  # [M]
    amount: Ints  # [M]
    reserve: Ints  # [M]


class Objects(NamedTuple):
    """Accumulators and queues; part of `Rules`."""

    queue: Flags  # [H]
    capacity: Ints  # [H]
    tokens: Ints  # [H]
    task: Ids  # [H]
    run_ptr: Ids  # [H+1] its region of `Lines.run_token`


class Inputs(NamedTuple):
    """Inputs that may run dry; part of `Rules`. Axis: I inputs."""

    period_ns: Ints  # [I]
    item: Ints  # [I]
    capacity: Ints  # [I]
    reserve: Ints  # [I]
    task: Ids  # [I]
    kept_by: Ids  # [I]
    start_ns: Ints  # [I]
    thread_ptr: Ids  # [I+1] its region of `Feeds.made_ns`
    place_ptr: Ids  # [I+1] its region of `Feeds.taken_at`


class Meets(NamedTuple):
    """What disturbs the run; part of `Rules`."""

    crash_task: Ids  # [Z]
    crash_at_ns: Ints  # [Z]
    away_ns: Ints  # [Z]
    checkpoint_ns: Ints  # [Z] the last one before it; -1: nothing is lost
    restores: Flags  # [Z] the task keeps variables or shared objects
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
    marks: Marks
    objects: Objects
    inputs: Inputs
    meets: Meets
    task_of: Ids  # [D]
    on_ptr: Ids  # [W+1]
    on: Ids  # links on which a transfer is not alone
    numbers: Ints  # LIMIT .. PATIENCE


LIMIT, BOUND, SEED, PATIENCE, RECORDED = range(5)  # of `Rules.numbers`


class Lines(NamedTuple):
    """The synchronising machines and who waits in their lines; part of `Team`."""

    there: Annotated[Ints, "H"]  # gradients since the last take; tokens
    step: Annotated[Ints, "H"]  # of an accumulator
    gathered: Annotated[Ints, "H"]
    taker: Annotated[Ids, "H"]  # who waits first, -1: nobody
    last_taker: Annotated[Ids, "H"]
    adder: Annotated[Ids, "H"]
    last_adder: Annotated[Ids, "H"]
    behind: Annotated[Ids, "F"]  # who waits behind each
    needs: Annotated[Ints, "F"]  # what it still takes or adds
    token: Annotated[Ints, "F"]  # that it adds
    run_token: Annotated[Ints, "runs"]  # rings of equal tokens
    run_count: Annotated[Ints, "runs"]
    run_head: Annotated[Ids, "H"]
    runs: Annotated[Ids, "H"]  # how many in the ring
    touched: Annotated[Ints, "H"]
    is_touched: Annotated[Flags, "H"]
    found: Annotated[Ints, "2F"]  # who waits no longer
    found_size: Annotated[Ints, "1"]
    local_step: Annotated[Ints, "C"]
    takes: Annotated[Ints, "C"]
    gradients: Annotated[Ints, "C"]
    taken_examples: Annotated[Ints, "C"]
    adding: Annotated[Ints, "C"]
    held: Annotated[Ints, "C"]
    held_ns: Annotated[Ints, "C"]
    waited_ns: Annotated[Ints, "C"]


class Feeds(NamedTuple):
    """Inputs as `feeding` has them; part of `Team`. Axis: I inputs."""

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


class Steps(NamedTuple):
    """Where each client is; part of `Team`."""

    progress: Annotated[Ints, "5"]  # now, size of the heap, round, whether it is under way, why it stops
    totals: Annotated[Ints, "totals"]  # GLOBAL_STEP ..
    instants: Annotated[Flags, "n"]  # ops that end when they are ready, or ask
    at_ready: Annotated[Flags, "M"]  # how it was before
    armed: Annotated[Flags, "M+C"]  # it asks when it is ready
    going_on_ns: Annotated[Ints, "M"]  # -1: it does not
    acted: Annotated[Ints, "M+C"]  # marked ops that ended in this round
    asked: Annotated[Ints, "M+C"]  # marked ops and ENDs that are ready in it
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
    remains: Annotated[Ints, "C"]
    gone: Annotated[Ids, "C"]  # clients whose remains ran out in this round
    crashing: Annotated[Ints, "Z"]  # crashes of this round
    saved: Annotated[Ints, "Z"]  # the global step at its checkpoint
    lost: Annotated[Ints, "Z"]  # updates since then
    cut_number: Annotated[Ints, "hits"]  # the step of a client that a crash cut short; -1: none was under way
    cut_start_ns: Annotated[Ints, "hits"]
    asleep: Annotated[Ids, "C"]
    sleeps: Annotated[Flags, "C"]
    clock: Annotated[Ints, "C"]
    waiting: Annotated[Ids, "C"]  # for the slowest clock, in order
    waits: Annotated[Flags, "C"]
    said_ns: Annotated[Ints, "2B+2"]  # of the last clocks: who keeps them knows that all have come to it
    until_ns: Annotated[Ints, "E"]  # when a transfer leaves the wire
    queue_room: Annotated[Ids, "D"]  # where the region of its queue ends
    wire_room: Annotated[Ids, "W"]
    steps: Annotated[Ints, "log"]  # client, number, start, end, waiting, waiting for inputs
    updates: Annotated[Ints, "log"]  # time, client, staleness, gradients, examples


(
    GLOBAL_STEP,
    STEPS,  # in the log
    UPDATES,
    DROPPED,
    DYING,
    GONE,
    CRASHING,
    ASLEEP,
    WOKEN,  # somebody's work begins who is no idler
    WAITING,
    SLOWEST,
    AT_SLOWEST,
    SINCE_UPDATE,  # steps
    TOUCHED,
    FILLED,
    ENDS,
    COUNTED,  # updates, of the whole run
    MILESTONE,  # so many are to be noted
    ROUNDS,  # until the loop stops, so that Python is asked now and then whether it was interrupted
    TOTALS,
) = range(20)


class Sums(NamedTuple):
    """What tasks, devices and links do; part of `Team`."""

    under_way: Annotated[Ints, "3K"]  # [kind, K] how much
    task_ns: Annotated[Ints, "3K"]  # [kind, K]
    since_ns: Annotated[Ints, "K"]
    busy_ns: Annotated[Ints, "D"]  # with all of what has begun
    message_ns: Annotated[Ints, "D"]  # of it, of the work for transfers
    carried: Annotated[Ints, "W"]
    on_link: Annotated[Ints, "L"]  # flows
    through_ns: Annotated[Ints, "L"]  # until when `link_ns` has all
    link_ns: Annotated[Ints, "L"]
    took_ns: Annotated[Ints, "took"]  # of each job, where it may vary


class Team(NamedTuple):
    """All that the director knows."""

    rules: Rules
    lines: Lines
    steps: Steps
    sums: Sums
    feeds: Feeds


WRITTEN = (Lines, Steps, Sums, Feeds)
