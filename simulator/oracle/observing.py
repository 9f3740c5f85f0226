"""Observe one step: it really runs once on this machine's TensorFlow, in a child process.

Everything else that asks TensorFlow, but `timing`, makes it look at a graph; here its ops are executed. So only graphs
that one trusts are observed. The graph is pruned to the step and to the initialisers of its variables. All runs on one
CPU device, whatever devices the graph asks for.

A dequeue, an iterator or a reader waits for what other steps bring. In its place stands an `IdentityN` of made-up
tensors, under its name and with its outputs. An assertion passes on its inputs without a look at them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.errors import OracleError
from simulator.graph.attributes import COLOCATION
from simulator.graph.captured import captured, is_table, read_whole
from simulator.graph.dataflow import data_inputs, readers
from simulator.graph.dtypes import BOOL, INT32, INT64, NAMES, RESOURCE, VARIANT, base
from simulator.graph.graph_def import all_nodes, graph_def
from simulator.graph.messages import Proto
from simulator.graph.op_classes import VARIABLES
from simulator.graph.step import is_tensor
from simulator.graph.tensors import SHAPES, shape_of
from simulator.graph.traversal import PLACEHOLDERS, closure
from simulator.limits import free_bytes
from simulator.observed.fitting import digest
from simulator.observed.observed_step import ObservedNode, ObservedStep, SeenShape
from simulator.oracle import child
from simulator.oracle.machine import processor
from simulator.oracle.scratch import scratch_folder
from simulator.oracle.session import MAX_FED
from simulator.oracle.variables import filled_by, first_of, variables_of
from simulator.shapes.feeds import written
from simulator.shapes.ragged import made_up_splits, row_splits
from simulator.shapes.sparse import made_up_entries, sparse_placeholders
from simulator.units import show_bytes
from simulator.wording import some

if TYPE_CHECKING:
    from simulator.graph.graph import Graph, Shape
    from simulator.graph.step import Step

TIME_S = 120.0
_GRACE_S = 10.0  # in which the child, whose time is up, says what it waited for
_SHARE = 0.75  # of the memory that is free, which an observed step may take by default
# Ops that wait for what another step or thread brings, and those that bring it.
_WAITING = frozenset(
    {
        *("QueueDequeue", "QueueDequeueV2", "QueueDequeueMany", "QueueDequeueManyV2"),
        *("QueueDequeueUpTo", "QueueDequeueUpToV2", "IteratorGetNext", "IteratorGetNextSync"),
        *("ReaderRead", "ReaderReadV2", "ReaderReadUpTo", "ReaderReadUpToV2", "Unstage", "BarrierTakeMany"),
    }
)
_BRINGING = frozenset({"QueueEnqueue", "QueueEnqueueV2", "QueueEnqueueMany", "QueueEnqueueManyV2", "Stage"})
# oneDNN's layout pass joins a bias, its gradient and a padding with the convolution beside it.
_JOINED = frozenset({"BiasAdd", "BiasAddV1", "BiasAddGrad"})
_PADDED = frozenset({"Conv2D", "Conv3D", "DepthwiseConv2dNative"})
_PADS = frozenset({"Pad", "PadV2"})
_SEQUENCES = frozenset({"CTCLoss", "CTCLossV2"})  # steps come first; input 3 has the lengths
_LOOKING_UP = frozenset({"Gather", "GatherV2", "ResourceGather"})  # rows of input 0
_WHOLE = frozenset({INT32, INT64})
_CHANNELS_FIRST = (b"NCHW", b"NCDHW")
_NUMPY = {1: "float32", 2: "float64", 19: "float16"}  # DataType -> numpy's name, where it is another
_MADE_UP = "simviz_made_up"  # name scope of the placeholders that are added


def observe_step(
    graph: Graph,
    *,
    step: Step,
    values: Mapping[str, Any] | None = None,
    time_s: float = TIME_S,
    memory_bytes: int | None = None,
) -> ObservedStep:
    """Run one step of a loaded graph on this machine's CPU, and return what each of its ops did.

    Fed tensors and what queues and iterators bring have the shapes of the graph, so those of its `batch` and `feeds`.
    Their values are made up: small random floats, zeros, true. Row numbers that are looked up once each differ.
    `values` maps names of fed tensors to arrays, which are taken instead and must have these shapes. Where sizes, trips
    or branches depend on data, give some that are typical. Variables get their values from their initialisers; those
    that have none get made-up ones.

    The step runs in a folder of its own, which is deleted. It has `time_s` seconds, and `memory_bytes` of memory, by
    default three quarters of what is free. Observe only graphs that you trust: their ops are executed.

    Raises OracleError that says why a step cannot be observed. TensorFlow is missing, does not know an op or has no
    CPU kernel for it. Or a file is missing, the size of an input is unknown, or time or memory run out.
    """
    given = _handed(graph)
    edge = _edge(given, graph, step)
    shapes, feeds, blobs = _feeds(graph, step, given, edge, values or {})
    spread = _spread(graph, shapes, feeds)
    message = _pruned(given, graph, step, edge)
    names = {node.name for node in message.node}
    memory_bytes = int(_SHARE * free_bytes()) if memory_bytes is None else memory_bytes
    fetches = [name for name in step.fetches if is_tensor(graph, name) and _has_value(graph, name)]
    question = {
        "feeds": feeds,
        "spread": spread,
        "fetches": fetches,
        "targets": sorted({name.rpartition(":")[0] if ":" in name else name for name in {*step.fetches} - {*fetches}}),
        "first": first_of(given, names),
        "variables": variables_of(given, names),
        "until_s": time_s,
        "memory_bytes": memory_bytes,
        "channels_first": _has_channels_first(message),
    }
    content = message.SerializeToString(deterministic=True)
    with scratch_folder() as folder:
        payload = child.pack({**question, "folder": folder}, [content, *blobs])
        reply, _ = child.unpack(child.run("simulator.oracle.rehearsal", payload, timeout_s=time_s + _GRACE_S))
    if reply["not_run"] is not None:
        allowed = f"{time_s:g} s and {show_bytes(memory_bytes)} were allowed"
        raise OracleError(f"{graph.source}: TensorFlow did not run the step: {reply['not_run']} ({allowed})")
    return _observed(graph, step, shapes, {given.names[row] for row in edge}, reply)


def _handed(graph: Graph) -> Graph:
    """The graph that TensorFlow gets and lowers by itself; the lowered one where captured values became variables."""
    if graph.lowered is None:
        return graph
    given = graph.lowered.given
    same = all(
        given.ops[row] == graph.ops[at]
        for name, row in given.index.items()
        if (at := graph.index.get(name, -1)) >= 0 and given.ops[row] in PLACEHOLDERS
    )
    return given if same else graph


def _has_value(graph: Graph, tensor: str) -> bool:
    """Whether Python can be handed a tensor; the node of another only has to run."""
    return base(int(graph.tensor_dtype[graph.tensor_row(tensor)])) not in (RESOURCE, VARIANT)


def _has_channels_first(message: Proto) -> bool:
    """Tell whether some op of a GraphDef or of its functions has its channels first."""
    return any(
        "data_format" in node.attr and node.attr["data_format"].s in _CHANNELS_FIRST for node in all_nodes(message)
    )


# --- the part of the graph that runs ---------------------------------------------------------------------------------


def _edge(given: Graph, graph: Graph, step: Step) -> list[int]:
    """The rows of `given` whose outputs are made up: fed nodes that are no placeholders, and those that wait."""
    fed = set(step.feeds)
    sources = given.edge_src.tolist()
    filled = {
        sources[given.in_ptr[row]]
        for row, op in enumerate(given.ops)
        if op in _BRINGING and given.in_ptr[row] < given.in_ptr[row + 1] and _runs(graph, step, given.names[row])
    }
    made_up = []
    for row, op in enumerate(given.ops):
        outputs = [given.tensor_name(at) for at in given.outputs(row)]
        replaced = op not in PLACEHOLDERS and bool(outputs) and fed.issuperset(outputs)
        waits = op in _WAITING and _runs(graph, step, given.names[row]) and sources[given.in_ptr[row]] not in filled
        if replaced or (waits and op != "Unstage") or (waits and not filled):
            made_up.append(row)
    return made_up


def _runs(graph: Graph, step: Step, name: str) -> bool:
    row = graph.index.get(name)
    return row is not None and bool(step.runs[row])


def _needed(given: Graph, targets: list[int], edge: set[int]) -> set[int]:
    """The rows in the fan-in of the targets, data inputs of made-up nodes left out."""
    source, tensor = given.edge_src.tolist(), given.edge_tensor.tolist()
    return closure(targets, lambda row: (source[at] for at in given.in_edges(row) if tensor[at] < 0 or row not in edge))


def _pruned(given: Graph, graph: Graph, step: Step, edge: list[int]) -> Any:
    """The GraphDef that runs: what the step and the initialisers need, without devices and colocation."""
    wanted = {name.rpartition(":")[0] if is_tensor(graph, name) else name for name in (*step.fetches, *step.feeds)}
    if missing := sorted(wanted - given.index.keys()):
        raise OracleError(
            f"{graph.source}: {some([repr(name) for name in missing])} exists only once TensorFlow has lowered the "
            "graph, so no session can fetch it; fetch another node"
        )
    made_up = set(edge)
    rows = _needed(given, [given.index[name] for name in sorted(wanted)], made_up)
    while more := {given.index[name] for name in first_of(given, {given.names[row] for row in rows})} - rows:
        rows |= _needed(given, sorted(more), made_up)
    whole = graph_def(given, devices=[""] * len(given))
    kept = [node for row, node in enumerate(whole.node) if row in rows]
    message = type(whole)(versions=whole.versions, library=whole.library)
    for node in kept:
        for name in (SHAPES, COLOCATION):
            if name in node.attr:
                del node.attr[name]
        row = given.index[node.name]
        if row in made_up:
            _made_up(message, given, row, node)
        elif node.op == "Assert":
            _unasserted(node)
        message.node.add().CopyFrom(node)
    _keep_apart(message)
    return message


def _keep_apart(message: Any) -> None:
    """Add an Identity between nodes that oneDNN's layout pass would join under one name, each with its own time."""
    ops = {node.name: node.op for node in message.node}
    for number, node in enumerate(list(message.node)):
        if node.op in _JOINED or (node.op in _PADDED and ops.get(node.input[0]) in _PADS):
            added = message.node.add(name=f"{_MADE_UP}/apart_{number}", op="Identity", input=node.input[:1])
            added.attr["T"].CopyFrom(node.attr["T"])
            node.input[0] = added.name


