"""The order in which TensorFlow's placer takes the nodes (`tensorflow/core/common_runtime/placer.cc`, §3.7)."""

from __future__ import annotations

import numpy as np

from simulator.graph.dtypes import REF
from simulator.graph.graph import Graph


def placement_order(graph: Graph) -> tuple[list[int], list[int]]:
    """The nodes in the order in which the placer takes them: by id without the generators, then the generators.

    A generator has no data inputs and exactly one output, which is no reference.
    """
    first = graph.in_ptr[:-1]
    reads = np.append(graph.edge_tensor, -1)[first] >= 0  # data inputs come before control inputs
    reads &= np.diff(graph.in_ptr) > 0
    single = np.diff(graph.tensor_ptr) == 1
    dtype = np.append(graph.tensor_dtype, 0)[graph.tensor_ptr[:-1]]
    generator = ~reads & single & (dtype < REF)
    return graph.order[~generator[graph.order]].tolist(), graph.order[generator[graph.order]].tolist()
