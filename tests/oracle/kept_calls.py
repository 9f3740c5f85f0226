"""Child process: graphs that call functions, whose calls stay single nodes; results are named "out_0" and so on."""

from collections.abc import Callable
from typing import Any

from simulator.oracle.child import serve


def dense(tf: Any, x: Any) -> list[Any]:
    """A function within a function, each with a variable that it takes along."""
    w, b = tf.Variable(tf.ones([8, 5])), tf.Variable(tf.ones([5]))

    inner = tf.function(lambda y: tf.matmul(y, w))
    outer = tf.function(lambda y: (tf.nn.relu(inner(y) + b), tf.shape(y)))
    y, size = outer(x)
    return [y, tf.reshape(y, [size[0] * 5]), outer(tf.concat([x, x], 0))[0]]


def sizes(tf: Any, x: Any) -> list[Any]:
    """A function that gets the shape to which it reshapes, and hands on what it computes of shapes."""

    def folded(y: Any, shape: Any) -> Any:
        made = tf.reshape(y, shape)
        return made, tf.concat([tf.shape(made)[1:], [1]], 0)

    fold = tf.function(folded)
    y, after = fold(x, [-1, 4])
    z, _ = fold(x, tf.stack([tf.shape(x)[0], 2, 4]))
    return [y, z, tf.reshape(tf.ones([4]), after)]


def branches(tf: Any, x: Any) -> list[Any]:
    """A kept If and a kept Case, whose branches have one shape, and of which one has another."""
    same = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(x), lambda: -x)
    other = tf.cond(tf.reduce_sum(x) > 0, lambda: x[:, :3], lambda: x[:, :4])
    one = tf.switch_case(tf.constant(1), [lambda: x * 2.0, lambda: x + 1.0, lambda: x])
    return [same, other, one]


def loop(tf: Any, x: Any) -> list[Any]:
    """A kept While with one variable that keeps its shape and another that grows."""
    _, kept, grown = tf.while_loop(
        lambda i, kept, grown: i < 4,
        lambda i, kept, grown: (i + 1, tf.matmul(kept, tf.ones([8, 8])), tf.concat([grown, kept], 0)),
        [0, x, x[:1]],
        shape_invariants=[tf.TensorShape([]), x.shape, tf.TensorShape([None, 8])],
    )
    return [kept, grown]


def nested(tf: Any, x: Any) -> list[Any]:
    """A loop and a branch within a function."""

    def step(i: Any, y: Any) -> Any:
        return i + 1, tf.cond(tf.reduce_sum(y) > 0, lambda: y + 1.0, lambda: y * 2.0)

    steps = tf.function(lambda y: tf.reduce_sum(tf.while_loop(lambda i, y: i < 3, step, [0, y])[1], 1))
    return [steps(x), steps(x[:2])]


PROGRAMS: dict[str, Callable[[Any, Any], list[Any]]] = {
    one.__name__: one for one in (dense, sizes, branches, loop, nested)
}
_LOWERING = "_lower_using_switch_merge"


def answer(payload: bytes) -> bytes:
    import os

    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 8], name="x")
        for at, result in enumerate(PROGRAMS[payload.decode()](tf, x)):
            tf.identity(result, name=f"out_{at}")
    made = graph.as_graph_def(add_shapes=True)
    for node in made.node:
        node.attr.pop(_LOWERING, None)  # else the placer's rewrite takes If and While apart
    return bytes(made.SerializeToString())


if __name__ == "__main__":
    serve(answer)
