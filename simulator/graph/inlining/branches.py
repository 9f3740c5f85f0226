"""Lower If and Case to Switch and Merge: each branch becomes a call that gets its inputs from its side of the switches.

    pred ─ switch_pred ─┬─ pivot_t ··> then/_0 ─┬─ output (Merge) ──▶ readers
           input Switch ┼────────────▶          │
                        └─ pivot_f ··> else/_1 ─┘  branch_executed (Merge) ··> those that wait

The rules and names are those of `tensorflow/core/common_runtime/lower_if_op.cc` and `lower_case_op.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.graph.attributes import (
    COLOCATION,
    SCALAR,
    beside,
    declared_shapes,
    number,
    shaped,
    texts,
    typed,
)
from simulator.graph.dtypes import BOOL, INT32
from simulator.graph.editor import Editor
from simulator.graph.graph import Attrs
from simulator.graph.inlining.bodies import Endpoint
from simulator.graph.inlining.calls import keep_fetchable, part
from simulator.graph.messages import AttrValue, Proto
from simulator.graph.op_classes import IFS


@dataclass(frozen=True, slots=True)
class _Form:
    """How TensorFlow spells one of the two ops when it lowers it."""

    switch: str  # op
    selector: str  # name of the switch that chooses
    pivots: tuple[str, ...]  # names, by port of the switch
    branches: tuple[tuple[int, str, Proto], ...]  # port, name and function (an AttrValue), in TensorFlow's order
    merge: str  # name
    dtype: int  # of what is switched on
    outs: Attrs  # how many ports the switch has, where that is an attribute
    colocates: bool  # whether the nodes made inherit the op's colocation, and inputs' switches stand by their sources


def functions(attrs: Attrs, op: str) -> list[str]:
    """The names of an If's or Case's branch functions, then before else."""
    if op in IFS:
        return [attrs[key].func.name if key in attrs else "" for key in ("then_branch", "else_branch")]
    return [function.name for function in attrs["branches"].list.func] if "branches" in attrs else []


def lower(editor: Editor, row: int) -> Sequence[int]:
    """Replace the If or Case in that row; the rows of its branches' calls, which are still to be expanded."""
    attrs, device, name = editor.attrs[row], editor.devices[row], editor.names[row]
    form = _if(attrs) if editor.ops[row] in IFS else _case(attrs)
    own = {COLOCATION: attrs[COLOCATION]} if form.colocates and COLOCATION in attrs else {}
    selector, *inputs = editor.inputs_of(row)
    kind = typed(editor.dtype(selector) or form.dtype)
    call_names = [editor.numbered(f"{name}/{infix}") for _, infix, _ in form.branches]

    def make(infix: str, op: str, data: Sequence[Endpoint], waits: Sequence[int], given: Attrs) -> int:
        return editor.add(editor.numbered(f"{name}/{infix}"), op, data, waits, {**given, **own}, device=device)

    sides = shaped([SCALAR] * len(form.pivots))
    switch = make(form.selector, form.switch, (selector, selector), (), {**kind, **form.outs, **sides})
    scalar = {**kind, **shaped([SCALAR])}
    pivots = [make(infix, "Identity", ((switch, port),), (), scalar) for port, infix in enumerate(form.pivots)]
    switches = [_switched(editor, row, form, at, selector) for at in inputs]
    for src in editor.controls_of(row):
        editor.wait(src, switch)
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
    in_order = [(pivots[port], 0) for port, _, _ in form.branches]
    done = make("branch_executed", "Merge", in_order, calls, {**kind, **count, **shaped([SCALAR, SCALAR])})
    outputs = [(merge, 0) for merge in merges]
    keep_fetchable(editor, row, outputs, (done,))
    editor.hand_over(row, outputs, done)
    editor.remove(row)
    return calls


def _switched(editor: Editor, row: int, form: _Form, at: Endpoint, selector: Endpoint) -> int:
    """One input behind a switch; it goes where the input comes from, so that only the taken branch's copy moves."""
    source = editor.names[at[0]]
    tied = beside(source) if form.colocates else texts([source])  # without "loc:@", so that the placer passes it over
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
