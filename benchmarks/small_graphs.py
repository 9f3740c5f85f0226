"""Steps of small networks, for steps.py: kernels of microseconds as well as milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any  # what TensorFlow makes

import tensorflow as tf
from memory_graphs import ADAM, Maker, Step, v1

MOMENTUM = partial(v1.train.MomentumOptimizer, 0.1, 0.9)
RMSPROP, ADAGRAD = partial(v1.train.RMSPropOptimizer, 0.1), partial(v1.train.AdagradOptimizer, 0.1)


def perceptron(make: Maker) -> Step:
    """Three layers of 64, trained by 32 examples."""
    h = make.given(32, 64)
    for _ in range(3):
        h = make.dense(h, 64)
    return make.train(h, ADAM)


def lenet(make: Maker) -> Step:
    """LeNet-5 with pooling by maxima."""
    h = make.given(32, 28, 28, 1)
    for width in (6, 16):
        h = tf.nn.max_pool2d(make.convolution(h, width, size=5, norm=False), 2, 2, "SAME")
    h = tf.reshape(h, [32, -1])
    for width in (120, 84):
        h = make.dense(h, width)
    return make.train(h, MOMENTUM)


def residual(make: Maker, images: int, *, training: bool) -> Step:
    """Six blocks of two convolutions."""
    h = make.convolution(make.given(images, 96, 96, 3), 32, size=7, training=training)
    h = tf.nn.max_pool2d(h, 3, 2, "SAME")
    for width in (32, 64, 128):
        for _ in range(2):
            same = h.shape[-1] == width
            kept = h if same else tf.nn.conv2d(h, make.variable(1, 1, h.shape[-1], width), 1, "SAME")
            for _ in range(2):
                h = make.convolution(h, width, training=training)
            h = tf.nn.relu(kept + h)
        h = tf.nn.max_pool2d(h, 2, 2, "SAME")
    return _ended(make, tf.reduce_mean(h, [1, 2]), MOMENTUM if training else None)


def separable(make: Maker, images: int, *, training: bool) -> Step:
    """Six separable convolutions, as in MobileNet."""
    h = make.convolution(make.given(images, 96, 96, 3), 16, training=training)
    for width, stride in ((32, 2), (64, 1), (64, 2), (128, 1), (128, 2), (256, 1)):
        filters = make.variable(3, 3, h.shape[-1], 1)
        h = tf.nn.relu6(tf.nn.depthwise_conv2d(h, filters, [1, stride, stride, 1], "SAME"))
        h = make.convolution(h, width, size=1, training=training)
    return _ended(make, tf.reduce_mean(h, [1, 2]), RMSPROP if training else None)


def transformer(make: Maker, examples: int, length: int, width: int, heads: int, *, training: bool) -> Step:
    """Two layers of attention with normalisation written in single ops."""

    def normalised(h: Any) -> Any:
        mean, variance = tf.nn.moments(h, [-1], keepdims=True)
        y = tf.nn.batch_normalization(h, mean, variance, make.variable(width), make.variable(width), 1e-5)
        return tf.reshape(y, [-1, width])

    def split(part: Any) -> Any:
        return tf.transpose(tf.reshape(part, [examples, length, heads, width // heads]), [0, 2, 1, 3])

    h = tf.nn.embedding_lookup(make.variable(2000, width), make.given(examples, length, below=2000))
    h = h + make.variable(length, width)
    for _ in range(2):
        x = normalised(h)
        query, key, value = (split(tf.matmul(x, make.variable(width, width))) for _ in range(3))
        seen = tf.matmul(tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * 0.2), value)
        seen = tf.reshape(tf.transpose(seen, [0, 2, 1, 3]), [-1, width])
        h = h + tf.reshape(tf.matmul(seen, make.variable(width, width)), [examples, length, width])
        inner = make.dense(make.dense(normalised(h), 4 * width, tf.nn.gelu), width, None)
        h = h + tf.reshape(inner, [examples, length, width])
    return _ended(make, tf.reduce_mean(h, 1), ADAM if training else None)


def unrolled(make: Maker, examples: int, *, training: bool) -> Step:
    """Twenty steps of an LSTM, unrolled."""
    width, times = 128, 20
    x = tf.transpose(make.given(examples, times, 64), [1, 0, 2])
    weights, bias = make.variable(64 + width, 4 * width), make.variable(4 * width)
    h = c = tf.zeros([examples, width])
    for time in range(times):
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x[time], h], 1), weights), bias)
        taken, forgotten, new, given = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(forgotten + 1.0) + tf.sigmoid(taken) * tf.tanh(new)
        h = tf.tanh(c) * tf.sigmoid(given)
    return make.train(h, RMSPROP) if training else make.infer(h)


def gated(make: Maker) -> Step:
    """Thirty steps of a gated unit, in a loop."""
    v1.disable_control_flow_v2()
    examples, times, width = 16, 30, 64
    x = tf.transpose(make.given(examples, times, 32), [1, 0, 2])
    gates, made = make.variable(32 + width, 2 * width), make.variable(32 + width, width)
    read = tf.TensorArray(tf.float32, times).unstack(x)

    def body(time: Any, h: Any) -> tuple[Any, Any]:
        part = tf.ensure_shape(read.read(time), [examples, 32])
        kept, reset = tf.split(tf.sigmoid(tf.matmul(tf.concat([part, h], 1), gates)), 2, 1)
        new = tf.tanh(tf.matmul(tf.concat([part, reset * h], 1), made))
        return time + 1, tf.ensure_shape(kept * h + (1 - kept) * new, [examples, width])

    _, h = tf.while_loop(lambda time, _: time < times, body, (0, tf.zeros([examples, width])))
    return make.train(tf.ensure_shape(h, [examples, width]))


def recommender(make: Maker) -> Step:
    """Embeddings beside numbers, and layers over both."""
    words = tf.nn.embedding_lookup(make.variable(5000, 16), make.given(256, 20, below=5000))
    h = tf.concat([tf.reshape(words, [256, -1]), make.given(256, 30)], 1)
    for width in (256, 128, 64):
        h = make.dense(h, width)
    return make.train(h, ADAGRAD)


def autoencoder(make: Maker) -> Step:
    """Layers that make their input again."""
    x = h = make.given(128, 784)
    for width in (256, 64, 256):
        h = make.dense(h, width)
    loss = tf.reduce_mean(tf.square(make.dense(h, 784, tf.sigmoid) - x))
    return [ADAM().minimize(loss)], make.fed


def segmenting(make: Maker) -> Step:
    """A small U-Net."""
    h, kept = make.given(2, 64, 64, 3), []
    for width in (16, 32):
        h = make.convolution(h, width, norm=False)
        kept.append(h)
        h = tf.nn.max_pool2d(h, 2, 2, "SAME")
    h = make.convolution(h, 64, norm=False)
    for beside in reversed(kept):
        width = beside.shape[-1]
        h = tf.nn.conv2d_transpose(h, make.variable(2, 2, width, h.shape[-1]), beside.shape, 2)
        h = make.convolution(tf.concat([h, beside], 3), width, norm=False)
    y = tf.nn.sigmoid(tf.nn.conv2d(h, make.variable(1, 1, 16, 1), 1, "SAME"))
    return [ADAM().minimize(tf.reduce_mean(tf.square(y)))], make.fed


def _ended(make: Maker, y: Any, optimizer: Callable[[], Any] | None) -> Step:
    """A training by an optimizer, or a forward step."""
    return make.infer(make.dense(y, 10, None)) if optimizer is None else make.train(y, optimizer)


SMALL: Mapping[str, Callable[[], Step]] = {
    "a perceptron, Adam": lambda: perceptron(Maker()),
    "two layers, one example": lambda: (make := Maker()).infer(make.dense(make.dense(make.given(1, 512), 512), 512)),
    "LeNet, momentum": lambda: lenet(Maker()),
    "residual, one image": lambda: residual(Maker(), 1, training=False),
    "residual, momentum": lambda: residual(Maker(), 8, training=True),
    "separable, one image": lambda: separable(Maker(), 1, training=False),
    "separable, RMSProp": lambda: separable(Maker(), 8, training=True),
    "transformer, Adam": lambda: transformer(Maker(), 4, 64, 128, 4, training=True),
    "transformer, one example": lambda: transformer(Maker(), 1, 64, 128, 4, training=False),
    "wide transformer, Adam": lambda: transformer(Maker(), 8, 128, 256, 8, training=True),
    "LSTM, unrolled, RMSProp": lambda: unrolled(Maker(), 32, training=True),
    "LSTM, unrolled, one example": lambda: unrolled(Maker(), 1, training=False),
    "gated units in a loop, SGD": lambda: gated(Maker()),
    "a recommender, Adagrad": lambda: recommender(Maker()),
    "an autoencoder, Adam": lambda: autoencoder(Maker()),
    "a U-Net, Adam": lambda: segmenting(Maker()),
}
