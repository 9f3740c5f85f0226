"""Collectives over eight GPUs beside those that XLA's authors timed on H100.

    python benchmarks/published_collectives.py

`published_collectives.csv` has 33 collectives in float32 from third_party/xla/xla/service/gpu/model/
collective_interpolator_data.h (TensorFlow's repository, 2025, Apache 2.0): the numbers of the whole tensor, and its
bytes by the time. The three largest all-reduces chose the part of the links' rate that NCCL reaches. Nothing else was
chosen by them.
"""

import csv
from pathlib import Path

from simulator import load_cluster
from simulator.costs.estimates.collectives import collective_ns
from simulator.costs.estimates.nccl import ring_of

FIELDS = Path(__file__).with_suffix(".csv")
OPS = {
    "all-reduce": "CollectiveReduceV2",
    "all-gather": "CollectiveGatherV2",
    "reduce-scatter": "CollectiveReduceScatterV2",
}
MEMBERS = 8


def main() -> None:
    cluster = load_cluster("hgx-h100")
    ring = ring_of(cluster, MEMBERS)
    if ring is None:
        raise ValueError("the preset has lost its links")
    launch_ns = next(device.launch_ns for device in cluster.devices if device.type == "GPU")
    print("| op | MiB | measured, us | simulated, us | error |\n|---|---|---|---|---|")
    with FIELDS.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            nbytes = 4 * int(row["elements"])
            true = nbytes / float(row["bytes_per_s"]) * 1e6
            ours = (launch_ns + collective_ns(OPS[row["op"]], nbytes, MEMBERS, ring)) / 1e3
            print(f"| {row['op']} | {nbytes / 2**20:.4g} | {true:.1f} | {ours:.1f} | {ours / true - 1:+.0%} |")


if __name__ == "__main__":
    main()
