"""In the child process: make TensorFlow place and cut a graph, without running any of it.

The graph goes into the session through the C interface, so that TensorFlow sees exactly our GraphDef; Python's
`import_graph_def` would move nodes with a `_class` to the device string of the node that they name. A callable is made
for the step and never called: placing, pruning and cutting happen when it is made, so nothing has to be runnable, and
nothing from the graph's file is executed.

What TensorFlow says comes back by three ways: the placement log through C's stdio, the partition graphs of a local
session through its pass registry, which dumps every partition to stderr when told so by environment variables, and
those of a cluster through the stand-in workers that received them.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from simulator.errors import OracleError
from simulator.oracle import child

SENTENCE_CHARACTERS = 2000  # it may list every device of the cluster
# before the first import of TensorFlow, which reads them once
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # nothing between the dumped graphs but fatal errors
    "TF_ENABLE_ONEDNN_OPTS": "0",  # its rewriting of ops is a matter of this machine's CPU
    "TF_DUMP_GRAPH_PREFIX": "-",  # stderr: no file that could be left behind
    "TF_DUMP_GRAPH_NAME_FILTER": "partition",
    "TF_DUMP_GRAPH_GROUPS": "main",
    "TF_DUMP_GRAPH_FMT": "TXT",  # the binary form is cut at its first zero byte on its way to stderr
}
_LOG_LINE = re.compile(r"^(\S+): \((\S+)\): (/job:\S+)$", re.MULTILINE)
# A dump ends with the versions of its graph; within it every line of text is indented or a bracket.
_DUMPED = re.compile(r"^node \{$.*?^versions \{$.*?^\}$", re.MULTILINE | re.DOTALL)


def answer(payload: bytes) -> bytes:
    """Answer a question of `observing`.

    Asked: `counts`, this process's devices per type; `master`, the task that holds the master, or "" for a local
    session; `tasks`, name and devices of each task to be stood in for; `feeds`, `targets`, `soft`; a GraphDef as blob.
    Told: `enough`, whether this process has the GPUs; `placement`, (name, op, device) in the order of the log;
    `refusal`; `tensorflow`, its version; the partition graphs as blobs.
    """
    facts, (graph_def,) = child.unpack(payload)
    prepare(gpus=facts["counts"].get("GPU", 0) > 0)
    import tensorflow as tf

    if len(tf.config.list_physical_devices("GPU")) < facts["counts"].get("GPU", 0):
        return child.pack({"enough": False})
    config = configuration(soft=facts["soft"])
    config.device_count.update(facts["counts"])
    question = graph_def, config, facts["feeds"], facts["targets"]
    if facts["master"]:
        placement, partitions, refusal = _before_stand_ins(question, facts["tasks"], facts["master"])
    else:
        placement, dumps, refusal = observe(*question)
        partitions = partitions_of(dumps)
    told = {
        "enough": True,
        "tensorflow": tf.__version__,
        "placement": placement,
        # with the partitions in hand, the error is about making kernels, which is not what was asked
        "refusal": None if partitions else refusal,
    }
    return child.pack(told, partitions)


def _before_stand_ins(
    question: tuple[bytes, Any, Sequence[str], Sequence[str]], tasks: Sequence[Any], master: str
) -> tuple[list[tuple[str, str, str]], list[bytes], str | None]:
    """Ask a real master: a server of this process for the task `master`, stand-in workers for the other tasks."""
    workers = child.start("simulator.oracle.standin")
    assert workers.stdin is not None
    assert workers.stdout is not None
    try:
        described = [task["devices"] for task in tasks]
        workers.stdin.write(json.dumps({"tasks": described}).encode() + b"\n")
        workers.stdin.flush()
        said = workers.stdout.readline()
        if not said:
            raise OracleError("the stand-in workers did not start; is grpcio installed, and may this process listen?")
        ports = json.loads(said)["ports"]
        addresses = {task["name"]: f"127.0.0.1:{port}" for task, port in zip(tasks, ports, strict=True)}
        target = _master(master, addresses, question[1])
        placement, dumps, refusal = observe(*question, target)
        workers.stdin.close()
        _, received = child.unpack(workers.stdout.read())
    finally:
        workers.kill()
        workers.wait()
    return placement, received + partitions_of(dumps), refusal


def _master(task: str, addresses: Mapping[str, str], config: Any) -> str:
    """Start TensorFlow's server for a task; return the target for a session of this process.

    The server listens on every interface of the machine, and whoever reaches it can run anything. Nobody has to: the
    session finds its master within the process. So its sockets stop listening before it serves its first call.
    """
    import tensorflow as tf

    jobs: dict[str, dict[int, str]] = {}
    for name, address in {**addresses, task: "127.0.0.1:0"}.items():
        fields = dict(part.split(":", 1) for part in name.strip("/").split("/"))
        jobs.setdefault(fields["job"], {})[int(fields["task"])] = address
    own = dict(part.split(":", 1) for part in task.strip("/").split("/"))
    server = tf.distribute.Server(jobs, job_name=own["job"], task_index=int(own["task"]), config=config, start=False)
    for number in _sockets():
        with socket.socket(fileno=os.dup(number)) as opened:
            if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                opened.shutdown(socket.SHUT_RDWR)
    server.start()
    _SERVERS.append(server)
    return str(server.target)


def _sockets() -> Iterator[int]:
    """The descriptors of this process that are sockets."""
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        with suppress(OSError):  # the one that listed the folder is closed by now
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                yield number


_SERVERS: list[Any] = []  # a server that nobody refers to is stopped


def prepare(*, gpus: bool) -> None:
    """Set the environment that TensorFlow reads when it is imported."""
    os.environ.update(_ENVIRONMENT)
    if not gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY", "GRPC_PROXY"):
        os.environ.pop(name, None)  # gRPC would go through it even to this machine


def configuration(*, soft: bool) -> Any:
    """A ConfigProto that logs the placement and switches off whatever rewrites the graph (Grappler, folding)."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(log_device_placement=True, allow_soft_placement=soft)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    config.gpu_options.allow_growth = True  # or it would take all memory of every GPU for a graph that is not run
    return config


