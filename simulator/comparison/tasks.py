"""The transfers of a cut between tasks, without regard to names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from simulator.graph.graph import Attrs
from simulator.graph.messages import Proto
from simulator.partitioning.partitions import RECVS, SENDS, Partitions

_COPY = re.compile(r"(.+)/replicate/_\d+\Z")  # a copy by replicate_constants_pass.cc
_FED = re.compile(r"_arg_(.+)_(\d+)_\d+\Z")  # a local session's stand-in for a fed tensor

Facts = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    op: str
    device: str
    inputs: tuple[str, ...]
    attrs: Attrs
    piece: int


def nodes_of(cut: Partitions) -> Iterator[_Node]:
    """The nodes of our cut."""
    graph = cut.graph
    for row, device in enumerate(cut.device.tolist()):
        yield _Node(graph.names[row], graph.ops[row], cut.devices[device], graph.inputs_of(row), graph.attrs[row], 0)


def nodes_of_messages(pieces: Iterable[Proto]) -> Iterator[_Node]:
    """The nodes of GraphDef messages."""
    for piece, message in enumerate(pieces):
        for node in message.node:
            yield _Node(node.name, node.op, node.device, tuple(node.input), node.attr, piece)


@dataclass(frozen=True, slots=True)
class _Cut:
    nodes: Mapping[tuple[int, str], _Node]  # by piece and name
    sends: Mapping[tuple[bytes, ...], _Node]  # by what a Send and its Recv have in common
    own: frozenset[str]  # names of the nodes that the graph had before
    by: str


def cut_facts(nodes: Iterable[_Node], own: frozenset[str], by: str) -> Facts:
    """What is compared."""
    table = {(node.piece, node.name): node for node in nodes}
    made = [node for node in table.values() if node.name not in own]
    cut = _Cut(table, {_pairing(node): node for node in made if node.op in SENDS and node.inputs}, own, by)
    facts = {}
    for node in table.values():
        copy = _COPY.match(node.name)
        if node.name in own:
            facts[node.name] = _described(cut, node)
        elif copy and copy[1] in own and node.op == "Const":
            facts[f"{copy[1]} copied to {node.device}"] = _described(cut, node)
    facts.update(_transfers(cut, [node for node in made if node.op in RECVS]))
    parts = Counter(f"control loop: {node.op} on {node.device}" for node in made if node.op in _LOOP_PARTS)
    facts.update({part: (str(number),) for part, number in sorted(parts.items())})
    return facts


def _described(cut: _Cut, node: _Node) -> tuple[str, ...]:
    sources = [_source(cut, node.piece, text) for text in node.inputs]
    values = [text for text in sources if not text.startswith("^")]
    return node.op, node.device, f"({' '.join(values)})", f"({' '.join(_waits(cut, sources))})"


def _waits(cut: _Cut, sources: Iterable[str]) -> list[str]:
    """What a node waits for. Whether it or a Recv before it waits for a control loop depends on the level of the cut:
    a master leaves that to the reader where nothing crosses tasks, so by task such waits say nothing.
    """
    found = {text for text in sources if text.startswith("^")}
    return sorted(text for text in found if cut.by != "task" or not text.startswith(_LOOP_WAIT))


def _transfers(cut: _Cut, recvs: Iterable[_Node]) -> dict[str, tuple[str, ...]]:
    """Per tensor, source and destination: the pairs that carry it."""
    pairs: dict[str, list[str]] = {}
    for recv in recvs:
        send = cut.sends.get(_pairing(recv))
        if _is_client_terminated(recv):
            continue
        if send is None:
            pairs.setdefault(f"{recv.name} on {recv.device}", []).append("a Recv without its Send")
            continue
        here, there, kind = send.device, recv.device, f"{send.op} {recv.op}"
        if cut.by == "task" and here != there:
            there = _task(there)
            if _task(here) == there:
                continue
            kind = send.op  # the receiver's kind is that of the first reader in the task, whichever device that is on
        waits = _waits(cut, (_source(cut, recv.piece, text) for text in recv.inputs))
        tensor = _source(cut, send.piece, send.inputs[0])
        pairs.setdefault(f"{tensor} from {here} to {there}", []).append(" ".join((kind, *waits)))
    return {item: ("; ".join(sorted(set(kinds) if cut.by == "task" else kinds)),) for item, kinds in pairs.items()}


def _source(cut: _Cut, piece: int, text: str) -> str:
    """What an input stands for, seen through the nodes of transfers: "node:port", or "^node" if it only waits."""
    control = ""
    for _ in range(_LONGEST_CHAIN):
        control = "^" if text.startswith("^") else control
        name, _, port = text.removeprefix("^").partition(":")
        if name not in cut.own and (copy := _COPY.match(name)) and copy[1] in cut.own:
            name = copy[1]
        if name in cut.own or (piece, name) not in cut.nodes:
            return f"^{name}" if control else f"{name}:{port or 0}"
        node = cut.nodes[piece, name]
        if fed := _FED.match(name):
            return f"^{fed[1]}" if control else f"{fed[1]}:{fed[2]}"
        if node.op in RECVS:
            if _is_client_terminated(node):  # a tensor that is fed to a master
                return f"{control}{_pairing(node)[0].decode(errors='replace')}"
            send = cut.sends.get(_pairing(node))
            if send is None:
                return f"{control}a Recv without its Send"
            piece, text = send.piece, send.inputs[0]
        elif node.op in _DUMMIES and node.inputs:
            text = node.inputs[0]
        else:
            return f"{control}{node.op} of a control loop on {node.device}"
    return f"{control}an endless chain"


_LOOP_WAIT = "^Merge of a control loop"
_PAIRING = ("tensor_name", "send_device", "recv_device")
_LONGEST_CHAIN = 16  # Identity, Recv, Send, Const and the node itself make 5

_DUMMIES = frozenset({"Const", "Identity"})  # what stands for a control edge, before the Send and after the Recv
_LOOP_PARTS = frozenset({"Enter", "Merge", "Switch", "NextIteration"})


def _pairing(node: _Node) -> tuple[bytes, ...]:
    return tuple(node.attrs[name].s if name in node.attrs else b"" for name in _PAIRING)


def _is_client_terminated(node: _Node) -> bool:
    return "client_terminated" in node.attrs and bool(node.attrs["client_terminated"].b)


def _task(device: str) -> str:
    return device.rsplit("/device:", 1)[0]
