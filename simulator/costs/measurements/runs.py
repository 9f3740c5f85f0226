"""Runs of ops, as the host and the streams of a GPU saw them, and the samples that they make.

On a GPU the host's run has the time of the host's work on the op. The streams have the times of its kernels. Where
there are kernels, the mean of their sum per run counts, and the launch is added later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from simulator.costs.measured import Sample
from simulator.units import Nanos

ON_GPU = re.compile(r"(?i)[/:]gpu:\d+")
_NAMED = re.compile(r"([A-Za-z0-9._][^:\s]*):([A-Za-z_]\w*)")  # "layer/MatMul:MatMul", and no "Executor::Process"
_MKL = re.compile(r"_Mkl(Native)?(?=[A-Z])")  # oneDNN's kernels are named apart


class Run(NamedTuple):
    """One run of a node, or of one of its kernels."""

    node: str
    op: str  # "" where the measurement does not say
    where: str
    ns: Nanos  # less than 0: it ended before it began
    kernel: bool = False  # on a stream of a GPU


def samples_of(runs: Iterable[Run]) -> Iterable[Sample]:
    """Kernel times per node, GPU and run of the node; then the host's times of what has no kernels."""
    kernels: dict[tuple[str, str], Nanos] = {}
    ops: dict[str, str] = {}
    host: list[Run] = []
    for run in runs:
        if run.kernel:
            key = (run.node, run.where)
            kernels[key] = kernels.get(key, 0) + run.ns
            ops[run.node] = run.op
        else:
            host.append(run)
    times = Counter(run.node for run in host)
    for (node, where), total in kernels.items():
        yield Sample(node, where, -(-total // max(1, times[node])), kernels_only=True, op=ops[node])
    launched = {node for node, _ in kernels}
    for run in host:
        off_host = run.node in launched and (ON_GPU.search(run.where) is not None or run.where == "CPU")
        if not off_host:
            yield Sample(run.node, run.where, run.ns, op=run.op)


def named(text: str) -> tuple[str, str] | None:
    """Node and op of a tracer's "name:Op"; None for what is no op."""
    found = _NAMED.fullmatch(text)
    return None if found is None else (found[1], without_mkl(found[2]))


def without_mkl(op: str) -> str:
    """The op in whose place a kernel of oneDNN runs."""
    return _MKL.sub("", op, count=1)
