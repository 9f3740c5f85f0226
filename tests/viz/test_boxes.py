"""Columns and rows: edges run to the right, nothing overlaps, and places are as near to their wishes as they can be."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viz.page.boxes import arrange, ranks, spread

COUNT = 9
PAIRS = st.lists(
    st.tuples(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1)).filter(lambda p: p[0] != p[1]), unique=True
)
WISHES = st.lists(st.integers(-20, 20), min_size=1, max_size=8)


def crossings(edges: Sequence[tuple[int, int]], rank: Sequence[int], row: Sequence[float]) -> int:
    """How often two edges between the same two columns cross."""
    drawn = [(rank[a], row[a], row[b]) for a, b in edges if rank[b] == rank[a] + 1]
    return sum(c == d and (y0 - z0) * (y1 - z1) < 0 for (c, y0, y1), (d, z0, z1) in itertools.combinations(drawn, 2))


def test_a_diamond() -> None:
    assert ranks(4, [(0, 1), (0, 2), (1, 3), (2, 3)], range(4)) == [0, 1, 1, 2]


def test_a_source_stands_beside_its_first_consumer() -> None:
    assert ranks(5, [(0, 1), (1, 2), (2, 3), (4, 3)], range(5)) == [0, 1, 2, 3, 2]


def test_of_a_cycle_the_item_that_comes_first_goes_first() -> None:
    assert ranks(3, [(0, 1), (1, 2), (2, 0)], [5.0, 1.0, 3.0]) == [2, 0, 1]


@given(PAIRS)
def test_without_cycles_every_edge_runs_to_the_right(pairs: Sequence[tuple[int, int]]) -> None:
    edges = sorted({(min(p), max(p)) for p in pairs})
    rank = ranks(COUNT, edges, range(COUNT))
    assert all(rank[a] < rank[b] for a, b in edges)
    assert min(rank) >= 0


@given(PAIRS)
def test_with_cycles_everybody_still_gets_a_column(pairs: Sequence[tuple[int, int]]) -> None:
    rank, row = arrange(COUNT, pairs, range(COUNT))
    assert len(rank) == len(row) == COUNT
    assert max(rank) < COUNT


@given(PAIRS)
def test_items_of_one_column_do_not_overlap(pairs: Sequence[tuple[int, int]]) -> None:
    rank, row = arrange(COUNT, pairs, range(COUNT))
    for a, b in itertools.combinations(range(COUNT), 2):
        assert rank[a] != rank[b] or abs(row[a] - row[b]) >= 1 - 1e-9


def test_sweeps_untangle_a_bipartite_picture() -> None:
    edges = [(0, 7), (1, 6), (2, 5), (3, 4)]
    rank, row = arrange(8, edges, range(8))
    assert crossings(edges, rank, row) == 0


def test_a_chain_is_a_straight_line() -> None:
    rank, row = arrange(30, [(i, i + 1) for i in range(29)], range(30))
    assert rank == list(range(30))
    assert len(set(row)) == 1


@pytest.mark.parametrize("size", [1.0, 0.5])
def test_spread_keeps_wishes_that_fit(size: float) -> None:
    assert spread([0.0, 1.0, 5.0], [size] * 3) == [0.0, 1.0, 5.0]


def test_spread_shares_a_conflict() -> None:
    assert spread([0.0, 0.0], [1.0, 1.0]) == [-0.5, 0.5]


@given(WISHES, st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=8, max_size=8), st.data())
def test_no_other_feasible_places_are_nearer_to_the_wishes(
    wishes: Sequence[int], sizes: Sequence[float], data: st.DataObject
) -> None:
    sizes = sizes[: len(wishes)]
    found = spread(wishes, sizes)
    gaps = [(a + b) / 2 for a, b in itertools.pairwise(sizes)]
    assert all(b - a >= gap - 1e-9 for (a, b), gap in zip(itertools.pairwise(found), gaps, strict=True))
    other = [data.draw(st.integers(-30, 30)) + 0.0]
    for gap in gaps:
        other.append(other[-1] + gap + data.draw(st.integers(0, 6)) / 2)

    def cost(places: Sequence[float]) -> float:
        return sum((place - wish) ** 2 for place, wish in zip(places, wishes, strict=True))

    assert cost(found) <= cost(other) + 1e-6
