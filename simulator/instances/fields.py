"""Fields of JSON that somebody else wrote: each is checked where it is read, and refused in one sentence.

Any: a value of JSON, narrowed where it is used.
"""

from __future__ import annotations

import math
from typing import Any

from simulator.errors import GraphError
from simulator.limits import Limit


def mapping(value: Any, what: str, label: str) -> dict[str, Any]:
    """An object. Raises GraphError for anything else."""
    if not isinstance(value, dict):
        raise GraphError(f"{label}: {what} is {_shown(value)} instead of an object.")
    return value


def listed(holder: dict[str, Any], key: str, limit: Limit, label: str) -> list[Any]:
    """The list under that key, empty where there is none. Raises GraphError for no list and for a longer one."""
    found = holder.get(key, [])
    if not isinstance(found, list):
        raise GraphError(f"{label}: {key!r} is {_shown(found)} instead of a list.")
    if len(found) > limit.most:
        said = f"{label}: {key!r} has {len(found):,} entries; at most {limit.most:,} are read; {limit.remedy}."
        raise GraphError(said)
    return found


def number(holder: dict[str, Any], key: str, most: float, what: str, label: str, default: float | None = None) -> float:
    """The number from 0 to `most` under that key. Raises GraphError for another value, or none without a default."""
    found = holder.get(key, default)
    if found is None:
        raise GraphError(f"{label}: {what} has no {key!r}.")
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= most or math.isnan(found):
        raise GraphError(f"{label}: {key!r} of {what} is {_shown(found)}; give a number from 0 to {most:g}.")
    return float(found)


def whole(holder: dict[str, Any], key: str, most: int, what: str, label: str, default: int | None = None) -> int:
    """The whole number from 0 to `most` under that key. Raises GraphError as `number` does."""
    found = number(holder, key, most, what, label, default)
    if found != int(found):
        raise GraphError(f"{label}: {key!r} of {what} is {found:g}, which is no whole number.")
    return int(found)


def text(holder: dict[str, Any], key: str, what: str, label: str) -> str:
    """The text under that key. Raises GraphError for another value or none."""
    found = holder.get(key)
    if not isinstance(found, str) or not found:
        raise GraphError(f"{label}: {what} has no text under {key!r}.")
    return found


def _shown(value: Any) -> str:
    return repr(value)[:40]
