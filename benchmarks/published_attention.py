"""Build the steps of Transformer-XL (Dai et al. 2019) whose times NVIDIA published, for published_graphs.py.

The base model for WikiText-103 in DeepLearningExamples: 16 layers, 8 heads of 64, an inner layer of 2,048, and 267,735
words in four bins. Its lengths are unknown when the graph is made, so products ask for shapes on the host. In a forward
step the memories of all layers come from the client and go back to it, 42 MB for each example. A training keeps them on
the GPU. It updates by Adam here, where NVIDIA's LAMB is compiled by XLA. As many words of each bin are taken as
WikiText has about: 87, 6, 6 and 1 of 100.
"""

from collections.abc import Sequence
from typing import Any  # Any: what TensorFlow makes

import tensorflow as tf

v1 = tf.compat.v1
LAYERS, WIDTH, HEADS, HEAD, INNER, WORDS = 16, 512, 8, 64, 2048, 267_735
ENDS = (0, 19_997, 39_997, 199_997, WORDS)  # of the bins
SHARES = (0.87, 0.06, 0.06, 0.01)
CLIP = 0.25
FAR = 400  # positions that are further apart count as this far


class Maker:
    """One copy of the model in the making."""

    def __init__(self, *, training: bool) -> None:
        self.kept = 0.9 if training else 1.0

    def dropped(self, x: Any) -> Any:
        """Dropout, in training."""
        return v1.nn.dropout(x, keep_prob=self.kept) if self.kept < 1 else x

    def dense(self, x: Any, width: int, name: str, *, bias: bool = True) -> Any:
        """A layer over the last axis of three."""
        with v1.variable_scope(name):
            y = tf.tensordot(x, v1.get_variable("kernel", [int(x.shape[-1]), width]), [[2], [0]])
            return tf.nn.bias_add(y, v1.get_variable("bias", [width])) if bias else y

    def normalised(self, x: Any) -> Any:
        """A layer's normalisation, in single ops."""
        with v1.variable_scope("norm"):
            beta, gamma = (v1.get_variable(name, [WIDTH]) for name in ("beta", "gamma"))
            mean, variance = tf.nn.moments(x, [-1], keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)

    def attended(self, x: Any, memory: Any, places: Any, biases: Sequence[Any], mask: Any) -> Any:
        """[queries, batch, WIDTH] attention with relative positions, added and normalised."""
        queries, batch, far = tf.shape(x)[0], tf.shape(x)[1], tf.shape(places)[0]
        heads = self.dense(tf.concat([memory, x], 0), 3 * HEADS * HEAD, "qkv", bias=False)
        there = tf.reshape(self.dense(places, HEADS * HEAD, "r", bias=False), [far, HEADS, HEAD])
        query, key, value = tf.split(heads, 3, -1)
        keys = tf.shape(key)[0]
        query = tf.reshape(query[-queries:], [queries, batch, HEADS, HEAD])
        key, value = (tf.reshape(one, [keys, batch, HEADS, HEAD]) for one in (key, value))
        near = contracted("ibnd,jbnd->bnij", query + biases[0], key)
        apart = _shifted(contracted("ibnd,jnd->bnij", query + biases[1], there))
        hidden = mask[None, None, :, :]
        weights = tf.nn.softmax((near + apart) * HEAD**-0.5 * (1 - hidden) - 1e30 * hidden)
        seen = contracted("bnij,jbnd->ibnd", weights, value)
        size = tf.shape(seen)
        seen = self.dense(tf.reshape(seen, [size[0], size[1], HEADS * HEAD]), WIDTH, "o", bias=False)
        return self.normalised(self.dropped(seen) + x)

    def fed_forward(self, x: Any) -> Any:
        """Two layers at each position, added and normalised."""
        inner = self.dropped(tf.nn.relu(self.dense(x, INNER, "inner")))
        return self.normalised(self.dropped(self.dense(inner, WIDTH, "outer")) + x)


def contracted(spec: str, a: Any, b: Any) -> Any:
    """An Einstein sum as TensorFlow 1 makes it: transposes, and a product of batches, with shapes by the host."""
    (left, right), out = spec.split("->")[0].split(","), spec.split("->")[1]
    both = [axis for axis in left if axis in right and axis in out]
    summed = [axis for axis in left if axis in right and axis not in out]
    rows, columns = ([axis for axis in one if axis not in other] for one, other in ((left, right), (right, left)))
    a, b = _ordered(a, left, both + rows + summed), _ordered(b, right, both + summed + columns)
    sizes = tf.shape(a), tf.shape(b)
    y = tf.matmul(_merged(a, sizes[0], len(both), len(rows)), _merged(b, sizes[1], len(both), len(summed)))
    if len(rows) > 1:
        y = tf.reshape(y, [*(sizes[0][at] for at in range(len(both + rows))), sizes[1][len(both + summed)]])
    return _ordered(y, "".join(both + rows + columns), list(out))


def _ordered(x: Any, axes: str, order: list[str]) -> Any:
    return x if list(axes) == order else tf.transpose(x, [axes.index(axis) for axis in order])


def _merged(x: Any, size: Any, batches: int, first: int) -> Any:
    """Its first axes behind those of the batch as one, if there are two."""
    if first == 1:
        return x
    kept = [size[at] for at in range(batches)]
    return tf.reshape(x, [*kept, size[batches] * size[batches + 1], size[batches + 2]])


