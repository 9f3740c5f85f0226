"""The command `simviz bench`: from arguments to rows, a picture, a table and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulator.execution.choosing import telling
from viz.bench.bench import run_bench
from viz.bench.options import read_bench
from viz.bench.rows import as_cells
from viz.bench.table import as_svg, as_text
from viz.command.ending import ended
from viz.command.terminal import progress, tell
from viz.formats.output import write
from viz.formats.parquet import parquet_of


def run_command(arguments: Sequence[str], begin: Callable[[], None], interrupted: Callable[[], bool]) -> int:
    """Run a bench, write its rows and picture, and print its table; return the exit code.

    `begin` and `interrupted` are as in `viz.command.cli.main`.
    """
    written: list[str] = []  # the path of each file that is there
    return ended(lambda: _run(arguments, written, begin), None, written, interrupted)


def _run(arguments: Sequence[str], written: list[str], begin: Callable[[], None]) -> int:
    request = read_bench(arguments)
    begin()
    with progress(request.quiet) as say, telling(say):
        rows = run_bench(request, say, began=lambda: written.append(request.rows))
    if request.picture is not None:
        write(request.picture, as_svg(rows).encode("utf-8"))
        written.append(request.picture)
    if request.table is not None:
        write(request.table, parquet_of([as_cells(row) for row in rows]))
        written.append(request.table)
    if not request.quiet:
        files = " and ".join(filter(None, (", ".join(written[:-1]), written[-1])))
        tell(f"{as_text(rows)}\nWrote {files}.")
    return 0 if any(row.fits for row in rows) else 1
