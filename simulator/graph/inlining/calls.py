"""Replace a function call by the function's body, under the names that TensorFlow's inliner gives.

    caller                       Func/<caller>/input_control_node/_1   NoOp, if the caller has control inputs
                                 Func/<caller>/input/_2                Identity per argument
                          ->     <caller>/<name>                       the body's nodes
                                 Func/<caller>/output/_3               Identity per result
                                 Func/<caller>/output_control_node/_4  NoOp: after this, all side effects are done
                                 <caller>                              IdentityN of the results: fetches stay valid

The rules are those of `tensorflow/core/common_runtime/inline_function_utils.cc`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from simulator import limits
from simulator.cluster import devicespec
from simulator.errors import ClusterError, GraphError
from simulator.graph.attributes import COLOCATION, NO_ATTRS, colocation, is_true, shaped, texts, typed, types
from simulator.graph.editor import Editor, Endpoint
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining.bodies import Body, instantiate
from simulator.graph.messages import AttrValue, Proto
from simulator.graph.op_classes import ENTERS, PARTITIONED

FREE_NODES = 50_000  # of an expanded graph, whatever the file holds
MARK = "_lower_as_multi_device_function"  # of calls that stand for parts of a construct; lower_functional_ops.cc
_RESULT = -3  # in place of the reader: what a body hands back, by slot, while it is copied


Chain: TypeAlias = tuple[str, ...]  # functions whose calls lie around a node, outermost first


class Bodies:
    """The bodies that have been made, by function and the attributes that its signature declares."""

    def __init__(self, library: Mapping[str, Proto], source: str) -> None:
        self._library = library
        self._source = source
        self._made: dict[tuple[str, tuple[bytes, ...]], Body] = {}

    def most(self, nodes: int) -> int:
        """The number of nodes that a graph of so many may have when its calls are expanded."""
        held = nodes + sum(len(function.node_def) for function in self._library.values())
        return min(limits.NODES.most, max(FREE_NODES, limits.GROWTH.most * held))

    def of(self, name: str, attrs: Attrs) -> Body:
        """The body of a library function for a call with those attributes."""
        function = self._library[name]
        absent = AttrValue()
        given = [attrs.get(attr.name, absent) for attr in function.signature.attr]
        key = (name, tuple(value.SerializeToString(deterministic=True) for value in given))
        body = self._made.get(key)
        if body is None:
            body = self._made[key] = instantiate(function, attrs, self._library, self._source)
        return body


def target(editor: Editor, row: int) -> tuple[str, Attrs] | None:
    """The function that a node calls, and the attributes that it gives; None: no call, or the function is not there."""
    if editor.ops[row] in PARTITIONED:
        function = editor.attrs[row].get("f")
        if function is None or function.func.name not in editor.given.library:
            return None
        return function.func.name, function.func.attr
    return (editor.ops[row], editor.attrs[row]) if editor.ops[row] in editor.given.library else None


def may_inline(function: Proto) -> bool:
    """Tell whether TensorFlow inlines calls of the function (ValidateInlining); some it keeps for a later choice."""
    return not is_true(function.attr, "_noinline") and "api_implements" not in function.attr


def part(editor: Editor, row: int, name: str, function: Proto, inputs: Sequence[Endpoint], pivot: int) -> int:
    """Add the call that stands for a part of the construct in that row; it runs after `pivot`."""
    attrs = {**function.func.attr, MARK: AttrValue(b=True)}
    return editor.add(name, function.func.name, inputs, (pivot,), attrs, device=editor.devices[row])


def expand(editor: Editor, row: int, body: Body, most: int, *, many_devices: bool) -> None:
    """Replace the call in that row by the body. Raises GraphError where the graph would have more than `most` nodes.

    `many_devices` holds for PartitionedCall, and for calls that stand for branches and loop bodies. A body node then
    takes from the caller's device the fields that its own leaves open. Arguments and results are colocated with the
    nodes whose values they forward; an argument also asks for its source's device. The control outputs are the side
    effects. Otherwise, for an op that names a function, all nodes run on the caller's device, and the results are the
    control outputs.
    """
    caller, device = editor.names[row], editor.devices[row]
    if len(editor.names) + len(body.graph) > most:
        limit = limits.NODES if most == limits.NODES.most else limits.GROWTH
        raise GraphError(
            f"{editor.given.source}: with its functions expanded the graph has more than {most:,} nodes; keep the "
            f"calls (--keep-calls), or {limit.remedy}. {caller!r} was to be expanded next.",
            node=caller,
        )
    inputs = _arguments(editor, row, body)
    gate: tuple[int, ...] = ()
    if controls := editor.controls_of(row):
        name = editor.numbered(f"Func/{caller}/input_control_node")
        gate = (editor.add(name, "NoOp", (), controls, device=device),)

    def forward(kind: str, at: Endpoint, dtype: int, where: str) -> int:
        attrs = {**typed(dtype or editor.dtype(at)), **shaped([editor.shape(at)])}
        if many_devices:
            attrs = {**attrs, COLOCATION: colocation([editor.names[at[0]]])}
        name = editor.numbered(f"Func/{caller}/{kind}")
        return editor.add(name, "Identity", (at,), (), attrs, device=where if many_devices else device)

    arguments = [
        forward("input", at, dtype, editor.devices[at[0]])
        for at, dtype in zip(inputs, body.argument_types, strict=True)
    ]
    rows = _copied(editor, row, body, arguments, gate, many_devices)
    results = []
    for slot, ((at, port), dtype) in enumerate(zip(body.results, body.result_types, strict=True)):
        results.append((forward("output", (rows[at], port), dtype, ""), 0))
        editor.remove_edge(next(edge for edge in editor.outs[rows[at]] if editor.edges[edge][2:] == (_RESULT, slot)))
    effects = [rows[at] for at in body.side_effects] if many_devices else [at for at, _ in results]
    name = editor.numbered(f"Func/{caller}/output_control_node")
    done = editor.add(name, "NoOp", (), effects or gate, device=device)
    editor.redirect_readers(row, results, done)
    keep_fetchable(editor, row, results, (done,))
    editor.remove(row)


def _arguments(editor: Editor, row: int, body: Body) -> list[Endpoint]:
    inputs = editor.inputs_of(row)
    if len(inputs) != len(body.argument_types):
        raise GraphError(
            f"{editor.given.source}: {editor.names[row]!r} hands over {len(inputs)} tensors, but its function "
            f"{body.name!r} takes {len(body.argument_types)}. Write the file anew with TensorFlow.",
            node=editor.names[row],
        )
    return inputs


def keep_fetchable(editor: Editor, row: int, outputs: list[Endpoint], waits: tuple[int, ...]) -> None:
    """Add a node under the replaced node's name that has its outputs; a NoOp when there are none."""
    attrs = {"T": types([editor.dtype(at) for at in outputs]), **shaped([editor.shape(at) for at in outputs])}
    op = "IdentityN" if outputs else "NoOp"
    name, device = editor.names[row], editor.devices[row]
    editor.add(name, op, outputs, waits, attrs if outputs else NO_ATTRS, device=device)


