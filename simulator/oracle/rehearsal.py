"""In the child process: run one step of a graph on made-up inputs, and report what each of its ops did.

The graph comes pruned to the step and its initialisers. What fills variables, in this order:

    its initialisers, all at once      an error of one ends the others
    values of its shape, made up       for each variable that has none then

The step runs with one op at a time, which has all cores, so that the time of an op is its own. TensorFlow's rewriting
of graphs stays off, so that every op of the graph runs under its name. Whether oneDNN is on depends on the processor,
as in a session by default. It alone has CPU kernels for channels first, so it is on for graphs with such ops.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from simulator.oracle import child
from simulator.oracle.session import configuration, imported, made_up, quiet, sentence, step_of, too_long
from simulator.oracle.variables import fill, initialise, is_filled

_REPEATED = 8  # a step that takes less than this part of the time runs three times more, for times that are warm
_SETUP_S = 2.0  # executors and kernels of two callables


def answer(payload: bytes) -> bytes:
    """Answer a question of `observing`: one step of a GraphDef, run and described.

    Asked:

    - `feeds` as (tensor, DataType, shape, place of a given value among the blobs or None), `fetches`, `targets`
    - `spread`, feeds by place, with numbers of rows over which values are spread, if the step then runs, and lookups
    - `first`, nodes that give first values, and `variables` as (node, DataType, shape or None)
    - `until_s`, the seconds that are left, and `memory_bytes`
    - `channels_first`, whether some op has them first, and the `folder` to run in

    Reply:

    - `not_run`, the reason why it did not run, or None, and `tensorflow`, its version
    - `synthetic`, variables whose values were made up
    - `step_ns` and `traced_ns`, the time of a step without and with tracing, 0 where it ran once
    - `nodes`, as `_described` gives them
    """
    begun = time.monotonic()
    facts, blobs = child.unpack(payload)
    quiet()
    if facts["channels_first"]:
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.chdir(facts["folder"])
    _bound_memory(facts["memory_bytes"])
    import tensorflow as tf

    try:
        seen = _rehearsed(blobs[0], facts, blobs, begun + facts["until_s"])
    except tf.errors.DeadlineExceededError:
        reason = too_long(facts["until_s"])
    except tf.errors.ResourceExhaustedError as error:
        reason = f"it needs more memory than it may have ({sentence(error)})"
    except MemoryError:  # of Python itself
        reason = "it needs more memory than it may have"
    except (tf.errors.OpError, ValueError, TypeError, KeyError) as error:  # the importer, numpy and Python's layer
        reason = sentence(error)
    else:
        return child.pack({"not_run": None, "tensorflow": tf.__version__, **seen})
    return child.pack({"not_run": reason})


def _bound_memory(most: int) -> None:
    """Let what this process allocates end in an error beyond `most` bytes; memory that is only reserved counts too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [most, *(one for one in (soft, hard) if one != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))


def _rehearsed(graph_def: bytes, facts: Mapping[str, Any], blobs: Sequence[bytes], until: float) -> dict[str, Any]:
    import tensorflow as tf

    config = configuration(soft=True)
    config.device_count.update({"CPU": 1})
    config.inter_op_parallelism_threads = 1
    graph = imported(graph_def)
    graph._add_new_tf_operations(compute_devices=False)  # what C imported, Python does not know yet
    with graph.as_default():
        asked = [is_filled(graph, name) for name, _, _ in facts["variables"]]
        session = tf.compat.v1.Session(graph=graph, config=config)
        values = [_value(blobs, *feed) for feed in facts["feeds"]]
        feeds = [name for name, *_ in facts["feeds"]]
        initialise(session, facts["first"], until)
        synthetic = fill(session, facts["variables"], asked, until)

    def run(until: float, *, traced: bool, times: int = 1) -> tuple[int, Any]:
        """The time of the last of some steps, and what was traced of it."""
        step = _callable(session, feeds, facts["fetches"], facts["targets"], until, traced=traced)
        for _ in range(times):
            stats = tf.compat.v1.RunMetadata()
            begin = time.monotonic_ns()
            step(*values, **({"run_metadata": stats} if traced else {}))
            took = time.monotonic_ns() - begin
        return took, stats.step_stats

    took, stats = _first_run(partial(run, until, traced=True), values, facts["spread"])
    now, allowed = time.monotonic(), _REPEATED * took / 1e9
    untraced, warm = 0, stats
    if now + allowed < until:
        try:
            bound = min(until, now + allowed + _SETUP_S)
            untraced, _ = run(bound, traced=False, times=2)  # the first sets up what a step needs
            took, warm = run(bound, traced=True)
        except tf.errors.OpError:  # after an update the same step may fail, or never end; the first one counts
            untraced, warm = 0, stats
    nodes = _described(stats, warm)
    return {"synthetic": synthetic, "step_ns": untraced, "traced_ns": took, "nodes": nodes}


