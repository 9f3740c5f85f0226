"""The variables and tables of a step: what gives them their first values, and values where nothing does.

Functions of TensorFlow 2 capture variables without an initialiser. An initialiser may need such a variable, or a file
that is missing, and gives none then.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simulator.graph.dataflow import source_of
from simulator.graph.op_classes import VARIABLES
from simulator.graph.purposes import first_values
from simulator.graph.tensors import shape_of
from simulator.oracle.session import made_up, step_of

if TYPE_CHECKING:
    from simulator.graph.graph import Graph

_TABLES = frozenset({"InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2"})
_POSITIVE = 0.5  # of made-up biases, scales and variances, of which some are divided by or rooted


def variables_of(given: Graph, names: set[str]) -> list[tuple[str, int, list[int] | None]]:
    """The variables among `names`, with type and shape; None where the file does not say the shape."""
    found = []
    for row, (name, op, attrs) in enumerate(zip(given.names, given.ops, given.attrs, strict=True)):
        if op not in VARIABLES or name not in names or "dtype" not in attrs:
            continue
        shape = given.tensor_shape[given.tensor_ptr[row]] if "shape" not in attrs else shape_of(attrs["shape"].shape)
        known = shape is not None and min(shape, default=0) >= 0
        found.append((name, int(attrs["dtype"].type), list(shape) if known and shape is not None else None))
    return found


def first_of(given: Graph, names: set[str]) -> list[str]:
    """The nodes that give variables and tables among `names` their first values."""
    rows = first_values(given) + [row for row, op in enumerate(given.ops) if op in _TABLES]
    return [given.names[row] for row in rows if given.names[filled_by(given, row)] in names]


def filled_by(given: Graph, row: int) -> int:
    """The variable or table that a node fills, or reads; calls hand its handle on through Identities."""
    row = source_of(given, row)
    while given.ops[row] == "Identity":
        row = source_of(given, row)
    return row


# --- in the child processes ------------------------------------------------------------------------------------------


def is_filled(graph: Any, name: str) -> Any:
    """A tensor: whether the variable has a value."""
    import tensorflow as tf

    handle = graph.get_tensor_by_name(f"{name}:0")
    if handle.dtype == tf.resource:
        return tf.raw_ops.VarIsInitializedOp(resource=handle)
    return tf.raw_ops.IsVariableInitialized(ref=handle)


def initialise(session: Any, first: Sequence[str], until: float) -> None:
    """Run the nodes that give first values; a variable that one of them leaves without a value gets a made-up one."""
    import tensorflow as tf

    if first:
        try:
            step_of(session, (), (), first, until - time.monotonic(), traced=False)()
        except tf.errors.DeadlineExceededError:
            raise
        except tf.errors.OpError:  # a missing checkpoint or file: `fill` makes up those values
            return


def fill(session: Any, variables: Sequence[Any], asked: Sequence[Any], until: float) -> list[str]:
    """Give made-up values to the variables (node, DataType, shape or None) that have none; return their names.

    `asked` are their `is_filled`, made before the session; `until` is a time of the monotonic clock. The
    session's graph is the default one. Raises ValueError for a variable of unknown shape.
    """
    import tensorflow as tf

    if not variables:
        return []
    filled = step_of(session, (), [one.name for one in asked], (), until - time.monotonic(), traced=False)()
    empty = [one for one, there in zip(variables, filled, strict=True) if not there]
    for name, _, shape in empty:
        if shape is None:
            raise ValueError(f"the variable {name} has no initialiser that runs, and the file does not say its shape")
    handed, targets, values = [], [], []
    for name, dtype, shape in empty:
        handle = session.graph.get_tensor_by_name(f"{name}:0")
        value = tf.compat.v1.placeholder(tf.as_dtype(dtype), shape)
        if handle.dtype == tf.resource:
            targets.append(tf.raw_ops.AssignVariableOp(resource=handle, value=value).name)
        else:
            targets.append(tf.raw_ops.Assign(ref=handle, value=value).op.name)
        handed.append(value.name)
        values.append(made_up(name, dtype, shape, flat=_POSITIVE, truth=True))
    if targets:
        step_of(session, handed, (), targets, until - time.monotonic(), traced=False)(*values)
    return [name for name, _, _ in empty]
