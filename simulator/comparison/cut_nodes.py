"""The nodes of a cut, ours or measured, in one form that can be compared.

Two nodes are equal if name, op, device, data inputs in order, the set of control inputs and all attributes are equal.
Five things do not count:

- attributes that TensorFlow's own later passes write, and the incarnations of devices (`IGNORED`);
- an attribute that is absent: it has its op's default, which TensorFlow writes out when it imports a graph;
- the way in which a tensor is written (`same_elements`);
- the value of a large constant, which TensorFlow is not given (`without_value`); its type and shape do count;
- names of files that some kernels open as soon as they are made (`FILE_NAMES`), which TensorFlow is not given either.

The canonical form of a cut (`canonical`) undoes besides what TensorFlow does differently in every run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from simulator.graph import ops
from simulator.graph.creation import ORDERED
from simulator.graph.dtypes import SIZE, STRING
from simulator.graph.graph import Attrs
from simulator.graph.messages import AttrValue, Proto, TensorProto
from simulator.graph.ops import plain
from simulator.partitioning.partitions import RECVS, SENDS, Partitions

LARGE_BYTES = 4096  # of a constant; shapes and permutations, whose values TensorFlow reads, are smaller
# op -> the attributes by which its kernel reads or writes a file when it is made, long before it runs
FILE_NAMES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "CalibrationStatisticsSaver": frozenset({"output_file_path"}),
        "DumpTensor": frozenset({"log_dir_path", "file_name"}),
        "FixedUnigramCandidateSampler": frozenset({"vocab_file"}),
        "RecordInput": frozenset({"file_pattern"}),
        "Skipgram": frozenset({"filename"}),
    }
)
_NOTHING: frozenset[str] = frozenset()
INCARNATION = "send_device_incarnation"  # random in a cluster
# written by passes that have nothing to do with the cut
IGNORED = frozenset({INCARNATION, "_XlaHasReferenceVars", "_has_manual_control_dependencies", "_output_shapes"})
# task, "" for a node of the graph that was cut; name. One counter numbers what is made in a task, so names are unique.
Key: TypeAlias = tuple[str, str]
# field -> how its numbers are stored in a tensor; int_val and half_val hold several types, by their size
_NUMBERS = {
    "float_val": "<f4",
    "double_val": "<f8",
    "int64_val": "<i8",
    "uint32_val": "<u4",
    "uint64_val": "<u8",
    "bool_val": "?",
    "scomplex_val": "<f4",
    "dcomplex_val": "<f8",
}
_BY_SIZE = {1: "<u1", 2: "<u2", 4: "<u4"}


@dataclass(frozen=True, slots=True)
class CutNode:
    """One node of one piece of a cut."""

    name: str
    op: str
    device: str
    data: tuple[str, ...]  # "node" or "node:port"
    controls: frozenset[str]  # "node"
    attrs: Mapping[str, bytes]  # serialised AttrValues

    @property
    def task(self) -> str:
        """Job, replica and task of its device."""
        return self.device.rpartition("/device:")[0]

    def text(self, attr: str) -> str:
        """A string attribute; empty if it has none."""
        value = self.attrs.get(attr)
        return "" if value is None else str(AttrValue.FromString(value).s.decode(errors="replace"))


def nodes_of(cut: Partitions) -> Iterator[CutNode]:
    """The nodes of our own cut."""
    graph = cut.graph
    for row, device in enumerate(cut.device.tolist()):
        yield _node(graph.names[row], graph.ops[row], cut.devices[device], graph.inputs_of(row), graph.attrs[row])


def nodes_of_messages(pieces: Iterable[Proto]) -> Iterator[CutNode]:
    """The nodes of GraphDef messages, one per piece."""
    for message in pieces:
        for node in message.node:
            yield _node(node.name, node.op, node.device, node.input, node.attr)


def _node(name: str, op: str, device: str, inputs: Iterable[str], attrs: Attrs) -> CutNode:
    data = tuple(text.removesuffix(":0") for text in inputs if not text.startswith("^"))
    controls = frozenset(text[1:] for text in inputs if text.startswith("^"))
    hidden = FILE_NAMES.get(op, _NOTHING)
    kept = {key: _written(value) for key, value in attrs.items() if key not in IGNORED and key not in hidden}
    return CutNode(name, op, device, data, controls, kept)


def _written(value: Proto) -> bytes:
    written: bytes = value.SerializeToString(deterministic=True)
    if len(written) > LARGE_BYTES and value.HasField("tensor"):
        written = without_value(value).SerializeToString(deterministic=True)
    return written


def without_value(value: Proto) -> Proto:
    """A tensor attribute with type and shape alone: all zero."""
    return AttrValue(tensor=TensorProto(dtype=value.tensor.dtype, tensor_shape=value.tensor.tensor_shape))


def attrs_that_differ(ours: CutNode, theirs: CutNode) -> list[str]:
    """Names of the attributes that are not equal, sorted."""
    if ours.attrs == theirs.attrs:
        return []
    found = []
    for name in sorted({*ours.attrs, *theirs.attrs}):
        here, there = ours.attrs.get(name), theirs.attrs.get(name)
        if here == there:
            continue
        if here is None or there is None:
            given = here if here is not None else there
            assert given is not None, name
            if _is_default(ours.op, name, given):
                continue
        elif _same_tensor(here, there):
            continue
        found.append(name)
    return found


def _same_tensor(ours: bytes, theirs: bytes) -> bool:
    here, there = AttrValue.FromString(ours), AttrValue.FromString(theirs)
    both = here.HasField("tensor") and there.HasField("tensor")
    return bool(both) and same_elements(here.tensor, there.tensor)


@lru_cache(maxsize=4096)
def _is_default(op: str, attr: str, written: bytes) -> bool:
    """Tell whether a value is the default in the op's registration."""
    defaults = ops.defaults(op)
    return attr in defaults and defaults[attr] == plain(AttrValue.FromString(written))


