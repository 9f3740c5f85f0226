"""Child process: train steps of Keras as `tf.function` makes them, replicated by us and run beside the original.

Asked: a list of cases on the command line. Told, as a line of JSON per case: what the anatomy of the graph has found,
how many variables the original changes, and per way of replicating how far any variable is apart after two steps.
"""

import json
import os
import sys
from functools import cache
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np

from simulator.cluster.description import load_cluster
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from simulator.graph.inlining.expanding import inline
from simulator.oracle.session import configuration
from simulator.training.programs.replicated import replicate
from simulator.training.recognition.anatomy import anatomy
from simulator.training.recognition.captured import with_variables

BATCH, STEPS = 8, 2


def dense(keras: Any) -> Any:
    """With normalisation, whose moving averages are no gradients, and dropout, which counts its draws."""
    layers = keras.layers
    return [layers.Input((6,)), layers.Dense(5, "relu"), layers.BatchNormalization(), layers.Dropout(0.3)]


def words(keras: Any) -> Any:
    """With sparse gradients, and a loop."""
    return [keras.layers.Input((4,), dtype="int32"), keras.layers.Embedding(20, 5), keras.layers.LSTM(3)]


def rows(keras: Any) -> Any:
    """With rows of a table alone."""
    return [keras.layers.Input((4,), dtype="int32"), keras.layers.Embedding(20, 5), keras.layers.GlobalMaxPooling1D()]


def attention(keras: Any) -> list[Any]:
    """With weights that are reshaped before they are used."""
    first, layers = keras.layers.Input((6,)), keras.layers
    rows = layers.Reshape((3, 2))(first)
    return [keras.Model(first, layers.Flatten()(layers.MultiHeadAttention(2, 4)(rows, rows)))]


def codebook(keras: Any) -> list[Any]:
    """With codes that follow the examples nearest to them, by counts and sums of these (van den Oord 2017, A.1)."""
    ops = keras.ops

    class Codebook(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types here
        def build(self, shape: Any) -> None:
            kinds = {"codes": (shape[-1], 3), "counts": (3,), "sums": (shape[-1], 3)}
            self.held = [self.add_weight(name=one, shape=sides, trainable=False) for one, sides in kinds.items()]

        def call(self, x: Any, training: bool = False) -> Any:
            codes, counts, sums = self.held
            before = codes + 0.0
            near = ops.one_hot(ops.argmax(2 * x @ before - ops.sum(before**2, 0), -1), 3)
            if training:
                counts.assign(0.9 * counts + 0.1 * ops.mean(near, 0))
                sums.assign(0.9 * sums + 0.1 * ops.transpose(x) @ near / ops.cast(ops.shape(x)[0], "float32"))
                codes.assign(sums / (counts + 0.1))
            return near @ ops.transpose(before) + x

    return [keras.layers.Input((6,)), keras.layers.Dense(5), Codebook()]


MODELS = {"dense": dense, "words": words, "rows": rows, "fixed": rows, "attention": attention, "codebook": codebook}
WORDS = (
    "words",
    "rows",
    "fixed",
)  # the last with a batch that the file fixes, so that constants of its updates count rows


def step_of(tf: Any, keras: Any, model: Any, optimizer: Any, **options: Any) -> Any:
    """A train step as users write it, and all that it captures."""
    net = keras.Sequential([*MODELS[model](keras), keras.layers.Dense(1)])
    trainer = getattr(keras.optimizers, optimizer)(**options)
    trainer.build(net.trainable_variables)
    kind, size = tf.int32 if model in WORDS else tf.float32, BATCH if model == "fixed" else None
    x = tf.TensorSpec([size, 4 if model in WORDS else 6], kind, "x")

    @tf.function(input_signature=[x, tf.TensorSpec([size, 1], name="y")])
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(x, training=True) - y) ** 2)
        trainer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True))
        return loss

    return step


