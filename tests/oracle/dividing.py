"""Child process: graphs that divide a step among devices or towers, and some that only look so, made by TensorFlow.

Asked: names of graphs. Told: their GraphDefs, with the shapes of all outputs.
"""

import base64
import json
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from simulator.oracle.child import serve

BATCH, PIXELS, HIDDEN, CLASSES = 8, 6, 5, 3


def on(device: Any) -> Any:
    """That device or device function; none changes nothing, where `tf.device(None)` would undo what is around it."""
    import tensorflow as tf

    return tf.compat.v1.device(device) if device else nullcontext()


def variable(name: str, shape: Sequence[int], *, device: str | None, resource: bool = False) -> Any:
    """One that all towers share; on that device, else where its reader is."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with on(device), v1.variable_scope("model", reuse=v1.AUTO_REUSE):
        return v1.get_variable(name, shape, use_resource=resource)


def loss_of(x: Any, y: Any, *, device: str | None = None, resource: bool = False, regularised: bool = False) -> Any:
    """Of a convolution, a bias, and a product."""
    import tensorflow as tf

    v1 = tf.compat.v1
    kernel = variable("conv", [3, 3, 1, HIDDEN], device=device, resource=resource)
    h = tf.nn.conv2d(tf.reshape(x, [-1, PIXELS, PIXELS, 1]), kernel, 1, "SAME")
    h = tf.nn.relu(h + variable("bias", [HIDDEN], device=device, resource=resource))
    weights = variable("out", [PIXELS * PIXELS * HIDDEN, CLASSES], device=device, resource=resource)
    logits = tf.reshape(h, [BATCH, -1]) @ weights
    found = tf.reduce_mean(v1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    return found + 0.01 * tf.nn.l2_loss(weights) if regularised else found


def recurrent_of(x: Any, y: Any, *, device: str | None = None, **options: Any) -> Any:
    """Of a cell in a `while_loop`: what towers have in common with it are weights."""
    import tensorflow as tf

    del options
    kernel = variable("cell", [PIXELS + HIDDEN, HIDDEN], device=device)
    rows = tf.TensorArray(tf.float32, PIXELS).unstack(tf.transpose(tf.reshape(x, [BATCH, PIXELS, PIXELS]), [1, 0, 2]))

    def body(at: Any, h: Any) -> Any:
        return at + 1, tf.tanh(tf.concat([rows.read(at), h], 1) @ kernel)

    h = tf.while_loop(lambda at, _: at < PIXELS, body, [0, tf.zeros([BATCH, HIDDEN])])[1]
    return tf.reduce_mean((h @ variable("out", [HIDDEN, CLASSES], device=device) - tf.one_hot(y, CLASSES)) ** 2)


def examples(queue: Any, at: int) -> Any:
    """A batch of a tower: from the queue, else fed."""
    import tensorflow as tf

    v1 = tf.compat.v1
    if queue is not None:
        return queue.dequeue()
    x = v1.placeholder(tf.float32, [BATCH, PIXELS * PIXELS], name=f"x_{at}")
    return x, v1.placeholder(tf.int32, [BATCH], name=f"y_{at}")


def towers(
    count: int,
    *,
    device: str = "",
    scope: str = "",
    queue: bool = False,
    split: bool = False,
    joined: str = "stack",
    model: Callable[..., Any] = loss_of,
    variables: str | None = "/cpu:0",
    setter: bool = False,
    **options: Any,
) -> Any:
    """As TensorFlow's multi-GPU CIFAR-10 is written: gradients per tower, averaged, applied once.

    `device` and `scope` are those of a tower, with `{}` for its number; `joined` says how gradients meet.
    """
    import tensorflow as tf

    v1, graph = tf.compat.v1, tf.Graph()
    under = v1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:1") if setter else None
    with graph.as_default(), on(under), on(variables if device else None):
        v1.disable_control_flow_v2()
        step = v1.train.get_or_create_global_step()
        optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
        source = tf.queue.FIFOQueue(9, ["float32", "int32"], [[BATCH, PIXELS**2], [BATCH]]) if queue else None
        parts = None
        if split:
            x, y = v1.placeholder(tf.float32, [count * BATCH, PIXELS**2]), v1.placeholder(tf.int32, [count * BATCH])
            parts = list(zip(tf.split(x, count), tf.split(y, count), strict=True))
        found = []
        for at in range(count):
            with on(device.format(at)), v1.name_scope(scope.format(at)) if scope else nullcontext():
                given = parts[at] if parts else examples(source, at)
                loss = model(*given, device=variables if device else None, **options)
                found.append(optimizer.compute_gradients(loss, v1.trainable_variables()))
        if joined == "async":
            tf.group(*(optimizer.apply_gradients(one, global_step=step) for one in found), name="train")
        else:
            means = [(mean([part for part, _ in pairs], joined), pairs[0][1]) for pairs in zip(*found, strict=True)]
            optimizer.apply_gradients(means, global_step=step, name="train")
    return graph


def mean(parts: list[Any], joined: str) -> Any:
    """As CIFAR-10 has it ("stack"), as tf_cnn_benchmarks ("add"), clipped, or the middle one of each number."""
    import tensorflow as tf

    if joined == "stack":
        return tf.reduce_mean(tf.concat([tf.expand_dims(part, 0) for part in parts], 0), 0)
    if joined == "median":
        return tf.sort(tf.stack(parts), axis=0)[len(parts) // 2]
    total = tf.add_n(parts) * (1 / len(parts))
    return tf.clip_by_norm(total, 1.0) if joined == "clipped" else total


def layers(count: int, *, cell: bool = False, device: str = "/gpu:{}") -> Any:
    """A layer per device, with its variables; or a layer of cells, unrolled over some steps."""
    import tensorflow as tf

    v1, graph = tf.compat.v1, tf.Graph()
    with graph.as_default():
        h = v1.placeholder(tf.float32, [BATCH, HIDDEN], name="x")
        for at in range(count):
            with v1.device(device.format(at)), v1.variable_scope(f"layer_{at}"):
                weights = v1.get_variable("w", [2 * HIDDEN if cell else HIDDEN, HIDDEN])
                state = tf.zeros_like(h)
                for _ in range(4 if cell else 0):
                    state = tf.tanh(tf.concat([h, state], 1) @ weights)
                h = state if cell else tf.tanh(h @ weights)
        step = v1.train.get_or_create_global_step()
        v1.train.GradientDescentOptimizer(0.1).minimize(
            tf.reduce_mean(h**2), global_step=step, colocate_gradients_with_ops=True, name="train"
        )
    return graph


def twins(*, apart: bool) -> Any:
    """One network on two inputs: compared with each other by one loss, or real and drawn ones of a discriminator."""
    import tensorflow as tf

    v1, graph = tf.compat.v1, tf.Graph()
    with graph.as_default():
        x, z = v1.placeholder(tf.float32, [BATCH, HIDDEN]), v1.placeholder(tf.float32, [BATCH, HIDDEN])
        drawn = tf.tanh(z @ v1.get_variable("generator", [HIDDEN, HIDDEN])) if apart else z
        weights = v1.get_variable("w", [HIDDEN, HIDDEN])
        one, other = (tf.tanh(value @ weights) for value in (x, drawn))
        loss = tf.reduce_mean(one**2) - tf.reduce_mean(other) if apart else tf.reduce_mean((one - other) ** 2)
        v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=v1.train.get_or_create_global_step())
    return graph


def function(count: int, *, layered: bool, keras: bool = False) -> Any:
    """A train step of TensorFlow 2: a layer per device, or a tower per device on a part of the batch."""
    import tensorflow as tf

    held = [tf.Variable(tf.ones([HIDDEN, HIDDEN])) for _ in range(count if layered else 2)]
    optimizer = None
    if keras:
        optimizer = tf.keras.optimizers.Adam(0.1)
        optimizer.build(held)

    def apply(pairs: Any) -> None:
        if optimizer is not None:
            optimizer.apply([gradient for gradient, _ in pairs], [kept for _, kept in pairs])
            return
        for gradient, kept in pairs:
            with on("" if layered else "/cpu:0"):
                kept.assign_sub(0.1 * gradient)

    def forward(x: Any, places: Sequence[str | None]) -> Any:
        for kept, place in zip(held, places, strict=True):
            with on(place):
                x = tf.tanh(x @ kept)
        return tf.reduce_mean(x**2)

    def train(x: Any) -> Any:
        found = []
        for at, part in enumerate([x] if layered else tf.split(x, count)):
            with on("" if layered else f"/gpu:{at}"):
                with tf.GradientTape() as tape:
                    loss = forward(part, [f"/gpu:{row}" for row in range(count)] if layered else [None, None])
                found.append(tape.gradient(loss, held))
        apply(
            [(tf.add_n(parts) / len(parts), kept) for parts, kept in zip(zip(*found, strict=True), held, strict=True)]
        )
        return loss

    return tf.function(train).get_concrete_function(tf.TensorSpec([count * BATCH, HIDDEN])).graph


TOWER, GPU = "tower_{}", "/gpu:{}"
GRAPHS: dict[str, Callable[[], Any]] = {
    "cifar": lambda: towers(4, device=GPU, scope=TOWER, queue=True),
    "cifar resource": lambda: towers(4, device=GPU, scope=TOWER, queue=True, resource=True, joined="add"),
    "cifar split": lambda: towers(3, device=GPU, scope=TOWER, split=True),
    "cifar setter": lambda: towers(4, device=GPU, scope=TOWER, queue=True, setter=True, variables=None),
    "cifar plain": lambda: towers(4, device=GPU, scope=TOWER, queue=True, variables=None),
    "scopes": lambda: towers(4, scope=TOWER),
    "structure": lambda: towers(4, joined="add"),
    "regularised": lambda: towers(2, joined="add", regularised=True),
    "clipped": lambda: towers(2, joined="clipped"),
    "clones": lambda: towers(3, scope="clone_{}", joined="median"),
    "median": lambda: towers(3, joined="median"),
    "async": lambda: towers(3, scope="replica_{}", joined="async"),
    "split": lambda: towers(3, split=True),
    "loops": lambda: towers(2, model=recurrent_of, joined="add"),
    "loops on devices": lambda: towers(2, model=recurrent_of, device=GPU, scope=TOWER),
    "cpus": lambda: towers(2, device="/cpu:{}"),
    "one": lambda: towers(1, device=GPU, scope=TOWER, queue=True),
    "one recurrent": lambda: towers(1, model=recurrent_of),
    "layers": lambda: layers(4),
    "cells": lambda: layers(3, cell=True),
    "cells on one": lambda: layers(3, cell=True, device="/gpu:0"),
    "siamese": lambda: twins(apart=False),
    "adversarial": lambda: twins(apart=True),
    "function layers": lambda: function(2, layered=True),
    "function towers": lambda: function(4, layered=False),
    "keras layers": lambda: function(2, layered=True, keras=True),
    "keras towers": lambda: function(2, layered=False, keras=True),
}


def work(payload: bytes) -> bytes:
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", KERAS_BACKEND="tensorflow")
    made = {}
    for name in json.loads(payload):
        graph = GRAPHS[name]().as_graph_def(add_shapes=True)
        made[name] = base64.b64encode(graph.SerializeToString()).decode()
    return json.dumps(made).encode()


if __name__ == "__main__":
    serve(work)
