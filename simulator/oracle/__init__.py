"""The only door to TensorFlow: ask the real one in a child process, and compare.

The functions are loaded when first used, so that the child processes, which need none of them, start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.oracle.checking import check as check
    from simulator.oracle.measurement import Measurement as Measurement
    from simulator.oracle.observing import conversation as conversation
    from simulator.oracle.observing import extended as extended
    from simulator.oracle.observing import observe as observe
    from simulator.oracle.refusing import check_refusal as check_refusal

_EXPORTS = {
    "Measurement": "measurement",
    "check": "checking",
    "check_refusal": "refusing",
    "conversation": "observing",
    "extended": "observing",
    "observe": "observing",
}
__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:  # Any: the type of a lazily loaded export is that of the export
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
