"""Rewrite a graph by TensorFlow's own graph optimizers, as a session does before it runs a step.

    graph ──▶ devices as far as requested ──▶ Grappler, in a child process ──▶ graph
                                                 ▲
                     the cluster's devices, described: no GPU is needed

Grappler runs after placement, on all devices of a session (tensorflow/core/common_runtime/graph_execution_state.cc). It
joins kernels, folds constants, drops what is equal or unused, and turns images to the layout that a GPU wants. Each of
these depends on the type of a node's device, and some on the architecture of the GPUs, but not on kernels. So here a
node without a request stands on the first device whose type has a kernel for it, and is free again afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from simulator.cluster.cluster import Cluster, Device
from simulator.cluster.devicespec import matches, parse
from simulator.errors import GraphError, OracleError
from simulator.graph import ops
from simulator.graph.dataflow import data_inputs
from simulator.graph.graph import Graph, Shape
from simulator.graph.graph_def import graph_def, untie
from simulator.graph.importer import read_graph
from simulator.graph.messages import GraphDef
from simulator.graph.step import Step
from simulator.graph.tensors import completed
from simulator.graph.traversal import PLACEHOLDERS
from simulator.oracle import child
from simulator.oracle.session import imported, quiet, sentence
from simulator.shapes.dims import is_open
from simulator.shapes.filling import with_shapes
from simulator.shapes.propagation import edge_tensors
from simulator.shapes.rules import RULES
from simulator.wording import counted


class SessionStep(NamedTuple):
    """A step of a session, whose graph it optimizes."""

    graph: Graph
    cluster: Cluster
    step: Step


def optimized(graph: Graph, cluster: Cluster, step: Step, *, timeout_s: float = 300.0) -> Graph:
    """The graph that a session of TensorFlow runs for the step, before it is cut.

    Grappler rewrites it with its defaults, for devices as the cluster has. Nodes keep their requested devices. One that
    is new, or on another device, requests what nodes on its device do, if all of them do. Shapes are left out (see
    `with_shapes_of`), and so are signatures and collections of a MetaGraph. A note counts the nodes. Raises OracleError
    if TensorFlow is missing, refuses the graph, or takes too long. Raises GraphError for a step that feeds anything but
    placeholders, as Grappler knows no other.
    """
    return optimized_each([SessionStep(graph, cluster, step)], timeout_s=timeout_s)[0]


def optimized_each(steps: Sequence[SessionStep], *, timeout_s: float = 300.0) -> list[Graph]:
    """The graph of each step as by `optimized`, all in one child process."""
    for graph, _, step in steps:
        _check_feeds(graph, step)
    devices = [_assigned(graph, cluster) for graph, cluster, _ in steps]
    asked = [
        {
            "fetches": list(dict.fromkeys(step.fetches)),
            "devices": [
                [device.name, device.type, device.memory_bytes, device.chip.compute_capability if device.chip else 0]
                for device in cluster.devices
            ],
        }
        for _, cluster, step in steps
    ]
    try:
        graphs = [graph_def(one.graph, devices=on).SerializeToString() for one, on in zip(steps, devices, strict=True)]
    except ValueError:  # protobuf's limit is 2 GiB
        raise OracleError("the graph is too large to be handed to TensorFlow: a GraphDef ends at 2 GiB") from None
    question = child.pack({"steps": asked}, graphs)
    facts, made = child.unpack(child.run("simulator.oracle.optimizing", question, timeout_s=timeout_s * len(steps)))
    return [_read(*given) for given in zip(steps, devices, made, facts["refusals"], strict=True)]


def _check_feeds(graph: Graph, step: Step) -> None:
    for name in step.feeds:
        node = graph.row(name.partition(":")[0])
        if graph.ops[node] not in PLACEHOLDERS:
            raise GraphError(
                f"{graph.names[node]} is fed, but is no placeholder, and Grappler would rewrite it: feed placeholders, "
                "or leave out --grappler",
                node=graph.names[node],
            )


def _assigned(graph: Graph, cluster: Cluster) -> list[str]:
    """For each node the first requested device whose type has a kernel for it."""
    fitting: dict[str, list[Device]] = {"": list(cluster.devices)}
    for text in dict.fromkeys(graph.requested):
        found = [device for device in cluster.devices if matches(parse(text), parse(device.name))]
        fitting[text] = found or fitting[""]
    kinds = ops.of_nodes(ops.kernel_types, graph)  # in order of TensorFlow's preference
    return [_first(fitting[text], [kind for kind, _ in of]) for text, of in zip(graph.requested, kinds, strict=True)]


def _read(given: SessionStep, devices: Sequence[str], content: bytes, refusal: str) -> Graph:
    """The graph that Grappler made, where the nodes of the given one stood on these devices.

    A note says so where TensorFlow refuses to import it: what Grappler joins has rules that no session asks for.
    """
    graph, made = given.graph, GraphDef.FromString(content)
    stood = dict(zip(graph.names, zip(devices, graph.requested, strict=True), strict=True))
    beside = dict(zip(devices, graph.requested, strict=True))
    beside |= {device: "" for device, text in zip(devices, graph.requested, strict=True) if not text}
    names = {node.name for node in made.node}
    for node in made.node:
        device, text = stood.get(node.name, ("", ""))
        node.device = text if node.device == device else beside.get(node.device, "")
        untie(node, names)
    try:
        rewritten = read_graph(made)
    except GraphError as error:
        raise OracleError(f"TensorFlow's optimized graph cannot be read: {error}") from None
    notes = (*graph.notes, *rewritten.notes, _said(graph, rewritten, given.step))
    if refusal:
        notes += (f"a file of the graph that Grappler made can't be imported: TensorFlow refuses it: {refusal}",)
    return replace(rewritten, source=graph.source, notes=notes)


def _said(graph: Graph, rewritten: Graph, step: Step) -> str:
    """A sentence on the nodes that Grappler kept and added."""
    before = [graph.index.get(name, -1) for name in rewritten.names]
    kept = [(row, op) for row, op in zip(before, rewritten.ops, strict=True) if row >= 0 and step.runs[row]]
    other = sum(graph.ops[row] != op for row, op in kept)
    return (
        f"of the {counted(int(step.runs.sum()), 'node')} that the step runs Grappler kept {len(kept):,}, "
        f"{other:,} of them with another op, and added {before.count(-1):,}"
    )


def _first(devices: Sequence[Device], kinds: Sequence[str]) -> str:
    """The first device of the first type of which there is one."""
    return next((device.name for kind in kinds for device in devices if device.type == kind), devices[0].name)


def with_shapes_of(before: Graph, graph: Graph) -> Graph:
    """The rewritten graph with shapes as by `with_shapes`, and by those of the graph that it was made of.

    What is fed, dequeued or comes from an iterator has the shape from before. A node that kept its name and its op may
    have another layout now, so rules come first. The shape from before counts where no rule finds one although all that
    the node reads is known, or where its op has no rule.
    """
    known = {tensor: shape for tensor, shape in _kept(before, graph, edge_tensors(graph)) if not is_open(shape[:1])}
    while True:
        found = with_shapes(graph, observed=known)
        more = dict(_ends(before, found))
        if not more:
            return found
        known |= more


def _kept(before: Graph, graph: Graph, tensors: Iterable[int]) -> Iterator[tuple[int, Shape]]:
    """Those of the tensors whose nodes kept their names and ops, with their shapes before."""
    for tensor in tensors:
        node = int(graph.tensor_node[tensor])
        old = before.index.get(graph.names[node])
        if old is not None and before.ops[old] == graph.ops[node]:
            shape = before.tensor_shape[before.outputs(old)[int(graph.tensor_port[tensor])]]
            if shape is not None:
                yield tensor, shape


def _ends(before: Graph, found: Graph) -> Iterator[tuple[int, Shape]]:
    """The tensors of unknown shape at which rules end, with their shapes before."""
    inputs = data_inputs(found)
    for node, (name, op) in enumerate(zip(found.names, found.ops, strict=True)):
        old = before.index.get(name)
        if old is None or before.ops[old] != op:
            continue
        if op in RULES and any(is_open(found.tensor_shape[tensor]) for tensor in inputs[node]):
            continue
        for tensor, was in zip(found.outputs(node), before.outputs(old), strict=False):  # unread ones of an unknown op
            shape = completed(found.tensor_shape[tensor], before.tensor_shape[was])
            if shape is not None and shape != found.tensor_shape[tensor]:
                yield tensor, shape


# --- in the child ----------------------------------------------------------------------------------------------------


def _work(payload: bytes) -> bytes:
    quiet()  # oneDNN is as a session has it by default: it lets Grappler join more on a processor
    facts, graphs = child.unpack(payload)
    made = [_rewritten(*given) for given in zip(facts["steps"], graphs, strict=True)]
    return child.pack({"refusals": list(map(_refusal, made))}, made)


def _refusal(content: bytes) -> str:
    """The refusal of a graph by TensorFlow's importer, or ""."""
    try:
        imported(content)
    except Exception as error:  # noqa: BLE001  # TensorFlow raises half a dozen types here
        return sentence(error)
    return ""


