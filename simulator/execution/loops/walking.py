"""A loop walked through iteration by iteration, on the values that the graph determines.

A loop may end by more than a counter, such as a `break` that a branch decides. Then nothing but its own course shows
how often it runs. The walk computes what its condition hangs on: loop variables, branches and small values, as an
executor would, and nothing else. It knows of each op whether it is dead, and of its outputs their elements or nothing.
It gives up where the condition is unknown, and where the walk would take too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from simulator.execution.loops.frames import Flow, Output
from simulator.execution.loops.origins import PASSED_ON, loop_variable
from simulator.graph.dtypes import BOOL, INT32, INT64
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES
from simulator.shapes.dims import SYMBOLS, Value

_WHOLE = frozenset((INT32, INT64, BOOL))
_MAX_OPS = 2000  # of a loop, on which its condition hangs
_MAX_VISITS = 20_000  # of ops in all iterations together: a fifth of a second

Numbers: TypeAlias = "dict[Output, list[int]]"  # whole numbers per iteration, that of the last condition included
Computed = Callable[[int, int, "Sequence[Value | None]"], "Value | None"]  # op, port, its inputs -> its elements


class _Seen(NamedTuple):
    """The knowledge of an output in one iteration."""

    live: bool | None  # None: unknown
    value: Value | None = None


_DEAD, _UNKNOWN = _Seen(False), _Seen(None)


class LoopRun(NamedTuple):
    """How often the body of a loop runs, and the whole numbers that it met."""

    trips: int
    numbers: Numbers  # 0 where the op is dead


def walk(
    flow: Flow,
    frame: int,
    condition: Output,
    entering: Callable[[int], Value | None],
    computed: Computed,
    share: int = 1,
) -> LoopRun | None:
    """Walk through a loop; None where the graph does not determine its condition.

    `entering` gives the elements that an Enter brings, `computed` those of any op of known inputs. The same loop is
    asked about again for every scenario, so the flow keeps what was found for what enters. So many walks `share` the
    visits that one may take.
    """
    ops = _behind(flow, frame, [condition[0], *_counters(flow, frame)]) or _behind(flow, frame, [condition[0]])
    if ops is None:
        return None
    enters = {op: entering(op) for op in ops if flow.ops.kind[op] in ENTERS}
    key = frame, condition, tuple(enters.values()), share
    if key not in flow.walks:
        flow.walks[key] = _walked(flow, frame, condition, ops, enters, computed, _MAX_VISITS // share)
    found: LoopRun | None = flow.walks[key]
    return found


def _walked(
    flow: Flow,
    frame: int,
    condition: Output,
    ops: Sequence[int],
    enters: Mapping[int, Value | None],
    computed: Computed,
    visits: int,
) -> LoopRun | None:
    variables = {op: pair for op in ops if flow.ops.kind[op] in MERGES and (pair := loop_variable(flow, op))}
    entered = {op: _Seen(True, value) for op, value in enters.items()}
    state = {merge: entered[first[0]] for merge, (first, _) in variables.items()}
    history: dict[Output, list[_Seen]] = {}
    for iteration in range(visits // len(ops)):
        seen = _Iteration(flow, frame, state | entered, computed)
        for op in ops:
            seen.visit(op)
        for at, one in seen.found.items():
            history.setdefault(at, []).append(one)
        decided = seen.of(condition)
        if decided.value is None or decided.value[0] <= SYMBOLS:
            return None
        if not decided.value[0]:
            return LoopRun(iteration, dict(_numbers(history, iteration + 1)))
        before, state = state, {merge: seen.of(back) for merge, (_, back) in variables.items()}
        if state == before:  # it never ends
            return None
    return None


def _counters(flow: Flow, frame: int) -> list[int]:
    """The loop variables that are whole numbers or truths: what comes after the loop may hang on them."""
    graph, merges = flow.graph, [op for op, kind in enumerate(flow.ops.kind) if kind in MERGES]
    first, types = graph.tensor_ptr, graph.tensor_dtype
    return [op for op in merges if flow.frame[op] == frame and int(types[first[flow.ops.node[op]]]) in _WHOLE]


def _behind(flow: Flow, frame: int, roots: Sequence[int]) -> list[int] | None:
    """The ops of a loop on which these hang, each after its inputs, with Enters into it; None: they are too many."""
    found, left = set(roots), list(roots)
    while left:
        op = left.pop()
        for edge in () if flow.ops.kind[op] in ENTERS else flow.inputs[op]:
            source = flow.source[edge]
            if source not in found and (flow.frame[source] == frame or flow.child.get(source) == frame):
                found.add(source)
                left.append(source)
        if len(found) > _MAX_OPS:
            return None
    return [op for op in flow.order if op in found]


def _numbers(history: dict[Output, list[_Seen]], iterations: int) -> Iterator[tuple[Output, list[int]]]:
    """The outputs that are single whole numbers, or dead, in all iterations."""
    for at, seen in history.items():
        made = [_number(one) for one in seen]
        whole = [one for one in made if one is not None]
        if len(whole) == iterations:
            yield at, whole


def _number(one: _Seen) -> int | None:
    if one.live is False:
        return 0
    if one.value is None or len(one.value) != 1 or one.value[0] <= SYMBOLS or not float(one.value[0]).is_integer():
        return None
    return int(one.value[0])


class _Iteration:
    """One iteration of a loop."""

    def __init__(self, flow: Flow, frame: int, given: dict[int, _Seen], computed: Computed) -> None:
        self.flow, self.frame, self.given, self.computed = flow, frame, given, computed
        self.found: dict[Output, _Seen] = {}

    def of(self, at: Output) -> _Seen:
        """Look up an output; nothing is known of one that an inner loop gives."""
        return self.found.get(at, _UNKNOWN)

    def visit(self, op: int) -> None:
        """Find out what is known of the outputs of an op, after those of its inputs."""
        flow, kind = self.flow, self.flow.ops.kind[op]
        if op in self.given:
            self.found[op, 0] = self.given[op]
        elif kind in MERGES:
            self.found[op, 0] = _merged([self.of(at) for at in flow.values(op)])
        elif kind in SWITCHES:
            data, by = (self.of(at) for at in list(flow.values(op))[:2])
            for port in self._read(op):
                self.found[op, port] = self._switched(op, port, data, by)
        elif kind not in EXITS:
            live = self._live(op)
            values = [self.of(at).value for at in flow.values(op)]
            for port in self._read(op):
                passes = kind in PASSED_ON or kind in NEXT_ITERATIONS
                value = (values[0] if values else None) if passes else self.computed(op, port, values)
                self.found[op, port] = _DEAD if live is False else _Seen(live, value)

    def _read(self, op: int) -> Sequence[int]:
        """The outputs of an op; control edges lead from port -1 or 0."""
        count = self.flow.graph.tensor_ptr
        node = int(self.flow.ops.node[op])
        return range(max(1, int(count[node + 1] - count[node])))

    def _live(self, op: int) -> bool | None:
        """Whether an op runs: all that it reads and waits for is live."""
        states = [self._of_edge(edge).live for edge in self.flow.inputs[op]]
        return False if False in states else None if None in states else True

    def _of_edge(self, edge: int) -> _Seen:
        at = self.flow.source[edge], self.flow.port[edge]
        return self.of(at if self.flow.data[edge] else (at[0], 0))

    def _switched(self, op: int, port: int, data: _Seen, by: _Seen) -> _Seen:
        if data.live is False or by.live is False:
            return _DEAD
        if by.value is None or len(by.value) != 1 or by.value[0] <= SYMBOLS:
            return _Seen(None, data.value)
        last = len(self._read(op)) - 1
        side = int(by.value[0])
        taken = side if 0 <= side <= last else last
        return data if taken == port else _DEAD


def _merged(inputs: Sequence[_Seen]) -> _Seen:
    """A branch's Merge passes on the one input that is live."""
    left = [one for one in inputs if one.live is not False]
    for one in left:
        if one.live:
            return one
    if len(left) < 2:
        return left[0] if left else _DEAD
    return _Seen(None, left[0].value if all(one.value == left[0].value for one in left) else None)
