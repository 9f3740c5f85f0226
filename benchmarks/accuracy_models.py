"""The models of `accuracy.py`: training steps whose parts may go to either of two workers.

A part is a scope: "conv/branch2". Its variables, its share of the backward pass and its update stay with it. `placed`
writes devices into a graph, so one graph serves all placements. All models read a batch that a variable holds.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeAlias

from simulator.graph.messages import GraphDef, Proto
from simulator.oracle import child

MAKE = "--make-graphs"
TIMEOUT_S = 300.0
_RATE = 1e-3  # of learning

Build: TypeAlias = Callable[[Any], Any]  # tensorflow -> the loss


@dataclass(frozen=True)
class Model:
    """A model's graph, without devices."""

    name: str
    parts: tuple[str, ...]
    graph: bytes  # GraphDef with shapes
    first: tuple[str, ...]  # nodes that give first values
    target = "train"

    @property
    def fetch(self) -> str:
        """The node that a step runs."""
        return f"{self.name}/train"


def convolution(tf: Any, units: int = 1) -> Any:
    """Six branches of three convolutions each, over one image, joined by a dense layer."""
    x = _held(tf, "stem", "images", [24, 32, 32, 16])
    with tf.name_scope("stem/"):
        x = tf.nn.relu(_convolved(tf, "stem", x, 3, 16))
    ends = []
    for row in range(6):
        name = f"branch{row}"
        with tf.name_scope(f"{name}/"):
            y = x
            for layer in range(3):
                y = tf.nn.relu(_convolved(tf, f"{name}/layer{layer}", y, 3 if row % 2 else 1 + 2 * (layer % 2), 16))
            ends.append(tf.nn.max_pool2d(y, 4, 4, "SAME"))
    with tf.name_scope("head/"):
        y = tf.concat(ends, -1)
        y = tf.reshape(y, [24, -1])
        return _loss(tf, _dense(tf, "head/dense", y, 10))


def recurrent(tf: Any) -> Any:
    """Four encoders, each a GRU in a while loop of its own length, joined by a dense layer."""
    v1 = tf.compat.v1
    ends = []
    for row in range(4):
        name = f"encoder{row}"
        steps, width = 16 + 4 * (row % 3), 224
        x = _held(tf, name, "sequence", [steps, 32, width])
        with tf.name_scope(f"{name}/"):
            gates = _variable(tf, f"{name}/gates", [2 * width, 2 * width])
            candidate = _variable(tf, f"{name}/candidate", [2 * width, width])
            read = tf.TensorArray(tf.float32, size=steps, element_shape=[32, width]).unstack(x)

            def body(
                time: Any, state: Any, read: Any = read, gates: Any = gates, candidate: Any = candidate
            ) -> tuple[Any, Any]:
                here = read.read(time)
                both = tf.sigmoid(tf.matmul(tf.concat([here, state], 1), gates))
                reset, update = tf.split(both, 2, 1)
                new = tf.tanh(tf.matmul(tf.concat([here, reset * state], 1), candidate))
                return time + 1, update * state + (1 - update) * new

            _, last = v1.while_loop(
                lambda time, _, steps=steps: time < steps,
                body,
                (tf.constant(0), tf.zeros([32, width])),
            )
            ends.append(last)
    with tf.name_scope("head/"):
        return _loss(tf, _dense(tf, "head/dense", tf.concat(ends, -1), 64))