def observe(
    graph_def: bytes, config: Any, feeds: Sequence[str], targets: Sequence[str], master: str = ""
) -> tuple[list[tuple[str, str, str]], str, str | None]:
    """Have the graph placed and cut: (name, op, device) in the order of the log, the dumped text, and a refusal."""
    import tensorflow as tf

    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as dumped:
        kept = os.dup(1), os.dup(2)
        try:
            os.dup2(printed.fileno(), 1)
            os.dup2(dumped.fileno(), 2)
            refusal = None
            try:
                _make_callable(graph_def, config, feeds, targets, master)
            except (tf.errors.OpError, ValueError) as error:  # the importer and the shape functions raise ValueError
                refusal = sentence(str(getattr(error, "message", error)))
            ctypes.CDLL(None).fflush(None)
        finally:
            for number, original in enumerate(kept, start=1):
                os.dup2(original, number)
                os.close(original)
        return _LOG_LINE.findall(_text(printed)), _text(dumped), refusal


def sentence(message: str) -> str:
    """The first line of an error: after it TensorFlow lists kernels, members of groups and where nodes were made."""
    return message.strip().partition("\n")[0][:SENTENCE_CHARACTERS].strip()


def _make_callable(graph_def: bytes, config: Any, feeds: Sequence[str], targets: Sequence[str], master: str) -> None:
    from tensorflow.core.protobuf import config_pb2

    session = opened(graph_def, config, master)
    # The callable is kept alive by the session until the process ends; releasing it would wait for its workers.
    session._make_callable_from_options(config_pb2.CallableOptions(feed=feeds, target=targets))


def opened(graph_def: bytes, config: Any, master: str = "") -> Any:
    """A session on the graph, taken over as it stands."""
    import tensorflow as tf
    from tensorflow.python.client import pywrap_tf_session as c_api
    from tensorflow.python.framework import c_api_util

    graph = tf.Graph()
    options = c_api_util.ScopedTFImportGraphDefOptions()
    c_api.TF_ImportGraphDefOptionsSetValidateColocationConstraints(options.options, False)  # a key may name no node
    buffer = c_api.TF_NewBufferFromString(graph_def)
    with graph._c_graph.get() as c_graph:
        c_api.TF_GraphImportGraphDefWithResults(c_graph, buffer, options.options)
    c_api.TF_DeleteBuffer(buffer)
    return tf.compat.v1.Session(master, graph=graph, config=config)


def partitions_of(dumps: str) -> list[bytes]:
    """The partition graphs, one per device, each as it was first dumped: before the passes that follow the cut."""
    from google.protobuf import text_format
    from tensorflow.core.framework import graph_pb2

    first: dict[str, bytes] = {}
    for text in _DUMPED.findall(dumps):
        device = re.search(r'^  device: "(.*)"$', text, re.MULTILINE)
        if device is not None and device[1] not in first:
            first[device[1]] = text_format.Parse(text, graph_pb2.GraphDef()).SerializeToString(deterministic=True)
    return list(first.values())


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


if __name__ == "__main__":
    child.serve(answer)
