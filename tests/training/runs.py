"""Results of training runs made by hand or drawn, without a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.columns import flags, ids, ints
from simulator.costs.table import CostTable
from simulator.training.training import WAITING, ResourceUsage, Training


def made(ends: Sequence[int], /, **changed: Any) -> Training:
    """One worker that updates at those times, one step each, on a cluster of a ps, a worker and a link each way."""
    count = len(ends)
    begin = [0, *ends[:-1]] if count else []
    end = ends[-1] if count else 0
    columns: dict[str, Any] = {
        "regime": "async",
        "tasks": ("/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"),
        "devices": ("/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"),
        "links": ("ps0 nic out", "worker0 nic out"),
        "clients": ("worker:0",),
        "client_task": ids([1]),
        "is_worker": flags([True]),
        "session_ns": ints([0]),
        "waited_for": ids([-1]),
        "step_client": ids([0] * count),
        "step_number": ids(range(count)),
        "step_start_ns": ints(begin),
        "step_end_ns": ints(ends),
        "step_waiting_ns": ints([0] * count),
        "update_ns": ints(ends),
        "update_client": ids([0] * count),
        "update_staleness": ids([0] * count),
        "update_gradients": ids([1] * count),
        "update_examples": ints([32] * count),
        "dropped": 0,
        "lost_updates": 0,
        "device_lanes": ids([1, 1]),
        "end_ns": end,
    }
    usage: dict[str, Any] = {
        "updates": count,
        "ns": end,
        "task_ns": ints([[0, 0, 0, end], [end, 0, 0, 0]]),
        "device_busy_ns": ints([0, end]),
        "message_ns": ints([0, 0]),
        "link_bytes": ints([0, 0]),
        "link_busy_ns": ints([0, 0]),
    }
    columns |= {name: value for name, value in changed.items() if name not in usage}
    columns.setdefault("step_input_ns", ints([0] * len(columns["step_client"])))
    usage |= {name: value for name, value in changed.items() if name in usage} | {"ns": columns["end_ns"]}
    return Training(**{"usage": ResourceUsage(**usage), **columns})


def costs_of(cluster: Cluster, *rows: tuple[int, ...]) -> CostTable:
    """Nodes with those times on the kinds of the cluster."""
    zeros = np.zeros(len(rows), np.int64)
    run_ns = np.array(rows, np.int64)
    return CostTable(cluster.kinds, run_ns, ints(zeros), ints(zeros), ids(zeros), ints(zeros), ints(zeros))


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    """Up to four workers that take steps of any length; each end of a step is an update."""
    workers = draw(st.integers(1, 4))
    rows = []
    for client in range(workers):
        now = draw(st.integers(0, 50))
        for number, length in enumerate(draw(st.lists(st.integers(0, 100), max_size=20))):
            waiting = draw(st.integers(0, length))
            rows.append((now + length, client, number, now, waiting))
            now += length
    rows.sort()
    ends = [row[0] for row in rows]
    end = max(ends, default=0)
    staleness = [sum(begin < other <= row[0] for other in ends) - 1 for row in rows for begin in [row[3]]]
    shares = []
    for _ in range(workers + 1):
        computing = draw(st.integers(0, end))
        handling = draw(st.integers(0, end - computing))
        sending = draw(st.integers(0, end - computing - handling))
        shares.append([computing, handling, sending, end - computing - handling - sending])
    devices = [f"/job:worker/replica:0/task:{k}/device:CPU:0" for k in range(workers)]
    return made(
        ends,
        tasks=("/job:ps/replica:0/task:0", *(device.rsplit("/device", 1)[0] for device in devices)),
        devices=("/job:ps/replica:0/task:0/device:CPU:0", *devices),
        clients=tuple(f"worker:{k}" for k in range(workers)),
        client_task=ids(range(1, workers + 1)),
        is_worker=flags([True] * workers),
        session_ns=ints([0] * workers),
        waited_for=ids([-1] * workers),
        step_client=ids([row[1] for row in rows]),
        step_number=ids([row[2] for row in rows]),
        step_start_ns=ints([row[3] for row in rows]),
        step_waiting_ns=ints([row[4] for row in rows]),
        update_client=ids([row[1] for row in rows]),
        update_staleness=ids(np.maximum(staleness, 0)),
        update_examples=ints([draw(st.sampled_from([0, 8]))] * len(rows)),
        task_ns=ints(np.array(shares, np.int64).reshape(workers + 1, WAITING + 1)),
        device_busy_ns=ints([row[0] + row[1] for row in shares]),
        message_ns=ints([row[1] for row in shares]),
        device_lanes=ids([1] * (workers + 1)),
        link_bytes=ints([draw(st.integers(0, 10**6)), 0]),
        link_busy_ns=ints([draw(st.integers(0, end)), 0]),
    )
