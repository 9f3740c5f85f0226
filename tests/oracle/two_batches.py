"""Child process: small programs, each built by TensorFlow twice, with two batches; file shapes are theirs."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from simulator.oracle.child import serve

CLASSES = 10


def _begin_anew(tf: Any) -> None:
    """Have Keras number its layers from one. It looks for no garbage, which takes as long as all building."""
    tf.keras.backend.clear_session(free_memory=False)


def _of_keras(layers: Callable[[Any], list[Any]], shape: tuple[int, ...]) -> Callable[[Any, int], Any]:
    """A training step of a Keras model, as a function of one shape."""

    def build(tf: Any, batch: int) -> Any:
        _begin_anew(tf)
        model = tf.keras.Sequential(layers(tf.keras.layers))
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                value = loss(y, model(x, training=True))
            return value, tape.gradient(value, model.trainable_variables)

        model.build((batch, *shape))
        spec = tf.TensorSpec((batch, *shape), tf.float32), tf.TensorSpec((batch,), tf.int32)
        return tf.function(step).get_concrete_function(*spec).graph

    return build


def convolving(k: Any) -> list[Any]:
    return [
        k.Conv2D(8, 3, activation="relu"), k.BatchNormalization(), k.MaxPooling2D(), k.DepthwiseConv2D(3),
        k.Conv2DTranspose(4, 3, strides=2), k.Dropout(0.5), k.Flatten(), k.Dense(8, activation="gelu"),
        k.Dense(CLASSES),
    ]  # fmt: skip


def recurrent(k: Any) -> list[Any]:
    return [k.LSTM(8, return_sequences=True), k.Bidirectional(k.GRU(6)), k.LayerNormalization(), k.Dense(CLASSES)]


def stateful(k: Any) -> list[Any]:
    return [k.SimpleRNN(8), k.RepeatVector(3), k.LSTM(4, unroll=True), k.Dense(CLASSES)]


def pooled(k: Any) -> list[Any]:
    return [
        k.ZeroPadding2D(2),
        k.SeparableConv2D(8, 3),
        k.GlobalAveragePooling2D(),
        k.GaussianNoise(0.1),
        k.Dense(CLASSES),
    ]


def attention(tf: Any, batch: int) -> Any:
    _begin_anew(tf)
    layers = tf.keras.layers
    tokens = tf.keras.Input((12,), batch_size=batch, dtype="int32")
    x = layers.Embedding(50, 8)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    model = tf.keras.Model(tokens, layers.Dense(CLASSES)(layers.GlobalMaxPooling1D()(x)))
    return tf.function(model).get_concrete_function(tf.TensorSpec((batch, 12), tf.int32)).graph


def of_zoo(name: str) -> Callable[[Any, int], Any]:
    def build(tf: Any, batch: int) -> Any:
        _begin_anew(tf)
        model = getattr(tf.keras.applications, name)(weights=None, input_shape=(64, 64, 3))
        return tf.function(model).get_concrete_function(tf.TensorSpec((batch, 64, 64, 3), tf.float32)).graph

    return build


# ---- the first generation -------------------------------------------------------------------------------------------


def _first(program: Callable[[Any, int], None]) -> Callable[[Any, int], Any]:
    """A program that adds to the default graph, with control flow of the first generation."""

    def build(tf: Any, batch: int) -> Any:
        with tf.Graph().as_default() as graph:
            tf.compat.v1.disable_control_flow_v2()
            program(tf, batch)
        return graph

    return build


def _second(program: Callable[[Any, int], None]) -> Callable[[Any, int], Any]:
    def build(tf: Any, batch: int) -> Any:
        with tf.Graph().as_default() as graph:
            tf.compat.v1.enable_control_flow_v2()
            program(tf, batch)
        return graph

    return build


def _variable(tf: Any, *shape: int) -> Any:
    name = f"v{len(tf.compat.v1.get_default_graph().get_operations())}"
    return tf.compat.v1.get_variable(name, shape, use_resource=len(shape) % 2 == 0)


def _trained(tf: Any, logits: Any, labels: Any) -> None:
    v1 = tf.compat.v1
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
    v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)


def conv_net(tf: Any, batch: int) -> None:
    """Shapes in constants: a flattening, a dropout, gradients of sums and broadcasts."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [batch, 12, 12, 3])
    labels = v1.placeholder(tf.int32, [batch])
    x = tf.nn.conv2d(x, _variable(tf, 3, 3, 3, 8), 1, "SAME") + _variable(tf, 8)
    x = tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, "SAME")
    x = tf.concat([x, tf.nn.avg_pool2d(x, 3, 1, "SAME")], 3)
    x = tf.nn.dropout(tf.reshape(x, [batch, 6 * 6 * 16]), 0.5)
    x = tf.nn.relu(tf.matmul(x, _variable(tf, 576, 8)) + _variable(tf, 8))
    _trained(tf, tf.matmul(x, _variable(tf, 8, CLASSES)), labels)


def channels_first(tf: Any, batch: int) -> None:
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [batch, 3, 8, 8])
    for inner in (3, 8):
        x = tf.nn.bias_add(tf.nn.conv2d(x, _variable(tf, 3, 3, inner, 8), 1, "SAME", data_format="NCHW"),
                           _variable(tf, 8), data_format="NCHW")  # fmt: skip
        x = tf.reshape(tf.nn.relu(x), x.shape.as_list())
    x = tf.reduce_mean(x, [2, 3])
    _trained(tf, tf.matmul(x, _variable(tf, 8, CLASSES)), v1.placeholder(tf.int32, [batch]))


