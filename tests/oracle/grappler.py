"""Ask Grappler's virtual scheduler for the time of a step: a peer to be compared with, not the truth.

Grappler, TensorFlow's graph optimiser, can cost a graph on devices that are only described. It prices every op by
formulas and runs the fetches, with all their predecessors, through a list scheduler. It is wrong in known ways: a
transfer takes 1 ns at either end whatever its size, links never contend, loops run once, an op may start before a
control input from another device has ended, and launching costs nothing
(tensorflow/core/grappler/costs/virtual_scheduler.cc and op_level_cost_estimator.cc).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from simulator.errors import OracleError
from simulator.graph.graph_def import graph_def
from simulator.oracle import child
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import without_large_values
from simulator.oracle.session import prepare, sentence
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster, Device
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step

TIMEOUT_S = 300.0
_FED = frozenset({"Placeholder", "PlaceholderV2"})  # all that a Grappler item can be fed
# Grappler's speed of a GPU: multiprocessors times clock times twice the cores of one, and it has 64 for this
# architecture (device properties become speed in op_level_cost_estimator.cc).
_ARCHITECTURE, _GPU_FLOP_PER_CYCLE = "6", 128


@dataclass(frozen=True, slots=True)
class Prediction:
    """Grappler's schedule of one step."""

    makespan: Nanos
    times: Mapping[str, tuple[Nanos, Nanos]]  # start and end by node; also of the Sends and Recvs that it makes up
    call_s: float  # what one call takes inside TensorFlow, median; costs are derived anew in each
    tensorflow: str  # version


def conversation() -> AbstractContextManager[Asking]:
    """TensorFlow in a process that stays, for many questions, as `dry_runs.conversation`."""
    return child.conversation("tests.oracle.grappler")


def predict(
    graph: Graph,
    cluster: Cluster,
    *,
    step: Step,
    devices: Sequence[str],
    calls: int = 1,
    timeout_s: float = TIMEOUT_S,
    asking: Asking | None = None,
) -> Prediction:
    """Have Grappler simulate the step with each node on the given device; nothing of the graph is run.

    Of the cluster it gets what it knows: type, peak speed and memory bandwidth of each device, in whole MHz and kB/s.
    It knows no links. `devices` are full names, one per node. Without `asking` the question gets a process of its own.
    Raises OracleError for a step that feeds anything but placeholders, if TensorFlow is missing, and if it refuses.
    """
    fed = [graph.node(name.split(":")[0]) for name in step.feeds]
    if wrong := [node.name for node in fed if node.op not in _FED]:
        raise OracleError(f"Grappler can be fed placeholders only, not {wrong[0]!r}; choose a step without that feed.")
    message = without_large_values(graph_def(graph, devices=devices))
    facts = {
        "fetches": list(dict.fromkeys(name.split(":")[0] for name in step.fetches)),
        "devices": [(one.name, _properties(one)) for one in cluster.devices],
        "calls": calls,
    }
    question = child.pack(facts, [message.SerializeToString(deterministic=True)])
    if asking is None:
        answer = child.run("tests.oracle.grappler", question, timeout_s=timeout_s)
    else:
        answer = asking(question, timeout_s)
    told, _ = child.unpack(answer)
    times = {name: (start, end) for name, start, end in told["times"]}
    return Prediction(max((end for _, end in times.values()), default=0), times, told["call_s"], told["tensorflow"])


def _properties(device: Device) -> dict[str, Any]:
    """The fields of a DeviceProperties by which Grappler computes as fast as the device does at its peak."""
    mhz = device.flop_per_s / 10**6
    told: dict[str, Any] = {"type": device.type, "num_cores": 1, "bandwidth": device.bytes_per_s // 10**3}
    if device.type == "GPU":
        mhz /= _GPU_FLOP_PER_CYCLE
        told["environment"] = {"architecture": _ARCHITECTURE}
    return {**told, "frequency": max(1, round(mhz))}


# --- in the child ----------------------------------------------------------------------------------------------------


def _work(question: bytes) -> bytes:
    prepare(gpus=False)
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import device_properties_pb2, meta_graph_pb2
    from tensorflow.python.grappler import _pywrap_tf_cluster as wrapped
    from tensorflow.python.grappler import cluster, item

    facts, (content,) = child.unpack(question)
    meta = meta_graph_pb2.MetaGraphDef(graph_def=graph_pb2.GraphDef.FromString(content))
    meta.collection_def["train_op"].node_list.value.extend(facts["fetches"])
    named = [
        device_properties_pb2.NamedDevice(name=name, properties=device_properties_pb2.DeviceProperties(**properties))
        for name, properties in facts["devices"]
    ]
    virtual = cluster.Cluster(devices=named, disable_timeline=False)
    try:
        asked = item.Item(meta)
        _, _, stats = virtual.MeasureCosts(asked)
        handle, taken = asked.tf_item, []
        for _ in range(facts["calls"]):
            began = time.perf_counter()
            wrapped.TF_MeasureCosts(handle, virtual.tf_cluster, False)  # without a timeline, and as C++ returns it
            taken.append(time.perf_counter() - began)
    except (tf.errors.OpError, ValueError) as error:
        refusal = sentence(error)
        raise OracleError(f"Grappler does not simulate the graph: {refusal}", refusal=refusal) from None
    finally:
        virtual.Shutdown()
    times = [
        (node.node_name, node.all_start_nanos, node.all_start_nanos + node.all_end_rel_nanos)
        for device in stats.dev_stats
        for node in device.node_stats
    ]
    return child.pack({"times": times, "call_s": median(taken), "tensorflow": tf.__version__})


if __name__ == "__main__":
    child.serve(_work)
