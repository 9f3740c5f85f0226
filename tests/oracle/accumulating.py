"""A child process for the tests: real accumulators and queues, driven through one schedule after another.

What may block runs in a thread of its own. The session has one thread for ops, which takes up what it is given in order
and runs an op right after the one that it waits for; so when the PyFunc before a blocking op has been called, the op is
reached before anything that is asked afterwards, and nothing here depends on how fast anything is.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from simulator.oracle import child

HERE = "simviz_here"  # the token of the PyFunc before an op that may block
LONG_S = 2  # no op takes that long that waits for nothing


class Driven:
    """A session on a graph of ops with their inputs, and the actions that still run in it."""

    def __init__(self, ops: dict[str, tuple[Any, Sequence[Any]]], graph: Any) -> None:
        import tensorflow as tf

        config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        session = tf.compat.v1.Session(graph=graph, config=config)
        self.close = session.close
        self.run: dict[str, Callable[..., Any]] = {
            name: session.make_callable(fetch, feed_list=list(feeds)) for name, (fetch, feeds) in ops.items()
        }
        self.threads: dict[int, threading.Thread] = {}
        self.outcome: dict[int, Any] = {}

    def begin(self, number: int, name: str, *values: Any) -> None:
        """Start an action that may block; back as soon as its op has been reached."""
        import tensorflow as tf

        _reached().clear()

        def act() -> None:
            try:
                told = self.run[name](*values)
                self.outcome[number] = None if told is None else _plain(told)
            except tf.errors.OpError as error:
                self.outcome[number] = type(error).__name__

        self.threads[number] = threading.Thread(target=act)
        self.threads[number].start()
        assert _reached().wait(LONG_S)

    def end(self) -> list[list[Any]]:
        """What became of each action that may block; one that still does is cancelled after a while."""
        for thread in self.threads.values():
            thread.join(LONG_S)
        self.close()
        for thread in self.threads.values():
            thread.join()
        return sorted([number, told] for number, told in self.outcome.items())


def _plain(told: Any) -> Any:
    return [part.tolist() for part in told] if isinstance(told, tuple | list) else told.tolist()


@cache
def _reached() -> threading.Event:
    from tensorflow.python.ops import script_ops

    event = threading.Event()

    def here() -> bool:
        event.set()
        return True

    _KEPT.append(here)
    script_ops._py_funcs._funcs[HERE] = here
    return event


_KEPT: list[Any] = []  # a function that nobody refers to is forgotten


@cache
def _accumulator(kind: str) -> tuple[dict[str, Any], Any]:
    """The ops on an accumulator of two numbers: "dense", "sparse" or "resource"."""
    import tensorflow as tf

    raw, v1 = tf.raw_ops, tf.compat.v1
    with tf.Graph().as_default() as graph:
        make = {
            "dense": raw.ConditionalAccumulator,
            "sparse": raw.SparseConditionalAccumulator,
            "resource": raw.ResourceConditionalAccumulator,
        }[kind]
        handle = make(dtype=tf.float64, shape=[2], shared_name="gathered")
        step, count = v1.placeholder(tf.int64, ()), v1.placeholder(tf.int32, ())
        gradient, index = v1.placeholder(tf.float64, [None]), v1.placeholder(tf.int64, [None])
        if kind == "sparse":
            apply = raw.SparseAccumulatorApplyGradient(
                handle=handle,
                local_step=step,
                gradient_indices=index,
                gradient_values=gradient,
                gradient_shape=tf.constant([], tf.int64),
                has_known_shape=False,
            )
        else:
            named = raw.ResourceAccumulatorApplyGradient if kind == "resource" else raw.AccumulatorApplyGradient
            apply = named(handle=handle, local_step=step, gradient=gradient)
        prefix = "Resource" if kind == "resource" else ""
        with tf.control_dependencies([_here()]):
            takes = (
                raw.SparseAccumulatorTakeGradient
                if kind == "sparse"
                else getattr(raw, f"{prefix}AccumulatorTakeGradient")
            )
            take = takes(handle=handle, num_required=count, dtype=tf.float64)
        return {
            "apply": (apply, (step, gradient, index) if kind == "sparse" else (step, gradient)),
            "take": (tuple(take[:2]) if kind == "sparse" else take, (count,)),
            "set": (getattr(raw, f"{prefix}AccumulatorSetGlobalStep")(handle=handle, new_global_step=step), (step,)),
            "count": (getattr(raw, f"{prefix}AccumulatorNumAccumulated")(handle=handle), ()),
        }, graph


@cache
def _queue(capacity: int) -> tuple[dict[str, Any], Any]:
    import tensorflow as tf

    raw, v1 = tf.raw_ops, tf.compat.v1
    with tf.Graph().as_default() as graph:
        handle = raw.FIFOQueueV2(component_types=[tf.int64], shapes=[[]], capacity=capacity, shared_name="tokens")
        tokens, count = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.int32, ())
        with tf.control_dependencies([_here()]):
            put = raw.QueueEnqueueManyV2(handle=handle, components=[tokens])
            get = raw.QueueDequeueManyV2(handle=handle, n=count, component_types=[tf.int64])
            one = raw.QueueDequeueV2(handle=handle, component_types=[tf.int64])
        return {
            "put": (put, (tokens,)),
            "get": (get[0], (count,)),
            "one": (one[0], ()),
            "size": (raw.QueueSizeV2(handle=handle), ()),
            "close": (raw.QueueCloseV2(handle=handle), ()),
        }, graph


def _here() -> Any:
    import tensorflow as tf

    _reached()
    return tf.raw_ops.PyFunc(input=[], token=HERE, Tout=[tf.bool])[0]


def _work(question: bytes) -> bytes:
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    asked = json.loads(question)
    return json.dumps(_driven_queue(asked) if "capacity" in asked else _driven_accumulator(asked)).encode()


def _driven_accumulator(asked: dict[str, Any]) -> dict[str, Any]:
    """`counts` after each action, and the `outcome` of each take by the action's number."""
    driven, counts = Driven(*_accumulator(asked["kind"])), []
    for number, (name, *values) in enumerate(asked["actions"]):
        if name == "take":
            driven.begin(number, "take", *values)
        elif name == "apply" and asked["kind"] == "sparse":
            local_step, rows, value = values
            driven.run["apply"](local_step, [value] * len(rows), rows)
        elif name == "apply":
            local_step, rows, value = values
            driven.run["apply"](local_step, [value * (row in rows) for row in (0, 1)])
        else:
            driven.run[name](*values)
        counts.append(int(driven.run["count"]()))
    return {"counts": counts, "outcome": driven.end()}


def _driven_queue(asked: dict[str, Any]) -> dict[str, Any]:
    """The `sizes` after each action, and the `outcome` of each by its number."""
    driven, sizes = Driven(*_queue(asked["capacity"])), []
    for number, (name, *values) in enumerate(asked["actions"]):
        if name == "close":
            driven.run["close"]()
        else:
            driven.begin(number, name, *values)
        sizes.append(int(driven.run["size"]()))
    return {"sizes": sizes, "outcome": driven.end()}


if __name__ == "__main__":
    child.serve(_work)
