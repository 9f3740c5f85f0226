"""Tables of a run, as rows for pandas and as a folder of CSV files: those of the report, from the same figures.

CSV is that of RFC 4180, but lines end as on Unix. A text that a spreadsheet would take for a formula begins with an
apostrophe there, as names come from a file that somebody else wrote.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, TypeAlias

from viz.formats.graphml import to_networkx
from viz.formats.json_object import record
from viz.scene import Scene

Row: TypeAlias = Mapping[str, Any]  # Any: a cell is a text, an integer, a float, a bool or None
# figures of the JSON: columns of the step
_OF_STEP = (
    *("makespan_ns", "makespan_is_lower_bound", "memory_is_lower_bound"),
    *("unsized_tensors", "unsized_tables", "unsized_remedy", "lower_bound_ns", "lower_bound_by"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_tables(scene: Scene) -> dict[str, list[Row]]:
    """The tables by name, each a list of rows with the same columns, as `pandas.DataFrame` takes it.

    Of the graph there are `nodes` and `edges`. The `step` is a row. It says how long the step takes, whether that is a
    lower bound as sizes are unknown, and how long it takes at least. A step also has `transfers`, `devices`, `links`
    and `critical`, the stretches of the critical path. A run to compare with brings `moved`, `crossings` and
    `explanation`, where `other` is that run. A search brings `search_better`, a what-if `what_if`. Columns are those of
    `to_networkx` and of the JSON, a figure within a figure as "ns.other". Tables without rows are left out.
    """
    graph, found = to_networkx(scene), record(scene)
    names = dict(graph.nodes(data="name"))
    against, asked = found["against"] or {}, found["what_if"] or {}
    tables: dict[str, Sequence[Row]] = {
        "nodes": [columns for _, columns in graph.nodes(data=True)],
        "edges": [{"from": names[one], "to": names[other], **rest} for one, other, rest in graph.edges(data=True)],
        "step": [
            {
                "graph": found["graph"]["name"],
                "cluster": found["cluster"]["name"],
                "algorithm": found["algorithm"]["used"],
                **{key: found[key] for key in _OF_STEP},
            }
        ],
        "transfers": found["transfers"],
        "devices": [
            {"device": name, **{key: value for key, value in figures.items() if key != "at_peak"}}
            for name, figures in found["devices"].items()
        ],
        "links": [{"link": name, "bytes": nbytes} for name, nbytes in found["links"].items()],
        "critical": found["critical"],
        "moved": against.get("moved", ()),
        "crossings": against.get("crossings", ()),
        "explanation": [
            {key: value for key, value in part.items() if key != "rows"} for part in against.get("explanation", ())
        ],
        "search_better": (found["search"] or {}).get("better", ()),
        "what_if": asked.get("rows", ()),
    }
    return {name: [dict(_cells(row)) for row in rows] for name, rows in tables.items() if rows}


def table_files(scene: Scene) -> dict[str, bytes]:
    """The CSV files by their names."""
    return {f"{name}.csv": _csv(rows).encode("utf-8", "backslashreplace") for name, rows in to_tables(scene).items()}


def _cells(row: Row, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The cells of a row, those of an object within it with its name before theirs; a list is one text."""
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from _cells(value, f"{prefix}{key}.")
        else:
            yield prefix + key, " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _csv(rows: Sequence[Row]) -> str:
    text = StringIO()
    columns = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_safe(row.get(column)) for column in columns] for row in rows)
    return text.getvalue()


def _safe(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
