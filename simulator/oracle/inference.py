"""Ask TensorFlow for the shape of every tensor of a graph, in a child process, and keep the answer.

The child imports the graph: TensorFlow checks it and infers shapes forward. Then Grappler infers the shapes that need
more than one pass: those in loops and those out of a queue.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import EncodeError

from simulator.comparison.comparison import Comparison, Mismatch
from simulator.errors import OracleError
from simulator.graph.dtypes import base
from simulator.graph.graph import Graph, Shape
from simulator.graph.graph_def import graph_def
from simulator.oracle import child
from simulator.oracle.session import quiet
from simulator.shapes.dims import is_open
from simulator.shapes.filling import MISTAKEN
from simulator.shapes.propagation import edge_tensors
from simulator.shapes.site import written

_FORM = 1  # of the answers in the cache; raise it when infer's answer to the same question changes
_KEPT_FILES = 256  # in the cache; the oldest go first
_MAX_FILE_BYTES = 2**26  # a larger answer is not kept, a larger file in the cache is not read
_SOURCE = "InfeedDequeue"  # stands for a fed tensor: any type and shape, no inputs, and nobody folds it to a constant
_WHEELS = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos", "tf-nightly")
_SHAPE_BYTES = 2**16  # a longer constant holds weights, not a shape or indices
_OMITTED = ("_output_shapes", "_class")  # the file's own shapes would be trusted; where nodes stand does not matter

_Listed = list[list[list[int] | None]]  # per node, per output


def infer(graph: Graph, feeds: Mapping[str, Shape], *, timeout_s: float = 300.0) -> list[Shape | None]:
    """A shape per tensor of the graph, with the tensors of `feeds` ("node:port") in the shapes given there.

    None is an unknown rank and -1 an unknown dimension. Answers are kept in the user's cache folder, by content; if it
    is not writable, TensorFlow is asked each time. Raises OracleError if TensorFlow is missing, does not know an op,
    refuses the graph, or takes too long.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise OracleError(child.INSTALL)
    question = _question(graph, feeds)
    path = _folder() / f"{hashlib.sha256(_version().encode() + b'/' + question).hexdigest()}.json"
    listed = _remembered(path, len(graph))
    if listed is None:
        answer = child.run("simulator.oracle.inference", question, timeout_s=timeout_s)
        listed = _read(answer, len(graph))
        if listed is None:
            raise OracleError("TensorFlow's answer about shapes cannot be read; please report this graph")
        _remember(path, answer)
    return _columns(graph, feeds, listed)


def compare_shapes(graph: Graph, *, timeout_s: float = 300.0) -> tuple[Comparison, str | None]:
    """Our shapes beside TensorFlow's own, and TensorFlow's sentence where it refuses the graph.

    TensorFlow is given the shapes of tensors at the graph's edge, so that the batch is the same, and infers all others
    by itself. Tensors count whose rank it finds out; ours agree where each dimension that it knows is the same. Outputs
    of the ops that TensorFlow infers wrongly (`MISTAKEN`) do not count, and their readers are given ours. Raises
    OracleError as `infer` does, but for a graph that is refused.
    """
    mistaken = np.isin(graph.tensor_node, [node for node, op in enumerate(graph.ops) if op in MISTAKEN])
    shapes, rows = graph.tensor_shape, [*edge_tensors(graph), *mistaken.nonzero()[0].tolist()]
    feeds = {graph.tensor_name(row): shape for row in rows if (shape := shapes[row]) is not None and not is_open(shape)}
    full = {name if ":" in name else f"{name}:0": shape for name, shape in feeds.items()}
    try:
        theirs = infer(graph, full, timeout_s=timeout_s)
    except OracleError as error:
        if error.refusal is None:
            raise
        return Comparison(0, 0, 0, ()), error.refusal
    theirs, found = [None if skip else one for one, skip in zip(theirs, mistaken.tolist(), strict=True)], []
    for row, (our, their) in enumerate(zip(shapes, theirs, strict=True)):
        if their is not None and (our is None or len(our) != len(their) or _contradicts(our, their)):
            node, port = graph.names[graph.tensor_node[row]], int(graph.tensor_port[row])
            found.append(Mismatch(node, written(our), written(their), f"shape of output {port}"))
    of = sum(their is not None for their in theirs)
    return Comparison(of - len(found), of, of - len(found), tuple(found)), None


def _contradicts(our: Shape, their: Shape) -> bool:
    return any(b not in (a, -1) for a, b in zip(our, their, strict=True))


def _question(graph: Graph, feeds: Mapping[str, Shape]) -> bytes:
    """The graph as GraphDef bytes, the same for the same content, with a source in the place of each fed tensor."""
    message = graph_def(graph, devices=[""] * len(graph))
    for node in message.node:
        for name in _OMITTED:
            node.attr.pop(name, None)
        if node.op == "Const" and len(node.attr["value"].tensor.tensor_content) > _SHAPE_BYTES:
            node.attr["value"].tensor.ClearField("tensor_content")  # then all zeros, of the same shape
    for place, (name, shape) in enumerate(sorted(feeds.items())):
        row = graph.tensor_row(name)
        source = message.node.add(name=_unused(graph, place), op=_SOURCE)
        source.attr["dtype"].type = base(int(graph.tensor_dtype[row]))
        source.attr["shape"].shape.SetInParent()
        for side in shape:
            source.attr["shape"].shape.dim.add(size=side)
        for edge in (graph.edge_tensor == row).nonzero()[0].tolist():
            reader = int(graph.edge_dst[edge])
            message.node[reader].input[edge - int(graph.in_ptr[reader])] = source.name
    try:
        return bytes(message.SerializeToString(deterministic=True))
    except (EncodeError, ValueError):  # protobuf's limit is 2 GiB
        raise OracleError("the graph is too large to be handed to TensorFlow: a GraphDef ends at 2 GiB") from None


