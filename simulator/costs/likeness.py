"""Times of kernels that were never measured, from those like them that were, on one number of cores.

    product, convolution   a part of a roofline that is fitted to all, by a Gaussian process over their sides
    other measured op      nanoseconds by bytes, between the sizes that were measured, and by the length of rows
    op never measured      the middle of the measured ops of its category, at as many bytes

The error of a price is checked by leaving out. Each measured kernel is priced by all others, and nine of ten of these
prices keep their errors. Beyond the measured sizes an error is doubled: a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from math import exp, gcd, log

import numpy as np

from simulator.columns import Floats
from simulator.costs.formulas.matrix import Product
from simulator.costs.kernels import Kernel
from simulator.costs.profile import KernelTime
from simulator.costs.roofline import OpWork
from simulator.costs.rules import rule
from simulator.costs.variants import names, parted

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
    "_FusedDepthwiseConv2dNative": "DepthwiseConv2dNative",
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
    "ApplyAdagrad": "ResourceApplyAdagrad",
    "ResourceApplyAdagradV2": "ResourceApplyAdagrad",
    "ApplyRMSProp": "ResourceApplyRMSProp",
    "SparseApplyAdagrad": "ResourceSparseApplyAdagrad",
    "ResourceSparseApplyAdagradV2": "ResourceSparseApplyAdagrad",
    "ReadVariableOp": "DeepCopy",  # where it copies
    "Select": "SelectV2",
    "ApplyAdam": "ResourceApplyAdam",
    "AssignAdd": "AssignAddVariableOp",
    "AssignSub": "AssignAddVariableOp",
    "AssignSubVariableOp": "AssignAddVariableOp",
    "Assign": "AssignAddVariableOp",
    "ScatterSub": "ResourceScatterSub",
    "ScatterAdd": "ResourceScatterSub",
    "ResourceScatterAdd": "ResourceScatterSub",
    "StatelessRandomUniformV2": "RandomUniform",
    "StatelessRandomNormalV2": "RandomStandardNormal",
}
_USUAL_ROW = 64  # numbers of a row whose length no shape says
_SIZES = 2  # of a curve for a length of rows, at least
_AROUND = "Transpose"  # stands for all kernels around a product


def measured_name(kernel: KernelTime) -> str:
    """The name under which the measured kernels of an op in a layout stand for others."""
    return f"{_SAME.get(kernel.op, kernel.op)} {parted(kernel.variant)[0]}".strip()


def sides_of(work: OpWork) -> tuple[int, int, int, int, int]:
    """m, n, k, the number of products, and the taps of a convolution; zeros for what has no sides.

    Of a window over each channel, m are the pixels, n their channels, and k the pixels of the image for each of them.
    """
    if work.window is not None:
        return work.window.pixels, work.window.channels, work.window.spread, 1, work.window.taps
    if work.kernel is None:
        return 0, 0, 0, 0, 0
    if isinstance(work.kernel, Product):
        return work.kernel.m, work.kernel.n, work.kernel.k, work.kernel.times, 0
    return (*work.kernel.product, work.kernel.taps[0] * work.kernel.taps[1])


class Times:
    """Measured times of kernels, and what they say of others."""

    def __init__(self, kernels: Sequence[KernelTime]) -> None:
        products: dict[str, list[KernelTime]] = {}
        others: dict[str, dict[int, list[KernelTime]]] = {}  # by name, then by the length of rows
        for one in kernels:
            if not one.m and not one.moved_bytes:
                continue  # it handed its input on: nothing follows for one that copies
            name, (_, length) = measured_name(one), parted(one.variant)
            if one.m:
                products.setdefault(name, []).append(one)
            else:
                others.setdefault(name, {}).setdefault(length or _USUAL_ROW, []).append(one)
        self._products = {op: found for op, found in products.items() if len(found) >= Surface.LEAST}
        self._surfaces: dict[str, Surface] = {}
        self._curves = {name: _curves(of) for name, of in others.items()}

    def knows(self, op: str) -> bool:
        """Whether the op itself was measured, or one that runs the same kernel."""
        return any(_SAME.get(op, op) in found for found in (self._products, self._curves))

    def price(self, op: str, work: OpWork, dispatch_ns: float) -> tuple[float, float, str]:
        """Nanoseconds, error and family."""
        sides, like = sides_of(work), _measured(op, work.kernel)
        plain, length = parted(work.variant)
        if min(sides[:4]) > 0:
            found = next((name for one in like for name in names(one, plain) if name in self._products), None)
            if found is not None:
                ns, error = self._surface(found).price(sides, work.flops, work.moved, dispatch_ns)
                around = self._curves.get(_AROUND)
                more_ns, more_error = _by_rows(around, None, work.rearranged) if around and work.rearranged else (0, 0)
                return ns + more_ns, (ns * error + more_ns * more_error) / (ns + more_ns), found
        name = next((one for one in names(like[-1], plain) if one in self._curves), None)
        if name is not None:
            return *_by_rows(self._curves[name], length, work.moved), name
        return self._by_category(work)

    def _surface(self, name: str) -> Surface:
        """The surface of a product or convolution, fitted once its first price is asked for."""
        if name not in self._surfaces:
            self._surfaces[name] = Surface(self._products[name])
        return self._surfaces[name]

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
            per_flop = min(self._surface(name).middle for name in self._products)
            ns, off = max(ns, work.flops * per_flop), max(off, log(GUESS))
        return ns, max(_FLOOR, exp(off) - 1), f"unmeasured {category}"

    @cached_property
    def _by_rule(self) -> Mapping[str, list[Curve]]:
        """The curves of each category, in rows of the usual length or the next longer one."""
        found: dict[str, list[Curve]] = {}
        for op, curves in self._curves.items():
            priced_by = rule(op.partition(" ")[0])
            if priced_by is not None:
                usual = next(
                    (curve for length, curve in curves.items() if length >= _USUAL_ROW), max(curves.items())[1]
                )
                found.setdefault(priced_by.category, []).append(usual)
        return found


def _measured(op: str, kernel: Kernel | None) -> tuple[str, ...]:
    """The ops whose measured kernels stand for one, the likest first.

    An Einsum that was not measured takes the time of the product that it is; one that is none, that of a transpose.
    """
    if op != "Einsum":
        return (_SAME.get(op, op),)
    if not isinstance(kernel, Product):
        return (_AROUND,)
    return op, "MatMul" if kernel.times == 1 else "BatchMatMulV2"


class Surface:
    """Times of products and convolutions: a roofline, and over the logarithms of their sides what it is off by.

    The roofline's call, nanoseconds per operation and per byte are the nonnegative ones whose relative errors have the
    least sum of squares. Far from all measured sizes it decides alone. Near them a Gaussian process corrects it, whose
    kernel is a bell. The bell's width and height, and the noise, predict each point best from all others. Source:
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.2. Traits of sides count beside
    their lengths where that predicts much better. The errors that the process expects are stretched until nine of ten
    of these predictions keep theirs.
    """

    LEAST = 6  # points

    def __init__(self, kernels: Sequence[KernelTime]) -> None:
        from scipy.optimize import nnls  # late: its import takes longer than most commands without a profile

        x = np.array([_logs((one.m, one.n, one.k, one.times, one.taps)) for one in kernels])
        ns = np.array([max(1.0, one.ns) for one in kernels])
        parts = np.array([_parts(one.flops, one.moved_bytes) for one in kernels])
        self._rates, _ = nnls(parts / ns[:, None], np.ones(len(ns)))
        y = np.log(ns / (parts @ self._rates))
        traits = np.concatenate([_traits((one.m, one.n, one.k)) for one in kernels])
        self._mean, self._x = float(y.mean()), x
        self._low, self._high = x.min(0), x.max(0)
        self.middle = float(np.median(ns / np.maximum(1, parts[:, 1])))
        best = None
        for counted, width, height, noise in product(_COUNTED, _WIDTHS, _HEIGHTS, _NOISES):
            far = _far(x, x) + _far(counted * traits, counted * traits)
            inverse = np.linalg.inv(_bell(far, width, height) + noise**2 * np.eye(len(y)))
            weights = inverse @ (y - self._mean)
            off, variance = weights / np.diag(inverse), 1 / np.diag(inverse)
            unlikely = float((off**2 / variance + np.log(variance)).sum()) + _DOUBT * np.count_nonzero(counted) / 3
            if best is None or unlikely < best[0]:
                stretch = float(np.quantile(np.abs(off) / np.sqrt(variance), SHARE))
                best = unlikely, (counted, width, height, noise), inverse, weights, stretch, off
        assert best is not None
        _, chosen, self._inverse, self._weights, self._stretch, self.off = best
        self._counted, self._width, self._height, self._noise = chosen
        self._traits = self._counted * traits

    def price(self, sides: Sequence[int], flops: int, moved: int, dispatch_ns: float) -> tuple[float, float]:
        """Nanoseconds and error. A side beyond those that were measured counts as the last one."""
        x = np.clip(_logs(sides), self._low - 1, self._high + 1)[None]
        far = _far(x, self._x) + _far(self._counted * _traits(sides[:3]), self._traits)
        near = _bell(far, self._width, self._height)[0]
        ns = float(_parts(flops, moved) @ self._rates) * exp(self._mean + float(near @ self._weights))
        own = float(_bell(np.zeros((1, 1)), self._width, self._height)[0, 0])
        deviation = (max(0.0, own - float(near @ self._inverse @ near)) + self._noise**2) ** 0.5
        error = exp(min(_MOST, self._stretch * deviation)) - 1
        return max(dispatch_ns, ns), max(_FLOOR, error)


def _parts(flops: int, moved: int) -> Floats:
    """The parts of a roofline's time: a call in microseconds, operations and bytes."""
    return np.array([1e3, flops, moved], float)


