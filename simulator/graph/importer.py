"""Import of a graph from any source: GraphDef, MetaGraph or SavedModel, binary or text, in a file or in memory.

A file of TensorBoard's events holds a GraphDef or MetaGraph, too.

bytes ──recognise──▶ text ────read_text────▶ Rows ─┐
                 └─▶ binary ──rows_of_bytes──▶ Rows ─┴──build──▶ Graph
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError, EncodeError, Message

from simulator.errors import GraphError
from simulator.graph import messages
from simulator.graph.building import build
from simulator.graph.graph import Graph, Signature
from simulator.graph.messages import Proto
from simulator.graph.rows import Rows, rows_of, rows_of_bytes
from simulator.graph.sources import (
    GRAPH,
    META_GRAPH,
    SAVED_MODEL,
    fields,
    graph_of_events,
    kind_of_text,
    read_source,
    refuse_other_formats,
    text_of,
)
from simulator.graph.tensors import HANDLE_SHAPES
from simulator.graph.text_format import read_enclosed, read_text

_MESSAGES = {GRAPH: messages.GraphDef, META_GRAPH: messages.MetaGraphDef, SAVED_MODEL: messages.SavedModel}
_GRAPH_INDENT = {META_GRAPH: 0, SAVED_MODEL: 2}  # blanks before `graph_def {` in text
_NODE = 1  # number of the field `node` in a GraphDef
_VERSIONS = 4  # number of the field `versions`
SERVE = "serve"  # the tag of the MetaGraph to serve: tensorflow/cc/saved_model/tag_constants.h
TRAIN_OP = "train_op"  # the collection of optimizers' updates
QUEUE_RUNNERS = "queue_runners"  # the collection of QueueRunnerDefs, whose ops threads run in loops to fill queues
# Under this signature a SavedModel of TensorFlow 1 names its update (tensorflow/python/saved_model/constants.py).
TRAIN_SIGNATURE = "__saved_model_train_op"


def read_graph(source: object) -> Graph:
    """Read a graph as it stands: calls are not expanded, and only the shapes that the source says are known.

    `source` is one of these:

        a path               a file, also of TensorBoard's events, or the folder of a SavedModel; "-" for standard input
        bytes                the content of such a file
        a message            GraphDef, MetaGraphDef or SavedModel, of TensorFlow's classes or ours
        a tf.Graph           or anything else with `as_graph_def()`
        a concrete function  its graph is taken
        a Graph              returned unchanged

    The content decides the format, never the name; gzip is unpacked. A SavedModel gives its MetaGraph tagged "serve",
    else its first.

    Raises GraphError for a source without a graph, for a cut or damaged file, and for a graph that TensorFlow would not
    import.
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, Message):
        return _from_message(_ours(source), "a message in memory")
    concrete = hasattr(source, "structured_input_signature") and not hasattr(source, "as_graph_def")
    holder = source.graph if concrete else source  # type: ignore[attr-defined]  # of concrete functions
    if hasattr(holder, "as_graph_def"):
        return _from_message(_ours(_graph_def_of(holder)), "a graph in memory")
    if isinstance(source, bytes | bytearray | memoryview):
        return _from_bytes(bytes(source), "bytes in memory")
    if isinstance(source, str | os.PathLike):
        return _from_bytes(*read_source(source))
    way_out = "a path, bytes, a GraphDef, or an object with as_graph_def()"
    if hasattr(getattr(source, "graph", None), "as_graph_def"):
        way_out = "its .graph"  # a tensor or an operation
    elif hasattr(source, "get_concrete_function"):
        way_out = "the concrete function that its get_concrete_function makes for given arguments"
    elif callable(source):
        way_out = "the concrete function of tf.function(it), by get_concrete_function(tf.TensorSpec(shape))"
    raise GraphError(f"a value of type {type(source).__name__} is not a graph: give {way_out}.")


def _graph_def_of(source: Any) -> Proto:  # Any: whatever has as_graph_def()
    try:
        made = source.as_graph_def(add_shapes=True)
    except TypeError:  # not TensorFlow's own: it knows no such option
        return source.as_graph_def()
    _say_handles(made, getattr(source, "captures", ()))
    return made


