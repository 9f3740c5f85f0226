"""One Send and one Recv for everything that crosses: which wires share a pair, and the nodes that a pair is made of.

    value      src -> _Send  ~>  _Recv -> dst
    control    src -^> Const -> _Send  ~>  _Recv -> Identity -^> dst

The rules of `tensorflow/core/graph/graph_partition.cc`: wires with the same source output, destination device and
destination memory share a pair, except readers of a reference, whose reads must follow their other inputs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.graph import ops
from simulator.graph.dtypes import REF, base
from simulator.graph.graph import Graph, Shape
from simulator.partitioning.attributes import pair_attrs
from simulator.partitioning.draft import (
    CONTROL,
    EMPTY,
    LAST,
    Added,
    Column,
    NodeRow,
    Wires,
    empty_attrs,
    float_attrs,
    wires,
)
from simulator.partitioning.ends import Ends
from simulator.partitioning.levels import Level


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs in order of creation."""

    wire: Column  # the wire for which it was made
    of_wire: Column  # [wires] pair of each wire, -1: none
    send: Column  # node
    recv: Column  # node
    out: Column  # node that the destination reads: the Recv, or the Identity of a control pair
    first: Column  # first of the nodes that were added for it
    name: tuple[str, ...]  # tensor_name
    numbers: tuple[int, ...]  # per counter the next number after all of them


def make_pairs(
    graph: Graph, given: Wires, ends: Ends, cluster: Cluster, added: Added, level: Level, numbers: list[int]
) -> Pairs:
    """Add the nodes of every pair, in TensorFlow's order: by destination node id, its values by slot, its controls.

    Names are the source's with the level's suffix and a number, which counts the nodes created since `numbers`, the
    next number of each of the level's counters.
    """
    place = np.concatenate([graph.place, np.arange(len(added)) + len(graph)])
    crossing = np.flatnonzero(ends.crosses & ~given.loop)
    crossing = crossing[np.lexsort((given.id[crossing], given.slot[crossing], place[given.dst[crossing]]))]
    alone = np.where(ends.dtype[crossing] > REF, np.arange(len(crossing)) + 1, 0)  # a reference's reader shares nothing
    key = np.stack(
        [
            given.src[crossing],
            given.port[crossing],
            level.location[ends.dst_device[crossing]],
            ends.on_host[crossing].astype(np.int64),
            alone,
        ]
    )
    _, first, inverse = np.unique(key, axis=1, return_index=True, return_inverse=True)
    creation = np.argsort(first, kind="stable")
    rank = np.empty(len(creation), np.int64)
    rank[creation] = np.arange(len(creation))
    of_wire = np.full(len(given), -1)
    of_wire[crossing] = rank[inverse.reshape(-1)]
    return _add_nodes(graph, given, ends, cluster, added, crossing[first[creation]], of_wire, level, list(numbers))


def _add_nodes(
    graph: Graph,
    given: Wires,
    ends: Ends,
    cluster: Cluster,
    added: Added,
    wire: Column,
    of_wire: Column,
    level: Level,
    numbers: list[int],
) -> Pairs:
    """Add the nodes of each pair; lean, because a random placement of a large graph makes tens of thousands."""
    devices = tuple(one.name for one in cluster.devices)
    names = (*graph.names, *added.names)
    origins = (*range(len(graph)), *added.origin)
    rows: list[NodeRow] = []
    made = []
    first = len(names)  # node id of the first row
    counter, suffix = level.counter.tolist(), level.suffix
    columns = (given.src, given.port, given.dst, given.slot, given.id, ends.src_device, ends.dst_device, ends.dtype)
    hosts = zip(ends.src_host[wire].tolist(), ends.dst_host[wire].tolist(), strict=True)
    ends_of = zip(*(column[wire].tolist() for column in columns), strict=True)
    for (src, port, dst, slot, edge, here, there, dtype), (src_host, dst_host) in zip(ends_of, hosts, strict=True):
        name, origin = names[src], origins[src]
        tensor_name = f"edge_{edge}_{name}"
        control = port == CONTROL
        value = EMPTY if control else (base(dtype), *_shape_and_bytes(graph, added, src, port))
        reference = dtype > REF
        kind = dtype if reference and _takes_reference(graph, dst, slot) else value[0]  # what is read, not what is sent
        sending, receiving = pair_attrs(
            tensor_name, (name, names[dst]), (devices[here], devices[there]), (value[0], kind), reference=reference
        )
        number = numbers[counter[here]]
        if control:
            rows.append((f"{name}/ctrl{suffix}{number}", "Const", empty_attrs(), origin, here, (EMPTY,)))
            number += 1
        send = first + len(rows)
        recv = out = send + 1
        rows.append((f"{name}{suffix}{number}", "_HostSend" if src_host else "_Send", sending, origin, here, ()))
        receiver = "_HostRecv" if dst_host else "_Recv"
        rows.append((f"{name}{suffix}{number + 1}", receiver, receiving, origin, there, (value,)))
        number += 2
        if control:
            out = recv + 1
            rows.append((f"{name}{suffix}{number}", "Identity", float_attrs(), origin, there, (EMPTY,)))
            number += 1
        numbers[counter[here]] = number
        made.append((send, recv, out, send - control, tensor_name))
    added.extend(rows)
    nodes = np.array([row[:4] for row in made], np.int64).reshape(-1, 4)
    return Pairs(
        wire, of_wire, nodes[:, 0], nodes[:, 1], nodes[:, 2], nodes[:, 3], tuple(row[4] for row in made), tuple(numbers)
    )


