"""Record this machine's TensorFlow: `python -m tests.records.make`, as the tests replay it.

Into a folder named after the devices, e.g. tests/records/cpu=4, for the repository's example and for the graphs below,
as they ask for devices and with devices by chance.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from simulator.oracle.machine import machine
from simulator.oracle.record import cluster_of, main

HERE = Path(__file__).parent
CPUS = 4
ASKED = {
    "as_asked": (),
    "by_chance": ("--scatter", "1"),
    "by_chance_hard": ("--scatter", "1", "--hard"),  # refused, for the most part
}


def control_flow() -> bytes:
    """A training step: loops and a conditional on several devices, variables of both kinds, strings, a feed."""
    import tensorflow as tf

    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        with tf.device("/cpu:1"):
            old = v1.Variable(tf.ones((3, 3)), name="old", use_resource=False)
        new = v1.Variable(tf.ones((3,)), name="new", use_resource=True)

        def inner(j: Any, total: Any) -> tuple[Any, Any]:
            with tf.device("/cpu:2"):
                return j + 1, total * tf.constant(0.5, name="half") + new

        def outer(i: Any, total: Any) -> tuple[Any, Any]:
            with tf.device("/cpu:1"):
                _, inside = v1.while_loop(lambda j, _: j < 2, inner, (0, total), name="inner")
                return i + 1, tf.linalg.matmul(inside, old)

        _, looped = v1.while_loop(lambda i, _: i < 3, outer, (0, x), name="outer")
        with tf.device("/cpu:3"):
            size = tf.shape(looped, name="size")
            text = tf.strings.as_string(tf.reduce_sum(looped), name="text")
        chosen = v1.cond(size[0] > 1, lambda: looped + old, lambda: looped - new, name="chosen")
        loss = tf.reduce_mean(chosen, name="loss")
        with v1.control_dependencies([text]):
            rate = tf.constant(0.1, name="rate")
        train = v1.train.GradientDescentOptimizer(rate).minimize(loss, var_list=[old, new], name="train")
        v1.add_to_collection("train_op", train)
        return bytes(v1.train.export_meta_graph(graph=graph).SerializeToString(deterministic=True))


def serving() -> bytes:
    """A signature: fed and fetched on several devices."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        inputs, outputs = {}, {}
        for number in range(CPUS):
            with tf.device(f"/cpu:{number}"):
                inputs[f"x{number}"] = v1.placeholder(tf.float32, (None, 3), f"x{number}")
                outputs[f"y{number}"] = tf.nn.softmax(tf.add_n(list(inputs.values())), name=f"y{number}")
        signature = v1.saved_model.predict_signature_def(inputs, outputs)
        made = v1.train.export_meta_graph(graph=graph)
        made.signature_def["serving_default"].CopyFrom(signature)
        return bytes(made.SerializeToString(deterministic=True))


def record(cpus: int = CPUS) -> int:
    """Write the records; 0, or what the command that failed returned."""
    out = HERE / cluster_of(machine(cpus).devices)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE.parents[1] / "examples" / "ps_training.pbtxt", folder)
        (Path(folder) / "control_flow.meta").write_bytes(control_flow())
        (Path(folder) / "serving.meta").write_bytes(serving())
        done = [main([folder, "-o", str(out / name), "--cpus", str(cpus), *options]) for name, options in ASKED.items()]
    return max(done)


if __name__ == "__main__":
    sys.exit(record())