def one_hot(tf: Any, batch: int) -> None:
    """Labels as in the first tutorials: indices beside a range, made dense."""
    v1 = tf.compat.v1
    labels = v1.placeholder(tf.int32, [batch])
    index = tf.expand_dims(tf.range(0, batch), 1)
    dense = v1.sparse_to_dense(tf.concat([index, tf.expand_dims(labels, 1)], 1), tf.stack([batch, CLASSES]), 1.0, 0.0)
    logits = tf.matmul(v1.placeholder(tf.float32, [batch, 7]), _variable(tf, 7, CLASSES))
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=dense, logits=logits))
    hot = tf.reduce_sum(tf.one_hot(labels, CLASSES) * logits, 1) / tf.cast(batch, tf.float32)
    v1.train.AdamOptimizer().minimize(loss + tf.reduce_sum(hot))


def broadcasts(tf: Any, batch: int) -> None:
    """Gradients whose sums and tiles have the batch in constants."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [batch, 5, 8])
    y = x * _variable(tf, 5, 1) + tf.reduce_mean(x, 1, keepdims=True) - tf.reduce_max(x, 0)
    y = y * tf.ones([batch, 1, 8])
    z = tf.tile(_variable(tf, 1, 5, 8), [batch, 1, 1]) * y + tf.zeros_like(x)
    a, b = tf.split(tf.pad(z, [[0, 0], [1, 1], [0, 0]]), 2, 2)
    loss = tf.reduce_sum(tf.square(a - b)) / batch
    v1.train.GradientDescentOptimizer(0.1).minimize(loss)


def words(tf: Any, batch: int) -> None:
    """A language model: batch times time as rows, a state of zeros, a loop over time."""
    v1 = tf.compat.v1
    tokens = v1.placeholder(tf.int32, [batch, 7])
    x = tf.nn.embedding_lookup(_variable(tf, 50, 8), tokens)
    kernel, state = _variable(tf, 16, 8), tf.zeros([batch, 8])
    held = tf.TensorArray(tf.float32, 7)
    by_time = tf.TensorArray(tf.float32, 7).unstack(tf.transpose(x, [1, 0, 2]))

    def body(i: Any, h: Any, held: Any) -> Any:
        h = tf.tanh(tf.matmul(tf.concat([by_time.read(i), h], 1), kernel))
        return i + 1, h, held.write(i, h)

    _, _, held = tf.while_loop(lambda i, *_: i < 7, body, [0, state, held])
    out = tf.reshape(tf.transpose(held.stack(), [1, 0, 2]), [batch * 7, 8])
    _trained(tf, tf.matmul(out, _variable(tf, 8, 50)), tf.reshape(tokens, [-1]))


def unrolled(tf: Any, batch: int) -> None:
    """A state variable of the batch's size, steps written out, time first."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [7, batch, 5])
    state = v1.get_variable("state", [batch, 8], trainable=False)
    h, kernel, outputs = state, _variable(tf, 13, 8), []
    for step in tf.unstack(x, axis=0):
        h = tf.tanh(tf.matmul(tf.concat([step, h], 1), kernel))
        outputs.append(h)
    v1.assign(state, h)
    logits = tf.matmul(tf.reshape(tf.concat(outputs, 1), [-1, 8]), _variable(tf, 8, CLASSES))
    _trained(tf, logits, tf.reshape(v1.placeholder(tf.int32, [batch, 7]), [batch * 7]))


def time_first(tf: Any, batch: int) -> None:
    """Steps before examples, as many as three or four batches; heads beside the examples, and rows that are joined."""
    x = tf.transpose(tf.compat.v1.placeholder(tf.float32, [batch, 24, 8]), [1, 0, 2])
    x = tf.tensordot(tf.nn.gelu(tf.tensordot(x, _variable(tf, 8, 16), 1)), _variable(tf, 16, 8), 1)
    heads = tf.transpose(tf.reshape(x, [24, batch * 2, 4]), [1, 0, 2])
    heads = tf.matmul(tf.nn.softmax(tf.matmul(heads, heads, transpose_b=True)), heads)
    x = tf.reshape(tf.transpose(heads, [1, 0, 2]), [24, batch, 8])
    x = tf.reshape(tf.reshape(x, [24 * batch, 2, 4]) * 2.0, [24, batch, 8])
    scores = tf.einsum("ibd,jbd->ijb", x, tf.concat([x, x], 0))
    shifted = tf.reshape(tf.reshape(scores, [48, 24, batch])[1:], [24, 47, batch])
    _trained(tf, tf.reduce_mean(x, 0) * tf.reduce_mean(shifted), tf.compat.v1.placeholder(tf.int32, [batch]))


def outvoted(tf: Any, batch: int) -> None:
    """Two tables of 50 rows and two masks, as a function captures them, beside the words of the examples; no loss."""
    v1 = tf.compat.v1
    tables = [v1.placeholder(tf.float32, [50, 8]) for _ in range(2)]
    masks = [v1.placeholder(tf.float32, [1, 7, 8]) for _ in range(2)]
    x = tf.gather(_variable(tf, 30, 8), v1.placeholder(tf.int32, [batch, 7]))
    for table, mask in zip(tables, masks, strict=True):
        x = tf.nn.relu(x * mask + tf.gather(table, tf.range(7)))
        x = tf.reshape(tf.matmul(tf.reshape(x, [batch * 7, 8]), _variable(tf, 8, 8)), [batch, 7, 8])


