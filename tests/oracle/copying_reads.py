"""Child process: a variable of which an op takes or changes rows, read and assigned in sessions of TensorFlow.

Asked: names of ops. Told: for each the graph, in base64, and the bytes that a ReadVariableOp named "read" and an
AssignVariableOp named "assigned" allocate once the op has run.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from simulator.oracle.child import serve
from simulator.oracle.session import configuration

SHAPE = (64, 8)


def _others(tf: Any, op: str) -> dict[str, Any]:
    """The arguments of an op but for handles."""
    row = tf.ones((1, SHAPE[1]))
    if op.startswith("ResourceSparseApply"):
        return {"lr": 0.0, "grad": row, "indices": [0]}
    if op == "ResourceStridedSliceAssign":
        return {"begin": [0], "end": [1], "strides": [1], "value": row}
    if op == "ResourceApplyGradientDescent":
        return {"alpha": 0.0, "delta": tf.zeros(SHAPE)}
    indices = [[0]] if "Nd" in op else [0]
    if "Gather" in op:
        return {"indices": indices, "dtype": tf.float32}
    return {"indices": indices, "updates": row}


def _handles(op: str, handle: Any) -> dict[str, Any]:
    if op == "ResourceSparseApplyAdagrad":
        return {"var": handle, "accum": handle}
    first = {"ResourceApplyGradientDescent": "var"}
    return {first.get(op, "ref" if ("Nd" in op and "Gather" not in op) or "Strided" in op else "resource"): handle}


def _asked(tf: Any, op: str) -> tuple[str, int, int]:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=SHAPE, shared_name="rows")
        first = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.ones(SHAPE))
        read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32, name="read")
        end = tf.raw_ops.Transpose(x=read, perm=[1, 0], name="end").op
        again = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.fill(SHAPE, 2.0), name="assigned")
        made = getattr(tf.raw_ops, op)(**_handles(op, handle), **_others(tf, op))
        with v1.Session(graph=graph, config=configuration(soft=True)) as session:
            session.run(first)
            session.run(made)
            taken, put = (_allocated(tf, session, one) for one in (end, again))
    written = graph.as_graph_def(add_shapes=True).SerializeToString(deterministic=True)
    return base64.b64encode(written).decode(), taken, put


def _allocated(tf: Any, session: Any, end: Any) -> int:
    """The bytes that the read, or the assignment, allocates in a step that ends there."""
    v1 = tf.compat.v1
    told = v1.RunMetadata()
    session.run(end, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=told)
    return sum(
        memory.total_bytes
        for device in told.step_stats.dev_stats
        for node in device.node_stats
        if node.node_name in ("read", "assigned")
        for memory in node.memory
    )


def answer(question: bytes) -> bytes:
    """The graphs and bytes of the ops."""
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    return json.dumps([_asked(tf, op) for op in json.loads(question)]).encode()


if __name__ == "__main__":
    serve(answer)