def _unused(graph: Graph, place: int) -> str:
    name = f"fed_{place}"
    while name in graph.index:
        name += "_"
    return name


def _columns(graph: Graph, feeds: Mapping[str, Shape], listed: _Listed) -> list[Shape | None]:
    columns: list[Shape | None] = []
    for node, outputs in enumerate(listed[: len(graph)]):
        count = len(graph.outputs(node))
        shapes = [None if sides is None else tuple(sides) for sides in outputs[:count]]
        columns += shapes + [None] * (count - len(shapes))
    for name, shape in feeds.items():
        columns[graph.tensor_row(name)] = tuple(shape)
    return columns


# --- the cache -------------------------------------------------------------------------------------------------------


def _version() -> str:
    for wheel in _WHEELS:
        try:
            return f"{_FORM}/{importlib.metadata.version(wheel)}"
        except importlib.metadata.PackageNotFoundError:  # another wheel may be there
            continue
    return f"{_FORM}/unknown"


def _folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    base_folder = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~")) / ".cache"
    return base_folder / "simviz" / "shapes"


def _remembered(path: Path, nodes: int) -> _Listed | None:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            return None
        return _read(path.read_bytes(), nodes)
    except OSError:  # not remembered, or not readable: TensorFlow is asked again
        return None


def _read(answer: bytes, nodes: int) -> _Listed | None:
    """The answer, or None if it is not one: nothing that lies on a disk is trusted."""
    try:
        listed: Any = json.loads(answer)
    except ValueError:  # damaged: no answer
        return None
    if not isinstance(listed, list) or len(listed) < nodes:
        return None
    for outputs in listed:
        if not isinstance(outputs, list):
            return None
        for sides in outputs:
            if sides is not None and not (isinstance(sides, list) and all(type(side) is int for side in sides)):
                return None
    return listed


def _remember(path: Path, answer: bytes) -> None:
    """Write whole or not at all, and drop the oldest files beyond the limit; failing to is no error."""
    if len(answer) > _MAX_FILE_BYTES:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as whole:
            whole.write(answer)
        os.replace(whole.name, path)
        kept = sorted(path.parent.glob("*.json"), key=lambda file: (file.stat().st_mtime_ns, file.name))
        for file in kept[:-_KEPT_FILES]:
            file.unlink(missing_ok=True)
    except OSError:  # the cache only saves time
        return


# --- in the child ----------------------------------------------------------------------------------------------------


def _work(payload: bytes) -> bytes:
    quiet()
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.framework import importer, ops

    message = graph_pb2.GraphDef.FromString(payload)
    graph = ops.Graph()
    try:
        with graph.as_default():
            importer.import_graph_def(message, name="")
    except Exception as refusal:  # noqa: BLE001  # TensorFlow raises half a dozen types here
        sentence = str(refusal).split("\n")[0][:1000]
        raise OracleError(f"TensorFlow does not import the graph: {sentence}", refusal=sentence) from None
    nodes = map(graph.get_operation_by_name, (node.name for node in message.node))
    listed = [[_sides(output.shape) for output in node.outputs] for node in nodes]
    if any(sides is None or -1 in sides for outputs in listed for sides in outputs):
        _refine(message, listed)
    return json.dumps(listed, separators=(",", ":")).encode()


def _sides(shape: Any) -> list[int] | None:
    return None if shape.rank is None else [-1 if side is None else int(side) for side in shape.as_list()]


def _refine(message: Any, listed: _Listed) -> None:
    """Put in what Grappler infers and the import did not; a graph that it refuses stays as it is.

    Such as one in which each node is read. Nothing is said of a refusal, as nothing follows from it: TensorFlow then
    knows fewer shapes, and who compares counts those that it knows.
    """
    from tensorflow.core.protobuf import meta_graph_pb2
    from tensorflow.python.framework import errors_impl
    from tensorflow.python.grappler import item

    meta = meta_graph_pb2.MetaGraphDef(graph_def=message)
    read = {name.lstrip("^").split(":")[0] for node in message.node for name in node.input}
    meta.collection_def["train_op"].node_list.value.extend(n.name for n in message.node if n.name not in read)
    try:
        properties = item.Item(meta, ignore_colocation=True, ignore_user_placement=True).GetOpProperties()
    except (errors_impl.OpError, RuntimeError, ValueError):  # a status, by pybind11's table or as a plain error
        return
    for node, outputs in zip(message.node, listed, strict=True):
        for place, (sides, more) in enumerate(zip(outputs, properties.get(node.name, ()), strict=False)):
            outputs[place] = _filled(sides, more.shape)


def _filled(sides: list[int] | None, shape: Any) -> list[int] | None:
    if shape.unknown_rank or (sides is not None and len(sides) != len(shape.dim)):
        return sides
    more = [max(-1, dim.size) for dim in shape.dim]  # below -1: Grappler's names for dimensions that are equal
    return more if sides is None else [a if a >= 0 else b for a, b in zip(sides, more, strict=True)]


if __name__ == "__main__":
    child.serve(_work)
