from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import Flags
from simulator.graph import set_cover
from simulator.graph.graph import Graph
from simulator.graph.set_cover import MAX_EXACT, cover, smallest_cover
from simulator.graph.traversal import fan_in
from tests.strategies import Rows


@given(st.lists(st.integers(1, 2**7 - 1), min_size=1, max_size=8))
def test_the_cover_is_the_smallest(masks: Sequence[int]) -> None:
    sets = dict(enumerate(masks))
    goal = 0
    for mask in masks:
        goal |= mask
    chosen = cover(sets)
    smallest = next(
        count
        for count in range(1, len(masks) + 1)
        if any(union(sets[key] for key in keys) == goal for keys in combinations(sets, count))
    )
    assert union(sets[key] for key in chosen) == goal
    assert len(chosen) == len(set(chosen)) == smallest


def union(masks: Iterable[int]) -> int:
    whole = 0
    for mask in masks:
        whole |= mask
    return whole


def test_many_rivals_are_covered_greedily() -> None:
    rivals = MAX_EXACT * 3
    sets = {key: 0b11 << key for key in range(rivals)} | {rivals: 1 | 1 << rivals}  # a ring: every bit stands twice
    chosen = cover(sets)
    assert union(sets[key] for key in chosen) == union(sets.values())
    assert len(chosen) < len(sets)


def test_of_equal_sets_the_first_is_taken() -> None:
    assert cover({5: 0b11, 2: 0b11, 9: 0b01}) == [5]


def test_the_fan_in_of_sinks_is_asked_for_only_where_they_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(graph: Graph, rows: list[int]) -> Flags:
        asked.extend(rows)
        return fan_in(graph, rows)

    monkeypatch.setattr(set_cover, "fan_in", counted)
    made = Rows()
    for at in range(4):
        made.add(f"update{at}", "NoOp")
        made.add(f"end{at}", "NoOp", [f"^update{at}"])
    made.add("also", "NoOp", ["^update3", "^end0"])
    graph = made.built()
    updates = [graph.row(f"update{at}") for at in range(4)]
    assert smallest_cover(graph, updates[:3], list) == [graph.row(name) for name in ("end1", "end2", "also")]
    assert asked == []
    assert smallest_cover(graph, updates, list) == [graph.row(name) for name in ("end1", "end2", "also")]
    assert asked == []
    made.add("too", "NoOp", ["^update1", "^update2"])
    made.add("twice", "NoOp", ["^end1"])
    graph = made.built()
    smallest_cover(graph, updates, list)
    assert sorted(graph.names[row] for row in asked) == ["end2", "too", "twice"]


@pytest.mark.parametrize(("ends", "chosen"), [((), "inside"), (("train",), "train"), (("other",), "inside")])
def test_a_sink_inside_a_body_is_taken_only_where_no_sink_of_the_file_will_do(
    ends: tuple[str, ...], chosen: str
) -> None:
    made = Rows()
    for name in ("update", "other"):
        made.add(name, "NoOp")
    made.add("inside", "NoOp", ["^update"])
    made.add("train", "NoOp", ["^update", "^other"])
    graph = replace(made.built(), ends=ends)
    assert smallest_cover(graph, [graph.row("update")], list) == [graph.row(chosen)]
