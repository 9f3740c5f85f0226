"""The table of a bench, worked by hand, and what holds for every bench."""

import xml.dom.minidom
from dataclasses import replace
from math import inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viz.bench.rows import BenchRow, RowKey
from viz.bench.table import as_svg, as_text, best_known, standings


def row(graph: str, algorithm: str, ns: int, *, fits: bool = True, refused: str = "") -> BenchRow:
    return BenchRow(
        RowKey(graph, "", "2gpu", "", algorithm, "", "1"), refused, makespan_ns=ns, fits=fits, placing_s=0.5
    )


ROWS = [
    row("a", "single", 200),
    row("a", "heft", 100),
    row("b", "single", 100),
    row("b", "heft", 50, fits=False),
    row("c", "single", 0, refused="no device"),
    row("c", "heft", 0, refused="no device"),
]


def test_a_bench_worked_by_hand() -> None:
    assert list(best_known(ROWS).values()) == [100, 100]
    one, other = standings(ROWS)
    assert (one.name, one.ratios) == ("single", (2.0, 1.0))
    assert (other.name, other.ratios) == ("heft", (1.0, inf))
    assert [one.within(factor) for factor in (1, 1.99, 2)] == [0.5, 0.5, 1]
    assert as_text(ROWS).splitlines() == [
        "6 rows on 3 problems, 1 of them without any plan that fits.",
        "algorithm  plans that fit  x best: mean  median  worst  best  placing",
        f"single     2 of 2          {sqrt(2):.3f}         1.500   2.00   50%   0.5 s",
        "heft       1 of 2          1.000         1.000   1.00   50%   0.5 s",
        "2 rows refused; the file says why.",
    ]


def test_lower_bounds_are_said() -> None:
    unsized = [replace(one, unsized_tensors=3) if one.key.graph == "a" else one for one in ROWS]
    assert as_text(unsized).splitlines() == [
        *as_text(ROWS).splitlines(),
        "Tensors of unknown size count nothing in 1 problem: the steps there are lower bounds.",
    ]


def test_plans_in_whose_place_another_counts_are_counted() -> None:
    used = [replace(one, used="single" if one.key.graph == "a" else one.key.algorithm) for one in ROWS]
    assert as_text(used).splitlines() == [
        *as_text(ROWS).splitlines(),
        "The plan of a single device, which is faster, takes the place of heft in 1 of 2 rows; --no-fallback keeps "
        "theirs.",
    ]


TIMES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "<y>", "z"]), st.integers(1, 10**12), st.booleans()),
    unique_by=lambda one: one[:2],
)


@given(TIMES)
def test_the_best_is_once_and_nothing_is_better(drawn: list[tuple[str, str, int, bool]]) -> None:
    rows = [row(graph, algorithm, ns, fits=fits) for graph, algorithm, ns, fits in drawn]
    found = standings(rows)
    problems = len(best_known(rows))
    assert sum(one.ratios.count(1.0) for one in found) >= problems
    assert all(ratio >= 1 for one in found for ratio in one.ratios)
    assert all(len(one.found) <= len(one.ratios) <= problems for one in found)
    assert as_text(rows).count("\n") >= len(found)
    lines = [
        (one.getAttribute("d"), one.getAttribute("stroke-width"))
        for one in xml.dom.minidom.parseString(as_svg(rows)).getElementsByTagName("path")
    ]
    assert len(set(lines)) == len(lines)  # of equal curves each can be seen


@pytest.mark.parametrize("rows", [[], ROWS[4:]])
def test_a_bench_without_a_plan_is_drawn_all_the_same(rows: list[BenchRow]) -> None:
    assert standings(rows) == ()
    xml.dom.minidom.parseString(as_svg(rows))
