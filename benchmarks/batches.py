"""Change the batch of random models, and hold each shape against the same model that TensorFlow builds with that batch.

    python benchmarks/batches.py [--models 120] [--first 1000] [--family sequences] [--batches 2,4,8]

A model is a few blocks, drawn by chance like its sides, and a function with or without its gradient. Sides are often
the batch or multiples of it. Of `sequences` three in four have steps before examples; `images` and `layers`, those of
Keras, begin with examples. Every other model gets three times as many examples, the others one more. A line names each
model that is refused, or of which a tensor has another shape.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parents[1]))

from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.loading import load

keras: Any = tf.keras


class Sequences:
    """Blocks over steps and examples, in that order or in the other."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self.steps = chance.choice([size, 2 * size, 3 * size, 4 * size, 5, 7])
        self.width = chance.choice([8, 16, 32])
        heads = chance.choice([2, 4, size])
        self.heads = 2 if self.width % heads else heads
        self.time_first, self.tokens = chance.random() < 0.75, chance.random() < 0.5
        self.kinds = [chance.choice(list(self.BLOCKS)) for _ in range(chance.randint(1, 3))]
        width = self.width
        shapes = ((width, 2 * width), (2 * width, width), (width, 3 * width), (width, width), (3, width, width))
        self.weights = [[tf.Variable(tf.zeros(shape)) for shape in shapes] for _ in self.kinds]
        self.table = tf.Variable(tf.zeros((50, width)))

    def spec(self, batch: int) -> tf.TensorSpec:
        """The input for so many examples."""
        if self.tokens:
            return tf.TensorSpec((batch, self.steps), tf.int32, name="ids")
        return tf.TensorSpec((batch, self.steps, self.width), tf.float32, name="x")

    def variables(self) -> list[Any]:
        """All that is trained."""
        return [one for of_block in self.weights for one in of_block]

    def __call__(self, x: Any) -> Any:
        """The output of the last block."""
        self.batch = x.shape[0]
        x = tf.gather(self.table, x) if self.tokens else x
        x = tf.transpose(x, [1, 0, 2]) if self.time_first else x
        self.sides = tuple(x.shape[:2])
        for kind, weights in zip(self.kinds, self.weights, strict=True):
            x = self.BLOCKS[kind](self, x, weights)
        return tf.reshape(x, [self.sides[0] * self.sides[1], self.width])

    def _feed_forward(self, x: Any, weights: Sequence[Any]) -> Any:
        return x + tf.tensordot(tf.nn.gelu(tf.tensordot(x, weights[0], 1)), weights[1], 1)

    def _attention(self, x: Any, weights: Sequence[Any]) -> Any:
        q = tf.reshape(tf.tensordot(x, weights[3], 1), [*self.sides, self.heads, self.width // self.heads])
        scores, mixed = (
            ("ibnd,jbnd->ijbn", "ijbn,jbnd->ibnd") if self.time_first else ("bind,bjnd->bnij", "bnij,bjnd->bind")
        )
        found = tf.nn.softmax(tf.einsum(scores, q, q), 1 if self.time_first else -1)
        return x + tf.reshape(tf.einsum(mixed, found, q), [*self.sides, self.width])

    def _heads_beside_examples(self, x: Any, weights: Sequence[Any]) -> Any:
        batch, steps, heads, part = self.batch, self.steps, self.heads, self.width // self.heads
        q = tf.tensordot(x, weights[2], 1)
        if self.time_first:
            q = tf.transpose(tf.reshape(q, [steps, batch * heads, 3 * part]), [1, 0, 2])
        else:
            q = tf.transpose(tf.reshape(q, [batch, steps, heads, 3 * part]), [0, 2, 1, 3])
            q = tf.reshape(q, [batch * heads, steps, 3 * part])
        q, k, v = tf.split(q, 3, -1)
        y = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)
        if self.time_first:
            return x + tf.reshape(tf.transpose(y, [1, 0, 2]), [steps, batch, self.width])
        y = tf.transpose(tf.reshape(y, [batch, heads, steps, part]), [0, 2, 1, 3])
        return x + tf.reshape(y, [batch, steps, self.width])

    def _cell(self, x: Any, weights: Sequence[Any]) -> Any:
        axis, state, made = (0 if self.time_first else 1), tf.zeros((self.batch, self.width)), []
        for step in tf.unstack(x, axis=axis):
            state = tf.tanh(tf.matmul(step, weights[3]) + tf.matmul(state, weights[3]))
            made.append(state)
        return tf.stack(made, axis)

    def _convolution(self, x: Any, weights: Sequence[Any]) -> Any:
        y = tf.nn.conv1d(tf.transpose(x, [1, 0, 2]) if self.time_first else x, weights[4], 1, "SAME")
        return x + (tf.transpose(y, [1, 0, 2]) if self.time_first else y)

    def _shift(self, x: Any, weights: Sequence[Any]) -> Any:
        steps, batch = self.steps, self.batch
        if not self.time_first:
            scores = tf.matmul(x, tf.concat([x, x], 1), transpose_b=True)
            shifted = tf.reshape(tf.reshape(scores, [batch, 2 * steps, steps])[:, 1:], [batch, steps, 2 * steps - 1])
        else:
            scores = tf.einsum("ibd,jbd->ijb", x, tf.concat([x, x], 0))
            shifted = tf.reshape(tf.reshape(scores, [2 * steps, steps, batch])[1:], [steps, 2 * steps - 1, batch])
        return x * tf.reduce_mean(shifted)

    def _rows(self, x: Any, weights: Sequence[Any]) -> Any:
        rows = tf.reshape(x, [self.sides[0] * self.sides[1], self.heads, self.width // self.heads])
        return tf.reshape(rows * 2.0, [*self.sides, self.width])

    BLOCKS: Mapping[str, Callable[..., Any]] = {
        "feed-forward": _feed_forward, "attention": _attention, "heads beside examples": _heads_beside_examples,
        "cell": _cell, "convolution": _convolution, "shift": _shift, "rows": _rows,
    }  # fmt: skip


class Images:
    """Blocks over images of examples."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self.side, self.width = chance.choice([4, 8, 16]), chance.choice([4, 8])
        self.kinds = [chance.choice(list(self.BLOCKS)) for _ in range(chance.randint(1, 3))]
        width = self.width
        self.weights = [
            [tf.Variable(tf.zeros(one)) for one in ((3, 3, width, width), (width, width))] for _ in self.kinds
        ]

    def spec(self, batch: int) -> tf.TensorSpec:
        """The input for so many examples."""
        return tf.TensorSpec((batch, self.side, self.side, self.width), tf.float32, name="x")

    def variables(self) -> list[Any]:
        """All that is trained."""
        return [one for of_block in self.weights for one in of_block]

    def __call__(self, x: Any) -> Any:
        """The output of the last block."""
        for kind, weights in zip(self.kinds, self.weights, strict=True):
            x = self.BLOCKS[kind](self, x, weights)
        return x

    def _convolution(self, x: Any, weights: Sequence[Any]) -> Any:
        return tf.nn.relu(tf.nn.conv2d(x, weights[0], 1, "SAME"))

    def _windows(self, x: Any, weights: Sequence[Any]) -> Any:
        batch, half, width = x.shape[0], self.side // 2, self.width
        y = tf.transpose(tf.reshape(x, [batch, half, 2, half, 2, width]), [0, 1, 3, 2, 4, 5])
        y = tf.tensordot(tf.reshape(y, [-1, 4, width]), weights[1], 1)
        y = tf.reshape(tf.matmul(tf.matmul(y, y, transpose_b=True), y), [batch, half, half, 2, 2, width])
        return x + tf.reshape(tf.transpose(y, [0, 1, 3, 2, 4, 5]), x.shape)

    def _groups(self, x: Any, weights: Sequence[Any]) -> Any:
        y = tf.reshape(x, [*x.shape[:3], 2, self.width // 2])
        mean, variance = tf.nn.moments(y, [1, 2, 4], keepdims=True)
        return tf.reshape((y - mean) * tf.math.rsqrt(variance + 0.001), x.shape)

    def _frames(self, x: Any, weights: Sequence[Any]) -> Any:
        y = tf.reshape(x, [x.shape[0] * self.side, self.side, self.width])
        return x + tf.reshape(tf.tensordot(y, weights[1], 1), x.shape)

    def _views(self, x: Any, weights: Sequence[Any]) -> Any:
        one, other = tf.split(tf.nn.conv2d(tf.concat([x, tf.reverse(x, [1])], 0), weights[0], 1, "SAME"), 2)
        return one * other

    def _beams(self, x: Any, weights: Sequence[Any]) -> Any:
        y = tf.tile(tf.reduce_mean(x, [1, 2])[:, None], [1, 3, 1])
        y = tf.matmul(tf.reshape(y, [x.shape[0] * 3, self.width]), weights[1])
        return x + tf.reduce_max(tf.reshape(y, [x.shape[0], 3, self.width]), 1)[:, None, None]

    def _pairs(self, x: Any, weights: Sequence[Any]) -> Any:
        y = tf.reduce_mean(x, [1, 2])
        scores = tf.matmul(y, y, transpose_b=True) - tf.eye(x.shape[0])
        return x + tf.matmul(tf.nn.softmax(scores), y)[:, None, None]

    BLOCKS: Mapping[str, Callable[..., Any]] = {
        "convolution": _convolution, "windows": _windows, "groups": _groups, "frames": _frames, "views": _views,
        "beams": _beams, "pairs": _pairs,
    }  # fmt: skip


class Layers:
    """Layers of Keras over sequences."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self.steps, self.width, self.size = chance.choice([4, 6, 8, 16]), chance.choice([8, 16]), size
        self.kinds = [chance.choice(list(self.BLOCKS)) for _ in range(chance.randint(1, 3))]
        self.model: Any = None

    def spec(self, batch: int) -> tf.TensorSpec:
        """The input for so many examples."""
        keras.backend.clear_session()
        x = entry = keras.Input((self.steps,), batch_size=batch, dtype="int32")
        x = keras.layers.Embedding(50, self.width)(x)
        for kind in self.kinds:
            x = self.BLOCKS[kind](keras.layers, self.width, min(self.size, 4), x)
        self.model = keras.Model(entry, keras.layers.Dense(7)(keras.layers.Flatten()(x)))
        return tf.TensorSpec((batch, self.steps), tf.int32, name="ids")

    def variables(self) -> list[Any]:
        """All that is trained."""
        return [one.value for one in self.model.trainable_variables]

    def __call__(self, x: Any) -> Any:
        """The output of the last block."""
        return self.model(x, training=True)

    BLOCKS: Mapping[str, Callable[..., Any]] = {
        "LSTM": lambda k, width, heads, x: k.LSTM(width, return_sequences=True)(x),
        "GRU": lambda k, width, heads, x: k.GRU(width, return_sequences=True)(x),
        "Bidirectional": lambda k, width, heads, x: k.Bidirectional(k.LSTM(width // 2, return_sequences=True))(x),
        "MultiHeadAttention": lambda k, width, heads, x: x + k.MultiHeadAttention(heads, width // 2)(x, x),
        "Conv1D": lambda k, width, heads, x: k.Conv1D(width, 3, padding="same", activation="relu")(x),
        "TimeDistributed": lambda k, width, heads, x: k.TimeDistributed(k.Dense(width))(x),
        "LayerNormalization": lambda k, width, heads, x: k.LayerNormalization()(x),
        "Dense": lambda k, width, heads, x: k.Dropout(0.3)(k.Dense(width, activation="gelu")(x)),
        "unrolled": lambda k, width, heads, x: k.SimpleRNN(width, return_sequences=True, unroll=True)(x),
    }


FAMILIES: Mapping[str, type[Sequences] | type[Images] | type[Layers]] = {
    "sequences": Sequences,
    "images": Images,
    "layers": Layers,
}


def built(model: Any, batch: int, path: Path, *, trained: bool) -> Graph:
    """The graph of a model with that batch, as TensorFlow builds it."""

    def step(x: Any) -> Any:
        if not trained:
            return model(x)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        for gradient, variable in zip(tape.gradient(loss, model.variables()), model.variables(), strict=True):
            if gradient is not None:
                variable.assign_sub(tf.convert_to_tensor(gradient))
        return loss

    function = tf.function(step, input_signature=[model.spec(batch)])
    path.write_bytes(function.get_concrete_function().graph.as_graph_def(add_shapes=True).SerializeToString())
    return load(path)


def different(ours: Graph, theirs: Graph) -> list[str]:
    """Tensors that are read and have another shape."""
    assert ours.names == theirs.names
    pairs = enumerate(zip(ours.tensor_shape, theirs.tensor_shape, strict=True))
    read = {*ours.edge_tensor.tolist()}
    return [f"{ours.tensor_name(row)} is {a}, as built {b}" for row, (a, b) in pairs if a != b and row in read]


def main() -> int:
    """Judge the models; 1 if a shape differs without a refusal."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", type=int, default=120)
    options.add_argument("--first", type=int, default=1000, help="seed of the first one")
    options.add_argument("--family", choices=FAMILIES, default="sequences")
    options.add_argument("--batches", default="2,4,8", help="of the files, drawn by chance")
    asked = options.parse_args()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(asked.first, asked.first + asked.models):
            chance = random.Random(seed)
            size = chance.choice([int(one) for one in asked.batches.split(",")])
            model, trained = FAMILIES[asked.family](chance, size), chance.random() < 0.5
            batch = 3 * size if seed % 2 else size + 1
            path = Path(folder, "model.pb")
            theirs = built(model, batch, path, trained=trained)
            built(model, size, path, trained=trained)
            try:
                found = different(load(path, batch=batch), theirs)
            except GraphError as error:
                found = [str(error)]
                counts["refused"] += 1
            else:
                counts["different" if found else "the same"] += 1
            if found:
                print(
                    f"{seed}: {size} to {batch}, {', '.join(model.kinds)}: {len(found)}, {found[0][:200]}", flush=True
                )
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    return bool(counts["different"])


if __name__ == "__main__":
    sys.exit(main())
