"""From a file to a picture: the whole way by hand, each value in sight."""

from pathlib import Path

from placement import place
from simulator import choose_step, estimate, load, load_cluster, lower_bound, partition, simulate
from simulator.units import show_bytes, show_nanos

graph = load(Path(__file__).with_name("ps_training.pbtxt"))
step = choose_step(graph)
cluster = load_cluster("ps=2,worker=1x2gpu")
costs = estimate(graph, cluster)
assignment = place(graph, cluster, costs, step=step)
pieces = partition(graph, assignment, cluster, step=step)
trace = simulate(pieces, cluster, costs)

print(f"{step.runs.sum()} of {len(graph)} nodes run, by this rule: {step.rule}")
print(f"placed by {assignment.used}; {len(pieces.send)} transfers")
print(f"a step takes {show_nanos(trace.makespan)}; no placement can do it in less than ", end="")
print(show_nanos(lower_bound(graph, cluster, costs, step=step, constraints=assignment.constraints)))
for row, device in enumerate(cluster.devices):
    busy = trace.busy_ns[row] / trace.makespan
    print(f"  {device.short:13} busy {busy:6.1%}, at most {show_bytes(int(trace.peak_bytes[row]))}")
