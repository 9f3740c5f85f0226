"""Orders of groups by a tree: pairs that hand on much are joined first."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.search import decisions
from placement.search.decisions import _matched, decisions_of
from simulator.columns import ints
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] != pair[1]), max_size=12))
def test_a_pair_is_taken_unless_one_before_it_has_an_end_of_it(pairs: list[tuple[int, int]]) -> None:
    mate = _matched(np.array(pairs, np.int64).reshape(-1, 2), 8).tolist()
    taken = {pair for pair in pairs if mate[pair[0]] == pair[1]}
    assert sum(partner >= 0 for partner in mate) == 2 * len({frozenset(pair) for pair in taken})
    for at, (one, other) in enumerate(pairs):
        if (one, other) not in taken and (other, one) not in taken:
            assert any({one, other} & {*before} and before in taken for before in pairs[:at])


def test_a_value_of_many_readers_has_a_tree_whatever_may_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{at}" for at in range(20)]
    edges: dict[tuple[str, str], int | None] = {("n0", name): 100 for name in names[1:]}
    edges |= dict.fromkeys(pairwise(names[10:]), 10)
    on = cluster_of("gg")
    problem = problem_of(tasks(edges, names), on, costs_of(on, [(10, 10)] * 20))
    for most in (2**24, 40, 1):
        monkeypatch.setattr(decisions, "_PAIRS_OF_A_TREE", most)
        made = decisions_of(problem, ints([200 - 10 * at for at in range(20)]), 0)
        assert all(sorted(order) == list(range(20)) for order in made.orders.tolist())
