"""Steps in microbatches over stages, beside the plain step: times and memory of published training graphs.

    python benchmarks/pipelines.py FOLDER [--cluster 4p100]...

The folder holds graphs of one device by tf_cnn_benchmarks (`vgg16_1_64_*.pb`: model, GPUs, batch). Prints a table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from simulator.errors import SimvizError
from viz import run

COUNTS = (2, 4, 8, 16)
SHOWN = (("1f1b", COUNTS), ("gpipe", (8,)))


def row(path: Path, cluster: str, batch: int, count: int | None, order: str | None) -> tuple[float, float]:
    """Milliseconds of a step, and GiB at the peak of the fullest GPU."""
    made = run(path, cluster=cluster, batch=batch, ignore_devices=True, microbatches=count, pipeline=order)
    gpus = [at for at, one in enumerate(made.cluster.devices) if one.type == "GPU"]
    return made.trace.makespan / 1e6, max(int(made.trace.peak_bytes[at]) for at in gpus) / 2**30


def main() -> None:
    """Print the table."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("folder", type=Path)
    asked.add_argument("--cluster", action="append", default=[])
    given = asked.parse_args()
    heads = [f"{order} {count}" for order, counts in SHOWN for count in counts]
    print(f"| graph | cluster | plain | {' | '.join(heads)} | best |")
    print(f"|{'---|' * (len(heads) + 4)}")
    for path in sorted(given.folder.glob("*_1_*.pb")):
        parts = path.stem.split("_")
        if not parts[2].isdecimal():
            continue
        for cluster in given.cluster or ["4p100"]:
            plain, room = row(path, cluster, int(parts[2]), None, None)
            cells, best = [], plain
            for order, counts in SHOWN:
                for count in counts:
                    try:
                        took, most = row(path, cluster, int(parts[2]), count, order)
                    except SimvizError as error:
                        cells.append(str(error)[-40:])
                        continue
                    cells.append(f"{took:.1f}, {most:.1f} GiB")
                    best = min(best, took)
            name = f"{parts[0]}, batch {parts[2]}"
            print(
                f"| {name} | {cluster} | {plain:.1f}, {room:.1f} GiB | {' | '.join(cells)} | {plain / best:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
