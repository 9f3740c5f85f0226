"""Row splits of ragged tensors: recognised by what reads them, and one longer than the batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulator.graph.messages import AttrValue
from simulator.shapes.filling import with_shapes
from simulator.shapes.ragged import made_up_splits, row_splits
from tests.strategies import Rows, shape_attr, type_attr
from tests.training.queues import const

INT64, INT32, FLOAT = 9, 3, 1


def part(rows: Rows, name: str, of: str, begin: int, end: int, opened: str) -> str:
    """A StridedSlice of a vector that is open at one end. Masks of 0 are left out, as in a SavedModel."""
    bounds = [const(rows, f"{name}/{at}", [value]) for at, value in enumerate((begin, end, 1))]
    masks = {f"{opened}_mask": AttrValue(i=1)}
    return rows.add(name, "StridedSlice", [of, *bounds], T=type_attr(INT64), Index=type_attr(INT32), **masks)


def lengths(rows: Rows, of: str) -> None:
    """How long each row is, as `RowPartition.row_lengths` finds it."""
    made = part(rows, "later", of, 1, 0, "end"), part(rows, "earlier", of, 0, -1, "begin")
    rows.add("lengths", "Sub", made, T=type_attr(INT64))


def handed_on(rows: Rows, of: str) -> None:
    lengths(rows, rows.add("cast", "Cast", [rows.add("same", "Identity", [of], T=type_attr(INT64))]))


def dense(rows: Rows, of: str, kind: bytes = b"ROW_SPLITS") -> None:
    kinds = AttrValue()
    kinds.list.s.append(kind)
    given = [const(rows, "shape", [-1, -1]), "values", const(rows, "default", 0), of]
    rows.add("dense", "RaggedTensorToTensor", given, T=type_attr(FLOAT), row_partition_types=kinds)


def gathered(rows: Rows, of: str) -> None:
    rows.add("gathered", "RaggedGather", [of, "values", const(rows, "rows", [0])], PARAMS_RAGGED_RANK=AttrValue(i=1))


def by_rows(rows: Rows, of: str) -> None:
    dense(rows, of, b"VALUE_ROWIDS")


def targets(rows: Rows, of: str) -> None:
    """The words of a text, and those that follow on them."""
    for name, begin, end, mask in (("words", 0, -1, "begin"), ("next", 1, 0, "end")):
        part(rows, name, of, begin, end, mask)
    rows.add("same", "Equal", ["words", "next"], T=type_attr(INT64))


def turned(rows: Rows, of: str) -> None:
    made = part(rows, "earlier", of, 0, -1, "begin"), part(rows, "later", of, 1, 0, "end")
    rows.add("lengths", "Sub", made, T=type_attr(INT64))


def ragged(reading: Callable[[Rows, str], None], splits: int = -1, dtype: int = INT64) -> Rows:
    rows = Rows()
    for name, of, shape in (("values", FLOAT, (-1, 8)), ("splits", dtype, (splits,)), ("labels", INT64, (-1,))):
        rows.add(name, "Placeholder", dtype=type_attr(of), shape=shape_attr(*shape))
    reading(rows, "splits")
    return rows


@pytest.mark.parametrize(
    ("reading", "dtype", "found"),
    [
        *((reading, INT64, {"splits"}) for reading in (lengths, handed_on, dense, gathered)),
        (lengths, INT32, {"splits"}),
        (lengths, FLOAT, set()),
        *((reading, INT64, set()) for reading in (by_rows, targets, turned)),
    ],
)
def test_row_splits_are_known_by_what_reads_them(
    reading: Callable[[Rows, str], None], dtype: int, found: set[str]
) -> None:
    graph = ragged(reading, dtype=dtype).built()
    assert {graph.tensor_name(row).removesuffix(":0") for row in row_splits(graph, graph.tensor_shape)} == found


@pytest.mark.parametrize(
    ("splits", "batch", "shapes"),
    [
        (-1, None, ((1, 8), (2,), (1,))),
        (-1, 64, ((64, 8), (65,), (64,))),
        (65, None, ((64, 8), (65,), (64,))),
        (65, 64, ((64, 8), (65,), (64,))),
    ],
)
def test_row_splits_are_one_more_than_the_batch(
    splits: int, batch: int | None, shapes: tuple[tuple[int, ...], ...]
) -> None:
    """Where a file says them, it says the batch."""
    graph = with_shapes(ragged(lengths, splits).built(), batch=batch)
    assert (
        tuple(graph.tensor_shape[graph.tensor_ptr[graph.row(name)]] for name in ("values", "splits", "labels"))
        == shapes
    )


@pytest.mark.parametrize(
    ("shapes", "made"),
    [
        ({"values": (6,), "splits": (4,)}, {"splits": [0, 2, 4, 6]}),
        ({"values": (7, 3), "splits": (3,)}, {"splits": [0, 3, 7]}),
        ({"values": (0,), "splits": (3,)}, {"splits": [0, 0, 0]}),
        ({"values": (6,), "splits": (1,)}, {"splits": [0]}),
        ({"values": (8,), "inner": (5,), "splits": (3,)}, {"inner": [0, 2, 4, 6, 8], "splits": [0, 2, 4]}),
        ({"splits": (4,), "values": (6,)}, {"splits": [0, 1, 2, 3]}),
    ],
)
def test_made_up_row_splits_part_all_values(shapes: dict[str, tuple[int, ...]], made: dict[str, list[int]]) -> None:
    rows = Rows()
    for name, shape in shapes.items():
        dtype = FLOAT if name == "values" else INT64
        rows.add(name, "Placeholder", dtype=type_attr(dtype), shape=shape_attr(*shape))
    splits = [name for name in shapes if name != "values"]
    attrs = {"RAGGED_RANK": AttrValue(i=len(splits)), "T": type_attr()}
    rows.add("sparse", "RaggedTensorToSparse", [*splits, "values"], **attrs)
    graph = with_shapes(rows.built())
    found = row_splits(graph, graph.tensor_shape)
    assert {graph.tensor_name(row)[:-2]: made_up_splits(graph, row, found) for row in found} == made
