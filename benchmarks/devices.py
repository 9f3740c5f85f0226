"""Clusters of up to 65,536 devices: loading one, and the whole command on it. A table for RESULTS.md.

    python benchmarks/devices.py GRAPH

Each figure is the median of three fresh processes. Memory is the process's largest, less that of one that loads `4gpu`.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLUSTERS = (
    "worker=16x7gpu",
    "worker=128x7gpu",
    "worker=1023",
    "worker=512x7gpu",
    "worker=2048x7gpu",
    "worker=8192x7gpu",
)
LOAD = """
import resource, sys, time
from simulator import load_cluster
load_cluster("1gpu")
began = time.perf_counter()
devices = len(load_cluster(sys.argv[1]))
print(devices, time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
RUNS = 3


def loaded(cluster: str) -> list[float]:
    """Devices, seconds and MiB in a fresh process."""
    ran = subprocess.run([sys.executable, "-c", LOAD, cluster], capture_output=True, text=True, check=True)
    return [float(word) for word in ran.stdout.split()]


def commanded(graph: str, cluster: str, page: Path) -> tuple[float, float, float]:
    """Seconds and MiB of the whole command, and the page's KiB."""
    words = [sys.executable, "-m", "viz", graph, "--cluster", cluster, "--quiet", "-o", str(page)]
    began = time.perf_counter()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)} ended with {status}")
    return time.perf_counter() - began, usage.ru_maxrss / 1024, page.stat().st_size / 1024


def main(graph: str) -> None:
    least = min(loaded("4gpu")[2] for _ in range(RUNS))
    print("| cluster | devices | loading, s | MiB | whole command, s | MiB | page, KiB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for cluster in CLUSTERS:
            devices, seconds, mib = map(statistics.median, zip(*(loaded(cluster) for _ in range(RUNS)), strict=True))
            runs = [commanded(graph, cluster, Path(folder, "page.html")) for _ in range(RUNS)]
            whole, most, page = map(statistics.median, zip(*runs, strict=True))
            figures = f"{seconds:.2f} | {mib - least:.0f} | {whole:.1f} | {most:.0f} | {page:.0f}"
            print(f"| `{cluster}` | {devices:,.0f} | {figures} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
