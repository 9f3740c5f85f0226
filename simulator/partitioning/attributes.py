"""The attributes of a Send and its Recv, as TensorFlow writes them (`tensorflow/core/graph/graph_partition.cc`)."""

from __future__ import annotations

from simulator.graph.graph import Attrs
from simulator.graph.messages import AttrValue
from simulator.partitioning.draft import text_attr, type_attr

INCARNATION = 1  # of every device of a local session; a cluster's are random
_INCARNATION = AttrValue(i=INCARNATION)
_FALSE = AttrValue(b=False)
_START = AttrValue(i=0)  # of a Recv that reads a reference


def pair_attrs(
    tensor_name: str, ends: tuple[str, str], devices: tuple[str, str], types: tuple[int, int], *, reference: bool
) -> tuple[Attrs, Attrs]:
    """Of the Send and of the Recv. Each tuple says it of the source, then of the destination: the nodes that the pair
    joins, their devices, the types that are sent and received. `reference`: the value is read from a reference.
    """
    sent, received = types
    between = {
        "tensor_name": AttrValue(s=tensor_name.encode()),
        "send_device": text_attr(devices[0]),
        "recv_device": text_attr(devices[1]),
        "send_device_incarnation": _INCARNATION,
        "client_terminated": _FALSE,
        "_src": text_attr(ends[0]),
        "_dst": text_attr(ends[1]),
    }
    of_recv = {"tensor_type": type_attr(received), **between}
    if reference:
        of_recv["_start_time"] = _START
    return {"T": type_attr(sent), **between}, of_recv
