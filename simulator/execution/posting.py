"""Moments as ops of their own: when Recvs are posted, no earlier than which a transfer is asked for; a step's end."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from simulator.columns import flags, ids, ints
from simulator.errors import SimvizError
from simulator.execution.table_columns import Edges, Ops, join


def posting_references(ops: Ops, edges: Edges) -> tuple[Ops, Edges]:
    """Add an op for the moment at which a Recv of a reference is posted: when the reader's other inputs are there.

    The cut lets such a Recv wait for them (partitioning/pairs.py; graph_partition.cc, "ref_recvs").
    """
    has_others = np.zeros(len(ops.node), bool)
    has_others[edges.target[~edges.apart]] = True
    waiting = np.flatnonzero(edges.apart & has_others[edges.target])
    if not len(waiting):
        return ops, edges
    readers, which = np.unique(edges.target[waiting], return_inverse=True)
    post = np.array(edges.post)
    post[waiting] = len(ops.node) + which
    row = np.full(len(ops.node), -1)
    row[readers] = np.arange(len(ops.node), len(ops.node) + len(readers))
    copied = np.flatnonzero(~edges.apart & (row[edges.target] >= 0))
    twice = np.concatenate([np.arange(len(post)), copied])
    columns = {field.name: getattr(edges, field.name)[twice] for field in fields(Edges)}
    columns["target"] = ids(np.concatenate([edges.target, row[edges.target[copied]]]))
    columns["post"] = ids(np.append(post, np.full(len(copied), -1)))
    return with_posts(ops, readers), Edges(**columns)


def with_posts(ops: Ops, readers: npt.NDArray[np.integer]) -> Ops:
    """The ops, with one more for each of these that stands for the moment at which its Recvs are posted."""
    count = len(readers)
    return replace(
        ops,
        node=ids(np.append(ops.node, ops.node[readers])),
        names=(*ops.names, *(f"{ops.names[op]} (posted)" for op in readers.tolist())),
        kind=(*ops.kind, *["NoOp"] * count),
        inserted=flags(np.append(ops.inserted, np.ones(count, bool))),
        bound=ids(np.append(ops.bound, ops.bound[readers])),
        cost_row=ids(np.append(ops.cost_row, ops.cost_row[readers])),
        merge=flags(np.append(ops.merge, np.zeros(count, bool))),
        silent=flags(np.append(ops.silent, np.zeros(count, bool))),
        iteration=ids(np.append(ops.iteration, np.zeros(count, np.int32))),
    )


def with_end(ops: Ops, edges: Edges) -> tuple[Ops, Edges]:
    """One more op, the last, of no length: it waits for all others, by signals that no device sends to another."""
    surely = ~ops.merge[edges.target] | (edges.row < 0)  # a Merge does not wait for all that it reads
    followed = np.zeros(len(ops.node), bool)
    followed[edges.source[surely]] = True
    last = np.flatnonzero(~followed)
    count = len(last)
    if not count:
        raise SimvizError("Nothing runs in this step, so that it has no end; fetch something.")
    nothing = np.zeros(count)
    signals = Edges(
        source=ids(last),
        target=ids(np.full(count, len(ops.node))),
        port=ids(nothing + edges.port.max(initial=0) + 1),  # no tensor that another reads
        row=ids(-1 - ops.node[last]),
        nbytes=ints(nothing),
        apart=flags(nothing),
        host=flags(nothing),
        post=ids(nothing - 1),
        back=flags(nothing),
        dead=flags(nothing),
        stays=flags(nothing + 1),
    )
    end = replace(
        with_posts(ops, last[:1]),
        names=(*ops.names, "the end of the step"),
        bound=ids(np.append(ops.bound, -1)),
        silent=flags(np.append(ops.silent, True)),
    )
    return end, join(edges, signals)
