"""Products of matrices, linear algebra and Fourier transforms.

Counts of linear algebra are those of Golub and Van Loan, Matrix Computations, 4th edition (2013), for n x n matrices
unless stated. An addition and a multiplication count one each. All formulas but Fourier's count complex numbers like
real ones (see `roofline.real_operations`).
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from simulator.costs.formulas.shaped_op import Formula, ShapedOp, at, dims, elements, flag, matrices, tensors
from simulator.graph.dimension_numbers import dot_dimensions
from simulator.graph.graph import Shape


class Product(NamedTuple):
    """A matrix product of [m, k] and [k, n], taken `times` times."""

    m: int
    n: int
    k: int  # 0 if the operands contradict each other
    times: int = 1


def _product(a: Shape | None, b: Shape | None, flip_a: bool, flip_b: bool, times: int = 1) -> Product:
    m, k = dims(a, 2)[::-1] if flip_a else dims(a, 2)
    k_too, n = dims(b, 2)[::-1] if flip_b else dims(b, 2)
    return Product(m, n, max(k, k_too) if k == k_too or min(k, k_too) == 1 else 0, times)


def one_product(instance: ShapedOp) -> Product:
    """The product of a MatMul."""
    a, b = at(instance.inputs, 0), at(instance.inputs, 1)
    return _product(a, b, flag(instance, "transpose_a"), flag(instance, "transpose_b"))


def many_products(instance: ShapedOp) -> Product:
    """The products of a BatchMatMul, one for each pair of matrices; the leading dimensions broadcast."""
    a, b = at(instance.inputs, 0), at(instance.inputs, 1)
    rank = max(len(a or ()), len(b or ()), 2)
    times = prod(max(pair) for pair in zip(dims(a, rank)[:-2], dims(b, rank)[:-2], strict=True))
    return _product(a, b, flag(instance, "adj_x"), flag(instance, "adj_y"), times)


def matmul(instance: ShapedOp) -> int:
    """2 m n k, for [m, k] x [k, n]."""
    return 2 * prod(one_product(instance))


def batch_matmul(instance: ShapedOp) -> int:
    """2 m n k for each pair of matrices."""
    return 2 * prod(many_products(instance))


def dot(instance: ShapedOp) -> int:
    """2 operations per element of the output and of the first operand's dimensions over which it sums."""
    found, shape = dot_dimensions(instance.attrs), at(instance.inputs, 0) or ()
    summed = () if found is None else [shape[place] for place in found.lhs_contracted if place < len(shape)]
    return 2 * elements(at(instance.outputs, 0)) * prod(max(1, size) for size in summed)


def sparse_dense_matmul(instance: ShapedOp) -> int:
    """2 operations per stored element and column of the dense matrix."""
    nonzero = elements(at(instance.inputs, 1))
    rows, columns = dims(at(instance.inputs, 3), 2)
    return 2 * nonzero * (rows if flag(instance, "adjoint_b") else columns)


