"""Send/Recv pairs: the edges that need one, the edges that share one, and the nodes of a pair.

    value      src -> _Send  ~>  _Recv -> dst
    control    src -^> Const -> _Send  ~>  _Recv -> Identity -^> dst

An edge between locations needs a pair. So does one within a GPU whose value is produced in the one memory and read in
the other (`tensorflow/core/framework/memory_types.cc`). Edges with the same source output, destination device and
destination memory share a pair. Readers of a reference share none, as each read must follow its reader's other inputs
(`tensorflow/core/graph/graph_partition.cc`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import Flags, alike, positions
from simulator.graph import ops
from simulator.graph.attributes import text_value, type_value, typed
from simulator.graph.dtypes import FLOAT, REF
from simulator.graph.editor import CONTROL
from simulator.graph.graph import Attrs
from simulator.graph.messages import AttrValue, Proto
from simulator.partitioning.cut_graph import LAST, Column, CutEdges, CutNodes, empty_attrs, new_edges, waits
from simulator.partitioning.levels import Level

INCARNATION = 1  # of every device of a local session; a cluster's are random
_INCARNATION = AttrValue(i=INCARNATION)
_FALSE = AttrValue(b=False)
_START = AttrValue(i=0)  # of a Recv that reads a reference
# attributes of both nodes of a pair, in order
_BETWEEN = ("tensor_name", "send_device", "recv_device", "send_device_incarnation", "client_terminated", "_src", "_dst")
_CONSTANT = {"send_device_incarnation": _INCARNATION, "client_terminated": _FALSE}
_ENDS = {"_src": 1, "_dst": 2, "send_device": 3, "recv_device": 4}  # the places of texts in `_PairAttrs.pair`


@dataclass(frozen=True, eq=False)
class EdgeEnds:
    """The ends of each edge. Axis: edges."""

    src_device: Column
    dst_device: Column
    dtype: Column  # of the source output, REF more for a reference; FLOAT for control
    src_host: Flags  # the value is produced in host memory
    dst_host: Flags  # it is read in host memory
    on_host: Flags  # the flag of the pair's key: as dst_host, and true for whatever a CPU reads
    crosses: Flags  # needs a pair


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of one level, in order of creation."""

    edge: Column  # the edge for which it was made
    of_edge: Column  # [edges] pair of each edge, -1: none
    send: Column  # node
    recv: Column  # node
    out: Column  # node that the destination reads: the Recv, or the Identity of a control pair
    first: Column  # first of the nodes that were added for it
    numbers: tuple[int, ...]  # per counter the next number after all of them


def edge_ends(nodes: CutNodes, given: CutEdges, cluster: Cluster, level: Level) -> EdgeEnds:
    """Devices, types and memory kinds at both ends of every edge."""
    device = np.array(nodes.device, np.int64)
    src_device, dst_device = device[given.src], device[given.dst]
    types = tuple(one.type for one in cluster.devices)
    is_cpu = np.array([one == "CPU" for one in types], bool)
    away = level.location[src_device] != level.location[dst_device]
    alone = (src_device == dst_device) & ~is_cpu[dst_device]  # may need a pair within the device
    data = given.port != CONTROL
    src_host, dst_host = np.zeros(len(given), bool), np.zeros(len(given), bool)
    rows = np.flatnonzero((away | alone) & data)  # the only edges whose memory kinds matter
    held = nodes.host_memory(types, np.concatenate([given.src[rows], given.dst[rows]]))
    src_host[rows] = held.outputs(given.src[rows], given.port[rows])
    dst_host[rows] = held.inputs(given.dst[rows], given.slot[rows])
    dtype = np.full(len(given), FLOAT)
    dtype[data] = np.array(nodes.dtype, np.int64)[np.array(nodes.first)[given.src[data]] + given.port[data]]
    return EdgeEnds(
        src_device=src_device,
        dst_device=dst_device,
        dtype=dtype,
        src_host=src_host,
        dst_host=dst_host,
        on_host=is_cpu[dst_device] | dst_host,
        crosses=away | (alone & data & (src_host != dst_host)),
    )


def make_pairs(
    nodes: CutNodes, given: CutEdges, ends: EdgeEnds, cluster: Cluster, level: Level, numbers: list[int]
) -> Pairs:
    """Add the nodes of every pair, in TensorFlow's order: by destination node id, its values by slot, its controls.

    A name is the source's with the level's suffix and a number. `numbers` holds the next number of each of the level's
    counters.
    """
    graph = nodes.graph
    place = np.concatenate([graph.place, np.arange(len(graph), len(nodes))])
    crossing = np.flatnonzero(ends.crosses & ~given.loop)
    crossing = crossing[np.lexsort((given.id[crossing], given.slot[crossing], place[given.dst[crossing]]))]
    alone = np.where(ends.dtype[crossing] > REF, np.arange(len(crossing)) + 1, 0)  # a reference's reader shares nothing
    location = level.location[ends.dst_device[crossing]]
    host = ends.on_host[crossing].astype(np.int64)
    first, number = alike(given.src[crossing], given.port[crossing], location, host, alone)
    creation = np.argsort(first, kind="stable")
    of_edge = np.full(len(given), -1)
    of_edge[crossing] = positions(creation, len(creation))[number]
    edge = crossing[first[creation]]
    numbers = list(numbers)
    send, recv, out, begin = _add_nodes(nodes, given, ends, edge, cluster, level, numbers)
    return Pairs(edge, of_edge, send, recv, out, begin, tuple(numbers))