def each_example(tf: Any, batch: int) -> None:
    """A map over examples, and a branch."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [batch, 6])
    y = tf.map_fn(lambda row: tf.nn.softmax(row) * 2.0, x)
    z = tf.cond(tf.reduce_sum(y) > 0.0, lambda: y + tf.ones([batch, 6]), lambda: tf.zeros([batch, 6]))
    _trained(tf, tf.matmul(z, _variable(tf, 6, CLASSES)), v1.placeholder(tf.int32, [batch]))


def synthetic(tf: Any, batch: int) -> None:
    """As in benchmarks: no placeholder, images and labels in a variable and a random tensor."""
    v1 = tf.compat.v1
    images = v1.get_variable("images", initializer=tf.random.truncated_normal([batch, 8, 8, 3]), trainable=False)
    labels = tf.random.uniform([batch], 0, CLASSES, tf.int32)
    x = tf.nn.relu(tf.nn.conv2d(tf.reshape(images, [batch, 8, 8, 3]), _variable(tf, 3, 3, 3, 4), 2, "VALID"))
    _trained(tf, tf.matmul(tf.reshape(x, [batch, -1]), _variable(tf, 36, CLASSES)), tf.reshape(labels, [batch]))


def queued(tf: Any, batch: int) -> None:
    """A queue that hands out batches."""
    v1 = tf.compat.v1
    image, label = tf.random.normal([8, 8, 3]), tf.constant(3)
    images, labels = v1.train.shuffle_batch([image, label], batch, 100, 10)
    x = tf.reshape(tf.nn.conv2d(images, _variable(tf, 3, 3, 3, 4), 1, "SAME"), [batch, 256])
    _trained(tf, tf.matmul(x, _variable(tf, 256, CLASSES)), labels)


def one_by_one(tf: Any, batch: int) -> None:
    """A batch is put into a queue at once, and its examples are taken out in a loop."""
    queue = tf.queue.FIFOQueue(100, [tf.float32], [[4]])
    filled = queue.enqueue_many([tf.compat.v1.placeholder(tf.float32, [batch, 4])])
    w = _variable(tf, 4, 4)

    def body(at: Any, total: Any) -> tuple[Any, Any]:
        taken = tf.cond(tf.equal(at % 2, 0), queue.dequeue, lambda: queue.dequeue() + queue.dequeue())
        return at + 1, total + tf.matmul(taken[None], w)

    with tf.control_dependencies([filled]):
        start = tf.constant(0)
    tf.while_loop(lambda at, _: at < 3, body, [start, tf.zeros([1, 4])])


def staged(tf: Any, batch: int) -> None:
    """Batches that are kept under keys for the next step."""
    x = tf.compat.v1.placeholder(tf.float32, [batch, 4])
    area: dict[str, Any] = {"indices": [1, 0], "dtypes": [tf.float32, tf.float32], "shared_name": "area"}
    filled = tf.raw_ops.MapStage(key=tf.constant(1, tf.int64), values=[x, tf.transpose(x)], **area)
    with tf.control_dependencies([filled]):
        _, (rows, columns) = tf.raw_ops.MapUnstageNoKey(**area)
    rows.set_shape([batch, 4])
    columns.set_shape([4, batch])
    tf.identity(tf.tanh(rows) @ columns)


def dataset(tf: Any, batch: int) -> None:
    """An iterator over batches."""
    v1 = tf.compat.v1
    data = tf.data.Dataset.from_tensors((tf.zeros([9]), 1)).repeat().batch(batch, drop_remainder=True)
    x, y = v1.data.make_one_shot_iterator(data).get_next()
    x = x + tf.random.normal([batch, 9])
    _trained(tf, tf.matmul(x, _variable(tf, 9, CLASSES)), y)


def generative(tf: Any, batch: int) -> None:
    """Noise of the batch's size beside real examples."""
    v1 = tf.compat.v1
    real = v1.placeholder(tf.float32, [batch, 9])
    made = tf.matmul(tf.random.normal([batch, 4]), _variable(tf, 4, 9))
    both = tf.matmul(tf.concat([real, made], 0), _variable(tf, 9, 1))
    labels = tf.concat([tf.ones([batch, 1]), tf.zeros([batch, 1])], 0)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=both))
    v1.train.AdamOptimizer().minimize(loss)


def smoothness(tf: Any, batch: int) -> None:
    """Differences of neighbours, and those of differences: a slice of a slice has a gradient of constants alone."""
    v1 = tf.compat.v1
    x = tf.nn.conv2d(v1.placeholder(tf.float32, [batch, 9, 8, 3]), _variable(tf, 3, 3, 3, 1), 1, "SAME")

    def down(a: Any) -> Any:
        return a[:, 1:, :, :] - a[:, :-1, :, :]

    def right(a: Any) -> Any:
        return a[:, :, 1:, :] - a[:, :, :-1, :]

    parts = [down(down(x)), right(down(x)), right(right(x)), down(down(x[..., 0, tf.newaxis, ::2]))]
    loss = tf.add_n([tf.reduce_mean(tf.abs(part)) for part in parts])
    v1.train.GradientDescentOptimizer(0.1).minimize(loss)