def entered(editor: Editor, row: int, function: str, outer: Chain) -> Chain:
    """The chain of calls within the body of the call in that row. Raises GraphError where it has no bounds."""
    caller, where = editor.names[row], editor.given.source
    if function in outer:
        raise GraphError(
            f"{where}: the function {function!r} calls itself (at {caller!r}); a recursive function has no finite "
            "expansion. Keep the calls.",
            node=caller,
        )
    if len(outer) >= limits.CALLS.most:
        raise GraphError(
            f"{where}: more than {limits.CALLS.most} function calls lie within each other (at {caller!r}). Keep the "
            f"calls (--keep-calls); {limits.CALLS.remedy}.",
            node=caller,
        )
    return (*outer, function)


def _copied(
    editor: Editor, row: int, body: Body, arguments: list[int], gate: tuple[int, ...], many_devices: bool
) -> list[int]:
    """Add the body's nodes. Return the row in the editor of every row of the body, its arguments included.

    A node without inputs runs only when the call does, so it waits for the caller's control inputs. A call in the body
    waits for them too, for the sake of nodes without inputs in its own body. The body's edges first come from stand-ins
    for the arguments, and then anew from those who forward them.
    """
    graph, device, prefix = body.graph, editor.devices[row], editor.names[row] + "/"
    rows = [editor.add("", "_Arg") for _ in arguments] + [0] * (len(graph) - len(arguments))
    inputs = np.diff(graph.in_ptr)
    waits = np.bincount(graph.edge_dst[graph.edge_tensor < 0], minlength=len(graph))
    made = [at for at in graph.order.tolist() if at >= len(arguments)]
    for at in made:
        op = graph.ops[at]
        gated = not inputs[at] or (not waits[at] and _is_call(editor, op))
        wanted = _merged(graph.requested[at], device) if many_devices else device
        name = editor.free(prefix + graph.names[at])  # TensorFlow would use a name twice
        rows[at] = editor.add(name, op, (), gate if gated else (), graph.attrs[at], device=wanted)
    _join_copies(editor, body, rows)
    for at, argument in enumerate(arguments):
        for waited in gate:
            editor.add_control_edge(waited, argument)
        editor.redirect_readers(rows[at], [argument], argument)
        editor.remove(rows[at])
        rows[at] = argument
    for at in made:
        _rename(editor, rows[at], graph, rows, prefix)
    return rows


