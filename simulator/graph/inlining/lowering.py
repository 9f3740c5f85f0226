"""Ops that TensorFlow replaces before placement: If and Case by Switch and Merge, While by a frame, and three others.

    pred ─ switch_pred ─┬─ pivot_t ··> then/_0 ─┬─ output (Merge) ──▶ readers
           input Switch ┼────────────▶          │
                        └─ pivot_f ··> else/_1 ─┘  branch_executed (Merge) ··> those that wait

Each branch becomes a call that gets its inputs from its side of the Switches.

    input ─ enter ─ merge ─┬─ cond/_k ─ LoopCond
                      ▲    └─ switch ─┬─ exit ──▶ readers
                      │               └─ body/_k ─ next_iteration ─┐
                      └────────────────────────────────────────────┘

Each variable of a loop has an Enter, a Merge, a Switch, an Exit and a NextIteration. A resource is no variable: a
constant Enter hands it to condition and body, and readers behind the loop read what went in.

The others are AccumulateNV2, ParallelConcat, and calls that hand back resources. The rules and names are those of
`lower_if_op.cc`, `lower_case_op.cc`, `lower_while_op.cc`, `accumulate_n_optimizer.cc`, `parallel_concat_optimizer.cc`
and `placer_inspection_required_ops_utils.cc` (`tensorflow/core/common_runtime`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.graph import ops
from simulator.graph.attributes import (
    COLOCATION,
    NO_ATTRS,
    SCALAR,
    colocation,
    declared_shapes,
    number,
    shaped,
    text_value,
    texts,
    type_value,
    typed,
)
from simulator.graph.dtypes import BOOL, INT32, RESOURCE, number_of
from simulator.graph.editor import CONTROL, Editor, Endpoint, Output
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining.calls import keep_fetchable, part, target
from simulator.graph.messages import AttrValue, Proto, TensorProto
from simulator.graph.op_classes import ENTERS, EXITS, IFS, PARTITIONED
from simulator.graph.tensors import SHAPES

PARALLEL_ITERATIONS = 10  # the op's default


@dataclass(frozen=True, slots=True)
class _Form:
    """The names and ops by which TensorFlow lowers an If or a Case."""

    switch: str  # op
    selector: str  # name of the switch that chooses
    pivots: tuple[str, ...]  # names, by port of the switch
    branches: tuple[tuple[int, str, Proto], ...]  # port, name and function (an AttrValue), in TensorFlow's order
    merge: str  # name
    dtype: int  # of what is switched on
    outs: Attrs  # how many ports the switch has, where that is an attribute
    colocates: bool  # whether the nodes made inherit the op's colocation, and inputs' switches stand by their sources


def branches_of(attrs: Attrs, op: str) -> list[str]:
    """The names of an If's or Case's branch functions, then before else."""
    if op in IFS:
        return [attrs[key].func.name if key in attrs else "" for key in ("then_branch", "else_branch")]
    return [function.name for function in attrs["branches"].list.func] if "branches" in attrs else []


def lower_branches(editor: Editor, row: int) -> Sequence[int]:
    """Replace the If or Case in that row; the rows of its branches' calls, which are still to be expanded."""
    attrs, device, name = editor.attrs[row], editor.devices[row], editor.names[row]
    form = _if(attrs) if editor.ops[row] in IFS else _case(attrs)
    own = {COLOCATION: attrs[COLOCATION]} if form.colocates and COLOCATION in attrs else {}
    selector, *inputs = editor.inputs_of(row)
    kind = typed(editor.dtype(selector) or form.dtype)
    call_names = [editor.numbered(f"{name}/{infix}") for _, infix, _ in form.branches]

    def make(infix: str, op: str, data: Sequence[Output], waits: Sequence[int], given: Attrs) -> int:
        return editor.add(editor.numbered(f"{name}/{infix}"), op, data, waits, {**given, **own}, device=device)

    sides = shaped([SCALAR] * len(form.pivots))
    switch = make(form.selector, form.switch, (selector, selector), (), {**kind, **form.outs, **sides})
    scalar = {**kind, **shaped([SCALAR])}
    pivots = [make(infix, "Identity", ((switch, port),), (), scalar) for port, infix in enumerate(form.pivots)]
    switches = [_switched(editor, row, form, at, selector) for at in inputs]
    for src in editor.controls_of(row):
        editor.add_control_edge(src, switch)
    calls = [
        part(editor, row, call_name, function, [(at, port) for at in switches], pivots[port])
        for call_name, (port, _, function) in zip(call_names, form.branches, strict=True)
    ]
    count = {"N": number(len(calls))}
    kinds = list(attrs["Tout"].list.type) if "Tout" in attrs else []
    merges = [
        make(
            form.merge,
            "Merge",
            [(branch, port) for branch in calls],
            (),
            {**typed(dtype), **count, **shaped([shape, SCALAR])},
        )
        for port, (dtype, shape) in enumerate(zip(kinds, declared_shapes(attrs, len(kinds)), strict=True))
    ]
    in_order = [pivots[port] for port, _, _ in form.branches]
    done = make("branch_executed", "Merge", in_order, calls, {**kind, **count, **shaped([SCALAR, SCALAR])})
    outputs = [(merge, 0) for merge in merges]
    keep_fetchable(editor, row, outputs, (done,))
    editor.redirect_readers(row, outputs, done)
    editor.remove(row)
    return calls


