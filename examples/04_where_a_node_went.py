"""Ask the values: where is a node, why, what does it cost, what crosses devices because of it."""

from pathlib import Path

from placement import place
from simulator import choose_step, estimate, load, load_cluster, partition
from simulator.assignment import RULES

graph = load(Path(__file__).with_name("ps_training.pbtxt"))
step = choose_step(graph)
cluster = load_cluster("ps=2,worker=1x2gpu")
costs = estimate(graph, cluster)
assignment = place(graph, cluster, costs, step=step)
pieces = partition(graph, assignment, cluster, step=step)

for name in ("dense/MatMul/ReadVariableOp", "dense/MatMul", "train/update_dense/weights/ResourceApplyMomentum"):
    node = graph.node(name)
    times = {kind: int(ns) for kind, ns in zip(costs.kinds, costs.run_ns[node.id], strict=True)}
    print(f"{name} ({node.op}) asks for {node.requested or 'nothing'}")
    print(f"  runs on {assignment.name_of(node.id)}: {RULES[assignment.why[node.id]]}")
    print(f"  takes {times} ns")
    for row, tensor in enumerate(pieces.tensor):
        if tensor >= 0 and graph.tensor_node[tensor] == node.id:
            target = cluster.devices[pieces.dst_device[row]].short
            print(f"  {graph.tensor_name(tensor)} crosses to {target}: {pieces.nbytes[row]} bytes")
