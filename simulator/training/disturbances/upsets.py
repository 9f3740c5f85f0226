"""Facts about a run's disturbances that statistics of it need."""

from __future__ import annotations

from typing import NamedTuple

from simulator.units import Nanos


class Upsets(NamedTuple):
    """What makes one time of a run unlike another."""

    chance: bool = False  # some task's work is longer or shorter by chance
    once_ns: tuple[tuple[Nanos, Nanos], ...] = ()  # begin and end of crashes and of pauses that come once, ascending
    periods_ns: tuple[Nanos, ...] = ()  # of pauses that come again and again, ascending
