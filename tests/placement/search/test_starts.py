"""Cuts of an order: the least that crosses among all cuts of that balance, found by trying them all."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.search.decisions import decisions_of
from placement.search.starts import _best_cut, cuts
from simulator.columns import ints
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks


@settings(deadline=None)
@given(st.data())
def test_no_cut_of_that_balance_lets_less_cross(data: st.DataObject) -> None:
    count, k = data.draw(st.integers(2, 9)), data.draw(st.integers(2, 4))
    numbers = st.integers(0, 9)
    crossing = np.array([data.draw(numbers) for _ in range(count - 1)], float)
    weight = np.array([data.draw(st.integers(1, 9)) for _ in range(count)], float)
    slack = data.draw(st.sampled_from([0.02, 0.3, 0.8]))
    most = max(weight.sum() * (1 + slack) / k, weight.max())
    cost = np.concatenate([[0.0], crossing, [0.0]])

    def taken(bounds: tuple[int, ...]) -> float:
        ends = [0, *bounds, count]
        heavy = any(weight[a:b].sum() > most * (1 + 1e-9) for a, b in pairwise(ends))
        return float("inf") if heavy else float(sum(cost[at] for at in set(bounds)))

    best = min(taken(bounds) for bounds in combinations_with_replacement(range(count + 1), k - 1))
    found = tuple(_best_cut(crossing, weight, k, slack).tolist())
    if best < float("inf"):
        assert taken(found) < float("inf")
        assert sum(cost[at] for at in found) >= best
        assert len(set(found)) < k - 1 or taken(found) == best


def test_a_chain_is_cut_where_it_is_thin() -> None:
    names = [f"n{at}" for at in range(8)]
    sizes = [100, 100, 100, 1, 100, 100, 100]
    edges: dict[tuple[str, str], int | None] = dict(zip(pairwise(names), sizes, strict=True))
    on = cluster_of("gg")
    problem = problem_of(tasks(edges, names), on, costs_of(on, [(10, 10)] * 8))
    made = decisions_of(problem, ints([80 - 10 * at for at in range(8)]), 0)
    first = next(cuts(made, [0] * 8, tight=False))
    assert first.tolist() in ([0] * 4 + [1] * 4, [1] * 4 + [0] * 4)
