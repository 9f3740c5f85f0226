"""Prices of products on tensor cores beside those that XLA's authors timed on an H100 and a B200.

    python benchmarks/published_products.py

`published_products.csv` has 143 products on an H100 and 36 on a B200 of third_party/xla/xla/service/gpu/model/
matmul_interpolator_data.h (TensorFlow's repository, 2025, Apache 2.0), in bfloat16 and in float32. The latter is TF32,
as it is faster than CUDA cores. The constants `matrix_products`, `wide_products` and `starting_ns` of `Constants` were
chosen by the rows "fitted". The rows "judged" were read after that.
"""

import csv
import statistics
from pathlib import Path

from simulator import load_cluster
from simulator.costs.formulas.matrix import Product
from simulator.costs.kernels import seconds, speeds_of

FIELDS = Path(__file__).with_suffix(".csv")
FORMATS = {"bfloat16": (2, "bfloat16_tflop_per_s"), "float32": (4, "tf32_tflop_per_s")}  # bytes and column


def main() -> None:
    clusters = {name: load_cluster(f"1{name}") for name in ("h100", "b200")}
    gpus = {name: next(one for one in found.devices if one.type == "GPU") for name, found in clusters.items()}
    errors: dict[tuple[str, str, str], list[float]] = {}
    with FIELDS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for number, (nbytes, column) in FORMATS.items():
        for row in rows:
            gpu = gpus[row["gpu"]]
            if gpu.chip is None:
                raise ValueError(f"{row['gpu']} has lost its multiprocessors")
            speeds = speeds_of(gpu, gpu.chip, number, matrix=True)
            count, m, n, k = (int(row[name]) for name in ("products", "rows", "columns", "depth"))
            moved = nbytes * count * (m * k + k * n + m * n) / speeds.moved
            ours = gpu.launch_ns / 1e9 + max(seconds(Product(m, n, k, count), speeds), moved)
            true = 2 * count * m * n * k / (float(row[column]) * 1e12)
            errors.setdefault((row["gpu"], number, row["use"]), []).append(ours / true - 1)
    print("| GPU | format | use | products | median error | signed | worst | within 25 % |")
    print("|---|---|---|---|---|---|---|---|")
    for (name, number, use), found in errors.items():
        size = [abs(error) for error in found]
        near = sum(error <= 0.25 for error in size)
        print(
            f"| {name} | {number} | {use} | {len(found)} | {statistics.median(size):.1%} "
            f"| {statistics.median(found):+.1%} | {min(found):+.0%} to {max(found):+.0%} | {near} |"
        )


if __name__ == "__main__":
    main()
