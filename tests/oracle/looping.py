"""Child process: a graph with a loop whose input's shape is computed, and with a queue."""

from simulator.oracle.child import serve


def answer(payload: bytes) -> bytes:
    import tensorflow.compat.v1 as tf

    tf.disable_control_flow_v2()
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 8], name="x")
        wide = tf.reshape(x, [2, -1])
        _, looped = tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s * 2.0), [tf.constant(0), wide])
        tf.identity(looped, name="looped")
        queue = tf.FIFOQueue(5, [tf.float32])
        queue.enqueue([tf.ones([3, 7])])
        tf.identity(queue.dequeue(), name="taken")
    return bytes(graph.as_graph_def().SerializeToString())


if __name__ == "__main__":
    serve(answer)
