"""Ops that TensorFlow joins into one kernel before a step runs, on a GPU.

Grappler's remapper makes one kernel of a batch normalisation in inference, an addition behind it and a ReLU behind
that. It does so since TensorFlow 2.1, and by its times also in NVIDIA's 1.15 of 2020
(tensorflow/core/grappler/optimizers/remapper.cc, FusedBatchNormEx). In training it needs float16 with channels last,
and is not modelled. A convolution whose filter has more than one tap each way takes a bias and a ReLU along, in
training, too (`_FusedConv2D`, since 1.14). Both are for float32 and float16. tests/oracle/test_optimizing.py asks
Grappler itself.

    FusedBatchNorm ──▶ [Add] ──▶ Relu        each the only reader of the one before it, and without control edges
    Conv2D ──▶ BiasAdd ──▶ Relu

On CPUs, too, a measured step has products and convolutions that run within the kernel of a bias, a normalisation or an
activation behind them. That kernel has the name of a later node, and the trace none of the others
(AddFusedContractionNode there, MulConvPushDown in constant_folding.cc, _MklSwish).
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import NamedTuple

import numpy as np

from simulator.cluster.cluster import Device
from simulator.columns import Flags, Ints, flags
from simulator.graph.attributes import is_true
from simulator.graph.dataflow import data_inputs
from simulator.graph.dtypes import FLOAT, HALF
from simulator.graph.graph import Attrs, Graph

_NORMALISATIONS = frozenset(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"))
_ADDITIONS = frozenset(("Add", "AddV2"))
_FOLLOWING = frozenset(("BiasAdd", *_ADDITIONS, "Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"))
_RANK = 4  # of a filter
# The op of a joined kernel, and the op from which on it stands for the nodes of the graph.
_CONTRACTION = re.compile(r"_?(?:Fused)?((?:Batch)?MatMul|Conv[23]D|DepthwiseConv2dNative)(?:V[23]|WithBias)?\Z")
_SWISH, _SIGMOID = "Swish", "Sigmoid"
_FARTHEST = 6  # nodes from the last one to its contraction; an approximated GELU has the most


class Fused(NamedTuple):
    """Nodes that run within the kernel of a batch normalisation or a convolution."""

    without_reads: list[int]  # ReLUs, and biases: what they read besides is a number for each channel
    additions: list[int]  # their other operand is read, too


def fused(graph: Graph) -> Fused:
    """Find the ReLUs, biases and additions that take part in another kernel."""
    found = Fused([], [])
    relus = [node for node, op in enumerate(graph.ops) if op == "Relu"]
    if not relus or not any(op in _NORMALISATIONS or op == "BiasAdd" for op in graph.ops):
        return found
    readers = np.bincount(graph.edge_tensor[graph.edge_tensor >= 0], minlength=len(graph.tensor_node)).tolist()
    inputs, outputs, made_by = data_inputs(graph), graph.tensor_ptr.tolist(), graph.tensor_node.tolist()
    controls = graph.edge_tensor < 0
    controlled = {*graph.edge_src[controls].tolist(), *graph.edge_dst[controls].tolist()}

    def alone(tensor: int) -> bool:
        """Whether its node has this one result, which one node reads, and no control edges."""
        node = made_by[tensor]
        return readers[tensor] == 1 and outputs[node] == tensor and node not in controlled

    def joins(tensor: int) -> bool:
        return int(graph.tensor_dtype[tensor]) in (FLOAT, HALF)

    def normalised(tensor: int) -> bool:
        node = made_by[tensor]
        found = alone(tensor) and joins(tensor) and graph.ops[node] in _NORMALISATIONS
        return found and not _trains(graph.attrs[node])

    def convolved(tensor: int) -> bool:
        node = made_by[tensor]
        if graph.ops[node] != "Conv2D" or not alone(tensor) or not joins(tensor):
            return False
        taps = graph.tensor_shape[inputs[node][1]]
        return taps is not None and len(taps) == _RANK and min(taps[:2]) > 1

    for relu in relus:
        if relu in controlled:
            continue
        for tensor in inputs[relu][:1]:
            node = made_by[tensor]
            if normalised(tensor):
                found.without_reads.append(relu)
            elif graph.ops[node] == "BiasAdd" and alone(tensor) and convolved(inputs[node][0]):
                found.without_reads.extend((node, relu))
            elif graph.ops[node] in _ADDITIONS and alone(tensor):
                operands = inputs[node]
                equal = len({graph.tensor_shape[operand] for operand in operands}) == 1
                if len(operands) == 2 and equal and any(map(normalised, operands)):
                    found.without_reads.append(relu)
                    found.additions.append(node)
    return found


def joinable(graph: Graph) -> Flags:
    """[N] the nodes of which Grappler's remapper may make one kernel with others, on whatever device.

    A contraction, or a normalisation in inference, begins. Biases, sums, activations and more normalisations follow,
    each the only reader of the one before it. A control edge at any of them keeps them apart.
    """
    readers = np.bincount(graph.edge_tensor[graph.edge_tensor >= 0], minlength=len(graph.tensor_node)).tolist()
    reader = np.full(len(graph.tensor_node), -1)
    reader[graph.edge_tensor[graph.edge_tensor >= 0]] = graph.edge_dst[graph.edge_tensor >= 0]
    first, found = graph.tensor_ptr.tolist(), np.zeros(len(graph), bool)

    def normalises(node: int) -> bool:
        return graph.ops[node] in _NORMALISATIONS and not _trains(graph.attrs[node])

    for node in graph.order.tolist():
        begins = found[node] or normalises(node) or _CONTRACTION.match(graph.ops[node]) is not None
        if not begins or first[node] == first[node + 1] or readers[first[node]] != 1:
            continue
        then = int(reader[first[node]])
        if graph.ops[then] in _FOLLOWING or normalises(then):
            found[node] = found[then] = True
    return flags(found)


def joined_into(graph: Graph, last: int, op: str, measured: Container[int]) -> list[int]:
    """The nodes before `last` that ran within its kernel of this op, all without a time: from a contraction on."""
    contraction = _CONTRACTION.match(op)
    begin = contraction[1] if contraction else _SIGMOID if op == _SWISH else None
    if begin is None or graph.ops[last] == op or graph.ops[last].startswith(begin):
        return []
    reads: dict[int, list[int]] = {}
    front, found = [last], set[int]()
    for _ in range(_FARTHEST):
        for node in front:
            taken = graph.edge_tensor[graph.in_ptr[node] : graph.in_ptr[node + 1]]
            sources = dict.fromkeys(graph.tensor_node[taken[taken >= 0]].tolist())
            reads[node] = [source for source in sources if source not in measured]
        before = {source for node in front for source in reads[node]} - reads.keys()
        found |= {node for node in before if graph.ops[node].startswith(begin)}
        front = sorted(before - found)
    for _ in range(_FARTHEST):
        found |= {node for node, sources in reads.items() if not found.isdisjoint(sources)}
    return sorted(found - {last})


def reading_ns(graph: Graph, nodes: Sequence[int], model: Device) -> Ints:
    """Time to read as many bytes as each node writes."""
    rate = model.bytes_per_s * (model.chip.bandwidth if model.chip else 1)
    written = graph.tensor_bytes[graph.tensor_ptr[np.array(nodes, np.int64)]]
    return np.ceil(np.maximum(written, 0) * 1e9 / rate).astype(np.int64)


def _trains(attrs: Attrs) -> bool:
    """Tell whether it takes statistics over the batch; so it does where the file does not say."""
    return is_true(attrs, "is_training", default=True)
