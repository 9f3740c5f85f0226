"""Child process: how many nodes TensorFlow's importer makes of a GraphDef.

Asked: a GraphDef in bytes. Told, as JSON: the number of its nodes, or null where the importer refuses it.
"""

import json

from simulator.oracle.child import serve


def answer(payload: bytes) -> bytes:
    import tensorflow as tf

    try:
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(tf.compat.v1.GraphDef.FromString(payload), name="")
    except ValueError:
        return b"null"
    return json.dumps(len(graph.get_operations())).encode()


if __name__ == "__main__":
    serve(answer)
