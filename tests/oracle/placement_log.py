"""Child process: run a session with log_device_placement, and tell the graph and what it wrote to standard error."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Callable
from typing import Any

from simulator.oracle.child import serve


def captured(run: Callable[[], Any]) -> str:
    """What is written to standard error meanwhile, by C++ too."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            run()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode()


def answer(payload: bytes) -> bytes:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"  # else nothing goes to standard error
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:1"):
            x = tf.placeholder(tf.float32, [4, 4], name="x")
            w = tf.get_variable("w", [4, 4])
        y = tf.nn.relu(x @ w, name="scope/relu")
        z = tf.cond(tf.reduce_sum(y) > 0, lambda: y * 2.0, lambda: y)
        with tf.device("/cpu:2"):
            tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_mean(z), name="train")
        init = tf.global_variables_initializer()
        config = tf.ConfigProto(device_count={"CPU": 3}, log_device_placement=True, allow_soft_placement=True)
        with tf.Session(config=config) as session:
            log = captured(lambda: (session.run(init), session.run("train", {x: [[1.0] * 4] * 4})))
    graph_def = graph.as_graph_def(add_shapes=True).SerializeToString()
    return json.dumps({"graph": base64.b64encode(graph_def).decode(), "log": log}).encode()


if __name__ == "__main__":
    serve(answer)
