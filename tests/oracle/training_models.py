"""Child process: training graphs as TensorFlow builds them, plain and under `replica_device_setter`.

Asked: `model`, `optimizer`, `resource`; `ps`, how many tasks the setter knows (0: built without one); `strategy` and
`seed`. Told: the GraphDef and its train op.
"""

import base64
import json
import os
import random
import sys
from collections.abc import Callable
from typing import Any

from simulator.oracle.child import serve

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda train: train.GradientDescentOptimizer(0.1),
    "momentum": lambda train: train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda train: train.AdamOptimizer(0.01),
    "rmsprop": lambda train: train.RMSPropOptimizer(0.01, momentum=0.5),
    "adagrad": lambda train: train.AdagradOptimizer(0.1),
    "adadelta": lambda train: train.AdadeltaOptimizer(0.1),
    "clipped": lambda train: Clipped(train.MomentumOptimizer(0.1, 0.9)),
    "summed": lambda train: Summed(train.GradientDescentOptimizer(0.1)),
    "ftrl": lambda train: train.FtrlOptimizer(0.1),
}


def dense(tf: Any, resource: Any) -> Any:
    """Two layers and a weight that no gradient reaches."""
    x, y = placeholders(tf, [None, 6], [None, 2])
    w = variable(tf, "w", [6, 5], resource)
    u = variable(tf, "u", [5, 2], resource)
    b = variable(tf, "b", [2], resource)
    variable(tf, "unused", [3], resource)
    return tf.reduce_mean((tf.tanh(x @ w) @ u + b - y) ** 2)


def total(tf: Any, resource: Any) -> Any:
    """A layer whose loss is a sum over the batch."""
    x, y = placeholders(tf, [None, 6], [None, 2])
    return tf.reduce_sum((x @ variable(tf, "w", [6, 2], resource) - y) ** 2) / 100


def convolution(tf: Any, resource: Any) -> Any:
    """Convolutions with batch normalisation and its moving averages, pooling, a dense layer."""
    v1 = tf.compat.v1
    x, y = placeholders(tf, [None, 8, 8, 3], [None, 4])
    h = tf.nn.relu(tf.nn.conv2d(x, variable(tf, "conv/kernel", [3, 3, 3, 8], resource), 1, "SAME"))
    scale, offset = variable(tf, "bn/gamma", [8], resource), variable(tf, "bn/beta", [8], resource)
    h, mean, variance = v1.nn.fused_batch_norm(h, scale, offset, is_training=True)
    for name, value in (("mean", mean), ("variance", variance)):
        kept = v1.get_variable(f"bn/{name}", [8], use_resource=resource, trainable=False)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(kept, (kept - value) * 0.01))
    h = tf.reshape(tf.nn.max_pool2d(h, 2, 2, "SAME"), [-1, 128])
    logits = h @ variable(tf, "out/kernel", [128, 4], resource)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))


def recurrent(tf: Any, resource: Any) -> Any:
    """An LSTM unrolled by a while loop, with TensorArrays and their gradients."""
    x, y = placeholders(tf, [None, 5, 3], [None, 4])
    kernel = variable(tf, "lstm/kernel", [7, 16], resource)
    bias = variable(tf, "lstm/bias", [16], resource)
    steps = tf.unstack(x, axis=1)
    inputs = tf.TensorArray(tf.float32, 5).unstack(tf.stack(steps))

    def body(at: Any, h: Any, c: Any) -> Any:
        i, j, f, o = tf.split(tf.concat([inputs.read(at), h], 1) @ kernel + bias, 4, 1)
        c = c * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(j)
        return at + 1, tf.tanh(c) * tf.sigmoid(o), c

    zero = tf.zeros_like(y)
    h = tf.while_loop(lambda at, *_: at < 5, body, [0, zero, zero])[1]
    return tf.reduce_mean((h - y) ** 2)


def embedding(tf: Any, resource: Any) -> Any:
    """A table of which a step reads a few rows, some of them twice: its gradient is sparse."""
    v1 = tf.compat.v1
    words = v1.placeholder(tf.int32, [None, 3], name="words")
    y = v1.placeholder(tf.float32, [None, 2], name="y")
    table = variable(tf, "table", [20, 4], resource)
    h = tf.reduce_sum(tf.nn.embedding_lookup(table, words), 1) @ variable(tf, "w", [4, 2], resource)
    return tf.reduce_mean((h - y) ** 2)


