"""Figures of a step, as plain values: the tables of the summary, the JSON, the report and the pictures.

Times are nanoseconds and memory is bytes, unrounded; the caller prints them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from simulator.assignment import OVERRULED, RELAXED
from simulator.columns import Flags, Ids, Ints, flags, ids, ints, stable_order
from simulator.costs.rules import category
from simulator.costs.table import FALLBACK, MEASURED, MODELLED, PROFILED
from simulator.execution.interval import interval
from simulator.execution.memory import KINDS, Live, at_peak
from simulator.execution.options import ENFORCED
from simulator.execution.receiving import copies_held
from simulator.execution.trace import Kind
from simulator.graph import ops
from simulator.graph.graph import Shape
from simulator.graph.op_classes import COLLECTIVES, calling
from simulator.graph.step import exchange
from simulator.shapes.unknown import unknown_shapes
from simulator.units import Nanos
from simulator.wording import most_first
from viz.palette import PACKING, UNPACKING
from viz.scene import Scene
from viz.transfers import DrawnClient, DrawnTransfers, transfers_of

NOTICEABLE_SHARE = 0.005  # of the makespan: what differs by less is shown as the same


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device in one step."""

    device: int
    ops: int
    busy_ns: int
    busy_share: float  # of its lanes' time up to the makespan
    peak_bytes: int
    capacity_bytes: int

    @property
    def fullness(self) -> float:
        """The share of its memory that it holds at its peak."""
        return self.peak_bytes / max(self.capacity_bytes, 1)


@dataclass(frozen=True, slots=True)
class TransferRow:
    """One transfer; `tensor` is a row of the graph, or -1 - node for a control edge."""

    transfer: int
    tensor: int
    iteration: Sequence[int]  # of each loop around, outermost first
    src_device: int
    dst_device: int
    nbytes: int
    took_ns: int  # for its bytes and latency


@dataclass(frozen=True, slots=True)
class Share:
    """Some of the step's time: what it went to and how much."""

    what: str
    nanos: int


def slice_nodes(scene: Scene) -> Ids:
    """[S] the row of `scene.graph` that each slice of the trace runs."""
    return scene.partitions.origin[scene.trace.ops.node]


def node_ns(scene: Scene) -> Ints:
    """[N] the time of all ops of each node in the step."""
    took, ops = np.zeros(len(scene.graph), np.int64), scene.trace.ops
    np.add.at(took, slice_nodes(scene), ops.end_ns - ops.start_ns)
    return ints(took)


def fed_nodes(scene: Scene) -> Ids:
    """The nodes that do not run because the client hands in what they would have made, ascending."""
    fed = np.unique(scene.graph.tensor_node[exchange(scene.graph, scene.step).fed])
    return ids(fed[~scene.step.runs[fed]])


def taking_part(scene: Scene) -> Flags:
    """[N] the nodes that run in the step, and those whose values the client hands in."""
    part = np.array(scene.step.runs)
    part[fed_nodes(scene)] = True
    return flags(part)


def devices_of_nodes(scene: Scene) -> Ids:
    """[N] the device that each node is on once the graph is cut.

    A control-flow op may be moved to what it guards, and what is fed comes from the client's device.
    """
    cut = scene.partitions
    own = np.flatnonzero(~cut.inserted)
    device = scene.assignment.device.copy()
    device[cut.origin[own]] = cut.device[own]
    device[fed_nodes(scene)] = scene.cluster.client
    return ids(device)


def transfers(scene: Scene) -> DrawnTransfers:
    """The tensor, ends, route and size of each transfer of the step."""
    return transfers_of(scene.trace, scene.cluster, [DrawnClient(scene.title, scene.graph, scene.partitions)])


def bytes_by_pair(scene: Scene) -> Ints:
    """Per transfer of the partitions the bytes of all iterations; -1 where their number is unknown."""
    took = transfers(scene)
    total = np.zeros(len(scene.partitions.send), np.int64)
    np.add.at(total, scene.trace.transfers.row, np.maximum(took.nbytes, 0))
    total[scene.trace.transfers.row[took.nbytes < 0]] = -1
    return ints(total)


def moved_bytes(scene: Scene) -> int:
    """Bytes of all transfers; those of unknown size count nothing."""
    return int(np.maximum(transfers(scene).nbytes, 0).sum())


def tagged(name: str, iteration: Sequence[int]) -> str:
    """The name of what runs in a loop, with the iteration of each loop around it: "while/Add#3", "inner/Add#0,3"."""
    return f"{name}#{','.join(map(str, iteration))}" if iteration else name


