from collections.abc import Mapping, Sequence

import pytest

from simulator.graph.const_values import elements
from simulator.graph.graph import Graph, Shape
from simulator.graph.messages import AttrValue, TensorProto
from simulator.graph.tensors import shape_of
from simulator.shapes.filling import with_shapes
from simulator.shapes.sparse import made_up_entries, sparse_placeholders
from tests.strategies import Rows, shape_attr, type_attr

INT64, FLOAT = 9, 1
Placeholders = Sequence[tuple[str, int, Shape]]  # name, type, shape

# as `tf.compat.v1.sparse_placeholder` makes them, and as a SparseTensorSpec
V1: Placeholders = [("shape", INT64, (2,)), ("values", FLOAT, (-1,)), ("indices", INT64, (-1, 2))]
SPEC: Placeholders = [("x", INT64, (-1, 2)), ("x_1", FLOAT, (-1,)), ("x_2", INT64, (2,))]
OPEN: Placeholders = [("shape", INT64, (-1,)), ("values", FLOAT, (-1,)), ("indices", INT64, (-1, -1))]


def fed(placeholders: Placeholders, *, above: str = "", products: Sequence[str] = ()) -> Rows:
    made = Rows()
    for name, dtype, shape in placeholders:
        made.add(f"{above}{name}", "Placeholder", dtype=type_attr(dtype), shape=shape_attr(*shape))
    if products:
        made.add("w", "VariableV2", dtype=type_attr(FLOAT), shape=shape_attr(50, 3))
        made.add("product", "SparseTensorDenseMatMul", [*products, "w"], T=type_attr(FLOAT), Tindices=type_attr(INT64))
    return made


def reshaped(placeholders: Placeholders, indices: str, shape: str) -> Rows:
    """As `safe_embedding_lookup_sparse` begins."""
    made = fed(placeholders)
    made.add("to", "Placeholder", dtype=type_attr(INT64), shape=shape_attr(2))
    made.add("reshaped", "SparseReshape", [indices, shape, "to"])
    return made


def found(made: Rows) -> list[tuple[str, ...]]:
    graph = made.built()
    declared = [shape_of(attrs["shape"].shape) if "shape" in attrs else None for attrs in graph.attrs]
    return [tuple("" if row < 0 else graph.names[row] for row in one) for one in sparse_placeholders(graph, declared)]


@pytest.mark.parametrize(
    ("made", "parts"),
    [
        (fed(V1), ("indices", "values", "shape")),  # by their order
        (fed(SPEC), ("x", "x_1", "x_2")),
        (fed([V1[1], V1[2], V1[0]], above="a/"), ("a/indices", "a/values", "a/shape")),  # by their names
        (fed(OPEN[:2], above="a/"), None),
        (fed(OPEN, above="a/"), ("a/indices", "a/values", "a/shape")),
        (fed([SPEC[1], SPEC[2], SPEC[0]], products=["x", "x_1", "x_2"]), ("x", "x_1", "x_2")),  # by who reads them
        (fed(OPEN), None),  # ids, ratings and histories may look like this
        (reshaped(OPEN, "indices", "shape"), ("indices", "values", "shape")),
        (reshaped(OPEN, "indices", "values"), None),
        (fed([SPEC[1], SPEC[2], SPEC[0]]), None),
        (fed([SPEC[0], SPEC[1], ("x_2", INT64, (3,))]), None),  # of another rank
        (fed([SPEC[0], SPEC[1], ("x_2", 3, (2,))]), None),  # of another type
        (fed([("x", INT64, (2, 2)), ("x_1", FLOAT, (2,)), ("x_2", INT64, (2,))]), None),  # two examples
    ],
)
def test_three_placeholders_are_a_sparse_tensor_by_order_names_or_readers(
    made: Rows, parts: tuple[str, ...] | None
) -> None:
    assert found(made) == ([] if parts is None else [parts])


def shapes(graph: Graph) -> Mapping[str, Shape | None]:
    return {graph.names[graph.tensor_node[row]]: shape for row, shape in enumerate(graph.tensor_shape)}


def wide(*, named: str = "{}", dense: int = -1, product: bool = True) -> Rows:
    """A sparse tensor, of 50 columns where it is multiplied by weights, beside dense features."""
    made = fed(
        [(named.format(name), dtype, shape) for name, dtype, shape in SPEC],
        products=[named.format(name) for name, _, _ in SPEC] if product else [],
    )
    made.add("dense", "Placeholder", dtype=type_attr(FLOAT), shape=shape_attr(dense, 3))
    made.add("sum", "AddV2", ["product" if product else "dense", "dense"], T=type_attr(FLOAT))
    return made


def test_a_batch_is_the_rows_of_a_sparse_tensor_and_its_entries_but_not_its_rank() -> None:
    graph = with_shapes(wide().built(), batch=7)
    seen = shapes(graph)
    assert [seen[name] for name in ("x", "x_1", "x_2")] == [(7, 2), (7,), (2,)]
    assert seen["product"] == seen["sum"] == seen["dense"] == (7, 3)
    (note,) = (note for note in graph.notes if "sparse" in note)
    assert note == (
        "x:0 belongs to a sparse tensor of 7 entries, one per example; give another number as a feed, such as "
        "x_1:0=ENTRIES"
    )


def test_the_rows_of_a_sparse_tensor_are_those_of_a_batch_that_the_file_fixes() -> None:
    for batch, rows in ((None, 4), (7, 7)):
        seen = shapes(with_shapes(wide(dense=4).built(), batch=batch))
        assert [seen[name] for name in ("x", "x_1", "product", "dense")] == [(rows, 2), (rows,), (rows, 3), (rows, 3)]


