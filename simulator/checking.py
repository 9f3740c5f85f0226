"""The laws of graphs, assignments and partitions: what must hold of every value, however it was made.

Each function returns a sentence per violation, and nothing for a lawful value. They look only at the values, never at
how the code that makes them works, so that a fault there cannot hide itself. For tests, for `--check` and for the
debugger; they are written to be read, not to be fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simulator.assignment import OVERRULED, RELAXED, RULES, Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import matches, parse
from simulator.columns import Ids
from simulator.graph import ops
from simulator.graph.dtypes import REF
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.partitioning.partitions import RECVS, SENDS, Partitions

# ops that the partitioner moves next to their values, whatever they asked for
_MOVED = frozenset({"Switch", "RefSwitch", "_SwitchN", "Exit", "RefExit", "Enter", "NextIteration", "RefNextIteration"})


def graph_laws(graph: Graph) -> list[str]:
    """Edges point at rows, tensors belong to their nodes, data inputs come first, and without back edges no cycle."""
    return [*_wrong_columns(graph), *_wrong_order(graph)]


def _wrong_columns(graph: Graph) -> Iterator[str]:
    count, tensors = len(graph), len(graph.tensor_node)
    sizes = (len(graph.ops), len(graph.requested), len(graph.attrs), len(graph.order))
    if sizes != (count,) * 4 or len(graph.in_ptr) != count + 1 or len(graph.tensor_ptr) != count + 1:
        yield f"the columns of {count} nodes have {sizes} rows"
        return
    for what, pointer, length in (("edges", graph.in_ptr, len(graph.edge_src)), ("tensors", graph.tensor_ptr, tensors)):
        if pointer[0] != 0 or pointer[-1] != length or (np.diff(pointer) < 0).any():
            yield f"the {what} are not laid out node by node"
            return
    for edge in range(len(graph.edge_src)):
        src, dst, tensor = int(graph.edge_src[edge]), int(graph.edge_dst[edge]), int(graph.edge_tensor[edge])
        if not (0 <= src < count and 0 <= dst < count and -1 <= tensor < tensors):
            yield f"edge {edge} points at a row that is not there"
            continue
        if not graph.in_ptr[dst] <= edge < graph.in_ptr[dst + 1]:
            yield f"edge {edge} is not among the inputs of {graph.names[dst]!r}"
        if tensor >= 0 and graph.tensor_node[tensor] != src:
            yield f"edge {edge} carries a tensor that {graph.names[src]!r} does not make"
        if tensor >= 0 and edge > graph.in_ptr[dst] and graph.edge_tensor[edge - 1] < 0:
            yield f"{graph.names[dst]!r} has a data input after a control input"


def _wrong_order(graph: Graph) -> Iterator[str]:
    if any(sorted(order.tolist()) != list(range(len(graph))) for order in (graph.order, graph.topological)):
        yield "the order of the nodes is not a permutation"
        return
    place = np.empty(len(graph), np.int64)
    place[graph.topological] = np.arange(len(graph))
    sound = (graph.edge_src >= 0) & (graph.edge_src < len(graph)) & (graph.edge_dst < len(graph)) & ~graph.edge_back
    edge = np.flatnonzero(sound)
    for bad in edge[place[graph.edge_src[edge]] >= place[graph.edge_dst[edge]]].tolist():
        yield f"{graph.names[graph.edge_dst[bad]]!r} comes before its input {graph.names[graph.edge_src[bad]]!r}"


def assignment_laws(
    graph: Graph, assignment: Assignment, cluster: Cluster, *, group: Sequence[int] | Ids | None = None
) -> list[str]:
    """Every node is on a device of the cluster that has a kernel for it and is what it asked for; groups are whole.

    `group` gives the colocation group of each node. A request that was not met must say so in `why`: soft placement
    may give up type and number, and a reference edge may overrule the whole request.
    """
    if assignment.devices != tuple(device.name for device in cluster.devices):
        return ["the devices of the assignment are not those of the cluster"]
    if len(assignment) != len(graph) or len(assignment.why) != len(graph):
        return [f"{len(assignment)} devices and {len(assignment.why)} reasons for {len(graph)} nodes"]
    found = []
    for row, (device, why) in enumerate(zip(assignment.device.tolist(), assignment.why.tolist(), strict=True)):
        if not (0 <= device < len(cluster) and 0 <= why < len(RULES)):
            found.append(f"{graph.names[row]!r} has no device or no reason")
        else:
            found += _wrong_device(graph, row, cluster, device, why)
    return [*found, *_split_groups(graph, assignment, group)]


def _wrong_device(graph: Graph, row: int, cluster: Cluster, device: int, why: int) -> Iterator[str]:
    there = cluster.devices[device]
    if there.type not in dict(ops.kernel_types(graph.ops[row], graph.attrs[row])):
        yield f"{graph.names[row]!r} is on {there.name}, where {graph.ops[row]} has no kernel"
    asked, have = parse(graph.requested[row]), parse(there.name)
    must = asked._replace(type=None, id=None) if why == RELAXED else asked
    if why != OVERRULED and not matches(must, have):
        yield f"{graph.names[row]!r} asked for {graph.requested[row]!r} and is on {there.name}"


def _split_groups(graph: Graph, assignment: Assignment, group: Sequence[int] | Ids | None) -> Iterator[str]:
    first: dict[int, int] = {}
    for row, one in enumerate([] if group is None else list(group)):
        other = first.setdefault(int(one), row)
        if assignment.device[other] != assignment.device[row]:
            yield f"{graph.names[row]!r} is not with {graph.names[other]!r} of its group"


def partition_laws(
    graph: Graph, step: Step, cluster: Cluster, assignment: Assignment, partitions: Partitions
) -> list[str]:
    """Joining the pairs again gives back the step's graph; one pair per key; no new cycle; nothing crosses but pairs.

    Copies of constants count as their originals, control loops as nothing; a value that a worker hands on between its
    devices counts as what its task received; a reference output's readers have a pair
    each, all other readers of a tensor in the same memory of a device share one.
    """
    if len(partitions.device) != len(partitions.graph) or partitions.devices != tuple(d.name for d in cluster.devices):
        return ["the columns of the pieces do not fit their graph and cluster"]
    unsound = graph_laws(partitions.graph)
    if unsound:
        return unsound
    sends, problems = _pairs(partitions)
    if problems:
        return problems
    return [
        *_wrong_places(graph, assignment, partitions),
        *_wrong_transfers(graph, partitions, sends),
        *_wrong_wiring(graph, step, partitions, sends),
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
        if not partitions.inserted[row] or op not in SENDS | RECVS:
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
        if cut.ops[row] not in (graph.ops[origin], "Placeholder"):
            yield f"{cut.names[row]!r} has become a {cut.ops[row]}"
        if partitions.device[row] != assignment.device[origin] and graph.ops[origin] not in _MOVED:
            yield f"{cut.names[row]!r} is not on the device that it was assigned"
    away = partitions.device[cut.edge_src] != partitions.device[cut.edge_dst]
    for edge in np.flatnonzero(away).tolist():
        yield f"the edge from {cut.names[cut.edge_src[edge]]!r} to {cut.names[cut.edge_dst[edge]]!r} crosses devices"


def _wrong_transfers(graph: Graph, partitions: Partitions, sends: dict[int, int]) -> Iterator[str]:
    """The rows of transfers are the pairs between devices, each once, under distinct keys."""
    device = partitions.device
    apart = {(send, recv) for recv, send in sends.items() if device[send] != device[recv]}
    listed = list(zip(partitions.send.tolist(), partitions.recv.tolist(), strict=True))
    if len(listed) != len(set(listed)) or set(listed) != apart:
        yield "the transfers are not the pairs between devices"
        return
    if len(set(partitions.key)) != len(listed):
        yield "two transfers have the same rendezvous key"
    seen = set()
    for at, (send, recv) in enumerate(listed):
        tensor = int(partitions.tensor[at])
        if (device[send], device[recv]) != (partitions.src_device[at], partitions.dst_device[at]):
            yield f"transfer {at} does not say between which devices it is"
        source, port = _sent(partitions, send)
        made, made_port = _through(partitions, source, port, sends)
        origin = int(partitions.origin[made])
        if tensor != (-1 - origin if made_port < 0 else graph.tensor_ptr[origin] + made_port):
            yield f"transfer {at} does not carry the tensor that it names"
        # a GPU may read a tensor in both of its memories
        host = partitions.graph.ops[recv] == "_HostRecv" and "/device:CPU:" not in partitions.devices[device[recv]]
        # that a node has run may be told twice: by its own end, and by the end of a Recv of its value
        key = (tensor if tensor >= 0 else -1 - source, int(device[recv]), host)
        if key in seen and not (tensor >= 0 and graph.tensor_dtype[tensor] > REF):
            yield f"transfer {at} brings a tensor to a device that has it already"
        seen.add(key)


def _sent(partitions: Partitions, send: int) -> tuple[int, int]:
    """The node and port whose value a Send tells; port -1: it tells that the node has run."""
    cut = partitions.graph
    edge = int(cut.in_ptr[send])
    source = int(cut.edge_src[edge])
    if _is_dummy(partitions, source):
        return int(cut.edge_src[cut.in_ptr[source]]), -1
    return source, _port(cut, edge)


def _through(partitions: Partitions, source: int, port: int, sends: dict[int, int]) -> tuple[int, int]:
    """An output of the pieces seen through the pairs that brought it, one per level of the cut."""
    cut = partitions.graph
    while True:
        if partitions.inserted[source] and cut.ops[source] == "Identity":  # after the Recv of a control edge
            source, port = int(cut.edge_src[cut.in_ptr[source]]), -1
        if source not in sends:
            return source, port
        source, told = _sent(partitions, sends[source])
        port = told if port >= 0 else -1


def _is_dummy(partitions: Partitions, row: int) -> bool:
    """A Const that was made to be sent once its origin has run."""
    cut = partitions.graph
    edges = range(int(cut.in_ptr[row]), int(cut.in_ptr[row + 1]))
    made = bool(partitions.inserted[row]) and cut.ops[row] == "Const" and len(edges) == 1
    return made and partitions.origin[cut.edge_src[edges[0]]] == partitions.origin[row]


def _wrong_wiring(graph: Graph, step: Step, partitions: Partitions, sends: dict[int, int]) -> Iterator[str]:
    """Every node that runs has its own inputs again once the pairs are joined."""
    fed = {graph.row(name.rpartition(":")[0] or name) for name in step.feeds}
    stands: dict[int, list[int]] = {}  # graph row -> the pieces' rows that stand for it
    for row in range(len(partitions.graph)):
        if not partitions.inserted[row] or _is_copy(graph, partitions, row):
            stands.setdefault(int(partitions.origin[row]), []).append(row)
    runs = set(np.flatnonzero(step.runs).tolist())
    for origin in sorted(runs ^ stands.keys()):
        fault = "runs and is in no piece" if origin in runs else "is in a piece and does not run"
        yield f"{graph.names[origin]!r} {fault}"
    for origin in sorted(runs & stands.keys()):
        wanted = _split(iter(()))
        if origin not in fed:
            edges = range(int(graph.in_ptr[origin]), int(graph.in_ptr[origin + 1]))
            wanted = _split((int(graph.edge_src[e]), _port(graph, e)) for e in edges if step.runs[graph.edge_src[e]])
        for row in stands[origin]:
            if _split(_inputs(partitions, row, sends)) != wanted:
                yield f"{partitions.graph.names[row]!r} does not have the inputs of {graph.names[origin]!r}"


def _is_copy(graph: Graph, partitions: Partitions, row: int) -> bool:
    origin = int(partitions.origin[row])
    copied = graph.ops[origin] == "Const" and partitions.graph.attrs[row] is graph.attrs[origin]
    return copied and partitions.graph.ops[row] == "Const"


def _port(graph: Graph, edge: int) -> int:
    tensor = int(graph.edge_tensor[edge])
    return int(graph.tensor_port[tensor]) if tensor >= 0 else -1


def _split(inputs: Iterator[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Data inputs in order; control inputs sorted, each once."""
    given = list(inputs)
    return [one for one in given if one[1] >= 0], sorted({node for node, port in given if port < 0})


