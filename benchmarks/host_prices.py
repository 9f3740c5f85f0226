"""Prices of ops on a CPU beside what TensorFlow's kernels take: a table for RESULTS.md.

    python benchmarks/host_prices.py [PATTERN ..] [--repeats N]

Each kernel of `host_prices_kernels.py` runs on one core, at two sizes or more. Its time is the processor's, less that
of a step without it, and a median (`host_ops.py`). A kernel that threads share is held against the price on a core of
the default CPU. One that a thread runs alone is held against the price on the whole CPU, as it takes that long on any.
PATTERN is a regular expression for labels.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from host_ops import Case, configuration, measured, operation, strings
from host_prices_kernels import KERNELS

from simulator import load, load_cluster
from simulator.cluster.cluster import Device
from simulator.costs.estimate import works_of
from simulator.costs.roofline import time_of
from simulator.costs.rules import HOST
from simulator.graph.handing_on import handed_on

SIZES = (6_400, 1_024_000)
STEP_NS, MOST_COPIES = 3_000_000, 64  # a step has as many kernels as take this long, at most so many
NEAR = 3.0
TRIES = 5  # a busy machine may leave a second thread no time to help


class Kernel(NamedTuple):
    """A line of the table for one op."""

    label: str
    op: str
    arguments: str  # Python, of the helpers that `helpers` makes
    sizes: tuple[int, ...]

    def case(self) -> Case:
        """The kernel as `host_ops` measures it."""

        def make(tf: Any, n: int) -> Callable[[], Any]:
            given = eval(f"dict({self.arguments})", helpers(tf), {"n": n})
            return lambda: getattr(tf.raw_ops, self.op)(**given)

        return Case("", self.sizes[0], self.sizes[-1], make)


def kernels() -> Iterator[Kernel]:
    """The kernels in order; words of a first field that begin with a small letter tell cases of its ops apart."""
    for line in KERNELS.replace("\\\n", " ").strip().splitlines():
        names, arguments, *sizes = (part.strip() for part in line.split("|"))
        words = names.split()
        first = next((at for at, word in enumerate(words) if word[0].islower()), len(words))
        asked = tuple(int(size) for size in sizes[0].split()) if sizes else SIZES
        for op in words[:first]:
            yield Kernel(" ".join([op, *words[first:]]), op, arguments, asked)


def helpers(tf: Any) -> dict[str, Any]:
    """What the arguments of a line may call; see `host_prices_kernels`."""
    chance = np.random.default_rng(3)

    def floats(*shape: int, low: float = 0.1, high: float = 0.9, kind: str = "float32") -> Any:
        return tf.constant(np.asarray(chance.uniform(low, high, shape)).astype(kind))

    def below(limit: int, *shape: int, kind: str = "int32") -> Any:
        return tf.constant(chance.integers(0, limit, shape).astype(kind))

    def variable(*shape: int) -> Any:
        name = f"v{len(tf.compat.v1.global_variables())}"
        start = np.asarray(chance.uniform(0.1, 0.9, shape), "float32")
        made = tf.compat.v1.get_variable(name, initializer=start, use_resource=True)
        tf.compat.v1.add_to_collection("before", made.initializer)
        return made.handle

    def sparse(n: int, part: int) -> Any:
        indices = np.stack([np.arange(n), np.random.default_rng(6).integers(0, 8, n)], 1)
        return (tf.constant(indices), floats(n), tf.constant([n, 8], tf.int64))[part]

    def boxes(n: int) -> Any:
        corners = chance.uniform(0, 0.6, (n, 2))
        return tf.constant(np.concatenate([corners, corners + 0.3], 1).astype("float32"))

    def matrices(made: Any) -> Any:
        return tf.constant(made.astype("float32"))

    return {
        "f": floats,
        "i": below,
        "b": lambda n: tf.constant(np.arange(n) % 7 < 3),
        "c": lambda *shape: tf.constant(np.asarray(chance.uniform(size=shape), "complex64")),
        "words": lambda n: tf.constant(strings(n)),
        "var": variable,
        "sp": sparse,
        "boxes": boxes,
        "splits": lambda n: tf.constant(np.arange(0, n + 1, 64)),
        "longs": lambda *values: tf.constant(np.array(values)),
        "sorted_f": lambda *shape: tf.constant(np.sort(np.asarray(chance.uniform(size=shape), "float32"))),
        "sorted_i": lambda limit, n: tf.constant(np.sort(chance.integers(0, limit, n)).astype("int32")),
        "permutation": lambda n: tf.constant(chance.permutation(n).astype("int32")),
        "definite": lambda batch, n: matrices(np.tile(n * np.eye(n) + np.tril(np.ones((n, n))), (batch, 1, 1))),
        "lower": lambda batch, n: matrices(np.tile(n * np.eye(n) + np.tril(np.ones((n, n))), (batch, 1, 1))),
        "bands": lambda n: matrices(np.outer([0.1, 2.0, 0.1], np.ones(n))),
    }


def core_of(cpu: Device) -> Device:
    """A CPU of one of its cores, with as much of its speed and bandwidth."""
    peaks = {field.name: getattr(cpu.peaks, field.name) // cpu.cores for field in fields(cpu.peaks)}
    return replace(
        cpu,
        flop_per_s=cpu.flop_per_s // cpu.cores,
        bytes_per_s=cpu.bytes_per_s // cpu.cores,
        peaks=type(cpu.peaks)(**peaks),
        cores=1,
    )


def price_ns(tf: Any, kernel: Kernel, size: int, device: Device) -> int:
    """The price of the kernel on a device, of the graph that TensorFlow writes."""
    with tf.Graph().as_default() as graph, tempfile.TemporaryDirectory() as folder:
        name = operation(kernel.case().make(tf, size)()).name
        path = Path(folder, "graph.pb")
        path.write_bytes(graph.as_graph_def().SerializeToString())
        read = load(path)
    return time_of(works_of(read, handed_on(read)).of(read.index[name]), device)


def took_ns(tf: Any, kernel: Kernel, size: int, repeats: int) -> float:
    """The kernel's time on a core, by a step with as many of it as fit."""
    alone, _ = measured(tf, kernel.case(), size, 1, 1)
    copies = int(max(1, min(MOST_COPIES, STEP_NS / max(1000, alone))))
    return measured(tf, kernel.case(), size, copies, repeats)[0]


