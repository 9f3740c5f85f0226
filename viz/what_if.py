"""Changes of one figure of graph, cluster or simulation: the time that a step then takes, as values and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simulator.shapes.unknown import SIZED, Unsized
from simulator.units import Nanos, show_nanos
from simulator.wording import aligned, counted, repr_of, some

KEPT, AGAIN = "kept", "again"  # the placement of the run, or a new one by the same algorithm
LEAST_SHARE = 0.0005  # of the makespan: a row that changes less has no line of its own
HOW = {  # by the placement asked for, and whether a row keeps that of the run
    (KEPT, True): "the same placement",
    (KEPT, False): "the same placement",
    (AGAIN, True): "placed again, or kept where that is no slower",
    (AGAIN, False): "placed again each time",
}
HEAD = ("what", "from", "to", "step", "change", "")


@dataclass(frozen=True, slots=True)
class WhatIfRow:
    """One change and the step with it."""

    what: str  # "nic bandwidth", "batch", "protocol"
    before: str  # "3.12 GB/s"
    after: str  # "6.25 GB/s"
    placement: str  # KEPT or AGAIN
    other_devices: bool  # devices or nodes are added or gone: placed again, and kept only where that is no worse
    makespan_ns: Nanos | None  # None: the graph can't be run so
    change: float | None  # of the makespan, as a share: -0.25 is a quarter less
    change_per_example: float | None  # the same of the time per example; another number for a batch alone
    refused: str = ""  # why it can't be run
    out_of_memory: str = ""  # the device that holds more than it has, as a sentence; "": all fits

    @property
    def figure(self) -> tuple[str, str]:
        """The figure that is changed, by name and value: rows of one figure belong together."""
        return self.what, self.before

    @property
    def remark(self) -> str:
        """All that is to be known besides the time, as a phrase; a placement that could have been kept is not said."""
        per_example = self.change_per_example
        said = [
            "" if per_example is None or per_example == self.change else f"{per_example:+.1%} per example",
            "placed again" if self.other_devices and self.placement == AGAIN else "",
            "out of memory" if self.out_of_memory else "",
        ]
        return ", ".join(filter(None, said))


@dataclass(frozen=True, eq=False)
class WhatIf:
    """A step's sensitivity: its makespan with one change at a time.

    Rows of one figure stand together. The figure that changes the makespan most comes first, rows without a time last.
    """

    makespan_ns: Nanos  # without any change
    placement: str  # KEPT or AGAIN, where the devices stay the same
    rows: tuple[WhatIfRow, ...]
    notes: tuple[str, ...] = ()
    unsized: Unsized = SIZED  # of the step; all times are lower bounds where there are some

    def __repr__(self) -> str:
        took = f"{self.unsized.least}{show_nanos(self.makespan_ns)}"
        return repr_of(self, took, counted(len(self.rows), "change"), *self.lines()[2:3])

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, *, verbose: bool = False) -> list[str]:
        """A headline, the table, and a line on all that changes next to nothing, which `verbose` has in the table."""
        how = HOW[self.placement, any(row.placement == KEPT for row in self.rows)]
        much = {row.figure for row in self.rows if row.change is None or abs(row.change) >= LEAST_SHARE}
        shown = [row for row in self.rows if verbose or row.figure in much]
        cells = [_cells(row, self.unsized) for row in shown if row.makespan_ns is not None]
        table = aligned([HEAD, *cells]) if cells else []
        refused = [f"{row.what} {row.after}: {row.refused.partition('. ')[0]}" for row in shown if row.refused]
        told = {row.what for row in shown}
        left = [row for row in self.rows if row not in shown]
        rest = list(dict.fromkeys(f"{row.what} ({row.before})" if row.what in told else row.what for row in left))
        known = ", as far as sizes are known" if self.unsized.tensors else ""
        little = [f"Less than {LEAST_SHARE:.2%} changes with {some(rest)}{known}."] if rest else []
        sizes = [f"{self.unsized.sentences}."] if self.unsized.tensors else []
        return [f"What if? One change at a time, {how}:", *table, *refused, *little, *sizes, *self.notes]


def ranked(
    makespan_ns: Nanos,
    placement: str,
    rows: Sequence[WhatIfRow],
    notes: Sequence[str] = (),
    unsized: Unsized = SIZED,
) -> WhatIf:
    """The value of these rows: figures by the largest change of any of their rows, ties in the order given."""
    swing: dict[tuple[str, str], float] = {}
    for row in rows:
        swing[row.figure] = max(swing.get(row.figure, -1.0), -1.0 if row.change is None else abs(row.change))
    first = {figure: place for place, figure in enumerate(swing)}
    order = sorted(rows, key=lambda row: (-swing[row.figure], first[row.figure]))
    return WhatIf(makespan_ns, placement, tuple(order), tuple(notes), unsized)


def as_json(found: WhatIf) -> Mapping[str, Any]:
    """The value as docs/json.md describes it. Any: JSON."""
    return {
        "makespan_ns": found.makespan_ns,
        "makespan_is_lower_bound": found.unsized.tensors > 0,
        **found.unsized.facts(),
        "placement": found.placement,
        "rows": [asdict(row) for row in found.rows],
        "notes": list(found.notes),
    }


def _cells(row: WhatIfRow, unsized: Unsized) -> tuple[str, ...]:
    assert row.makespan_ns is not None
    assert row.change is not None
    took = f"{unsized.least}{show_nanos(row.makespan_ns)}"
    return (row.what, row.before, row.after, took, f"{row.change:+.1%}", row.remark)
