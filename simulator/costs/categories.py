"""The kind of work that an op does, by which time is reported."""

from __future__ import annotations

from simulator.costs.flops import rule
from simulator.costs.rule import CATEGORIES, OTHER

__all__ = ["CATEGORIES", "category"]


def category(op: str) -> str:
    """The category of an op; "other" for one that the table does not list."""
    found = rule(op)
    return found.category if found else OTHER
