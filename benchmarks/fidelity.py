"""Hold every graph of a folder against the real TensorFlow, on several clusters; writes a table for RESULTS.md.

    python benchmarks/fidelity.py FOLDER [CLUSTER ...]      without clusters: 2cpu 4gpu ps=1,worker=2x2gpu

`requested` is checked by predicting, the other algorithms by pinning. A graph that simviz or TensorFlow refuses is a
row with the first line of the reason.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

CLUSTERS = ("2cpu", "4gpu", "ps=1,worker=2x2gpu")
ALGORITHMS = ("requested", "single", "whitepaper", "heft")
SUFFIXES = (".pb", ".pbtxt", ".meta", ".gz")


def checked(graph, cluster, algorithm):
    """The JSON of one run, or the first line of its refusal, and the seconds that it took."""
    command = [sys.executable, "-m", "viz", str(graph), "--cluster", cluster, "--algorithm", algorithm, "--check"]
    started = time.perf_counter()
    done = subprocess.run([*command, "--json", "-"], capture_output=True, text=True, timeout=600, check=False)
    took = time.perf_counter() - started
    if done.stdout:
        return json.loads(done.stdout), took
    return done.stderr.strip().split("\n", 1)[0].split(": ", 1)[-1].replace(str(graph), graph.name), took


def row(graph, cluster, algorithm):
    found, took = checked(graph, cluster, algorithm)
    if isinstance(found, str):
        return f"| {graph.name} | {cluster} | {algorithm} | refused: {found[:90]} | | {took:.1f} s |"
    check = found["check"]
    said = f"refused by TensorFlow: {check['refused'][:80]}" if check["refused"] else ""
    shares = [f"{check[what]['agree']} / {check[what]['of']}" for what in ("placement", "partition")]
    what = f"{graph.name} | {cluster} | {algorithm} ({check['mode']})"
    return f"| {what} | {shares[0]} {said} | {shares[1]} | {took:.1f} s |"


def main(folder, clusters):
    print("| graph | cluster | algorithm | placement | partition | simviz --check |\n|---|---|---|---|---|---|")
    for graph in sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES):
        for cluster in clusters:
            for algorithm in ALGORITHMS:
                print(row(graph, cluster, algorithm), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or CLUSTERS)
