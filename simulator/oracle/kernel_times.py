"""In the child process: time kernels as they run in a step, an op's dispatch and a step without work, on so many cores.

    inputs copied -> clock -> kernel -> clock -> clock -> inputs copied -> clock -> the next kernel ...

In a training step a kernel rarely follows itself. Others ran since, and its code left the caches that a core has for
itself. That takes microseconds, of which a kernel that is timed again and again shows nothing (decision 0061). So a
step here has a hundred different kernels, each once, in an order drawn by chance. As in a graph, inputs have just been
made, nothing else reads them, variables were touched a step ago, and outputs live until the step ends.

A clock is TensorFlow's op Timestamp, which ticks in microseconds; no step is traced, as tracing lengthens ops. What is
between two clocks in a row is taken off. What is left has the kernel and its dispatch. The mean of the shorter half of
the runs counts. The spread is how much longer the median is.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from simulator.oracle import child
from simulator.oracle.kernel_cases import KernelCase, cases
from simulator.oracle.session import configuration, quiet, sentence

ENOUGH_S, LEAST, MOST = 8.0, 5, 15  # of a step of kernels; runs that count
_ROWS_S, _ROWS_MOST = 2.0, 200  # the same of the steps of ops in a row
TICK_NS = 1000.0  # of a clock
WARM_UP = 3  # runs before these: a session's first ones choose and allocate
LONG, SHORT = 1500, 500  # ops in a row, to time one of them


def answer(question: bytes) -> bytes:
    """Time what is asked for: "begin" with `cores`; "time" with `cases`, of which each is a family and a row of it.

    The reply to "begin" has TensorFlow's version, and the times of `dispatch` and `step` as (ns, spread). The reply to
    "time" has `times` in the same form, None for a kernel that this TensorFlow refuses, with `refused`; and a GraphDef
    with the cases as nodes "case0", ....
    """
    facts, _ = child.unpack(question)
    if facts["ask"] == "begin":
        return child.pack(_begin(facts["cores"]))
    known = cases()
    asked = [known[family][row] for family, row in facts["cases"]]
    times, refused = _timed(asked, facts["cores"])
    return child.pack({"times": times, "refused": refused, "cores": facts["cores"]}, [_graph(asked)])


def _begin(cores: Sequence[int]) -> dict[str, Any]:
    """Take the cores, start TensorFlow, and time what comes with every op and every step."""
    os.sched_setaffinity(0, cores)
    quiet()
    import tensorflow as tf
    from tensorflow.python.framework import test_util

    with tf.Graph().as_default() as graph:
        rows = {}
        for count in (0, SHORT, LONG):
            last = tf.constant(0.0)
            for _ in range(count):
                last = tf.raw_ops.Identity(input=last)
            with tf.control_dependencies([last]):
                rows[count] = tf.no_op()
        with tf.compat.v1.Session(graph=graph, config=_configured(len(cores))) as session:
            steps = [session.make_callable(row) for row in rows.values()]
            seen = _in_turn(steps)
    none, short, long = map(_quartile, seen)
    return {
        "tensorflow": tf.__version__,
        "onednn": bool(test_util.IsMklEnabled()) and os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0",
        "dispatch": [max(1.0, (long[0] - short[0]) / (LONG - SHORT)), long[1]],
        "step": list(none),
    }


def _configured(threads: int) -> Any:
    config = configuration(soft=True)
    config.inter_op_parallelism_threads, config.intra_op_parallelism_threads = 1, threads
    return config


def _timed(asked: Sequence[KernelCase], cores: int) -> tuple[list[Any], list[str]]:
    """[nanoseconds, spread] of each case, None for one that does not run, and why.

    A step that does not run is halved until the case is found.
    """
    import tensorflow as tf

    try:
        return _measured(tf, asked, cores), []
    except (tf.errors.OpError, ValueError, TypeError) as error:
        if len(asked) == 1:
            return [None], [f"{asked[0].op}: {sentence(error)}"]
    half = len(asked) // 2
    (times, refused), (more, others) = _timed(asked[:half], cores), _timed(asked[half:], cores)
    return [*times, *more], [*refused, *others]


def _measured(tf: Any, asked: Sequence[KernelCase], cores: int) -> list[list[float]]:
    """Nanoseconds and the spread of each case, all of which run one after the other in one step."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
        given = [_inputs(tf, case, row) for row, case in enumerate(asked)]
        first = [one for started, _ in given for one in started]
        with tf.control_dependencies([one for _, inputs in given for one in inputs if one.dtype != tf.resource]):
            last = tf.no_op()
        clocks, outputs = [], []
        for case, (_, inputs) in zip(asked, given, strict=True):
            fresh, last = _copied(tf, inputs, last)
            before, last = _after(tf, last, tf.timestamp)
            made, last = _after(tf, last, partial(case.make, tf.raw_ops, *fresh, **case.values))
            after, last = _after(tf, last, tf.timestamp)
            again, last = _after(tf, last, tf.timestamp)
            clocks += [before, after, again]
            outputs += [made] if hasattr(made, "op") else []
        seconds = tf.stack(clocks)
        with tf.control_dependencies([seconds]):
            end = tf.raw_ops.IdentityN(input=[seconds, *outputs])[0]
    with v1.Session(graph=graph, config=_configured(cores)) as session:
        session.run(first)
        step = session.make_callable(end)
        runs = _runs(step)
    took = [[1e9 * (run[at + 1] - run[at]) for run in runs] for at in range(len(clocks) - 1)]
    clock_ns = statistics.mean(_shorter_half(column)[0] for column in took[1::3])
    return [_typical(column, clock_ns) for column in took[0::3]]


