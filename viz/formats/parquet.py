"""Tables as Parquet, a file for each: columns with types, for pandas, DuckDB, Spark and others. pyarrow writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, TypeAlias

from simulator.errors import SimvizError

Rows: TypeAlias = Sequence[Mapping[str, Any]]  # Any: a cell is a text, an integer, a float, a bool or None

_INT64 = range(-(1 << 63), 1 << 63)


def check_pyarrow(what: str) -> None:
    """Raise SimvizError with the way to install pyarrow where it is missing; `what` is to be written by it."""
    if find_spec("pyarrow") is None:
        raise SimvizError(f"{what}: Parquet needs pyarrow: pip install 'simviz[parquet]'")


def parquet_of(rows: Rows) -> bytes:
    """One table as a Parquet file. A column is of bools, of integers, of floats or of texts; None is null.

    Texts stand as they are, but for what UTF-8 can't hold, which is escaped as in the CSV. A column of mixed kinds, or
    of integers over 64 bits, is of texts, and one without any value of nulls.
    """
    import pyarrow as pa  # late: it loads much, and may be missing
    from pyarrow import parquet

    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = {_text(column): _column(pa, [row.get(column) for row in rows]) for column in columns}
    out = pa.BufferOutputStream()
    parquet.write_table(pa.table(table), out)
    return bytes(out.getvalue())


def parquet_files(tables: Mapping[str, Rows]) -> dict[str, bytes]:
    """The Parquet files of tables, by their names."""
    return {f"{name}.parquet": parquet_of(rows) for name, rows in tables.items()}


def _column(pa: Any, cells: Sequence[Any]) -> Any:
    kinds = {type(cell) for cell in cells if cell is not None}
    if not kinds:
        return pa.nulls(len(cells))
    if kinds == {bool}:
        return pa.array(cells, pa.bool_())
    if kinds <= {int, float} and all(cell in _INT64 for cell in cells if type(cell) is int):
        if kinds == {int}:
            return pa.array(cells, pa.int64())
        return pa.array([cell if cell is None else float(cell) for cell in cells], pa.float64())
    return pa.array([cell if cell is None else _text(str(cell)) for cell in cells], pa.string())


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
