"""Cut a placed graph: a Send and a Recv wherever an edge crosses devices, one pair per rendezvous key."""

from simulator.partitioning.client import FLAVOURS, flavour_of
from simulator.partitioning.control_flow import moves_of_step, settled
from simulator.partitioning.cutting import partition, partition_by_task
from simulator.partitioning.partitions import Partitions
from simulator.partitioning.writing import partition_files

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
