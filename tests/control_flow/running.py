"""In the child: build a random program, run it in a real session, and report how often each node ran.

Request: `seed`, `size`, `v2`, or the name of an `example`. Answer: `cpus`; `feeds`, `targets`, `looks`; `branches` and
`trips`; `counts` of the nodes that ran with the targets alone, or `refusal`; `dead`, per tensor of `looks` whether a
session that fetches it says that it has no value; as a blob the GraphDef. `not_built`: TensorFlow's Python refuses the
program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from simulator.errors import OracleError
from simulator.oracle import child
from tests.control_flow.drawing import CPUS, Program, build
from tests.control_flow.examples import EXAMPLES, Example
from tests.difference.forking import keep_answering

NOT_BUILT = "TensorFlow's Python does not build the program"
NO_VALUE = "does not have value"  # Retval[0] does not have value
_STEP_S = 10
_LOOKS = 4


def answering() -> Callable[[bytes], bytes]:
    return answer


def answer(question: bytes) -> bytes:
    """Build, run, report."""
    import tensorflow as tf

    facts, graphs = child.unpack(question)
    if graphs:  # a case from a file
        return child.pack(_told(tf, graphs[0], facts), graphs)
    if "example" in facts:
        return _example(tf, EXAMPLES[facts["example"]])
    random = Random(facts["seed"])
    cpus = random.randint(1, CPUS)
    try:
        graph, program = build(tf, random, facts["size"], v2=facts["v2"], cpus=cpus)
    except (ValueError, TypeError, tf.errors.OpError, LookupError, NotImplementedError, AttributeError) as error:
        raise OracleError(NOT_BUILT, refusal=str(error)[:300]) from None
    message = graph.as_graph_def().SerializeToString(deterministic=True)
    told = {
        "cpus": cpus,
        "feeds": dict(sorted(program.feeds.items())),
        "targets": _targets(graph),
        "looks": _looks(graph, program),
        "branches": program.branches,
        "trips": program.trips,
    }
    return child.pack(_told(tf, message, told), [message])


def _example(tf: Any, example: Example) -> bytes:
    v1 = tf.compat.v1
    (v1.enable_control_flow_v2 if example.v2 else v1.disable_control_flow_v2)()
    with tf.Graph().as_default() as graph:
        example.write(tf)
    message = graph.as_graph_def().SerializeToString(deterministic=True)
    told = {
        "cpus": example.cpus,
        "feeds": dict(sorted(example.feeds.items())),
        "targets": list(example.targets) or _targets(graph),
        "looks": [],
        "branches": dict(example.branches),
        "trips": dict(example.trips),
    }
    return child.pack(_told(tf, message, told), [message])


def _targets(graph: Any) -> list[str]:
    """The nodes outside of loops that no op reads."""
    operations = graph.get_operations()
    read = {source.op.name for op in operations for source in op.inputs}
    read |= {source.name for op in operations for source in op.control_inputs}
    return [op.name for op in operations if op.name not in read and not _in_a_loop(op) and op.type != "Placeholder"]


def _in_a_loop(op: Any) -> bool:
    context = op._get_control_flow_context()
    return context is not None and context.GetWhileContext() is not None


def _looks(graph: Any, program: Program) -> list[str]:
    found = [one.name for one in program.looks if one.graph is graph and not _in_a_loop(one.op)]
    return program.random.sample(found, min(_LOOKS, len(found)))


def _told(tf: Any, message: bytes, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts, with what a session did."""
    from simulator.oracle import session

    config = session.configuration(soft=True)
    config.device_count["CPU"] = facts["cpus"]
    try:
        with session.opened(message, config) as opened:
            counts, refusal = _counts(opened, facts), None
        dead = _are_dead(tf, message, config, facts) if facts["looks"] else []
    except (tf.errors.OpError, ValueError) as error:
        counts, refusal, dead = {}, session.sentence(error), []
    return {**facts, "counts": counts, "refusal": refusal, "dead": dead}


def _counts(opened: Any, facts: dict[str, Any]) -> dict[str, int]:
    from tensorflow.core.protobuf import config_pb2

    seen = config_pb2.RunMetadata()
    options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE, timeout_in_ms=1000 * _STEP_S)
    step = opened._make_callable_from_options(
        config_pb2.CallableOptions(feed=list(facts["feeds"]), target=facts["targets"], run_options=options)
    )
    step(*_values(facts), run_metadata=seen)
    return Counter(line.node_name for device in seen.step_stats.dev_stats for line in device.node_stats)


def _are_dead(tf: Any, message: bytes, config: Any, facts: dict[str, Any]) -> list[bool]:
    """Which fetches a session refuses; one that is called as a callable would hand out tensors of nothing.

    Python asks it, so Python has to import the graph; what is dead does not depend on where it is placed.
    """
    from tensorflow.core.framework import graph_pb2

    options = tf.compat.v1.RunOptions(timeout_in_ms=1000 * _STEP_S)
    feeds, found = dict(zip(facts["feeds"], _values(facts), strict=True)), []
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph, config=config) as session:
        tf.import_graph_def(graph_pb2.GraphDef.FromString(message), name="")
        for name in facts["looks"]:
            try:
                session.run(name, feeds, options=options)
                found.append(False)
            except tf.errors.InvalidArgumentError as error:
                if NO_VALUE not in str(error):
                    raise
                found.append(True)
    return found


def _values(facts: dict[str, Any]) -> list[Any]:
    import numpy as np

    kinds: dict[type, Any] = {bool: np.bool_, int: np.int32, list: np.float32}
    return [np.array(value, kinds[type(value)]) for value in facts["feeds"].values()]


if __name__ == "__main__":
    keep_answering(answering)
