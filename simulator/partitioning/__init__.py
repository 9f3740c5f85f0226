"""Cut a placed graph by device: a Send and a Recv wherever an edge crosses, one pair per rendezvous key."""

from simulator.partitioning.cutting import partition
from simulator.partitioning.partitions import Partitions
from simulator.partitioning.writing import partition_files

__all__ = ["Partitions", "partition", "partition_files"]
