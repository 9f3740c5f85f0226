"""In the child process: time messages between two TensorFlow processes of this machine, each on a core of its own.

    this process: worker 0, the master and its sessions ──gRPC, 127.0.0.1──▶ another process: worker 1

A step reads `n` variables on worker 0; its values stay there, go to worker 1 at once, or one goes to and fro. Work is
processor time of all threads of a process, which other programs hardly lengthen. A hop is from the end of an op to the
start of its reader on the other side. All are less what the step takes whose values stay.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from simulator.oracle import child, peers, servers
from simulator.oracle.session import configuration, no_proxies, quiet

TASKS = ("/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1")
MANY, CHAIN = 100, 30  # messages at once, hops in a row
SMALL, LARGE = 4, 2**20  # bytes of a tensor
MANY_LARGE = 12
SETTLE_S = 0.002  # what a step leaves behind is over by then
_STAY, _SEND, _TO_AND_FRO = range(3)


def answer(question: bytes) -> bytes:
    """Time messages for at most `seconds`, on two `cores`: figures by name, each as [value, spread].

    `cluster_step`, `other_task`: what a step takes on worker 0 alone, and how much longer where it runs on worker 1.
    `hop`, `send`, `receive`: nanoseconds of a message. `hop_byte`, `send_byte`, `receive_byte`: of one of its bytes.
    """
    facts, _ = child.unpack(question)
    peer = peers.start("simulator.oracle.message_times")
    os.sched_setaffinity(0, {facts["cores"][0]})
    _prepare()
    with servers.reserved() as kept:
        ports = [kept.getsockname()[1], peers.port_of(peer)]
        addresses = {task: f"127.0.0.1:{port}" for task, port in zip(TASKS, ports, strict=True)}
        server = servers.start_reserved(TASKS[0], addresses, kept)
    peers.begin(peer, TASKS[1], addresses, core=facts["cores"][1])
    return child.pack({"figures": _measured(server.target, (os.getpid(), peer.pid), facts["seconds"])})


def _prepare() -> None:
    quiet()
    no_proxies()


def _measured(target: str, pids: Sequence[int], seconds: float) -> dict[str, list[float]]:
    """The figures of `answer`."""
    asked = [(how, nbytes) for nbytes in (SMALL, LARGE) for how in (_STAY, _SEND, _TO_AND_FRO)]
    steps = {one: _step(target, *one) for one in asked}
    nothing = [_nothing(target, task) for task in TASKS]
    seen: dict[Any, list[tuple[float, ...]]] = {one: [] for one in (*asked, 0, 1)}
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline or len(seen[0]) < 5:
            for key, step in (*steps.items(), *enumerate(nothing)):
                before, started = [_processor_ns(pid) for pid in pids], time.perf_counter_ns()
                step[1]()
                wall = time.perf_counter_ns() - started
                time.sleep(SETTLE_S)
                seen[key].append((wall, *(_processor_ns(pid) - then for pid, then in zip(pids, before, strict=True))))
    finally:
        for session, _ in (*steps.values(), *nothing):
            session.close()
    return _figures(seen)


def _figures(seen: Mapping[Any, Sequence[Sequence[float]]]) -> dict[str, list[float]]:
    low = {key: [_low(column) for column in zip(*rows, strict=True)] for key, rows in seen.items()}
    spread = {
        key: statistics.median([row[0] for row in rows]) / max(1.0, low[key][0]) - 1 for key, rows in seen.items()
    }
    found: dict[str, list[float]] = {
        "cluster_step": [low[0][0], spread[0]],
        "other_task": [max(0.0, low[1][0] - low[0][0]), spread[1]],
    }
    for name, how, column in (("hop", _TO_AND_FRO, 0), ("send", _SEND, 1), ("receive", _SEND, 2)):
        each = []
        for nbytes in (SMALL, LARGE):
            messages = _count(nbytes) if how == _SEND else min(_count(nbytes), CHAIN)
            each.append(max(0.0, low[how, nbytes][column] - low[_STAY, nbytes][column]) / messages)
        found[name] = [each[0], spread[how, SMALL]]
        found[f"{name}_byte"] = [max(0.0, each[1] - each[0]) / (LARGE - SMALL), spread[how, LARGE]]
    return found


def _low(column: Sequence[float]) -> float:
    """The lower quartile."""
    return statistics.quantiles(column, n=4)[0]


def _count(nbytes: int) -> int:
    return MANY if nbytes == SMALL else MANY_LARGE


def _processor_ns(pid: int) -> int:
    """Nanoseconds for which all threads of a process have run so far, those that ended too (Linux)."""
    return time.clock_gettime_ns(~pid << 3 | 2)  # its clock's number, as clock_getcpuclockid makes it


def _step(target: str, how: int, nbytes: int) -> tuple[Any, Any]:
    """A session, and a step of it that reads variables on worker 0 and, by `how`, sends their values."""
    import tensorflow as tf

    v1, count = tf.compat.v1, _count(nbytes)
    with tf.Graph().as_default() as graph:
        with tf.device(TASKS[0]):
            held = [
                v1.get_variable(f"v{nbytes}_{row}", [nbytes // 4], initializer=v1.zeros_initializer())
                for row in range(count)
            ]
            values = [tf.identity(one.read_value()) for one in held]
        if how == _TO_AND_FRO:
            last = values[0]
            for hop in range(min(count, CHAIN)):
                with tf.device(TASKS[(hop + 1) % 2]):
                    last = tf.raw_ops.Identity(input=last)
            read = [last]
        else:
            with tf.device(TASKS[int(how == _SEND)]):
                read = [tf.raw_ops.Identity(input=one) for one in values]
        # where they are read: a message to the other side for each would be one more
        with tf.device(read[0].device), tf.control_dependencies(read):
            done = tf.no_op()
        first = v1.global_variables_initializer()
    session = v1.Session(target, graph=graph, config=configuration(soft=False))
    session.run(first)
    return session, _warm(session, done)


def _nothing(target: str, task: str) -> tuple[Any, Any]:
    """A session, and a step of it without work on that task."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph, tf.device(task):
        done = tf.no_op()
    session = tf.compat.v1.Session(target, graph=graph, config=configuration(soft=False))
    return session, _warm(session, done)


def _warm(session: Any, done: Any) -> Any:
    step = session.make_callable(done)
    for _ in range(3):
        step()
    return step


if __name__ == "__main__":
    if sys.argv[1:] == [peers.ARGUMENT]:
        peers.be_peer(_prepare)
    child.serve(answer)
