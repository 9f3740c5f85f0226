"""In the child process: time kernels as they run in a step, on so many cores.

    inputs copied -> clock -> kernel -> clock -> clock -> inputs copied -> clock -> the next kernel ...

In a training step of large tensors a kernel rarely follows itself. Others ran since, and its code left the caches that
a core has for itself. That takes microseconds, of which a kernel that is timed again and again shows nothing (decision
0061). So a step here has a hundred different kernels, in an order drawn by chance. As in a graph, inputs have just been
made, and nothing else reads them. Variables were touched a step ago, and outputs live until the step ends.

A step of small tensors stays in these caches. So small kernels have a warm time, too: in steps of few of them. Each
runs behind another one, as in a graph: eight times in a row it takes half as long (decision 0114).

A clock is TensorFlow's op Timestamp, which ticks in microseconds; no step is traced, as tracing lengthens ops. What is
between two clocks in a row is taken off. What is left has the kernel and its dispatch. The mean of the shorter half of
the runs counts. The spread is how much longer the median is.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from simulator.oracle import child
from simulator.oracle.kernel_cases import KernelCase, cases
from simulator.oracle.session import one_op_at_a_time, quiet, sentence

ENOUGH_S, LEAST, MOST = 8.0, 5, 7  # of a step of kernels; runs that count
TICK_NS = 1000.0  # of a clock
WARM_UP = 2  # runs before these: a session's first ones choose and allocate
_VALUES = (0.1, 2.0)  # of numbers, by chance: what a kernel takes may hang on them
_APART = 7919  # numbers between the first ones of an op's inputs
WARM_BYTES = 2**20  # of the inputs, or the output, of a kernel that is also timed warm: its code stays, too
WARM_MOST = 150  # runs of it that count, of ticks
_GROUP_BYTES, _GROUP = 2**19, 24  # of all kernels of a step in which they are warm; its cases, at most


def answer(question: bytes) -> bytes:
    """Time what is asked for: "begin" with `cores`; "time" with `cases`, `warm` and `graph`.

    A case is a family and a row of it. `warm` tells whether small ones are timed warm, too. The reply to "time" has
    `times`, with the time warm or None as a third figure, and None for a kernel that this TensorFlow refuses. It also
    has `refused`, and, where `graph` says so, a GraphDef with the cases as nodes "case0", ....
    """
    facts, _ = child.unpack(question)
    if facts["ask"] == "begin":
        os.sched_setaffinity(0, facts["cores"])
        quiet()
        return child.pack({})
    known = cases()
    asked = [known[family][row] for family, row in facts["cases"]]
    times, refused = _timed(asked, facts["cores"], warm=facts["warm"])
    graphs = [_graph(asked)] if facts["graph"] else []
    return child.pack({"times": times, "refused": refused, "cores": facts["cores"]}, graphs)


def _timed(asked: Sequence[KernelCase], cores: int, *, warm: bool) -> tuple[list[Any], list[str]]:
    """[nanoseconds, spread, nanoseconds warm or None] of each case, None for one that does not run, and why.

    A step that does not run is halved until the case is found.
    """
    import tensorflow as tf

    try:
        return _measured(tf, asked, cores, warm=warm), []
    except (tf.errors.OpError, ValueError, TypeError) as error:
        if len(asked) == 1:
            return [None], [f"{asked[0].op}: {sentence(error)}"]
    half = len(asked) // 2
    (times, refused), (more, others) = (_timed(part, cores, warm=warm) for part in (asked[:half], asked[half:]))
    return [*times, *more], [*refused, *others]


def _measured(tf: Any, asked: Sequence[KernelCase], cores: int, *, warm: bool) -> list[list[float | None]]:
    """Nanoseconds, the spread and, if asked for, the warm time of each case: all in one step, then few at a time."""
    columns, clocks, made = _clocked(tf, asked, cores, MOST)
    clock_ns = statistics.mean(_shorter_half(column)[0] for column in clocks)
    found: list[list[float | None]] = [[*_typical(column, clock_ns), None] for column in columns]
    sizes = [max(_bytes(case), nbytes) for case, nbytes in zip(asked, made, strict=True)]
    for rows in _groups(sizes) if warm else ():
        columns, clocks, _ = _clocked(tf, [asked[row] for row in rows], cores, WARM_MOST)
        clock_ns = statistics.mean(map(_mostly, clocks))
        for row, column in zip(rows, columns, strict=True):
            found[row][2] = max(1.0, _mostly(column) - clock_ns)
    return found


def _groups(sizes: Sequence[int]) -> list[list[int]]:
    """Rows of small cases, by size, in groups whose tensors stay in a core's cache together."""
    found: list[list[int]] = []
    held = 0
    for row in sorted(range(len(sizes)), key=lambda row: (sizes[row], row)):
        nbytes = sizes[row]
        if nbytes > WARM_BYTES:
            break
        if not found or held + nbytes > _GROUP_BYTES or len(found[-1]) == _GROUP:
            found.append([])
            held = 0
        found[-1].append(row)
        held += nbytes
    return found