# --- tensors ----------------------------------------------------------------------------------------------------------


def same_elements(ours: Proto, theirs: Proto) -> bool:
    """Tell whether two TensorProtos hold the same elements in the same shape, however each is written.

    TensorFlow writes the elements packed or one by one, and leaves out those at the end that repeat the last. A master
    writes a value anew where that is shorter (`tensorflow/core/framework/tensor.cc`, `tensor_util.cc`).
    """
    if (ours.dtype, ours.tensor_shape) != (theirs.dtype, theirs.tensor_shape):
        return False
    return _elements(ours) == _elements(theirs)


def _elements(tensor: Proto) -> list[bytes]:
    """The elements without the repetitions at the end; none if all are zero or empty."""
    found = list(_strings(tensor) if tensor.dtype == STRING else _numbers(tensor))
    while len(found) > 1 and found[-1] == found[-2]:
        found.pop()
    return [] if len(found) == 1 and not any(found[0]) else found


def _strings(tensor: Proto) -> Iterator[bytes]:
    """The strings; packed ones follow their lengths, each a varint (`core/lib/core/coding.cc`)."""
    if not tensor.tensor_content:
        yield from tensor.string_val
        return
    content, count, at = tensor.tensor_content, 1, 0
    for dim in tensor.tensor_shape.dim:
        count *= dim.size
    lengths: list[int] = []
    while len(lengths) < count and at < len(content):
        length = shift = 0
        while at < len(content):
            length |= (content[at] & 127) << shift
            shift += 7
            at += 1
            if content[at - 1] < 128:
                break
        lengths.append(length)
    for length in lengths:
        yield content[at : at + length]
        at += length


def _numbers(tensor: Proto) -> Iterator[bytes]:
    size = SIZE.get(tensor.dtype, 0)
    content = tensor.tensor_content
    if not content:
        for field, values in ((field.name, values) for field, values in tensor.ListFields()):
            if field in _NUMBERS:
                content = np.array(values, _NUMBERS[field]).tobytes()
            elif field in ("int_val", "half_val") and size in _BY_SIZE:
                content = (np.array(values, np.int64) % (1 << 8 * size)).astype(_BY_SIZE[size]).tobytes()
            elif field == "float8_val":
                content = values
    if size <= 0:  # of a type without a fixed size, that is not made of strings: as it stands
        yield tensor.SerializeToString(deterministic=True)
        return
    for at in range(0, len(content), size):
        yield content[at : at + size]


# --- the canonical form ----------------------------------------------------------------------------------------------