def test_what_one_placeholder_of_a_sparse_tensor_is_fed_counts_for_the_others() -> None:
    for feed in ({"x_1": (30,)}, {"x": (30, 2)}):
        graph = with_shapes(wide().built(), batch=7, feeds=feed)
        assert [shapes(graph)[name] for name in ("x", "x_1", "product")] == [(30, 2), (30,), (7, 3)]
        assert not any("sparse" in note for note in graph.notes)


def test_a_sparse_tensor_is_found_under_any_name() -> None:
    plain, other = (with_shapes(wide(named=name).built(), batch=7) for name in ("{}", "z{}y"))
    assert plain.tensor_shape == other.tensor_shape


def test_entries_that_the_file_fixes_grow_with_the_batch() -> None:
    made = fed(
        [("i", INT64, (23, 2)), ("v", FLOAT, (23,)), ("s", INT64, (2,))],
        products=["i", "v", "s"],
    )
    made.add("dense", "Placeholder", dtype=type_attr(FLOAT), shape=shape_attr(4, 3))
    made.add("also", "Placeholder", dtype=type_attr(FLOAT), shape=shape_attr(4, 3))
    made.add("sum", "AddN", ["product", "dense", "also"], T=type_attr(FLOAT))
    seen = shapes(with_shapes(made.built(), batch=7))
    assert [seen[name] for name in ("i", "v", "sum")] == [(41, 2), (41,), (7, 3)]  # 23 * 7 / 4, rounded up


def test_a_matrix_is_taken_where_no_rank_is_told() -> None:
    made = fed(OPEN, above="a/")
    made.add("none", "Neg", ["a/values"], T=type_attr(FLOAT))
    seen = shapes(with_shapes(made.built(), batch=7))
    assert [seen[f"a/{name}"] for name in ("indices", "values", "shape")] == [(7, 2), (7,), (2,)]


def test_the_default_of_a_dense_shape_is_written_anew_though_nobody_reads_it() -> None:
    made = Rows()
    value = AttrValue()
    value.tensor.dtype = INT64
    value.tensor.int64_val.extend((4, 50))
    value.tensor.tensor_shape.dim.add(size=2)
    made.add("sides", "Const", dtype=type_attr(INT64), value=value)
    made.add("a/shape", "PlaceholderWithDefault", ["sides"], dtype=type_attr(INT64), shape=shape_attr(2))
    made.add("a/values", "Placeholder", dtype=type_attr(FLOAT), shape=shape_attr(-1))
    made.add("a/indices", "Placeholder", dtype=type_attr(INT64), shape=shape_attr(-1, 2))
    made.add("dense", "Placeholder", dtype=type_attr(FLOAT), shape=shape_attr(4, 3))
    made.add("end", "Neg", ["a/values"], T=type_attr(FLOAT))
    graph = with_shapes(made.built(), batch=7)
    assert elements(graph.attrs[graph.row("sides")]) == [7, 50]


def test_rows_of_a_sparse_tensor_are_the_batch_of_a_file_that_is_fed_nothing_else() -> None:
    """As a recommender's tower whose loss has no labels: `--batch` changed nothing."""
    made = fed([(f"a/{name}", dtype, shape) for name, dtype, shape in V1[1:]])
    value = TensorProto(dtype=INT64, int64_val=[6, 50])
    value.tensor_shape.dim.add(size=2)
    made.add("sides", "Const", dtype=type_attr(INT64), value=AttrValue(tensor=value))
    made.add("a/shape", "PlaceholderWithDefault", ["sides"], dtype=type_attr(INT64), shape=shape_attr(2))
    made.add("w", "VariableV2", dtype=type_attr(FLOAT), shape=shape_attr(50, 3))
    parts = ["a/indices", "a/values", "a/shape", "w"]
    made.add("product", "SparseTensorDenseMatMul", parts, T=type_attr(FLOAT), Tindices=type_attr(INT64))
    graph = with_shapes(made.built(), batch=8)
    assert (shapes(graph)["product"], elements(graph.attrs[graph.row("sides")])) == ((8, 3), [8, 50])


@pytest.mark.parametrize("entries", [0, 1, 3, 7, 20, 23])
def test_made_up_entries_are_sorted_different_and_in_each_row(entries: int) -> None:
    graph = with_shapes(wide(dense=7, product=False).built(), feeds={"x_1": (entries,)})
    (one,) = sparse_placeholders(graph, graph.tensor_shape)
    indices, sides = made_up_entries(graph, one, [one])
    assert sides == (7, max(1, -(-entries // 7)))
    assert indices == sorted({*indices})
    assert len(indices) == entries
    assert all(0 <= row < 7 and 0 <= column < sides[1] for row, column in indices)
    assert len({row for row, _ in indices}) == min(7, entries)


def test_made_up_entries_lie_within_a_constant_dense_shape() -> None:
    """As many rows as entries made an index out of bounds, so no such step was observed."""
    made = fed([("indices", INT64, (5000, 2)), ("values", FLOAT, (5000,))])
    sides = AttrValue(tensor=TensorProto(dtype=INT64, int64_val=[1000, 50]))
    made.add("sides", "Const", dtype=type_attr(INT64), value=sides)
    made.add("w", "VariableV2", dtype=type_attr(FLOAT), shape=shape_attr(50, 3))
    product = {"T": type_attr(FLOAT), "Tindices": type_attr(INT64)}
    made.add("product", "SparseTensorDenseMatMul", ["indices", "values", "sides", "w"], **product)
    graph = with_shapes(made.built())
    (one,) = sparse_placeholders(graph, graph.tensor_shape)
    indices, dense = made_up_entries(graph, one, [one])
    assert dense == (1000, 50)
    assert len({*indices}) == 5000
    assert max(row for row, _ in indices) < 1000