def _rewritten(facts: Mapping[str, Any], content: bytes) -> bytes:
    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import config_pb2, device_properties_pb2, meta_graph_pb2
    from tensorflow.python.grappler import cluster, tf_optimizer

    meta = meta_graph_pb2.MetaGraphDef(graph_def=graph_pb2.GraphDef.FromString(content))
    meta.collection_def["train_op"].node_list.value.extend(facts["fetches"])  # what Grappler takes for fetched
    devices = []
    for name, kind, memory_bytes, capability in facts["devices"]:
        properties = device_properties_pb2.DeviceProperties(type=kind, memory_size=memory_bytes)
        if kind == "GPU":
            properties.vendor = "NVIDIA"
            properties.environment["architecture"] = f"{capability:.1f}"
        devices.append(device_properties_pb2.NamedDevice(name=name, properties=properties))
    try:
        imported(content)  # a wrong graph would end the process in Grappler
        made: Any = tf_optimizer.OptimizeGraph(
            config_pb2.ConfigProto(), meta, verbose=False, cluster=cluster.Cluster(devices=devices)
        )
    except Exception as error:  # noqa: BLE001  # TensorFlow raises half a dozen types here
        refusal = sentence(error)
        raise OracleError(f"TensorFlow does not optimize the graph: {refusal}", refusal=refusal) from None
    return bytes(made.SerializeToString(deterministic=True))


if __name__ == "__main__":
    child.serve(_work)