def _shifted(x: Any) -> Any:
    """Scores by distance instead of place: each row one further."""
    size = tf.shape(x)
    x = tf.reshape(tf.pad(x, [[0, 0]] * 3 + [[1, 0]]), [size[0], size[1], size[3] + 1, size[2]])
    return tf.reshape(tf.slice(x, [0, 0, 1, 0], [-1] * 4), size)


def _mask(queries: Any, memories: Any) -> Any:
    """1 where a query may not look: ahead, and further back than others can."""
    ones = tf.ones([queries, queries])
    above, diagonal, below = (tf.linalg.band_part(ones, *sides) for sides in ((0, -1), (0, 0), (-1, 0)))
    mask = tf.concat([tf.zeros([queries, memories]), above - diagonal], 1)
    return tf.concat([mask[:, :queries] + below - diagonal, mask[:, queries:]], 1)


def _places(keys: Any) -> Any:
    distance = tf.minimum(tf.range(tf.cast(keys, tf.float32) - 1, -1, -1.0), FAR)
    waves = distance[:, None] * (1 / (10_000 ** (tf.range(0, WIDTH, 2.0) / WIDTH)))
    return tf.ensure_shape(tf.concat([tf.sin(waves), tf.cos(waves)], -1)[:, None, :], [None, 1, WIDTH])


def _loss(x: Any, targets: Any, table: Any, count: int) -> Any:
    """The mean loss by the adaptive softmax: a head over the frequent words and bins, a tail for each bin."""
    flat, words, loss = tf.reshape(x, [count, WIDTH]), tf.reshape(targets, [count]), tf.zeros([count])
    head: Any = None
    for number, (low, high, share) in enumerate(zip(ENDS, ENDS[1:], SHARES, strict=False)):
        weights, bias = table[low:high], v1.get_variable(f"bias{number}", [high - low])
        rows = tf.range(max(round(count * share), 1))
        word = tf.gather(words, rows)
        if number == 0:
            weights = tf.concat([weights, v1.get_variable("bins", [3, WIDTH])], 0)
            bias = tf.concat([bias, v1.get_variable("bins_bias", [3])], 0)
            projected = tf.matmul(flat, v1.get_variable("projection", [WIDTH, WIDTH]))
            head = tf.nn.log_softmax(tf.matmul(projected, tf.transpose(weights)) + bias)
            chosen = tf.gather_nd(tf.gather(head, rows), tf.stack([tf.range(tf.size(rows)), word], 1))
        else:
            tail = tf.nn.log_softmax(tf.matmul(tf.gather(flat, rows), tf.transpose(weights)) + bias)
            chosen = tf.gather(head, rows)[:, ENDS[1] + number - 1]
            chosen += tf.gather_nd(tail, tf.stack([tf.range(tf.size(rows)), word], 1))
        loss += tf.scatter_nd(rows[:, None], -chosen, [count])
    return tf.reduce_mean(loss)


def transformer_xl(batch: int, *, training: bool) -> None:
    """Make the step: 192 words with as many in memory in training, else 64 with 640."""
    words, memories = (192, 192) if training else (64, 640)
    make = Maker(training=training)
    with tf.device("/cpu:0"):
        taken = [
            v1.placeholder_with_default(tf.zeros([batch, words], tf.int32), [batch, None], name)
            for name in ("words", "targets")
        ]
        known = [v1.placeholder(tf.float32, [memories, batch, WIDTH], f"memory{layer}") for layer in range(LAYERS)]
    with tf.device("/gpu:0"):
        if training:
            shape = [memories, batch, WIDTH]
            known = [v1.get_variable(f"memory_{layer}", shape, trainable=False) for layer in range(LAYERS)]
        given, targets = (tf.transpose(one, [1, 0]) for one in taken)
        table = v1.get_variable("table", [WORDS, WIDTH])
        x = make.dropped(tf.nn.embedding_lookup(table, given) * WIDTH**0.5)
        biases = [v1.get_variable(name, [LAYERS, HEADS, HEAD]) for name in ("r_w", "r_r")]
        queries, before = tf.shape(given)[0], tf.shape(known[0])[0]
        mask, places = _mask(queries, before), make.dropped(_places(before + queries))
        kept = []
        for layer in range(LAYERS):
            kept.append(tf.stop_gradient(tf.concat([known[layer], x], 0)[-memories:]))
            with v1.variable_scope(f"layer{layer}"):
                with v1.variable_scope("attention"):
                    x = make.attended(x, known[layer], places, [bias[layer] for bias in biases], mask)
                with v1.variable_scope("forward"):
                    x = make.fed_forward(x)
        loss = _loss(make.dropped(x), targets, table, words * batch)
        if training:
            weights = v1.trainable_variables()
            found = [tf.convert_to_tensor(gradient) for gradient in tf.gradients(loss, weights)]
            clipped, _ = tf.clip_by_global_norm(found, CLIP)
            update = v1.train.AdamOptimizer(0.01).apply_gradients(zip(clipped, weights, strict=True))
            tf.group(update, *[old.assign(new) for old, new in zip(known, kept, strict=True)], name="train")
            return
    with tf.device("/cpu:0"):
        tf.group(tf.identity(loss), *map(tf.identity, kept), name="train")