_CONST, _SEND, _RECV, _IDENTITY = range(0, 8, 2)  # rows of _OPS; of a Send and a Recv the next one is the host's
_OPS = np.array(["Const", "", "_Send", "_HostSend", "_Recv", "_HostRecv", "Identity"], object)


def _add_nodes(
    nodes: CutNodes, given: CutEdges, ends: EdgeEnds, edge: Column, cluster: Cluster, level: Level, numbers: list[int]
) -> tuple[Column, Column, Column, Column]:
    """Add the nodes of each pair, [pairs]: its Send, its Recv, the node that is read, the first of them.

    There may be a million, so what is not a text or an object of its own is made by columns.
    """
    src, here, control = given.src[edge], ends.src_device[edge], given.port[edge] == CONTROL
    many = np.where(control, 4, 2)
    first = np.cumsum(many) - many
    send, recv = first + control, first + control + 1
    device, op = np.repeat(ends.dst_device[edge], many), np.full(many.sum(), _IDENTITY)
    device[first], device[send] = here, here
    op[first[control]], op[send], op[recv] = _CONST, _SEND + ends.src_host[edge], _RECV + ends.dst_host[edge]
    sent = np.where(ends.dtype[edge] > REF, ends.dtype[edge] - REF, ends.dtype[edge])  # of a control edge FLOAT
    like = np.where(control, -1, np.array(nodes.first)[src] + given.port[edge])
    numbered = _numbered(level, here, many, numbers)
    names, attrs = _names_and_attrs(nodes, given, ends, edge, sent, cluster, level, numbered)
    begun, origin = len(nodes), np.repeat(np.array(nodes.origin)[src], many)
    gives = (op | 1) != _SEND + 1  # all but a Send
    nodes.extend(names, _OPS[op].tolist(), attrs, origin, device, gives)
    times = np.where(control, 3, 1)
    nodes.extend_values(np.repeat(sent, times), np.repeat(like, times))
    return begun + send, begun + recv, begun + recv + control, begun + first


def _numbered(level: Level, here: Column, many: Column, numbers: list[int]) -> Column:
    """[pairs] the number of each pair's first name, of its counter; and each counter is moved on."""
    found = np.empty(len(here), np.int64)
    counter = level.counter[here]
    for one in np.flatnonzero(np.bincount(counter)).tolist():
        rows = np.flatnonzero(counter == one)
        found[rows] = numbers[one] + np.cumsum(many[rows]) - many[rows]
        numbers[one] += int(many[rows].sum())
    return found


def _names_and_attrs(
    nodes: CutNodes,
    given: CutEdges,
    ends: EdgeEnds,
    edge: Column,
    sent: Column,
    cluster: Cluster,
    level: Level,
    number: Column,
) -> tuple[list[str], list[Attrs]]:
    """Those of the nodes of each pair, in order; `sent` and `number` are its type and the number of its first name."""
    read = sent.copy()  # the type that a Recv gives
    reference = ends.dtype[edge] > REF
    for row in np.flatnonzero(reference).tolist():
        if _takes_reference(nodes, int(given.dst[edge[row]]), int(given.slot[edge[row]])):
            read[row] = ends.dtype[edge[row]]
    suffix, signal = level.suffix, given.port[edge] == CONTROL
    called, on = nodes.names.__getitem__, cluster.device_names.__getitem__
    columns = (given.id, given.src, given.dst, ends.src_device, ends.dst_device)
    number_of, src, dst, here, there = (column[edge].tolist() for column in columns)
    pairs = list(zip(number_of, map(called, src), map(called, dst), map(on, here), map(on, there), strict=True))
    sending = map(_PairAttrs, pairs, repeat("T"), sent.tolist(), repeat(False))
    receiving = map(_PairAttrs, pairs, repeat("tensor_type"), read.tolist(), reference.tolist())
    each = zip(pairs, sending, receiving, number.tolist(), signal.tolist(), strict=True)
    names: list[str] = []
    attrs: list[Attrs] = []
    for pair, sends, receives, count, signals in each:
        stem = pair[1] + suffix
        if signals:
            names += (f"{pair[1]}/ctrl{suffix}{count}", *(f"{stem}{count + more}" for more in (1, 2, 3)))
            attrs += (empty_attrs(), sends, receives, typed(FLOAT))
        else:
            names += (f"{stem}{count}", f"{stem}{count + 1}")
            attrs += (sends, receives)
    return names, attrs


