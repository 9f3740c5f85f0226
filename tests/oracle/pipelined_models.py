"""Child process: training graphs whose losses are means over the batch in the ways in which people write them.

Asked: `model`, `optimizer`, `batch` (0: open). Told: the GraphDef, its train op and its initialiser.
"""

import base64
import json
import os
from typing import Any

from simulator.oracle.child import serve
from tests.oracle.training_models import OPTIMIZERS

BATCH = 12


def fed(tf: Any, batch: Any, labels: Any) -> Any:
    v1 = tf.compat.v1
    return v1.placeholder(tf.float32, [batch, 6, 6, 2], name="x"), v1.placeholder(tf.int64, [labels], name="y")


def iterated(tf: Any) -> Any:
    """A dataset whose elements are whole batches."""
    images = tf.reshape(tf.sin(tf.range(4 * BATCH * 72, dtype=tf.float32)), [-1, 6, 6, 2])
    labels = tf.range(4 * BATCH, dtype=tf.int64) % 4
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH, drop_remainder=True)
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    return iterator.get_next(), iterator.initializer


def logits(tf: Any, x: Any, batch: Any) -> Any:
    h = tf.nn.relu(
        tf.nn.bias_add(tf.nn.conv2d(x, variable(tf, "conv", [3, 3, 2, 4]), 1, "SAME"), variable(tf, "c", [4]))
    )
    h = tf.nn.max_pool2d(h, 2, 2, "SAME")
    h = h + tf.nn.relu(tf.nn.conv2d(h, variable(tf, "next", [3, 3, 4, 4]), 1, "SAME"))  # a residual block
    h = tf.reshape(h, [batch or -1, 36])
    return tf.tanh(h @ variable(tf, "dense", [36, 8])) @ variable(tf, "out", [8, 4])


def variable(tf: Any, name: Any, shape: Any) -> Any:
    uniform = tf.compat.v1.random_uniform_initializer(-0.5, 0.5, seed=len(name) + 1)
    return tf.compat.v1.get_variable(name, shape, use_resource=name in ("conv", "out"), initializer=uniform)


def loss(tf: Any, kind: Any, x: Any, y: Any, batch: Any) -> Any:
    found = logits(tf, x, batch)
    if kind == "losses":
        return tf.compat.v1.losses.sparse_softmax_cross_entropy(y, found)
    if kind == "sampled":  # among 20 classes
        weights, biases = variable(tf, "classes", [20, 4]), variable(tf, "class_biases", [20])
        return tf.reduce_mean(tf.nn.nce_loss(weights, biases, y[:, None], found, 5, 20))
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, found)
    if kind == "divided":
        return tf.reduce_sum(each) / float(BATCH)
    if kind == "sized":
        return tf.reduce_sum(each) / tf.cast(tf.size(each), tf.float32)
    if kind == "sum":
        return tf.reduce_sum(each)
    total = tf.reduce_mean(each)
    if kind == "penalised":
        total += 0.01 * tf.add_n([tf.nn.l2_loss(one) for one in tf.compat.v1.trainable_variables()])
    if kind == "both":
        total += 0.01 * tf.reduce_sum(tf.abs(found))
    if kind == "active":  # where the batch is open, its shape says the number of examples
        total += 0.01 * tf.nn.l2_loss(found) / tf.cast(tf.shape(x)[0], tf.float32)
    return total


def build(tf: Any, asked: Any) -> Any:
    v1, batch = tf.compat.v1, asked["batch"] or None
    graph = tf.Graph()
    with graph.as_default():
        inits = []
        if asked["model"] == "iterator":
            (x, y), init = iterated(tf)
            inits.append(init)
        else:
            x, y = fed(tf, batch, None if asked["model"] == "open labels" else batch)
        total = loss(tf, asked["model"], x, y, batch)
        step = v1.train.get_or_create_global_step()
        train = OPTIMIZERS[asked["optimizer"]](v1.train).minimize(total, global_step=step)
        v1.train.Saver()
        init = tf.group(v1.global_variables_initializer(), *inits, name="begin")
    return {
        "graph": base64.b64encode(graph.as_graph_def(add_shapes=True).SerializeToString()).decode(),
        "train": train.name,
        "init": init.name,
    }


def work(payload: bytes) -> bytes:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return json.dumps([build(tf, asked) for asked in json.loads(payload)]).encode()


if __name__ == "__main__":
    serve(work)
