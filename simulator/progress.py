"""Progress of what takes long: a function gets a sentence or a phrase now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]


def silent(said: str) -> None:
    """Report to nobody."""