def tensor_label(scene: Scene, tensor: int) -> str:
    """ "node:port" of a tensor's row, "^node" of -1 - node, which stands for a control edge."""
    return scene.graph.tensor_name(tensor) if tensor >= 0 else f"^{scene.graph.names[-1 - tensor]}"


def devices(scene: Scene) -> list[DeviceRow]:
    """One row per device, in the cluster's order."""
    trace, rows = scene.trace, []
    ops = np.bincount(trace.ops.device, minlength=len(scene.cluster))
    for row, device in enumerate(scene.cluster.devices):
        busy, whole = int(trace.busy_ns[row]), trace.makespan * device.lanes
        share = busy / whole if whole else 0.0
        rows.append(DeviceRow(row, int(ops[row]), busy, share, int(trace.peak_bytes[row]), device.memory_bytes))
    return rows


_OF_KIND: Mapping[int, str] = {
    Kind.REQUEST: "waiting",
    Kind.PACK: PACKING,
    Kind.LINK: "transfers",
    Kind.FLOW: "transfers",
    Kind.LATENCY: "transfers",
    Kind.UNPACK: UNPACKING,
}


def time_by_category(scene: Scene) -> dict[str, list[int]]:
    """Category -> time of each device in which its ops ran, and in which it packed and unpacked what is sent.

    The largest total comes first; ties go by name.
    """
    tasks, ops, count = scene.trace.tasks, scene.trace.ops, len(scene.cluster)
    shown = np.concatenate([ops.task, tasks.rows(Kind.PACK, Kind.UNPACK)])
    names, number = _kinds_of_tasks(scene, shown)
    total = np.zeros((len(names), count), np.int64)
    np.add.at(total, (number, tasks.resource[shown]), tasks.end_ns[shown] - tasks.start_ns[shown])
    rows = [(name, nanos.tolist()) for name, nanos in zip(names, total, strict=True) if nanos.any()]
    return dict(sorted(rows, key=lambda row: (-sum(row[1]), row[0])))


def _kinds_of_tasks(scene: Scene, rows: Ids) -> tuple[list[str], Ints]:
    """The different kinds of tasks of the trace, an op's by its category, and the number of each task's."""
    trace, tasks = scene.trace, scene.trace.tasks
    table: dict[str, int] = {}
    of_op = {op: table.setdefault(category(op), len(table)) for op in dict.fromkeys(scene.graph.ops)}
    of_kind = {int(kind): table.setdefault(name, len(table)) for kind, name in _OF_KIND.items()}
    number = np.array([of_kind.get(kind, -1) for kind in range(max(Kind) + 1)], np.int64)[tasks.kind[rows]]
    run = np.flatnonzero(number < 0)
    nodes = scene.partitions.origin[trace.instances.node[tasks.of[rows[run]]]]
    number[run] = [of_op[scene.graph.ops[node]] for node in nodes.tolist()]
    return list(table), number


def longest_transfers(scene: Scene, count: int = 10) -> list[TransferRow]:
    """The transfers that took longest for their bytes and latency, waiting left out, ties in order of start."""
    trace = scene.trace
    took = trace.moments.crossing_ns + trace.moments.arrived_ns - trace.moments.through_ns
    order = np.lexsort((trace.moments.sent_ns, -took))[:count]
    cut = transfers(scene)
    columns = (cut.source, cut.target, cut.nbytes, took)
    tags = trace.iterations
    return [
        TransferRow(
            int(row),
            int(cut.tensor[row]),
            tags[trace.transfers.iteration[row]],
            *(int(column[row]) for column in columns),
        )
        for row in order
    ]


def largest_ops(scene: Scene) -> list[int]:
    """The ten slices that ran longest, ties in order of start."""
    took = scene.trace.ops.end_ns - scene.trace.ops.start_ns
    return [int(row) for row in np.lexsort((np.arange(len(took)), -took))[:10]]


def critical_shares(scene: Scene) -> list[Share]:
    """Shares of the critical path, the largest first: ops by category, transfers, and waiting in between.

    The shares add up to the makespan; until a request has arrived all is waiting.
    """
    trace, tasks = scene.trace, scene.trace.tasks
    if trace.critical is None:
        return []
    names, number = _kinds_of_tasks(scene, trace.critical)
    total = np.zeros(len(names), np.int64)
    np.add.at(total, number, tasks.end_ns[trace.critical] - tasks.start_ns[trace.critical])
    found = sorted(zip(total.tolist(), names, strict=True), key=lambda row: (-row[0], row[1]))
    return [Share(what, took) for took, what in found if took]