def _bytes(case: KernelCase) -> int:
    """Bytes of its inputs."""
    return 4 * sum(math.prod(shape) for shape in (*case.shapes, *case.held))


def _clocked(
    tf: Any, asked: Sequence[KernelCase], cores: int, most: int
) -> tuple[list[list[float]], list[list[float]], list[int]]:
    """The nanoseconds of each case, those of two clocks in a row behind it, in each step; and bytes of each output."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
        drawn = _Drawn(tf, asked)
        given = [_inputs(tf, case, drawn, row) for row, case in enumerate(asked)]
        first = [one for started, _ in given for one in started]
        with tf.control_dependencies([one for _, inputs in given for one in inputs if one.dtype != tf.resource]):
            last = tf.no_op()
        clocks: list[Any] = []
        outputs: list[Any] = []
        made_bytes: list[int] = []
        for case, (_, inputs) in zip(asked, given, strict=True):
            copies, last = _copied(tf, case, inputs, last)
            before, last = _after(tf, last, tf.timestamp)
            made, last = _after(tf, last, partial(case.make, tf.raw_ops, *copies, **case.values))
            outputs += [made] if hasattr(made, "op") else []
            made_bytes.append(4 * (made.shape.num_elements() or 0) if hasattr(made, "op") else 0)
            after, last = _after(tf, last, tf.timestamp)
            again, last = _after(tf, last, tf.timestamp)
            clocks += [before, after, again]
        seconds = tf.stack(clocks)
        with tf.control_dependencies([seconds]):
            end = tf.raw_ops.IdentityN(input=[seconds, *outputs])[0]
    with v1.Session(graph=graph, config=one_op_at_a_time(cores)) as session:
        session.run(first)
        runs = _runs(session.make_callable(end), most)
    took = [[1e9 * (run[at + 1] - run[at]) for run in runs] for at in range(len(clocks) - 1)]
    return took[0::3], took[1::3], made_bytes


def _after(tf: Any, last: Any, make: Callable[[], Any]) -> tuple[Any, Any]:
    """The product of an op: its first tensor, or the op that has none; and that op."""
    with tf.control_dependencies([last]):
        made = _first(make())
    return made, made.op if hasattr(made, "op") else made


def _copied(tf: Any, case: KernelCase, inputs: Sequence[Any], last: Any) -> tuple[list[Any], Any]:
    """The inputs, with copies of all numbers that nothing else reads, the first input last; and the last op."""
    found = list(inputs)
    for row in reversed(range(len(found))):
        if found[row].dtype == case.dtype:
            found[row], last = _after(tf, last, partial(tf.raw_ops.DeepCopy, x=found[row]))
    if case.before is not None:
        made, last = _after(tf, last, partial(case.before, tf.raw_ops, *found))
        found.append(made)
    return found, last


def _runs(step: Callable[[], Any], most: int) -> list[list[float]]:
    """The times that the clocks showed in each of so many steps, or of those until `ENOUGH_S` is over."""
    for _ in range(WARM_UP):
        step()
    found: list[list[float]] = []
    deadline = time.perf_counter() + ENOUGH_S
    while len(found) < LEAST or (len(found) < most and time.perf_counter() < deadline):
        found.append(step().tolist())
    return found


def _shorter_half(took: Sequence[float]) -> tuple[float, float]:
    """The mean of the shorter half, and the median."""
    return statistics.mean(sorted(took)[: (len(took) + 1) // 2]), statistics.median(took)


def _mostly(took: Sequence[float]) -> float:
    """The mean of all but the shortest and the longest tenth: a shorter half of few ticks would be too short."""
    out = len(took) // 10
    return statistics.mean(sorted(took)[out : len(took) - out])


def _typical(took: Sequence[float], clock_ns: float) -> list[float]:
    low, middle = _shorter_half(took)
    ns = max(TICK_NS, low - clock_ns)  # shorter ones are not told apart
    return [ns, max(0.0, (middle - clock_ns) / ns - 1)]


class _Drawn:
    """Numbers by chance, of which each input takes some: to draw each one's takes a third of a calibration."""

    def __init__(self, tf: Any, asked: Sequence[KernelCase]) -> None:
        shapes = [shape for case in asked for shape in (*case.held, *case.shapes)]
        most = max(len(case.held + case.shapes) for case in asked)
        self._tf, self._count = tf, max(map(math.prod, shapes), default=0) + _APART * most
        self._of: dict[Any, Any] = {}

    def numbers(self, dtype: Any, shape: tuple[int, ...], row: int) -> Any:
        """The numbers of an op's input in that row, which no other of its inputs has in that place."""
        raw = self._tf.raw_ops
        if dtype not in self._of:
            low, high = _VALUES
            some = raw.RandomUniform(shape=[self._count], dtype=dtype, seed2=1)
            self._of[dtype] = some * self._tf.constant(high - low, dtype) + self._tf.constant(low, dtype)
        taken = raw.Slice(input=self._of[dtype], begin=[row * _APART], size=[math.prod(shape)])
        return raw.Reshape(tensor=taken, shape=list(shape))


