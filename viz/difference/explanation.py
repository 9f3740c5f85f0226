"""The explanation of a difference in makespan: both critical paths, subject by subject, in groups with a sentence each.

A row is a subject of either path with its time on both. Rows that belong together make a part. All rows, and all
parts, add up to the difference of the makespans, because the subjects of each path add up to its makespan.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.units import Nanos, show_apart, show_nanos
from simulator.wording import counted, ending, repr_of
from viz.difference.outline import CROSSING, MESSAGE, OP

MOST_NAME = 36  # characters of a name in a sentence; of a longer one the end, where the op is


@dataclass(frozen=True, slots=True)
class PathRow:
    """A subject on the critical paths of two runs; each pair is of the first run, then of the second."""

    kind: str  # as in `PathPart`
    subject: str  # a node; else a tensor
    places: tuple[str, str]  # the device or link; "" where it is not on the path
    times: tuple[int, int]  # ops or transfers on the path
    ns: tuple[Nanos, Nanos]  # on the path
    crosses: tuple[bool, bool]  # a tensor: whether it moves between devices in that run, on the path or not

    @property
    def difference_ns(self) -> int:
        """By how much longer it is on the second path."""
        return self.ns[1] - self.ns[0]

    @property
    def on_both(self) -> bool:
        """Tell whether both paths lead over it."""
        return all(self.places)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the difference in makespan."""

    sentence: str  # without its time and full stop
    ns: tuple[Nanos, Nanos]  # of its rows on both paths
    rows: tuple[PathRow, ...]  # the largest change first

    def __repr__(self) -> str:
        return repr_of(self, str(self), counted(len(self.rows), "row"))

    @property
    def difference_ns(self) -> int:
        """Its share in the difference of the makespans."""
        return self.ns[1] - self.ns[0]

    def __str__(self) -> str:
        return f"{signed_nanos(self.difference_ns)}: {self.sentence}"


def signed_nanos(nanos: int) -> str:
    """ "+3.1 ms", "-120 us"."""
    return f"{'-' if nanos < 0 else '+'}{show_nanos(abs(nanos))}"


def parts_of(rows: Sequence[PathRow]) -> tuple[Part, ...]:
    """The rows in groups, the largest change first, ties by sentence; groups that change nothing are left out.

    Ops and tensors on both paths are grouped by where they are in either run. Of those on one path alone, ops are
    grouped by the type of their device, tensors by the name of their link without its numbers. So a path through one
    GPU instead of another of the same kind is one part.
    """
    groups: dict[Hashable, list[PathRow]] = {}
    for row in rows:
        groups.setdefault(_group(row), []).append(row)
    parts = [_part(_sentence(group), group) for group in groups.values()]
    changing = [part for part in parts if part.difference_ns]
    return tuple(sorted(changing, key=lambda part: (-abs(part.difference_ns), part.sentence)))


def shortest(parts: Sequence[Part], most: int) -> tuple[Part, ...]:
    """The first parts, with all others as the last one if there are more than `most`."""
    if len(parts) <= most:
        return tuple(parts)
    kept, others = parts[: most - 1], parts[most - 1 :]
    more, less = (sum(abs(part.difference_ns) for part in others if part.difference_ns * sign > 0) for sign in (1, -1))
    said = f"all else, {signed_nanos(more)} and {signed_nanos(-less)}" if more and less else "all else"
    rows = sorted((row for part in others for row in part.rows), key=lambda row: -abs(row.difference_ns))
    return (*kept, _part(f"{said} in {counted(len(others), 'part')}", rows))


def _group(row: PathRow) -> Hashable:
    if row.kind not in (OP, CROSSING):
        return row.kind
    if row.on_both:
        return row.kind, row.places
    place = row.places[0] or row.places[1]
    alike = place.rpartition("/")[2].partition(":")[0] if row.kind == OP else re.sub(r"\d+", "", place)
    return row.kind, alike


def _part(sentence: str, rows: Sequence[PathRow]) -> Part:
    return Part(sentence, (_total(rows, 0), _total(rows, 1)), tuple(rows))


def _total(rows: Sequence[PathRow], side: int) -> Nanos:
    return sum(row.ns[side] for row in rows)


# ---- sentences


