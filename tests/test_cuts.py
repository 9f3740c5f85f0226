"""Minimum cuts: as large as the flows of a library, and as cheap as the best of all halves."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from simulator.bounds.cuts import Values, halves, least_cut


@settings(deadline=None, max_examples=35)
@given(st.data())
def test_a_cut_is_as_large_as_the_flow_that_a_library_finds(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(2, 8))
    numbers = st.integers(0, 9)
    matrix = np.array([[data.draw(numbers) for _ in range(nodes)] for _ in range(nodes)], np.int32)
    np.fill_diagonal(matrix, 0)
    tail, head = (one.astype(np.int64) for one in np.triu(np.ones((nodes, nodes)), 1).nonzero())
    cut = least_cut(tail, head, matrix[tail, head].astype(np.int64), matrix[head, tail].astype(np.int64), nodes)
    assert (cut.far[nodes - 2], cut.far[nodes - 1]) == (False, True)
    known = maximum_flow(csr_array(matrix), nodes - 2, nodes - 1).flow_value
    assert cut.flow == matrix[np.ix_(~cut.far, cut.far)].sum() == known


def test_a_cut_that_takes_too_long_leaves_all_where_it_is() -> None:
    """In a chain whose halves pull to both sides, all flows through its middle."""
    for count, found in ((20, True), (3000, False)):
        chain, source, sink = np.arange(count), np.full(count, count), np.full(count, count + 1)
        tail, head = np.concatenate([chain[:-1], source, chain]), np.concatenate([chain[1:], chain, sink])
        near = np.where(chain < count // 2, 100, 0)
        forth = np.concatenate([np.full(count - 1, 10**6), near, 99 - near.clip(0, 99)])
        back = np.concatenate([np.full(count - 1, 10**6), np.zeros(2 * count, np.int64)])
        cut = least_cut(tail, head, forth, back, count + 2)
        assert bool(cut.far[count + 1]) == found
        assert 0 < cut.flow <= 50 * count
        assert (cut.flow == 99 * count // 2) == found


@settings(deadline=None, max_examples=35)
@given(st.data())
def test_halves_cost_as_little_as_the_best_of_all(data: st.DataObject) -> None:
    groups = data.draw(st.integers(1, 6))
    numbers = st.integers(0, 40)
    ends = data.draw(st.lists(st.tuples(st.integers(0, groups + 1), st.sets(st.integers(0, groups + 1), min_size=1))))
    dearer = np.array([data.draw(st.integers(-40, 40)) for _ in range(groups)], np.int64)
    forth, back = (np.array([data.draw(numbers) for _ in ends], np.int64) for _ in range(2))
    values = Values(
        maker=np.array([maker for maker, _ in ends], np.int64),
        value=np.repeat(np.arange(len(ends)), [len(read) for _, read in ends]),
        reader=np.array([one for _, read in ends for one in sorted(read)], np.int64),
    )

    def cost(far: tuple[bool, ...]) -> int:
        side = (*far, False, True)
        total = sum(max(ns, 0) if there else max(-ns, 0) for ns, there in zip(dearer.tolist(), far, strict=True))
        for (maker, read), out, home in zip(ends, forth.tolist(), back.tolist(), strict=True):
            total += any(side[one] != side[maker] for one in read) * (home if side[maker] else out)
        return int(total)

    cut = halves(dearer, values, forth, back)
    assert cut.flow == cost(tuple(cut.far.tolist())) == min(map(cost, product((False, True), repeat=groups)))
