"""Child process: graphs whose steps are observed, by name; the numbers of their tests are worked by hand."""

from __future__ import annotations

from typing import Any

from simulator.oracle.child import serve


def answer(payload: bytes) -> bytes:
    import tensorflow.compat.v1 as tf

    kind, _, version = payload.decode().partition(" ")
    (tf.enable_control_flow_v2 if version == "v2" else tf.disable_control_flow_v2)()
    graph = tf.Graph()
    with graph.as_default():
        _GRAPHS[kind](tf)
    return bytes(graph.as_graph_def().SerializeToString())


def _loop(tf: Any) -> None:
    """x doubles until its sum passes a bound; each value goes into an array."""
    x = tf.placeholder(tf.float32, [3], name="x")
    bound = tf.placeholder(tf.float32, [], name="bound")
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[3])

    def body(step: Any, value: Any, array: Any) -> tuple[Any, Any, Any]:
        return step + 1, value * 2.0, array.write(step, value)

    _, value, array = tf.while_loop(
        lambda step, value, array: tf.reduce_sum(value) < bound, body, [tf.constant(0), x, array], name="loop"
    )
    tf.identity(value, name="value")
    tf.identity(array.stack(), name="stacked")


def _alternating(tf: Any) -> None:
    """Every third iteration of seven squares the value, the others negate it; each adds to an array that grows."""
    x = tf.placeholder(tf.int32, [], name="x")
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[2])

    def body(step: Any, value: Any, array: Any) -> tuple[Any, Any, Any]:
        value = tf.cond(tf.equal((step + x) % 3, 0), lambda: tf.square(value), lambda: tf.negative(value))
        return step + 1, value, array.write(step, value)

    _, _, array = tf.while_loop(lambda step, *_: step < 7, body, [0, tf.ones([2]), array], name="loop")
    tf.identity(array.stack(), name="stacked")


def _trained(tf: Any) -> None:
    """A loop that runs until its examples are large, its gradient, and an update."""
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    weights = tf.get_variable("weights", [3, 3], initializer=tf.ones_initializer(), use_resource=True)
    held = tf.placeholder(tf.float32, [], name="bound")

    def body(value: Any) -> Any:
        return tf.abs(tf.matmul(value, weights)) + 1.0

    value = tf.while_loop(lambda value: tf.reduce_sum(value) < held, body, [x], name="loop")
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(value), name="train")


def _captured(tf: Any) -> None:
    """The train step of a function that is handed its variable."""
    x, handle = tf.placeholder(tf.float32, [None, 8], name="x"), tf.placeholder(tf.resource, [], name="weights")
    read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
    made = tf.matmul(x, tf.ensure_shape(read, [8, 3]))
    gradient = tf.matmul(x, tf.ones_like(made), transpose_a=True)
    tf.raw_ops.AssignSubVariableOp(resource=handle, value=gradient * 0.1, name="train")