def _far(a: Floats, b: Floats) -> Floats:
    """Squared distances of points."""
    found: Floats = ((a[:, None] - b[None]) ** 2).sum(2)
    return found


def _bell(far: Floats, width: float, height: float) -> Floats:
    """Covariances at squared distances; a constant takes part, for what all are off by."""
    found: Floats = height**2 * np.exp(-far / (2 * width**2)) + _COMMON
    return found


_WIDTHS, _HEIGHTS, _NOISES = (1.0, 2.0, 3.0, 5.0, 8.0), (0.1, 0.3, 1.0), (0.03, 0.1, 0.2)
_COMMON = 0.01
_COUNTED = np.repeat([[0.0, 0.0], [6.0, 0.0], [0.0, 1.0], [6.0, 1.0]], 3, axis=1)  # the weights of both kinds of traits
_DOUBT = 2.0  # a kind counts that makes the predictions so much likelier, twice the logarithm
_LANES, _SETS = 16, 1024  # numbers in the widest register and in the sets of a first cache, of four bytes
_MOST = 3.0  # no error says more than a factor of 20


def _traits(sides: Sequence[int]) -> Floats:
    """The part that each of three sides leaves empty in registers, and how often its rows meet in a set of a cache."""
    empty = [log(-(-side // _LANES) * _LANES / side) for side in sides]
    return np.array([[*empty, *(log(max(1.0, gcd(side, _SETS) / _LANES)) for side in sides)]])


def _logs(sides: Sequence[int]) -> Floats:
    found: Floats = np.log(np.maximum(1.0, np.array(sides, float)))
    return found


class Curve:
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


def _curves(by_length: Mapping[int, Sequence[KernelTime]]) -> dict[int, Curve]:
    """A curve for each length of rows. Sizes of a length that was measured at few count with the next longer one."""
    found: dict[int, Curve] = {}
    waiting: list[KernelTime] = []
    for length in sorted(by_length):
        waiting += by_length[length]
        if len({one.moved_bytes for one in waiting}) >= _SIZES:
            found[length], waiting = Curve(waiting), []
    if waiting and found:
        last = max(found)
        found[last] = Curve([*by_length[last], *waiting])
    return found or {max(by_length): Curve(waiting)}


def _by_rows(curves: Mapping[int, Curve], length: int | None, moved: int) -> tuple[float, float]:
    """Nanoseconds and error at a length of rows, by those that were measured, in ascending order, at as many bytes.

    A number and a row take time each, so at equal bytes the time is a line over one by the length.
    """
    prices = [curve.price(moved) for curve in curves.values()]
    error = max(error for _, error in prices)
    x, rows = 1 / (length or _USUAL_ROW), 1 / np.array(list(curves), float)[::-1]
    took = np.array([ns for ns, _ in prices])[::-1]
    ns = float(np.interp(x, rows, took))
    if x > rows[-1] and len(rows) > 1:  # shorter than all
        ns += max(0.0, (took[-1] - took[-2]) / (rows[-1] - rows[-2])) * (x - rows[-1])
    return ns, error


def _between(x: float, xs: Floats, ys: Floats) -> float:
    """The line through the points around x; below the first it is flat, beyond the last as steep as bytes."""
    if x <= xs[0]:
        return float(ys[0])
    if x >= xs[-1]:
        return float(ys[-1] + x - xs[-1])
    return float(np.interp(x, xs, ys))