def _first_run(run: Callable[[], tuple[int, Any]], values: list[Any], spread: Sequence[Any]) -> tuple[int, Any]:
    """The first run, with values spread over the most rows with which the step runs; where none do, as they are.

    A lookup that refuses a number names itself.
    """
    import numpy as np
    import tensorflow as tf

    left = [list(rows) for _, rows, _ in spread]
    zeros = list(values)
    while any(left):
        for (place, *_), rows in zip(spread, left, strict=True):
            like = zeros[place]
            numbers = np.arange(like.size) * (rows[0] if rows else 0) // max(1, like.size)
            values[place] = numbers.astype(like.dtype).reshape(like.shape)
        try:
            return run()
        except tf.errors.InvalidArgumentError as error:  # a number that is no row
            refused = [any(f"{{{{node {name}}}}}" in error.message for name in lookups) for *_, lookups in spread]
            for rows, one in zip(left, refused, strict=True):
                if one or not any(refused):
                    del rows[:1]
    values[:] = zeros
    return run()


def _callable(
    session: Any, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], until: float, *, traced: bool
) -> Any:
    return step_of(session, feeds, fetches, targets, until - time.monotonic(), traced=traced)


def _value(blobs: Sequence[bytes], name: str, dtype: int, shape: Sequence[int], place: int | None) -> Any:
    import numpy as np
    import tensorflow as tf

    if place is None:
        return made_up(name, dtype, shape, truth=True)
    return np.frombuffer(blobs[place], tf.as_dtype(dtype).as_numpy_dtype).reshape(shape)


# --- what is reported ------------------------------------------------------------------------------------------------


def _described(stats: Any, warm: Any) -> list[Any]:
    """A row per node, by name: name, runs, nanoseconds, scratch bytes, and per output the shapes with their numbers.

    Shapes and scratch memory are those of `stats`, times the mean of those in `warm`, rounded up. An output is [port,
    [[count, shape], ..]], most frequent first; one that was dead in all runs is left out.
    """
    rows: dict[str, tuple[list[int], dict[int, dict[tuple[int, ...], int]]]] = {}
    for node in _nodes(stats):
        runs, outputs = rows.setdefault(node.node_name, ([0, 0], {}))
        runs[0] += 1
        runs[1] = max(runs[1], int(node.memory_stats.temp_memory_size))
        for one in node.output:
            shape = tuple(int(dim.size) for dim in one.tensor_description.shape.dim)
            shapes = outputs.setdefault(int(one.slot), {})
            shapes[shape] = shapes.get(shape, 0) + 1
    times: dict[str, list[int]] = {}
    for node in _nodes(warm):
        times.setdefault(node.node_name, []).append(_run_ns(node))
    return [
        [
            name,
            runs,
            -(-sum(times[name]) // len(times[name])) if name in times else -1,
            scratch,
            [[port, _counted(shapes)] for port, shapes in sorted(outputs.items())],
        ]
        for name, ((runs, scratch), outputs) in sorted(rows.items())
    ]


def _counted(shapes: Mapping[tuple[int, ...], int]) -> list[Any]:
    ordered = sorted(shapes.items(), key=lambda one: (-one[1], one[0]))
    return [[count, list(shape)] for shape, count in ordered]


def _nodes(stats: Any) -> Any:
    return (node for device in stats.dev_stats for node in device.node_stats)


def _run_ns(node: Any) -> int:
    if node.op_end_rel_nanos:
        return max(0, int(node.op_end_rel_nanos - node.op_start_rel_nanos))
    return max(0, 1000 * int(node.op_end_rel_micros - node.op_start_rel_micros))


if __name__ == "__main__":
    child.serve(answer)
