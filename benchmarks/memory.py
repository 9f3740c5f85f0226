"""Hold the simulated peak of memory against what a session of TensorFlow allocates; writes a table for RESULTS.md.

    python benchmarks/memory.py [NAME ..] [--grappler] [--warm N]

One thread runs a step on one CPU. Its peak is that of the records which TensorFlow keeps of its allocator (FULL_TRACE),
after WARM steps, as the executor learns which ops are quick. What is fed is added, which the caller holds. Variables
are left out on both sides.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from memory_graphs import GRAPHS, Step, v1

from simulator.errors import SimvizError
from simulator.oracle.session import configuration
from viz import run


class Judged(NamedTuple):
    """Bytes that a step holds at most beside its variables."""

    real: int
    simulated: int


def judged(name: str, *, grappler: bool, warm: int) -> Judged:
    """Build a step, run it, and simulate it."""
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        fetches, feeds = GRAPHS[name]()
        first = v1.global_variables_initializer()
    real = allocated(graph, first, (fetches, feeds), grappler=grappler, warm=warm)
    found = run(
        graph.as_graph_def().SerializeToString(),
        cluster="1cpu",
        algorithm="single",
        order="tensorflow",
        fetches=[one.name for one in fetches],
        feeds={tensor: value.shape for tensor, value in feeds.items()},
        grappler=grappler,
    )
    assert found.trace is not None
    held = int(found.trace.peak_bytes[0] - found.trace.resident_bytes[0])
    return Judged(real + sum(value.nbytes for value in feeds.values()), held)


def allocated(graph: Any, first: Any, step: Step, *, grappler: bool, warm: int) -> int:
    """The most bytes that a step had allocated at a time."""
    fetches, feeds = step
    config = configuration(soft=True)
    config.inter_op_parallelism_threads = config.intra_op_parallelism_threads = 1
    if grappler:
        config.graph_options.rewrite_options.disable_meta_optimizer = False
        config.graph_options.optimizer_options.opt_level = 0
    with v1.Session(graph=graph, config=config) as session:
        session.run(first)
        call = session.make_callable(fetches, list(feeds), accept_options=True)
        for _ in range(warm):
            call(*feeds.values())
        stats = v1.RunMetadata()
        call(*feeds.values(), options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=stats)
    nodes = [node for device in stats.step_stats.dev_stats for node in device.node_stats]
    changes = [
        (one.alloc_micros, one.alloc_bytes) for node in nodes for kept in node.memory for one in kept.allocation_records
    ]
    level = most = 0
    for _, nbytes in sorted(changes):  # what ends at an instant before what begins
        level += nbytes
        most = max(most, level)
    return most


def main(given: Sequence[str] | None = None) -> None:
    """Print a row for each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of GRAPHS in memory_graphs.py; none: all")
    parser.add_argument("--grappler", action="store_true", help="with TensorFlow's rewriting")
    parser.add_argument("--warm", type=int, default=100)
    chosen = parser.parse_args(given)
    print("| step | allocated, MB | simulated, MB | ratio |\n|---|---|---|---|")
    for name in chosen.names or GRAPHS:
        try:
            real, simulated = judged(name, grappler=chosen.grappler, warm=chosen.warm)
        except (SimvizError, tf.errors.OpError) as error:
            print(f"| {name} | {type(error).__name__}: {str(error)[:120]} | | |", flush=True)
            continue
        print(f"| {name} | {real / 1e6:.1f} | {simulated / 1e6:.1f} | {simulated / real:.3f} |", flush=True)


if __name__ == "__main__":
    main()