def twice(tf: Any, batch: int) -> None:
    """Each op behind itself, so that no neighbour tells the batch to the constants of its gradient."""
    v1, image = tf.compat.v1, tf.image
    x = tf.nn.conv2d(v1.placeholder(tf.float32, [batch, 16, 16, 3]), _variable(tf, 3, 3, 3, 4), 1, "SAME")
    ops: tuple[Callable[[Any], Any], ...] = (
        lambda a: tf.nn.avg_pool2d(a, 2, 2, "SAME"),
        lambda a: tf.nn.max_pool2d(a, 2, 2, "SAME"),
        lambda a: image.resize(a, [a.shape[1] * 2, 7], "nearest"),
        lambda a: image.resize(a, [a.shape[1] * 2, 7], "bilinear"),
        lambda a: tf.pad(a, [[0, 0], [1, 1], [0, 2], [0, 0]]),
        lambda a: tf.pad(a, [[0, 0], [1, 1], [0, 2], [0, 0]], "REFLECT"),
        lambda a: tf.slice(a, [0, 1, 0, 0], [-1, a.shape[1] // 2, -1, 2]),
        lambda a: tf.slice(a, [0, 0, 0, 0], [batch, a.shape[1] - 1, -1, 2]),
        lambda a: tf.gather(a, [1, 0], axis=2),
        lambda a: tf.tile(a, [1, 2, 1, 1]),
        lambda a: tf.reverse(a, [1]),
        lambda a: tf.transpose(a, [0, 2, 1, 3]),
        lambda a: tf.cumsum(a, 1),
        lambda a: tf.reduce_max(a, 1, keepdims=True),
        lambda a: tf.stack(tf.unstack(a, axis=1), 2),
        lambda a: tf.concat(tf.split(a, 2, 3), 1),
        lambda a: tf.nn.depthwise_conv2d(a, _variable(tf, 3, 3, a.shape[3], 1), [1, 1, 1, 1], "SAME"),
        lambda a: tf.nn.conv2d_transpose(
            a, _variable(tf, 2, 2, 4, a.shape[3]), [batch, 2 * a.shape[1], 2 * a.shape[2], 4], 2
        ),
        lambda a: tf.nn.space_to_depth(a[:, : a.shape[1] // 2 * 2, : a.shape[2] // 2 * 2], 2),
        lambda a: tf.nn.local_response_normalization(a),
        lambda a: tf.clip_by_value(a * tf.ones([batch, 1, 1, 4]), -1.0, 1.0),
        lambda a: tf.where(a > 0.0, a, tf.zeros_like(a)),
        lambda a: tf.linalg.matmul(a, a, transpose_b=True)[..., :4] + tf.reduce_mean(a, [1, 2], keepdims=True)[..., :1],
        lambda a: tf.nn.softmax(tf.reshape(a, [batch, a.shape[1], -1, 4]), 1),
    )
    found = [tf.reduce_mean(tf.square(op(op(x)))) for op in ops]
    v1.train.GradientDescentOptimizer(0.1).minimize(tf.add_n(found))


def ordered(tf: Any, batch: int) -> None:
    """Sorts over the examples, a search in rows as long as the batch, a crop, a diagonal: each says it alone."""
    v1 = tf.compat.v1
    keys = v1.placeholder(tf.int64, [batch])
    places = tf.searchsorted(tf.sort(keys), keys)
    rows = v1.placeholder(tf.float32, [batch, 7])
    rows = tf.image.random_crop(tf.tile(rows, [1, 2]), [batch, 7])  # begins at random
    square = tf.linalg.set_diag(rows[:, :, None] * rows[:, None], tf.ones([batch, 7]))
    x = tf.gather(tf.matmul(tf.reduce_sum(square, 1), _variable(tf, 7, CLASSES)), places)
    _trained(tf, x, tf.cast(tf.argsort(keys, direction="DESCENDING"), tf.int32))


def by_example(tf: Any, batch: int) -> None:
    """Loops that count examples: a map, a reverse scan, and a map within a map."""
    v1 = tf.compat.v1
    x, done = v1.placeholder(tf.float32, [batch, 6]), v1.placeholder(tf.float32, [batch])
    y = tf.map_fn(lambda row: tf.reduce_sum(tf.map_fn(lambda one: one * 2.0, row)) + row, x)
    z = tf.scan(lambda a, one: one[0] + a * (1 - one[1]), (done, done), 0.0, reverse=True)
    w = tf.foldl(lambda a, row: tf.tanh(a + row), y, tf.zeros([6]))
    logits = tf.matmul(tf.concat([y + w, z[:, None]], 1), _variable(tf, 7, CLASSES))
    _trained(tf, logits, v1.placeholder(tf.int32, [batch]))


def by_row(tf: Any, batch: int) -> None:
    """Rows of a tensor that a loop takes by its counter, as autograph writes `for i in tf.range(batch)`."""
    x, w = tf.compat.v1.placeholder(tf.float32, [batch, 4]), _variable(tf, 4)
    results = tf.TensorArray(tf.float32, batch, element_shape=[4])
    limit = tf.constant(batch)

    def body(at: Any, results: Any) -> tuple[Any, Any]:
        return at + 1, results.write(at, x[at] * tf.gather(x, at) * w)

    _, results = tf.while_loop(lambda at, _: at < limit, body, [0, results])
    tf.identity(tf.tanh(results.stack()))


def by_part(tf: Any, batch: int) -> None:
    """Loops that count rows which are no batch: halves, all but one, one or two more, twice and thrice as many."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [batch, 6])
    more, twice = tf.concat([x, tf.ones([2, 6])], 0), tf.concat([x, x], 0)
    mapped = [
        *(tf.map_fn(tf.nn.softmax, rows) for rows in (*tf.split(x, 2), tf.concat([x, x[:1]], 0))),
        tf.map_fn(lambda pair: pair[0] * pair[1], (x[1:], x[:-1]), fn_output_signature=tf.float32),
        tf.map_fn(tf.nn.softmax, tf.reshape(tf.tile(x, [1, 3]), [batch * 3, 6])),
        tf.scan(lambda a, row: a + row, more, reverse=True),
    ]
    folded = tf.foldl(lambda a, row: tf.tanh(a + row), x[1:], tf.ones([6])) + tf.foldr(tf.add, twice)
    logits = tf.matmul(tf.concat(mapped, 0) + folded, _variable(tf, 6, CLASSES))
    v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(logits)))


def beside(tf: Any, batch: int) -> None:
    """Constants with a number per example that an op has beside the examples: lengths, scores, segments."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [batch, 7, 6])
    steps, lengths = tf.transpose(x, [1, 0, 2]), tf.fill([batch], 7)
    likely = tf.nn.ctc_greedy_decoder(steps, lengths)[1] + tf.nn.ctc_beam_search_decoder(steps, lengths)[1]
    kept = tf.image.non_max_suppression(x[:, 0, :4], tf.zeros([batch]), 3)
    boxes = tf.image.combined_non_max_suppression(x[:, :, None, :4], tf.zeros([batch, 7, 2]), 3, 4)[0]
    means = tf.sparse.segment_mean(x[:, 0], tf.argsort(x[:, 0, 0]), tf.zeros([batch], tf.int32))
    logits = tf.matmul(tf.reduce_sum(boxes, 1), _variable(tf, 4, CLASSES)) + likely
    with tf.control_dependencies([kept, means]):
        _trained(tf, logits, v1.placeholder(tf.int32, [batch]))


def wide(tf: Any, batch: int) -> None:
    """Wide columns of a linear model, beside dense ones."""
    v1 = tf.compat.v1
    columns = [v1.sparse_placeholder(tf.float32, [batch, 50]), v1.sparse_placeholder(tf.float32)]
    sums = [tf.sparse.sparse_dense_matmul(column, _variable(tf, 50, CLASSES)) for column in columns]
    dense = tf.matmul(v1.placeholder(tf.float32, [batch, 7]), _variable(tf, 7, CLASSES))
    _trained(tf, tf.reshape(tf.add_n(sums), [batch, CLASSES]) + dense, v1.placeholder(tf.int32, [batch]))


def recommending(tf: Any, batch: int) -> None:
    """Embeddings of sparse categories, each weighed by another sparse tensor, that interact with dense features."""
    v1, rows = tf.compat.v1, []
    for combiner in ("sum", "mean", "sqrtn"):
        ids, weights = v1.sparse_placeholder(tf.int64, [batch, 9]), v1.sparse_placeholder(tf.float32, [batch, 9])
        found = v1.nn.safe_embedding_lookup_sparse(_variable(tf, 50, 4), ids, weights, combiner=combiner)
        rows.append(tf.reshape(found, [batch, 4]))
    rows.append(tf.matmul(v1.placeholder(tf.float32, [batch, 7]), _variable(tf, 7, 4)))
    each = tf.stack(rows, 1)
    pairs = tf.reshape(tf.matmul(each, each, transpose_b=True), [batch, 16])
    _trained(tf, tf.matmul(pairs, _variable(tf, 16, CLASSES)), v1.placeholder(tf.int32, [batch]))


def sharded(tf: Any, batch: int) -> None:
    """A lookup in a table of three parts, as parameter servers hold it, for a training."""
    v1 = tf.compat.v1
    parts = v1.fixed_size_partitioner(3)
    table = v1.get_variable("table", [30, 6], partitioner=parts)
    found = v1.nn.embedding_lookup(table, v1.placeholder(tf.int32, [batch, 3]), partition_strategy="div")
    v1.train.AdamOptimizer(0.1).minimize(tf.reduce_mean(tf.reduce_sum(found, 1) ** 2))


def transcribing(tf: Any, batch: int) -> None:
    """A loss over sparse labels of sequences, and their distance from what is decoded."""
    v1 = tf.compat.v1
    sounds, lengths = v1.placeholder(tf.float32, [batch, 20, 7]), v1.placeholder(tf.int32, [batch])
    labels = v1.sparse_placeholder(tf.int32)
    x = tf.reshape(tf.matmul(tf.reshape(sounds, [-1, 7]), _variable(tf, 7, 12)), [batch, 20, 12])
    x = tf.transpose(x, [1, 0, 2])
    loss = tf.reduce_mean(v1.nn.ctc_loss(labels, x, lengths))
    decoded, _ = tf.nn.ctc_greedy_decoder(x, lengths)
    wrong = tf.reduce_mean(tf.edit_distance(tf.cast(decoded[0], tf.int32), labels))
    with tf.control_dependencies([wrong]):
        v1.train.AdamOptimizer().minimize(loss)


def neighbours(tf: Any, batch: int) -> None:
    """A convolution over a graph whose nodes are the examples, of sparse features."""
    v1 = tf.compat.v1
    near, features = v1.sparse_placeholder(tf.float32), v1.sparse_placeholder(tf.float32, [batch, 30])
    x = tf.sparse.sparse_dense_matmul(near, tf.sparse.sparse_dense_matmul(features, _variable(tf, 30, 16)))
    x = tf.sparse.sparse_dense_matmul(near, tf.matmul(tf.nn.relu(x), _variable(tf, 16, CLASSES)))
    _trained(tf, x, v1.placeholder(tf.int32, [batch]))


def by_hand(tf: Any, batch: int) -> None:
    """A sparse tensor of three placeholders, with five entries an example."""
    v1, count = tf.compat.v1, 5 * batch
    places = v1.placeholder(tf.int64, [count, 2]), v1.placeholder(tf.float32, [count]), v1.placeholder(tf.int64, [2])
    dense = tf.sparse.to_dense(tf.sparse.reorder(tf.SparseTensor(*places)))
    logits = tf.matmul(tf.reshape(dense, [batch, 30]), _variable(tf, 30, CLASSES))
    _trained(tf, logits, v1.placeholder(tf.int32, [batch]))


def beyond(tf: Any, batch: int) -> None:
    """Sizes that are the batch and something: prototypes behind the examples, one example fewer, two per example."""
    v1 = tf.compat.v1
    x, labels = v1.placeholder(tf.float32, [batch, 6]), v1.placeholder(tf.int32, [batch])
    both = tf.reshape(tf.tanh(tf.concat([x, _variable(tf, 7, 6)], 0)), [batch + 7, 2, 3])
    both = tf.reshape(both * tf.ones([batch + 7, 1, 1]), [batch + 7, 6])
    thrice = tf.reshape(tf.concat([x, x, _variable(tf, 3, 6)], 0), [2 * batch + 3, 3, 2])
    steps = tf.reshape(x[1:] - x[:-1], [batch - 1, 6])
    loss = tf.reduce_mean(both) + tf.reduce_mean(tf.square(thrice)) + tf.reduce_mean(tf.abs(steps))
    _trained(tf, tf.matmul(both[:batch], _variable(tf, 6, CLASSES)) + loss, labels)


def towers(tf: Any, batch: int) -> None:
    """Two towers, each on a half of the batch, and the mean of their gradients."""
    v1, share = tf.compat.v1, batch // 2
    x, labels = v1.placeholder(tf.float32, [batch, 6]), v1.placeholder(tf.int32, [batch])
    weights, found = (_variable(tf, 6, 5), _variable(tf, 5, CLASSES)), []
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    for piece, truth in zip(tf.split(x, 2), tf.split(labels, 2), strict=True):
        hidden = tf.tanh(tf.matmul(piece, weights[0])) * tf.ones([share, 1])
        logits = tf.matmul(tf.reshape(hidden, [share, 5]), weights[1])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=truth))
        found.append(optimizer.compute_gradients(loss + tf.reduce_mean(tf.square(hidden)), weights))
    optimizer.apply_gradients([((one[0] + other[0]) / 2, one[1]) for one, other in zip(*found, strict=True)])


def _halves(cut: Callable[[Any, Any, int], list[Any]]) -> Callable[[Any, int], Any]:
    """Two towers, each with the half of the examples that a program cuts off by numbers of its own."""

    def program(tf: Any, batch: int) -> None:
        v1 = tf.compat.v1
        x, labels = v1.placeholder(tf.float32, [batch, 4, 6]), v1.placeholder(tf.int32, [batch])
        kernel, half = _variable(tf, 24, CLASSES), batch // 2
        losses = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                logits=tf.matmul(tf.reshape(rows, [half, 24]), kernel), labels=own
            )
            for rows, own in zip(cut(tf, x, half), cut(tf, labels, half), strict=True)
        ]
        v1.train.MomentumOptimizer(0.1, 0.9).minimize(tf.add_n([tf.reduce_mean(one) for one in losses]))

    return _first(program)