def attention(tf: Any) -> Any:
    """Two encoders of two layers of self-attention, whose ends are compared."""
    batch, length, width, heads = 16, 64, 128, 4
    ends = []
    for tower in ("query", "document"):
        x = _held(tf, f"{tower}0", f"{tower}_tokens", [batch, length, width])
        for layer in range(2):
            name = f"{tower}{layer}"
            with tf.name_scope(f"{name}/"):
                flat = tf.reshape(x, [-1, width])
                q, k, v = (
                    tf.transpose(
                        tf.reshape(_dense(tf, f"{name}/{part}", flat, width), [batch, length, heads, width // heads]),
                        [0, 2, 1, 3],
                    )
                    for part in ("query", "key", "value")
                )
                weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * (width // heads) ** -0.5)
                mixed = tf.reshape(tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3]), [-1, width])
                flat = _normalised(tf, f"{name}/first", flat + _dense(tf, f"{name}/out", mixed, width))
                inner = tf.nn.relu(_dense(tf, f"{name}/inner", flat, 4 * width))
                flat = _normalised(tf, f"{name}/second", flat + _dense(tf, f"{name}/outer", inner, width))
                x = tf.reshape(flat, [batch, length, width])
        with tf.name_scope(f"{tower}1/"):
            ends.append(tf.reduce_mean(x, 1))
    with tf.name_scope("head/"):
        return _loss(tf, tf.matmul(ends[0], ends[1], transpose_b=True))


def embedding(tf: Any) -> Any:
    """Eight tables of 50,000 rows with a layer each, and a deep network over all of them: wide and deep."""
    ends = []
    for row in range(8):
        name = f"table{row}"
        with tf.name_scope(f"{name}/"):
            table = _variable(tf, f"{name}/rows", [50_000, 32])
            ids = _ids(tf, name, [1024, 16], 50_000)
            found = tf.reduce_mean(tf.gather(table, ids), 1)
            ends.append(tf.nn.relu(_dense(tf, f"{name}/dense", found, 64)))
    with tf.name_scope("deep0/"):
        y = tf.nn.relu(_dense(tf, "deep0/dense", tf.concat(ends, -1), 512))
    with tf.name_scope("deep1/"):
        y = tf.nn.relu(_dense(tf, "deep1/dense", y, 256))
        return _loss(tf, _dense(tf, "deep1/last", y, 16))


MODELS: Mapping[str, tuple[Build, tuple[str, ...]]] = {
    "convolution": (convolution, ("stem", *(f"branch{row}" for row in range(6)), "head")),
    "recurrent": (recurrent, (*(f"encoder{row}" for row in range(4)), "head")),
    "attention": (attention, ("query0", "query1", "document0", "document1", "head")),
    "embedding": (embedding, (*(f"table{row}" for row in range(8)), "deep0", "deep1")),
}


# --- parts of models -------------------------------------------------------------------------------------------------


def _variable(tf: Any, name: str, shape: Sequence[int], *, trainable: bool = True) -> Any:
    start = tf.compat.v1.random_uniform_initializer(-0.05, 0.05, seed=1)
    return tf.compat.v1.get_variable(name, shape, initializer=start, trainable=trainable, use_resource=True)


def _held(tf: Any, part: str, name: str, shape: Sequence[int]) -> Any:
    with tf.name_scope(f"{part}/"):
        return tf.identity(_variable(tf, f"{part}/{name}", shape, trainable=False))


def _ids(tf: Any, part: str, shape: Sequence[int], most: int) -> Any:
    start = tf.compat.v1.random_uniform_initializer(0, most, seed=1)
    held = tf.compat.v1.get_variable(
        f"{part}/ids", shape, tf.int32, initializer=start, trainable=False, use_resource=True
    )
    return tf.identity(held)


def _convolved(tf: Any, name: str, x: Any, side: int, filters: int) -> Any:
    weights = _variable(tf, f"{name}/weights", [side, side, int(x.shape[-1]), filters])
    return tf.nn.bias_add(tf.nn.conv2d(x, weights, 1, "SAME"), _variable(tf, f"{name}/bias", [filters]))


def _dense(tf: Any, name: str, x: Any, units: int) -> Any:
    weights = _variable(tf, f"{name}/weights", [int(x.shape[-1]), units])
    return tf.nn.bias_add(tf.matmul(x, weights), _variable(tf, f"{name}/bias", [units]))


def _normalised(tf: Any, name: str, x: Any) -> Any:
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
    scaled = (x - mean) * tf.math.rsqrt(variance + 1e-6)
    return scaled * _variable(tf, f"{name}/scale", [int(x.shape[-1])])


def _loss(tf: Any, logits: Any) -> Any:
    labels = tf.range(int(logits.shape[0])) % int(logits.shape[1])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


# --- in a child, which makes the graphs ------------------------------------------------------------------------------


def answer(question: bytes) -> bytes:
    """The graphs of the named models, and what gives their variables first values."""
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    import tensorflow as tf

    tf.compat.v1.disable_control_flow_v2()
    facts, _ = child.unpack(question)
    made = [_graph(tf, name) for name in facts["names"]]
    return child.pack({"first": [first for first, _ in made]}, [graph for _, graph in made])


def _graph(tf: Any, name: str) -> tuple[list[str], bytes]:
    v1 = tf.compat.v1
    build, parts = MODELS[name]
    with tf.Graph().as_default() as graph, graph.container(name), v1.variable_scope(name), tf.name_scope(f"{name}/"):
        loss = build(_Scoped(tf, name))
        variables = v1.trainable_variables()
        gradients = v1.gradients(loss, variables, name="gradients")
        done: dict[str, list[Any]] = {part: [] for part in parts}
        for variable, gradient in zip(variables, gradients, strict=True):
            part = variable.op.name.split("/")[1]
            with tf.name_scope(f"{name}/{part}/update/"):
                done[part].append(_updated(tf, variable, gradient))
        ends = []
        for part, updates in done.items():
            with tf.control_dependencies(updates), tf.name_scope(f"{name}/{part}/"):
                ends.append(tf.no_op(name="done"))
        with tf.control_dependencies(ends):
            tf.no_op(name="train")
        first = [variable.initializer.name for variable in v1.global_variables()]
        return first, graph.as_graph_def(add_shapes=True).SerializeToString(deterministic=True)


def _updated(tf: Any, variable: Any, gradient: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.raw_ops.ResourceScatterSub(
            resource=variable.handle, indices=gradient.indices, updates=gradient.values * _RATE
        )
    return tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=_RATE, delta=gradient)


class _Scoped:
    """TensorFlow, whose name scopes of parts lie in the model's."""

    def __init__(self, tf: Any, name: str) -> None:
        self._tf, self._name = tf, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tf, name)

    def name_scope(self, name: str) -> Any:
        """The scope of a part, to which several blocks may add."""
        return self._tf.name_scope(f"{self._name}/{name}")