def _made_up(message: Any, given: Graph, row: int, node: Any) -> None:
    """Let a node pass on placeholders, which are added to the message."""
    controls = [name for name in node.input if name.startswith("^")]
    types = [base(int(given.tensor_dtype[at])) for at in given.outputs(row)]
    del node.input[:]
    node.attr.clear()
    node.op = "IdentityN"
    for port, dtype in enumerate(types):
        added = message.node.add(name=_fed_name(given, row, port), op="Placeholder")
        added.attr["dtype"].type = dtype
        added.attr["shape"].shape.unknown_rank = True
        node.input.append(added.name)
        node.attr["T"].list.type.append(dtype)
    node.input.extend(controls)


def _unasserted(node: Any) -> None:
    """Let an assertion pass on its inputs: it is about data, and these are made up."""
    types = [BOOL, *node.attr["T"].list.type]
    node.attr.clear()
    node.op = "IdentityN"
    node.attr["T"].list.type.extend(types)


def _fed_name(given: Graph, row: int, port: int) -> str:
    """The name of a placeholder that no node of the graph has."""
    name = f"{_MADE_UP}/{row}_{port}"
    while name in given.index:
        name += "_"
    return name


# --- what is fed, and what is seen -----------------------------------------------------------------------------------


def _feeds(
    graph: Graph, step: Step, given: Graph, edge: list[int], values: Mapping[str, Any]
) -> tuple[dict[str, Shape], list[Any], list[bytes]]:
    """The shapes of what is made up, by tensor name; the feeds of the question; and the given values as bytes."""
    named = {
        given.tensor_name(at): _fed_name(given, row, int(given.tensor_port[at])) + ":0"
        for row in edge
        for at in given.outputs(row)
    }
    named = {**{name: name for name in step.feeds}, **named}
    sparse, held = _of_sparse(graph, step), captured(graph)
    for handle, takers in held.items():
        if is_table(graph, handle) and step.runs[takers].any():
            raise _unmade(graph, f"{graph.names[handle]}:0", takers)
    if strange := sorted(set(values) - named.keys()):
        raise OracleError(f"{strange[0]!r} is no fed tensor of the step; it feeds {some(sorted(named)) or 'nothing'}")
    shapes: dict[str, Shape] = {}
    feeds: list[Any] = []
    blobs: list[bytes] = []
    for name, fed in sorted(named.items()):
        row = graph.tensor_row(name)
        shape, dtype = graph.tensor_shape[row], base(int(graph.tensor_dtype[row]))
        if dtype in (0, RESOURCE, VARIANT):
            users = held.get(int(graph.tensor_node[row]))
            if users is not None:
                raise _unmade(graph, name, users)
            kind = NAMES[dtype].removeprefix("DT_").lower() if dtype else "tensor of unknown type"
            iterates = any(
                graph.ops[user].startswith("Iterator") for user in readers(graph, int(graph.tensor_node[row]))
            )
            holder = "graph that makes its dataset" if iterates else "SavedModel of the function"
            where = f"; a {holder} holds it" if dtype == RESOURCE else ""
            raise OracleError(f"{name} brings a {kind}, which cannot be made up{where}")
        if shape is None or min(shape, default=0) < 0:
            raise OracleError(
                f"the size of {name} ({written(shape)}) is unknown, so it cannot be made up; give it, as in --feed "
                f"{name}={'SHAPE' if shape is None else written(shape)}"
            )
        if math.prod(shape) > MAX_FED:
            raise OracleError(f"{name} would be fed {math.prod(shape):,} values; ask for a smaller batch")
        shapes[name] = shape
        place = None
        if name in values or name in sparse:
            blobs.append(_bytes(name, values.get(name, sparse.get(name)), shape, dtype))
            place = len(blobs)
        feeds.append((fed, dtype, list(shape), place))
    for name in sorted(sparse.keys() - named.keys()):  # a default that leaves rows open
        blobs.append(_bytes(name, sparse[name], np.shape(sparse[name]), INT64))
        feeds.append((name, INT64, list(np.shape(sparse[name])), len(blobs)))
    return shapes, feeds, blobs