def main() -> None:
    """Measure the kernels whose labels match, or all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--sharing", action="store_true", help="only say which kernels two threads share")
    asked = parser.parse_args()
    if find_spec("tensorflow") is None:
        sys.exit('TensorFlow is needed to measure it: pip install "simviz[tensorflow]"')
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session(config=configuration(tf, 2 if asked.sharing else 1)) as session:
        session.run(tf.constant(0))
    patterns = [re.compile(pattern) for pattern in asked.patterns]
    chosen = [one for one in kernels() if not patterns or any(each.fullmatch(one.label) for each in patterns)]
    if asked.sharing:
        for kernel in chosen:
            tries = (measured(tf, kernel.case(), kernel.sizes[-1], 1, 2 * asked.repeats)[1] for _ in range(TRIES))
            print(f"{kernel.label}\t{any(tries)}", flush=True)
        return
    command = [sys.executable, __file__, *asked.patterns, "--sharing", f"--repeats={asked.repeats}"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    shared = {label for label, told_so in (line.split("\t") for line in told.splitlines()) if told_so == "True"}
    (cpu,) = load_cluster("1cpu").devices
    core, by_core = core_of(cpu), {op for *_, names in HOST for op in names.split()}
    print("| kernel | threads | by core time | size: ns, real / price |\n|---|---|---|---|")
    last: dict[str, tuple[float, bool]] = {}
    for kernel in chosen:
        against, cells = core if kernel.label in shared else cpu, []
        for size in kernel.sizes:
            took = took_ns(tf, kernel, size, asked.repeats)
            ratio = took / price_ns(tf, kernel, size, against)
            last[kernel.label] = ratio, kernel.op in by_core
            cells.append(f"{size:,}: {took:,.0f}, {ratio:.2g}")
        said = "yes" if kernel.label in shared else "no", "yes" if kernel.op in by_core else "no"
        print(f"| {kernel.label} | {' | '.join(said)} | {'; '.join(cells)} |", flush=True)
    for title, rows in (
        ("by core time", [ratio for ratio, counted in last.values() if counted]),
        ("by operations and bytes", [ratio for ratio, counted in last.values() if not counted]),
    ):
        if rows:
            print(
                f"{title}, largest sizes: {len(rows)} kernels, median {statistics.median(rows):.2g}; "
                f"{sum(row > NEAR for row in rows)} above {NEAR:g}, {sum(row < 1 / NEAR for row in rows)} below a third"
            )


if __name__ == "__main__":
    main()