# --- placements ------------------------------------------------------------------------------------------------------


def made(names: Sequence[str]) -> dict[str, Model]:
    """The models, built by TensorFlow in a child."""
    with child.conversation("benchmarks.accuracy_models", args=[MAKE]) as ask:
        facts, graphs = child.unpack(ask(child.pack({"names": list(names)}), TIMEOUT_S))
    return {
        name: Model(name, MODELS[name][1], graph, tuple(first))
        for name, graph, first in zip(names, graphs, facts["first"], strict=True)
    }


def placed(model: Model, where: Sequence[int], devices: Sequence[str]) -> bytes:
    """The graph with part p on device `where[p]`."""
    graph = GraphDef.FromString(model.graph)
    of = dict(zip(model.parts, where, strict=True))
    for node, part in zip(graph.node, _parts(graph, model), strict=True):
        node.device = devices[of.get(part, 0)]
        node.attr.pop("_class", None)
    return bytes(graph.SerializeToString(deterministic=True))


def _parts(graph: Proto, model: Model) -> list[str]:
    """The part of each node: by its name, else as a node that it reads, else as one that reads it."""
    inner = re.compile(rf"^{model.name}/(?:gradients(?:_\d+)?/{model.name}/)?([^/]+)/")
    index = {node.name: row for row, node in enumerate(graph.node)}
    reads = [[index[name.split(":")[0].lstrip("^")] for name in node.input] for node in graph.node]
    read_by: list[list[int]] = [[] for _ in reads]
    for row, inputs in enumerate(reads):
        for source in inputs:
            read_by[source].append(row)
    found = [match[1] if (match := inner.match(node.name)) else "" for node in graph.node]
    parts = [part if part in model.parts else "" for part in found]
    changed = True
    while changed:
        changed = False
        for near in (reads, read_by):
            for row, part in enumerate(parts):
                told = "" if part else next((parts[other] for other in near[row] if parts[other]), "")
                if told:
                    parts[row], changed = told, True
    return parts


if __name__ == "__main__":
    if find_spec("tensorflow") is None:
        sys.exit('TensorFlow is needed to measure it: pip install "simviz[tensorflow]"')
    child.serve(answer)
