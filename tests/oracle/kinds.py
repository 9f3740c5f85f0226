"""Child process: a small graph of each kind that TensorFlow users have, in the form in which they have it."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulator.oracle.child import serve


def saved_model(tf: Any) -> bytes:
    """A SavedModel whose signature calls a function that calls another."""

    class Model(tf.Module):  # type: ignore[misc]  # Any: TensorFlow's
        def __init__(self) -> None:
            self.w = tf.Variable(tf.ones([8, 8]))

        @tf.function  # type: ignore[untyped-decorator]  # Any: TensorFlow's
        def layer(self, x: Any) -> Any:
            return tf.nn.relu(x @ self.w)

        @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])  # type: ignore[untyped-decorator]  # as above
        def serve(self, x: Any) -> Any:
            return self.layer(self.layer(x))

    with tempfile.TemporaryDirectory() as folder:
        model = Model()
        tf.saved_model.save(model, folder, signatures=model.serve)
        return (Path(folder) / "saved_model.pb").read_bytes()


def keras_model(tf: Any) -> bytes:
    """A Keras model as `export` writes it."""
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input([12, 12, 1]), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(3)])
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        return (Path(folder) / "saved_model.pb").read_bytes()


def function(tf: Any) -> bytes:
    """The graph of a concrete function that calls another and branches, without shapes."""
    half = tf.function(lambda x: x * 0.5)

    @tf.function  # type: ignore[untyped-decorator]  # Any: TensorFlow's
    def choose(x: Any, positive: Any) -> Any:
        return tf.cond(positive, lambda: half(x) @ x, lambda: -x)

    made = choose.get_concrete_function(tf.TensorSpec([16, 16]), tf.TensorSpec([], tf.bool))
    return bytes(made.graph.as_graph_def().SerializeToString())


def new_loop(tf: Any) -> bytes:
    """A While of TensorFlow 2, whose body is a function."""

    @tf.function  # type: ignore[untyped-decorator]  # Any: TensorFlow's
    def repeat(x: Any) -> Any:
        return tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, tf.tanh(s @ x)), [tf.constant(0), x])[1]

    return bytes(repeat.get_concrete_function(tf.TensorSpec([16, 16])).graph.as_graph_def().SerializeToString())


def old_loop(tf: Any) -> bytes:
    """A loop of TensorFlow 1, with Enter and Exit."""
    tf.compat.v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [16, 16], name="x")
        tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, tf.tanh(s @ x)), [tf.constant(0), x])
    tf.compat.v1.enable_control_flow_v2()
    return bytes(graph.as_graph_def().SerializeToString())


def bounded_loop(tf: Any) -> bytes:
    """A loop of TensorFlow 1 whose bound is a constant outside of it."""
    tf.compat.v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        x, bound = tf.compat.v1.placeholder(tf.float32, [16, 16], name="x"), tf.constant(5, name="bound")
        tf.while_loop(lambda i, s: i < bound, lambda i, s: (i + 1, tf.tanh(s @ x)), [tf.constant(0), x])
    tf.compat.v1.enable_control_flow_v2()
    return bytes(graph.as_graph_def().SerializeToString())


def queues(tf: Any) -> bytes:
    """A MetaGraph of a training that takes its batches from a queue, with queue runners and a train op."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        queue = tf.queue.FIFOQueue(10, [tf.float32], shapes=[[8]], name="batches")
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(tf.random.uniform([8]))]))
        batch = queue.dequeue_many(4)
        loss = tf.reduce_mean(tf.square(batch @ v1.get_variable("w", [8, 3], use_resource=False)))
        v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        return bytes(v1.train.export_meta_graph().SerializeToString())


def references(tf: Any) -> bytes:
    """A training on reference variables, some of which a device string pins."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 32], name="x")
        with tf.device("/cpu:0"):
            w = v1.get_variable("w", [32, 32], use_resource=False)
        b = v1.get_variable("b", [32], use_resource=False)
        v1.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_mean(tf.nn.relu(x @ w + b)), name="train")
    return bytes(graph.as_graph_def().SerializeToString())


def events(tf: Any) -> bytes:
    """The file of TensorBoard's events that a training writes: its GraphDef, its MetaGraph, a scalar."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, tempfile.TemporaryDirectory() as folder:
        w = v1.get_variable("w", [32, 32], use_resource=False)
        v1.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_mean(tf.nn.relu(tf.ones([4, 32]) @ w)), name="train")
        writer = v1.summary.FileWriter(folder, graph)
        writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="loss", simple_value=1.0)]), 1)
        writer.close()
        return next(Path(folder).iterdir()).read_bytes()


KINDS: dict[str, Callable[[Any], bytes]] = {
    made.__name__: made
    for made in (
        saved_model, keras_model, function, new_loop, old_loop, bounded_loop, queues, references, events,
    )
}  # fmt: skip


def answer(payload: bytes) -> bytes:
    import tensorflow as tf

    return json.dumps({name: base64.b64encode(KINDS[name](tf)).decode() for name in json.loads(payload)}).encode()


if __name__ == "__main__":
    serve(answer)
