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

from collections.abc import Mapping
from functools import lru_cache

from simulator.cluster import devicespec
from simulator.errors import ClusterError, GraphError
from simulator.graph.control_flow import ENTERS
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining.bodies import Body, Endpoint, instantiate
from simulator.graph.inlining.draft import (
    COLOCATION,
    MAX_DEPTH,
    NO_ATTRS,
    Call,
    Draft,
    beside,
    shaped,
    texts,
    typed,
    types,
)
from simulator.graph.messages import AttrValue, Proto

PARTITIONED = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


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
    if draft.controls[row]:
        controls = [draft.completion(src) for src in draft.controls[row]]
        name = draft.fresh(f"Func/{caller}/input_control_node")
        gate = (draft.add(name, "NoOp", (), controls, device=device, call=call),)

    def forward(kind: str, at: Endpoint, dtype: int, waits: tuple[int, ...], where: str) -> int:
        attrs = {**typed(dtype or draft.dtype(at)), **shaped([draft.shape(at)])}
        if many_devices:
            attrs = {**attrs, COLOCATION: beside(draft.names[at[0]])}
        name = draft.fresh(f"Func/{caller}/{kind}")
        return draft.add(name, "Identity", (at,), waits, attrs, device=where if many_devices else device, call=call)

    rows = [
        forward("input", at, dtype, gate, draft.devices[at[0]])
        for at, dtype in zip(inputs, body.argument_types, strict=True)
    ]
    rows = _copied(draft, row, body, rows, gate, call, many_devices)
    results = [
        (forward("output", draft.endpoint((rows[at], port)), dtype, (), ""), 0)
        for (at, port), dtype in zip(body.results, body.result_types, strict=True)
    ]
    effects = [rows[at] for at in body.side_effects] if many_devices else [at for at, _ in results]
    name = draft.fresh(f"Func/{caller}/output_control_node")
    done = draft.add(name, "NoOp", (), effects or gate, device=device, call=call)
    keep_fetchable(draft, row, results, (done,))
    draft.replace(row, results, done)


def _arguments(draft: Draft, row: int, body: Body) -> list[Endpoint]:
    inputs = [draft.endpoint(at) for at in draft.inputs[row]]
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
    so that nodes without inputs in the body of that call can.
    """
    graph, device, prefix = body.graph, draft.devices[row], draft.names[row] + "/"
    count = len(arguments)
    rows = arguments + [0] * (len(graph) - count)
    made = [at for at in graph.order.tolist() if at >= count]
    for at in made:
        wanted = _merged(graph.requested[at], device) if many_devices else device
        name = _unused(draft, prefix + graph.names[at])
        rows[at] = draft.add(name, graph.ops[at], (), (), graph.attrs[at], device=wanted, call=call)
    edges = zip(graph.edge_src.tolist(), graph.edge_dst.tolist(), graph.edge_tensor.tolist(), strict=True)
    ports = graph.tensor_port.tolist()
    for src, dst, tensor in edges:
        if tensor < 0:
            draft.controls[rows[dst]].append(rows[src])
        else:
            draft.inputs[rows[dst]].append((rows[src], ports[tensor]))
    for at in made:
        new = rows[at]
        if gate and not draft.controls[new] and (not draft.inputs[new] or _is_call(draft, new)):
            draft.controls[new] += gate
        _rename(draft, new, graph, rows, prefix)
    return rows


def _is_call(draft: Draft, row: int) -> bool:
    op = draft.ops[row]
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
