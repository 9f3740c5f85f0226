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

import numpy as np

from simulator.cluster import devicespec
from simulator.errors import ClusterError, GraphError
from simulator.graph.calling import PARTITIONED
from simulator.graph.control_flow import ENTERS
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining.attributes import COLOCATION, NO_ATTRS, beside, is_true, shaped, texts, typed, types
from simulator.graph.inlining.bodies import Body, Endpoint, instantiate
from simulator.graph.inlining.draft import MAX_DEPTH, RESULT, Call, Draft, erase
from simulator.graph.messages import AttrValue, Proto

MARK = "_lower_as_multi_device_function"  # of calls that stand for parts of a construct; lower_functional_ops.cc


class Bodies:
    """The bodies that have been made, by function and the attributes that its signature declares."""

    def __init__(self, library: Mapping[str, Proto], source: str) -> None:
        self._library = library
        self._source = source
        self._made: dict[tuple[str, tuple[bytes, ...]], Body] = {}

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


def target(draft: Draft, row: int) -> tuple[str, Attrs] | None:
    """Which function a node calls, and the attributes that it gives; None: no call, or the function is not there."""
    if draft.ops[row] in PARTITIONED:
        function = draft.attrs[row].get("f")
        if function is None or function.func.name not in draft.library:
            return None
        return function.func.name, function.func.attr
    return (draft.ops[row], draft.attrs[row]) if draft.ops[row] in draft.library else None


def may_inline(function: Proto) -> bool:
    """Whether TensorFlow inlines calls of the function (ValidateInlining): some are kept whole for a later choice."""
    return not is_true(function.attr, "_noinline") and "api_implements" not in function.attr


def part(draft: Draft, row: int, name: str, function: Proto, inputs: Sequence[Endpoint], pivot: int) -> int:
    """Add the call that stands for a part of the construct in that row; it runs after `pivot`."""
    attrs = {**function.func.attr, MARK: AttrValue(b=True)}
    device, call = draft.devices[row], draft.call[row]
    return draft.add(name, function.func.name, inputs, (pivot,), attrs, device=device, call=call)


def expand(draft: Draft, row: int, body: Body, *, many_devices: bool) -> None:
    """Replace the call in that row by the body.

    `many_devices` (PartitionedCall, and the calls that stand for branches and loop bodies): a body node takes from
    the caller's device the fields that its own leaves open, arguments and results are colocated with what they
    forward (an argument asks for its source's device too), and the control outputs are the side effects. Otherwise
    (an op that names a function) everything runs on the caller's device, and the results are all to wait for.
    """
    caller, device = draft.names[row], draft.devices[row]
    call = _entered(draft, row, body)
    inputs = _arguments(draft, row, body)
    gate: tuple[int, ...] = ()
    if controls := draft.controls_of(row):
        name = draft.fresh(f"Func/{caller}/input_control_node")
        gate = (draft.add(name, "NoOp", (), controls, device=device, call=call),)

    def forward(kind: str, at: Endpoint, dtype: int, where: str) -> int:
        attrs = {**typed(dtype or draft.dtype(at)), **shaped([draft.shape(at)])}
        if many_devices:
            attrs = {**attrs, COLOCATION: beside(draft.names[at[0]])}
        name = draft.fresh(f"Func/{caller}/{kind}")
        return draft.add(name, "Identity", (at,), (), attrs, device=where if many_devices else device, call=call)

    arguments = [
        forward("input", at, dtype, draft.devices[at[0]]) for at, dtype in zip(inputs, body.argument_types, strict=True)
    ]
    rows = _copied(draft, row, body, arguments, gate, call, many_devices)
    results = []
    for slot, ((at, port), dtype) in enumerate(zip(body.results, body.result_types, strict=True)):
        results.append((forward("output", (rows[at], port), dtype, ""), 0))
        handed = next(edge for edge in draft.outs[rows[at]] if draft.edges[edge][2:] == (RESULT, slot))
        erase(draft.outs[rows[at]], handed)
    effects = [rows[at] for at in body.side_effects] if many_devices else [at for at, _ in results]
    name = draft.fresh(f"Func/{caller}/output_control_node")
    done = draft.add(name, "NoOp", (), effects or gate, device=device, call=call)
    draft.hand_over(row, results, done)
    keep_fetchable(draft, row, results, (done,))
    draft.remove(row)


def _arguments(draft: Draft, row: int, body: Body) -> list[Endpoint]:
    inputs = draft.inputs_of(row)
    if len(inputs) != len(body.argument_types):
        raise GraphError(
            f"{draft.source}: {draft.names[row]!r} hands over {len(inputs)} tensors, but its function "
            f"{body.name!r} takes {len(body.argument_types)}. Write the file anew with TensorFlow.",
            node=draft.names[row],
        )
    return inputs


def keep_fetchable(draft: Draft, row: int, outputs: list[Endpoint], waits: tuple[int, ...]) -> None:
    """Add a node under the replaced node's name that has its outputs; a NoOp when there are none."""
    attrs = {"T": types([draft.dtype(at) for at in outputs]), **shaped([draft.shape(at) for at in outputs])}
    op = "IdentityN" if outputs else "NoOp"
    name, device, call = draft.names[row], draft.devices[row], draft.call[row]
    draft.add(name, op, outputs, waits, attrs if outputs else NO_ATTRS, device=device, call=call)


