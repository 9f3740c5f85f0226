"""The window: pictures of a placed graph and of its step."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# name -> module that holds it
_EXPORTS = {"draw_graph": "viz.dot", "draw_report": "viz.report", "draw_timeline": "viz.timeline"}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:  # Any: the type of a lazily loaded export is that of the export
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
