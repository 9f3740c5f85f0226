"""What was laid out of tables for the compiled loop, kept with them for the next run."""

from __future__ import annotations

from typing import NamedTuple

from simulator.execution.flat import Flat, Work


class Layouts(NamedTuple):
    """Layouts and memory for each way to use links; `flattening` makes and hands out both."""

    flats: dict[str, Flat]
    spare: dict[str, list[Work]]  # of threads that do not run now
