"""Price the ops of a graph by a profile: a kernel takes what those like it took that were measured (`likeness`).

Small kernels were timed cold and warm. One takes the cold time as far as others before it push what all kernels share
out of the cache of its core: see `cold_parts`. Large ones take longer in a step that is larger than the cache that
cores share, and less in a smaller one: see `farther_ns`. On more cores than one a kernel takes what lies between the
two numbers of cores that were measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, log

import numpy as np

from simulator.cluster.cluster import Device
from simulator.columns import Flags, Ids, Ints, flags, ids
from simulator.costs.estimates.memory import NO_KERNEL, footprint_bytes
from simulator.costs.likeness import GUESS, Times
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

    def price(self, op: str, work: OpWork, cold: float = 1.0, farther: float = 0.0) -> tuple[float, float, str]:
        """Nanoseconds, the relative error that nine of ten prices keep, and the family whose error it is.

        `cold` is the part of the way from the warm time to the cold one. A cold kernel takes `farther` nanoseconds
        more for each byte of its outputs.
        """
        ns, error, family = self._on[0].price(op, work, self.dispatch_ns, cold, farther)
        if self._weight:
            all_ns, all_error, _ = self._on[-1].price(op, work, self.dispatch_ns, cold, farther)
            ns *= min(1.0, all_ns / ns) ** self._weight
            error = max(error, all_error)
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

    def knows(self, op: str) -> bool:
        """Whether the op was measured."""
        return self._cold.knows(op)

    def price(self, op: str, work: OpWork, dispatch_ns: float, cold: float, farther: float) -> tuple[float, float, str]:
        """Nanoseconds, error and family."""
        ns, error, family = self._cold.price(op, work, dispatch_ns)
        ns = max(_NEAREST * ns, ns + farther * work.made)
        if cold == 1:
            return ns, error, family
        warm_ns, warm_error, _ = self._warm.price(op, work, dispatch_ns)
        return cold * ns + (1 - cold) * min(ns, warm_ns), max(error, warm_error), family


def cold_parts(works: Works, runs: Flags, inside: Flags, profile: Profile) -> tuple[float, float]:
    """How cold kernels run, from 0 to 1, outside and inside loops: by their bytes in the mean beside a core's cache.

    A kernel behind others that moved few bytes finds the code that all share, and what it reads, in the cache. Behind
    streams it does not (docs/decisions, 0108). `runs` [N] are the nodes of the step, `inside` [N] those in loops.
    """
    moved = works.ints(lambda work: work.moved).astype(float)
    launched = works.flags(lambda work: work.rule.launches) & runs

    def part(of: Flags) -> float:
        mean = float(moved[of].sum()) / max(1, int(of.sum()))
        return mean**2 / (mean**2 + (_SHARE * profile.cache_bytes) ** 2)

    return part(launched & ~inside), part(launched & inside)


def farther_ns(profile: Profile, footprint: Bytes | None) -> float:
    """Nanoseconds that a byte of an output takes more in a step of that footprint than in the calibration's steps.

    By the profile's streams, whose kernels read what was just made, and write over what was touched a footprint ago
    (docs/decisions, 0116). 0 where the footprint is not known.
    """
    if footprint is None:
        return 0.0
    sizes, took = np.array(profile.streams).T
    took = np.maximum.accumulate(took)  # a larger one takes no less, but for noise
    more = np.interp(log(max(1, _TOUCHED * footprint)), np.log(sizes), took - took[0])
    return float(_FAR * more - _CALIBRATED * (took[-1] - took[0]))


_SHARE = 0.1  # of the cache: kernels of so many bytes in the mean run half cold
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
    cold = cold_parts(works, runs, inside, profile)
    moved = works.ints(lambda work: work.moved if work.rule.launches else NO_KERNEL)
    farther = farther_ns(profile, footprint_bytes(graph, runs, moved, handing, flags(inside)))
    keeps_frames = any(graph.ops[node] in CONTROL_FLOW for node in np.flatnonzero(runs).tolist())
    framed = _FRAMED if keeps_frames else (0.0, 0.0)
    different, first, row_of = np.unique(2 * works.which + inside, return_index=True, return_inverse=True)
    run_ns = np.full((len(different), len(models)), -1, np.int64)
    relative = np.full((len(different), len(models)), GUESS - 1)
    families: dict[str, int] = {"not by the profile": 0}
    family = np.zeros(len(different), np.int32)
    for column, model in enumerate(models):
        if model.type != "CPU":
            continue
        pricing = pricing_of(profile, model.cores)
        for row, (key, node) in enumerate(zip(different.tolist(), first.tolist(), strict=True)):
            work, op = works.different[key // 2], graph.ops[node]
            if not work.rule.launches:
                run_ns[row, column] = ceil(pricing.dispatch_ns * (_DISPATCHES.get(op, 1.0) + framed[key % 2]))
                relative[row, column] = 0.0
            elif pricing.knows(op) or not (work.core_ps or work.rule.opaque or work.rule.category == CHECKPOINT):
                ns, error, name = pricing.price(op, work, cold[key % 2], farther)
                if op in _OF_ROWS:
                    ns = max(ns, work.core_ps / (1000 * min(model.cores, work.parts)))
                ns += pricing.dispatch_ns * framed[key % 2]
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