@dataclass(slots=True, eq=False)  # not frozen, which takes twice as long to make
class _PairAttrs(Mapping[str, Proto]):
    """The attributes of a Send or a Recv, as `graph_partition.cc` writes them, made when they are asked for.

    A cut of a large graph has a million of these nodes, each with a name of its own; few are ever written.
    """

    pair: tuple[int, str, str, str, str]  # number of its edge, the nodes that it joins, their devices
    key: str  # of the type: "T" of a Send, "tensor_type" of a Recv
    dtype: int
    reference: bool  # a Recv whose value is read from a reference

    def __getitem__(self, name: str) -> Proto:
        if name == self.key:
            return type_value(self.dtype)
        if name == "tensor_name":
            return AttrValue(s=f"edge_{self.pair[0]}_{self.pair[1]}".encode())
        if name in _CONSTANT:
            return _CONSTANT[name]
        if name in _ENDS:
            return text_value(self.pair[_ENDS[name]])
        if name == "_start_time" and self.reference:
            return _START
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((self.key, *_BETWEEN, *(("_start_time",) if self.reference else ())))

    def __len__(self) -> int:
        return 1 + len(_BETWEEN) + self.reference


def rendezvous_key(here: str, there: str, recv: Attrs) -> str:
    """The key by which a Recv of these attributes finds its Send (`Rendezvous::CreateKey`), given both devices."""
    return f"{here};{INCARNATION:016x};{there};{recv['tensor_name'].s.decode()};0:0"


def _takes_reference(nodes: CutNodes, node: int, slot: int) -> bool:
    """Tell whether an input is one for a reference: of a pair within a device, as what a reference ties is on one.

    An input beyond those that the op declares is none: such a node can be cut, though TensorFlow would refuse it.
    """
    graph = nodes.graph
    wanted = ops.inputs(nodes.ops[node], nodes.attrs[node], graph.library) if node < len(graph) else None
    return wanted is not None and slot < len(wanted) and wanted[slot] >= REF


def pair_edges(given: CutEdges, ends: EdgeEnds, pairs: Pairs) -> CutEdges:
    """The edges of the pieces: those that stay, and those to, within and from the pairs."""
    stay = given.take(~ends.crosses & ~given.loop)
    cut = given.take(ends.crosses)
    read = replace(cut, src=pairs.out[pairs.of_edge[ends.crosses]], port=np.minimum(cut.port, 0))
    first = given.take(pairs.edge)
    control = first.port == CONTROL
    dummy = pairs.send - 1  # of a control pair: the node made just before
    same = ends.src_device[pairs.edge] == ends.dst_device[pairs.edge]
    return stay.join(
        read,
        new_edges(np.where(control, dummy, first.src), np.maximum(first.port, 0), pairs.send, 0),
        new_edges(first.src[control], CONTROL, dummy[control], LAST),
        new_edges(pairs.recv[control], 0, pairs.out[control], 0),
        new_edges(pairs.send[same], CONTROL, pairs.recv[same], LAST),
        _loop_waits(given, pairs, ~same),
        _reference_waits(given, ends, pairs),
    )


def _loop_waits(given: CutEdges, pairs: Pairs, away: Flags) -> CutEdges:
    """Control edges from control loops: each new Recv of a node takes one over, one that is left stays on the node."""
    loops = given.take(given.loop)
    merge = dict(zip(loops.dst.tolist(), loops.src.tolist(), strict=True))
    count = Counter(loops.dst.tolist())
    rows: list[tuple[int, int]] = []
    for recv, dst in zip(pairs.recv[away].tolist(), given.dst[pairs.edge[away]].tolist(), strict=True):
        if dst in merge:
            count[dst] -= 1
            rows.append((merge[dst], recv))
    left = [(merge[dst], dst) for dst, many in count.items() for _ in range(many)]
    return waits(rows).join(waits(left, int(given.id.max(initial=0))))  # what is left comes last


def _reference_waits(given: CutEdges, ends: EdgeEnds, pairs: Pairs) -> CutEdges:
    """A Recv that reads a reference waits for the other inputs of its reader, as the reader itself would."""
    refs = np.flatnonzero(ends.dtype[pairs.edge] > REF)
    readers = given.dst[pairs.edge[refs]].tolist()
    if not readers:
        return waits(())
    inputs: dict[int, list[int]] = {reader: [] for reader in readers}
    number = pairs.of_edge.tolist()
    for edge in np.flatnonzero(np.isin(given.dst, np.array(readers)) & ~given.loop).tolist():
        if ends.dtype[edge] < REF:
            source = int(given.src[edge]) if number[edge] < 0 else int(pairs.out[number[edge]])
            inputs[int(given.dst[edge])].append(source)
    recvs = zip(pairs.recv[refs].tolist(), readers, strict=True)
    return waits((source, recv) for recv, reader in recvs for source in inputs[reader])
