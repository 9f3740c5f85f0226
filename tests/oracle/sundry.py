"""Child process: one small graph of each kind that users bring, made by TensorFlow and written into a folder.

Asked: the folder. Told: for each kind its file, as in `KINDS`. The graphs are those of `benchmarks/pairwise.py`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simulator.oracle import child

CHILD = "tests.oracle.sundry"


def written(folder: Path, *, timeout_s: float = 240) -> Mapping[str, Path]:
    """Kind -> the file or folder that holds a graph of it. Raises OracleError without TensorFlow."""
    with child.conversation(CHILD) as ask:
        told: dict[str, str] = json.loads(ask(json.dumps(str(folder)).encode(), timeout_s))
    return {kind: folder / name for kind, name in told.items()}


# ---- in the child ----------------------------------------------------------------------------------------------------


def _minimized(tf: Any, loss: Any, optimizer: Any = None) -> Any:
    v1 = tf.compat.v1
    step = v1.train.get_or_create_global_step()
    return (optimizer or v1.train.GradientDescentOptimizer(0.1)).minimize(loss, global_step=step)


def _fed(tf: Any, rows: Any = None, columns: int = 64) -> tuple[Any, Any]:
    v1 = tf.compat.v1
    return v1.placeholder(tf.float32, [rows, columns], "x"), v1.placeholder(tf.float32, [rows, 8], "y")


def _layers(tf: Any, x: Any, sizes: tuple[int, ...], dtype: Any = None, name: str = "layer") -> Any:
    v1 = tf.compat.v1
    for at, size in enumerate(sizes):
        w = v1.get_variable(f"{name}{at}/w", [x.shape[1], size], dtype or tf.float32, use_resource=at % 2 == 0)
        x = tf.tanh(x @ w)
    return x


def inference(tf: Any) -> None:
    """Convolutions and a product, nothing to train."""
    x = tf.compat.v1.placeholder(tf.float32, [None, 16, 16, 3], "image")
    h = tf.nn.relu(tf.nn.conv2d(x, tf.ones([3, 3, 3, 16]), 1, "SAME"))
    h = tf.nn.max_pool2d(h, 2, 2, "SAME")
    tf.nn.softmax(tf.reshape(h, [-1, 1024]) @ tf.ones([1024, 10]), name="probability")


def dense(tf: Any) -> None:
    """A training of one device, with Adam."""
    x, y = _fed(tf)
    loss = tf.reduce_mean((_layers(tf, x, (128, 8)) - y) ** 2)
    _minimized(tf, loss, tf.compat.v1.train.AdamOptimizer())


def half(tf: Any) -> None:
    """A training in float16."""
    x, y = _fed(tf)
    h = _layers(tf, tf.cast(x, tf.float16), (128, 8), tf.float16)
    _minimized(tf, tf.reduce_mean((tf.cast(h, tf.float32) - y) ** 2))


def sparse(tf: Any) -> None:
    """An embedding whose gradient is sparse."""
    v1 = tf.compat.v1
    words = v1.placeholder(tf.int32, [None, 3], "words")
    table = v1.get_variable("table", [1000, 16], use_resource=False)
    _minimized(tf, tf.reduce_mean(tf.reduce_sum(tf.nn.embedding_lookup(table, words), 1) ** 2))


def loop(tf: Any) -> None:
    """A trained loop of the first generation with a branch in its body."""
    tf.compat.v1.disable_control_flow_v2()
    x, y = _fed(tf, 4, 8)
    w = tf.compat.v1.get_variable("w", [8, 8], use_resource=False)

    def body(at: Any, h: Any) -> tuple[Any, Any]:
        return at + 1, tf.cond(tf.equal(at % 2, 0), lambda: tf.tanh(h @ w), lambda: h + 1.0)

    _, h = tf.while_loop(lambda at, _: at < 3, body, [0, x])
    _minimized(tf, tf.reduce_mean((h - y) ** 2))


def functional(tf: Any) -> None:
    """A trained loop of the second generation."""
    tf.compat.v1.enable_control_flow_v2()
    x, y = _fed(tf, 4, 8)
    w = tf.compat.v1.get_variable("w", [8, 8], use_resource=True)

    def body(at: Any, h: Any) -> tuple[Any, Any]:
        return at + 1, tf.cond(tf.reduce_sum(h) > 0, lambda: tf.tanh(h @ w), lambda: h + 1.0)

    _, h = tf.while_loop(lambda at, _: at < 3, body, [0, x])
    _minimized(tf, tf.reduce_mean((h - y) ** 2))


def towers(tf: Any) -> None:
    """Two towers on two GPUs, whose gradients are averaged on the CPU, as the CIFAR-10 tutorial has it."""
    v1 = tf.compat.v1
    x, y = _fed(tf, 32)
    optimizer, pairs = v1.train.GradientDescentOptimizer(0.1), []
    for at, (some, wanted) in enumerate(zip(tf.split(x, 2), tf.split(y, 2), strict=True)):
        reuse = v1.variable_scope("model", reuse=at > 0)
        with v1.device(f"/gpu:{at}"), v1.name_scope(f"tower_{at}"), reuse:
            loss = tf.reduce_mean((_layers(tf, some, (64, 8)) - wanted) ** 2)
            pairs.append(optimizer.compute_gradients(loss))
    with v1.device("/cpu:0"):
        means = [(tf.reduce_mean(tf.stack([a, b]), 0), variable) for (a, variable), (b, _) in zip(*pairs, strict=True)]
        optimizer.apply_gradients(means, global_step=v1.train.get_or_create_global_step())


def layered(tf: Any) -> None:
    """A layer per GPU."""
    v1 = tf.compat.v1
    h, y = _fed(tf, 32)
    for at in range(2):
        with v1.device(f"/gpu:{at}"):
            h = _layers(tf, h, (64,) if at == 0 else (64, 8), name=f"gpu{at}_")
    _minimized(tf, tf.reduce_mean((h - y) ** 2))


def jobs(tf: Any) -> None:
    """A worker's graph as `replica_device_setter` makes it, which names its jobs."""
    with tf.compat.v1.device(tf.compat.v1.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
        dense(tf)


def queue(tf: Any) -> None:
    """An input queue that runners fill with decoded pictures; a MetaGraph."""
    v1 = tf.compat.v1
    name = v1.train.string_input_producer(["a.jpg", "b.jpg"])
    _, content = v1.WholeFileReader().read(name)
    image = tf.image.resize(tf.cast(tf.image.decode_jpeg(content, channels=3), tf.float32), [16, 16])
    batch = v1.train.batch([tf.reshape(image, [768])], 32, num_threads=2, capacity=64)
    loss = tf.reduce_mean(_layers(tf, batch, (64, 8)) ** 2)
    _minimized(tf, loss)


def words(tf: Any) -> None:
    """Strings, a lookup table and a parsed example."""
    text = tf.compat.v1.placeholder(tf.string, [None], "text")
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), 0)
    ids = table.lookup(tf.strings.lower(text))
    tf.gather(tf.ones([3, 16]), ids, name="vectors")