def _begun(tf: Any, x: Any, half: int) -> list[Any]:
    rest = len(x.shape) - 1
    return [tf.slice(x, [at] + [0] * rest, [half] + [-1] * rest) for at in (0, half)]


def scattering(tf: Any, batch: int) -> None:
    """Ones for all examples, at the places that they say; and a crop of each picture, numbered by a range."""
    v1, raw = tf.compat.v1, tf.raw_ops
    labels = v1.placeholder(tf.int32, [batch])
    pictures, boxes = v1.placeholder(tf.float32, [batch, 9, 9, 3]), v1.placeholder(tf.float32, [batch, 4])
    places, counts, table = labels[:, None], tf.zeros([CLASSES]), tf.zeros([CLASSES, 2])
    tf.tensor_scatter_nd_add(counts, places, tf.ones([batch]))
    tf.tensor_scatter_nd_update(table, places, tf.ones([batch, 2]))
    tf.scatter_nd(places, tf.ones([batch, 2]), [CLASSES, 2])
    with v1.variable_scope("held"):
        resource, reference = _variable(tf, CLASSES, 3), _variable(tf, CLASSES)
    raw.ResourceScatterAdd(resource=resource.handle, indices=labels, updates=tf.ones([batch, 3]))
    raw.ResourceScatterNdUpdate(ref=resource.handle, indices=places, updates=tf.ones([batch, 3]))
    v1.scatter_sub(reference, labels, tf.ones([batch]))
    v1.scatter_nd_add(reference, places, tf.ones([batch]))
    tf.image.crop_and_resize(pictures, boxes, tf.range(batch), [5, 5])