@dataclass(frozen=True, slots=True)
class Simulation:
    """The options of the simulation."""

    order: str
    contention: str
    links: Mapping[str, str]  # name -> contention, of those that have another of their own
    protocol: str
    engine: str


def simulation(scene: Scene) -> Simulation:
    """The options with which the step was simulated."""
    trace, cluster = scene.trace, scene.cluster
    own = {link.name: link.contention for link in cluster.links if link.contention is not None}
    others = {name: contention for name, contention in own.items() if contention != trace.contention}
    order = trace.order if scene.enforced is None else ENFORCED
    return Simulation(order, trace.contention, others, cluster.between_tasks.name, trace.engine)


def fed_shapes(scene: Scene) -> Mapping[str, Shape | None]:
    """Tensor that comes from the client -> its shape, None where its rank is unknown."""
    graph = scene.graph
    return {name: graph.tensor_shape[graph.tensor_row(name)] for name in scene.step.feeds}


def price_sources(scene: Scene) -> Ids:
    """[N] row of SOURCES: what the price of each node is from, on the kind of its own device."""
    columns = {kind: column for column, kind in enumerate(scene.costs.kinds)}
    column = np.array([columns[device.kind] for device in scene.cluster.devices], np.int64)
    return ids(scene.costs.sources[np.arange(len(scene.graph)), column[devices_of_nodes(scene)]])


def fallbacks(scene: Scene) -> list[tuple[str, int]]:
    """Op -> number of its nodes whose cost is only a fallback, the most first."""
    rows = np.flatnonzero((price_sources(scene) == FALLBACK) & scene.step.runs).tolist()
    return most_first(Counter(scene.graph.ops[row] for row in rows))


def collectives(scene: Scene) -> int:
    """Ops of the step that exchange tensors with others of their group, for which they do not wait here."""
    if COLLECTIVES.keys().isdisjoint(scene.graph.ops):
        return 0
    return sum(scene.graph.ops[row] in COLLECTIVES for row in np.flatnonzero(scene.step.runs).tolist())


def another_order_ns(scene: Scene) -> Nanos | None:
    """The makespan in TensorFlow's order, where it is a NOTICEABLE_SHARE away from the one that is shown."""
    other, own = scene.tensorflow_order_ns, scene.trace.makespan
    return None if other is None or abs(other - own) < own * NOTICEABLE_SHARE else int(other)


def by_profile_ns(scene: Scene) -> tuple[Nanos, Nanos] | None:
    """The least and the most that the step may take by a profile; None: no profile, or the time is a lower bound."""
    return None if scene.unsized.tensors else interval(scene.trace, scene.partitions, scene.cluster, scene.costs)


def at_most(scene: Scene) -> float | None:
    """How many times the optimum the makespan can be, rounded up, so that it stays true; 1: it is the optimum.

    None where nobody can say: tensors have no known size, or members of collectives do not wait for each other.
    """
    if scene.unsized.tensors or collectives(scene):
        return None
    if not scene.bound.ns or scene.trace.makespan <= scene.bound.ns:
        return 1.0
    ratio = scene.trace.makespan / scene.bound.ns
    digits = 3 if ratio < 1.1 else 2
    return ceil(ratio * 10**digits) / 10**digits if ratio < 10 else float(ceil(ratio))


def notes(scene: Scene) -> list[str]:
    """Notes of all values of the scene; each sentence once."""
    pinned = (f"Pinned: {scene.pinned}.",) if scene.pinned is not None and scene.pinned.matters else ()
    return list(dict.fromkeys((*pinned, *scene.graph.notes, *scene.cluster.notes, *result_notes(scene))))


def result_notes(scene: Scene) -> list[str]:
    """Notes on pricing, placing, cutting and simulating; each sentence once."""
    parts = (scene.assignment, scene.costs, scene.partitions, scene.trace, scene)
    first = scene.trace.notes[:1] if scene.trace.dead_fetches else ()  # a step that TensorFlow refuses
    return list(dict.fromkeys((*scene.trace.endless, *first, *(sentence for part in parts for sentence in part.notes))))


@dataclass(frozen=True, slots=True)
class PeakRow:
    """The memory of one device at its peak; the bytes of `kinds` add up to the peak, so do `live` and the rest."""

    device: int
    time_ns: int
    peak_bytes: int
    cause: str  # the node whose output reached the peak; "" if only resident memory is held
    cause_bytes: int
    kinds: Mapping[str, int]  # bytes of each of memory.KINDS that there is
    live: Sequence[Live]  # the largest, in that order
    rest: int  # how many more there are
    rest_bytes: int


