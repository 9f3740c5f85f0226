"""In the child process: make TensorFlow place and cut a graph, without running any of it.

The graph enters the session through the C interface, so that TensorFlow sees exactly our GraphDef. Python's
`import_graph_def` would move nodes with a `_class` to the device string of the node that they name. A callable is made
for the step and never called. TensorFlow places, prunes and cuts when it makes the callable, so nothing has to be
runnable, and nothing from the graph's file is executed.

TensorFlow's results come back in three ways. The placement log comes through C's stdio. The partition graphs of a local
session come through its pass registry, which dumps every partition to stderr if environment variables ask for it. Those
of a cluster come through the stand-in workers that received them.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from simulator.errors import OracleError
from simulator.oracle import child, servers

MAX_PRINTED_BYTES = 2**32  # the pieces are printed more than once, and as text
SENTENCE_CHARACTERS = 2000  # it may list every device of the cluster
# before the first import of TensorFlow, which reads them once
_ENVIRONMENT = {
    "TF_ENABLE_ONEDNN_OPTS": "0",  # its rewriting of ops is a matter of this machine's CPU
    "TF_DUMP_GRAPH_PREFIX": "-",  # stderr: no file that could be left behind
    "TF_DUMP_GRAPH_NAME_FILTER": "partition",
    "TF_DUMP_GRAPH_GROUPS": "main",
    "TF_DUMP_GRAPH_FMT": "TXT",  # the binary form is cut at its first zero byte on its way to stderr
    "GRPC_FAIL_FAST": "true",  # a worker that is gone is an error, not waited for
    "GRPC_POLL_STRATEGY": "poll",  # by the numbers of descriptors, behind which `servers` exchanges sockets
}
MAX_FED = 2**28  # elements of one fed tensor: beyond that a made-up value is not worth its memory
_SPREAD = 0.1  # standard deviation of made-up values: small, so that nothing overflows
_TOO_LARGE = "Received message larger than max"  # gRPC's words for a message beyond its bound
# What Python's session puts before an error: where the nodes were made, if it is about nodes (error_interpolation.py).
_HEADED = re.compile(r"\AGraph execution error:\s*(Detected at .*?(\nNode: [^\n]*)+\n)?", re.DOTALL)
_SEVERAL = re.compile(r"\A\d+ root error\(s\) found\.\s*(\(0\) )?")  # before the first of them
_SENT = re.compile(r"\AFrom /job:[^\n]*:\s*")  # by another task, before its own sentence
_ATTACHED = re.compile(r"\[\[\{\{node [^}]+\}\}\]\]")
_LOG_LINE = re.compile(r"^(\S+): \((\S+)\): (/job:\S+)$", re.MULTILINE)
# A dump ends with the versions of its graph; within it every line of text is indented or a bracket.
_DUMPED = re.compile(r"^node \{$.*?^versions \{$.*?^\}$", re.MULTILINE | re.DOTALL)


def answering() -> Callable[[bytes], bytes]:
    """The function that answers the questions of `dry_runs`; it keeps the servers of each cluster for the next one.

    Asked:

    - `counts`, this process's devices per type
    - `master`, the task that holds the master, or "" for a local session
    - `tasks`, the other tasks, for `servers.serve`
    - `step`, what is fed, fetched and only run, as the fields of TensorFlow's CallableOptions
    - `soft`, `recv_scheduling`, and a GraphDef as blob

    Reply:

    - `enough`, whether this process has the GPUs
    - `placement`, (name, op, device) in the order of the log
    - `refusal`, and `tensorflow`, its version
    - as blobs `sent` graphs that the master sent to workers, then those that workers of this process, or the local
      session, cut for their devices
    """
    known: dict[str, tuple[str, servers.Taken]] = {}
    gpus_seen: list[bool] = []  # whether TensorFlow, once started, sees this machine's GPUs

    def answer(question: bytes) -> bytes:
        facts, (graph_def,) = child.unpack(question)
        counts = {"GPU": 0, **facts["counts"]}
        if not gpus_seen:
            prepare(gpus=counts["GPU"] > 0)
            gpus_seen.append(counts["GPU"] > 0)
        elif counts["GPU"] and not gpus_seen[0]:
            raise OracleError("TensorFlow was started without GPUs here; ask about real GPUs first, or apart")
        import tensorflow as tf

        if len(tf.config.list_physical_devices("GPU")) < counts["GPU"]:
            return child.pack({"enough": False})
        config = configuration(soft=facts["soft"], logs=True)
        config.device_count.update(counts)
        config.graph_options.enable_recv_scheduling = facts.get("recv_scheduling", False)
        target, taken = "", _none
        if facts["master"]:
            cluster = json.dumps([facts["master"], counts, facts["tasks"]])
            if cluster not in known:
                known[cluster] = servers.serve(facts["master"], counts["CPU"], facts["tasks"])
            target, taken = known[cluster]
        try:
            try:
                placement, dumps, refusal = place_and_cut(graph_def, config, facts["step"], target)
            finally:
                sent = taken()  # says so if the stand-ins are gone
        except OracleError:
            known.clear()  # the next question gets new servers
            raise
        cut = partitions_of(dumps)
        reply = {
            "enough": True,
            "tensorflow": tf.__version__,
            "placement": placement,
            "sent": len(sent),
            # with the partitions in hand, the error is about making kernels, which is not what was asked
            "refusal": None if sent or cut else refusal,
        }
        return child.pack(reply, sent + cut)

    return answer


def _none() -> list[bytes]:
    return []


def prepare(*, gpus: bool) -> None:
    """Set the environment that TensorFlow reads when it is imported."""
    quiet(gpus=gpus)  # nothing stands between the dumped graphs
    os.environ.update(_ENVIRONMENT)
    no_proxies()


def quiet(*, gpus: bool = False) -> None:
    """Have TensorFlow print nothing but fatal errors, load no Keras, and see no GPU unless `gpus`.

    It reads these variables when it is imported. Keras takes a sixth of the time of that.
    """
    os.environ.update({"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"})
    if not gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def no_proxies() -> None:
    """Forget them: gRPC would go through one even to this machine."""
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY", "GRPC_PROXY"):
        os.environ.pop(name, None)


def configuration(*, soft: bool, logs: bool = False) -> Any:
    """A ConfigProto that switches off all rewriting of the graph (Grappler, folding); `logs`: the placement."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(log_device_placement=logs, allow_soft_placement=soft)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    config.gpu_options.allow_growth = True  # or it would take all memory of every GPU for a graph that is not run
    return config


