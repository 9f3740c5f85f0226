"""Einsum as TensorFlow computes it: a batched product, with sums and transposes before it and a transpose after it.

    label                      in the product
    in both operands, kept     a batch; so are those under an ellipsis
    in both operands, gone     k
    in one operand, kept       m or n
    in one operand, gone       summed before the product

An operand is transposed unless its labels stand in this order. With those of k before those of m or n it is not
transposed either, but read so by the product. The result is transposed unless its labels are batches, m and n in order
(tensorflow/core/kernels/linalg/einsum_op_impl.h).
"""

from __future__ import annotations

from enum import IntEnum
from math import prod
from typing import NamedTuple

from simulator.costs.formulas.matrix import Product
from simulator.costs.formulas.shaped_op import ShapedOp, dims, elements


class Contraction(NamedTuple):
    """An Einsum of two operands."""

    product: Product
    flips: tuple[bool, bool]  # the product reads the first operand as [k, m], the second one as [n, k]
    transposed: tuple[int, ...]  # bytes of each operand, and of the result, that a kernel transposes
    summed: tuple[int, ...]  # bytes of each operand that a kernel sums
    additions: int  # elements of these operands

    @property
    def kernels(self) -> int:
        """The product, and what comes before and after it."""
        return 1 + len(self.transposed) + len(self.summed)

    @property
    def rearranged(self) -> int:
        """Bytes that kernels before and after the product read and write."""
        return 2 * sum(self.transposed) + sum(self.summed)


def contraction(instance: ShapedOp) -> Contraction | None:
    """How an Einsum is computed; None where it has one operand, and for an op without an equation."""
    operands, result = _labels(instance)
    if len(operands) != 2 or len(instance.inputs) != 2:
        return None
    sizes = _sizes(operands, instance)
    place = {label: -int(label[1:]) if label.startswith(".") else number for number, label in enumerate(sizes)}
    role = {label: _role(label, operands, result) for label in sizes}

    def in_order(labels: list[str], roles: tuple[_Role, ...]) -> list[str]:
        return sorted(labels, key=lambda label: (roles.index(role[label]), place[label]))

    def of(role_: tuple[_Role, ...], labels: list[str]) -> list[str]:
        return in_order([label for label in dict.fromkeys(labels) if role[label] in role_], role_)

    flips: list[bool] = []
    transposed: list[int] = []
    summed: list[int] = []
    additions = 0
    for labels, shape, nbytes in zip(operands, instance.inputs, instance.input_bytes, strict=True):
        flips.append(labels == in_order(labels, _FLIPPED))
        if not flips[-1] and labels != in_order(labels, _STRAIGHT):
            transposed.append(nbytes)
        if any(sizes[label] > 1 for label in of((_Role.SUMMED,), labels)):
            summed.append(nbytes)
            additions += elements(shape)
    m, n, k = of((_Role.KEPT,), operands[0]), of((_Role.KEPT,), operands[1]), of((_Role.MULTIPLIED,), operands[0])
    batch = of((_Role.STRETCHED, _Role.BATCH), [*operands[0], *operands[1]])
    if result != [*batch, *m, *n]:
        transposed += instance.output_bytes[:1]
    product = Product(*(prod(sizes[label] for label in labels) for labels in (m, n, k, batch)))
    return Contraction(product, (flips[0], not flips[1]), tuple(transposed), tuple(summed), additions)


def contracted_product(instance: ShapedOp) -> Product | None:
    """The products of an Einsum of two operands."""
    found = contraction(instance)
    return None if found is None else found.product


def contracted(instance: ShapedOp) -> int:
    """2 m n k for each product, and an addition per element that is summed; of one operand, one per element of it."""
    found = contraction(instance)
    if found is None:
        return prod(_sizes(_labels(instance)[0], instance).values())
    return 2 * prod(found.product) + found.additions


def copies(instance: ShapedOp) -> int:
    """The bytes of the transposed copies beside the product."""
    found = contraction(instance)
    return 0 if found is None else sum(found.transposed)


class _Role(IntEnum):
    STRETCHED = 0  # under an ellipsis
    BATCH = 1
    KEPT = 2
    MULTIPLIED = 3
    SUMMED = 4


_STRAIGHT = tuple(_Role)
_FLIPPED = (_Role.STRETCHED, _Role.BATCH, _Role.MULTIPLIED, _Role.KEPT, _Role.SUMMED)


def _role(label: str, operands: list[list[str]], result: list[str]) -> _Role:
    if label.startswith("."):
        return _Role.STRETCHED
    if all(label in labels for labels in operands):
        return _Role.BATCH if label in result else _Role.MULTIPLIED
    return _Role.KEPT if label in result else _Role.SUMMED


def _labels(instance: ShapedOp) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result, with one for each dimension under an ellipsis, from the last."""
    equation = instance.attrs["equation"].s.decode(errors="replace") if "equation" in instance.attrs else ""
    terms, _, result = equation.replace(" ", "").partition("->")
    under = 0
    operands = []
    for term, shape in zip(terms.split(","), instance.inputs, strict=False):
        own = max(0, len(shape or ()) - len(term.replace("...", "")))
        under = max(under, own if "..." in term else 0)
        operands.append(_spelt(term, own))
    return operands, _spelt(result, under)


def _spelt(term: str, under: int) -> list[str]:
    before, dots, after = term.partition("...")
    return [*before, *(f".{place}" for place in reversed(range(under)) if dots), *after]


def _sizes(operands: list[list[str]], instance: ShapedOp) -> dict[str, int]:
    """The size of each label, in the order in which the labels first appear."""
    sizes: dict[str, int] = {}
    for labels, shape in zip(operands, instance.inputs, strict=False):
        for label, size in zip(labels, dims(shape, max(len(labels), 1)), strict=False):
            sizes[label] = max(size, sizes.get(label, 1))
    return sizes
