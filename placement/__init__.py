"""The mind: algorithms that decide which device runs each node."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {"ALGORITHMS": "placement.placing", "place": "placement.placing"}  # name -> module that holds it

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:  # Any: the type of a lazily loaded export is that of the export
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
