"""What TensorFlow itself would do: where its placer puts each node, by which rule, and how it cuts the step."""

from collections import Counter
from pathlib import Path

from placement import place
from simulator import choose_step, estimate, load, load_cluster, partition
from simulator.assignment import RULES
from simulator.partitioning.partitions import SENDS

graph = load(Path(__file__).with_name("ps_training.pbtxt"))
step = choose_step(graph)
cluster = load_cluster("ps=2,worker=1x2gpu")
assignment = place(graph, cluster, estimate(graph, cluster), step=step, algorithm="tensorflow")

for rule, count in Counter(assignment.why.tolist()).most_common():
    print(f"{count:4} nodes: {RULES[rule]}")
first = [graph.names[row] for row in assignment.log_order[:3].tolist()]
print("TensorFlow's placement log begins with", ", ".join(first))

for flavour in ("local", "master"):
    pieces = partition(graph, assignment, cluster, step=step, flavour=flavour)
    sends = [pieces.graph.names[row] for row, op in enumerate(pieces.graph.ops) if op in SENDS]
    print(f"{flavour}: {len(pieces.graph)} nodes, {len(sends)} of them send, as {sends[0]} does")