def cropping(tf: Any, batch: int) -> None:
    """Crops of each picture by constant boxes, one or two of each, and a step by the sums of their maps."""
    pictures = tf.compat.v1.placeholder(tf.float32, [batch, 9, 9, 3])
    twice = np.repeat(np.arange(batch), 2).astype(np.int32)
    maps = tf.nn.conv2d(pictures, _variable(tf, 3, 3, 3, 5), 1, "SAME")
    one = tf.image.crop_and_resize(maps, tf.zeros([batch, 4]), tf.range(batch), [4, 4])
    two = tf.image.crop_and_resize(maps, tf.zeros([batch * 2, 4]), twice, [5, 5])
    ranged = tf.image.crop_and_resize(maps, tf.zeros([batch * 2, 4]), tf.repeat(tf.range(batch), 2), [6, 6])
    sums = [
        tf.reduce_mean(tf.reduce_sum(one, [1, 2])),
        tf.reduce_sum(two),
        tf.reduce_sum(tf.reduce_sum(ranged, 0) ** 2),
    ]
    tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(tf.add_n(sums))


def partly_open(tf: Any, batch: int) -> None:
    """Pictures have a batch, and labels and scores beside them leave it open."""
    x, labels = tf.compat.v1.placeholder(tf.float32, [batch, 12]), tf.compat.v1.placeholder(tf.int32, [None])
    wanted = tf.compat.v1.placeholder(tf.float32, [None, 3])
    found = tf.matmul(x, _variable(tf, 12, 3))
    _trained(tf, found * tf.reduce_mean((found - wanted) ** 2), labels)


