"""A simulated step as the RunMetadata of a traced session: times, memory and outputs of ops, by device.

Tools that read traces of real sessions read it, too: TensorBoard's graph, `--costs`, TensorFlow's own profiler. The
fields are those of tensorflow/core/framework/step_stats.proto and cost_graph.proto.
"""

from __future__ import annotations

import numpy as np

from simulator.graph.messages import Proto, RunMetadata
from simulator.graph.tensors import shape_message
from viz.figures import slice_nodes, taking_part
from viz.scene import Scene

_US = 1000  # nanoseconds of a microsecond


def run_metadata(scene: Scene) -> Proto:
    """One line per op that runs, on its device, and a CostGraphDef of the graph.

    Ops that take no time are there, too. What a cut adds is not: Sends, Recvs and their transfers. Times begin with
    the step. Whole microseconds are rounded down at the start and up at the end, nanoseconds are exact. A line's memory
    is what the op makes; what several iterations make counts in each.
    """
    message = RunMetadata()
    _step_stats(scene, message.step_stats)
    _cost_graph(scene, message.cost_graph)
    return message


def _step_stats(scene: Scene, stats: Proto) -> None:
    graph, ops = scene.graph, scene.trace.ops
    nodes, inserted = slice_nodes(scene), scene.partitions.inserted[ops.node]
    first, sizes = graph.tensor_ptr.tolist(), graph.tensor_bytes.tolist()
    columns = (nodes, ops.lane, ops.ready_ns, ops.start_ns, ops.end_ns)
    for device, at in enumerate(scene.cluster.devices):
        rows = np.flatnonzero((ops.device == device) & ~inserted)
        if not len(rows):
            continue
        lines = stats.dev_stats.add(device=at.name)
        allocator = f"{at.type}_{at.name.rpartition(':')[2]}_bfc" if at.type != "CPU" else "cpu"
        for node, lane, ready, start, end in zip(*(column[rows].tolist() for column in columns), strict=True):
            line = lines.node_stats.add(
                node_name=graph.names[node],
                timeline_label=f"{graph.names[node]} = {graph.ops[node]}({', '.join(graph.inputs_of(node))})",
                thread_id=max(lane, 0),
                all_start_micros=start // _US,
                op_end_rel_micros=-(-(end - start) // _US),
                all_end_rel_micros=-(-(end - start) // _US),
                scheduled_micros=ready // _US,
                all_start_nanos=start,
                op_end_rel_nanos=end - start,
                all_end_rel_nanos=end - start,
                scheduled_nanos=ready,
            )
            made = [max(size, 0) for size in sizes[first[node] : first[node + 1]]]
            if sum(made):
                line.memory.add(allocator_name=allocator, total_bytes=sum(made), peak_bytes=sum(made))
            for port, nbytes in enumerate(made):
                tensor, output = first[node] + port, line.output.add(slot=port)
                _describe(scene, tensor, output.tensor_description)
                described = output.tensor_description.allocation_description
                described.requested_bytes, described.allocator_name = nbytes, allocator


def _describe(scene: Scene, tensor: int, into: Proto) -> None:
    """Type and shape of a tensor, as far as they are known."""
    into.dtype = int(scene.graph.tensor_dtype[tensor])
    into.shape.CopyFrom(shape_message(scene.graph.tensor_shape[tensor]))


def _cost_graph(scene: Scene, costs: Proto) -> None:
    """The nodes that run, with the time of the longest run of each in whole microseconds, rounded up."""
    graph, trace = scene.graph, scene.trace
    longest = np.zeros(len(graph), np.int64)
    np.maximum.at(longest, slice_nodes(scene), trace.ops.end_ns - trace.ops.start_ns)
    runs, final = taking_part(scene), set(scene.step.fetches)
    device = scene.assignment.device.tolist()
    edges: dict[int, list[int]] = {}
    for edge, target in enumerate(graph.edge_dst.tolist()):
        if runs[target] and runs[graph.edge_src[edge]]:
            edges.setdefault(target, []).append(edge)
    for row in np.flatnonzero(runs).tolist():
        node = costs.node.add(
            id=row,
            name=graph.names[row],
            device=scene.cluster.devices[device[row]].name,
            compute_cost=-(-int(longest[row]) // _US),
            is_final=graph.names[row] in final,
        )
        for edge in edges.get(row, ()):
            source, tensor = int(graph.edge_src[edge]), int(graph.edge_tensor[edge])
            if tensor < 0:
                node.control_input.append(source)
            else:
                port = tensor - int(graph.tensor_ptr[source])
                node.input_info.add(preceding_node=source, preceding_port=port)
        for tensor in graph.outputs(row):
            output = node.output_info.add(size=max(int(graph.tensor_bytes[tensor]), 0), alias_input_port=-1)
            _describe(scene, tensor, output)
