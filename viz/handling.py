"""Transfers as the pictures show them: what processors do for each, and which of its stretches set the makespan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.execution.trace import transfer_of
from viz.figures import transfers
from viz.scene import Scene


@dataclass(frozen=True, eq=False)
class Handling:
    """The packing and unpacking that takes time. Axis: W pieces of work, in order of (start, device, lane)."""

    transfer: Ids  # [W] row of the trace's transfers
    packs: Flags  # [W] at the source; else it unpacks, at the target
    device: Ids  # [W] the CPU that does it
    lane: Ids  # [W]
    ready_ns: Ints  # [W] it could begin
    start_ns: Ints  # [W]
    end_ns: Ints  # [W]


def handling(scene: Scene) -> Handling:
    """What processors do for the transfers of a scene."""
    trace, cut, home = scene.trace, transfers(scene), scene.cluster.home
    count = len(cut.tensor)
    device = np.concatenate([home[cut.src_device], home[cut.dst_device]])
    lane = np.concatenate([trace.pack_lane, trace.unpack_lane])
    ready = np.concatenate([trace.transfer_ready_ns, trace.transfer_end_ns])
    start = np.concatenate([trace.pack_start_ns, trace.unpack_start_ns])
    end = np.concatenate([trace.pack_end_ns, trace.unpack_end_ns])
    rows = np.flatnonzero(end > start)
    rows = rows[np.lexsort((rows, lane[rows], device[rows], start[rows]))]
    return Handling(
        transfer=ids(rows % max(count, 1)),
        packs=flags(rows < count),
        device=ids(device[rows]),
        lane=ids(lane[rows]),
        ready_ns=ints(ready[rows]),
        start_ns=ints(start[rows]),
        end_ns=ints(end[rows]),
    )


def critical_stretches(scene: Scene) -> set[tuple[int, int]]:
    """(transfer, stretch) of those on the critical path, as `execution.trace` numbers the stretches."""
    if scene.trace.critical is None:
        return set()
    return {transfer_of(row) for row in scene.trace.critical.tolist() if row < 0}