def contrastive(tf: Any, batch: int) -> None:
    """The loss of SimCLR: each view beside all others, with labels among twice as many."""
    x, kernel = tf.compat.v1.placeholder(tf.float32, [batch, 12]), _variable(tf, 12, 5)
    one, other = (tf.math.l2_normalize(tf.matmul(scaled, kernel), -1) for scaled in (x, x * 1.1))
    labels, itself = tf.one_hot(tf.range(batch), batch * 2), tf.one_hot(tf.range(batch), batch) * 1e9
    losses = []
    for a, b in ((one, other), (other, one)):
        beside = [tf.matmul(a, b, transpose_b=True), tf.matmul(a, a, transpose_b=True) - itself]
        losses.append(tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, tf.concat(beside, 1))))
    tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(tf.add_n(losses))


def crossing(tf: Any, batch: int) -> None:
    """A table of each example by each, laid out anew; and pictures normed beside their neighbours in the batch."""
    x, pictures = (tf.compat.v1.placeholder(tf.float32, [batch, *sides]) for sides in ([12], [5, 5, 7]))
    table = tf.tensordot(tf.matmul(x, _variable(tf, 12, 5)), tf.matmul(x, _variable(tf, 12, 3)), 0)
    one = tf.reshape(pictures * _variable(tf, 7), [1, batch * 5, 5, 7])
    normed = tf.reshape(one - tf.reduce_mean(one, [1, 2], keepdims=True), [batch, 5, 5, 7])
    loss = tf.reduce_mean(table * table) + tf.reduce_mean(normed * normed)
    tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss)


def judged(tf: Any, batch: int) -> None:
    """Real and made examples through one critic, cut apart by slices: their mean scores, and kernels of all pairs."""
    x, noise = (tf.compat.v1.placeholder(tf.float32, [batch, wide]) for wide in (12, 5))
    both = tf.concat([x, tf.matmul(noise, _variable(tf, 5, 12))], 0)
    scores, found = tf.matmul(both, _variable(tf, 12, 1)), tf.matmul(both, _variable(tf, 12, 3))
    loss = tf.reduce_mean(scores[:batch]) - tf.reduce_mean(scores[batch:])
    near = tf.exp(tf.matmul(found, found, transpose_b=True))
    begin = tf.stack([0, tf.shape(x)[0]])  # a number that is computed
    across = tf.strided_slice(near, begin, tf.stack([batch, batch * 2]))
    loss += tf.reduce_mean(near[:batch, :batch]) + tf.reduce_mean(near[batch:, batch:]) - 2.0 * tf.reduce_mean(across)
    tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss)


