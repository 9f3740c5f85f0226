"""In the child process: time what comes with every op, every step and every byte, on one core.

dispatch   of an op by the executor: rows of ops that hand a number on, one longer than the other
step       of a session, without work
streams    a byte that a kernel makes, in steps of several footprints
read_byte  a byte of weights that no cache holds
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from simulator.oracle import child
from simulator.oracle.session import one_op_at_a_time, quiet

LONG, SHORT = 1500, 500  # ops in a row, to time one of them
STREAMS = tuple(2**power for power in range(22, 29))  # bytes: 4 to 256 MB, below and beyond what cores share
_LEAST, _MOST, _ROWS_S = 5, 200, 2.0  # of the steps of ops in a row
_TENSOR, _STREAM_S = 2**20, 0.25  # bytes of a tensor of a stream; of one such step, run again and again
_SIDE, _MATRICES = 1024, 64  # of square weights: 256 MB


def answer(question: bytes) -> bytes:
    """Take `cores`, and give TensorFlow's version, whether it uses oneDNN, and the times.

    `dispatch`, `step` and `read_byte` are (ns, spread), `streams` are pairs of a footprint in bytes and nanoseconds.
    """
    facts, _ = child.unpack(question)
    os.sched_setaffinity(0, facts["cores"])
    quiet()
    import tensorflow as tf
    from tensorflow.python.framework import test_util

    return child.pack(
        {
            "tensorflow": tf.__version__,
            "onednn": bool(test_util.IsMklEnabled()) and os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0",
            **_rows(tf),
            "streams": _streams(tf),
            "read_byte": _read_byte(tf),
        }
    )


def _rows(tf: Any) -> dict[str, tuple[float, float]]:
    """The times of an op's dispatch and of a step without work."""
    with tf.Graph().as_default() as graph:
        rows = {}
        for count in (0, SHORT, LONG):
            last = tf.constant(0.0)
            for _ in range(count):
                last = tf.raw_ops.Identity(input=last)
            with tf.control_dependencies([last]):
                rows[count] = tf.no_op()
        with tf.compat.v1.Session(graph=graph, config=one_op_at_a_time(1)) as session:
            seen = _in_turn([session.make_callable(row) for row in rows.values()])
    none, short, long = map(_quartile, seen)
    return {"dispatch": (max(1.0, (long[0] - short[0]) / (LONG - SHORT)), long[1]), "step": none}


def _streams(tf: Any) -> list[tuple[int, float]]:
    """The nanoseconds of a byte that is made, by the footprint of the step; the shorter of two rounds."""
    shortest: dict[int, float] = {}
    for _ in range(2):
        for footprint in STREAMS:
            ns = _stream_ns(tf, footprint // _TENSOR)
            shortest[footprint] = min(ns, shortest.get(footprint, ns))
    return sorted(shortest.items())


def _stream_ns(tf: Any, tensors: int) -> float:
    """The nanoseconds of a byte in a step that makes so many tensors.

    A kernel reads the tensor that the one before it made. All live until the step ends, so a new one lies where the
    step before this one touched memory.
    """
    with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
        made = [tf.fill([_TENSOR // 4], tf.random.uniform([], 0.1, 2.0))]
        while len(made) < tensors:
            made.append(tf.raw_ops.Mul(x=made[-1], y=tf.constant(1.0)))
        end = tf.raw_ops.IdentityN(input=made)[0].op
    with tf.compat.v1.Session(graph=graph, config=one_op_at_a_time(1)) as session:
        (took,) = _in_turn([session.make_callable(end)], _STREAM_S)
    return _quartile(took)[0] / (_TENSOR * tensors)


def _read_byte(tf: Any) -> tuple[float, float]:
    """The nanoseconds of a byte in a step of products with one row, whose weights are more than caches hold."""
    with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
        row = tf.fill([1, _SIDE], tf.random.uniform([], 0.1, 2.0))
        held = [tf.raw_ops.VarHandleOp(dtype="float32", shape=[_SIDE] * 2, shared_name=f"weights{number}")
                for number in range(_MATRICES)]  # fmt: skip
        first = [tf.raw_ops.AssignVariableOp(resource=one, value=tf.fill([_SIDE] * 2, 0.5)) for one in held]
        weights = [tf.raw_ops.ReadVariableOp(resource=one, dtype="float32") for one in held]
        end = tf.group(*(tf.raw_ops.MatMul(a=row, b=one) for one in weights))
    with tf.compat.v1.Session(graph=graph, config=one_op_at_a_time(1)) as session:
        session.run(first)
        (took,) = _in_turn([session.make_callable(end)], _STREAM_S)
    ns, spread = _quartile(took)
    return ns / (4 * _SIDE**2 * _MATRICES), spread


def _in_turn(steps: Sequence[Callable[[], Any]], most_s: float = _ROWS_S) -> list[list[int]]:
    """Nanoseconds of each step, run in turn until there are `_MOST` or the time is over."""
    for step in steps:
        step()
        step()
    seen: list[list[int]] = [[] for _ in steps]
    deadline = time.perf_counter() + most_s
    while len(seen[0]) < _LEAST or (len(seen[0]) < _MOST and time.perf_counter() < deadline):
        for step, took in zip(steps, seen, strict=True):
            begun = time.perf_counter_ns()
            step()
            took.append(time.perf_counter_ns() - begun)
    return seen


def _quartile(took: Sequence[int]) -> tuple[float, float]:
    """The lower quartile, and how much longer the median is."""
    low = statistics.quantiles(took, n=4)[0]
    return low, max(0.0, statistics.median(took) / low - 1)


if __name__ == "__main__":
    child.serve(answer)
