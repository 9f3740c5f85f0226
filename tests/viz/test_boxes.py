"""The order of items follows the computation, whatever the file's order."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from simulator.graph.building import build
from viz.page.boxes import item_order
from viz.page.folding import fold

NAMES = st.lists(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join), unique=True, min_size=1, max_size=12
)


def chain(names: Sequence[str]) -> tuple[Sequence[int], Sequence[int], int]:
    """The order of the items of a chain of nodes, their parents, and the number of scopes."""
    inputs = [[], *([f"^{name}"] for name in names[:-1])]
    graph = build(names, ["NoOp"] * len(names), [""] * len(names), inputs, [{}] * len(names))
    folding = fold(graph)
    return item_order(graph.topological, folding).tolist(), folding.parent.tolist(), folding.scopes


@given(NAMES)
def test_nodes_of_a_chain_stand_in_its_order(names: Sequence[str]) -> None:
    order, _, scopes = chain(names)
    assert sorted(order) == list(range(len(order)))
    assert order[scopes:] == sorted(order[scopes:])


@given(NAMES)
def test_a_scope_stands_among_what_it_holds(names: Sequence[str]) -> None:
    order, parent, scopes = chain(names)
    for scope in range(1, scopes):
        inside = []
        for item in range(scopes, len(order)):
            above = item
            while above > 0 and above != scope:
                above = parent[above]
            if above == scope:
                inside.append(order[item])
        assert order[scope] < max(inside)
        if len(inside) > 1:
            assert order[scope] > min(inside)
