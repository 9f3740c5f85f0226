"""Child process: kernels that write an output over an input, asked of sessions by the addresses in their statistics.

Asked: ops, as (name, type of numbers, shape of each input, other arguments). Told: for each, the pairs of an input and
an output in one buffer, where nobody else needs this input alone, and where nobody else needs any.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from inspect import signature
from typing import Any

from simulator.oracle.child import serve
from simulator.oracle.session import configuration

Case = tuple[str, str, Sequence[Sequence[int]], dict[str, Any]]


def _value(kind: Any, shape: Sequence[int]) -> Any:
    """Numbers between 0 and 1 with large ones on the diagonal, so that matrices have inverses and roots."""
    import numpy as np

    value = np.random.default_rng(0).uniform(0.1, 0.9, shape)
    if len(shape) > 1 and shape[-1] == shape[-2]:
        value = (value + np.swapaxes(value, -1, -2)) / 2 + 9 * np.eye(shape[-1])
    return (value > 0.5 if kind == np.bool_ else value).astype(kind)


def _arguments(tf: Any, name: str) -> list[tuple[str, Any]]:
    """The inputs of an op: their names in Python, which differ from those in C++, and definitions."""
    from tensorflow.python.framework import op_def_registry

    return list(zip(signature(getattr(tf.raw_ops, name)).parameters, op_def_registry.get(name).input_arg, strict=False))


def _made(tf: Any, case: Case, inputs: list[Any]) -> Any:
    """The op that the case names, on these inputs."""
    name, _, _, others = case
    given, left = {}, list(inputs)
    for argument, one in _arguments(tf, name):
        if argument not in others:
            given[argument] = left if one.number_attr else left.pop(0)
    out = getattr(tf.raw_ops, name)(**given, **others)
    return tf.nest.flatten(out)[0].op


def _shared(tf: Any, case: Case, alone: Sequence[int]) -> list[tuple[int, int]]:
    """The inputs `alone` have a buffer that nobody else needs; the client keeps the others."""
    known = [one.type for argument, one in _arguments(tf, case[0]) if argument not in case[3]]
    kinds = [tf.as_dtype(kind or getattr(tf, case[1])) for kind in [*known, *[0] * len(case[2])][: len(case[2])]]
    values = [_value(kind.as_numpy_dtype, shape) for kind, shape in zip(kinds, case[2], strict=True)]
    with tf.Graph().as_default() as graph:
        fed = [tf.compat.v1.placeholder(kind, shape) for kind, shape in zip(kinds, case[2], strict=True)]
        inputs = [
            tf.raw_ops.GatherV2(params=one, indices=list(range(one.shape[0])), axis=0) if at in alone else one
            for at, one in enumerate(fed)
        ]
        op = _made(tf, case, inputs)
    stats = tf.compat.v1.RunMetadata()
    traced = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    with tf.compat.v1.Session(graph=graph, config=configuration(soft=True)) as session:
        session.run(op, dict(zip(fed, values, strict=True)), options=traced, run_metadata=stats)
    address = {
        (node.node_name, one.slot): one.tensor_description.allocation_description.ptr
        for device in stats.step_stats.dev_stats
        for node in device.node_stats
        for one in node.output
    }
    outputs = [(slot, at) for (name, slot), at in address.items() if name == op.name and at]
    mine = [address[inputs[at].op.name, 0] for at in alone]
    return sorted((at, slot) for at, where in zip(alone, mine, strict=True) for slot, to in outputs if to == where)


def answer(question: bytes) -> bytes:
    import tensorflow as tf

    told = []
    for case in json.loads(question):
        every = range(len(case[2]))
        each = [pair for at in every for pair in _shared(tf, case, [at])]
        told.append([each, _shared(tf, case, list(every))])
    return json.dumps(told).encode()


if __name__ == "__main__":
    serve(answer)
