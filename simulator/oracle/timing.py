"""Have the real TensorFlow run one step of a graph on this machine, and tell how long each node took."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simulator.errors import OracleError
from simulator.graph.dtypes import base
from simulator.graph.messages import StepStats
from simulator.graph.purposes import first_values
from simulator.graph.step import is_tensor
from simulator.oracle.child import pack, run, unpack

if TYPE_CHECKING:
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step

_MOST_FED = 2**28  # elements of one fed tensor: beyond that a made-up value is not worth its memory


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

    `graph` knows the shapes of what is fed; `counts` are the devices per type; `threads` says how many ops run at a
    time, each on one core (0: as many as TensorFlow likes). Its ops are executed, in an empty folder that is then
    deleted: ask for graphs that you trust.
    """
    question = {**_step_of(graph, step), "soft": soft, "step_timeout_s": step_timeout_s, "threads": threads}
    for name, _, shape in question["feeds"]:
        if math.prod(shape) > _MOST_FED:
            return None, f"{name} would be fed {math.prod(shape):,} values"
    try:
        with tempfile.TemporaryDirectory(prefix="simviz-") as folder:
            payload = pack({**question, "counts": dict(counts), "folder": folder}, [_serialized(message)])
            told, blobs = unpack(run("simulator.oracle.running", payload, timeout_s=timeout_s))
    except OracleError as error:  # the placement and the pieces are worth having without the times
        return None, str(error)
    return (StepStats.FromString(blobs[0]) if blobs else None), told["not_run"]


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


def _step_of(graph: Graph, step: Step) -> dict[str, Any]:
    """What to feed, with types and shapes, to fetch and to run, and what gives the variables their first values."""
    feeds = []
    for name in step.feeds:
        node, _, port = name.rpartition(":")
        row = int(graph.tensor_ptr[graph.row(node)]) + int(port)
        shape = [1 if size < 0 else size for size in graph.tensor_shape[row] or ()]
        feeds.append((name, base(int(graph.tensor_dtype[row])), shape))
    return {
        "feeds": feeds,
        "fetches": [name for name in step.fetches if is_tensor(graph, name)],
        "targets": [name for name in step.fetches if not is_tensor(graph, name)],
        "first": [graph.names[row] for row in first_values(graph)],
    }