def _unmade(graph: Graph, name: str, users: Sequence[int]) -> OracleError:
    """The refusal of a step that uses a captured variable of unknown size."""
    file = ", or write the file from as_graph_def(add_shapes=True)" if read_whole(graph, users) else ""
    return OracleError(
        f"{name} is a variable that the function captures, of unknown size, so it cannot be made up; give the size, as "
        f"in --feed {name}=SHAPE{file}"
    )


def _spread(graph: Graph, shapes: Mapping[str, Shape], feeds: Sequence[Any]) -> list[list[Any]]:
    """The feeds whose distinct values are looked up once each: place, numbers of values that may be allowed, lookups.

    If all were zero, a single row would be looked up, and travel. Parts of a table have its rows together, but only a
    run shows whether tables are parts of one.
    """
    found = []
    for place, name in enumerate(shapes):  # the first feeds, in this order
        _, dtype, shape, given = feeds[place]
        wanted = dtype in _WHOLE and shape and given is None
        tables, lookups = _looked_up(graph, graph.tensor_row(name)) if wanted else ([], [])
        if tables:
            found.append([place, sorted({sum(tables), max(tables), min(tables)}, reverse=True), lookups])
    return found


def _looked_up(graph: Graph, tensor: int) -> tuple[list[int], list[str]]:
    """The rows of the tables in which numbers made of a tensor's are looked up once each, and the ops that do it."""
    pending, seen, tables, lookups, unique = [tensor], {tensor}, dict[int, int](), list[str](), False
    while pending:
        at = pending.pop()
        for edge in graph.out_edges(int(graph.tensor_node[at])):
            if graph.edge_tensor[edge] != at:
                continue
            reader = int(graph.edge_dst[edge])
            unique |= graph.ops[reader].startswith("Unique")
            table = filled_by(graph, reader) if graph.ops[reader] in _LOOKING_UP else -1
            if table >= 0 and graph.ops[table] in VARIABLES:
                shape = shape_of(graph.attrs[table]["shape"].shape) if "shape" in graph.attrs[table] else None
                tables[table] = max(0, shape[0]) if shape else 0
                lookups.append(graph.names[reader])
                continue
            whole = {row for row in graph.outputs(reader) if base(int(graph.tensor_dtype[row])) in _WHOLE}
            pending += sorted(whole - seen)
            seen |= whole
    return ([rows for rows in tables.values() if rows] if unique else []), lookups