def _say_handles(made: Proto, pairs: Iterable[tuple[Any, Any]]) -> None:  # Any: tensors outside and inside a function
    """Write beside each handle that a function captures what its variable's shape is, which no file says."""
    shapes = {}
    for outside, inside in pairs:
        held = getattr(outside, "_handle_data", None)
        if held is not None and len(held.shape_and_type) == 1:
            shapes[inside.op.name] = held.shape_and_type[0].shape
    for node in made.node:
        if node.name in shapes:
            node.attr[HANDLE_SHAPES].list.shape.add().CopyFrom(shapes[node.name])


def _ours(message: Proto) -> Proto:
    """The same message under our own descriptors."""
    kind = message.DESCRIPTOR.name
    if kind not in _MESSAGES:
        raise GraphError(f"a {kind} message is not a graph: give a GraphDef, MetaGraphDef or SavedModel.")
    if isinstance(message, _MESSAGES[kind]):
        return message
    try:
        return _MESSAGES[kind].FromString(message.SerializeToString())
    except (DecodeError, EncodeError, ValueError) as error:
        raise GraphError(f"the {kind} in memory cannot be copied: {error}.") from None


def _from_bytes(raw: bytes, label: str) -> Graph:
    raw, number = graph_of_events(raw, label)
    if number > 1:
        return _from_bytes(raw, label).with_notes(f"of {number} graphs in the file of events the last was taken")
    refuse_other_formats(raw, label)
    text = text_of(raw, label)
    if text is None:
        rows = _graph_rows(raw)
        return _built(rows, label) if rows is not None else _from_message(_parse_binary(raw, label), label)
    return _from_text(text, label)


# ---- text -----------------------------------------------------------------------------------------------------------


def _from_text(text: str, label: str) -> Graph:
    kind = kind_of_text(text, label)
    if kind == GRAPH:
        return _built(read_text(text, label), label)
    message, rows = read_enclosed(text, _MESSAGES[kind](), _GRAPH_INDENT[kind], label)
    return _from_message(message, label, rows)


# ---- binary ---------------------------------------------------------------------------------------------------------


def _graph_rows(raw: bytes) -> Rows | None:
    """The bytes as a GraphDef; None for another message."""
    try:
        rows = rows_of_bytes(raw)
    except (DecodeError, ValueError):  # the bytes are another message, or damaged
        return None
    found = rows.names[0] and rows.ops[0] if rows.names else _holds_a_graph(rows.rest)
    return rows if found else None


def _parse_binary(raw: bytes, label: str) -> Proto:
    """The bytes as the first of the other messages that fits."""
    for kind in (META_GRAPH, SAVED_MODEL):
        try:
            message = _MESSAGES[kind].FromString(raw)
        except (DecodeError, ValueError):  # not of this kind: try the next
            continue
        if _holds_a_graph(message):
            return message
    raise _damaged(raw, label)


def _holds_a_graph(message: Proto) -> bool:
    """Tell whether the message holds nodes with ops: other messages parse, too, as their fields have such numbers."""
    kind = message.DESCRIPTOR.name
    if kind == SAVED_MODEL:
        return any(_holds_a_graph(meta_graph) for meta_graph in message.meta_graphs)
    graph_def = message if kind == GRAPH else message.graph_def
    if not graph_def.node:
        if [field.number for field, _ in message.ListFields()] == [_VERSIONS] and kind == GRAPH:
            return bool(message.versions.producer)  # TensorFlow wrote a graph without nodes
        return bool(graph_def.library.function and graph_def.library.function[0].signature.name)
    first = graph_def.node[0]
    return bool(first.name and first.op)


def _damaged(raw: bytes, label: str) -> GraphError:
    """The error for damaged bytes, with the number of whole nodes."""
    whole, last = 0, ""
    for number, begin, end in fields(raw, limit=1_000_000):
        try:
            field = messages.GraphDef.FromString(raw[begin:end])
        except (DecodeError, ValueError):  # the damage begins here
            break
        if number != _NODE or not _holds_a_graph(field):
            break
        whole, last = whole + 1, field.node[0].name
    if whole:
        return GraphError(
            f"{label} is a GraphDef that is cut or damaged: {whole} nodes are whole, what follows {last!r} is not. "
            "Fetch it again."
        )
    return GraphError(
        f"{label} is binary, but neither a GraphDef nor a MetaGraph nor a SavedModel, or one that is cut or damaged. "
        "Give the file that TensorFlow wrote, or fetch it again."
    )


