"""Prices of square products beside those that users of PyTorch timed on five GPUs, by cuBLAS as TensorFlow has it.

    python benchmarks/published_squares.py

`published_squares.csv` has 75 products of the issues of github.com/zzc0721/torch-performance-test-data (2025 and 2026),
each the mean of 30. P100 and V100 are SXM2, the A100 is on PCIe, with 250 W. Products in TF32 on the A100 chose the
constant `wide_products`, with those of XLA's table; nothing else was chosen by them.
"""

import csv
import statistics
from pathlib import Path

from simulator import load_cluster
from simulator.costs.formulas.matrix import Product
from simulator.costs.kernels import seconds, speeds_of

FIELDS = Path(__file__).with_suffix(".csv")
BYTES = {"float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2}


def main() -> None:
    errors: dict[tuple[str, str], list[float]] = {}
    with FIELDS.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name, number, side = row["gpu"], row["format"], int(row["side"])
            gpu = next(one for one in load_cluster(f"1{name}").devices if one.type == "GPU")
            if gpu.chip is None:
                raise ValueError(f"{name} has lost its multiprocessors")
            speeds = speeds_of(gpu, gpu.chip, number.replace("tf32", "float32"), matrix=number != "float32")
            moved = 3 * BYTES[number] * side**2 / speeds.moved
            ours = gpu.launch_ns / 1e9 + max(seconds(Product(side, side, side, 1), speeds), moved)
            errors.setdefault((name, number), []).append(ours * float(row["tflop_per_s"]) * 1e12 / (2 * side**3) - 1)
    print("| GPU | format | error of 1,024, 2,048, 4,096, 8,192, 10,240 rows, % |\n|---|---|---|")
    for (name, number), found in errors.items():
        print(f"| {name} | {number} | {' '.join(f'{100 * error:+.0f}' for error in found)} |")
    size = [abs(error) for found in errors.values() for error in found]
    print(f"\n{len(size)} products: {statistics.median(size):.1%} in the median, {max(size):.0%} at worst")


if __name__ == "__main__":
    main()
