"""The table of `--compare`: a row for each algorithm, as values, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from simulator import __version__
from simulator.shapes.unknown import Unsized
from simulator.units import Bytes, Nanos, show_bytes, show_nanos, show_share
from simulator.wording import aligned, counted, printable
from viz import agreement, figures
from viz.scene import Scene

FORMAT = 1
HEAD = ("algorithm", "step", "x bound", "moved", "fullest memory", "busiest device", "check")


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of one algorithm's step."""

    used: str  # another algorithm where its result was better
    makespan_ns: Nanos
    lower_bound_ns: Nanos
    moved_bytes: Bytes
    transfers: int
    fullest: figures.DeviceRow  # by the share of its memory at the peak, ties to the lower row
    busiest: figures.DeviceRow
    devices: tuple[str, str]  # full names of both
    shown: tuple[str, str]  # their short names
    full: str  # the first moment at which a device holds more than it has, as a sentence; "": none
    check: Mapping[str, Any] | None  # as in Scene; Any: the JSON object of --check
    unsized: Unsized  # of the step; its times and sizes are lower bounds where there are some


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A row: an algorithm with its score, or why it can't place the graph."""

    algorithm: str
    score: Score | None
    refused: str = ""
    explained: tuple[str, ...] = ()  # how it differs from the first one that could place the graph, line by line

    @property
    def good(self) -> bool:
        """Tell whether the graph is placed, fits, and passes the check if there is one."""
        score = self.score
        return score is not None and not score.full and not self.failed

    @property
    def failed(self) -> bool:
        """Tell whether a check was made that fails."""
        score = self.score
        return score is not None and score.check is not None and bool(agreement.failures(score.check))


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Several algorithms on one graph and cluster."""

    title: str  # of the graph
    cluster: str
    entries: tuple[ScoreRow, ...]


def score(scene: Scene) -> Score:
    """The figures of a scene."""
    rows = figures.devices(scene)
    fullest = max(rows, key=lambda row: row.fullness)  # the first of equals
    busiest = max(rows, key=lambda row: row.busy_share)
    both = [scene.cluster.devices[row.device] for row in (fullest, busiest)]
    full = scene.out_of_memory
    return Score(
        used=scene.assignment.used,
        makespan_ns=int(scene.trace.makespan),
        lower_bound_ns=scene.bound.ns,
        moved_bytes=figures.moved_bytes(scene),
        transfers=len(scene.trace.transfers),
        fullest=fullest,
        busiest=busiest,
        devices=(both[0].name, both[1].name),
        shown=(both[0].short, both[1].short),
        full="" if full is None else str(full),
        check=scene.check,
        unsized=scene.unsized,
    )


def as_text(table: ScoreTable, *, verbose: bool = False) -> str:
    """A line about the graph, then the table; "*" marks the fastest step that fits.

    With `verbose` the differences from the first algorithm follow, as far as the graph could be placed.
    """
    entries = table.entries
    fits = [entry.score.makespan_ns for entry in entries if entry.score is not None and not entry.score.full]
    checked = any(entry.score is not None and entry.score.check is not None for entry in entries)
    said = [
        f"{table.title} on {table.cluster}: one step by {counted(len(entries), 'algorithm')}; * is the fastest.",
        *aligned([HEAD if checked else HEAD[:-1], *(_cells(entry, min(fits, default=None)) for entry in entries)]),
    ]
    sizes = dict.fromkeys(entry.score.unsized.sentences for entry in entries if entry.score is not None)
    said += [f"{one}." for one in sizes if one]
    if verbose:
        said += [line for entry in entries for line in entry.explained]
    return "\n".join(map(printable, said))


def as_json(table: ScoreTable) -> str:
    """The table as one JSON object with a final newline; figures are integers in the unit of their names."""
    found = {
        "format": FORMAT,
        "simviz": __version__,
        "graph": {"name": table.title},
        "cluster": {"name": table.cluster},
        "compared": [_record(entry) for entry in table.entries],
    }
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _cells(entry: ScoreRow, best: Nanos | None) -> tuple[str, ...]:
    found = entry.score
    if found is None:
        return entry.algorithm, f"refused: {entry.refused}"
    name = entry.algorithm if found.used == entry.algorithm else f"{entry.algorithm} ({found.used})"
    over, least = "OUT OF MEMORY " if found.full else "", found.unsized.least
    most, capacity = show_bytes(found.fullest.peak_bytes), show_bytes(found.fullest.capacity_bytes)
    held = f"{found.unsized.least_held}{most} of {capacity}"
    return (
        name,
        f"{least}{show_nanos(found.makespan_ns)}{' *' if found.makespan_ns == best and not found.full else ''}",
        _over_bound(found),
        f"{least}{show_bytes(found.moved_bytes)}",
        f"{over}{found.shown[0]} {held}",
        f"{found.shown[1]} {show_share(found.busiest.busy_share, 1)}",
        _checked(entry),
    )


def _over_bound(found: Score) -> str:
    """The makespan as a multiple of the lower bound, rounded up, so that it stays true.

    Sizes that become known make both longer, so nothing is known of the multiple before.
    """
    if found.unsized.tensors:
        return "?"
    return f"{ceil(found.makespan_ns / found.lower_bound_ns * 1000) / 1000:.3f}" if found.lower_bound_ns else "-"


def _checked(entry: ScoreRow) -> str:
    found = entry.score
    if found is None or found.check is None:
        return ""
    if laws := found.check["laws"]:
        return f"{counted(len(laws), 'law')} broken"
    if found.check.get("refused"):
        return "TensorFlow refuses" + (", as predicted" if found.check.get("foreseen") else "")
    rows = agreement.agreements(found.check)
    counts = ", ".join(f"{one.agree} of {one.of}" for one in rows if one.agree != one.of)
    verb = "agrees" if not counts else "differs" if entry.failed else "is elsewhere"
    return f"TensorFlow {verb}{f': {counts} nodes' if counts else ''}"


def _record(entry: ScoreRow) -> Mapping[str, Any]:
    found = entry.score
    if found is None:
        return {"algorithm": entry.algorithm, "used": None, "refused": entry.refused}
    return {
        "algorithm": entry.algorithm,
        "used": found.used,
        "refused": None,
        "makespan_ns": found.makespan_ns,
        "makespan_is_lower_bound": found.unsized.tensors > 0,
        **found.unsized.facts(),
        "lower_bound_ns": found.lower_bound_ns,
        "moved_bytes": found.moved_bytes,
        "transfers": found.transfers,
        "fullest": {
            "device": found.devices[0],
            "peak_bytes": found.fullest.peak_bytes,
            "capacity_bytes": found.fullest.capacity_bytes,
        },
        "busiest": {
            "device": found.devices[1],
            "busy_ns": found.busiest.busy_ns,
            "busy_share": found.busiest.busy_share,
        },
        "out_of_memory": found.full or None,
        "check": found.check,
    }