def one_op_at_a_time(threads: int) -> Any:
    """A ConfigProto of a session that runs ops one by one, each on so many threads."""
    config = configuration(soft=True)
    config.inter_op_parallelism_threads, config.intra_op_parallelism_threads = 1, threads
    return config


def place_and_cut(
    graph_def: bytes, config: Any, step: Mapping[str, Sequence[str]], master: str = ""
) -> tuple[list[tuple[str, str, str]], str, str | None]:
    """Have the graph placed and cut: (name, op, device) in the order of the log, the dumped text, and a refusal.

    Raises OracleError where there is no answer about the graph: a worker is out of reach, or a message too large.
    """
    import tensorflow as tf

    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as dumped:
        kept = os.dup(1), os.dup(2)
        try:
            os.dup2(printed.fileno(), 1)
            os.dup2(dumped.fileno(), 2)
            refusal = None
            try:
                _make_callable(graph_def, config, step, master)
            except tf.errors.UnavailableError as error:
                message = "TensorFlow's master did not reach a worker; see that processes may connect to 127.0.0.1"
                raise OracleError(f"{message} ({sentence(error)})") from None
            except (tf.errors.OpError, ValueError) as error:  # the importer and the shape functions raise ValueError
                refusal = sentence(error)
                if isinstance(error, tf.errors.ResourceExhaustedError) and _TOO_LARGE in refusal:
                    raise OracleError(
                        f"a piece is larger than a message may be ({refusal}); ask about a smaller graph"
                    ) from None
            ctypes.CDLL(None).fflush(None)
        finally:
            for number, original in enumerate(kept, start=1):
                os.dup2(original, number)
                os.close(original)
        return _LOG_LINE.findall(_text(printed)), _text(dumped), refusal


