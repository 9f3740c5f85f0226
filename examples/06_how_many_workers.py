"""How many workers pay? The same training with more and more of them, asynchronous and with a backup worker."""

from pathlib import Path

from placement import clients
from simulator import answers, distributed, estimate_each, load, load_cluster, read_regime, train

graph = load(Path(__file__).with_name("ps_training.pbtxt"))
for workers, text in ((1, "async"), (2, "async"), (4, "async"), (8, "async"), (8, "sync"), (8, "sync:aggregate=7")):
    cluster = load_cluster(f"ps=2,worker={workers}x1gpu,protocol=rdma")
    regime = read_regime(text)
    programs = distributed(graph, cluster, regime=regime)  # of a graph without jobs: replicate(graph, cluster, ...)
    costs = estimate_each(programs, cluster)
    training = train(clients(programs, cluster, costs), cluster, costs, regime=regime, steps=30)
    found = answers(training)
    stale = max(found.staleness)
    print(f"{workers} {text:16} {found.examples_per_s:>9,.0f} examples/s, staleness at most {stale}")
