"""Rewrites that TensorFlow makes before placement besides functions: AccumulateNV2, ParallelConcat and lone calls.

The rules and names are those of `accumulate_n_optimizer.cc`, `parallel_concat_optimizer.cc` and
`placer_inspection_required_ops_utils.cc` (`tensorflow/core/common_runtime`).
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.graph import ops
from simulator.graph.attributes import number, shaped, text_value, type_value, typed
from simulator.graph.dtypes import INT32, RESOURCE
from simulator.graph.editor import CONTROL, Editor, Output
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining.calls import target
from simulator.graph.messages import AttrValue, Proto, TensorProto
from simulator.graph.op_classes import ENTERS, EXITS, PARTITIONED
from simulator.graph.tensors import SHAPES

ACCUMULATE, PARALLEL = "AccumulateNV2", "ParallelConcat"
_VALUES = {  # DataType -> the field of a TensorProto that holds its values, and how many there are per element
    1: ("float_val", 1),
    2: ("double_val", 1),
    8: ("scomplex_val", 2),
    9: ("int64_val", 1),
    14: ("half_val", 1),
    18: ("dcomplex_val", 2),
    19: ("half_val", 1),
    22: ("uint32_val", 1),
    23: ("uint64_val", 1),
}
_EMPTY = AttrValue(shape={"dim": [{"size": 0}]})


def accumulate(editor: Editor, graph: Graph) -> None:
    """Replace every AccumulateNV2 of the graph by a temporary variable that its inputs are added to.

    Within a loop whose iterations may overlap it becomes an AddN.
    """
    rows = [row for row in graph.order.tolist() if graph.ops[row] == ACCUMULATE]
    looping = _overlapping(graph) if rows else set()
    for row in rows:
        if row in looping:
            _into_add(editor, row)
        else:
            _into_variable(editor, row)


def _overlapping(graph: Graph) -> set[int]:
    """The nodes inside loops that run more than one iteration at a time."""
    enter_of: dict[int, list[int]] = {}  # the Enters around a node, outermost first
    for row in graph.order.tolist():
        around: list[int] = []
        for edge in range(graph.in_ptr[row], graph.in_ptr[row + 1]):
            source = int(graph.edge_src[edge])
            if not graph.edge_back[edge]:
                seen = enter_of[source][:-1] if graph.ops[source] in EXITS else enter_of[source]
                around = max(around, seen, key=len)
        enter_of[row] = [*around, row] if graph.ops[row] in ENTERS else around
    return {row for row, around in enter_of.items() if around and _parallel(graph.attrs[around[-1]]) != 1}


def _parallel(attrs: Attrs) -> int:
    return int(attrs["parallel_iterations"].i) if "parallel_iterations" in attrs else 10


def _into_add(editor: Editor, row: int) -> None:
    attrs = {key: editor.attrs[row][key] for key in ("N", "T", SHAPES) if key in editor.attrs[row]}
    inputs, controls = editor.inputs_of(row), editor.controls_of(row)
    made = editor.add(editor.names[row], "AddN", inputs, controls, attrs, device=editor.devices[row])
    editor.redirect_readers(row, [made], made)
    editor.remove(row)


def _into_variable(editor: Editor, row: int) -> None:
    name, device, inputs = editor.names[row], editor.devices[row], editor.inputs_of(row)
    dtype = int(editor.attrs[row]["T"].type) if "T" in editor.attrs[row] else editor.dtype(inputs[0])
    kind, shape = typed(dtype), shaped([editor.shape((row, 0))])
    variable = {"dtype": type_value(dtype), "var_name": text_value(f"{name}/Internal/Accumulator")}
    beside = _plain_class(editor.attrs[row])

    def make(op: str, data: Sequence[Output], attrs: Attrs) -> int:
        return editor.add(editor.numbered(f"{name}/Internal"), op, data, (), {**attrs, **beside}, device=device)

    created = make("TemporaryVariable", (), {**variable, "shape": _EMPTY})
    of_first = make("Shape", inputs[:1], {**kind, "out_type": type_value(INT32)})
    zero = make("Const", (), {"dtype": type_value(dtype), "value": AttrValue(tensor=_zero(dtype))})
    filled = make("Fill", (of_first, zero), {**kind, "index_type": type_value(INT32), **shape})
    unchecked, locked = {"validate_shape": AttrValue(b=False)}, {"use_locking": AttrValue(b=True)}
    assigned = make("Assign", (created, filled), {**kind, **unchecked, **locked, **shape})
    added = [make("AssignAdd", (assigned, at), {**kind, **locked, **shape}) for at in inputs]
    freed = {**kind, "var_name": variable["var_name"], **shape, **beside}
    done = editor.add(name, "DestroyTemporaryVariable", (assigned,), (), freed, device=device)
    for src in editor.controls_of(row):
        editor.add_control_edge(src, assigned)
    for one in added:
        editor.add_control_edge(one, done)
    editor.redirect_readers(row, [done], done)
    editor.remove(row)


def _plain_class(attrs: Attrs) -> Attrs:
    """A `_class` that is a string and no list: the pieces inherit it, though the placer does not heed it."""
    value = attrs.get("_class")
    return {"_class": value} if value is not None and value.s else {}


def _zero(dtype: int) -> Proto:
    """A scalar of that type as TensorFlow writes it; a complex one has two parts."""
    field, count = _VALUES.get(dtype, ("int_val", 1))
    return TensorProto(dtype=dtype, tensor_shape={}, **{field: [0] * count})


def concatenate(editor: Editor, graph: Graph) -> None:
    """Replace every ParallelConcat by an empty tensor that its inputs are written into, each when it comes."""
    for row in _in_order(editor, graph):
        if editor.ops[row] != PARALLEL or row in editor.removed:
            continue
        name, device, attrs = editor.names[row], editor.devices[row], editor.attrs[row]
        dtype, shape = attrs.get("T", AttrValue()), shaped([editor.shape((row, 0))])
        kind = {"T": dtype, **shape}
        made = {"shape": attrs.get("shape", AttrValue()), "dtype": dtype, **shape}
        start = editor.add(editor.numbered(f"{name}/Internal"), "_ParallelConcatStart", (), (), made, device=device)
        updates: list[int] = []
        for edge in list(editor.ins[row]):
            src, port, _, slot = editor.edges[edge]
            if slot == CONTROL:
                editor.add_control_edge(src, start)
                continue
            update, given = editor.numbered(f"{name}/Internal"), {**kind, "loc": number(len(updates))}
            inputs = (start, (src, port))
            updates.append(editor.add(update, "_ParallelConcatUpdate", inputs, (), given, device=device))
        done = editor.add(name, "Identity", (start,), updates, kind, device=device)
        editor.redirect_readers(row, [done], done)
        editor.remove(row)


def _in_order(editor: Editor, graph: Graph) -> Sequence[int]:
    """The rows in TensorFlow's order: those of the graph, then those that were added."""
    return [*graph.order.tolist(), *range(len(graph), len(editor.names))]


