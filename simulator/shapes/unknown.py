"""Tensors of unknown size: which they are, how many, and what would make them known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, flags
from simulator.graph.dtypes import REF, STRING
from simulator.graph.graph import Graph
from simulator.graph.step import Step, exchange

# Workspace that cuDNN passes from forward to backward, whose size TensorFlow does not know.
_OPAQUE = frozenset((("FusedBatchNormV3", 5), ("CudnnRNN", 3), ("CudnnRNNV2", 3), ("CudnnRNNV3", 3)))


def unsized(graph: Graph, sizes: Ints) -> Flags:
    """[T] true for a tensor with a reader whose size is unknown though its type has one.

    Strings, whose size is never known, and workspace do not count.
    """
    return _unsized(graph, sizes, graph.edge_tensor)


def unknown_shapes(graph: Graph, step: Step | None = None) -> Mapping[str, int]:
    """Number of tensors of unknown size per op, most first, ties by name; they count 0 bytes.

    As `unsized`; in a step only tensors that its nodes or its client read, fed ones included.
    """
    read = graph.edge_tensor
    if step is not None:
        client = exchange(graph, step)
        read = np.concatenate([read[client.edges], client.fetched])
    rows = np.flatnonzero(_unsized(graph, graph.tensor_bytes, read))
    counts = Counter(graph.ops[graph.tensor_node[row]] for row in rows.tolist())
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _unsized(graph: Graph, sizes: Ints, taken: Ids) -> Flags:
    """[T] as `unsized`, for the readers `taken`, in which -1 is a control edge."""
    read = np.zeros(len(sizes), bool)
    read[taken[taken >= 0]] = True
    rows: npt.NDArray[np.bool_] = read & (sizes < 0) & (graph.tensor_dtype % REF != STRING)
    for row in np.flatnonzero(rows).tolist():
        rows[row] = (graph.ops[graph.tensor_node[row]], int(graph.tensor_port[row])) not in _OPAQUE
    return flags(rows)
