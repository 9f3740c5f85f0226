"""A result that `--json` wrote before, read as the outline of a run. What a file says is checked, never trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.errors import SimvizError
from viz.difference.outline import SUBJECTS, Crossing, DeviceUse, Outline, PathPart

_MARK = b'"simviz"'  # near the beginning of each result
MOST = 2**63  # of a figure


def is_result(path: str) -> bool:
    """Whether a file is the JSON of a result, by its first characters."""
    try:
        with Path(path).open("rb") as file:
            begin = file.read(200).lstrip()
    except OSError:  # whoever reads it for another purpose says why it can't be read
        return False
    return begin.startswith(b"{") and _MARK in begin


def read_result(path: str) -> Outline:
    """The outline of the run. Raise SimvizError for a file that is damaged, or that holds no critical path.

    Results of versions before the critical path was written have none.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        json.dumps(found, ensure_ascii=False).encode("utf-8")  # half a character, written as an escape, has no UTF-8
    except (OSError, ValueError, RecursionError) as error:
        raise SimvizError(f"{path}: the result cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _Reader(path).outline(found)


class _Reader:
    """Values of a JSON document, each checked as it is taken. Any: JSON."""

    def __init__(self, path: str) -> None:
        self._path = path

    def outline(self, found: Any) -> Outline:
        """The outline of a whole result."""
        top = self._table(found, "the result")
        if top.get("format") != 1:
            raise SimvizError(f"{self._path}: a result of format {top.get('format')!r}; this version reads format 1")
        if "critical" not in top or "links" not in top:
            raise SimvizError(
                f"{self._path}: an older version wrote this result, without a critical path; write it again with --json"
            )
        path = tuple(self._part(one) for one in self._list(top, "critical"))
        placed, links = self._table(top.get("placement"), "placement"), self._table(top["links"], "links")
        makespan = self._number(top, "makespan_ns")
        if sum(part.ns for part in path) != makespan:
            raise SimvizError(f"{self._path}: the times of 'critical' do not add up to 'makespan_ns'; it was changed")
        return Outline(
            title=self._text(self._table(top.get("graph"), "graph"), "name"),
            algorithm=self._text(self._table(top.get("algorithm"), "algorithm"), "used"),
            cluster=self._text(self._table(top.get("cluster"), "cluster"), "name"),
            makespan_ns=makespan,
            placement={name: self._text(placed, name) for name in placed},
            crossings=self._crossings(top),
            link_bytes={name: self._number(links, name) for name in links},
            devices=self._devices(top),
            path=path,
        )

    def _part(self, found: Any) -> PathPart:
        row = self._table(found, "critical")
        kind = self._text(row, "kind")
        if kind not in SUBJECTS:
            raise SimvizError(f"{self._path}: 'critical' has the kind {kind!r}; there are {', '.join(SUBJECTS)}")
        times, ns = self._number(row, "times"), self._number(row, "ns")
        return PathPart(kind, self._text(row, "subject"), self._text(row, "place"), times, ns)

    def _crossings(self, top: Mapping[str, Any]) -> Mapping[str, Crossing]:
        total: dict[str, Crossing] = {}
        for one in self._list(top, "transfers"):
            row = self._table(one, "transfers")
            name = self._text(row, "tensor")
            before = total.get(name, Crossing(0, 0))
            total[name] = Crossing(before.times + 1, before.nbytes + self._number(row, "bytes"))
        return total

    def _devices(self, top: Mapping[str, Any]) -> Mapping[str, DeviceUse]:
        rows = self._table(top.get("devices"), "devices")
        used = {name: self._table(row, "devices") for name, row in rows.items()}
        return {
            name: DeviceUse(self._number(row, "peak_bytes"), self._number(row, "busy_ns")) for name, row in used.items()
        }

    def _table(self, found: Any, what: str) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise self._wrong(what, "an object")
        return found

    def _list(self, table: Mapping[str, Any], key: str) -> list[Any]:
        if not isinstance(table.get(key), list):
            raise self._wrong(key, "a list")
        found: list[Any] = table[key]
        return found

    def _text(self, table: Mapping[str, Any], key: str) -> str:
        found = table.get(key)
        if not isinstance(found, str):
            raise self._wrong(key, "a text")
        return found

    def _number(self, table: Mapping[str, Any], key: str) -> int:
        found = table.get(key)
        if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < MOST:
            raise self._wrong(key, "a whole number, not negative")
        return found

    def _wrong(self, what: str, wanted: str) -> SimvizError:
        return SimvizError(f"{self._path}: {what[:80]!r} is not {wanted}; write the result again with --json")
