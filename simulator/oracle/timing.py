"""Time one step of a graph on this machine, in a child process.

Everything else behind this door makes TensorFlow look at a graph; here its ops are executed. The caller has said that
the graph can be trusted.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.errors import OracleError
from simulator.graph.dtypes import base
from simulator.graph.messages import StepStats
from simulator.graph.step import is_tensor
from simulator.oracle import child
from simulator.oracle.scratch import scratch_folder
from simulator.oracle.session import MAX_FED, configuration, made_up, opened, prepare, sentence, step_of, too_long
from simulator.oracle.variables import first_of, variables_of

if TYPE_CHECKING:
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step

WARM_UP = 2  # steps before the one that is timed: a GPU's first ones choose and load kernels


def timed(
    message: Any,
    graph: Graph,
    step: Step,
    *,
    counts: Mapping[str, int],
    step_timeout_s: float,
    timeout_s: float,
    soft: bool = True,
    threads: int = 0,
) -> tuple[Any | None, str | None]:
    """StepStats of one step of a GraphDef, or why there are none; made-up values are fed.

    `graph` has the shapes of the feeds, and `counts` are the devices per type. `threads` is the number of ops that run
    at a time, each on one core (0: TensorFlow chooses). The ops are executed, in an empty folder that is then deleted:
    ask for graphs that you trust.
    """
    question = {**question_of(graph, step), "soft": soft, "step_timeout_s": step_timeout_s, "threads": threads}
    for name, _, shape in question["feeds"]:
        if math.prod(shape) > MAX_FED:
            return None, f"{name} would be fed {math.prod(shape):,} values"
    try:
        with scratch_folder() as folder:
            payload = child.pack({**question, "counts": dict(counts), "folder": folder}, [_serialized(message)])
            reply, blobs = child.unpack(child.run("simulator.oracle.timing", payload, timeout_s=timeout_s))
    except OracleError as error:  # the placement and the pieces are worth having without the times
        return None, str(error)
    return (StepStats.FromString(blobs[0]) if blobs else None), reply["not_run"]


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


def question_of(graph: Graph, step: Step) -> dict[str, Any]:
    """Feeds with types and shapes, fetches, targets, variables, and the nodes that give these their first values."""
    feeds, runs = [], {graph.names[row] for row in np.flatnonzero(step.runs).tolist()}
    for name in step.feeds:
        row = graph.tensor_row(name)
        shape = [1 if size < 0 else size for size in graph.tensor_shape[row] or ()]
        feeds.append((name, base(int(graph.tensor_dtype[row])), shape))
    return {
        "feeds": feeds,
        "fetches": [name for name in step.fetches if is_tensor(graph, name)],
        "targets": [name for name in step.fetches if not is_tensor(graph, name)],
        "first": first_of(graph, runs),
        "variables": variables_of(graph, runs),
    }


# --- in the child process --------------------------------------------------------------------------------------------


def answer(payload: bytes) -> bytes:
    """Answer a question of `record`: one step of a GraphDef, timed.

    Asked: `counts`, devices per type; `soft`; `feeds` as (tensor, DataType, shape); `fetches`, `targets`;
    `step_timeout_s`. Also asked: `first`, the nodes that give variables their first value; `threads`, as in `timed`;
    and the `folder` to run in. Reply: StepStats as a blob, or `not_run`, the reason why there are none.
    """
    facts, (graph_def,) = child.unpack(payload)
    prepare(gpus=facts["counts"]["GPU"] > 0)
    os.chdir(facts["folder"])
    stats, refusal = _step(graph_def, facts)
    return child.pack({"not_run": refusal}, () if stats is None else (stats,))


def _step(graph_def: bytes, facts: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    """Time one step: its StepStats, or why it does not run."""
    import tensorflow as tf

    config = configuration(soft=facts["soft"])
    config.device_count.update(facts["counts"])
    if facts["threads"]:
        config.inter_op_parallelism_threads, config.intra_op_parallelism_threads = facts["threads"], 1
    try:
        values = [made_up(*feed) for feed in facts["feeds"]]
        session = opened(graph_def, config)
        feeds = [name for name, _, _ in facts["feeds"]]
        # made before any other, so that its Sends and Recvs are numbered as those of the cut that was recorded
        step = step_of(session, feeds, facts["fetches"], facts["targets"], facts["step_timeout_s"], traced=True)
        if facts["first"]:
            step_of(session, (), (), facts["first"], facts["step_timeout_s"], traced=False)()
        for _ in range(WARM_UP):
            step(*values)
        timed = tf.compat.v1.RunMetadata()
        step(*values, run_metadata=timed)
    except tf.errors.DeadlineExceededError:
        return None, too_long(facts["step_timeout_s"])
    except (tf.errors.OpError, ValueError, TypeError) as error:  # the importer and numpy raise ValueError and TypeError
        return None, sentence(error)
    return _slim(timed.step_stats).SerializeToString(deterministic=True), None


def _slim(stats: Any) -> Any:
    """The stats without memory and outputs, which are most of the message, and which nothing reads."""
    for device in stats.dev_stats:
        for node in device.node_stats:
            for field in ("memory", "output", "referenced_tensor", "memory_stats"):
                node.ClearField(field)
    return stats


if __name__ == "__main__":
    child.serve(answer)
