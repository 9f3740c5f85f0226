"""In a child process: one task of a real cluster, and the clients that live in its process.

    stdin                                                  stdout
                                                           {"port": its port on 127.0.0.1}
    {"task", "core", "addresses": {task: address},         {}: it serves
     "clients": [...]}, a GraphDef per client
    {}: open                                               {}: the sessions are open, first values are given
    {"step": clients that step from now on                 {"client", "start", "end", "notes"} after each step; of a
     until more is said, "traced"}                         traced one with StepStats
                                                           {"client", "rests"} from one that is to rest, after its step
    the end                                                the end

The port is taken before any address is sent, and stays taken, so no other process can take it. The error of a client is
the message {"client", "failed": TensorFlow's sentence}.

The graphs are executed here, so they must be trusted. Each process has two Python functions behind PyFunc ops, for
TensorFlow has no such ops. SLEEP(value, seconds) returns the value after so many seconds; meanwhile its thread of the
executor is taken and the processor is free. NOW() returns the time of the clock that all processes share, in
nanoseconds.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from simulator.oracle import child
from simulator.oracle.servers import reserved, start_reserved
from simulator.oracle.session import configuration, opened, prepare, sentence

SLEEP, NOW = "simviz_sleep", "simviz_now"  # tokens of PyFunc ops
_LOCK = threading.Lock()  # one message at a time


class Saying(Protocol):
    """Sends a message, with blobs."""

    def __call__(self, facts: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None: ...


def main() -> None:
    """Be the task that stdin describes until stdin ends."""
    child.die_with_parent()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def say(facts: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        with _LOCK:
            child.write(out, child.pack(facts, blobs))

    code = 1
    try:
        _be(say)
        code = 0
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "tensorflow":
            raise
        say({"failed": child.INSTALL})
    except Exception:  # noqa: BLE001  # the caller reports its last line
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # a step that waits for a token never ends


def _be(say: Saying) -> None:
    with reserved() as kept:
        say({"port": kept.getsockname()[1]})
        told = child.read(sys.stdin.buffer)
        if told is None:
            return
        facts, graphs = child.unpack(told)
        if facts["core"] is not None:
            os.sched_setaffinity(0, {facts["core"]})
        prepare(gpus=False)
        del os.environ["GRPC_POLL_STRATEGY"]  # no socket is exchanged here, and as it comes a hop takes less time
        functions = _register()
        server = start_reserved(facts["task"], facts["addresses"], kept)
    say({})
    if child.read(sys.stdin.buffer) is None:
        return
    try:
        steps = [_opened(server.target, client, graph) for client, graph in zip(facts["clients"], graphs, strict=True)]
    except _failures() as error:
        say({"failed": sentence(error)})
        return
    say({})
    may = {client["name"]: threading.Event() for client in facts["clients"]}
    tracing = threading.Event()
    for client, step in zip(facts["clients"], steps, strict=True):
        threading.Thread(target=_run, args=(client, step, may[client["name"]], tracing, say), daemon=True).start()
    while (told := child.read(sys.stdin.buffer)) is not None:
        asked, _ = child.unpack(told)
        if asked["step"]:
            (tracing.set if asked["traced"] else tracing.clear)()
        for name, event in may.items():
            if name in asked["step"]:
                event.set()
            else:
                event.clear()
    del functions


def _register() -> Sequence[Any]:
    """Register the functions under their tokens; they stay registered for as long as the result is kept."""
    import numpy as np
    from tensorflow.python.ops import script_ops

    def sleep(value: Any, seconds: Any) -> Any:
        time.sleep(float(seconds))
        return value

    def now() -> Any:
        return np.int64(time.monotonic_ns())

    script_ops._py_funcs._funcs.update({SLEEP: sleep, NOW: now})
    return sleep, now


def _opened(target: str, client: Mapping[str, Any], graph_def: bytes) -> Callable[..., list[Any]]:
    """A step of the client, once its variables have first values; it returns the noted values, in order."""
    from tensorflow.core.protobuf import config_pb2

    config = configuration(soft=False)
    config.log_device_placement = False
    if client["traced"]:
        return _traceable(target, client, graph_def, config)
    session = opened(graph_def, config, target)
    for targets in client["first"]:
        session._make_callable_from_options(config_pb2.CallableOptions(target=targets))()
    options = config_pb2.CallableOptions(target=client["targets"], fetch=list(client["notes"].values()))
    step: Callable[..., list[Any]] = session._make_callable_from_options(options)
    return step


def _traceable(target: str, client: Mapping[str, Any], graph_def: bytes, config: Any) -> Callable[..., list[Any]]:
    """A step that is traced where it is handed RunMetadata, and runs the same kernels where it is not.

    A master returns no StepStats to a callable.
    """
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(graph_def), name="")
    session = tf.compat.v1.Session(target, graph=graph, config=config)
    for targets in client["first"]:
        session.run([graph.get_operation_by_name(name) for name in targets])
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    wanted = [*client["notes"].values(), *(graph.get_operation_by_name(name) for name in client["targets"])]

    def step(run_metadata: Any = None) -> list[Any]:
        traced = {} if run_metadata is None else {"options": options, "run_metadata": run_metadata}
        return list(session.run(wanted, **traced)[: len(client["notes"])])

    return step


def _run(
    client: Mapping[str, Any],
    step: Callable[..., list[Any]],
    may: threading.Event,
    tracing: threading.Event,
    say: Saying,
) -> None:
    """Run steps while `may` is set, until the process ends."""
    from tensorflow.core.protobuf import config_pb2

    rests = True
    try:
        while True:
            if not may.is_set() and not rests:
                rests = True
                say({"client": client["name"], "rests": rests})
            may.wait()
            rests = False
            traced = {"run_metadata": config_pb2.RunMetadata()} if client["traced"] and tracing.is_set() else {}
            begun = time.monotonic_ns()
            values = step(**traced)
            ended = time.monotonic_ns()
            notes = {name: value.item() for name, value in zip(client["notes"], values, strict=True)}
            stats = [one.step_stats.SerializeToString() for one in traced.values()]
            say({"client": client["name"], "start": begun, "end": ended, "notes": notes}, stats)
            time.sleep(client["gap_s"])
    except _failures() as error:
        say({"client": client["name"], "failed": sentence(error)})


def _failures() -> tuple[type[Exception], ...]:
    import tensorflow as tf

    return (tf.errors.OpError, ValueError, TypeError)  # the importer raises ValueError, and TypeError for a name


if __name__ == "__main__":
    main()
