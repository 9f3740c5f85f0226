"""Lower While to a frame: Enter, Merge, LoopCond, Switch, Exit and NextIteration per loop variable.

    input ─ enter ─ merge ─┬─ cond/_k ─ LoopCond
                      ▲    └─ switch ─┬─ exit ──▶ readers
                      │               └─ body/_k ─ next_iteration ─┐
                      └────────────────────────────────────────────┘

A resource is not a loop variable: a constant Enter hands it to condition and body, and readers behind the loop read
what went in. The rules and names are those of `tensorflow/core/common_runtime/lower_while_op.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.graph.attributes import NO_ATTRS, SCALAR, declared_shapes, number, shaped, typed
from simulator.graph.dtypes import RESOURCE
from simulator.graph.editor import Editor
from simulator.graph.graph import Attrs
from simulator.graph.inlining.bodies import Endpoint
from simulator.graph.inlining.calls import keep_fetchable, part
from simulator.graph.messages import AttrValue

PARALLEL_ITERATIONS = 10  # the op's default


def functions(attrs: Attrs) -> list[str]:
    """The names of a While's condition and body."""
    return [attrs[key].func.name if key in attrs else "" for key in ("cond", "body")]


def variables(editor: Editor, row: int) -> list[bool]:
    """Per input of a While whether it is a loop variable; a resource is not."""
    return [editor.dtype(at) != RESOURCE for at in editor.inputs_of(row)]


def lower(editor: Editor, row: int) -> Sequence[int]:
    """Replace the While in that row; the rows of its condition's and body's calls, which are still to be expanded.

    It must have a loop variable. (Longer than a page, because the order in which TensorFlow makes the nodes is the
    order of their numbers.)
    """
    name, device, attrs = editor.names[row], editor.devices[row], editor.attrs[row]
    inputs = editor.inputs_of(row)
    varies = variables(editor, row)
    kinds = [editor.dtype(at) for at in inputs]
    looping = [at for at, variable in enumerate(varies) if variable]
    shapes = declared_shapes(attrs, len(inputs))
    value = [{**typed(kind), **shaped([shape])} for kind, shape in zip(kinds, shapes, strict=True)]
    where = [editor.devices[src] for src, _ in inputs]
    call_names = [editor.numbered(f"{name}/{infix}") for infix in ("cond", "body")]

    def make(
        infix: str, op: str, data: Sequence[Endpoint], given: Attrs, on: str = device, waits: Sequence[int] = ()
    ) -> int:
        return editor.add(editor.numbered(f"{name}/{infix}"), op, data, waits, given, device=on)

    enters = [
        make("enter", "Enter", (at,), _enter(editor, row, at, variable), on)
        for at, variable, on in zip(inputs, varies, where, strict=True)
    ]
    if controls := editor.controls_of(row):
        gate = make("LoopControlInputs", "NoOp", (), NO_ATTRS, waits=controls)
        for enter in enters:
            editor.wait(gate, enter)
    merges, switches, exits = dict[int, int](), dict[int, int](), dict[int, int]()
    for at in looping:
        merged = {**typed(kinds[at]), "N": number(2), **shaped([shapes[at], SCALAR])}
        merges[at] = make("merge", "Merge", ((enters[at], 0),) * 2, merged, where[at])
    first = looping[0]
    handed = [(merges.get(at, enter), 0) for at, enter in enumerate(enters)]
    cond = part(editor, row, call_names[0], attrs["cond"], handed, merges[first])
    decide = make("LoopCond", "LoopCond", ((cond, 0),), shaped([SCALAR]))
    for at in looping:
        sides = {**typed(kinds[at]), **shaped([shapes[at]] * 2)}
        infix = f"{editor.names[inputs[at][0]]}_switch"
        switches[at] = make(infix, "Switch", ((merges[at], 0), (decide, 0)), sides, where[at])
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
        editor.lead(merges[at], 1, source)
    editor.hand_over(row, outputs, done)
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