COPY = re.compile(r"(.+)/replicate/_\d+\Z")  # replicate_constants_pass.cc
_FED = re.compile(r"_(?:arg_(?P<local>.+)_\d+|recv_(?P<master>.+))_\d+\Z")  # subgraph.cc
_NUMBERED = re.compile(r"(.+(?:/_|_S|_G))(\d+)\Z")  # names of a session, a master, a worker
_DUMMY = re.compile(r".+/ctrl(?:/_|_S|_G)\d+\Z")
_BY_WORKER = re.compile(r"_G\d+\Z")
_EDGE = re.compile(r"edge_\d+_")
_FOUR = 4  # numbers of a control pair: Const, Send, Recv, Identity

_Part = tuple[CutNode, int]  # a node of a control pair, and which of the four it is


@dataclass(frozen=True, slots=True)
class _Side:
    """One side's nodes by where they are, and the nodes of pairs by whom the pair was made for."""

    nodes: Mapping[Key, CutNode]
    ends: Mapping[str, Sequence[CutNode]]  # Sends and Recvs by `_dst`
    after: Mapping[Key, CutNode]  # the Identity after a Recv, by the Recv


def replaced(name: str) -> str | None:
    """The node of the graph whose readers a node of the cut took over, as its copy or as the source of a feed."""
    if found := COPY.match(name):
        return found[1]
    found = _FED.match(name)
    return (found["local"] or found["master"]) if found else None


def canonical(
    nodes: Sequence[CutNode], widely_read: Collection[str], by_chance: Collection[tuple[str, str]] = ()
) -> list[CutNode]:
    """The nodes without what depends on the order of a node's edges where it has more than eight of a kind.

    That order is one of addresses in memory (`graph/creation.py`), so nobody can know it. The form undoes this alone:

    - The numbers of the control pairs of a node with more than 8 in-edges. Each pair takes the next four, in the order
      of the set. Here the fours go to the pairs in order of the sources' names.
    - The ids of edges that TensorFlow makes in the order of such a set; they stand in the `tensor_name` of what
      crosses, and are removed. That concerns copies of a constant with more than 8 out-edges or in-edges (or 8, one of
      them from a placeholder that is fed). It concerns fed nodes with more than 8 out-edges, and the edges that replace
      those of a call or a loop.
    - The ids of edges in a worker's graph, in a task with such a node. They follow the order in which the master wrote
      its piece.

    All other differences remain: the numbers that a node's pairs take together, what crosses from where to where, and
    who waits for whom.

    `widely_read` names the copied and the fed nodes of the graph with more than eight out-edges. `by_chance` has the
    ends of the edges that TensorFlow made in the order of such a set before it placed the graph.
    """
    side = _side(nodes)
    names: dict[Key, str] = {}
    without_id: set[Key] = set()
    disordered: set[str] = set()  # tasks
    for node in nodes:
        if node.op in SENDS or node.op in RECVS or 2 * _inputs(node) <= ORDERED:
            continue  # it has no more edges from control loops than inputs
        if _in_edges(side, node) + _had_a_feed_too(side, node) > ORDERED:
            names.update(_pairs_in_order(side, node))
            disordered.add(node.task)
            if COPY.match(node.name):
                without_id.update((end.task, end.name) for end in side.ends.get(node.name, ()))
    for ends in side.ends.values():
        for end in ends:
            made_so = (end.text("_src"), end.text("_dst")) in by_chance
            by_worker = _BY_WORKER.search(end.name) and end.task in disordered
            if made_so or by_worker or replaced(end.text("_src")) in widely_read:
                without_id.add((end.task, end.name))
    if not names and not without_id:
        return list(nodes)
    return [_renamed(_without_edge_id(node) if (node.task, node.name) in without_id else node, names) for node in nodes]


def _side(nodes: Sequence[CutNode]) -> _Side:
    found: defaultdict[str, list[CutNode]] = defaultdict(list)
    after: dict[Key, CutNode] = {}
    for node in nodes:
        if node.op in SENDS or node.op in RECVS:
            found[node.text("_dst")].append(node)
        elif node.op == "Identity" and len(node.data) == 1:
            after[node.task, node.data[0]] = node
    return _Side({(node.task, node.name): node for node in nodes}, found, after)


def _inputs(node: CutNode) -> int:
    return len(node.data) + len(node.controls)