def traced(tf: Any, keras: Any, case: Any, model: str) -> Any:
    keras.backend.clear_session(free_memory=False)  # names begin anew
    net = step_of(tf, keras, model, case["optimizer"], **case["options"])
    return inline(read_graph(net.get_concrete_function().graph))


def ran(tf: Any, graph: Any, model: Any, fetches: Any, feeds: Any, copies: Any) -> Any:
    """The variables before and after the steps, by name."""
    draw = np.random.RandomState(1)
    examples, again = (BATCH, copies) if model == "dense" else (BATCH * copies, 1)
    x = draw.randint(0, 20, (examples, 4)) if model in WORDS else draw.randn(examples, 6)
    fed = {"x:0": np.concatenate([x] * again), "y:0": np.concatenate([draw.randn(examples, 1)] * again)}
    v1 = tf.compat.v1
    with tf.Graph().as_default() as made:
        message = graph_def(graph, devices=[""] * len(graph)).SerializeToString()
        tf.import_graph_def(v1.GraphDef.FromString(message), name="")
        before, reads, first = {}, {}, []
        for op in made.get_operations():
            if op.type == "VarHandleOp":
                value = before[op.name] = first_value(op)
                first.append(tf.raw_ops.AssignVariableOp(resource=op.outputs[0], value=value))
                reads[op.name] = tf.raw_ops.ReadVariableOp(resource=op.outputs[0], dtype=value.dtype)
        with v1.Session(graph=made, config=configuration(soft=True)) as session:
            session.run(first)
            for _ in range(STEPS):
                session.run(fetches, {name: fed[name] for name in feeds})
            return before, session.run(reads)


def first_value(op: Any) -> Any:
    """Alike for a variable and its mirrors."""
    name = op.name.partition("/")[2] if op.name.startswith("replica_") else op.name
    shape, kind = [dim.size for dim in op.get_attr("shape").dim], op.get_attr("dtype").as_numpy_dtype
    drawn = np.abs(np.random.RandomState(sum(name.encode())).randn(*shape)) * 0.3
    return np.asarray(drawn if np.issubdtype(kind, np.floating) else np.zeros(shape), kind)


def apart(value: Any, other: Any) -> float:
    """The largest difference of two numbers, relative to those beyond one."""
    difference = np.abs(np.asarray(value, float) - other)
    return float(np.max(difference / np.maximum(1, np.abs(other)), initial=0))


def told(tf: Any, keras: Any, case: Any) -> Any:
    graph = traced(tf, keras, case, case["model"])
    found = anatomy(with_variables(graph))
    # what the fixed one does with all examples is that of the open one
    original = with_variables(traced(tf, keras, case, "rows") if case["model"] == "fixed" else graph)
    whole = case["model"] != "dense"  # else each replica has the same: it normalises by its own batch
    differences = {}

    @cache
    def originally(copies: int) -> Any:
        return ran(tf, original, case["model"], found.step.fetches, found.step.feeds, copies)

    for how, cluster, copies in case["ways"]:
        program = replicate(graph, load_cluster(cluster), how=how, batch=BATCH)[0]
        before, after = originally(copies if whole else 1)
        ours = ran(tf, program.graph, case["model"], program.fetches, program.feeds, copies)[1]
        mirrored = {name: [name, *(f"replica_{at}/{name}" for at in range(1, copies))] for name in after}
        differences[how] = max(
            apart(ours[one], after[name]) for name, several in mirrored.items() for one in several if one in ours
        )
    names = graph.names
    return {
        "variables": len(before),
        "moved": sum(not np.array_equal(after[name], value) for name, value in before.items()),
        "gradients": len(found.gradients),
        "sparse": sum(bool(one.indices) for one in found.gradients),
        "counts": [names[row] for row in found.counts],
        "beside": len(found.slot_of),
        "differences": differences,
    }


if __name__ == "__main__":
    import tensorflow
    from tensorflow import keras as given

    for one in json.loads(sys.argv[1]):
        print(json.dumps(told(tensorflow, given, one)), flush=True)