@dataclass(frozen=True, slots=True)
class LateRow:
    """The effect of delayed Recvs."""

    rule: str  # "whitepaper" or "tensorflow"
    delayed: int  # Recvs
    transfers: int
    makespan_ns: tuple[int, int]  # without it, and with it
    held_byte_ns: tuple[int, int]  # of received copies, summed over the step
    peak_bytes: Sequence[tuple[int, int]]  # by device


def peaks(scene: Scene, count: int = 10) -> list[PeakRow]:
    """The peak of each device that holds memory, in the cluster's order, with its `count` largest allocations."""
    rows = []
    for device in np.flatnonzero(scene.trace.peak_bytes > 0).tolist():
        peak = at_peak(scene.trace, scene.partitions, device)
        kinds: Counter[str] = Counter()
        for one in peak.live:
            kinds[one.kind] += one.nbytes
        shown, rest = peak.live[:count], peak.live[count:]
        left = sum(one.nbytes for one in rest)
        held = {kind: kinds[kind] for kind in KINDS if kinds[kind]}
        rows.append(
            PeakRow(device, peak.time_ns, peak.nbytes, peak.cause, peak.cause_bytes, held, shown, len(rest), left)
        )
    return rows


def late(scene: Scene) -> LateRow | None:
    """The effect of delayed Recvs; None if none was to be delayed."""
    found = scene.received
    if found is None:
        return None
    peaks = zip(found.without.peak_bytes.tolist(), found.trace.peak_bytes.tolist(), strict=True)
    return LateRow(
        rule=found.rule,
        delayed=len(found.delayed),
        transfers=len(found.partitions.send),
        makespan_ns=(found.without.makespan, found.trace.makespan),
        held_byte_ns=(copies_held(found.without), copies_held(found.trace)),
        peak_bytes=list(peaks),
    )


def pair_of_edges(scene: Scene) -> Ids:
    """[E] the partitions' transfer that brings an edge's value to its consumer's device, -1 where it does not cross."""
    graph, cut, device = scene.graph, scene.partitions, devices_of_nodes(scene)
    client = exchange(graph, scene.step)
    source = np.where(client.of_edge < 0, device[graph.edge_src], scene.cluster.client)
    carried = np.where(graph.edge_tensor >= 0, graph.edge_tensor, -1 - graph.edge_src).astype(np.int64)
    target = device[graph.edge_dst]
    count = len(scene.cluster)
    crossing = np.zeros(len(carried), bool)
    crossing[client.edges] = (source != target)[client.edges]
    found = np.full(len(carried), -1, np.int64)
    between = np.flatnonzero(~cut.within)
    keys = cut.tensor[between].astype(np.int64) * count + cut.ends[1][between]
    if len(keys):
        order = stable_order(keys)
        wanted = carried * count + target
        at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
        rows = order[at]
        hit = crossing & (keys[rows] == wanted)
        found[hit] = between[rows[hit]]
    return found.astype(np.int32)


def counts(scene: Scene) -> Mapping[str, int]:
    """Guesses and exceptions: counts of nodes that run, but of all nodes for ops and devices; shapes are tensors.

    Measured and other prices count that are so on some kind of device, as a placement weighs all kinds.
    """
    runs, source = scene.step.runs, scene.costs.source
    graph = scene.graph
    unknown_ops = sum(
        count for op, count in Counter(graph.ops).items() if not ops.known(op) and op not in graph.library
    )
    return {
        "fallback_costs": sum(count for _, count in fallbacks(scene)),
        "measured_costs": int(np.count_nonzero(source[runs] == MEASURED)),
        "profile_costs": int(np.count_nonzero(source[runs] == PROFILED)),
        "model_costs": int(np.count_nonzero(source[runs] == MODELLED)),
        "unknown_shapes": sum(unknown_shapes(scene.graph, scene.live).values()),
        "unknown_ops": unknown_ops,
        "kept_calls": len(calling(graph, np.flatnonzero(runs).tolist())),
        "relaxed_devices": int(np.count_nonzero(scene.assignment.why == RELAXED)),
        "overruled_devices": int(np.count_nonzero(scene.assignment.why == OVERRULED)),
        "loop_back_edges": int(np.count_nonzero(graph.edge_back & runs[graph.edge_dst])),
    }