def _takes_reference(graph: Graph, node: int, slot: int) -> bool:
    """Whether an input is one for a reference: of a pair within a device, as what a reference ties is on one."""
    wanted = ops.inputs(graph.ops[node], graph.attrs[node], graph.library) if node < len(graph) else None
    return wanted is not None and wanted[slot] >= REF


def _shape_and_bytes(graph: Graph, added: Added, node: int, port: int) -> tuple[Shape | None, int]:
    if node < len(graph):
        row = int(graph.tensor_ptr[node]) + port
        return graph.tensor_shape[row], int(graph.tensor_bytes[row])
    return added.outputs[node - len(graph)][port][1:]


def pair_wires(given: Wires, ends: Ends, pairs: Pairs) -> Wires:
    """The wires of the pieces: those that stay, and those to, within and from the pairs."""
    stay = given.take(~ends.crosses & ~given.loop)
    number = pairs.of_wire[ends.crosses]
    cut = given.take(ends.crosses)
    read = replace(cut, src=pairs.out[number], port=np.minimum(cut.port, 0))
    first = given.take(pairs.wire)
    control = first.port == CONTROL
    dummy = pairs.send - 1  # of a control pair: the node made just before
    to_send = _join_columns(np.where(control, dummy, first.src), np.maximum(first.port, 0), pairs.send, 0)
    to_dummy = _join_columns(first.src[control], CONTROL, dummy[control], LAST)
    to_identity = _join_columns(pairs.recv[control], 0, pairs.out[control], 0)
    same = ends.src_device[pairs.wire] == ends.dst_device[pairs.wire]
    wait = _join_columns(pairs.send[same], CONTROL, pairs.recv[same], LAST)
    whole = stay
    for more in (
        read,
        to_send,
        to_dummy,
        to_identity,
        wait,
        _loop_waits(given, pairs, ~same),
        _reads(given, ends, pairs),
    ):
        whole = whole.join(more)
    return whole


def _loop_waits(given: Wires, pairs: Pairs, away: npt.NDArray[np.bool_]) -> Wires:
    """Control edges from control loops: each new Recv of a node takes one over, one that is left stays on the node."""
    loops = given.take(given.loop)
    merge = dict(zip(loops.dst.tolist(), loops.src.tolist(), strict=True))
    count = Counter(loops.dst.tolist())
    rows = []
    for recv, dst in zip(pairs.recv[away].tolist(), given.dst[pairs.wire[away]].tolist(), strict=True):
        if dst in merge:
            count[dst] -= 1
            rows.append((merge[dst], CONTROL, recv, LAST, 0))
    after = int(given.id.max(initial=0))  # what is left comes last
    rows += [(merge[dst], CONTROL, dst, LAST, after) for dst, left in count.items() for _ in range(left)]
    return wires(rows)


def _reads(given: Wires, ends: Ends, pairs: Pairs) -> Wires:
    """A Recv that reads a reference waits for the other inputs of its reader, as the reader itself would."""
    refs = np.flatnonzero(ends.dtype[pairs.wire] > REF)
    readers = given.dst[pairs.wire[refs]].tolist()
    if not readers:
        return wires(())
    inputs: dict[int, list[int]] = {reader: [] for reader in readers}
    number = pairs.of_wire.tolist()
    for wire in np.flatnonzero(np.isin(given.dst, np.array(readers)) & ~given.loop).tolist():
        if ends.dtype[wire] < REF:
            source = int(given.src[wire]) if number[wire] < 0 else int(pairs.out[number[wire]])
            inputs[int(given.dst[wire])].append(source)
    rows = [
        (source, CONTROL, int(pairs.recv[pair]), LAST, 0)
        for pair, reader in zip(refs.tolist(), readers, strict=True)
        for source in inputs[reader]
    ]
    return wires(rows)


def _join_columns(src: Column, port: Column | int, dst: Column, slot: int) -> Wires:
    """Wires of one kind from columns."""
    count = len(dst)
    none = np.zeros(count, bool)
    number = np.zeros(count, np.int64)
    return Wires(src, np.broadcast_to(port, (count,)), dst, np.full(count, slot), number, none, none)
