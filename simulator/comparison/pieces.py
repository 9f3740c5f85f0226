"""The nodes of a cut, ours or measured, in one form that can be compared.

Two nodes are equal when name, op, device, data inputs in order, the set of control inputs and all attributes are, but:

- attributes that TensorFlow's own later passes write, and the incarnations of devices, are left out (`IGNORED`);
- an attribute that is absent counts as its op's default, which TensorFlow writes out when it takes a graph over;
- a tensor may be written in several ways (`values`);
- of a large constant only type and shape are compared: its value is not handed to TensorFlow (`without_value`);
- neither are the names of files that some kernels open as soon as they are made (`FILE_NAMES`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from simulator.comparison.values import written_alike
from simulator.graph import ops
from simulator.graph.graph import Attrs
from simulator.graph.messages import AttrValue, Proto, TensorProto
from simulator.graph.ops.registry import Plain
from simulator.partitioning.partitions import Partitions

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
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Piece:
    """One node of a piece."""

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


def nodes_of(cut: Partitions) -> Iterator[Piece]:
    """The nodes of our own cut."""
    graph = cut.graph
    for row, device in enumerate(cut.device.tolist()):
        yield _node(graph.names[row], graph.ops[row], cut.devices[device], graph.inputs_of(row), graph.attrs[row])


def nodes_of_messages(pieces: Iterable[Proto]) -> Iterator[Piece]:
    """The nodes of GraphDef messages, one per piece."""
    for message in pieces:
        for node in message.node:
            yield _node(node.name, node.op, node.device, node.input, node.attr)


def _node(name: str, op: str, device: str, inputs: Iterable[str], attrs: Attrs) -> Piece:
    data = tuple(text.removesuffix(":0") for text in inputs if not text.startswith("^"))
    controls = frozenset(text[1:] for text in inputs if text.startswith("^"))
    hidden = FILE_NAMES.get(op, _NOTHING)
    kept = {key: _written(value) for key, value in attrs.items() if key not in IGNORED and key not in hidden}
    return Piece(name, op, device, data, controls, kept)


def _written(value: Proto) -> bytes:
    written: bytes = value.SerializeToString(deterministic=True)
    if len(written) > LARGE_BYTES and value.HasField("tensor"):
        written = without_value(value).SerializeToString(deterministic=True)
    return written


def without_value(value: Proto) -> Proto:
    """A tensor attribute with type and shape alone: all zero."""
    return AttrValue(tensor=TensorProto(dtype=value.tensor.dtype, tensor_shape=value.tensor.tensor_shape))


def attrs_that_differ(ours: Piece, theirs: Piece) -> list[str]:
    """Names of the attributes that are not the same, in order of name."""
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
    return bool(both) and written_alike(here.tensor, there.tensor)


@lru_cache(maxsize=4096)
def _is_default(op: str, attr: str, written: bytes) -> bool:
    """Whether a value is the one that the op's registration gives to an attribute that is absent."""
    defaults = ops.defaults(op)
    return attr in defaults and defaults[attr] == _plain(AttrValue.FromString(written))


def _plain(value: Proto) -> Plain:
    """An AttrValue in the form of `ops.defaults`."""
    kind = value.WhichOneof("value")
    if kind == "list":
        return tuple(_single(field.name, item) for field, items in value.list.ListFields() for item in items)
    return None if kind is None else _single(kind, getattr(value, kind))


def _single(kind: str, item: Proto) -> Plain:
    if kind == "s":
        return str(item.decode("latin-1"))
    if kind == "shape":
        return None if item.unknown_rank else tuple(dim.size for dim in item.dim)
    plain: Plain = item if kind in {"i", "f", "b", "type"} else str(item)
    return plain