def _entered(draft: Draft, row: int, body: Body) -> Call:
    outer = draft.call[row]
    if outer is not None and outer.calls(body.name):
        raise GraphError(
            f"{draft.source}: the function {body.name!r} calls itself (at {draft.names[row]!r}); a recursive function "
            "has no finite expansion. Keep the calls.",
            node=draft.names[row],
        )
    depth = outer.depth + 1 if outer is not None else 1
    if depth > MAX_DEPTH:
        raise GraphError(
            f"{draft.source}: more than {MAX_DEPTH} function calls lie within each other (at {draft.names[row]!r}). "
            "Keep the calls.",
            node=draft.names[row],
        )
    return Call(body.name, outer, depth)


def _copied(
    draft: Draft, row: int, body: Body, arguments: list[int], gate: tuple[int, ...], call: Call, many_devices: bool
) -> list[int]:
    """Add the body's nodes; the row in the draft of every row of the body, its arguments included.

    A node without inputs runs only when the call does: it waits for the caller's control inputs, and so does a call,
    so that nodes without inputs in the body of that call can. The body's edges first come from stand-ins for the
    arguments, and then anew from those who forward them.
    """
    graph, device, prefix = body.graph, draft.devices[row], draft.names[row] + "/"
    rows = [draft.add("", "_Arg", call=call) for _ in arguments] + [0] * (len(graph) - len(arguments))
    inputs = np.diff(graph.in_ptr)
    waits = np.bincount(graph.edge_dst[graph.edge_tensor < 0], minlength=len(graph))
    made = [at for at in graph.order.tolist() if at >= len(arguments)]
    for at in made:
        op = graph.ops[at]
        gated = not inputs[at] or (not waits[at] and _is_call(draft, op))
        wanted = _merged(graph.requested[at], device) if many_devices else device
        name = _unused(draft, prefix + graph.names[at])
        rows[at] = draft.add(name, op, (), gate if gated else (), graph.attrs[at], device=wanted, call=call)
    _join_copies(draft, body, rows)
    for at, argument in enumerate(arguments):
        for waited in gate:
            draft.wait(waited, argument)
        draft.hand_over(rows[at], [(argument, 0)], argument)
        draft.remove(rows[at])
        rows[at] = argument
    for at in made:
        _rename(draft, rows[at], graph, rows, prefix)
    return rows


def _join_copies(draft: Draft, body: Body, rows: Sequence[int]) -> None:
    """Add the edges of a body in the order in which TensorFlow makes them: what it hands back before its back edges."""
    graph = body.graph
    ports, first = graph.tensor_port.tolist(), graph.in_ptr.tolist()
    src, dst, tensor = graph.edge_src.tolist(), graph.edge_dst.tolist(), graph.edge_tensor.tolist()
    order = np.argsort(graph.creation.edge)

    def join(edges: Sequence[int]) -> None:
        for edge in edges:
            if tensor[edge] < 0:
                draft.wait(rows[src[edge]], rows[dst[edge]])
            else:
                draft.join(rows[src[edge]], ports[tensor[edge]], rows[dst[edge]], edge - first[dst[edge]])

    join(order[~graph.edge_back[order]].tolist())
    for slot, (at, port) in enumerate(body.results):
        draft.join(rows[at], port, RESULT, slot)
    join(order[graph.edge_back[order]].tolist())


def _is_call(draft: Draft, op: str) -> bool:
    return op in PARTITIONED or op in draft.library or op == "SymbolicGradient"


def _unused(draft: Draft, name: str) -> str:
    """The name, or the first of name_1, name_2, ... that is free (TensorFlow would use the name twice)."""
    chosen, suffix = name, 0
    while chosen in draft.taken:
        suffix += 1
        chosen = f"{name}_{suffix}"
    return chosen


def _rename(draft: Draft, row: int, body: Graph, rows: list[int], prefix: str) -> None:
    """Let a copied node's colocation and frame speak of the copies."""
    attrs = draft.attrs[row]
    classes = attrs.get(COLOCATION)
    if classes is not None:
        written = [_relocated(draft, text.decode("utf-8", "replace"), body, rows) for text in classes.list.s]
        attrs = {**attrs, COLOCATION: texts(written)}
    if draft.ops[row] in ENTERS and "frame_name" in attrs:
        attrs = {**attrs, "frame_name": AttrValue(s=prefix.encode() + attrs["frame_name"].s)}
    draft.attrs[row] = attrs


def _relocated(draft: Draft, entry: str, body: Graph, rows: list[int]) -> str:
    inside = body.index.get(entry.removeprefix("loc:@")) if entry.startswith("loc:@") else None
    return entry if inside is None else f"loc:@{draft.names[rows[inside]]}"


@lru_cache(maxsize=4096)
def _merged(own: str, caller: str) -> str:
    """The device of a body node: its own, with the fields that it leaves open taken from the caller's."""
    if not own:
        return caller
    try:
        return str(devicespec.specialise(devicespec.parse(caller), devicespec.parse(own)))
    except ClusterError:  # malformed: the placer will say so, with the node's name
        return own
