"""The tree of boxes: every node in one place, nothing too wide or too deep, series and chains folded."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import Ints
from simulator.graph.building import build
from simulator.graph.graph import Graph
from viz.page import folding
from viz.page.folding import BLOCK, HUB, MAX_DEPTH, PARALLEL, SERIES, fold, item_order

PARTS = st.sampled_from(["a", "b", "conv", "conv_1", "AddN", "AddN_1", "AddN_2", "x", "grad"])
NAMES = st.lists(st.lists(PARTS, min_size=1, max_size=6).map("/".join), unique=True, min_size=1, max_size=40)


def graph(
    names: Sequence[str], ops: Sequence[str] | None = None, inputs: Sequence[Sequence[str]] | None = None
) -> Graph:
    count = len(names)
    return build(names, ops or ["NoOp"] * count, [""] * count, inputs or [[]] * count, [{}] * count)


def tree(names: Sequence[str], **rest: Any) -> dict[tuple[str, ...], list[str]]:
    """scope label path -> the names directly in it."""
    folded = fold(graph(names, **rest))
    found: dict[tuple[str, ...], list[str]] = {}
    for row, home in enumerate(folded.parent[folded.scopes :].tolist()):
        path: list[str] = []
        while home > 0:
            path.insert(0, folded.labels[home])
            home = int(folded.parent[home])
        found.setdefault(tuple(path), []).append(names[row])
    return found


def test_scopes_become_boxes() -> None:
    assert tree(["a/x", "a/y", "b"]) == {("a",): ["a/x", "a/y"], (): ["b"]}


def test_a_chain_of_scopes_is_one_box() -> None:
    assert tree(["a/b/c/x", "a/b/c/y", "z"]) == {("a/b/c",): ["a/b/c/x", "a/b/c/y"], (): ["z"]}


def test_a_node_named_like_a_scope_goes_into_it() -> None:
    assert tree(["w", "w/read", "z"]) == {("w",): ["w", "w/read"], (): ["z"]}


def test_a_numbered_series_is_one_box() -> None:
    names = ["AddN"] + [f"AddN_{i}" for i in range(1, SERIES)] + ["Mul", "Mul_1", "loss"]
    assert tree(names) == {(f"AddN ×{SERIES}",): names[:SERIES], (): ["Mul", "Mul_1", "loss"]}


def test_a_scope_that_is_one_series_is_not_boxed_again() -> None:
    names = [f"s/x_{i}" for i in range(9)] + ["y"]
    assert set(tree(names)) == {("s",), ()}


def test_different_ops_make_no_series() -> None:
    names = [f"x_{i}" for i in range(SERIES)] + ["y"]
    assert tree(names, ops=["NoOp"] * (SERIES - 1) + ["Const", "NoOp"]) == {(): names}


def letters(number: int) -> str:
    return "".join(chr(97 + number // 26**place % 26) for place in range(4))


@pytest.mark.parametrize(
    ("name", "op"),
    [
        (letters, lambda i: "NoOp"),
        (letters, lambda i: "Op" + letters(i // 4)),
        (lambda i: letters(i // 4) + f"_{i % 4}", lambda i: "NoOp"),
        (lambda i: letters(i) + "/x", lambda i: "NoOp"),
        (lambda i: f"layer{i}/x", lambda i: "NoOp"),
        (lambda i: letters(i // 5) + f"_{i % 5}/x", lambda i: "NoOp"),
    ],
    ids=["one op", "many ops", "many series", "many scopes", "one series of scopes", "many series of scopes"],
)
def test_no_box_is_too_wide(name: Callable[..., Any], op: Callable[..., Any]) -> None:
    count = 3000
    names = [name(i) for i in range(count)]
    folding = fold(graph(names, ops=[op(i) for i in range(count)]))
    assert max(map(len, folding.children())) <= 2 * BLOCK
    held = [item for inside in folding.children() for item in inside if item >= folding.scopes]
    assert sorted(held) == [folding.scopes + row for row in range(count)]


def test_depth_is_bounded() -> None:
    folding = fold(graph(["/".join("ab" * 400), "/".join("ab" * 400) + "x", "/".join("a" * 300)]))
    depth = [0]
    for parent in folding.parent[1:].tolist():  # parents come first
        depth.append(depth[parent] + 1)
    assert max(depth) <= MAX_DEPTH + 2


def test_hubs_are_nodes_with_many_neighbours() -> None:
    readers = [f"r{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(HUB)]
    names = ["lr", "few", *readers]
    none: list[str] = []
    inputs = [none, none] + [["^lr", "^lr"] + (["^few"] if i < HUB - 1 else []) for i in range(HUB)]
    assert fold(graph(names, inputs=inputs)).hub.nonzero()[0].tolist() == [0]


@given(NAMES)
def test_parents_come_first_and_every_item_hangs_from_the_root(names: Sequence[str]) -> None:
    folding = fold(graph(names))
    parent = folding.parent.tolist()
    assert parent[0] == -1
    assert len(parent) == folding.scopes + len(names)
    for item in range(1, len(parent)):
        assert 0 <= parent[item] < min(item, folding.scopes)
    assert all(inside for inside in folding.children()[1:])  # no box is empty


@given(NAMES)
def test_the_order_of_the_file_decides_nothing(names: Sequence[str]) -> None:
    def as_set(found: Mapping[tuple[str, ...], Sequence[str]]) -> set[tuple[tuple[str, ...], frozenset[str]]]:
        return {(path, frozenset(inside)) for path, inside in found.items()}

    assert as_set(tree(names)) == as_set(tree(names[::-1]))


def test_parallel_numbered_scopes_are_one_box_and_layers_are_not() -> None:
    names = [f"all_{i}/reduce/{part}" for i in range(PARALLEL) for part in "xy"] + ["z"]
    inputs = [[] if name.endswith("x") or name == "z" else [f"^{name[:-1]}x"] for name in names]
    assert {path[0] for path in tree(names, inputs=inputs) if path} == {f"all/reduce ×{PARALLEL}"}
    chained = [
        one or ([f"^all_{at // 2 - 1}/reduce/y"] if 1 < at < len(names) - 1 else []) for at, one in enumerate(inputs)
    ]
    assert {path[0] for path in tree(names, inputs=chained) if path} == {f"all_{i}/reduce" for i in range(PARALLEL)}


def test_edges_are_looked_at_once_for_all_parallel_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block has as many branches; those of every second one are chained."""
    calls: list[int] = []
    joined = folding._joined

    def counted(graph: Graph, tree: folding._Tree, group: Ints) -> set[int]:
        calls.append(1)
        return joined(graph, tree, group)

    monkeypatch.setattr(folding, "_joined", counted)
    names = [f"block{b}/branch{i}/{part}" for b in "abcd" for i in range(PARALLEL) for part in "xy"]
    chained = [name[5] in "bd" and "branch0/" not in name for name in names]
    inputs = [[f"^{names[at - 2]}"] if chained[at] else [] for at in range(len(names))]
    paths = list(tree(names, inputs=inputs))
    assert {path[1] for path in paths if path[0] == "blocka"} == {f"branch ×{PARALLEL}"}
    assert {path[1] for path in paths if path[0] == "blockb"} == {f"branch{i}" for i in range(PARALLEL)}
    assert len(calls) == 1


# --- the order of items ---------------------------------------------------------------------------------------------


def chain(names: Sequence[str]) -> tuple[Sequence[int], Sequence[int], int]:
    """The order of the items of a chain of nodes, their parents, and the number of scopes."""
    inputs = [[], *([f"^{name}"] for name in names[:-1])]
    chained = graph(names, inputs=inputs)
    folding = fold(chained)
    return item_order(chained.topological, folding).tolist(), folding.parent.tolist(), folding.scopes


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
