"""In the child process: time single kernels, an op's dispatch and a step without work, on so many cores.

    a kernel   = (a step of n copies - a step of n ops that hand a tensor on) / n + an op's dispatch

In a training step tensors are read long after they were written, and outputs are kept for the backward pass. So each
copy reads other tensors than the one before, and all outputs live until the step ends. Both steps take turns. On one
core processor time is taken, which other programs hardly lengthen, on several the time that passes. Of these times the
lower quartile counts. The spread is how much longer the median is.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from simulator.oracle import child
from simulator.oracle.kernel_cases import KernelCase, cases
from simulator.oracle.session import configuration, sentence

STEP_NS = 400_000  # a step of copies takes about that long
COPIES = (4, 24)  # at least, at most
SETS = 8  # of input tensors at most
COLD_BYTES = 2**24  # more than the caches that a core has for itself
HELD_BYTES = 2**27  # of all outputs
ENOUGH_S, LEAST, MOST = 0.05, 7, 25  # of a kernel; pairs of steps
LONG, SHORT = 1500, 500  # ops in a row, to time one of them
REFERENCE_SIDE, REFERENCES = 512, 15  # of the product that tells whether others use the machine; how often it runs
_FLOP_PER_NS, _BYTES_PER_NS = 20, 5  # a rough guess, for the number of copies alone


def answer(question: bytes) -> bytes:
    """Time what is asked for: "begin" with `cores`; "time" with a `family`, `first` and `last` of its cases.

    The reply to "begin" has TensorFlow's version, and the times of `dispatch` and `step` as (ns, spread). The reply to
    "time" has `times` in the same form, None for a kernel that this TensorFlow refuses, with `refused`; the time of one
    and the same product around them, `reference_ns`; and a GraphDef with the cases as nodes "case0", ....
    """
    facts, _ = child.unpack(question)
    if facts["ask"] == "begin":
        return child.pack(_begin(facts["cores"]))
    asked = cases()[facts["family"]][facts["first"] : facts["last"]]
    before = _reference_ns(facts["cores"])
    times, refused = _timed(asked, facts["cores"])
    slower = max(before, _reference_ns(facts["cores"]))
    return child.pack(
        {"times": times, "refused": refused, "reference_ns": slower, "cores": facts["cores"]}, [_graph(asked)]
    )


def _begin(cores: Sequence[int]) -> dict[str, Any]:
    """Take the cores, start TensorFlow, and time what comes with every op and every step."""
    os.sched_setaffinity(0, cores)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
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
            seen = _in_turn(steps, 200, 2.0)
    none, short, long = map(_quartile, seen)
    return {
        "tensorflow": tf.__version__,
        "onednn": bool(test_util.IsMklEnabled()) and os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0",
        "dispatch": [max(1.0, (long[0] - short[0]) / (LONG - SHORT)), long[1]],
        "step": list(none),
    }


def _reference_ns(cores: int) -> float:
    """Nanoseconds of a product that stays the same: it takes longer while others use the machine."""
    step, clock = _reference(cores), _clock(cores)
    return _quartile(_in_turn([step], REFERENCES, ENOUGH_S, clock)[0])[0]


@cache
def _reference(cores: int) -> Callable[[], Any]:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        row = tf.fill((REFERENCE_SIDE, REFERENCE_SIDE), 0.5)
        with tf.control_dependencies([tf.raw_ops.MatMul(a=row, b=row)]):
            last = tf.no_op()
        session = tf.compat.v1.Session(graph=graph, config=_configured(cores))
    step: Callable[[], Any] = session.make_callable(last)
    return step


def _clock(cores: int) -> Callable[[], int]:
    return time.process_time_ns if cores == 1 else time.perf_counter_ns


def _configured(threads: int) -> Any:
    config = configuration(soft=True)
    config.inter_op_parallelism_threads, config.intra_op_parallelism_threads = 1, threads
    return config


def _timed(asked: Sequence[KernelCase], cores: int) -> tuple[list[Any], list[str]]:
    """[nanoseconds, spread] of each case, None for one that does not run, and why."""
    import tensorflow as tf

    times: list[Any] = []
    refused: list[str] = []
    for case in asked:
        try:
            times.append(list(_time(tf, case, cores)))
        except (tf.errors.OpError, ValueError, TypeError) as error:
            times.append(None)
            refused.append(f"{case.op}: {sentence(error)}")
    return times, refused


def _time(tf: Any, case: KernelCase, cores: int) -> tuple[float, float]:
    """Nanoseconds of the kernel, and the spread."""
    v1 = tf.compat.v1
    count = _copies(case)
    with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
        sets = [_inputs(tf, case, row) for row in range(min(SETS, count, -(-COLD_BYTES // _touched(case))))]
        first = [one for started, _ in sets for one in started]
        inputs = [given for _, given in sets]
        with tf.control_dependencies([one for given in inputs for one in given if one.dtype != tf.resource]):
            ready = tf.no_op()
        with tf.control_dependencies([ready]):
            made = [case.make(tf.raw_ops, *inputs[row % len(inputs)], **case.values) for row in range(count)]
            idle = [tf.raw_ops.Identity(input=inputs[0][-1]) for _ in range(count)]
        full, empty = _ended(tf, made), _ended(tf, idle)
    with v1.Session(graph=graph, config=_configured(cores)) as session:
        session.run(first)
        steps = [session.make_callable(one) for one in (full, empty)]
        long, short = _in_turn(steps, MOST, ENOUGH_S, _clock(cores))
    whole, rest = _quartile(long), _quartile(short)
    return max(1.0, (whole[0] - rest[0]) / count), whole[1]


def _ended(tf: Any, made: Sequence[Any]) -> Any:
    """The end of a step, until which the first outputs of all copies live."""
    outputs = [_first(one) for one in made]
    with tf.control_dependencies([one for one in outputs if not hasattr(one, "op")]):
        alive = [one for one in outputs if hasattr(one, "op")]
        return tf.raw_ops.IdentityN(input=alive)[0].op if alive else tf.no_op()


def _touched(case: KernelCase) -> int:
    """Bytes that a kernel reads: of a table, which it is given ids for, some rows; other tables fill the caches."""
    ids = _elements(case.shapes[-1]) if case.below and case.held else 0
    held = [ids * shape[-1] if ids else _elements(shape) for shape in case.held]
    return 4 * sum((*held, *map(_elements, case.shapes)))


def _copies(case: KernelCase) -> int:
    sizes = [_elements(shape) for shape in (*case.held, *case.shapes)]
    guess = 500 + 4 * sum(sizes) / _BYTES_PER_NS
    most = min(COPIES[1], HELD_BYTES // (4 * max(sizes)))
    if "MatMul" in case.op:
        guess += 2 * sizes[0] * max(case.shapes[1][-2:]) / _FLOP_PER_NS
    elif case.op.startswith("Conv2D"):
        guess += 2 * max(sizes) * min(sizes) / 16 / _FLOP_PER_NS
    return int(max(COPIES[0], min(most, STEP_NS / guess)))


def _elements(shape: Sequence[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found


def _inputs(tf: Any, case: KernelCase, number: int = 0) -> tuple[list[Any], list[Any]]:
    """What gives variables their values, and the inputs: handles, then values."""
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


def _in_turn(
    steps: Sequence[Callable[[], Any]],
    most: int,
    enough_s: float,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> list[list[int]]:
    """Nanoseconds of each step, run in turn until there are `most` or `enough_s` is over."""
    for step in steps:
        step()
        step()
    seen: list[list[int]] = [[] for _ in steps]
    deadline = time.perf_counter() + enough_s
    while len(seen[0]) < LEAST or (len(seen[0]) < most and time.perf_counter() < deadline):
        for step, took in zip(steps, seen, strict=True):
            begun = clock()
            step()
            took.append(clock() - begun)
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
