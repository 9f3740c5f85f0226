"""Shapes of products, factorisations, Fourier transforms, sparse matrices.

Rules: math_ops.cc, linalg_ops.cc, spectral_ops.cc, sparse_csr_matrix_ops.cc below tensorflow/core/ops/.
"""

from __future__ import annotations

from itertools import chain

from simulator.shapes.dims import SYMBOLS, Dims, as_dim
from simulator.shapes.site import Handle, Outputs, Rule, ShapeError, Site, written


def matmul(site: Site) -> Outputs:
    """A product of two matrices, either of which may be transposed (`MatMulShape`)."""
    a, b = site.input_of_rank(0, 2), site.input_of_rank(1, 2)
    rows, inner = (a[1], a[0]) if site.flag("transpose_a") else a
    other, columns = (b[1], b[0]) if site.flag("transpose_b") else b
    site.equal(inner, other, a, b)
    return ((rows, columns),)


def batch_matmul(site: Site) -> Outputs:
    """Products of batches of matrices; since V2 the batches are stretched."""
    a, b = site.at_least(site.shape(0), 2), site.at_least(site.shape(1), 2)
    if a is None or b is None:
        return (None,)
    rows, inner = a[-2:][::-1] if site.flag("adj_x") else a[-2:]
    other, columns = b[-2:][::-1] if site.flag("adj_y") else b[-2:]
    site.equal(inner, other, a, b)
    lead = site.merged(a[:-2], b[:-2]) if site.op == "BatchMatMul" else site.broadcast(a[:-2], b[:-2])
    return (None if lead is None else (*lead, rows, columns),)


def einsum(site: Site) -> Outputs:
    """Einsum: a dimension per label; those under an ellipsis are stretched (`EinsumShape`)."""
    terms, arrow, result = site.text("equation").replace(" ", "").partition("->")
    labels: dict[str, int] = {}
    around: Dims = ()
    given = terms.split(",")
    if not arrow or len(given) != len(site.shapes):
        return (None,)
    for term, shape in zip(given, site.shapes, strict=True):
        before, dots, after = term.partition("...")
        if shape is None:
            if dots:
                around = None
            for label in before + after:
                labels.setdefault(label, site.fresh())
            continue
        plain = len(before) + len(after)
        if len(shape) < plain or (not dots and len(shape) > plain):
            raise ShapeError(f"{written(shape)} does not fit {term!r} of the equation")
        last = len(shape) - len(after)
        for label, side in chain(zip(before, shape, strict=False), zip(after, shape[last:], strict=True)):
            labels[label] = site.equal(labels[label], side, shape) if label in labels else side
        if dots:
            around = site.broadcast(around, shape[len(before) : last])
    before, dots, after = result.partition("...")
    if dots and around is None:
        return (None,)
    middle = (around or ()) if dots else ()
    return ((*[labels[one] for one in before], *middle, *[labels[one] for one in after]),)


def sparse_dense_matmul(site: Site) -> Outputs:
    """SparseTensorDenseMatMul: indices, values and shape of a sparse matrix, then a dense one."""
    sides, b = site.value(2), site.input_of_rank(3, 2)
    a = (site.fresh(), site.fresh()) if sides is None or len(sides) != 2 else (as_dim(sides[0]), as_dim(sides[1]))
    rows, inner = a[::-1] if site.flag("adjoint_a") else a
    other, columns = b[::-1] if site.flag("adjoint_b") else b
    site.equal(inner, other)
    return ((rows, columns),)


def _square(site: Site) -> Dims:
    shape = site.at_least(site.shape(0), 2)
    if shape is None:
        return None
    side = site.equal(shape[-2], shape[-1], shape)
    return (*shape[:-2], side, side)


def square(site: Site) -> Outputs:
    """Square matrices stay square matrices."""
    return (_square(site),)


def determinant(site: Site) -> Outputs:
    """A number per square matrix; LogMatrixDeterminant has its sign first."""
    shape = _square(site)
    return [None if shape is None else shape[:-2]] * site.outputs