def shaped(tf: Any, batch: int) -> None:
    """Numbers of examples that a script takes from shapes: a grid, drawn places, a shuffle in parts, ragged rows."""
    v1 = tf.compat.v1
    x, ids = v1.placeholder(tf.float32, [batch, 10, 4]), v1.placeholder(tf.int32, [batch, 11])
    lengths = v1.placeholder(tf.int32, [batch])
    count = tf.shape(x)[0]
    grid = tf.meshgrid(tf.range(count), tf.range(3), indexing="ij")[0]
    places = tf.random.uniform([count], 0, 10, tf.int32)
    picked = tf.gather_nd(x, tf.stack([tf.range(count), places], 1))
    rows = tf.gather(_variable(tf, 30, 5), tf.RaggedTensor.from_tensor(ids, lengths=lengths))
    shuffled = tf.gather(picked, tf.random.shuffle(tf.range(tf.shape(picked)[0])))
    parts = [tf.matmul(part, _variable(tf, 4, CLASSES)) for part in (shuffled[: batch // 2], shuffled[batch // 2 :])]
    loss = tf.reduce_mean(tf.reduce_sum(rows, 1)) + tf.reduce_mean(parts[0] * parts[1])
    loss += tf.reduce_mean(tf.cast(grid, tf.float32))
    v1.train.GradientDescentOptimizer(0.1).minimize(loss)


def undone(tf: Any, batch: int) -> None:
    """Gradients that only a forward input ties to the examples: pools, filters of channels, diagonals, jacobians."""
    x = tf.compat.v1.placeholder(tf.float32, [batch, 12, 12, 3])
    kernel = _variable(tf, 3, 3, 3, 2)
    by_channel = tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "SAME")
    largest = tf.nn.max_pool_with_argmax(by_channel, 2, 2, "SAME")[0]
    drawn = tf.nn.fractional_max_pool(by_channel, [1.0, 1.5, 1.5, 1.0], seed=1)[0]
    flat = tf.reshape(largest, [batch, -1])
    alike = tf.linalg.set_diag(tf.matmul(flat, flat, transpose_b=True), tf.fill([batch], -1e9))
    sums = [tf.reduce_mean(by_channel), tf.reduce_mean(largest), tf.reduce_mean(drawn), tf.reduce_mean(tf.exp(alike))]
    tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(tf.add_n(sums))
    with tf.GradientTape() as tape:
        tape.watch(flat)
        found = tf.tanh(tf.matmul(flat, _variable(tf, 216, 5)))
    tape.batch_jacobian(found, flat)


def hashed(tf: Any, batch: int) -> None:
    """Wide and deep: a sum over crossed words, of as many rows as they have, beside layers of another optimizer."""
    v1 = tf.compat.v1
    words, ages = v1.placeholder(tf.string, [batch]), v1.placeholder(tf.float32, [batch, 1])
    crossed = tf.sparse.cross_hashed([words[:, None], tf.as_string(tf.cast(ages, tf.int32))], 50)
    table, kernel = _variable(tf, 50, 1), _variable(tf, 1, 1)
    logits = tf.matmul(ages, kernel) + tf.nn.embedding_lookup_sparse(table, crossed, None, combiner="sum")
    loss = v1.losses.sigmoid_cross_entropy(ages, logits)
    v1.train.FtrlOptimizer(0.1).minimize(loss, var_list=[table])
    v1.train.AdagradOptimizer(0.1).minimize(loss, var_list=[kernel])


def outnumbered(tf: Any, batch: int) -> None:
    """A table of as many rows as a batch of 6 looks up; summed gradients lie in one row, and are parted by sizes."""
    v1 = tf.compat.v1
    tokens, labels = v1.placeholder(tf.int32, [batch, 5]), v1.placeholder(tf.int32, [batch])
    table, kernel = (v1.get_variable(name, shape, use_resource=True) for name, shape in (("t", [30, 8]), ("k", [8, 8])))
    with tf.GradientTape() as tape:
        logits = tf.matmul(tf.reduce_mean(tf.gather(table, tokens), 1), kernel)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
    gradients = [tf.convert_to_tensor(one) for one in tape.gradient(loss, [table, kernel])]
    row = tf.concat([tf.reshape(one, [-1]) for one in gradients], 0)
    parts = tf.split(row + row, [tf.size(one) for one in gradients])
    for variable, part, one in zip((table, kernel), parts, gradients, strict=True):
        variable.assign_sub(tf.reshape(part, tf.shape(one)))


def squared(tf: Any, batch: int) -> None:
    """As many features as a batch of 6 has examples, into as many units as one of 8."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [batch, 6])
    kernel = v1.get_variable("k", [6, 8], use_resource=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.matmul(x, kernel)) + tf.reduce_sum(kernel**2)
    kernel.assign_sub(tape.gradient(loss, kernel))


def sparse_words(tf: Any, batch: int) -> None:
    """A sparse tensor of what differs from zero in a dense one: looked up, multiplied, summed up, laid out again."""
    v1 = tf.compat.v1
    words, x = v1.placeholder(tf.int64, [batch, 5]), v1.placeholder(tf.float32, [batch, 7])
    table, kernel = _variable(tf, 50, 4), _variable(tf, 7, 3)
    looked_up = v1.nn.safe_embedding_lookup_sparse(table, tf.sparse.from_dense(words), combiner="mean")
    found = tf.sparse.from_dense(x)
    sums = [tf.sparse.sparse_dense_matmul(found, kernel), tf.sparse.reduce_sum(found, 1), looked_up]
    sums.append(tf.sparse.to_dense(tf.sparse.reorder(found)) * x)
    loss = tf.add_n([tf.reduce_mean(one) for one in sums])
    v1.train.GradientDescentOptimizer(0.1).minimize(loss)


PROGRAMS: dict[str, Callable[[Any, int], Any]] = {
    "convolving": _of_keras(convolving, (16, 16, 3)),
    "recurrent": _of_keras(recurrent, (5, 3)),
    "stateful": _of_keras(stateful, (5, 3)),
    "pooled": _of_keras(pooled, (9, 9, 3)),
    "attention": attention,
    # without loops and branches the graphs of both generations are the same
    **{
        program.__name__: _first(program)
        for program in (
            conv_net, channels_first, one_hot, broadcasts, unrolled, synthetic, queued, dataset, generative,
            smoothness, one_by_one, staged, twice, ordered, wide, recommending, sharded, transcribing, neighbours,
            by_hand, beyond, towers, scattering, cropping, partly_open, contrastive, crossing, judged, beside, shaped,
            undone, hashed, time_first, outvoted, outnumbered, squared, sparse_words,
        )
    },
    **{
        f"{program.__name__}_{generation}": door(program)
        for program in (words, each_example, by_example, by_part, by_row)
        for generation, door in ((1, _first), (2, _second))
    },
    "halves by sizes": _halves(lambda tf, x, half: tf.split(x, [half, half])),
    "halves by a size": _halves(lambda tf, x, half: tf.split(x, [half, -1])),
    "halves by slices": _halves(lambda tf, x, half: [x[:half], x[half : 2 * half]]),
    "halves by open slices": _halves(lambda tf, x, half: [x[:half], x[half:]]),
    "halves by begins": _halves(_begun),
    "MobileNetV3Small": of_zoo("MobileNetV3Small"),
}  # fmt: skip


def answer(payload: bytes) -> bytes:
    import os

    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf

    asked = json.loads(payload)
    made = []
    for batch in asked["batches"]:
        graph = PROGRAMS[asked["program"]](tf, batch)
        made.append(base64.b64encode(graph.as_graph_def(add_shapes=True).SerializeToString()).decode())
    return json.dumps(made).encode()


if __name__ == "__main__":
    serve(answer)