# ---- messages -------------------------------------------------------------------------------------------------------


def _from_message(message: Proto, label: str, rows: Sequence[Rows] = ()) -> Graph:
    """The graph of a message; `rows` has the nodes of its GraphDefs, in order, where they were read separately."""
    kind = message.DESCRIPTOR.name
    if kind == GRAPH:
        return _built(rows_of(message), label)
    if kind == META_GRAPH:
        return _from_meta_graph(message, label, rows[0] if rows else rows_of(message.graph_def))
    if not message.meta_graphs:
        raise GraphError(f"{label} is a SavedModel without a MetaGraph. Export the model again.")
    tagged = [at for at, found in enumerate(message.meta_graphs) if SERVE in found.meta_info_def.tags]
    at = (tagged or [0])[0]
    chosen = message.meta_graphs[at]
    graph = _from_meta_graph(chosen, label, rows[at] if rows else rows_of(chosen.graph_def))
    if len(message.meta_graphs) == 1:
        return graph
    tags = ", ".join(sorted(chosen.meta_info_def.tags)) or "no tag"
    return graph.with_notes(
        f"of {len(message.meta_graphs)} MetaGraphs in the SavedModel the one tagged {tags} was taken"
    )


def _from_meta_graph(meta_graph: Proto, label: str, rows: Rows) -> Graph:
    signatures = {name: _signature(found) for name, found in sorted(meta_graph.signature_def.items())}
    trained = signatures.pop(TRAIN_SIGNATURE, None)
    train_ops = (*_collection(meta_graph, TRAIN_OP), *(trained.outputs.values() if trained else ()))
    return replace(
        _built(rows, label),
        signatures=signatures,
        train_ops=tuple(dict.fromkeys(train_ops)),
        queue_runners=_run_in_loops(meta_graph, label),
        meta_graph=meta_graph,
    )


def _collection(meta_graph: Proto, name: str) -> list[str]:
    if name not in meta_graph.collection_def:
        return []
    found = meta_graph.collection_def[name]
    return [*found.node_list.value, *(value.decode("utf-8", "replace") for value in found.bytes_list.value)]


def _run_in_loops(meta_graph: Proto, label: str) -> tuple[str, ...]:
    """The enqueue ops of the queue runners, once per thread."""
    names: list[str] = []
    if QUEUE_RUNNERS in meta_graph.collection_def:
        for packed in meta_graph.collection_def[QUEUE_RUNNERS].bytes_list.value:
            try:
                names += messages.QueueRunnerDef.FromString(packed).enqueue_op_name
            except (DecodeError, ValueError) as error:
                raise GraphError(
                    f"{label}: an entry of the collection {QUEUE_RUNNERS!r} is no QueueRunnerDef ({error}). Export the "
                    "MetaGraph again."
                ) from None
    return tuple(names)


def _signature(found: Proto) -> Signature:
    return Signature(inputs=_tensors(found.inputs), outputs=_tensors(found.outputs))


def _tensors(arguments: Mapping[str, Proto]) -> dict[str, str]:
    """Argument -> tensor name; an argument of several tensors (sparse, composite) becomes one entry for each."""
    named = {}
    for name, argument in sorted(arguments.items()):
        encoding = argument.WhichOneof("encoding")
        if encoding == "coo_sparse":
            parts = argument.coo_sparse
            for part in ("values", "indices", "dense_shape"):
                named[f"{name}.{part}"] = getattr(parts, f"{part}_tensor_name")
        elif encoding == "composite_tensor":
            for at, component in enumerate(argument.composite_tensor.components):
                named[f"{name}.{at}"] = component.name
        elif argument.name:
            named[name] = argument.name
    return named


def _built(rows: Rows, label: str) -> Graph:
    rest = rows.rest
    library = {function.signature.name: function for function in rest.library.function}
    graph = build(rows.names, rows.ops, rows.requested, rows.inputs, rows.attrs, library=library, source=label)
    return replace(
        graph,
        gradients={gradient.function_name: gradient.gradient_func for gradient in rest.library.gradient},
        producer=rest.versions.producer or rest.version,  # `version` is how the first releases wrote it
        min_consumer=rest.versions.min_consumer,
    )