def _sentence(rows: Sequence[PathRow]) -> str:
    kind, (before, after) = rows[0].kind, show_apart(_total(rows, 0), _total(rows, 1))
    if kind == OP:
        return _of_ops(rows, before, after)
    if kind == CROSSING:
        return _of_crossings(rows, before, after)
    if kind == MESSAGE:
        where = max(rows, key=lambda row: abs(row.difference_ns))
        place = where.places[1] or where.places[0]
        return f"packing and unpacking take {after} instead of {before}, mostly on {place}"
    return f"requests for tensors take {after} instead of {before}"


def _of_ops(rows: Sequence[PathRow], before: str, after: str) -> str:
    if rows[0].on_both:
        (first, second), (named, many) = rows[0].places, _named(rows, "op", 1)
        takes = f"{named} {'take' if many else 'takes'} {after}"
        return (
            f"{takes} instead of {before} on {first}"
            if first == second
            else (f"{takes} on {second} instead of {before} on {first}")
        )
    left, come = _on(rows, 0), _on(rows, 1)
    if left and come:
        (new, _), (old, _) = _named(come, "op", 1), _named(left, "op", 0)
        with_new, with_old = f"{new} on {_place(come, 1)}", f"{old} on {_place(left, 0)}"
        return f"the critical path has {with_new} ({after}) in place of {with_old} ({before})"
    side = int(bool(come))
    named, many = _named(rows, "op", side)
    be = "are" if many else "is"
    return f"{named} on {_place(rows, side)} {be} {'now' if side else 'no longer'} on the critical path"


def _of_crossings(rows: Sequence[PathRow], before: str, after: str) -> str:
    left, come = _on(rows, 0), _on(rows, 1)
    if rows[0].on_both:
        (first, second), (named, many) = rows[0].places, _named(rows, "tensor", 1)
        old, new = (sum(row.times[side] for row in rows) for side in (0, 1))
        takes = f"{named} {'take' if many else 'takes'} {after}"
        if first != second:
            return f"{takes} over {second} instead of {before} over {first}"
        if old != new:
            return f"{takes} for crossing {second} {_times(new)} instead of {before} for {_times(old)}"
        return f"{takes} instead of {before} to cross {second}"
    if left and come:
        (new_named, many), (old_named, _) = _named(come, "tensor", 1), _named(left, "tensor", 0)
        with_new = f"{new_named} {'take' if many else 'takes'} {after} over {_place(come, 1)}"
        return f"{with_new} in place of {old_named} with {before} over {_place(left, 0)}"
    side = int(bool(come))
    named, many = _named(rows, "tensor", side)
    count = sum(row.times[side] for row in rows)
    place = _place(rows, side)
    apart = "," if len({row.places[side] for row in rows}) > 1 else ""  # else two numbers would stand side by side
    often = f"{apart} {_times(count)}" if count > len(rows) else ""
    other = any(row.crosses[1 - side] for row in rows)
    if side:
        return f"{named} {_cross(many)} {place}{often}{', now on the critical path' if other else ''}"
    if other:
        return f"{named}, over {place}{often}, {'are' if many else 'is'} no longer on the critical path"
    return f"{named} no longer {_cross(many)} {place}{often}"


def _on(rows: Sequence[PathRow], side: int) -> list[PathRow]:
    return [row for row in rows if row.places[side]]


def _named(rows: Sequence[PathRow], noun: str, side: int) -> tuple[str, bool]:
    """The name of the row that takes longest on that path, with the number of others, and whether there are others."""
    lead = max(rows, key=lambda row: (abs(row.difference_ns), row.ns[side]))
    name = ending(lead.subject, MOST_NAME)
    others = len(rows) - 1
    return (f"{name} and {counted(others, f'other {noun}')}" if others else name), bool(others)


def _place(rows: Sequence[PathRow], side: int) -> str:
    """The place of most of the time, and how many others there are."""
    total: dict[str, int] = {}
    for row in rows:
        total[row.places[side]] = total.get(row.places[side], 0) + row.ns[side]
    first = max(total, key=lambda place: total[place])
    other = "other device" if rows[0].kind == OP else "other link"
    return f"{first} and {counted(len(total) - 1, other)}" if len(total) > 1 else first


def _cross(many: bool) -> str:
    return "cross" if many else "crosses"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def by_run(values: Sequence[object]) -> Mapping[str, Any]:
    """The values of both runs by their names in the JSON. Any: JSON."""
    return dict(zip(("other", "this"), values, strict=True))