def _of_sparse(graph: Graph, step: Step) -> dict[str, Any]:
    """Parts of the sparse and ragged tensors that a step is fed, by tensor name: indices and dense shapes, row splits.

    Zeros would be none.
    """
    made: dict[str, Any] = {}
    fed = sparse_placeholders(graph, graph.tensor_shape)
    for one in fed:
        shape = graph.tensor_shape[one.indices]
        if graph.tensor_name(one.indices) in step.feeds and shape is not None and min(shape) >= 0:
            indices, sides = made_up_entries(graph, one, fed)
            made[graph.tensor_name(one.indices)] = np.asarray(indices, np.int64).reshape(shape)
            if one.shape >= 0 and _runs_or_is_fed(graph, step, one.shape):
                made[graph.tensor_name(one.shape)] = np.asarray(sides, np.int64)
    splits = row_splits(graph, graph.tensor_shape)
    for row in splits:
        if graph.tensor_name(row) in step.feeds and min(graph.tensor_shape[row] or (0,)) > 0:
            made[graph.tensor_name(row)] = np.asarray(made_up_splits(graph, row, splits), np.int32)
    return made | _lengths(graph, step)


def _lengths(graph: Graph, step: Step) -> dict[str, Any]:
    """Lengths of the sequences whose sparse labels a loss reads, if they are fed: all steps, as labels need some."""
    inputs, made = data_inputs(graph), dict[str, Any]()
    for node, op in enumerate(graph.ops):
        if op in _SEQUENCES:
            steps, row = graph.tensor_shape[inputs[node][0]], inputs[node][3]
            shape = graph.tensor_shape[row]
            if steps and shape and graph.tensor_name(row) in step.feeds and min(*steps, *shape) >= 0:
                made[graph.tensor_name(row)] = np.full(shape, steps[0], np.int32)
    return made


