"""Trips and ways as an observed step had them, by the runs of its Enters, LoopConds and Switches.

A node that replication copied did what its original did: each copy works on as many examples.

                    iterations
    loop entered E times, LoopCond ran C times      C / E - 1 trips in the mean, spread evenly; E is the fewest runs of
                                                    the Enters that its first test reads
    Switch sent its value n0 times to output 0,
    n1 times to output 1                            true in n1 of n0 + n1 iterations, spread evenly
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from simulator.columns import Flags, Ints, ints
from simulator.execution.loops.frames import Flow
from simulator.graph.op_classes import NEXT_ITERATIONS
from simulator.observed.observed_step import ObservedNode, ObservedStep

if TYPE_CHECKING:
    from simulator.execution.options import Choice


@dataclass(frozen=True, slots=True)
class SeenTrips:
    """How often a loop was entered, and how often its body ran in all."""

    entered: int
    ran: int

    @property
    def mean(self) -> int:
        """The trips of an entry in the mean, rounded up from a half."""
        return (2 * self.ran + self.entered) // (2 * self.entered)

    def fits(self, count: int, each: Ints | None) -> bool:
        """Tell whether the body runs as often with `count` trips per entry, or with these of each entry."""
        return self.ran == (self.entered * count if each is None else int(each.sum()))


def observed_trips(flow: Flow, observed: ObservedStep | None) -> dict[int, SeenTrips]:
    """The trips of each frame whose loop the observed step entered."""
    if observed is None:
        return {}
    found = dict[int, SeenTrips]()
    for op, kind in enumerate(flow.ops.kind):
        test = _seen(flow, observed, op) if kind == "LoopCond" and flow.frame[op] else None
        if test is None:
            continue
        entered = min((one.runs for enter in _tested(flow, op) if (one := _seen(flow, observed, enter))), default=0)
        ran = max(0, test.runs - entered)
        if entered and (flow.frame[op] not in found or ran > found[flow.frame[op]].ran):
            found[flow.frame[op]] = SeenTrips(entered, ran)
    return found


def _tested(flow: Flow, condition: int) -> list[int]:
    """The Enters on which the first test of a loop's condition hangs.

    Others may run more often than the loop is entered. Where a branch passes the loop by, the stacks of its gradient
    come to it, and so do sums that begin at 0.
    """
    frame, pending, met = flow.frame[condition], [condition], {condition}
    while pending:
        for edge in flow.inputs[pending.pop()]:
            op = flow.source[edge]
            if op not in met and flow.ops.kind[op] not in NEXT_ITERATIONS:
                met.add(op)
                if flow.child.get(op) != frame:
                    pending.append(op)
    return sorted(op for op in met if flow.child.get(op) == frame)


def observed_way(
    flow: Flow, observed: ObservedStep | None, switches: Iterable[tuple[int, bool]], *, case: bool
) -> Choice | Fraction | None:
    """The way of a predicate, by that of its Switches which ran most often; None: it was not observed.

    `switches` are (op, whether it reads the opposite). Ties: the first. Of a Case the branch that ran most often;
    else a truth, or the share of runs in which it held.
    """
    if observed is None:
        return None
    best: Choice | Fraction | None = None
    most = 0
    for op, negated in switches:
        node = _seen(flow, observed, op)
        sides = {port: node.alive(port) for port in sorted(node.outputs)} if node is not None else {}
        if sum(sides.values()) <= most:
            continue
        most = sum(sides.values())
        best = _way(sides, negated=negated, case=case)
    return best


def spread(share: Fraction, body: Flags) -> Ints:
    """[iterations] truths in that share of the times that a loop's body runs, as evenly as may be.

    Of the first k bodies, in order, it holds in the whole part of k times the share.
    """
    return ints(np.where(body, dealt(share.numerator, share.denominator, np.cumsum(body)), 0))


def dealt(whole: int, among: int, number: Ints) -> Ints:
    """The part of each, numbered from 1, if so many get the whole as evenly as may be."""
    return ints(number * whole // among - (number - 1) * whole // among)


def _way(sides: dict[int, int], *, negated: bool, case: bool) -> Choice | Fraction:
    if case:
        return max(sides, key=lambda port: (sides[port], -port))
    held = sides.get(0 if negated else 1, 0)
    total = sum(sides.values())
    return held == total if held in (0, total) else Fraction(held, total)


def _seen(flow: Flow, observed: ObservedStep, op: int) -> ObservedNode | None:
    """The record of an op of the flow, or of its original."""
    name = flow.ops.names[op]
    node = observed.nodes.get(flow.graph.copies.get(name, name))
    return node if node is not None and node.op == flow.ops.kind[op] else None
