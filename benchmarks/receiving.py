"""The gain of late Recvs: makespan, copies and peaks without and with them, on every graph of a folder: for RESULTS.md.

    python benchmarks/receiving.py FOLDER      FOLDER holds GraphDefs, those of graphs.py for one

Each graph is placed as it asks on the GPUs of one host, and as TensorFlow and the white paper place it on a cluster
with parameter servers. What cannot be placed there, or moves nothing, has no row.
"""

import sys
import time
from pathlib import Path

from simulator.errors import SimvizError
from simulator.units import show_bytes, show_nanos
from viz import figures
from viz.command.request import Request
from viz.command.running import run

PLACES = (("8gpu", "requested"), ("ps=2,worker=2x2gpu", "tensorflow"), ("ps=2,worker=2x2gpu", "whitepaper"))
BATCH = 32


def row(path: Path, cluster: str, algorithm: str) -> list[str] | None:
    """The cells of one graph on one cluster, None where nothing is received."""
    started = time.perf_counter()
    scene = run(Request(str(path), cluster=cluster, algorithm=algorithm, batch=BATCH, recv_scheduling="whitepaper"))
    late = figures.late(scene)
    if late is None or not late.transfers:
        return None
    before, after = late.held_byte_ns
    device = max(range(len(scene.cluster)), key=[old - new for old, new in late.peak_bytes].__getitem__)
    old, new = late.peak_bytes[device]
    peak = (
        f"{scene.cluster.devices[device].short}: {show_bytes(old)} to {show_bytes(new)}"
        if old > new
        else "all as they were"
    )
    assert late.makespan_ns[1] <= late.makespan_ns[0]
    assert all(with_it <= without for without, with_it in late.peak_bytes)
    return [
        path.stem,
        f"{cluster}, {algorithm}",
        f"{late.delayed} of {late.transfers}",
        *(show_nanos(time_ns) for time_ns in late.makespan_ns),
        f"{1 - after / before:.1%}" if before else "-",
        peak,
        f"{time.perf_counter() - started:.1f} s",
    ]


def main(folder: Path) -> None:
    print(
        "| graph | placed | Recvs that wait | makespan | with it | copies held less | peak that falls most | command |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for path in sorted(folder.iterdir()):
        for cluster, algorithm in PLACES:
            try:
                cells = row(path, cluster, algorithm)
            except SimvizError as error:
                print(f"{path.name} on {cluster}: {error}", file=sys.stderr)
                continue
            if cells is not None:
                print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
