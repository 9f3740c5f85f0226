"""The result of many steps of many clients: when each step ran, what it counted, who waited, what the links carried.

Axes: C clients, K tasks, D devices, L links (of the cluster), S steps, U updates of the global step, Z crashes.
Everything is summed while it runs, so that memory grows with steps and updates alone, a few numbers each. Only the
recorded steps have slices, in `trace`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, ids, ints
from simulator.notebook import Drawn
from simulator.training.disturbances.disturbance import Upsets
from simulator.units import Nanos, show_nanos
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    from simulator.execution.trace import Trace
    from simulator.partitioning.partitions import Partitions
    from simulator.training.inputs.pipeline import InputPipeline


# Columns of `ResourceUsage.task_ns`: some device of the task runs an op; else one packs or unpacks a message; else
# something is on its route from or to it; else it waits.
COMPUTING, HANDLING, SENDING, WAITING = range(4)


class ResourceUsage(NamedTuple):
    """The use of tasks, devices and links in a part of a run. Axes: K tasks, D devices, L links."""

    updates: int  # of the global step
    ns: Nanos  # that it lasts
    task_ns: npt.NDArray[np.int64]  # [K, 4] COMPUTING .. WAITING; a row's sum is `ns`
    device_busy_ns: Ints  # [D] lane time in which ops ran and transfers were packed and unpacked
    message_ns: Ints  # [D] of it, in which transfers were packed and unpacked
    link_bytes: Ints  # [L] of the transfers that have crossed it
    link_busy_ns: Ints  # [L] time in which bytes were on it; latencies are no such time

    def since(self, earlier: ResourceUsage) -> ResourceUsage:
        """The use after an earlier moment of the same run."""
        return ResourceUsage(
            updates=self.updates - earlier.updates,
            ns=self.ns - earlier.ns,
            task_ns=self.task_ns - earlier.task_ns,
            device_busy_ns=self.device_busy_ns - earlier.device_busy_ns,
            message_ns=self.message_ns - earlier.message_ns,
            link_bytes=self.link_bytes - earlier.link_bytes,
            link_busy_ns=self.link_busy_ns - earlier.link_busy_ns,
        )


class CutShort(NamedTuple):
    """A step that a crash ended."""

    client: int
    number: int
    start_ns: Nanos
    end_ns: Nanos  # of the crash
    crash: int  # row of `Disturbed`


@dataclass(frozen=True, eq=False)
class Training(Drawn):
    """A run from time 0, at which the clients ask for their sessions, to `end_ns`, the last update that was asked for.

    Rows of steps are those that ended; steps cut short by a crash, or under way at the end, are listed apart. Updates
    that a parameter server lost are rows of updates, as they took their time.
    """

    regime: str  # "sync:aggregate=8,total=10,tokens=10", as read_regime reads it
    tasks: tuple[str, ...]  # [K] full names, in the cluster's order
    devices: tuple[str, ...]  # [D] full names
    links: tuple[str, ...]  # [L]

    clients: tuple[str, ...]  # [C] names of their programs
    client_task: Ids  # [C] row of `tasks`
    is_worker: Flags  # [C] its steps are training steps; not: it updates for others
    session_ns: Ints  # [C] its session starts
    waited_for: Ids  # [C] row of the task whose coming up its session waited for last; -1: for none

    step_client: Ids  # [S] steps in order of (end, client)
    step_number: Ids  # [S] 0, 1, .. within the client, those cut short included
    step_start_ns: Ints  # [S]
    step_end_ns: Ints  # [S]
    step_waiting_ns: Ints  # [S] of it in which some op of it waited for a token or a gradient, and none for an input
    step_input_ns: Ints  # [S] of it in which some op of it waited for an input that had run dry

    update_ns: Ints  # [U] ascending: when the global step was counted up
    update_client: Ids  # [U] whose op did so
    update_staleness: Ids  # [U] updates by others since that client's step read first what it trains
    update_gradients: Ids  # [U] replicas' gradients that it applied
    update_examples: Ints  # [U] examples behind those; 0: unknown

    dropped: int  # gradients that came too late for their accumulator, counted once per step and accumulator
    lost_updates: int  # updates that fell behind the last checkpoint of a parameter server that died

    device_lanes: Ids  # [D]
    usage: ResourceUsage  # by the whole run
    end_ns: Nanos
    samples: tuple[ResourceUsage, ...] = ()  # by its first part, at some of its updates, ascending: no more than 128
    under_way: tuple[tuple[int, int, Nanos], ...] = ()  # steps that the end cut off: (client, number, start), by client
    lost_by_crash: Ints = field(default_factory=lambda: ints([]))  # [Z] of `lost_updates`; crashes as in `Disturbed`
    cut_short: tuple[CutShort, ...] = ()  # in order of (crash, client)
    input_ns: Ints = field(default_factory=lambda: ints([]))  # [I] that clients waited for each input
    inputs: tuple[InputPipeline, ...] = ()  # [I] what the clients take their examples from, where it may run dry
    trace: Trace | None = None  # of the recorded steps
    partitions: tuple[Partitions, ...] = ()  # by client; the trace's rows refer to its client's
    upsets: Upsets = field(default_factory=Upsets)
    notes: tuple[str, ...] = ()  # what was assumed
    bound: int | None = None  # steps that a worker may be ahead of the slowest; None: as many as it likes
    drawn: tuple[str, ...] = ()  # predicates that were drawn once, for all steps

    def __repr__(self) -> str:
        clients, updates = counted(len(self.clients), "client"), counted(len(self.update_ns), "update")
        return repr_of(self, self.regime, clients, f"{updates} in {show_nanos(self.end_ns)}")

    def steps_from(self, begin_ns: Nanos) -> Ids:
        """The rows of the training steps that begin then or later, as after the warm-up; of all, if none does."""
        worker = self.is_worker[self.step_client]
        late = worker & (self.step_start_ns >= begin_ns)
        return ids(np.flatnonzero(late if late.any() else worker))
