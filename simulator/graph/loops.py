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
from typing import Any

from simulator.graph.bodies import Endpoint
from simulator.graph.calls import keep_fetchable
from simulator.graph.draft import Draft, number, typed, types
from simulator.graph.dtypes import RESOURCE
from simulator.graph.graph import Attrs
from simulator.graph.messages import AttrValue

WHILES = frozenset({"While", "StatelessWhile"})
PARALLEL_ITERATIONS = 10  # the op's default
_BOOL = 10


def functions(attrs: Attrs) -> list[str]:
    """The names of a While's condition and body."""
    return [attrs[key].func.name for key in ("cond", "body") if key in attrs]


def variables(draft: Draft, row: int) -> list[bool]:
    """Per input of a While whether it is a loop variable; a resource is not."""
    return [draft.dtype(draft.endpoint(at)) != RESOURCE for at in draft.inputs[row]]


def lower(draft: Draft, row: int) -> Sequence[int]:
    """Replace the While in that row; the rows of its condition's and body's calls, which are still to be expanded.

    It must have a loop variable.
    """
    name, device, call, attrs = draft.names[row], draft.devices[row], draft.call[row], draft.attrs[row]
    inputs = [draft.endpoint(at) for at in draft.inputs[row]]
    varies = variables(draft, row)
    kinds = [draft.dtype(at) for at in inputs]
    looping = [at for at, variable in enumerate(varies) if variable]
    call_names = [draft.fresh(f"{name}/{infix}") for infix in ("cond", "body")]

    def make(
        infix: str, op: str, data: Sequence[Endpoint], waits: Sequence[int], given: Attrs, where: str = device
    ) -> int:
        return draft.add(draft.fresh(f"{name}/{infix}"), op, data, waits, given, device=where, call=call)

    enters = [
        make("enter", "Enter", (at,), (), _enter(name, attrs, kind, variable), draft.devices[at[0]])
        for at, kind, variable in zip(inputs, kinds, varies, strict=True)
    ]
    if draft.controls[row]:
        waits = [draft.completion(src) for src in draft.controls[row]]
        gate = make("LoopControlInputs", "NoOp", (), waits, {})
        for enter in enters:
            draft.controls[enter].append(gate)
    where = [draft.devices[enter] for enter in enters]
    merges = {
        at: make("merge", "Merge", ((enters[at], 0),), (), {**typed(kinds[at]), "N": number(2)}, where[at])
        for at in looping
    }
    first = looping[0]
    handed = [(merges.get(at, enter), 0) for at, enter in enumerate(enters)]
    cond = _call(draft, row, call_names[0], handed, merges[first], attrs["cond"], [_BOOL], kinds)
    decide = make("LoopCond", "LoopCond", ((cond, 0),), (), {})
    switches = {
        at: make(
            f"{draft.names[inputs[at][0]]}_switch",
            "Switch",
            ((merges[at], 0), (decide, 0)),
            (),
            typed(kinds[at]),
            where[at],
        )
        for at in looping
    }
    handed = [(switches[at], 1) if at in switches else (enter, 0) for at, enter in enumerate(enters)]
    pivot = make("loop_body_control", "Identity", ((switches[first], 1),), (), typed(kinds[first]))
    body = _call(draft, row, call_names[1], handed, pivot, attrs["body"], kinds, kinds)
    exits = {at: make("exit", "Exit", ((switches[at], 0),), (), typed(kinds[at]), where[at]) for at in looping}
    done = make("LoopExecuted", "NoOp", (), list(exits.values()), {})
    outputs = [(exits[at], 0) if at in exits else source for at, source in enumerate(inputs)]
    keep_fetchable(draft, row, outputs, ())
    for at in looping:
        following = make("next_iteration", "NextIteration", ((body, at),), (body,), typed(kinds[at]), where[at])
        draft.inputs[merges[at]].append((following, 0))
    draft.replace(row, outputs, done)
    return cond, body


def _enter(frame: str, attrs: Attrs, kind: int, variable: bool) -> Attrs:
    return {
        **typed(kind),
        "frame_name": AttrValue(s=frame.encode()),
        "is_constant": AttrValue(b=not variable),
        "parallel_iterations": attrs.get("parallel_iterations") or number(PARALLEL_ITERATIONS),
    }


def _call(
    draft: Draft,
    row: int,
    name: str,
    inputs: Sequence[Endpoint],
    pivot: int,
    function: Any,
    result_types: Sequence[int],
    argument_types: Sequence[int],
) -> int:
    attrs = {"f": function, "Tin": types(argument_types), "Tout": types(result_types)}
    return draft.add(name, "PartitionedCall", inputs, (pivot,), attrs, device=draft.devices[row], call=draft.call[row])