def rows_multiplied(instance: ShapedOp) -> int:
    """Each stored element reads a row of the dense matrix, as large as one of the output, which is written."""
    rows = max(1, dims(at(instance.outputs, 0), 2)[0])
    written = sum(instance.output_bytes)
    return elements(at(instance.inputs, 1)) * (written // rows) + written + sum(instance.input_bytes[:3])


def cubic(numerator: int, denominator: int = 1) -> Formula:
    """Count the fraction `numerator / denominator` of n^3 for each n x n matrix of the first input."""

    def count(instance: ShapedOp) -> int:
        batch, _, n = matrices(at(instance.inputs, 0))
        return batch * numerator * n**3 // denominator

    return count


def solve(instance: ShapedOp) -> int:
    """LU factors, 2/3 n^3, and two triangular systems of n^2 per right-hand side."""
    batch, _, n = matrices(at(instance.inputs, 0))
    return batch * (2 * n**3 // 3 + 2 * n * n * dims(at(instance.inputs, 1), 2)[1])


def triangular_solve(instance: ShapedOp) -> int:
    """n^2 per right-hand side."""
    batch, _, n = matrices(at(instance.inputs, 0))
    return batch * n * n * dims(at(instance.inputs, 1), 2)[1]


def banded_solve(instance: ShapedOp) -> int:
    """2 k per row and right-hand side, for k bands; [bands, n] is how the matrix is stored."""
    batch, bands, _ = matrices(at(instance.inputs, 0))
    return 2 * bands * max(batch * prod(dims(at(instance.inputs, 1), 2)), elements(at(instance.inputs, 1)))


def _tall(instance: ShapedOp) -> tuple[int, int, int]:
    batch, rows, columns = matrices(at(instance.inputs, 0))
    return batch, max(rows, columns), min(rows, columns)


def least_squares(instance: ShapedOp) -> int:
    """Normal equations by Cholesky, (m + n/3) n^2, or Householder, 2 n^2 (m - n/3); 4 m n per right-hand side."""
    batch, m, n = _tall(instance)
    factor = (3 * m + n) * n * n // 3 if flag(instance, "fast", True) else 2 * n * n * (3 * m - n) // 3
    return batch * (factor + 4 * m * n * dims(at(instance.inputs, 1), 2)[1])


def matrices_in(instance: ShapedOp) -> int:
    """Parts: the matrices of the first input, of which each is the work of one thread (linalg_ops_common.cc)."""
    return matrices(at(instance.inputs, 0))[0]


def qr(instance: ShapedOp) -> int:
    """Householder factors, 2 n^2 (m - n/3), and as much again to form Q; all of Q: 4 (m^2 n - m n^2 + n^3/3)."""
    batch, m, n = _tall(instance)
    factors = 2 * n * n * (3 * m - n) // 3
    full = flag(instance, "full_matrices")
    return batch * (factors + (4 * (3 * m * m * n - 3 * m * n * n + n**3) // 3 if full else factors))


def svd(instance: ShapedOp) -> int:
    """Count the work of a singular value decomposition, by Golub and Reinsch.

    Values alone take 4 m n^2 - 4/3 n^3. With thin U and V it is 14 m n^2 + 8 n^3. With all of U and V it is
    4 m^2 n + 8 m n^2 + 9 n^3.
    """
    batch, m, n = _tall(instance)
    if not flag(instance, "compute_uv", True):
        return singular_values(instance)
    full = flag(instance, "full_matrices")
    return batch * (4 * m * m * n + 8 * m * n * n + 9 * n**3 if full else 14 * m * n * n + 8 * n**3)


def singular_values(instance: ShapedOp) -> int:
    """4 m n^2 - 4/3 n^3, as of `svd`, whether vectors are asked for or not."""
    batch, m, n = _tall(instance)
    return batch * 4 * (3 * m * n * n - n**3) // 3


def self_adjoint_eigen(instance: ShapedOp) -> int:
    """Symmetric QR algorithm: 9 n^3, eigenvalues alone 4/3 n^3."""
    batch, _, n = matrices(at(instance.inputs, 0))
    return batch * (9 * n**3 if flag(instance, "compute_v", True) else 4 * n**3 // 3)


def eigen(instance: ShapedOp) -> int:
    """Unsymmetric QR algorithm: 25 n^3, eigenvalues alone 10 n^3."""
    batch, _, n = matrices(at(instance.inputs, 0))
    return batch * (25 if flag(instance, "compute_v", True) else 10) * n**3


def fourier(rank: int) -> Formula:
    """5 N log2 N per transform of N points (Van Loan, Computational Frameworks, 1992)."""

    def count(instance: ShapedOp) -> int:
        biggest = max(instance.inputs[:1] + instance.outputs, key=elements, default=None)
        points = prod(dims(biggest, rank))
        return elements(biggest) * 5 * (points - 1).bit_length()

    return count


def real_fourier(rank: int) -> Formula:
    """Half of the work of complex signals, of as many points as `fft_length` asks for (`_signal`)."""

    def count(instance: ShapedOp) -> int:
        points = prod(_signal(instance, rank))
        return _transforms(instance, rank) * points * 5 * (points - 1).bit_length() // 2

    return count


def transformed_bytes(rank: int) -> Formula:
    """Of its input RFFT and IRFFT read no more than `fft_length` asks for (tensorflow/core/kernels/fft_ops.cc)."""

    def count(instance: ShapedOp) -> int:
        whole, (*sides, last) = at(instance.inputs, 0), _signal(instance, rank)
        asked = (*sides, last if instance.op.startswith("RFFT") else last // 2 + 1)
        taken = prod(map(min, dims(whole, rank), asked))
        unread = sum(instance.input_bytes[:1]) * (prod(dims(whole, rank)) - taken) // max(1, prod(dims(whole, rank)))
        return tensors(instance) - unread

    return count


def _signal(instance: ShapedOp, rank: int) -> tuple[int, ...]:
    """The lengths of the real signal: an inverse makes it, and forward a spectrum of n / 2 + 1 comes of n points."""
    given, made = at(instance.inputs, 0), at(instance.outputs, 0)
    if made is None or -1 in made[-rank:]:  # the length is unknown
        return dims(given, rank)
    if not instance.op.startswith("RFFT"):
        return dims(made, rank)
    *sides, last = dims(made, rank)
    return (*sides, min(dims(given, rank)[-1], max(1, 2 * last - 1)))


def _transforms(instance: ShapedOp, rank: int) -> int:
    return elements((at(instance.inputs, 0) or ())[:-rank])