def isolate(editor: Editor, graph: Graph) -> None:
    """Put an Identity around every input and output of a call that hands back a resource.

    The placer looks into the bodies of such calls, and the Identities may stand elsewhere than the call.
    """
    for row in _in_order(editor, graph):
        if row not in editor.removed and editor.ops[row] in PARTITIONED and _hands_back_resource(editor, row):
            _isolate(editor, row, {name for at, name in enumerate(editor.names) if at not in editor.removed})


def _hands_back_resource(editor: Editor, row: int) -> bool:
    found = target(editor, row)
    return found is not None and RESOURCE in (ops.outputs(found[0], found[1], editor.given.library) or ())


def _isolate(editor: Editor, row: int, names: set[str]) -> None:
    own = editor.names[row]

    def forward(at: tuple[int, int], name: str) -> int:
        attrs = {**typed(editor.dtype(at)), **shaped([editor.shape(at)])}
        return editor.add(_unlike(name, names), "Identity", (at,), (), attrs)

    for slot, at in enumerate(editor.inputs_of(row)):
        editor.redirect_input(row, slot, forward(at, f"{editor.names[at[0]]}_{own}"))
    used = set()
    for edge in sorted(editor.outs[row]):
        _, port, dst, slot = editor.edges[edge]
        if slot != CONTROL:
            used.add(port)
            editor.redirect_input(dst, slot, forward((row, port), f"{own}_{editor.names[dst]}"))
    for port in range(len(ops.outputs(editor.ops[row], editor.attrs[row], editor.given.library) or ())):
        if port not in used:
            forward((row, port), own)


def _unlike(name: str, names: set[str]) -> str:
    """The name, or the first of name_0, name_1, ... that is not among the names; it joins them."""
    chosen, suffix = name, 0
    while chosen in names:
        chosen, suffix = f"{name}_{suffix}", suffix + 1
    names.add(chosen)
    return chosen