def _after(tf: Any, last: Any, make: Callable[[], Any]) -> tuple[Any, Any]:
    """The product of an op: its first tensor, or the op that has none; and that op."""
    with tf.control_dependencies([last]):
        made = _first(make())
    return made, made.op if hasattr(made, "op") else made


def _copied(tf: Any, inputs: Sequence[Any], last: Any) -> tuple[list[Any], Any]:
    """The inputs, with copies of all numbers that nothing else reads, the first input last; and the last op."""
    found = list(inputs)
    for row in reversed(range(len(found))):
        if found[row].dtype == tf.float32:
            found[row], last = _after(tf, last, partial(tf.raw_ops.DeepCopy, x=found[row]))
    return found, last


def _runs(step: Callable[[], Any]) -> list[list[float]]:
    """The times that the clocks showed in each of `MOST` steps, or of those until `ENOUGH_S` is over."""
    for _ in range(WARM_UP):
        step()
    found: list[list[float]] = []
    deadline = time.perf_counter() + ENOUGH_S
    while len(found) < LEAST or (len(found) < MOST and time.perf_counter() < deadline):
        found.append(step().tolist())
    return found


def _shorter_half(took: Sequence[float]) -> tuple[float, float]:
    """The mean of the shorter half, and the median."""
    return statistics.mean(sorted(took)[: (len(took) + 1) // 2]), statistics.median(took)


def _typical(took: Sequence[float], clock_ns: float) -> list[float]:
    low, middle = _shorter_half(took)
    ns = max(TICK_NS, low - clock_ns)  # shorter ones are not told apart
    return [ns, max(0.0, (middle - clock_ns) / ns - 1)]


def _inputs(tf: Any, case: KernelCase, number: int = 0) -> tuple[list[Any], list[Any]]:
    """Ops that give variables and inputs their values: handles, then values."""
    first, inputs = [], []
    for row, shape in enumerate((*case.held, *case.shapes)):
        last = row + 1 == len(case.held) + len(case.shapes)
        dtype = tf.int32 if case.below and last else tf.float32
        start = tf.random.uniform(shape, 0, case.below, dtype, row) if dtype == tf.int32 else tf.fill(shape, 0.5)
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


def _in_turn(steps: Sequence[Callable[[], Any]]) -> list[list[int]]:
    """Nanoseconds of each step, run in turn until there are `_ROWS_MOST` or `_ROWS_S` is over."""
    for step in steps:
        step()
        step()
    seen: list[list[int]] = [[] for _ in steps]
    deadline = time.perf_counter() + _ROWS_S
    while len(seen[0]) < LEAST or (len(seen[0]) < _ROWS_MOST and time.perf_counter() < deadline):
        for step, took in zip(steps, seen, strict=True):
            begun = time.perf_counter_ns()
            step()
            took.append(time.perf_counter_ns() - begun)
    return seen


def _quartile(took: Sequence[int]) -> tuple[float, float]:
    """The lower quartile, and how much longer the median is."""
    low = statistics.quantiles(took, n=4)[0]
    return low, max(0.0, statistics.median(took) / low - 1)


def _graph(asked: Sequence[KernelCase]) -> bytes:
    """The cases as nodes of one graph, whose inputs have their shapes."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        for row, case in enumerate(asked):
            with tf.name_scope(f"inputs{row}"):
                _, inputs = _inputs(tf, case)
                made = _first(case.make(tf.raw_ops, *inputs, **case.values))
            with tf.control_dependencies([made]):
                tf.no_op(name=f"case{row}")  # its control input is the op
    return bytes(graph.as_graph_def(add_shapes=True).SerializeToString(deterministic=True))


if __name__ == "__main__":
    child.serve(answer)
