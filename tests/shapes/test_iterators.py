"""The batch that datasets make: by default that of a step, and another one that a step takes."""

from __future__ import annotations

import pytest

from simulator.graph.graph import Graph, Shape
from simulator.shapes.filling import with_shapes
from simulator.shapes.iterators import dataset_of
from tests.shapes.datasets import WIDTH, batch, iterated, mapped, same, source, squared
from tests.strategies import Rows, typed


def shape(graph: Graph, name: str) -> Shape | None:
    return graph.tensor_shape[int(graph.tensor_ptr[graph.row(name)])]


def pipeline(size: int = 32) -> Rows:
    rows = Rows()
    iterated(rows, same(rows, batch(rows, source(rows), size), name="ahead"))
    return rows


def test_a_step_takes_the_batch_of_its_dataset() -> None:
    """Where the file leaves it open, and nobody asks for another one."""
    graph = pipeline().built()
    made = with_shapes(graph)
    assert shape(made, "next") == (32, WIDTH)
    assert "batch 32, as the dataset makes it, is the unknown first dimension of next:0" in made.notes
    assert shape(with_shapes(graph, batch=5), "next") == (5, WIDTH)
    assert shape(with_shapes(graph, feeds={"next": (7, WIDTH)}), "next") == (7, WIDTH)


@pytest.mark.parametrize(("other", "batches"), [(32, (32, 32, 32)), (9, (32, 9, 1))])
def test_all_else_takes_the_batch_on_which_datasets_agree(other: int, batches: tuple[int, ...]) -> None:
    rows = pipeline()
    iterated(rows, batch(rows, "source", other, name="batch_2"), name="_2")
    rows.add("x", "Placeholder", **typed("Placeholder", (-1, 3)))
    made = with_shapes(rows.built())
    assert tuple((shape(made, name) or ())[0] for name in ("next", "next_2", "x")) == batches


def test_a_function_of_a_batch_hands_it_on() -> None:
    rows = Rows()
    iterated(rows, mapped(rows, batch(rows, source(rows), 6), "f", shape=(-1, WIDTH)))
    assert shape(with_shapes(rows.built({"f": squared("f")})), "next") == (6, WIDTH)
    assert shape(with_shapes(rows.built({"f": squared("f", "OpOfALibrary")})), "next") == (1, WIDTH)  # who knows
    assert shape(with_shapes(rows.built()), "next") == (1, WIDTH)  # the function is not there


def test_a_long_pipeline_is_read() -> None:
    rows = Rows()
    last = batch(rows, source(rows), 3)
    for at in range(5000):
        last = same(rows, last, name=f"ahead_{at}")
    iterated(rows, last)
    assert shape(with_shapes(rows.built()), "next") == (3, WIDTH)


def sizes(rows: Rows, *taken: Shape) -> dict[str, int] | None:
    """The batches that are others than the file's for a step that takes elements of these shapes."""
    graph = rows.built({"f": squared("f")})
    found = dataset_of(graph, graph.row("iterator"))
    assert found is not None
    elements = found[0].making(found[1], taken)
    return None if elements is None else {name: size for (_, name), size in elements.sizes.items()}


def test_the_last_batch_is_the_one_that_a_step_takes() -> None:
    rows = Rows()
    twice = batch(rows, batch(rows, source(rows), 4), 8, name="outer", shape=(-1, -1, WIDTH))
    iterated(rows, twice, shape=(-1, -1, WIDTH))
    assert sizes(rows, (8, 4, WIDTH)) == {}
    assert sizes(rows, (24, 4, WIDTH)) == {"outer": 24}
    apart = Rows()
    whole = apart.add("whole", "UnbatchDataset", [batch(apart, source(apart), 4)])
    iterated(apart, batch(apart, whole, 6, name="outer"))
    assert sizes(apart, (12, WIDTH)) == {"outer": 12}


def test_batches_side_by_side_change_together() -> None:
    rows = Rows()
    both = [batch(rows, source(rows, f"source{at}"), 4, name=f"batch{at}") for at in (0, 1)]
    pair = rows.add("pair", "ZipDataset", both)
    iterated(rows, pair)
    assert sizes(rows, (8, WIDTH), (8, WIDTH)) == {"batch0": 8, "batch1": 8}
    assert sizes(rows, (8, WIDTH), (4, WIDTH)) == {"batch0": 8}
    assert sizes(rows, (8, WIDTH), (12, WIDTH)) is None


def test_what_makes_no_batch_can_not_make_another() -> None:
    """But an element whose first dimension is unknown is an example, whatever a step is told."""
    rows = Rows()
    iterated(rows, mapped(rows, source(rows, op="RangeDataset", shape=()), "f", shape=(3, WIDTH)), shape=(3, WIDTH))
    rows.attrs[rows.names.index("map")]["f"].func.name = "gone"
    assert sizes(rows, (3, WIDTH)) == {}
    assert sizes(rows, (6, WIDTH)) is None
    open_rows = Rows()
    iterated(open_rows, source(open_rows, shape=(-1, WIDTH)))
    assert sizes(open_rows, (6, WIDTH)) == {}
