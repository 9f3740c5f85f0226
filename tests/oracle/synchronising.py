"""Child process: graphs that TensorFlow's own SyncReplicasOptimizer makes, or, told to aggregate nothing, does not.

Told, as a line of JSON per case: the MetaGraph, and the names of what a worker runs, what the chief runs in its loop,
and what brings the first tokens.
"""

import base64
import json
import os
import sys
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""


def built(tf: Any, case: Any) -> Any:
    v1 = tf.compat.v1
    (v1.enable_resource_variables if case["resource"] else v1.disable_resource_variables)()
    setter = v1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")
    with tf.Graph().as_default(), v1.device(setter):
        x = v1.placeholder(tf.float32, [32, 8], "x")
        rows = v1.placeholder(tf.int64, [32], "rows")
        w, b = v1.get_variable("w", [8, 4]), v1.get_variable("b", [4])
        table = v1.get_variable("table", [100, 4])
        loss = tf.reduce_mean((x @ w + b + tf.nn.embedding_lookup(table, rows)) ** 2)
        step = v1.train.get_or_create_global_step()
        if case["aggregate"] is None:
            plain = v1.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
            return {
                "meta": base64.b64encode(v1.train.export_meta_graph().SerializeToString()).decode(),
                "train": plain.name,
            }
        averages = {}
        if case["averages"]:
            average = v1.train.ExponentialMovingAverage(0.9)
            averages = {"variable_averages": average, "variables_to_average": v1.trainable_variables()}
        optimizer = v1.train.SyncReplicasOptimizer(
            v1.train.AdamOptimizer(0.1), case["aggregate"], total_num_replicas=case["total"], **averages
        )
        train = optimizer.minimize(loss, global_step=step)
        runner = optimizer.get_chief_queue_runner()
        tokens = optimizer.get_init_tokens_op(case["tokens"])
        v1.train.add_queue_runner(runner)
        return {
            "meta": base64.b64encode(v1.train.export_meta_graph().SerializeToString()).decode(),
            "train": train.name,
            "updates": [one.name for one in runner.enqueue_ops],
            "tokens": tokens.name,
        }


def main() -> None:
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    for case in json.loads(sys.argv[1]):
        print(json.dumps(built(tf, case)), flush=True)


if __name__ == "__main__":
    main()
