"""The laws of partitions, which hold of the pieces of a step, however they were cut.

The laws return a sentence per violation, and nothing for lawful pieces. They look at the values alone, never at how the
cut works, so a fault there cannot hide itself. They are written to be read, not to be fast.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.memories import host_devices
from simulator.columns import topological
from simulator.graph.dtypes import REF
from simulator.graph.graph import Graph
from simulator.graph.op_classes import MOVED
from simulator.graph.step import Step, is_tensor
from simulator.laws import graph_laws
from simulator.partitioning.partitions import RECVS, SENDS, Partitions


def partition_laws(
    graph: Graph, step: Step, cluster: Cluster, assignment: Assignment, partitions: Partitions
) -> list[str]:
    """Pairs joined again give back the step's graph; one pair per key; no new cycle; only pairs cross devices.

    Copies of constants count as their originals, and control loops as nothing. A value that a worker hands on between
    its devices counts as the one that its task received. Each reader of a reference output has a pair of its own. All
    other readers of a tensor in the same memory of a device share one. Fed tensors come from the client's device, and
    fetched ones go there, each once.
    """
    if len(partitions.device) != len(partitions.graph) or partitions.devices != cluster.device_names:
        return ["the columns of the pieces do not fit their graph and cluster"]
    unsound = graph_laws(partitions.graph)
    if unsound:
        return unsound
    sends, problems = _pairs(partitions)
    if problems:
        return problems
    return [
        *_wrong_places(graph, assignment, partitions),
        *_wrong_transfers(graph, cluster, partitions, sends),
        *_wrong_wiring(graph, step, partitions, sends),
        *_wrong_client(graph, step, cluster, partitions, sends),
        *_cycles(partitions, sends),
    ]


def _text(partitions: Partitions, row: int, attr: str) -> str:
    value = partitions.graph.attrs[row].get(attr)
    return value.s.decode() if value is not None else ""


def _pairs(partitions: Partitions) -> tuple[dict[int, int], list[str]]:
    """Recv -> Send by their attributes."""
    found: dict[str, dict[tuple[str, str, str], int]] = {"send": {}, "recv": {}}
    problems = []
    for row, op in enumerate(partitions.graph.ops):
        if not partitions.inserted[row] or op not in SENDS | RECVS or partitions.endpoint[row] >= 0:
            continue
        key = (_text(partitions, row, "send_device"), _text(partitions, row, "recv_device"))
        side = "send" if op in SENDS else "recv"
        full = (*key, _text(partitions, row, "tensor_name"))
        if full in found[side]:
            problems.append(f"{partitions.graph.names[row]!r} uses the key {full} a second time")
        found[side][full] = row
        if key[side == "recv"] != partitions.devices[partitions.device[row]]:
            problems.append(f"{partitions.graph.names[row]!r} is not on the device that it names")
    for full in sorted(found["send"].keys() ^ found["recv"].keys()):
        problems.append(f"the key {full} has only one side")
    return {row: found["send"].get(full, -1) for full, row in found["recv"].items()}, problems


def _wrong_places(graph: Graph, assignment: Assignment, partitions: Partitions) -> Iterator[str]:
    cut = partitions.graph
    for row in np.flatnonzero(~partitions.inserted).tolist():
        origin = int(partitions.origin[row])
        if cut.names[row] != graph.names[origin]:
            yield f"{cut.names[row]!r} stands for {graph.names[origin]!r}"
        if cut.ops[row] != graph.ops[origin]:
            yield f"{cut.names[row]!r} has become a {cut.ops[row]}"
        if partitions.device[row] != assignment.device[origin] and graph.ops[origin] not in MOVED:
            yield f"{cut.names[row]!r} is not on the device that it was assigned"
    away = partitions.device[cut.edge_src] != partitions.device[cut.edge_dst]
    for edge in np.flatnonzero(away).tolist():
        yield f"the edge from {cut.names[cut.edge_src[edge]]!r} to {cut.names[cut.edge_dst[edge]]!r} crosses devices"


def _wrong_transfers(graph: Graph, cluster: Cluster, partitions: Partitions, sends: dict[int, int]) -> Iterator[str]:
    """The rows of transfers are the pairs between memories that links join, each once, under distinct keys."""
    device, host_device, ops = partitions.device, host_devices(cluster), partitions.graph.ops
    apart = {
        (send, recv)
        for recv, send in sends.items()
        if device[send] != device[recv] or host_device[device[recv]] != device[recv]
    }
    listed = list(zip(partitions.send.tolist(), partitions.recv.tolist(), strict=True))
    if len(listed) != len(set(listed)) or set(listed) != apart:
        yield "the transfers are not the pairs between memories"
        return
    if len(set(partitions.key)) != len(listed):
        yield "two transfers have the same rendezvous key"
    seen = set()
    for at, (send, recv) in enumerate(listed):
        tensor = int(partitions.tensor[at])
        source, target = int(device[send]), int(device[recv])
        lies = host_device[source] if ops[send] == "_HostSend" else source
        arrives = host_device[target] if ops[recv] == "_HostRecv" else target
        if (lies, arrives) != (partitions.src_device[at], partitions.dst_device[at]):
            yield f"transfer {at} does not say between which memories it is"
        source, port = _sent(partitions, send)
        origin, made_port = _value(partitions, graph, source, port, sends)
        if tensor != (-1 - origin if made_port < 0 else graph.tensor_ptr[origin] + made_port):
            yield f"transfer {at} does not carry the tensor that it names"
        # a GPU may read a tensor in both of its memories
        host = partitions.graph.ops[recv] == "_HostRecv" and "/device:CPU:" not in partitions.devices[device[recv]]
        # copies of a constant are sent each by itself: what reads one may have been moved to where another goes;
        # that a node has run may be said twice: by its own end, and by the end of a Recv of its value
        made = _through(partitions, source, port, sends)[0] if tensor >= 0 else source
        key = (made, made_port, int(device[recv]), host)
        if key in seen and not (tensor >= 0 and graph.tensor_dtype[tensor] > REF):
            yield f"transfer {at} brings a tensor to a device that has it already"
        seen.add(key)


def _sent(partitions: Partitions, send: int) -> tuple[int, int]:
    """The node and port whose value a Send passes on; port -1: it says that the node has run."""
    cut = partitions.graph
    edge = int(cut.in_ptr[send])
    source = int(cut.edge_src[edge])
    if _is_dummy(partitions, source):
        return cut.sources(source)[0], -1
    return source, _port(cut, edge)


def _through(partitions: Partitions, source: int, port: int, sends: dict[int, int]) -> tuple[int, int]:
    """An output of the pieces seen through the pairs that brought it, one per level of the cut."""
    cut = partitions.graph
    while True:
        if partitions.inserted[source] and cut.ops[source] == "Identity":  # after the Recv of a control edge
            source, port = cut.sources(source)[0], -1
        if source not in sends:
            return source, port
        source, sent_port = _sent(partitions, sends[source])
        port = sent_port if port >= 0 else -1


def _is_dummy(partitions: Partitions, row: int) -> bool:
    """A Const that was made to be sent once its origin has run."""
    cut = partitions.graph
    edges = cut.in_edges(row)
    made = bool(partitions.inserted[row]) and cut.ops[row] == "Const" and len(edges) == 1
    return made and partitions.origin[cut.edge_src[edges[0]]] == partitions.origin[row]


def _wrong_wiring(graph: Graph, step: Step, partitions: Partitions, sends: dict[int, int]) -> Iterator[str]:
    """Every node that runs has its own inputs again once the pairs are joined."""
    stands: dict[int, list[int]] = {}  # graph row -> the pieces' rows that stand for it
    for row in range(len(partitions.graph)):
        if not partitions.inserted[row] or _is_copy(graph, partitions, row):
            stands.setdefault(int(partitions.origin[row]), []).append(row)
    runs = set(np.flatnonzero(step.runs).tolist())
    for origin in sorted(runs ^ stands.keys()):
        fault = "runs and is in no piece" if origin in runs else "is in a piece and does not run"
        yield f"{graph.names[origin]!r} {fault}"
    for origin in sorted(runs & stands.keys()):
        wanted = _split((int(graph.edge_src[edge]), _port(graph, edge)) for edge in graph.in_edges(origin))
        for row in stands[origin]:
            if _split(_inputs(partitions, graph, row, sends)) != wanted:
                yield f"{partitions.graph.names[row]!r} does not have the inputs of {graph.names[origin]!r}"


def _wrong_client(
    graph: Graph, step: Step, cluster: Cluster, partitions: Partitions, sends: dict[int, int]
) -> Iterator[str]:
    """Fed tensors that are read come from the client, and nothing else does; fetched ones go to it, each once."""
    cut = partitions.graph
    rows = np.flatnonzero(partitions.endpoint >= 0).tolist()
    takes = [row for row in rows if not cut.in_edges(row)]
    for row in rows:
        if partitions.device[row] != cluster.client or not partitions.inserted[row]:
            yield f"{cut.names[row]!r} is not the client's, or not on its device"
    named = [graph.tensor_name(int(partitions.endpoint[row])) for row in takes]
    fetched = [graph.tensor_name(int(partitions.endpoint[row])) for row in rows if row not in takes]
    if len(set(named)) < len(named) or not set(named) <= set(step.feeds):
        yield "what the client hands in is not what is fed"
    if sorted(fetched) != sorted(name for name in step.fetches if is_tensor(graph, name)):
        yield "what the client gets is not what is fetched"
    for row in [row for row in rows if row not in takes]:
        for origin, port in _inputs(partitions, graph, row, sends):
            if graph.tensor_ptr[origin] + port != partitions.endpoint[row]:
                yield f"{cut.names[row]!r} gets another tensor than it should"
    for name in step.feeds:
        for row in _readers(partitions, graph, graph.tensor_row(name)):
            yield f"{cut.names[row]!r} reads {name!r} where it is made, though it is fed"


def _is_copy(graph: Graph, partitions: Partitions, row: int) -> bool:
    origin = int(partitions.origin[row])
    ours, theirs = (attrs.get("value") for attrs in (partitions.graph.attrs[row], graph.attrs[origin]))
    copied = graph.ops[origin] == "Const" and ours is theirs
    return copied and partitions.graph.ops[row] == "Const"


def _port(graph: Graph, edge: int) -> int:
    tensor = int(graph.edge_tensor[edge])
    return int(graph.tensor_port[tensor]) if tensor >= 0 else -1


def _split(inputs: Iterator[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Data inputs in order; control inputs sorted, each once."""
    given = list(inputs)
    return [one for one in given if one[1] >= 0], sorted({node for node, port in given if port < 0})


