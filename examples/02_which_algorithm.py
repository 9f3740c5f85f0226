"""One graph, one cluster, all algorithms that need no solver; each raw, so that a bad one shows."""

from pathlib import Path

from placement import ALGORITHMS, place
from simulator import choose_step, estimate, load, load_cluster, partition, simulate
from simulator.units import show_nanos

graph = load(Path(__file__).with_name("ps_training.pbtxt"))
step = choose_step(graph)
cluster = load_cluster("ps=2,worker=1x2gpu")
costs = estimate(graph, cluster)
for algorithm in (name for name in ALGORITHMS if name != "exact"):
    assignment = place(graph, cluster, costs, step=step, algorithm=algorithm, fallback=False)
    trace = simulate(partition(graph, assignment, cluster, step=step), cluster, costs)
    print(f"{algorithm:10} {show_nanos(trace.makespan):>8}")
