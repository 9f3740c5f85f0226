"""How much does the network matter? The same step between parameter servers and workers on three Ethernets."""

from pathlib import Path

from placement import place
from simulator import choose_step, estimate, load, load_cluster, partition, simulate
from simulator.units import show_bytes, show_nanos

graph = load(Path(__file__).with_name("ps_training.pbtxt"))
step = choose_step(graph)
for preset in ("ps-10gbe", "ps-25gbe", "ps-100gbe"):
    cluster = load_cluster(preset)
    costs = estimate(graph, cluster)
    pieces = partition(graph, place(graph, cluster, costs, step=step), cluster, step=step)
    trace = simulate(pieces, cluster, costs)
    moved = int(pieces.nbytes[pieces.src_device != pieces.dst_device].clip(0).sum())
    print(f"{preset:10} {show_nanos(trace.makespan):>8} a step, {show_bytes(moved)} moved")
