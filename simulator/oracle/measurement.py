"""What TensorFlow did with a graph on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LOCAL = "local session"
STAND_INS = "stand-in workers"
GPUS = "real GPUs"


@dataclass(frozen=True, eq=False)
class Measurement:
    """Placement and partition as TensorFlow made them; nothing was run."""

    oracle: str  # LOCAL, STAND_INS or GPUS
    tensorflow: str  # its version
    placement: Mapping[str, str]  # node name -> full device name, in the order of TensorFlow's placement log
    # GraphDef messages: one per device, but STAND_INS one per task (a master cuts by task, the workers cut further), of
    # the master's own task one per device
    partitions: tuple[Any, ...] = ()
    # STAND_INS: one per device, as TensorFlow's own workers cut what they were sent: those of the master's task, and of
    # all tasks that `observe` was told to give a real worker
    worker_partitions: tuple[Any, ...] = ()
    refusal: str | None = None  # TensorFlow's own sentence; placement and partitions are then empty or partial
    added_task: str | None = None  # the task that was added to the cluster, to hold the master
    bodies: int = 0  # lines of the log about bodies of calls, which TensorFlow's runtime places by itself
