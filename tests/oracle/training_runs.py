"""Child process: run training steps of graphs, and tell the values that variables have afterwards.

Asked: the GraphDef, `init` (what to run first), `steps` (fetches, feeds by tensor name) and variables, `reads`.
Told: per read its value, flat.
"""

import base64
import json
import os
from typing import Any

from simulator.oracle.child import serve


def run(tf: Any, asked: Any) -> Any:
    v1 = tf.compat.v1
    given = v1.GraphDef.FromString(base64.b64decode(asked["graph"]))
    config = v1.ConfigProto(allow_soft_placement=True, device_count={"CPU": 1})
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(given, name="")
        with v1.Session(graph=graph, config=config) as session:
            session.run(asked["init"])
            for step in asked["steps"]:
                session.run(step["fetches"], step["feeds"])
            values = session.run([read(tf, graph.get_operation_by_name(name)) for name in asked["reads"]])
            return [value.ravel().tolist() for value in values]


def read(tf: Any, variable: Any) -> Any:
    if variable.type != "VarHandleOp":
        return tf.identity(variable.outputs[0])
    return tf.raw_ops.ReadVariableOp(resource=variable.outputs[0], dtype=variable.get_attr("dtype"))


def work(payload: bytes) -> bytes:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    return json.dumps([run(tf, asked) for asked in json.loads(payload)]).encode()


if __name__ == "__main__":
    serve(work)