def _branch(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    which = tf.placeholder(tf.bool, [], name="which")
    tf.identity(tf.cond(which, lambda: tf.matmul(x, tf.ones([3, 5])), lambda: tf.exp(x[:1])), name="out")


def _data(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [6], name="x")
    tf.identity(tf.where(x > 0.0), name="picked")
    tf.identity(tf.unique(x)[0], name="unlike")
    boxes = tf.placeholder(tf.float32, [4, 4], name="boxes")
    kept = tf.image.non_max_suppression(boxes, tf.constant([0.9, 0.8, 0.7, 0.6]), 3, iou_threshold=0.5)
    tf.identity(tf.gather(boxes, kept), name="kept")


def _queue(tf: Any) -> None:
    queue = tf.RandomShuffleQueue(100, 50, [tf.float32, tf.int32], [[28, 28], []])
    queue.enqueue([tf.ones([28, 28]), 7])
    images, labels = queue.dequeue_many(4, name="batch")
    tf.identity(tf.one_hot(labels, 10), name="hot")
    tf.reduce_sum(images, name="sum")


def _variables(tf: Any) -> None:
    tf.disable_resource_variables()
    first = tf.get_variable("first", [2, 3])
    second = tf.Variable(first.initialized_value() * 2.0, name="second")
    bare = tf.raw_ops.VariableV2(shape=[3, 4], dtype=tf.float32, name="bare")
    handle = tf.raw_ops.VarHandleOp(shape=[4], dtype=tf.float32, name="handle")
    lost = tf.raw_ops.VarHandleOp(shape=[1], dtype=tf.string, name="lost")
    tf.raw_ops.AssignVariableOp(resource=lost, value=tf.reshape(tf.io.read_file("nowhere"), [1]), name="lost/Assign")
    read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
    text = tf.raw_ops.ReadVariableOp(resource=lost, dtype=tf.string)
    tf.add(tf.matmul(first + second, bare), read, name="out")
    tf.identity(text, name="text")


def _table(tf: Any) -> None:
    """A table that a function fills, as in a SavedModel of Keras."""
    table = tf.raw_ops.HashTableV2(key_dtype=tf.int64, value_dtype=tf.float32, name="table")

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def fill() -> None:
        keys, values = tf.constant([0, 1], tf.int64), tf.constant([0.5, 1.5])
        tf.raw_ops.LookupTableImportV2(table_handle=table, keys=keys, values=values)

    fill()
    keys = tf.placeholder(tf.int64, [3], name="keys")
    tf.raw_ops.LookupTableFindV2(table_handle=table, keys=keys, default_value=-1.0, name="found")


def _asserted(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.control_dependencies([tf.assert_greater(x, 100.0)]):
        tf.identity(x, name="out")


def _file(tf: Any) -> None:
    tf.io.read_file("nowhere/to/be/found", name="out")


def _python(tf: Any) -> None:
    tf.numpy_function(lambda: 1.0, [], tf.float32, name="out")


def _endless(tf: Any) -> None:
    tf.identity(tf.while_loop(lambda at: at >= 0, lambda at: at * 1, [tf.constant(0)]), name="out")


def _large(tf: Any) -> None:
    tf.reduce_sum(tf.random.uniform([2**13, 2**18]), name="out")


def _open(tf: Any) -> None:
    tf.exp(tf.placeholder(tf.float32, [None, None, 3], name="x"), name="out")


def _convolution(tf: Any) -> None:
    """Channels first, which only oneDNN has on a CPU, and a bias, which it would join with the convolution."""
    x = tf.placeholder(tf.float32, [None, 3, 8, 8], name="x")
    made = tf.nn.conv2d(x, tf.ones([3, 3, 3, 4]), 1, "SAME", data_format="NCHW", name="conv")
    tf.nn.relu(tf.nn.bias_add(made, tf.ones([4]), data_format="NCHW", name="bias"), name="out")


def _sparse(tf: Any) -> None:
    """A wide column of 50, one of unknown rank that a loss over sequences takes, and rows of an embedding."""
    wide, labels = (
        tf.sparse_placeholder(tf.float32, [4, 50], name="wide"),
        tf.sparse_placeholder(tf.int32, name="labels"),
    )
    ids = tf.sparse_placeholder(tf.int64, [None, 9], name="ids")
    tf.sparse.sparse_dense_matmul(wide, tf.ones([50, 2]), name="product")
    sounds, lengths = tf.placeholder(tf.float32, [4, 20, 7], name="x"), tf.placeholder(tf.int32, [4], name="lengths")
    tf.identity(tf.nn.ctc_loss(labels, tf.transpose(sounds, [1, 0, 2]), lengths), name="loss")
    rows = tf.nn.embedding_lookup_sparse(tf.ones([30, 5]), ids, None, combiner="sum")
    tf.identity(rows, name="rows")


def _lookup(tf: Any) -> None:
    """Numbers are looked up once each: in a table in three parts, in two tables of unlike size, and as labels."""
    parts = tf.fixed_size_partitioner(3)
    table = tf.get_variable("table", [12, 2], partitioner=parts, use_resource=True)
    entries = tf.sparse_placeholder(tf.int64, [4, 40], name="ids")
    tf.nn.embedding_lookup_sparse(table, entries, None, name="rows")
    both, _ = tf.unique(tf.placeholder(tf.int32, [12], name="both"), name="unlike")
    tables = [tf.get_variable(name, [rows, 2], use_resource=True) for name, rows in (("big", 20), ("small", 8))]
    tf.add_n([tf.gather(one, both) for one in tables], name="sum")
    labels, _ = tf.unique(tf.placeholder(tf.int32, [6], name="labels"))
    tf.identity(labels, name="kinds")


_GRAPHS = {
    "lookup": _lookup,
    "sparse": _sparse,
    "loop": _loop,
    "alternating": _alternating,
    "trained": _trained,
    "captured": _captured,
    "branch": _branch,
    "data": _data,
    "queue": _queue,
    "variables": _variables,
    "table": _table,
    "asserted": _asserted,
    "file": _file,
    "python": _python,
    "endless": _endless,
    "large": _large,
    "open": _open,
    "convolution": _convolution,
}

if __name__ == "__main__":
    serve(answer)