def _join_copies(editor: Editor, body: Body, rows: Sequence[int]) -> None:
    """Add the edges of a body in the order in which TensorFlow makes them: what it hands back before its back edges."""
    graph = body.graph
    ports, first = graph.tensor_port.tolist(), graph.in_ptr.tolist()
    src, dst, tensor = graph.edge_src.tolist(), graph.edge_dst.tolist(), graph.edge_tensor.tolist()
    order = np.argsort(graph.creation.edge)

    def add(edges: Sequence[int]) -> None:
        for edge in edges:
            if tensor[edge] < 0:
                editor.add_control_edge(rows[src[edge]], rows[dst[edge]])
            else:
                editor.add_edge((rows[src[edge]], ports[tensor[edge]]), rows[dst[edge]], edge - first[dst[edge]])

    add(order[~graph.edge_back[order]].tolist())
    for slot, (at, port) in enumerate(body.results):
        editor.add_edge((rows[at], port), _RESULT, slot)
    add(order[graph.edge_back[order]].tolist())


def _is_call(editor: Editor, op: str) -> bool:
    return op in PARTITIONED or op in editor.given.library or op == "SymbolicGradient"


def _rename(editor: Editor, row: int, body: Graph, rows: list[int], prefix: str) -> None:
    """Let a copied node's colocation and frame speak of the copies."""
    attrs = editor.attrs[row]
    classes = attrs.get(COLOCATION)
    if classes is not None:
        written = [_relocated(editor, text.decode("utf-8", "replace"), body, rows) for text in classes.list.s]
        attrs = {**attrs, COLOCATION: texts(written)}
    if editor.ops[row] in ENTERS and "frame_name" in attrs:
        attrs = {**attrs, "frame_name": AttrValue(s=prefix.encode() + attrs["frame_name"].s)}
    editor.attrs[row] = attrs


def _relocated(editor: Editor, entry: str, body: Graph, rows: list[int]) -> str:
    inside = body.index.get(entry.removeprefix("loc:@")) if entry.startswith("loc:@") else None
    return entry if inside is None else f"loc:@{editor.names[rows[inside]]}"


@lru_cache(maxsize=4096)
def _merged(own: str, caller: str) -> str:
    """The device of a body node: its own, with the fields that it leaves open taken from the caller's."""
    if not own:
        return caller
    try:
        return str(devicespec.specialise(devicespec.parse(caller), devicespec.parse(own)))
    except ClusterError:  # malformed: the placer will say so, with the node's name
        return own