def _inputs(tf: Any, case: KernelCase, drawn: _Drawn, number: int = 0) -> tuple[list[Any], list[Any]]:
    """Ops that give variables and inputs their values: handles, then values."""
    first, inputs = [], []
    for row, shape in enumerate((*case.held, *case.shapes)):
        if case.below and row + 1 == len(case.held) + len(case.shapes):
            dtype = tf.int32
            start = tf.raw_ops.RandomUniformInt(shape=list(shape), minval=0, maxval=case.below, seed2=row + 1)
        else:
            dtype = tf.as_dtype(case.dtype)
            start = drawn.numbers(dtype, shape, row)
        handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=f"v{number}_{row}")
        first.append(tf.raw_ops.AssignVariableOp(resource=handle, value=start))
        held = row < len(case.held)
        inputs.append(handle if held else tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype))
        if not held:
            inputs[-1].set_shape(shape)
    return first, inputs


def _first(made: Any) -> Any:
    """A tensor, the first of several, or an op without any."""
    while isinstance(made, (list, tuple)):
        made = made[0]
    return made


def _graph(asked: Sequence[KernelCase]) -> bytes:
    """The cases as nodes of one graph, whose inputs have their shapes."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        drawn = _Drawn(tf, asked)
        for row, case in enumerate(asked):
            with tf.name_scope(f"inputs{row}"):
                _, inputs = _inputs(tf, case, drawn)
                if case.before is not None:
                    inputs = [*inputs, case.before(tf.raw_ops, *inputs)]
                made = _first(case.make(tf.raw_ops, *inputs, **case.values))
            with tf.control_dependencies([made]):
                tf.no_op(name=f"case{row}")  # its control input is the op
    return bytes(graph.as_graph_def(add_shapes=True).SerializeToString(deterministic=True))


if __name__ == "__main__":
    child.serve(answer)