def _value(partitions: Partitions, graph: Graph, source: int, port: int, sends: dict[int, int]) -> tuple[int, int]:
    """An output of the pieces as (graph row, port), -1: only its end; what the client hands in counts as its tensor."""
    made, port = _through(partitions, source, port, sends)
    endpoint = int(partitions.endpoint[made])
    return int(partitions.origin[made]), int(graph.tensor_port[endpoint]) if endpoint >= 0 <= port else port


def _inputs(partitions: Partitions, graph: Graph, row: int, sends: dict[int, int]) -> Iterator[tuple[int, int]]:
    """The inputs of a node as (graph row, port) with the pairs joined and control loops left out."""
    cut = partitions.graph
    for edge in cut.in_edges(row):
        source = int(cut.edge_src[edge])
        if partitions.inserted[source] and cut.ops[source] == "Merge":
            continue  # of a control loop
        yield _value(partitions, graph, source, _port(cut, edge), sends)


def _readers(partitions: Partitions, graph: Graph, tensor: int) -> Iterator[int]:
    """The rows of the pieces that read a tensor of the graph from the node that makes it."""
    cut = partitions.graph
    for edge in np.flatnonzero(cut.edge_tensor >= 0).tolist():
        source = int(cut.edge_src[edge])
        own = not partitions.inserted[source] and partitions.origin[source] == graph.tensor_node[tensor]
        if own and _port(cut, edge) == graph.tensor_port[tensor]:
            yield int(cut.edge_dst[edge])


def _cycles(partitions: Partitions, sends: dict[int, int]) -> Iterator[str]:
    """Report nodes that wait for each other when every Recv waits for its Send; loops' back edges are left out."""
    cut = partitions.graph
    recv, send = np.array(list(sends.items()), np.int64).reshape(-1, 2).T
    source, target = np.append(cut.edge_src[~cut.edge_back], send), np.append(cut.edge_dst[~cut.edge_back], recv)
    stuck = sorted(set(range(len(cut))).difference(topological(source, target, len(cut))))
    if stuck:
        yield f"{len(stuck)} nodes wait for each other across pieces, {cut.names[stuck[0]]!r} among them"
