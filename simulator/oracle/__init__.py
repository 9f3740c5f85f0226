"""The only door to TensorFlow: ask the real one in a child process, and compare.

The functions are loaded when first used, so that the child processes, which need none of them, start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.lazy import exported

if TYPE_CHECKING:
    from simulator.oracle.dry_runs import DryRun as DryRun
    from simulator.oracle.dry_runs import conversation as conversation
    from simulator.oracle.dry_runs import dry_run as dry_run
    from simulator.oracle.dry_runs import extended as extended
    from simulator.oracle.inference import compare_shapes as compare_shapes
    from simulator.oracle.optimizing import optimized as optimized
    from simulator.oracle.verification import check as check
    from simulator.oracle.verification import check_refusal as check_refusal

_EXPORTS = {
    "DryRun": "simulator.oracle.dry_runs",
    "check": "simulator.oracle.verification",
    "check_refusal": "simulator.oracle.verification",
    "compare_shapes": "simulator.oracle.inference",
    "conversation": "simulator.oracle.dry_runs",
    "extended": "simulator.oracle.dry_runs",
    "dry_run": "simulator.oracle.dry_runs",
    "optimized": "simulator.oracle.optimizing",
}
__all__ = sorted(_EXPORTS)

__getattr__, __dir__ = exported(__name__, _EXPORTS)
