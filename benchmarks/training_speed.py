"""Time asynchronous training of ResNet-50 with a parameter server: a table for RESULTS.md.

    python benchmarks/training_speed.py FOLDER [--plain]     FOLDER holds the graphs of graphs.py; made when missing

The graph for one GPU is replicated for 16 to 64 workers and 8 parameter servers (gRPC at 25 Gbit/s). Times are the
processor's, of `train` alone, with all that it lays out. An event is the end of an op or a transfer. The last rows come
in pairs: links that serve in turn, and links that are shared. With --plain also the loop in plain Python.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import simulator
from placement.sessions import clients
from simulator.training.programs.program import estimate_each
from simulator.training.train import train

SIZES = ((16, 50), (16, 100), (32, 100), (64, 50), (64, 100))  # workers, steps of each
SHARED = ((16, 20), (32, 20), (64, 20))  # with links in turn, and shared fairly


def main(folder: str, *, plain: bool) -> None:
    source = Path(folder) / "resnet50_1.pb"
    if not source.exists():
        subprocess.run([sys.executable, Path(__file__).with_name("graphs.py"), folder], check=True)
    graph = simulator.load(source)
    print(
        "| workers | steps each | events | engine | links | CPU s | events/s | updates per simulated s | peak memory |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for workers, steps in SIZES:
        row(graph, workers, steps, "compiled")
    for workers, steps in SHARED:
        for contention in ("serial", "fair"):
            row(graph, workers, steps, "compiled", contention)
    for contention in ("serial", "fair") if plain else ():
        row(graph, 16, 5, "python", contention)


def row(graph: simulator.Graph, workers: int, steps: int, engine: str, contention: str = "serial") -> None:
    cluster = simulator.load_cluster(f"ps=8,worker={workers}x1gpu")
    programs = simulator.replicate(graph, cluster, how="between")
    costs = estimate_each(programs, cluster)
    made_clients = clients(programs, cluster, costs)
    began = time.process_time()
    options, regime = simulator.SimulationOptions(contention=contention, engine=engine), simulator.read_regime("async")
    made = train(made_clients, cluster, costs, regime=regime, steps=steps, options=options, record=0)
    took = time.process_time() - began
    pieces = made_clients[0].partitions
    events = (len(pieces.graph) + len(pieces.send)) * workers * steps
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    rate = len(made.update_ns) * 10**9 / made.end_ns
    print(
        f"| {workers} | {steps} | {events / 1e6:.1f} M | {engine} | {contention} | {took:.1f} | "
        f"{events / took / 1e6:.1f} M | {rate:.1f} | {memory} MiB |",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1], plain="--plain" in sys.argv)
