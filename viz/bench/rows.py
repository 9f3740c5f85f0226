"""Rows of a bench and the file that keeps them: CSV, a row as soon as it is known. So a bench can be continued."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import BinaryIO, NamedTuple

from simulator.errors import SimvizError
from simulator.files import is_stream, replace_file
from simulator.units import Bytes, Nanos

_MARK = "#"  # before the beginning of a SHA-256


class RowKey(NamedTuple):
    """The question that a row answers."""

    graph: str  # its path in the bench's folder
    content: str  # the beginning of its SHA-256
    cluster: str
    options: str  # of the step, as on the command line
    algorithm: str  # one of a package is marked by its code
    budget: str  # "": about a second
    simviz: str  # version

    @property
    def asked(self) -> str:
        """The name of the algorithm, without the mark of its package's code."""
        return self.algorithm.rpartition(_MARK)[0] or self.algorithm

    @property
    def problem(self) -> tuple[str, ...]:
        """The same for all algorithms and budgets."""
        return (self.graph, self.content, self.cluster, self.options)


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One plan. Where there is none, `refused` says why, and the figures are 0."""

    key: RowKey
    refused: str
    used: str = ""  # another algorithm where its plan was better
    nodes: int = 0
    ops: int = 0  # that run
    devices: int = 0
    makespan_ns: Nanos = 0
    lower_bound_ns: Nanos = 0
    fits: bool = False
    moved_bytes: Bytes = 0
    transfers: int = 0
    fullest: str = ""  # the device that is fullest at its peak
    peak_bytes: Bytes = 0  # there
    unsized_tensors: int = 0  # where there are some, makespan, peak and bytes are lower bounds
    placing_s: float = 0.0  # by the clock, so it is never twice the same


DIGITS = 12  # of a SHA-256: enough that no two of some millions of files agree
_FIGURES = tuple(field.name for field in fields(BenchRow))[1:]
COLUMNS = (*RowKey._fields, *_FIGURES)
_READ: Mapping[str, type] = {
    "nodes": int, "ops": int, "devices": int, "makespan_ns": int, "lower_bound_ns": int, "moved_bytes": int,
    "transfers": int, "peak_bytes": int, "unsized_tensors": int, "placing_s": float,
}  # fmt: skip
_BOOL = {"True": True, "False": False}


def marked(name: str, content: bytes | None) -> str:
    """A name with the beginning of the SHA-256 of what it names, which may change; that of a pipe says nothing."""
    if content is None:
        return name
    return f"{'a pipe' if is_stream(name) else name}{_MARK}{hashlib.sha256(content).hexdigest()[:DIGITS]}"


def as_csv(rows: Iterable[BenchRow], *, head: bool = True) -> bytes:
    """The rows as the file has them."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    if head:
        table.writerow(COLUMNS)
    for row in rows:
        table.writerow(as_cells(row).values())
    return text.getvalue().encode("utf-8", "backslashreplace")


def as_cells(row: BenchRow) -> dict[str, str | int | float | bool]:
    """Column -> cell of a row."""
    return dict(zip(COLUMNS, (*row.key, *astuple(row)[1:]), strict=True))


class Journal:
    """A file of rows that is open for more."""

    def __init__(self, path: str, stream: BinaryIO, rows: list[BenchRow]) -> None:
        self.path, self.rows = path, rows
        self._stream = stream

    def add(self, rows: Sequence[BenchRow]) -> None:
        """Write rows behind the others, for good."""
        try:
            self._stream.write(as_csv(rows, head=False))
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise SimvizError(f"{self.path} cannot be written: {error.strerror}") from None
        self.rows += rows

    def sort(self, order: Mapping[RowKey, int]) -> None:
        """Write the file anew: the rows of these questions in their order, then all others as they came."""
        last = len(order)
        self.rows.sort(key=lambda row: order.get(row.key, last))
        replace_file(Path(self.path), as_csv(self.rows))


@contextmanager
def journal(path: str) -> Iterator[Journal]:
    """Open a file of rows, a new one if there is none. A last row that was cut off is dropped.

    Raise SimvizError for a file of another kind, or where another bench writes to it.
    """
    try:
        stream = open(path, "a+b")  # noqa: SIM115  # it is closed below
    except OSError as error:
        raise SimvizError(f"{path} cannot be written: {error.strerror}") from None
    with stream:
        _lock(path, stream)
        stream.seek(0)
        content = stream.read()
        rows = list(_read(path, content))
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            stream.truncate(len(whole))
        if not whole:
            stream.write(as_csv([]))
            stream.flush()
        yield Journal(path, stream, rows)


def _lock(path: str, stream: BinaryIO) -> None:
    """Let one bench at a time write to a file, where the system knows locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SimvizError(f"{path}: another bench writes to it; wait for it, or choose another file") from None
    except OSError:  # a file system without locks
        return


def _read(path: str, content: bytes) -> Iterator[BenchRow]:
    whole = content[: content.rfind(b"\n") + 1]
    try:
        table = csv.reader(io.StringIO(whole.decode("utf-8-sig"), newline=""), strict=True)
        head = next(table, list(COLUMNS))
        if tuple(head) != COLUMNS:
            raise ValueError("its first line is not the head of a bench")
        for cells in table:
            yield _row(cells)
    except (ValueError, KeyError, csv.Error) as error:
        raise SimvizError(f"{path} is no file of a bench ({error}); choose another file") from None


def _row(cells: Sequence[str]) -> BenchRow:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"a row has {len(cells)} cells, not {len(COLUMNS)}")
    key = RowKey(*cells[: len(RowKey._fields)])
    found = dict(zip(_FIGURES, cells[len(key) :], strict=True))
    figures = {name: kind(found[name]) for name, kind in _READ.items()}
    return BenchRow(
        key, found["refused"], used=found["used"], fullest=found["fullest"], fits=_BOOL[found["fits"]], **figures
    )
