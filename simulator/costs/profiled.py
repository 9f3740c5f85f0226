"""Price ops by a profile: a kernel takes what those like it took that were measured, with an error that is checked.

    product, convolution   nanoseconds per operation, by a Gaussian process over the logarithms of its sides
    other measured op      nanoseconds by bytes, between the sizes that were measured
    op never measured      the middle of the measured ops of its category, at as many bytes

The error of a price is checked by leaving out: each measured kernel is priced by all others, and nine of ten of these
prices keep their errors. Beyond the measured sizes an error is doubled: a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from math import ceil, exp, log

import numpy as np

from simulator.cluster.cluster import Device
from simulator.columns import Floats, Ints, ids
from simulator.costs.formulas.matrix import Product
from simulator.costs.kernels import Kernel
from simulator.costs.profile import KernelTime, Profile
from simulator.costs.roofline import OpWork
from simulator.costs.rules import CHECKPOINT, rule
from simulator.costs.table import MAX_OP_NS, PROFILED, PriceErrors
from simulator.graph.graph import Graph

SHARE = 0.9  # of the prices that are off by no more than the error
GUESS = 2.0  # factor of a price for which nothing was measured
_FLOOR = 0.02  # no error is smaller: two runs of one calibration differ by that much
_SAME = {  # kernels that are named apart, by the measured one
    "SparseMatMul": "MatMul",
    "_FusedMatMul": "MatMul",
    "BatchMatMul": "BatchMatMulV2",
    "BatchMatMulV3": "BatchMatMulV2",
    "_MklFusedBatchMatMulV2": "BatchMatMulV2",
    "_FusedConv2D": "Conv2D",
    "Conv2DBackpropInputV2": "Conv2DBackpropInput",
    "Conv2DBackpropFilterV2": "Conv2DBackpropFilter",
    "Add": "AddV2",
    "Div": "RealDiv",
    "Minimum": "Maximum",
    "Min": "Max",
    "Concat": "ConcatV2",
    "SplitV": "Split",
    "Gather": "GatherV2",
    "FusedBatchNorm": "FusedBatchNormV3",
    "FusedBatchNormV2": "FusedBatchNormV3",
    "FusedBatchNormGrad": "FusedBatchNormGradV3",
    "FusedBatchNormGradV2": "FusedBatchNormGradV3",
    "ApplyGradientDescent": "ResourceApplyGradientDescent",
    "ApplyMomentum": "ResourceApplyMomentum",
    "ApplyAdam": "ResourceApplyAdam",
    "AssignAdd": "AssignAddVariableOp",
    "AssignSub": "AssignAddVariableOp",
    "AssignSubVariableOp": "AssignAddVariableOp",
    "AssignVariableOp": "AssignAddVariableOp",
    "Assign": "AssignAddVariableOp",
    "ScatterSub": "ResourceScatterSub",
    "ScatterAdd": "ResourceScatterSub",
    "ResourceScatterAdd": "ResourceScatterSub",
}
_AROUND = "Transpose"  # stands for all kernels around a product


def sides_of(kernel: Kernel | None) -> tuple[int, int, int, int, int]:
    """m, n, k, the number of products, and the taps of a convolution; zeros for what is no product."""
    if kernel is None:
        return 0, 0, 0, 0, 0
    if isinstance(kernel, Product):
        return kernel.m, kernel.n, kernel.k, kernel.times, 0
    return (*kernel.product, kernel.taps[0] * kernel.taps[1])


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

    def price(self, op: str, work: OpWork) -> tuple[float, float, str]:
        """Nanoseconds, the relative error that nine of ten prices keep, and the family whose error it is."""
        ns, error, family = self._on[0].price(op, work, self.dispatch_ns)
        if self._weight:
            all_ns, all_error, _ = self._on[-1].price(op, work, self.dispatch_ns)
            ns *= min(1.0, all_ns / ns) ** self._weight
            error = max(error, all_error)
        return max(self.dispatch_ns, ns), error * (2 if self._beyond else 1), family


class _OnCores:
    """The measured kernels on one number of cores, and what they say of others."""

    def __init__(self, kernels: Sequence[KernelTime]) -> None:
        products: dict[str, list[KernelTime]] = {}
        others: dict[str, list[KernelTime]] = {}
        for one in kernels:
            (products if one.m else others).setdefault(f"{_SAME.get(one.op, one.op)} {one.variant}".strip(), []).append(
                one
            )
        self._products = {op: _Surface(found) for op, found in products.items() if len(found) >= _Surface.LEAST}
        self._curves = {op: _Curve(found) for op, found in others.items()}

    def price(self, op: str, work: OpWork, dispatch_ns: float) -> tuple[float, float, str]:
        """Nanoseconds, error and family."""
        sides, op = sides_of(work.kernel), _measured(op, work.kernel)
        name = f"{op} {work.variant}".strip()
        if min(sides[:4]) > 0:
            surface = self._products.get(name) or self._products.get(op)
            if surface is not None:
                ns, error = surface.price(sides, float(work.flops), dispatch_ns)
                around = self._curves.get(_AROUND)
                more_ns, more_error = around.price(work.rearranged) if around and work.rearranged else (0.0, 0.0)
                return ns + more_ns, (ns * error + more_ns * more_error) / (ns + more_ns), name
        curve = self._curves.get(name) or self._curves.get(op)
        if curve is not None:
            return *curve.price(work.moved), name
        return self._by_category(work)

    def _by_category(self, work: OpWork) -> tuple[float, float, str]:
        """The middle of the measured ops of the category; of all, where none of it was measured."""
        category = work.rule.category
        curves = self._by_rule.get(category) or [one for found in self._by_rule.values() for one in found]
        if not curves:
            return 1.0, GUESS, "guessed"
        logs = np.sort([log(curve.price(work.moved)[0]) for curve in curves])
        middle = float(np.median(logs))
        off = float(np.quantile(np.abs(logs - middle), SHARE))
        ns = exp(middle)
        if work.flops and self._products and work.rule.on_matrix_units:
            per_flop = min(surface.middle for surface in self._products.values())
            ns, off = max(ns, work.flops * per_flop), max(off, log(GUESS))
        return ns, max(_FLOOR, exp(off) - 1), f"unmeasured {category}"

    @cached_property
    def _by_rule(self) -> Mapping[str, list[_Curve]]:
        found: dict[str, list[_Curve]] = {}
        for op, curve in self._curves.items():
            priced_by = rule(op.partition(" ")[0])
            if priced_by is not None:
                found.setdefault(priced_by.category, []).append(curve)
        return found


def _measured(op: str, kernel: Kernel | None) -> str:
    """The op that was measured for one: an Einsum runs the kernel of the product that it is, or a transpose."""
    if op != "Einsum":
        return _SAME.get(op, op)
    if not isinstance(kernel, Product):
        return _AROUND
    return "MatMul" if kernel.times == 1 else "BatchMatMulV2"


class _Surface:
    """Nanoseconds per operation of products, over the logarithms of their sides: a Gaussian process.

    Its kernel is a plane and a bell. The bell's width and height, and the noise, predict each point best from all
    others (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.2). The errors
    that it expects are stretched until nine of ten of these predictions keep theirs.
    """

    LEAST = 6  # points

    def __init__(self, kernels: Sequence[KernelTime]) -> None:
        x = np.array([_logs((one.m, one.n, one.k, one.times, one.taps)) for one in kernels])
        y = np.log([max(1.0, one.ns) / max(1, one.flops) for one in kernels])
        self._mean, self._center, self._x = float(y.mean()), x.mean(0), x
        self._low, self._high = x.min(0), x.max(0)
        self.middle = float(np.exp(np.median(y)))
        best = None
        for width, height, noise in product(_WIDTHS, _HEIGHTS, _NOISES):
            inverse = np.linalg.inv(self._covariance(x, x, width, height) + noise**2 * np.eye(len(y)))
            weights = inverse @ (y - self._mean)
            off, variance = weights / np.diag(inverse), 1 / np.diag(inverse)
            unlikely = float((off**2 / variance + np.log(variance)).sum())
            if best is None or unlikely < best[0]:
                stretch = float(np.quantile(np.abs(off) / np.sqrt(variance), SHARE))
                best = unlikely, width, height, noise, inverse, weights, stretch, off
        assert best is not None
        _, self._width, self._height, self._noise, self._inverse, self._weights, self._stretch, self.off = best

    def _covariance(self, a: Floats, b: Floats, width: float, height: float) -> Floats:
        far = ((a[:, None] - b[None]) ** 2).sum(2)
        plane = 1.0 + _SLOPE * (a - self._center) @ (b - self._center).T
        found: Floats = height**2 * np.exp(-far / (2 * width**2)) + plane
        return found

    def price(self, sides: Sequence[int], operations: float, dispatch_ns: float) -> tuple[float, float]:
        """Nanoseconds and error. A side beyond those that were measured counts as the last one."""
        x = np.clip(_logs(sides), self._low - 1, self._high + 1)[None]
        near = self._covariance(x, self._x, self._width, self._height)[0]
        per_operation = exp(self._mean + float(near @ self._weights))
        own = float(self._covariance(x, x, self._width, self._height)[0, 0])
        deviation = (max(0.0, own - float(near @ self._inverse @ near)) + self._noise**2) ** 0.5
        error = exp(min(_MOST, self._stretch * deviation)) - 1
        return max(dispatch_ns, operations * per_operation), max(_FLOOR, error)


_WIDTHS, _HEIGHTS, _NOISES = (1.0, 2.0, 3.0, 5.0, 8.0), (0.3, 1.0, 2.0), (0.03, 0.1, 0.2)
_SLOPE = 0.3  # variance of the plane's slopes: a side's power is between -1 and 1
_MOST = 3.0  # no error says more than a factor of 20


def _logs(sides: Sequence[int]) -> Floats:
    found: Floats = np.log(np.maximum(1.0, np.array(sides, float)))
    return found


class _Curve:
    """Nanoseconds of an op by the bytes that it moves, between the measured sizes."""

    def __init__(self, kernels: Sequence[KernelTime]) -> None:
        by_bytes: dict[int, list[float]] = {}
        for one in kernels:
            by_bytes.setdefault(max(1, one.moved_bytes), []).append(log(one.ns))
        sizes = sorted(by_bytes)
        self._x = np.log(sizes)
        self._y = np.array([float(np.mean(by_bytes[size])) for size in sizes])
        spreads = [abs(value - y) for size, y in zip(sizes, self._y, strict=True) for value in by_bytes[size]]
        off = [abs(self._y[row] - _between(self._x[row], np.delete(self._x, row), np.delete(self._y, row)))
               for row in range(1, len(sizes) - 1)]  # fmt: skip
        # half of what is off where the nearest sizes are twice as far apart as they are
        self.error = max(_FLOOR, exp(max([*spreads, *(0.5 * value for value in off), 0.0])) - 1)

    def price(self, moved: int) -> tuple[float, float]:
        """Nanoseconds and error."""
        x = log(max(1, moved))
        beyond = x < self._x[0] - 1 or x > self._x[-1] + 1
        return exp(_between(x, self._x, self._y)), self.error * (2 if beyond else 1)


def _between(x: float, xs: Floats, ys: Floats) -> float:
    """The line through the points around x; below the first it is flat, beyond the last as steep as bytes."""
    if x <= xs[0]:
        return float(ys[0])
    if x >= xs[-1]:
        return float(ys[-1] + x - xs[-1])
    return float(np.interp(x, xs, ys))


# --- a graph ---------------------------------------------------------------------------------------------------------


def profiled_prices(
    graph: Graph, models: Sequence[Device], works: Sequence[OpWork], which: Ints, profile: Profile
) -> tuple[Ints, PriceErrors]:
    """Price kernels of CPUs by a profile: [N, K] times and their errors; -1 where the price of the cost table stays.

    It stays for scalar and opaque kernels, and for checkpoints.
    """
    op_of: dict[int, str] = {}
    for node, row in enumerate(which.tolist()):
        op_of.setdefault(row, graph.ops[node])
    run_ns = np.full((len(works), len(models)), -1, np.int64)
    relative = np.full((len(works), len(models)), GUESS - 1)
    families: dict[str, int] = {"not by the profile": 0}
    family = np.zeros(len(works), np.int32)
    for column, model in enumerate(models):
        if model.type != "CPU":
            continue
        pricing = Pricing(profile, model.cores)
        for row, work in enumerate(works):
            if not work.rule.launches:
                run_ns[row, column], relative[row, column] = ceil(pricing.dispatch_ns), 0.0
            elif not work.core_ps and not work.rule.opaque and work.rule.category != CHECKPOINT:
                ns, error, name = pricing.price(op_of.get(row, ""), work)
                run_ns[row, column], relative[row, column] = min(MAX_OP_NS, ceil(ns)), error
                family[row] = families.setdefault(name, len(families))
    errors = PriceErrors(tuple(families), ids(family[which]), relative[which])
    return run_ns[which], errors


def profile_notes(profile: Profile | None, models: Sequence[Device], source: Ints) -> list[str]:
    """Notes on how much a profile prices, and beyond what it was measured for."""
    if profile is None:
        return []
    if not any(model.type == "CPU" for model in models):
        return [f"the profile is of a CPU, and the cluster has none: nothing of {profile.source} is used"]
    notes = [f"nodes priced by the profile of {profile.title}: {int((source == PROFILED).sum())} of {len(source)}"]
    notes += [
        f"{model.kind} has {model.cores} cores and the profile {profile.cores}: its times are continued beyond them"
        for model in models
        if model.type == "CPU" and model.cores > profile.cores
    ]
    return notes