def _runs_or_is_fed(graph: Graph, step: Step, row: int) -> bool:
    return bool(step.runs[graph.tensor_node[row]]) or graph.tensor_name(row) in step.feeds


def _bytes(name: str, value: Any, shape: Shape, dtype: int) -> bytes:
    """A given value as the bytes of its type."""
    kind = _NUMPY.get(dtype, NAMES[dtype].removeprefix("DT_").lower())
    try:
        array = np.asarray(value).astype(kind, casting="same_kind")
    except (TypeError, ValueError) as error:
        raise OracleError(f"the value of {name} cannot be fed as {kind}: {error}") from None
    if array.shape != shape:
        raise OracleError(
            f"the value of {name} has the shape {written(array.shape)}, and the graph was loaded with "
            f"{written(shape)}; load it with that feed"
        )
    return array.tobytes()


def _observed(
    graph: Graph, step: Step, shapes: Mapping[str, Shape], replaced: set[str], reply: Mapping[str, Any]
) -> ObservedStep:
    nodes = {}
    for name, runs, ns, scratch, outputs in reply["nodes"]:
        row = graph.index.get(name)
        if row is None:  # of a function that was called, or of the feeds
            continue
        ports = len(graph.outputs(row))
        seen = {
            port: tuple(SeenShape(count, tuple(shape)) for count, shape in found)
            for port, found in outputs
            if port < ports
        }
        made_up = name in replaced or graph.ops[row] == "Assert"
        nodes[name] = ObservedNode(graph.ops[row], runs, -1 if made_up else ns, 0 if made_up else scratch, seen)
    return ObservedStep(
        graph=graph.source,
        tensorflow=reply["tensorflow"],
        machine=processor(),
        digest=digest(graph, nodes),
        feeds=shapes,
        fetches=step.fetches,
        synthetic=tuple(reply["synthetic"]),
        step_ns=reply["step_ns"],
        traced_ns=reply["traced_ns"],
        nodes=nodes,
    )