def _inputs(partitions: Partitions, row: int, sends: dict[int, int]) -> Iterator[tuple[int, int]]:
    """The inputs of a node as (graph row, port) with the pairs joined and control loops left out."""
    cut = partitions.graph
    for edge in range(int(cut.in_ptr[row]), int(cut.in_ptr[row + 1])):
        source, port = int(cut.edge_src[edge]), _port(cut, edge)
        if partitions.inserted[source] and cut.ops[source] == "Merge":
            continue  # of a control loop
        source, port = _through(partitions, source, port, sends)
        yield int(partitions.origin[source]), port


def _cycles(partitions: Partitions, sends: dict[int, int]) -> Iterator[str]:
    """Nodes that can never become ready when every Recv waits for its Send; loops' back edges are left out."""
    cut = partitions.graph
    readers: list[list[int]] = [[] for _ in range(len(cut))]
    waits = [0] * len(cut)
    forward = np.flatnonzero(~cut.edge_back)
    joined = [*zip(cut.edge_src[forward].tolist(), cut.edge_dst[forward].tolist(), strict=True)]
    for source, reader in [*joined, *((send, recv) for recv, send in sends.items())]:
        readers[source].append(reader)
        waits[reader] += 1
    ready = [row for row, count in enumerate(waits) if not count]
    while ready:
        for reader in readers[ready.pop()]:
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    stuck = [row for row, count in enumerate(waits) if count]
    if stuck:
        yield f"{len(stuck)} nodes wait for each other across pieces, {cut.names[stuck[0]]!r} among them"
