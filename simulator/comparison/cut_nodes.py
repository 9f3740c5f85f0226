"""The nodes of a cut, ours or measured, in one form that can be compared.

Two nodes are equal if name, op, device, data inputs in order, the set of control inputs and all attributes are equal.
Five things do not count:

- attributes that TensorFlow's own later passes write, and the incarnations of devices (`IGNORED`);
- an attribute that is absent: it has its op's default, which TensorFlow writes out when it imports a graph;
- the way in which a tensor is written (`same_elements`);
- the value of a large constant, which TensorFlow is not given (`without_value`); its type and shape do count;
- names of files that some kernels open as soon as they are made (`FILE_NAMES`), which TensorFlow is not given either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from simulator.graph import ops
from simulator.graph.dtypes import SIZE, STRING
from simulator.graph.graph import Attrs
from simulator.graph.messages import AttrValue, Proto, TensorProto
from simulator.graph.ops import plain
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
    """Whether a value is the default in the op's registration."""
    defaults = ops.defaults(op)
    return attr in defaults and defaults[attr] == plain(AttrValue.FromString(written))


# --- tensors ----------------------------------------------------------------------------------------------------------


def same_elements(ours: Proto, theirs: Proto) -> bool:
    """Whether two TensorProtos hold the same elements in the same shape, however each is written.

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