def table(tf: Any, resource: Any) -> Any:
    """A table alone: all updates are made of plain ops where its optimizer has no op for rows, as Adam has none."""
    v1 = tf.compat.v1
    words = v1.placeholder(tf.int32, [None, 3], name="words")
    y = v1.placeholder(tf.float32, [None, 2], name="y")
    h = tf.nn.embedding_lookup(variable(tf, "table", [20, 2], resource), words)
    return tf.reduce_mean((tf.reduce_sum(h, 1) - y) ** 2)


def reached(optimizer: Any, loss: Any) -> Any:
    """Gradients with their variables, without those that the loss does not depend on."""
    return [(gradient, variable) for gradient, variable in optimizer.compute_gradients(loss) if gradient is not None]


class Clipped:
    """All gradients scaled by the norm of all, then applied."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def minimize(self, loss: Any, global_step: Any) -> Any:
        import tensorflow as tf

        gradients, variables = zip(*reached(self.optimizer, loss), strict=True)
        clipped, _ = tf.clip_by_global_norm(gradients, 0.01)
        return self.optimizer.apply_gradients(zip(clipped, variables, strict=True), global_step=global_step)


class Summed:
    """Gradients added up by hand, and applied in every second step."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def minimize(self, loss: Any, global_step: Any) -> Any:
        import tensorflow as tf

        v1 = tf.compat.v1
        pairs = reached(self.optimizer, loss)
        sums = [v1.get_variable(f"{v.op.name}/sum", v.shape, initializer=v1.zeros_initializer(), use_resource=False,
                                trainable=False) for _, v in pairs]  # fmt: skip
        added = [v1.assign_add(kept, gradient) for kept, (gradient, _) in zip(sums, pairs, strict=True)]
        with tf.control_dependencies(added):
            due = tf.equal(tf.identity(global_step) % 2, 1)
            means = [(kept.read_value() / 2, variable) for kept, (_, variable) in zip(sums, pairs, strict=True)]
            applied = tf.cond(due, lambda: self.optimizer.apply_gradients(means), tf.no_op)
        with tf.control_dependencies([applied]):
            return v1.assign_add(global_step, 1).op


MODELS: dict[str, Callable[[Any, Any], Any]] = {
    "dense": dense,
    "total": total,
    "convolution": convolution,
    "recurrent": recurrent,
    "embedding": embedding,
    "table": table,
}


def placeholders(tf: Any, x: Any, y: Any) -> Any:
    v1 = tf.compat.v1
    return v1.placeholder(tf.float32, x, name="x"), v1.placeholder(tf.float32, y, name="y")


def variable(tf: Any, name: Any, shape: Any, resource: Any) -> Any:
    uniform = tf.compat.v1.random_uniform_initializer(-0.5, 0.5, seed=len(name) + 1)
    return tf.compat.v1.get_variable(name, shape, use_resource=resource, initializer=uniform)


def setter(tf: Any, asked: Any) -> Any:
    """The real setter, with a strategy that follows its documentation and nothing of ours."""
    if not asked["ps"]:
        return None
    chosen = {"round_robin": None, "bytes": greedy(asked["ps"]), "random": drawn(asked["ps"], asked.get("seed", 0))}
    return tf.compat.v1.train.replica_device_setter(
        ps_tasks=asked["ps"],
        worker_device="/job:worker/task:1",
        ps_strategy=chosen[asked.get("strategy", "round_robin")],
    )


def greedy(tasks: Any) -> Any:
    """The task with the fewest bytes so far takes the variable; the lowest of equals."""
    loads = dict.fromkeys(range(tasks), 0)
    sizes = {1: 4, 3: 4, 9: 8}  # float32, int32, int64

    def place(op: Any) -> Any:
        shape = op.get_attr("shape")
        count = 1
        for dim in shape.dim if hasattr(shape, "dim") else shape:
            count *= dim.size if hasattr(dim, "size") else int(dim)
        task = min(loads, key=lambda at: (loads[at], at))
        loads[task] += count * sizes[op.get_attr("dtype").as_datatype_enum]
        return task

    return place


def drawn(tasks: Any, seed: int) -> Any:
    source = random.Random(seed)
    return lambda op: source.randrange(tasks)


def build(tf: Any, asked: Any) -> Any:
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default(), v1.device(setter(tf, asked)):
        v1.disable_control_flow_v2()
        loss = tf.identity(MODELS[asked["model"]](tf, asked["resource"]), name="loss")
        step = v1.train.get_or_create_global_step()
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            train = OPTIMIZERS[asked["optimizer"]](v1.train).minimize(loss, global_step=step)
        v1.train.Saver()
        init = v1.global_variables_initializer()
    return {
        "graph": base64.b64encode(graph.as_graph_def().SerializeToString()).decode(),
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
    sys.setrecursionlimit(10_000)
    serve(work)
