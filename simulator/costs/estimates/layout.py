"""The order of an image's axes that a session takes for convolutions on a GPU with tensor cores for float32.

Grappler puts the channels last for such GPUs, but first where the graph has a gradient of a float32 convolution. With
the channels last cuDNN was slower there (tensorflow/core/grappler/optimizers/generic_layout_optimizer.cc, since
TensorFlow 2.12). Elsewhere the order makes no difference here: for 16 bits it is taken as the file says.
"""

from __future__ import annotations

from simulator.graph.dtypes import FLOAT
from simulator.graph.graph import Graph

_GRADIENTS = frozenset(
    ("Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")
)


def channels_first(graph: Graph) -> bool:
    """Whether a session computes float32 convolutions of the graph with channels first, whatever the file says."""
    return any(
        op in _GRADIENTS and int(graph.tensor_dtype[graph.tensor_ptr[node]]) == FLOAT
        for node, op in enumerate(graph.ops)
    )