def sentence(error: Exception) -> str:
    """The first line of an error of TensorFlow's, without its head: kernels, members of groups and traces follow it.

    If that line names no node, the node at the end of the message is added.
    """
    whole = str(getattr(error, "message", error))
    message = _SEVERAL.sub("", _SENT.sub("", _HEADED.sub("", whole)) or whole)
    first = message.strip().partition("\n")[0][:SENTENCE_CHARACTERS].strip()
    attached = _ATTACHED.search(message)
    return f"{first} {attached[0]}" if attached and "node " not in first else first


def step_of(
    session: Any, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], time_s: float, *, traced: bool
) -> Any:
    """A step of a session as a function of what is fed; it may take so many seconds."""
    from tensorflow.core.protobuf import config_pb2

    level = config_pb2.RunOptions.FULL_TRACE if traced else config_pb2.RunOptions.NO_TRACE
    options = config_pb2.RunOptions(trace_level=level, timeout_in_ms=max(1, int(1000 * time_s)))
    step = config_pb2.CallableOptions(feed=feeds, fetch=fetches, target=targets, run_options=options)
    return session._make_callable_from_options(step)


def too_long(seconds: float) -> str:
    """The reason why a step of more seconds did not run; TensorFlow's own sentence speaks of a notification."""
    return f"it did not end within {seconds:g} s; it may wait for a queue that nobody fills"


def made_up(name: str, dtype: int, shape: Sequence[int], *, flat: float | None = None, truth: bool = False) -> Any:
    """A value: small random numbers, zeros for whatever may be an index, `truth`, empty strings.

    `flat` takes the place of random numbers in what has fewer than two dimensions. Raises ValueError for handles and
    variants.
    """
    import numpy as np
    import tensorflow as tf

    kind = tf.as_dtype(dtype)
    if kind == tf.string:
        return np.full(shape, b"", object)
    if kind in (tf.resource, tf.variant):
        raise ValueError(f"{name} is given a {kind.name}, which cannot be made up")
    if kind.is_floating and (flat is None or len(shape) > 1):
        return np.random.default_rng(0).normal(0, _SPREAD, shape).astype(kind.as_numpy_dtype)
    return np.full(shape, flat if kind.is_floating else truth and kind == tf.bool, kind.as_numpy_dtype)


def _make_callable(graph_def: bytes, config: Any, step: Mapping[str, Sequence[str]], master: str) -> None:
    from tensorflow.core.protobuf import config_pb2

    with opened(graph_def, config, master) as session:
        session._make_callable_from_options(config_pb2.CallableOptions(**step))


def opened(graph_def: bytes, config: Any, master: str = "") -> Any:
    """A session on the graph as it is."""
    import tensorflow as tf

    return tf.compat.v1.Session(master, graph=imported(graph_def), config=config)


def imported(graph_def: bytes) -> Any:
    """A tf.Graph that is the GraphDef as it is. Raises TensorFlow's own errors: OpError or ValueError."""
    import tensorflow as tf
    from tensorflow.python.client import pywrap_tf_session as c_api
    from tensorflow.python.framework import c_api_util

    graph = tf.Graph()
    options = c_api_util.ScopedTFImportGraphDefOptions()
    c_api.TF_ImportGraphDefOptionsSetValidateColocationConstraints(options.options, False)  # a key may name no node
    buffer = c_api.TF_NewBufferFromString(graph_def)
    try:
        with graph._c_graph.get() as c_graph:
            c_api.TF_GraphImportGraphDefWithResults(c_graph, buffer, options.options)
    finally:
        c_api.TF_DeleteBuffer(buffer)
    return graph


def partitions_of(dumps: str) -> list[bytes]:
    """The partition graphs, one per device, in the first dump of each: before the passes that follow the cut."""
    from google.protobuf import text_format
    from tensorflow.core.framework import graph_pb2

    first: dict[str, bytes] = {}
    for text in _DUMPED.findall(dumps):
        device = re.search(r'^  device: "(.*)"$', text, re.MULTILINE)
        if device is not None and device[1] not in first:
            first[device[1]] = text_format.Parse(text, graph_pb2.GraphDef()).SerializeToString(deterministic=True)
    return list(first.values())


def _text(file: IO[bytes]) -> str:
    child.bounded(file.seek(0, os.SEEK_END), "what TensorFlow printed about the graph", MAX_PRINTED_BYTES)
    file.seek(0)
    return file.read().decode(errors="replace")


if __name__ == "__main__":
    child.serve(answering())
