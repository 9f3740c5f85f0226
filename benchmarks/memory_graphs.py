"""Steps whose memory a session of TensorFlow judges, for memory.py: each builder adds one to the default graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias  # Any: what TensorFlow makes

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
Step: TypeAlias = tuple[list[Any], dict[str, Any]]  # fetches, and what is fed
_DRAWN = np.random.default_rng(0)
_TIMES = 16  # of recurrent networks
SGD, ADAM = partial(v1.train.GradientDescentOptimizer, 0.1), partial(v1.train.AdamOptimizer, 0.1)


class Maker:
    """One step in the making."""

    def __init__(self, *, references: bool = False) -> None:
        self.fed: dict[str, Any] = {}
        self.references = references

    def given(self, *shape: int, below: int = 0) -> Any:
        """A placeholder of numbers, of whole ones below a bound."""
        value = _DRAWN.integers(0, below, shape).astype(np.int32) if below else _DRAWN.normal(0, 0.1, shape)
        found = v1.placeholder(tf.int32 if below else tf.float32, shape)
        self.fed[found.name] = value if below else value.astype(np.float32)
        return found

    def variable(self, *shape: Any) -> Any:
        """A variable of its own."""
        drawn = v1.random_normal_initializer(stddev=0.05)
        name = f"v{len(v1.global_variables())}"
        return v1.get_variable(name, shape, initializer=drawn, use_resource=not self.references)

    def dense(self, x: Any, width: int, act: Callable[[Any], Any] | None = tf.nn.relu) -> Any:
        """A layer over the last axis of two."""
        y = tf.nn.bias_add(tf.matmul(x, self.variable(x.shape[-1], width)), self.variable(width))
        return y if act is None else act(y)

    def convolution(self, x: Any, width: int, *, size: int = 3, norm: bool = True, training: bool = False) -> Any:
        """A convolution with a bias or a normalisation of its batch, and a Relu."""
        y = tf.nn.conv2d(x, self.variable(size, size, x.shape[-1], width), 1, "SAME")
        if not norm:
            return tf.nn.relu(tf.nn.bias_add(y, self.variable(width)))
        held = {} if training else {"mean": self.variable(width), "variance": self.variable(width)}
        y, *_ = v1.nn.fused_batch_norm(y, self.variable(width), self.variable(width), is_training=training, **held)
        return tf.nn.relu(y)

    def train(self, y: Any, optimizer: Callable[[], Any] = SGD, words: int = 10) -> Step:
        """A step with a loss over classes and an update."""
        labels = self.given(y.shape[0], below=words)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=self.dense(y, words, None))
        return [optimizer().minimize(tf.reduce_mean(loss))], self.fed

    def infer(self, *fetches: Any) -> Step:
        """A step that fetches these."""
        return list(fetches), self.fed


def layers(make: Maker, examples: int, width: int) -> Any:
    """Five dense layers."""
    h = make.given(examples, width)
    for _ in range(5):
        h = make.dense(h, 2 * width)
    return h


def normalised(make: Maker) -> Step:
    """Layers with a normalisation written in single ops, and residuals."""
    h = make.given(4096, 512)
    for _ in range(3):
        mean, variance = tf.nn.moments(h, [-1], keepdims=True)
        h = tf.nn.batch_normalization(h, mean, variance, make.variable(512), make.variable(512), 1e-5)
        h = h + make.dense(h, 512)
    return make.train(h)


def dropped(make: Maker) -> Step:
    """Gelu and dropout."""
    h = make.given(2048, 512)
    for _ in range(3):
        h = tf.nn.dropout(make.dense(h, 512, tf.nn.gelu), rate=0.1)
    return make.train(h, ADAM)


def attention(make: Maker, *, training: bool) -> Step:
    """Two layers of self-attention with eight heads."""
    examples, length, width, heads = 8, 256, 256, 8
    h = make.given(examples, length, width)
    for _ in range(2):
        parts = [tf.matmul(tf.reshape(h, [-1, width]), make.variable(width, width)) for _ in range(3)]
        split = [tf.reshape(part, [examples, length, heads, width // heads]) for part in parts]
        query, key, value = (tf.transpose(part, [0, 2, 1, 3]) for part in split)
        seen = tf.matmul(tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * 0.2), value)
        h = h + tf.reshape(tf.transpose(seen, [0, 2, 1, 3]), [examples, length, width])
    y = tf.reduce_mean(h, 1)
    return make.train(y, ADAM) if training else make.infer(y)


def embedding(make: Maker) -> Step:
    """Sums of embeddings, whose update is sparse."""
    table = make.variable(20_000, 128)
    return make.train(tf.reduce_sum(tf.nn.embedding_lookup(table, make.given(512, 64, below=20_000)), 1))


def images(make: Maker, *, norm: bool, training: bool) -> Step:
    """A small residual network."""
    h = make.convolution(make.given(16, 64, 64, 3), 32, norm=norm, training=training)
    h = tf.nn.max_pool2d(make.convolution(h, 32, norm=norm, training=training), 2, 2, "SAME")
    h = make.convolution(h, 64, norm=norm, training=training)
    h = tf.nn.relu(h + make.convolution(h, 64, norm=norm, training=training))
    y = tf.reduce_mean(tf.nn.avg_pool2d(h, 2, 2, "SAME"), [1, 2])
    return make.train(y, ADAM) if training else make.infer(y)


def volumes(make: Maker) -> Step:
    """Convolutions in three dimensions."""
    h = make.given(2, 16, 32, 32, 4)
    for _ in range(2):
        h = tf.nn.relu(tf.nn.conv3d(h, make.variable(3, 3, 3, h.shape[-1], 16), [1] * 5, "SAME"))
    return make.train(tf.reduce_mean(h, [1, 2, 3]))


def depthwise(make: Maker) -> Step:
    """Separable convolutions."""
    h = make.given(8, 64, 64, 16)
    for _ in range(3):
        h = tf.nn.relu6(tf.nn.depthwise_conv2d(h, make.variable(3, 3, h.shape[-1], 1), [1] * 4, "SAME"))
        h = make.convolution(h, 32, size=1, training=True)
    return make.train(tf.reduce_mean(h, [1, 2]))


def halves(make: Maker) -> Step:
    """Layers in bfloat16 with variables in float32."""
    h = tf.cast(make.given(4096, 256), tf.bfloat16)
    for _ in range(4):
        h = tf.nn.relu(tf.matmul(h, tf.cast(make.variable(h.shape[-1], 512), tf.bfloat16)))
    return make.train(tf.cast(h, tf.float32), ADAM)


def recurrent(make: Maker, *, way: str, training: bool) -> Step:
    """A recurrent network: unrolled, or by a loop of version 1 or 2 with arrays or slices."""
    (v1.enable_control_flow_v2 if "2" in way else v1.disable_control_flow_v2)()
    x, width = tf.transpose(make.given(1024, _TIMES, 64), [1, 0, 2]), 128
    weights, bias = make.variable(64 + width, width), make.variable(width)

    def cell(h: Any, part: Any) -> Any:
        part = tf.ensure_shape(part, [1024, 64])
        return tf.ensure_shape(tf.tanh(tf.matmul(tf.concat([part, h], 1), weights) + bias), [1024, width])

    h = tf.zeros([1024, width])
    if way == "unrolled":
        for time in range(_TIMES):
            h = cell(h, x[time])
    elif "slices" in way:
        start = (tf.constant(0), h)
        _, h = tf.while_loop(lambda t, _: t < _TIMES, lambda t, h: (t + 1, cell(h, x[t])), start)
    else:
        read, made = tf.TensorArray(tf.float32, _TIMES).unstack(x), tf.TensorArray(tf.float32, _TIMES)

        def body(t: Any, h: Any, made: Any) -> tuple[Any, Any, Any]:
            h = cell(h, read.read(t))
            return t + 1, h, made.write(t, h)

        _, _, made = tf.while_loop(lambda t, *_: t < _TIMES, body, (tf.constant(0), h, made))
        h = tf.reduce_mean(tf.ensure_shape(made.stack(), [_TIMES, 1024, width]), 0)
    y = tf.ensure_shape(h, [1024, width])
    return make.train(y) if training else make.infer(y)


def elementwise(make: Maker) -> Step:
    """Chains of elementwise ops, some with two readers."""
    a = make.given(1024, 4096) * 2.0
    b, c = tf.exp(a), tf.tanh(a)
    chosen = tf.where(a > 0.0, b * c, tf.zeros_like(a))
    return make.infer(tf.reduce_sum(tf.nn.gelu(chosen - a) + tf.random.normal([1024, 4096], 1.0, 2.0)))


def pieces(make: Maker) -> Step:
    """Concatenations, splits, slices, pads and views."""
    x = make.given(1024, 2048)
    a, b, c, d = tf.split(tf.concat([tf.exp(x), tf.tanh(x)], 1), 4, 1)
    e = tf.pad(a * b + c - d, [[0, 8], [8, 0]])
    rows = [tf.sin(part) for part in tf.split(tf.exp(x), 4, 0)]
    same = tf.squeeze(tf.identity(tf.expand_dims(tf.reshape(tf.exp(x), [2048, 1024]), 0)))
    return make.infer(tf.reduce_sum(e), tf.add_n(rows), tf.reduce_sum(same * 2.0))


def branch(make: Maker) -> Step:
    """A branch within a training."""
    v1.enable_control_flow_v2()
    h = make.dense(make.given(4096, 256), 512)
    h = tf.cond(tf.constant(True), lambda: tf.tanh(h) * 2.0, lambda: h - 1.0)
    return make.train(tf.ensure_shape(h, [4096, 512]))


def clipped(make: Maker) -> Step:
    """Gradients that are clipped by the norm of all, and a decay of weights."""
    h = layers(make, 256, 256)
    labels = make.given(256, below=10)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=make.dense(h, 10, None))
    weights = v1.trainable_variables()
    whole = tf.reduce_mean(loss) + 1e-4 * tf.add_n([tf.nn.l2_loss(one) for one in weights])
    gradients, _ = tf.clip_by_global_norm(tf.gradients(whole, weights), 1.0)
    return [ADAM().apply_gradients(zip(gradients, weights, strict=True))], make.fed


def queued(make: Maker) -> Step:
    """A queue between two ops."""
    queue = v1.FIFOQueue(10, [tf.float32], [[1024, 1024]])
    with tf.control_dependencies([queue.enqueue([tf.exp(make.given(1024, 1024))])]):
        return make.infer(tf.reduce_sum(tf.tanh(queue.dequeue())))


def initialised(make: Maker) -> Step:
    """The step that initialises variables."""
    layers(make, 64, 1024)
    return [v1.global_variables_initializer()], {}


GRAPHS: Mapping[str, Callable[[], Step]] = {
    "dense layers, inference": lambda: (make := Maker()).infer(layers(make, 8192, 256)),
    "dense layers, SGD": lambda: (make := Maker()).train(layers(make, 4096, 256)),
    "dense layers, reference variables": lambda: (make := Maker(references=True)).train(layers(make, 4096, 256)),
    "wide dense layers, Adam": lambda: (make := Maker()).train(layers(make, 64, 1024), ADAM),
    "the initialisation of these": lambda: initialised(Maker()),
    "clipped gradients": lambda: clipped(Maker()),
    "layer normalisation": lambda: normalised(Maker()),
    "Gelu and dropout": lambda: dropped(Maker()),
    "attention, inference": lambda: attention(Maker(), training=False),
    "attention, Adam": lambda: attention(Maker(), training=True),
    "embeddings, SGD": lambda: embedding(Maker()),
    "a vocabulary of 8,192": lambda: (make := Maker()).train(make.given(1024, 128), ADAM, words=8192),
    **{
        f"convolutions, {'batch norm' if norm else 'bias'}, {'Adam' if training else 'inference'}": partial(
            lambda norm, training: images(Maker(), norm=norm, training=training), norm, training
        )
        for norm in (False, True)
        for training in (False, True)
    },
    "depthwise convolutions": lambda: depthwise(Maker()),
    "convolutions of volumes": lambda: volumes(Maker()),
    "bfloat16": lambda: halves(Maker()),
    **{
        f"recurrent, {way}, {'SGD' if training else 'inference'}": partial(
            lambda way, training: recurrent(Maker(), way=way, training=training), way, training
        )
        for way in ("unrolled", "loop 1, arrays", "loop 2, arrays", "loop 1, slices", "loop 2, slices")
        for training in (False, True)
    },
    "elementwise": lambda: elementwise(Maker()),
    "pieces and views": lambda: pieces(Maker()),
    "a branch": lambda: branch(Maker()),
    "a queue": lambda: queued(Maker()),
}
