"""Replicate a training graph of one device: towers, workers of their own, both, or all-reduce."""

from simulator.training.replication.replicating import How as How
from simulator.training.replication.replicating import replicate as replicate
from simulator.training.replication.setter import PsStrategy as PsStrategy