def solved(site: Site) -> Outputs:
    """MatrixSolve: as the right side; MatrixTriangularSolve stretches the batches."""
    a, b = _square(site), site.at_least(site.shape(1), 2)
    if a is None or b is None:
        return (None,)
    site.equal(a[-1], b[-2], a, b)
    stretches = site.op == "MatrixTriangularSolve"
    lead = site.broadcast(a[:-2], b[:-2]) if stretches else site.merged(a[:-2], b[:-2])
    return (None if lead is None else (*lead, a[-1], b[-1]),)


def least_squares(site: Site) -> Outputs:
    """MatrixSolveLs: as many rows as the left side has columns."""
    a, b = site.at_least(site.shape(0), 2), site.at_least(site.shape(1), 2)
    if a is None or b is None:
        return (None,)
    site.equal(a[-2], b[-2], a, b)
    return ((*(site.merged(a[:-2], b[:-2]) or ()), a[-1], b[-1]),)


def _smaller(site: Site, rows: int, columns: int) -> int:
    if rows == columns:
        return rows
    return min(rows, columns) if min(rows, columns) >= 0 else site.fresh()


def qr(site: Site) -> Outputs:
    """Qr: an orthogonal and an upper matrix, thin unless `full_matrices`."""
    shape = site.at_least(site.shape(0), 2)
    if shape is None:
        return (None, None)
    *lead, rows, columns = shape
    least = rows if site.flag("full_matrices") else _smaller(site, rows, columns)
    return ((*lead, rows, least), (*lead, least, columns))


def svd(site: Site) -> Outputs:
    """Svd: singular values, then both bases, thin unless `full_matrices`."""
    shape, bases = site.at_least(site.shape(0), 2), site.flag("compute_uv", True)
    if shape is None:
        return (None, None, None) if bases else (None, (0,), (0,))
    *lead, rows, columns = shape
    least = _smaller(site, rows, columns)
    if not bases:
        return ((*lead, least), (0,), (0,))
    full = site.flag("full_matrices")
    left, right = (rows, columns) if full else (least, least)
    return ((*lead, least), (*lead, rows, left), (*lead, columns, right))


def eigen(site: Site) -> Outputs:
    """SelfAdjointEigV2 and Eig: a value per row, then the vectors if they are computed."""
    shape = _square(site)
    vectors = shape if site.flag("compute_v", True) else (0,)
    return (None if shape is None else shape[:-1], vectors)


def decomposed(site: Site) -> Outputs:
    """Lu: both factors in one matrix, and a permutation."""
    shape = _square(site)
    return (shape, None if shape is None else shape[:-1])


def real_fourier(rank: int, forward: bool) -> Rule:
    """RFFT and IRFFT: the last dimensions have the asked lengths; forward the last one is half of it and one."""

    def rule(site: Site) -> Outputs:
        shape, lengths = site.at_least(site.shape(0), rank), site.vector(1, rank)
        if shape is None:
            return (None,)
        if lengths is None:
            return ((*shape[:-rank], *(site.ranked(rank) or ())),)
        sides = [as_dim(one) for one in lengths]
        if forward and sides[-1] > SYMBOLS:
            sides[-1] = sides[-1] // 2 + 1 if sides[-1] else 0
        elif forward:
            sides[-1] = site.fresh()
        return ((*shape[:-rank], *sides),)

    return rule


def banded_solved(site: Site) -> Outputs:
    """BandedTriangularSolve: bands and their columns, then right-hand sides; batches are stretched."""
    bands, sides = site.at_least(site.shape(0), 2), site.at_least(site.shape(1), 2)
    if bands is None or sides is None:
        return (None,)
    batch = site.broadcast(bands[:-2], sides[:-2])
    return (None if batch is None else (*batch, site.equal(bands[-1], sides[-2], bands, sides), sides[-1]),)