def _in_edges(side: _Side, node: CutNode) -> int:
    """The in-edges of the node when it was cut: its inputs, and edges from a control loop.

    In a loop each input that crosses devices brings an edge from the control loop's Merge, which the Recv takes over.
    A master leaves those within a task to the worker: the input is still there, on another device.
    """
    inputs = (*node.data, *node.controls)
    recvs = [end for end in (_recv(side, node.task, name) for name in inputs) if end]
    waits = any(name.startswith("_cloop") for one in (node, *recvs) for name in one.controls)
    loop = sum(name.startswith("_cloop") for name in node.controls)
    return _inputs(node) - loop + (len(recvs) + _on_others(side, node, inputs) if waits else 0)


def _on_others(side: _Side, node: CutNode, inputs: Iterable[str]) -> int:
    """The inputs that are made in the node's task on another device of it."""
    found = (side.nodes.get((node.task, name.partition(":")[0])) for name in inputs)
    return sum(one is not None and one.device != node.device for one in found)


def _had_a_feed_too(side: _Side, node: CutNode) -> bool:
    """Tell whether a copy's original had one in-edge more for a moment: a feed's edge is made before the old one goes.

    Edges that were once in a set stay in it. Other nodes get their edges anew after that.
    """
    if not COPY.match(node.name):
        return False
    return any(
        _FED.match(name) for name in (*node.controls, *(end.text("_src") for end in side.ends.get(node.name, ())))
    )


def _recv(side: _Side, task: str, name: str) -> CutNode | None:
    """The Recv through which an input comes, directly or by the Identity of a control pair."""
    node = side.nodes.get((task, name))
    if node is not None and node.op == "Identity" and len(node.data) == 1:
        node = side.nodes.get((task, node.data[0]))
    return node if node is not None and node.op in RECVS else None


def _pairs_in_order(side: _Side, node: CutNode) -> dict[Key, str]:
    """New names for the nodes of the control pairs that were made for a node: by the names of the sources."""
    levels: defaultdict[str, defaultdict[tuple[str, str], list[_Part]]] = defaultdict(lambda: defaultdict(list))
    for end in side.ends.get(node.name, ()):
        pair = levels[_stem(end)[-1:]][end.text("_src"), end.text("tensor_name")]
        if end.op in SENDS:
            dummy = side.nodes.get((end.task, end.data[0])) if end.data else None
            if dummy is not None and _DUMMY.match(dummy.name):
                pair += [(dummy, 0), (end, 1)]
        elif (identity := side.after.get((end.task, end.name))) is not None and _stem(identity) == _stem(end):
            pair += [(end, 2), (identity, 3)]
    found: dict[Key, str] = {}
    for pairs in levels.values():  # a master's counter and a worker's
        found.update(_renumbered({key: parts for key, parts in sorted(pairs.items()) if parts}))
    return found


def _renumbered(pairs: Mapping[tuple[str, str], Sequence[_Part]]) -> dict[Key, str]:
    """New names that give the smallest four to the first pair; none if the numbers are not such fours."""
    first = {key: {_number(part) - at for part, at in parts} for key, parts in pairs.items()}
    bases = sorted(number for numbers in first.values() for number in numbers)
    if len(bases) != len(pairs) or any(after - before < _FOUR for before, after in pairwise(bases)):
        return {}
    return {
        (part.task, part.name): _with_number(part.name, base + at)
        for base, parts in zip(bases, pairs.values(), strict=True)
        for part, at in parts
    }


def _stem(node: CutNode) -> str:
    found = _NUMBERED.match(node.name)
    return found[1] if found else node.name


def _number(node: CutNode) -> int:
    found = _NUMBERED.match(node.name)
    return int(found[2]) if found else -1


def _with_number(name: str, number: int) -> str:
    return _NUMBERED.sub(lambda found: f"{found[1]}{number}", name)


def _without_edge_id(node: CutNode) -> CutNode:
    name = _EDGE.sub("edge_*_", node.text("tensor_name"), count=1)
    return replace(node, attrs={**node.attrs, "tensor_name": AttrValue(s=name.encode()).SerializeToString()})


def _renamed(node: CutNode, names: Mapping[Key, str]) -> CutNode:
    """The node with its own name and those that it reads replaced."""
    task = node.task
    data = tuple(names.get((task, name), name) for name in node.data)
    controls = frozenset(names.get((task, name), name) for name in node.controls)
    name = names.get((task, node.name), node.name)
    if name == node.name and data == node.data and controls == node.controls:
        return node
    return replace(node, name=name, data=data, controls=controls)
