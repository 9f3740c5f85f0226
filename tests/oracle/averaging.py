"""Child process: graphs that we made synchronous, run by TensorFlow's own servers, all of them in this process.

A model is built under `replica_device_setter`, given accumulators by us, and each worker's session and the chief's run
what our programs fetch, by a schedule: "0" and "1" start a step of that worker, which may have to wait for its token,
and "u" is an update. What comes of an entry is waited for, as given with it. Told, as a line of JSON per case: after
each entry the variable, the global step, the number of tokens, and how many gradients the accumulator holds.
"""

import json
import os
import socket
import sys
import threading
import time
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""

from simulator.cluster.description import load_cluster
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from simulator.training.programs.distributed import distributed
from simulator.training.regimes import read_regime

WORKERS = 2
PATIENCE_S = 10
TRIES = 5  # to find ports that stay free until they are served


def dense(tf: Any, resource: Any) -> Any:
    """w x: the gradient of w is x, whatever w is."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [], "x")
    return v1.get_variable("w", [], initializer=v1.zeros_initializer(), use_resource=resource) * x


def sparse(tf: Any, resource: Any) -> Any:
    """x (w[0] + w[x]): rows of a table, numbered by int32, in the ascending order that accumulators ask for."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [], "x")
    table = v1.get_variable("w", [4], initializer=v1.zeros_initializer(), use_resource=resource)
    return tf.reduce_sum(tf.gather(table, tf.stack([0, tf.cast(x, tf.int32)]))) * x


MODELS = {"dense": dense, "sparse": sparse}
OPTIMIZERS = {
    "sgd": lambda train: train.GradientDescentOptimizer(1.0),
    "adam": lambda train: train.AdamOptimizer(0.5),
}


def built(tf: Any, case: Any) -> Any:
    v1 = tf.compat.v1
    setter = v1.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, v1.device(setter):
        loss = MODELS[case["model"]](tf, case["resource"])
        step = v1.train.get_or_create_global_step() if case["step"] else None
        OPTIMIZERS[case["optimizer"]](v1.train).minimize(loss, global_step=step, name="minimize")
        v1.group(*[v.initializer for v in v1.global_variables()], name="init")
    return graph


def imported(tf: Any, graph: Any) -> Any:
    """Our graph in TensorFlow, with what tells its state beside it."""
    with tf.Graph().as_default() as made:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(graph_def(graph).SerializeToString()), name="")
        with tf.device("/job:ps/task:0"):
            for name, dtype in (("w", tf.float32), ("global_step", tf.int64)):
                held = made.get_tensor_by_name(f"{name}:0")
                value = tf.raw_ops.ReadVariableOp(resource=held, dtype=dtype) if held.dtype == tf.resource else held
                tf.identity(value, name=f"seen/{name}")
            tf.raw_ops.QueueSizeV2(handle=made.get_tensor_by_name("sync_replicas/token_queue:0"), name="seen/tokens")
            held = made.get_tensor_by_name("sync_replicas/w/accumulator:0")
            tf.raw_ops.AccumulatorNumAccumulated(handle=held, name="seen/gradients")
    return made


def run(tf: Any, case: Any) -> Any:
    cluster = load_cluster(f"ps=1,worker={WORKERS}")
    programs = distributed(read_graph(built(tf, case)), cluster, regime=read_regime(case["regime"]))
    servers = started(tf)  # must live as long as the sessions
    targets = [servers[1 + at % WORKERS].target for at in range(len(programs))]
    sessions = [
        tf.compat.v1.Session(target, graph=imported(tf, program.graph))
        for target, program in zip(targets, programs, strict=True)
    ]
    chief, updates = sessions[-1], programs[-1].fetches
    chief.run(["init"] if case["step"] else ["init", "global_step/Assign"])
    for worker in sessions[:-1]:
        worker.run("sync_replicas/local_step/start")
    chief.run(["sync_replicas/first_tokens"])

    def step(at: Any) -> None:
        sessions[at].run(programs[at].fetches, {"x:0": case["x"][at]})

    told = []
    busy = [threading.Thread() for _ in range(WORKERS)]
    for entry, expected in case["schedule"]:
        if entry == "u":
            chief.run(updates)
        elif entry == "free":
            freely(chief, updates, step, case["updates"])
        else:
            wait(lambda at=int(entry): not busy[at].is_alive())
            busy[int(entry)] = threading.Thread(target=step, args=(int(entry),), daemon=True)
            busy[int(entry)].start()
        told.append(seen(chief, expected))
    return told


def seen(session: Any, expected: Any) -> Any:
    """What there is, once it is as expected, else after a while."""
    names = ["seen/w:0", "seen/global_step:0", "seen/tokens:0", "seen/gradients:0"]
    found: list[Any] = []

    def looked() -> bool:
        found[:] = [value.tolist() for value in session.run(names)]
        return bool(found[1:] == expected)

    wait(looked)
    return found


def wait(for_what: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not for_what() and time.monotonic() < end:
        time.sleep(0.01)


def freely(chief: Any, updates: Any, step: Any, count: Any) -> None:
    """Workers and chief in threads of their own, until that many updates are made."""

    def works(at: Any) -> None:
        while True:
            step(at)

    for at in range(WORKERS):
        threading.Thread(target=works, args=(at,), daemon=True).start()
    for _ in range(count):
        chief.run(updates)


def started(tf: Any) -> Any:
    """A ps and the workers, on free ports of this machine: on others where somebody takes one in between."""
    for _ in range(TRIES - 1):
        try:
            return served(tf)
        except tf.errors.UnknownError:  # could not start gRPC server
            pass
    return served(tf)


def served(tf: Any) -> Any:
    """The same, on ports that were free a moment before."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(1 + WORKERS)]
    places = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    cluster = {"ps": places[:1], "worker": places[1:]}
    tasks = [("ps", 0), *(("worker", at) for at in range(WORKERS))]
    return [tf.distribute.Server(cluster, job_name=job, task_index=at) for job, at in tasks]


def main() -> None:
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    for case in json.loads(sys.argv[1]):
        print(json.dumps(run(tf, case)), flush=True)
    os._exit(0)  # threads may still wait for tokens that nobody will bring


if __name__ == "__main__":
    main()