def spectrogram(site: Site) -> Outputs:
    """AudioSpectrogram: for each channel and stride the frequencies of a window, filled up to a power of two."""
    samples, channels = site.input_of_rank(0, 2)
    window, stride = site.number("window_size"), site.number("stride")
    if window < 2 or stride < 1:
        raise ShapeError(f"a window of {window} with a stride of {stride} is no spectrogram")
    windows = site.fresh() if samples < 0 else max(0, 1 + (samples - window) // stride)
    return ((channels, windows, 1 + (1 << (window - 1).bit_length()) // 2),)


def cepstrum(site: Site) -> Outputs:
    """Mfcc: a number of coefficients for each frame of a spectrogram."""
    return ((*site.input_of_rank(0, 3)[:2], site.number("dct_coefficient_count", 13)),)


# ---- sparse matrices in rows: a variant that knows the dense shape ---------------------------------------------------


def _rows_of(site: Site, slot: int = 0) -> Dims:
    """The dense shape of a sparse matrix, or of several."""
    handle = site.handle(slot, "sparse matrix")
    return site.at_least(handle.shapes[0], 2) if handle is not None else None


def _in_rows(site: Site, shape: Dims) -> Outputs:
    site.made[0] = Handle("sparse matrix", shapes=(shape,))
    return ((),)


def rows_of_dense(site: Site) -> Outputs:
    """DenseToCSRSparseMatrix: of the shape of the dense one."""
    return _in_rows(site, site.at_least(site.shape(0), 2))


def rows_given(slot: int) -> Rule:
    """A sparse matrix of the shape that an input holds."""
    return lambda site: _in_rows(site, site.dims(slot))


def rows_kept(site: Site) -> Outputs:
    """A sparse matrix of the shape of the first one."""
    return _in_rows(site, _rows_of(site))


def rows_added(site: Site) -> Outputs:
    """SparseMatrixAdd and the like: both have one shape."""
    return _in_rows(site, site.merged(_rows_of(site), _rows_of(site, 1)))


def rows_transposed(site: Site) -> Outputs:
    """SparseMatrixTranspose: rows become columns."""
    shape = _rows_of(site)
    return _in_rows(site, None if shape is None else (*shape[:-2], shape[-1], shape[-2]))


def _product(site: Site, a: Dims, b: Dims) -> Dims:
    """The shape of a product, of which either side may be transposed."""
    if a is None or b is None:
        return None
    rows, inner = a[-2:][::-1] if site.flag("transpose_a") or site.flag("adjoint_a") else a[-2:]
    other, columns = b[-2:][::-1] if site.flag("transpose_b") or site.flag("adjoint_b") else b[-2:]
    site.equal(inner, other, a, b)
    made = (columns, rows) if site.flag("transpose_output") else (rows, columns)
    return (*(site.merged(a[:-2], b[:-2]) or ()), *made)


def rows_multiplied(site: Site) -> Outputs:
    """SparseMatrixSparseMatMul: a product of two sparse matrices."""
    return _in_rows(site, _product(site, _rows_of(site), _rows_of(site, 1)))


def rows_by_dense(site: Site) -> Outputs:
    """SparseMatrixMatMul: a product of a sparse matrix and a dense one."""
    return (_product(site, _rows_of(site), site.at_least(site.shape(1), 2)),)


def rows_as_dense(site: Site) -> Outputs:
    """CSRSparseMatrixToDense: the dense shape."""
    return (_rows_of(site),)


def rows_as_sparse(site: Site) -> Outputs:
    """CSRSparseMatrixToSparseTensor: indices, values and shape of an unknown number of entries."""
    shape, count = _rows_of(site), site.fresh()
    rank = site.fresh() if shape is None else len(shape)
    return ((count, rank), (count,), (rank,))


def rows_parted(site: Site) -> Outputs:
    """CSRSparseMatrixComponents: where each row begins, the columns, and the values of one matrix."""
    shape, count = _rows_of(site), site.fresh()
    return ((site.fresh() if shape is None else site.algebra.plus(shape[-2], 1),), (count,), (count,))


def rows_counted(site: Site) -> Outputs:
    """SparseMatrixNNZ: a number for each matrix."""
    shape = _rows_of(site)
    return (None if shape is None else shape[:-2],)


def rows_ordered(site: Site) -> Outputs:
    """SparseMatrixOrderingAMD: a permutation of the rows of each matrix."""
    shape = _rows_of(site)
    return (None if shape is None else shape[:-1],)
