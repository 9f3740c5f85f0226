"""The only door to TensorFlow: ask the real one in a child process, and compare.

The functions are loaded when first used, so that the child processes, which need none of them, start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.lazy import exported

if TYPE_CHECKING:
    from simulator.oracle.checking import check as check
    from simulator.oracle.measurement import Measurement as Measurement
    from simulator.oracle.observing import conversation as conversation
    from simulator.oracle.observing import extended as extended
    from simulator.oracle.observing import observe as observe
    from simulator.oracle.refusing import check_refusal as check_refusal

_EXPORTS = {
    "Measurement": "simulator.oracle.measurement",
    "check": "simulator.oracle.checking",
    "check_refusal": "simulator.oracle.refusing",
    "conversation": "simulator.oracle.observing",
    "extended": "simulator.oracle.observing",
    "observe": "simulator.oracle.observing",
}
__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