def rare(tf: Any) -> None:
    """Sparse and ragged tensors, sets, sounds, quantised numbers, and an index that begins at the end of a list."""
    v1, raw = tf.compat.v1, tf.raw_ops
    x = v1.placeholder(tf.float32, [4, 6], "x")
    kept = tf.sparse.from_dense(x)
    parts = {"sp_indices": kept.indices, "sp_values": kept.values, "sp_shape": kept.dense_shape}
    words, wholes = tf.sparse.from_dense(tf.constant([[1, 2]])), tf.cast(x, tf.int32)
    made = [raw.SparseDenseCwiseMul(**parts, dense=x), tf.sparse.reduce_sum(kept, 1)]
    made += [tf.nn.embedding_lookup_sparse(x, words, None)]
    made += [*raw.DenseToDenseSetOperation(set1=wholes, set2=wholes, set_operation="union")[:2]]
    ragged = tf.RaggedTensor.from_row_splits(x, [0, 1, 4], validate=False)
    made += [ragged.to_tensor(shape=[None, 3, 6]), tf.not_equal(x, 0.0), tf.linspace([0.0, 1.0], [1.0, 2.0], 5)]
    spectrogram = raw.AudioSpectrogram(input=tf.tile(x, [99, 1]), window_size=200, stride=100)
    made += [raw.Mfcc(spectrogram=spectrogram, sample_rate=16000)]
    low, high = tf.constant(-1.0), tf.constant(1.0)
    numbers = tf.quantization.quantize(x, low, high, tf.quint8)[0]
    made += [raw.QuantizedReshape(tensor=numbers, shape=[3, -1], input_min=low, input_max=high)[1]]
    made += [raw.UnravelIndex(indices=[1, 2], dims=[3, 4]), raw.ApproxTopK(input=x, k=5)[0]]
    made += [tf.edit_distance(kept, kept)]

    def body(at: Any, total: Any) -> tuple[Any, Any]:
        return at + 1, total + x[0][at]

    made += [tf.while_loop(lambda at, _: at < v1.placeholder(tf.int32, []), body, [6, 0.0])[1]]
    tf.add_n([tf.reduce_sum(tf.cast(one, tf.float32)) for one in made], name="all")


GRAPHS: dict[str, Callable[[Any], None]] = {
    made.__name__: made
    for made in (inference, dense, half, sparse, loop, functional, towers, layered, jobs, queue, words, rare)
}


def _saved_model(tf: Any, folder: Path) -> None:
    class Model(tf.Module):  # type: ignore[misc]  # TensorFlow ships no types
        def __init__(self) -> None:
            self.w = tf.Variable(tf.ones([16, 4]), name="w")

        @tf.function(input_signature=[tf.TensorSpec([None, 16], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(self, x: Any) -> Any:
            if tf.reduce_sum(x) > 0:
                return tf.nn.softmax(x @ self.w)
            return x @ self.w

    model = Model()
    tf.saved_model.save(model, str(folder), signatures=model.serve)


def _work(question: bytes) -> bytes:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    folder = Path(json.loads(question))
    _saved_model(tf, folder / "saved")
    told = {"saved model": "saved"}
    tf.compat.v1.disable_eager_execution()
    for kind, make in GRAPHS.items():
        graph = tf.Graph()
        with graph.as_default():
            make(tf)
            name = f"{kind}.meta" if kind == "queue" else f"{kind}.pb"
            if kind == "queue":
                tf.compat.v1.train.export_meta_graph(str(folder / name))
            else:
                (folder / name).write_bytes(graph.as_graph_def().SerializeToString())
        told[kind] = name
    return json.dumps(told).encode()


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    child.serve(_work)
