"""Price the ops of a graph by a profile: a kernel takes what those like it took that were measured (`likeness`).

Small kernels were timed cold and warm. The cold time counts as far as what kernels ran in between pushes their code
and their data out of the caches: see `Coldness`. Large ones take longer in a step that is larger than the cache that
cores share, and less in a smaller one: see `farther_ns`. Weights come from memory, then: see `read_byte_ns`. On more
cores than one a kernel takes what lies between the two numbers of cores that were measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, log
from statistics import median
from typing import NamedTuple

import numpy as np

from simulator.cluster.cluster import Device
from simulator.columns import Flags, Floats, Ids, Ints, flags, ids
from simulator.costs.estimates.memory import NO_KERNEL, far_weights, footprint_bytes
from simulator.costs.likeness import GUESS, Times, measured_name
from simulator.costs.profile import KernelTime, Profile
from simulator.costs.roofline import OpWork, Works
from simulator.costs.rules import CHECKPOINT
from simulator.costs.table import MAX_OP_NS, PROFILED, PriceErrors
from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.graph.op_classes import CONTROL_FLOW
from simulator.graph.step import Step, choose_step
from simulator.graph.traversal import loop_depths
from simulator.units import Bytes


class Coldness(NamedTuple):
    """How much of what a kernel needs has left the caches since it was used, from 0 to 1."""

    code: float
    data: float


COLD = Coldness(1.0, 1.0)


class Pricing:
    """Prices by one profile, on so many cores.

    Kernels were measured on one core and on all of the machine. Between and beyond, the time falls by a power of the
    number of cores, as it did between these two.
    """

    def __init__(self, profile: Profile, cores: int) -> None:
        measured = sorted({one.cores for one in profile.kernels})
        self._on = [_OnCores([one for one in profile.kernels if one.cores == count]) for count in measured]
        most = measured[-1]
        self._weight = log(cores) / log(most) if most > 1 else 0.0
        self._beyond = cores > most
        self.dispatch_ns = profile.figures["dispatch"].ns

    def knows(self, op: str) -> bool:
        """Whether the op was measured on one core."""
        return self._on[0].knows(op)

    def price(
        self, op: str, work: OpWork, cold: Coldness = COLD, farther: float = 0.0, least_ns: float = 0.0
    ) -> tuple[float, float, str]:
        """Nanoseconds, the relative error that nine of ten prices keep, and the family whose error it is.

        A kernel whose data are cold takes `farther` nanoseconds more for each byte of its outputs. On one core it takes
        `least_ns` at least.
        """
        ns, error, family = self._on[0].price(op, work, self.dispatch_ns, cold, farther)
        gained = 1.0
        if self._weight:
            all_ns, all_error, _ = self._on[-1].price(op, work, self.dispatch_ns, cold, farther)
            gained = min(1.0, all_ns / ns) ** self._weight
            error = max(error, all_error)
        ns = gained * max(ns, least_ns)
        return max(self.dispatch_ns, ns), error * (2 if self._beyond else 1), family


@lru_cache(maxsize=8)  # a what-if asks for one many times
def pricing_of(profile: Profile, cores: int) -> Pricing:
    """Prices by a profile on so many cores; the fits take some tenths of a second."""
    return Pricing(profile, cores)


class _OnCores:
    """The measured kernels on one number of cores, cold and warm."""

    def __init__(self, kernels: Sequence[KernelTime]) -> None:
        self._cold = Times(kernels)
        self._warm = Times([replace(one, ns=one.warm_ns) for one in kernels])
        later: dict[str, list[float]] = {}
        for one in kernels:
            if one.ns > one.warm_ns:
                later.setdefault(measured_name(one), []).append(one.ns - one.warm_ns)
        usual = {name: median(more) for name, more in later.items()}
        of_data = float(np.quantile([*usual.values()], _LIGHT, method="lower")) if usual else 0.0
        self._code_ns = {name: max(0.0, more - of_data) for name, more in usual.items()}

    def knows(self, op: str) -> bool:
        """Whether the op was measured."""
        return self._cold.knows(op)

    def price(
        self, op: str, work: OpWork, dispatch_ns: float, cold: Coldness, farther: float
    ) -> tuple[float, float, str]:
        """Nanoseconds, error and family.

        What the kernel in the middle of those of an op loses is its code, but for what a light one of any op loses.
        """
        cold_ns, error, family = self._cold.price(op, work, dispatch_ns)
        warm_ns, warm_error, _ = self._warm.price(op, work, dispatch_ns)
        later = max(0.0, cold_ns - warm_ns)
        code = min(later, self._code_ns.get(family, later))
        ns = cold_ns - (1 - cold.code) * code - (1 - cold.data) * (later - code) + cold.data * farther * work.made
        return max(_NEAREST * warm_ns, ns), max(error, warm_error), family


def data_parts(works: Works, runs: Flags, inside: Flags, profile: Profile) -> tuple[float, float]:
    """How cold data are, outside and inside loops: by the bytes of kernels in the mean beside a core's cache.

    A kernel behind others that moved few bytes finds what it reads in the cache. Behind streams it does not
    (docs/decisions, 0108). `runs` [N] are the nodes of the step, `inside` [N] those in loops.
    """
    moved, launched = _moved(works, runs)

    def part(of: Flags) -> float:
        mean = float(moved[of].sum()) / max(1, int(of.sum()))
        return mean**2 / (mean**2 + (_SHARE * profile.cache_bytes) ** 2)

    return part(launched & ~inside), part(launched & inside)


def code_parts(graph: Graph, works: Works, runs: Flags, inside: Flags, profile: Profile) -> Floats:
    """[N] how cold the code of each node's op is: by the bytes that all kernels move from one of that op to the next.

    Few push it out of a core's own cache, many out of the one that cores share (docs/decisions, 0122). A loop counts
    by itself. Outside loops each of their iterations lies between two kernels, and one is sure.
    """
    moved, launched = _moved(works, runs)
    cold = np.ones(len(graph))
    for counted, between_of in ((launched & ~inside, launched), (launched & inside, launched & inside)):
        nodes = np.flatnonzero(counted).tolist()
        count = Counter(graph.ops[node] for node in nodes)
        between = float(moved[between_of].sum())
        part = {}
        for op, times in count.items():
            more, most = _in_stream(profile, between / times)
            own = between / (between + profile.cache_bytes * times)
            part[op] = _OF_OWN * own + (1 - _OF_OWN) * (more / most if most else 0.0)
        cold[nodes] = [part[graph.ops[node]] for node in nodes]
    return cold


def _moved(works: Works, runs: Flags) -> tuple[Floats, Flags]:
    """[N] the bytes that kernels move, and the nodes of the step that have one."""
    return works.ints(lambda work: work.moved).astype(float), works.flags(lambda work: work.rule.launches) & runs


def farther_ns(profile: Profile, footprint: Bytes | None) -> float:
    """Nanoseconds that a byte of an output takes more in a step of that footprint than in the calibration's steps.

    By the profile's streams, whose kernels read what was just made, and write over what was touched a footprint ago
    (docs/decisions, 0116). 0 where the footprint is not known.
    """
    if footprint is None:
        return 0.0
    more, most = _in_stream(profile, _TOUCHED * footprint)
    return _FAR * more - _CALIBRATED * most


def read_byte_ns(profile: Profile, footprint: Bytes | None) -> float:
    """Nanoseconds of a byte of weights that a kernel reads, in a step of that footprint; 0 where caches keep them."""
    if footprint is None:
        return 0.0
    more, most = _in_stream(profile, _TOUCHED * footprint)
    return profile.figures["read_byte"].ns * more / most if most else 0.0


def _in_stream(profile: Profile, footprint: float) -> tuple[float, float]:
    """Nanoseconds by which a byte of a stream takes longer than one of the quickest: at that footprint, and at most."""
    sizes, took = np.array(profile.streams).T
    took = np.maximum.accumulate(took)  # a larger one takes no less, but for noise
    more = np.interp(log(max(1.0, footprint)), np.log(sizes), took - took[0])
    return float(more), float(took[-1] - took[0])


_LIGHT = 0.25  # of the ops have so little code that all that they lose is data
_SHARE = 0.1  # of the cache: kernels of so many bytes in the mean find their data half cold
_OF_OWN = 0.15  # of the time that code takes from memory, what it takes from the cache that cores share
_TOUCHED = 1.5  # of a footprint: freed memory is not all used again at once
_FAR = 0.8  # of what a step makes lies where it touched memory a footprint ago, the rest over inputs or what was freed
_CALIBRATED = 0.3  # the same of a calibration's steps, whose kernels write over inputs more often
_NEAREST = 0.5  # of a time, at least: no kernel was seen to gain more by what its step leaves in the caches

# What an op takes that hands on, in dispatches of an Identity, by rows of 1,500 such ops in a session of TensorFlow
# 2.21, less their constants; others take one. One of a variable or an array looks it up and locks it. Siblings of what
# was measured are likened to it.
_DISPATCHES: Mapping[str, float] = {
    op: dispatches
    for dispatches, ops in (
        (0.3, "VarHandleOp Const"),
        (1.4, "EnsureShape IdentityN"),
        (2.2, "ReadVariableOp AssignVariableOp Reshape ExpandDims"),
        (2.4, "Sum Prod Max Min Mean All Any"),  # these and those below where they hand their input on
        (2.6, "Split Unpack"),
        (2.8, "Squeeze"),
        (3.2, "Shape ShapeN Size Rank Transpose Tile BroadcastTo Pad PadV2 MirrorPad SplitV"),
        (4.1, "TensorListGetItem TensorArrayReadV3"),
        (5.8, "Slice Bitcast"),
        (6.5, "StackPushV2 StackPopV2 StackPush StackPop"),
        (7.4, "TensorListSetItem TensorArrayWriteV3 TensorListPushBack TensorListPopBack"),
        (8.0, "StridedSlice"),
    )
    for op in ops.split()
}
_OF_ROWS = frozenset({"StridedSlice", "Gather", "GatherV2"})  # a profile measures them by rows, which are copied whole
# Dispatches more, outside and inside loops, of each op of a graph with Switch, Merge or Enter: the executor then keeps
# frames, and counts the dead inputs of an op (core/common_runtime/propagator_state.cc).
_FRAMED = (0.4, 0.7)


def _running(graph: Graph) -> Flags:
    """[N] the nodes of the step that is run by default: others, such as initialisers, leave nothing in a cache."""
    try:
        return choose_step(graph).runs
    except GraphError:  # the graph lacks what its signature names: whoever runs it says which part
        return flags(np.ones(len(graph), bool))


def profiled_prices(
    graph: Graph,
    models: Sequence[Device],
    works: Works,
    handing: Ids,
    profile: Profile,
    step: Step | None = None,
) -> tuple[Ints, PriceErrors]:
    """Price kernels of CPUs by a profile: [N, K] times and their errors; -1 where the price of the cost table stays.

    It stays for opaque kernels, checkpoints, and scalar kernels that were not measured.
    """
    inside = np.array(loop_depths(graph)) > 0
    runs = _running(graph) if step is None else step.runs
    data, code = data_parts(works, runs, inside, profile), code_parts(graph, works, runs, inside, profile)
    moved = works.ints(lambda work: work.moved if work.rule.launches else NO_KERNEL)
    footprint = footprint_bytes(graph, runs, moved, handing, flags(inside))
    farther, read_ns = farther_ns(profile, footprint), read_byte_ns(profile, footprint)
    weights = far_weights(graph, runs, moved, handing, flags(inside)) if read_ns else np.zeros(len(graph), np.int64)
    keeps_frames = any(graph.ops[node] in CONTROL_FLOW for node in np.flatnonzero(runs).tolist())
    framed = _FRAMED if keeps_frames else (0.0, 0.0)
    keys = np.stack([works.which, inside, weights])
    different, first, row_of = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    run_ns = np.full((len(first), len(models)), -1, np.int64)
    relative = np.full((len(first), len(models)), GUESS - 1)
    families: dict[str, int] = {"not by the profile": 0}
    family = np.zeros(len(first), np.int32)
    for column, model in enumerate(models):
        if model.type != "CPU":
            continue
        pricing = pricing_of(profile, model.cores)
        for row, (node, (which, looped, far)) in enumerate(zip(first.tolist(), different.T.tolist(), strict=True)):
            work, op = works.different[which], graph.ops[node]
            if not work.rule.launches:
                run_ns[row, column] = ceil(pricing.dispatch_ns * (_DISPATCHES.get(op, 1.0) + framed[looped]))
                relative[row, column] = 0.0
            elif pricing.knows(op) or not (work.core_ps or work.rule.opaque or work.rule.category == CHECKPOINT):
                ns, error, name = pricing.price(op, work, Coldness(code[node], data[looped]), farther, far * read_ns)
                if op in _OF_ROWS:
                    ns = max(ns, work.core_ps / (1000 * min(model.cores, work.parts)))
                ns += pricing.dispatch_ns * framed[looped]
                run_ns[row, column], relative[row, column] = min(MAX_OP_NS, ceil(ns)), error
                family[row] = families.setdefault(name, len(families))
    errors = PriceErrors(tuple(families), ids(family[row_of]), relative[row_of])
    return run_ns[row_of], errors


def profile_notes(profile: Profile | None, models: Sequence[Device], source: Ints) -> list[str]:
    """Notes on how much a profile prices, and beyond what it was measured for."""
    if profile is None:
        return []
    if not any(model.type == "CPU" for model in models):
        return [f"the profile is of a CPU, and the cluster has none: nothing of {profile.source} is used"]
    priced = f"{int((source == PROFILED).sum())} of {len(source)}"
    notes = [f"nodes priced on CPUs by the profile of {profile.title}, unless they were measured: {priced}"]
    notes += [
        f"{model.kind} has {model.cores} cores and the profile {profile.cores}: its times are continued beyond them"
        for model in models
        if model.type == "CPU" and model.cores > profile.cores
    ]
    return notes
