"""Calibrate: measure what kernels, ops, steps and messages take on this machine, in child processes.

    one core     products, convolutions, kernels that move bytes, an op's dispatch, a step without work
    all cores    the same kernels, where there is more than one
    two cores    messages between two processes

TensorFlow runs as users have it: oneDNN is used unless TF_ENABLE_ONEDNN_OPTS=0 says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import date

from simulator.costs.estimate import works_of
from simulator.costs.profile import FIGURES, Figure, KernelTime, Profile
from simulator.costs.profiled import sides_of
from simulator.errors import OracleError
from simulator.graph.graph import Graph
from simulator.graph.messages import GraphDef
from simulator.loading import load
from simulator.oracle import child
from simulator.oracle.kernel_cases import cases
from simulator.oracle.machine import processor

AT_ONCE = 8  # kernels per question: progress is shown after each, and a slow machine answers in time
DISTURBED = 1.08  # how much longer the reference takes than at best, where others use the machine
TIMEOUT_S = 120.0  # of a question; the first one imports TensorFlow
MESSAGES_S = 12.0


def calibrate(say: Callable[[str], None] = lambda stage: None) -> Profile:
    """Measure this machine, in a minute or two; `say` gets a line about the progress.

    The machine should do nothing else. Raises OracleError if TensorFlow is missing or fails, and where the system does
    not tell which cores a process may use (it is Linux that does).
    """
    if not hasattr(os, "sched_getaffinity"):
        raise OracleError("a calibration pins processes to cores, which this system can't; calibrate under Linux")
    cores = sorted(os.sched_getaffinity(0))
    kernels: list[KernelTime] = []
    figures: dict[str, Figure] = {}
    version, onednn = "", False
    for used in dict.fromkeys((tuple(cores[:1]), tuple(cores))):
        what = "one core" if len(used) == 1 else f"{len(used)} cores"
        say(f"{what}: starting TensorFlow")
        with child.conversation("simulator.oracle.kernel_times") as ask:
            begun, _ = child.unpack(ask(child.pack({"ask": "begin", "cores": used}), TIMEOUT_S))
            version, onednn = begun["tensorflow"], begun["onednn"]
            if len(used) == 1:
                figures |= {name: _figure(name, begun[name]) for name in ("dispatch", "step")}
            kernels += _kernels(ask, len(used), Figure(*begun["dispatch"]).ns, what, say)
    if len(cores) > 1:
        say("messages between two processes")
        question = child.pack({"cores": cores[:2], "seconds": MESSAGES_S})
        told, _ = child.unpack(child.run("simulator.oracle.message_times", question, timeout_s=TIMEOUT_S))
        figures |= {name: _figure(name, told["figures"][name]) for name in FIGURES if name in told["figures"]}
    return Profile(
        machine=processor(),
        cores=len(cores),
        tensorflow=version,
        onednn=onednn,
        date=date.today().isoformat(),
        figures=figures,
        kernels=tuple(kernels),
    )


def _figure(name: str, told: list[float]) -> Figure:
    """The figure within the bounds of a profile: on a busy machine a difference may fall below."""
    low, high = FIGURES[name]
    return Figure(min(high, max(low, told[0])), told[1])


def _kernels(
    ask: child.Asking, cores: int, dispatch_ns: float, what: str, say: Callable[[str], None]
) -> list[KernelTime]:
    """Time all cases in one child; those for which the machine was busy once more, and the shorter time counts."""
    questions = [
        {"ask": "time", "family": family, "first": first, "last": first + AT_ONCE, "cores": cores}
        for family, asked in cases().items()
        for first in range(0, len(asked), AT_ONCE)
    ]
    found: list[list[KernelTime | None]] = []
    references: list[float] = []
    total = sum(map(len, cases().values()))
    for question in questions:
        say(f"{what}: {question['family']}, {sum(map(len, found))} of {total} kernels")
        times, reference_ns = _asked(ask, question, dispatch_ns)
        found.append(times)
        references.append(reference_ns)
    disturbed = [row for row, ns in enumerate(references) if ns > DISTURBED * min(references)]
    for done, row in enumerate(disturbed):
        say(f"{what}: the machine was busy; once more, {done} of {len(disturbed)} groups of kernels")
        again, _ = _asked(ask, questions[row], dispatch_ns)
        found[row] = [_shorter(*both) for both in zip(found[row], again, strict=True)]
    return [one for times in found for one in times if one is not None]


def _asked(
    ask: child.Asking, question: Mapping[str, object], dispatch_ns: float
) -> tuple[list[KernelTime | None], float]:
    """The times of some cases, None for those that do not run, and what the reference took meanwhile."""
    told, (graph_def,) = child.unpack(ask(child.pack(question), TIMEOUT_S))
    graph, cores = load(GraphDef.FromString(graph_def)), told["cores"]
    found = [
        None if times is None else _kernel(graph, row, cores, dispatch_ns, times)
        for row, times in enumerate(told["times"])
    ]
    return found, told["reference_ns"]


def _shorter(one: KernelTime | None, other: KernelTime | None) -> KernelTime | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda time: time.ns)


def _kernel(graph: Graph, row: int, cores: int, dispatch_ns: float, times: list[float]) -> KernelTime:
    """A case's time, with what the cost table counts for it."""
    node = graph.index[graph.node(f"case{row}").inputs[0].lstrip("^")]
    table, which = works_of(graph)
    work = table[which[node]]
    m, n, k, count, taps = sides_of(work.kernel)
    return KernelTime(
        graph.ops[node], cores, dispatch_ns + times[0], times[1], work.flops, work.moved, m, n, k, count, taps,
        work.variant,
    )  # fmt: skip
