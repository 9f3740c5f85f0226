"""Calibrate: measure what kernels, ops, steps and messages take on this machine, in child processes.

    one core     products, convolutions, kernels that move bytes, an op's dispatch, a step without work, streams
    all cores    the same kernels, where there is more than one
    two cores    messages between two processes

TensorFlow runs as users have it: oneDNN is used unless TF_ENABLE_ONEDNN_OPTS=0 says otherwise.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TypeAlias

from simulator.costs.estimate import works_of
from simulator.costs.likeness import sides_of
from simulator.costs.profile import FIGURES, OF_ONE_CORE, Figure, KernelTime, Profile
from simulator.errors import OracleError
from simulator.graph.graph import Graph
from simulator.graph.handing_on import handed_on
from simulator.graph.messages import GraphDef
from simulator.loading import load
from simulator.oracle import child
from simulator.oracle.kernel_cases import cases
from simulator.oracle.machine import cache_bytes, processor
from simulator.progress import Say, silent

AT_ONCE = 104  # kernels of a step, at most: they touch more memory than caches hold
_APART = ("products", "convolutions", "channels")  # families that run in steps of their own, as in models
ROUNDS = 2  # of all kernels on one core, each in another order; others may disturb one
TIMEOUT_S = 120.0  # of a question; the first one imports TensorFlow
MESSAGES_S = 12.0


def calibrate(say: Say = silent) -> Profile:
    """Measure this machine, in some two minutes; `say` gets a line about the progress.

    The machine should do nothing else. Raises OracleError if TensorFlow is missing or fails. So it does where the
    system does not say which cores a process may use (it is Linux that does).
    """
    if not hasattr(os, "sched_getaffinity"):
        raise OracleError("a calibration pins processes to cores, which this system can't; calibrate under Linux")
    cores = sorted(os.sched_getaffinity(0))
    kernels: dict[int, dict[_Case, KernelTime]] = {}  # by the number of cores
    figures: dict[str, Figure] = {}
    counted: dict[_Case, KernelTime] = {}
    say("one core: what comes with each op, step and byte")
    reply, _ = child.unpack(
        child.run("simulator.oracle.executor_times", child.pack({"cores": cores[:1]}), timeout_s=TIMEOUT_S)
    )
    for name in sorted(OF_ONE_CORE):
        figures[name] = _figure(name, reply[name])
    for used in dict.fromkeys((tuple(cores[:1]), tuple(cores))):
        what = "one core" if len(used) == 1 else f"{len(used)} cores"
        say(f"{what}: starting TensorFlow")
        with child.conversation("simulator.oracle.kernel_times") as ask:
            ask(child.pack({"ask": "begin", "cores": used}), TIMEOUT_S)
            kernels[len(used)] = _kernels(ask, len(used), figures["dispatch"].ns, what, say, counted)
    if len(cores) > 1:
        say("messages between two processes")
        question = child.pack({"cores": cores[:2], "seconds": MESSAGES_S})
        found, _ = child.unpack(child.run("simulator.oracle.message_times", question, timeout_s=TIMEOUT_S))
        figures |= {name: _figure(name, found["figures"][name]) for name in FIGURES if name in found["figures"]}
    on_one, on_all = kernels[1], kernels[len(cores)]
    also = _also_warm(on_all, on_one) if len(cores) > 1 else ()
    return Profile(
        machine=processor(),
        cores=len(cores),
        tensorflow=reply["tensorflow"],
        onednn=reply["onednn"],
        cache_bytes=cache_bytes(cores[0]),
        streams=tuple((size, ns) for size, ns in reply["streams"]),
        date=date.today().isoformat(),
        figures=figures,
        kernels=(*on_one.values(), *also),
    )


def _figure(name: str, measured: list[float]) -> Figure:
    """The figure within the bounds of a profile: on a busy machine a difference may fall below."""
    low, high = FIGURES[name]
    return Figure(min(high, max(low, measured[0])), measured[1])


_Case: TypeAlias = tuple[str, int]  # a family and a row of it


def _kernels(
    ask: child.Asking,
    cores: int,
    dispatch_ns: float,
    what: str,
    say: Say,
    counted: dict[_Case, KernelTime],
) -> dict[_Case, KernelTime]:
    """Time all cases in one child; of rounds the shortest time of each counts.

    On one core there are some rounds, and the last one has warm times. On all cores there is one, without these.
    `counted` keeps what the cost table counts for each case that was asked for.
    """
    known = [(family, row) for family, of in cases().items() for row in range(len(of))]
    apart = [[case for case in known if case[0] == family] for family in _APART]
    together = [*apart, [case for case in known if case[0] not in _APART]]
    rounds = ROUNDS if cores == 1 else 1
    shortest: dict[_Case, KernelTime] = {}
    for turn in range(rounds):
        parts = [part for some in together for part in _shuffled(some, turn)]
        for step, asked in enumerate(parts):
            say(f"{what}: round {turn + 1} of {rounds}, {step} of {len(parts)} steps of kernels")
            warm = cores == 1 and turn + 1 == rounds
            for case, times in zip(asked, _asked(ask, asked, cores, counted, warm=warm), strict=True):
                if times is not None:
                    found = _timed(counted[case], cores, dispatch_ns, times)
                    best = shortest.get(case, found)
                    ns, warm_ns = min(best.ns, found.ns), min(best.warm_ns, found.warm_ns)
                    shortest[case] = replace(best if best.ns <= found.ns else found, ns=ns, warm_ns=warm_ns)
    return {case: shortest[case] for case in known if case in shortest}


def _shuffled(asked: Sequence[_Case], turn: int) -> list[list[_Case]]:
    """Kernels in parts of a step each, in another order each turn."""
    order = random.Random(turn).sample(asked, len(asked))
    steps = -(-len(order) // AT_ONCE)
    return [order[step::steps] for step in range(steps)]


def _also_warm(on_all: Mapping[_Case, KernelTime], on_one: Mapping[_Case, KernelTime]) -> Iterator[KernelTime]:
    """The kernels on all cores, warm by as much quicker than on one core as they are cold."""
    for case, found in on_all.items():
        one = on_one.get(case, found)
        yield replace(found, warm_ns=min(found.ns, one.warm_ns * min(1.0, found.ns / one.ns)))


def _asked(
    ask: child.Asking, asked: Sequence[_Case], cores: int, counted: dict[_Case, KernelTime], *, warm: bool
) -> list[list[float | None] | None]:
    """The times of some cases, None for those that do not run; what is counted for new ones goes into `counted`."""
    new = any(case not in counted for case in asked)
    question = child.pack({"ask": "time", "cases": asked, "cores": cores, "warm": warm, "graph": new})
    reply, graphs = child.unpack(ask(question, TIMEOUT_S))
    for graph_def in graphs:
        counted.update(zip(asked, _counted(load(GraphDef.FromString(graph_def)), len(asked)), strict=True))
    found: list[list[float | None] | None] = reply["times"]
    return found


def _counted(graph: Graph, count: int) -> Iterator[KernelTime]:
    """The counts of the cost table for so many cases, without times."""
    works = works_of(graph, handed_on(graph))
    for row in range(count):
        node = graph.index[graph.node(f"case{row}").inputs[0].lstrip("^")]
        work = works.of(node)
        yield KernelTime(graph.ops[node], 0, 0.0, 0.0, 0.0, work.flops, work.moved, *sides_of(work), work.variant)


def _timed(like: KernelTime, cores: int, dispatch_ns: float, times: Sequence[float | None]) -> KernelTime:
    """A case with its times: nanoseconds, the spread, and nanoseconds warm or None."""
    cold, spread, warm = times
    assert cold is not None
    assert spread is not None
    ns = max(dispatch_ns, cold)
    return replace(
        like, cores=cores, ns=ns, spread=spread, warm_ns=ns if warm is None else min(ns, max(dispatch_ns, warm))
    )