def _switched(editor: Editor, row: int, form: _Form, at: Endpoint, selector: Endpoint) -> int:
    """Add the Switch of an input, beside the input's source, so that only the taken branch's copy moves."""
    source = editor.names[at[0]]
    # without "loc:@", so that the placer passes it over
    tied = colocation([source]) if form.colocates else texts([source])
    shapes = shaped([editor.shape(at)] * len(form.pivots))
    attrs = {**typed(editor.dtype(at)), **form.outs, **shapes, COLOCATION: tied}
    name = editor.numbered(f"{editor.names[row]}/{source}")
    return editor.add(name, form.switch, (at, selector), (), attrs, device=editor.devices[at[0]])


def _if(attrs: Attrs) -> _Form:
    branches = ((1, "then", attrs["then_branch"]), (0, "else", attrs["else_branch"]))
    return _Form("Switch", "switch_pred", ("pivot_f", "pivot_t"), branches, "output", BOOL, {}, True)


def _case(attrs: Attrs) -> _Form:
    given = attrs["branches"].list.func
    branches = tuple((port, f"branch{port}", AttrValue(func=function)) for port, function in enumerate(given))
    pivots = tuple(f"pivot_{port}" for port in range(len(given)))
    outs = {"num_outs": number(len(given))}
    return _Form("_SwitchN", "branch_index", pivots, branches, "merge", INT32, outs, False)


def parts_of(attrs: Attrs) -> list[str]:
    """The names of a While's condition and body."""
    return [attrs[key].func.name if key in attrs else "" for key in ("cond", "body")]


def variables_of(editor: Editor, row: int) -> list[bool]:
    """Per input of a While whether it is a loop variable; a resource is not."""
    return [editor.dtype(at) != RESOURCE for at in editor.inputs_of(row)]


