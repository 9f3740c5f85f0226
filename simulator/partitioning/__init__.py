"""Cut a placed graph: a Send and a Recv wherever an edge crosses devices, one pair per rendezvous key."""

from simulator.partitioning.cut import partition, partition_by_task
from simulator.partitioning.levels import FLAVOURS, flavour_of
from simulator.partitioning.partitions import Partitions, partition_files
from simulator.partitioning.passes.control_flow import moves_of_step, settled

__all__ = [
    "FLAVOURS",
    "Partitions",
    "flavour_of",
    "moves_of_step",
    "partition",
    "partition_by_task",
    "partition_files",
    "settled",
]
