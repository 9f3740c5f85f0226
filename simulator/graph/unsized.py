"""Which tensors have a size that nobody knows; they count as 0 bytes on the way and in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, flags
from simulator.graph.dtypes import REF, STRING
from simulator.graph.graph import Graph
from simulator.graph.step import Step, exchange

# Workspace that cuDNN passes from forward to backward: TensorFlow itself does not say how large.
_OPAQUE = frozenset((("FusedBatchNormV3", 5), ("CudnnRNN", 3), ("CudnnRNNV2", 3), ("CudnnRNNV3", 3)))


def unsized(graph: Graph, sizes: Ints) -> Flags:
    """[T] whether the size of a tensor that somebody reads is unknown though its type has one.

    The size of strings is never known, and that of workspace never matters: neither counts.
    """
    return _unsized(graph, sizes, graph.edge_tensor)


def unknown_shapes(graph: Graph, step: Step | None = None) -> Mapping[str, int]:
    """How many tensors of unknown size each op makes, most first, ties by name; those that cost 0 bytes.

    As `unsized`; in a step only what its nodes and its client read, what the client hands in included.
    """
    read = graph.edge_tensor
    if step is not None:
        client = exchange(graph, step)
        read = np.concatenate([read[client.edges], client.fetched])
    rows = np.flatnonzero(_unsized(graph, graph.tensor_bytes, read))
    counts = Counter(graph.ops[graph.tensor_node[row]] for row in rows.tolist())
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _unsized(graph: Graph, sizes: Ints, taken: Ids) -> Flags:
    """[T] of the tensors `taken`; -1 there is a control edge."""
    read = np.zeros(len(sizes), bool)
    read[taken[taken >= 0]] = True
    rows: npt.NDArray[np.bool_] = read & (sizes < 0) & (graph.tensor_dtype % REF != STRING)
    for row in np.flatnonzero(rows).tolist():
        rows[row] = (graph.ops[graph.tensor_node[row]], int(graph.tensor_port[row])) not in _OPAQUE
    return flags(rows)