def lower_loop(editor: Editor, row: int) -> Sequence[int]:
    """Replace the While in that row; the rows of its condition's and body's calls, which are still to be expanded.

    It must have a loop variable. The steps are those of TensorFlow, in its order, for they number the nodes.
    """
    name, device, attrs = editor.names[row], editor.devices[row], editor.attrs[row]
    inputs = editor.inputs_of(row)
    varies = variables_of(editor, row)
    kinds = [editor.dtype(at) for at in inputs]
    looping = [at for at, variable in enumerate(varies) if variable]
    shapes = declared_shapes(attrs, len(inputs))
    value = [{**typed(kind), **shaped([shape])} for kind, shape in zip(kinds, shapes, strict=True)]
    where = [editor.devices[src] for src, _ in inputs]
    call_names = [editor.numbered(f"{name}/{infix}") for infix in ("cond", "body")]

    def make(
        infix: str, op: str, data: Sequence[Output], given: Attrs, on: str = device, waits: Sequence[int] = ()
    ) -> int:
        return editor.add(editor.numbered(f"{name}/{infix}"), op, data, waits, given, device=on)

    enters = [
        make("enter", "Enter", (at,), _enter(editor, row, at, variable), on)
        for at, variable, on in zip(inputs, varies, where, strict=True)
    ]
    if controls := editor.controls_of(row):
        gate = make("LoopControlInputs", "NoOp", (), NO_ATTRS, waits=controls)
        for enter in enters:
            editor.add_control_edge(gate, enter)
    merges, switches, exits = dict[int, int](), dict[int, int](), dict[int, int]()
    for at in looping:
        merged = {**typed(kinds[at]), "N": number(2), **shaped([shapes[at], SCALAR])}
        merges[at] = make("merge", "Merge", (enters[at],) * 2, merged, where[at])
    first = looping[0]
    handed = [(merges.get(at, enter), 0) for at, enter in enumerate(enters)]
    cond = part(editor, row, call_names[0], attrs["cond"], handed, merges[first])
    decide = make("LoopCond", "LoopCond", (cond,), shaped([SCALAR]))
    for at in looping:
        sides = {**typed(kinds[at]), **shaped([shapes[at]] * 2)}
        infix = f"{editor.names[inputs[at][0]]}_switch"
        switches[at] = make(infix, "Switch", (merges[at], decide), sides, where[at])
    handed = [(switches[at], 1) if at in switches else (enter, 0) for at, enter in enumerate(enters)]
    pivot = make("loop_body_control", "Identity", ((switches[first], 1),), value[first])
    body = part(editor, row, call_names[1], attrs["body"], handed, pivot)
    for at in looping:
        exits[at] = make("exit", "Exit", ((switches[at], 0),), value[at], where[at])
    done = make("LoopExecuted", "NoOp", (), NO_ATTRS, waits=list(exits.values()))
    outputs = [(exits[at], 0) if at in exits else source for at, source in enumerate(inputs)]
    keep_fetchable(editor, row, outputs, ())
    following = [
        make("next_iteration", "NextIteration", ((body, at),), value[at], where[at], (body,)) for at in looping
    ]
    for at, source in zip(looping, following, strict=True):
        editor.redirect_input(merges[at], 1, source)
    editor.redirect_readers(row, outputs, done)
    editor.remove(row)
    return cond, body


def _enter(editor: Editor, row: int, at: Endpoint, variable: bool) -> Attrs:
    return {
        **typed(editor.dtype(at)),
        **shaped([editor.shape(at)]),
        "frame_name": AttrValue(s=editor.names[row].encode()),
        "is_constant": AttrValue(b=not variable),
        "parallel_iterations": editor.attrs[row].get("parallel_iterations") or number(PARALLEL_ITERATIONS),
    }


# --- sums, concatenations and calls -----------------------------------------------------------------------------------


ACCUMULATE, PARALLEL = "AccumulateNV2", "ParallelConcat"
_VALUES = {  # DataType -> the field of a TensorProto that holds its values, and how many there are per element
    number_of(name): (field, count)
    for name, field, count in (
        ("FLOAT", "float_val", 1),
        ("DOUBLE", "double_val", 1),
        ("COMPLEX64", "scomplex_val", 2),
        ("INT64", "int64_val", 1),
        ("BFLOAT16", "half_val", 1),
        ("COMPLEX128", "dcomplex_val", 2),
        ("HALF", "half_val", 1),
        ("UINT32", "uint32_val", 1),
        ("UINT64", "uint64_val", 1),
    )
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
        for edge in graph.in_edges(row):
            source = int(graph.edge_src[edge])
            if not graph.edge_back[edge]:
                seen = enter_of[source][:-1] if graph.ops[source] in EXITS else enter_of[source]
                around = max(around, seen, key=len)
        enter_of[row] = [*around, row] if graph.ops[row] in ENTERS else around
    return {row for row, around in enter_of.items() if around and _parallel(graph.attrs[around[-1]]) != 1}


def _parallel(attrs: Attrs) -> int:
    return int(attrs["parallel_iterations"].i) if "parallel_iterations" in attrs else PARALLEL_ITERATIONS


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
