"""Values in a notebook: a part of a run is shown by what draws runs, and else a value says itself in a line.

What draws lies on a floor above, so it registers itself here when it is imported (`import viz`). A part remembers its
run only as long as somebody keeps the run: the memory is by weak references.
"""

from __future__ import annotations

import weakref

from simulator.lazy import drawers

_runs: weakref.WeakKeyDictionary[object, weakref.ref[object]] = weakref.WeakKeyDictionary()


class Drawn:
    """A value that a notebook may show drawn."""

    def _repr_html_(self) -> str | None:
        """HTML for a notebook; None where nothing is there that draws, so that the notebook shows `repr`."""
        return drawers[-1](self, run_of(self)) if drawers else None


def remember(run: object, *parts: object) -> None:
    """Remember that the parts belong to this run; of several runs that share a part it is the last one."""
    for part in parts:
        if isinstance(part, Drawn):
            _runs[part] = weakref.ref(run)


def run_of(value: object) -> object | None:
    """The run that a value is a part of, while somebody keeps it; None if there is none."""
    known = _runs.get(value)
    return None if known is None else known()
