"""The only door to TensorFlow: ask the real one in a child process, and compare."""

from simulator.oracle.checking import check
from simulator.oracle.measurement import Measurement
from simulator.oracle.observing import observe

__all__ = ["Measurement", "check", "observe"]
