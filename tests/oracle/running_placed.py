"""Child process: import a placed graph as users do, run a step of it, and tell what the session logged of devices."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from pathlib import Path

from simulator.oracle.child import serve
from tests.oracle.placement_log import captured


def answer(payload: bytes) -> bytes:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    import tensorflow as tf

    v1 = tf.compat.v1
    asked = json.loads(payload)
    raw = base64.b64decode(asked["graph"])
    config = v1.ConfigProto(device_count={"CPU": asked["cpus"]}, log_device_placement=True, allow_soft_placement=False)
    config.operation_timeout_in_ms = asked.get("timeout_ms", 60_000)  # a step that never ends is an error
    with tf.Graph().as_default() as graph, tempfile.TemporaryDirectory() as folder:
        if asked["meta"]:
            path = Path(folder) / "placed.meta"
            path.write_bytes(raw)
            v1.train.import_meta_graph(str(path))
        else:
            tf.import_graph_def(v1.GraphDef.FromString(raw), name="")
        values: list[float] = []

        def run() -> None:
            with v1.Session(config=config) as session:
                if asked["meta"]:
                    session.run(v1.global_variables_initializer())  # of the collection of variables
                    v1.train.start_queue_runners(session)  # daemons, which the end of the session stops
                session.run([op for op in graph.get_operations() if op.name in asked["initialise"]])
                feeds = {
                    graph.get_tensor_by_name(name): [[1.0] * shape[1]] * shape[0] if shape else True
                    for name, shape in asked["feeds"].items()
                }
                for _ in range(2):
                    found = session.run(asked["fetches"], feeds)
                values.extend(float(one.sum()) for one in found if one is not None)

        log = captured(run)
    return json.dumps({"log": log, "values": values}).encode()


if __name__ == "__main__":
    serve(answer)
