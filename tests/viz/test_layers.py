"""Columns, lines and places, in Chromium: edges run to the right, lines fit, no places are nearer to the wishes."""

import itertools
from collections.abc import Sequence
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selenium.webdriver.chrome.webdriver import WebDriver

from tests.viz.browsing import Ask

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # selenium leaves its own sockets to the collector
]

COUNT = 9
PAIRS = st.lists(
    st.tuples(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1)).filter(lambda p: p[0] != p[1]), unique=True
)
WISHES = st.lists(st.integers(-20, 20), min_size=1, max_size=8)
WIDTHS = st.lists(st.integers(1, 60), min_size=1, max_size=20)


@pytest.fixture(scope="module")
def call(browser: WebDriver) -> Ask:
    """A function that calls one of layers.js by name."""
    script = resources.files("viz").joinpath("assets/layers.js").read_text("utf-8")
    browser.get("data:text/html,layers")

    def called(name: str, *values: Any) -> Any:
        return browser.execute_script(f"{script}; return {name}(...arguments)", *values)

    return called


def ranks(call: Ask, count: int, pairs: Sequence[tuple[int, int]], order: Sequence[float]) -> list[int]:
    found = call("((...given) => [...ranksOf(...given)])", count, list(map(list, pairs)), list(order))
    return [int(rank) for rank in found]


def test_a_diamond(call: Ask) -> None:
    assert ranks(call, 4, [(0, 1), (0, 2), (1, 3), (2, 3)], range(4)) == [0, 1, 1, 2]


def test_a_source_stands_beside_its_first_consumer(call: Ask) -> None:
    assert ranks(call, 5, [(0, 1), (1, 2), (2, 3), (4, 3)], range(5)) == [0, 1, 2, 3, 2]


def test_of_a_cycle_the_item_that_comes_first_goes_first(call: Ask) -> None:
    assert ranks(call, 3, [(0, 1), (1, 2), (2, 0)], [5.0, 1.0, 3.0]) == [2, 0, 1]


@settings(max_examples=25, deadline=None)
@given(pairs=PAIRS)
def test_without_cycles_every_edge_runs_to_the_right(call: Ask, pairs: Sequence[tuple[int, int]]) -> None:
    edges = sorted({(min(p), max(p)) for p in pairs})
    rank = ranks(call, COUNT, edges, range(COUNT))
    assert all(rank[a] < rank[b] for a, b in edges)
    assert min(rank) >= 0


@settings(max_examples=25, deadline=None)
@given(pairs=PAIRS)
def test_with_cycles_everybody_still_gets_a_column(call: Ask, pairs: Sequence[tuple[int, int]]) -> None:
    rank = ranks(call, COUNT, pairs, range(COUNT))
    assert len(rank) == COUNT
    assert max(rank) < COUNT


def test_sweeps_untangle_a_bipartite_picture(call: Ask) -> None:
    near = [[7], [6], [5], [4], [3], [2], [1], [0]]
    none: list[list[int]] = [[]] * 4
    script = "((columns, left, right) => { sweep(columns, left, right); return columns; })"
    first, second = call(script, [[0, 1, 2, 3], [4, 5, 6, 7]], none + near[4:], near[:4] + none)
    assert [7 - item for item in second] == first


@settings(max_examples=25, deadline=None)
@given(widths=WIDTHS, room=st.integers(20, 200))
def test_lines_fit_the_room_and_are_as_few_as_can_be(call: Ask, widths: Sequence[int], room: int) -> None:
    gap = 5
    starts = call("brokenLines", widths, gap, room)
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    lines = [widths[a:b] for a, b in itertools.pairwise([*starts, len(widths)])]
    for line in lines:
        assert sum(line) + gap * (len(line) - 1) <= room or len(line) == 1
    fewest, reached = 1, -gap
    for width in widths:
        reached += gap + width
        if reached > room and reached > width:
            fewest, reached = fewest + 1, width
    assert len(lines) == fewest


@pytest.mark.parametrize("size", [1.0, 0.5])
def test_spread_keeps_wishes_that_fit(call: Ask, size: float) -> None:
    assert call("spread", [0.0, 1.0, 5.0], [size] * 3) == [0.0, 1.0, 5.0]


@settings(max_examples=25, deadline=None)
@given(wishes=WISHES, sizes=st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=8, max_size=8), data=st.data())
def test_no_other_feasible_places_are_nearer_to_the_wishes(
    call: Ask, wishes: Sequence[int], sizes: Sequence[float], data: st.DataObject
) -> None:
    sizes = sizes[: len(wishes)]
    found = call("spread", wishes, sizes)
    gaps = [(a + b) / 2 for a, b in itertools.pairwise(sizes)]
    assert all(b - a >= gap - 1e-9 for (a, b), gap in zip(itertools.pairwise(found), gaps, strict=True))
    other = [data.draw(st.integers(-30, 30)) + 0.0]
    for gap in gaps:
        other.append(other[-1] + gap + data.draw(st.integers(0, 6)) / 2)

    def cost(places: Sequence[float]) -> float:
        return sum((place - wish) ** 2 for place, wish in zip(places, wishes, strict=True))

    assert cost(found) <= cost(other) + 1e-6


PARTS = st.lists(st.text("abcdef_0123", min_size=1, max_size=30), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(parts=PARTS, letters=st.integers(2, 60))
def test_each_part_of_a_path_that_is_cut_keeps_both_of_its_ends(
    browser: WebDriver, call: Ask, parts: list[str], letters: int
) -> None:
    drawing = resources.files("viz").joinpath("assets/graph_drawing.js").read_text("utf-8")
    path = "/".join(parts)
    shown = browser.execute_script(f"{drawing}; return abridged(...arguments)", path, letters)
    assert len(shown) <= max(letters, 0) + 2 * len(parts) or shown == path
    for part, kept in zip(parts, shown.split("/"), strict=True):
        head, cut, tail = kept.partition("…")
        assert part == kept if not cut else part.startswith(head) and part.endswith(tail)
        assert not cut or len(head) >= len(tail)
