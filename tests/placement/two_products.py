"""Child process: a graph of two independent products and their sum, which two workers can share."""

from __future__ import annotations

from simulator.oracle.child import serve

SIZE = 512


def answer(payload: bytes) -> bytes:
    import tensorflow.compat.v1 as tf

    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [SIZE, SIZE], name="x")
        w = tf.get_variable("w", [SIZE, SIZE], use_resource=True)
        left = tf.matmul(x, w, name="left")
        right = tf.matmul(w, x, name="right")
        tf.reduce_sum(left + right, name="sum")
        tf.global_variables_initializer()
    return bytes(graph.as_graph_def(add_shapes=True).SerializeToString())


if __name__ == "__main__":
    serve(answer)
