"""The recorded steps of a training, op by op, in the user's names: what the page and the trace file draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.training.crew.combining import Client
from viz.figures import tagged
from viz.scene import Trained


@dataclass(frozen=True, eq=False)
class Slices:
    """What ran on lanes: ops, and the work of processors for transfers. Axis: S, in order of (start, device, lane)."""

    label: Ids  # [S] row of `labels`
    labels: tuple[str, ...]  # different names, each once
    ops: tuple[str, ...]  # [labels] the op; "send" and "receive" for the work for transfers
    client: Ids  # [S]
    step: Ids  # [S] of that client
    device: Ids  # [S]
    lane: Ids  # [S]
    ready_ns: Ints  # [S]
    start_ns: Ints  # [S]
    end_ns: Ints  # [S]


@dataclass(frozen=True, eq=False)
class Crossings:
    """What crossed. Axis: X transfers."""

    label: tuple[str, ...]  # [X]
    client: Ids  # [X]
    step: Ids  # [X]
    source: Ids  # [X] device
    target: Ids  # [X] device
    nbytes: Ints  # [X] 0 for what only says that there is no value, -1 unknown
    dead: Flags  # [X]
    start_ns: Ints  # [X] on its first link
    crossing_ns: Ints  # [X] how long its bytes take on its slowest link
    came_ns: Ints  # [X] arrived


def crossings(trained: Trained) -> Crossings:
    """The transfers of the recorded steps."""
    trace = trained.training.trace
    assert trace is not None
    labels: list[str] = []
    source, target, nbytes = (np.zeros(len(trace.transfer), np.int64) for _ in range(3))
    known: dict[tuple[int, int, int], str] = {}
    for c, client in enumerate(trained.clients):
        rows = np.flatnonzero(trace.transfer_client == c)
        own, pieces = trace.transfer[rows], client.partitions
        source[rows], target[rows] = _devices(client, pieces.src_device[own]), _devices(client, pieces.dst_device[own])
        nbytes[rows] = pieces.nbytes[own]
    columns = (trace.transfer_client, trace.transfer, trace.transfer_iteration)
    for c, row, tag in zip(*(column.tolist() for column in columns), strict=True):
        client = trained.clients[c]
        key = (id(client.partitions), row, tag)
        if key not in known:
            known[key] = tagged(_carried(client, row), trace.iterations[tag])
        labels.append(known[key])
    return Crossings(
        label=tuple(labels),
        client=trace.transfer_client,
        step=trace.transfer_step,
        source=ids(source),
        target=ids(target),
        nbytes=ints(np.where(trace.transfer_dead, 0, nbytes)),
        dead=flags(trace.transfer_dead),
        start_ns=trace.transfer_start_ns,
        crossing_ns=trace.crossing_ns,
        came_ns=trace.transfer_end_ns,
    )


def slices(trained: Trained, crossed: Crossings, home: Ids) -> Slices:
    """Ops, packing and unpacking of the recorded steps; `home` is the CPU that works for each device's transfers."""
    trace = trained.training.trace
    assert trace is not None
    labels: dict[tuple[str, str], int] = {}
    seen: dict[tuple[int, int, int], int] = {}
    label = []
    for c, node, tag in zip(trace.client.tolist(), trace.node.tolist(), trace.iteration.tolist(), strict=True):
        pieces = trained.clients[c].partitions
        key = (id(pieces), node, tag)
        if key not in seen:
            name = tagged(pieces.graph.names[node], trace.iterations[tag])
            seen[key] = labels.setdefault((name, pieces.graph.ops[node]), len(labels))
        label.append(seen[key])
    for verb in ("send", "receive"):
        label += [labels.setdefault((f"{verb} {name}", verb), len(labels)) for name in crossed.label]
    device = np.concatenate([trace.device, home[crossed.source], home[crossed.target]])
    lane = np.concatenate([trace.lane, trace.pack_lane, trace.unpack_lane])
    ready = np.concatenate([trace.ready_ns, trace.transfer_ready_ns, trace.transfer_end_ns])
    start = np.concatenate([trace.start_ns, trace.pack_start_ns, trace.unpack_start_ns])
    end = np.concatenate([trace.end_ns, trace.pack_end_ns, trace.unpack_end_ns])
    is_op = np.arange(len(start)) < len(trace.start_ns)
    kept = np.flatnonzero(is_op | (end > start))
    rows = kept[np.lexsort((kept, lane[kept], device[kept], start[kept]))]
    client = np.concatenate([trace.client, crossed.client, crossed.client])
    step = np.concatenate([trace.step, crossed.step, crossed.step])
    return Slices(
        label=ids(np.array(label, np.int64)[rows]),
        labels=tuple(name for name, _ in labels),
        ops=tuple(op for _, op in labels),
        client=ids(client[rows]),
        step=ids(step[rows]),
        device=ids(device[rows]),
        lane=ids(lane[rows]),
        ready_ns=ints(ready[rows]),
        start_ns=ints(start[rows]),
        end_ns=ints(end[rows]),
    )


def _devices(client: Client, devices: Ids) -> Ids:
    return devices if client.devices is None else ids(client.devices[devices])


def _carried(client: Client, transfer: int) -> str:
    """ "node:port" of the value that a transfer carries, "^node" for a control edge, in the client's graph."""
    graph, tensor = client.program.graph, int(client.partitions.tensor[transfer])
    return graph.tensor_name(tensor) if tensor >= 0 else f"^{graph.names[-1 - tensor]}"
