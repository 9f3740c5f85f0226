"""Child process: a GraphDef or MetaGraph with the shapes that TensorFlow infers written into its nodes."""

from simulator.oracle.child import serve


def answer(payload: bytes) -> bytes:
    import tensorflow.compat.v1 as tf

    meta = tf.MetaGraphDef()
    try:
        meta.ParseFromString(payload)
        given = meta.graph_def
    except Exception:  # noqa: BLE001  # no MetaGraph: of several kinds
        given = tf.GraphDef()
    if not given.node:
        given = tf.GraphDef.FromString(payload)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(given, name="")
    return bytes(graph.as_graph_def(add_shapes=True).SerializeToString())


if __name__ == "__main__":
    serve(answer)
