"""The time of a message between two TensorFlow tasks over gRPC, and its work at each end: a table for RESULTS.md.

    python benchmarks/hops.py [--rounds N]

Two workers on one machine, each pinned to a core with one thread for ops. `hop` is from one Identity to the next in a
chain that changes sides each time, `send` and `receive` the processor time of the two processes when one sends a few
hundred tensors to the other at once; all less what the same graph takes on one worker. From these are the figures of
simulator/cluster/protocols.py, with those of messages.py. While it runs, TensorFlow's servers listen on every interface
of the machine.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

SIZES = ((4, 200), (64 * 2**10, 100), (2**20, 40), (8 * 2**20, 12))  # bytes, tensors that are sent at once
CHAIN = 40  # hops, at most the tensors
SETTLE_S = 0.002  # what a step leaves behind is over by then
LOCAL, SENT, TO_AND_FRO = range(3)


def serve(task: int, addresses: Sequence[str]) -> None:
    """Be one of the workers until killed."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[task]})
    import tensorflow as tf

    one = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    server = tf.distribute.Server({"worker": list(addresses)}, job_name="worker", task_index=task, config=one)
    print("ready", flush=True)
    server.join()


def processor_s(pid: int) -> float:
    """Seconds for which all threads of a process have run so far, those that ended too (Linux)."""
    return time.clock_gettime(~pid << 3 | 2)  # its clock's number, as clock_getcpuclockid makes it


def session(target: str, how: int, nbytes: int, count: int) -> Any:  # Any: TensorFlow's
    """A session and the op that runs a step: `count` tensors are read on worker 0 and, by `how`, sent or not."""
    import tensorflow as tf

    v1 = tf.compat.v1
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1  # L0: no constant folding
    with v1.Graph().as_default() as graph:
        with v1.device("/job:worker/task:0"):
            names = [f"v{nbytes}_{row}" for row in range(count)]  # a worker keeps variables by name
            shape, ones = [nbytes // 4], v1.ones_initializer()
            values = [v1.get_variable(n, shape, initializer=ones, use_resource=False) for n in names]
            values = [tf.identity(value) for value in values]
        if how == TO_AND_FRO:
            last = values[0]
            for hop in range(min(count, CHAIN)):
                with v1.device(f"/job:worker/task:{(hop + 1) % 2}"):
                    last = tf.identity(last)
            read = [last]
        else:
            with v1.device(f"/job:worker/task:{1 if how == SENT else 0}"):
                read = [tf.identity(value) for value in values]
        # where they are read: a message to the other side for each would be one more
        with v1.device(read[0].device), v1.control_dependencies([value.op for value in read]):
            done = v1.no_op()
        first = v1.global_variables_initializer()
    made = v1.Session(target, graph=graph, config=config)
    made.run(first)
    for _ in range(3):
        made.run(done)
    return made, done


def measured(target: str, pids: Sequence[int], nbytes: int, count: int, rounds: int) -> tuple[float, float, float]:
    """Seconds per message: processor time of the sender and of the receiver, and a hop; medians, steps in turn."""
    steps = [session(target, how, nbytes, count) for how in (LOCAL, SENT, TO_AND_FRO)]
    seen: list[list[tuple[float, ...]]] = [[], [], []]
    try:
        for _ in range(rounds):
            for how, (made, done) in enumerate(steps):
                before, started = [processor_s(pid) for pid in pids], time.perf_counter()
                made.run(done)
                wall = time.perf_counter() - started
                time.sleep(SETTLE_S)
                worked = [processor_s(pid) - then for pid, then in zip(pids, before, strict=True)]
                seen[how].append((*worked, wall))
    finally:  # before the workers end: a session without its master never closes
        for made, _ in steps:
            made.close()
    local, sent, to_and_fro = ([statistics.median(column) for column in zip(*rows, strict=True)] for rows in seen)
    hop = (to_and_fro[2] - local[2]) / min(count, CHAIN)
    return (sent[0] - local[0]) / count, (sent[1] - local[1]) / count, hop


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main() -> None:
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rounds", type=int, default=30)
    asked.add_argument("--serve", nargs="+", help=argparse.SUPPRESS)
    options = asked.parse_args()
    if find_spec("tensorflow") is None:
        sys.exit('TensorFlow is needed to measure it: pip install "simviz[tensorflow]"')
    if options.serve:
        serve(int(options.serve[0]), options.serve[1:])
        return
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    command = [sys.executable, __file__, "--serve"]
    workers = [
        subprocess.Popen([*command, str(task), *addresses], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for task in range(2)
    ]
    try:
        for worker in workers:
            if not worker.stdout or not worker.stdout.readline():
                raise SystemExit("a worker of TensorFlow did not start")
        print("| bytes | hop | send | receive | hop per byte | send | receive |\n|---|---|---|---|---|---|---|")
        for nbytes, count in SIZES:
            pids = [worker.pid for worker in workers]
            send, receive, hop = measured(f"grpc://{addresses[0]}", pids, nbytes, count, options.rounds)
            each = " | ".join(f"{seconds * 1e6:.0f} us" for seconds in (hop, send, receive))
            byte = " | ".join(f"{seconds * 1e9 / nbytes:.2f} ns" for seconds in (hop, send, receive))
            print(f"| {nbytes} | {each} | {byte if nbytes >= 2**20 else '| |'} |", flush=True)
    finally:
        for worker in workers:
            worker.kill()


if __name__ == "__main__":
    main()
