"""Placement as the graph asks for it, the rest on the default device.

The device strings stand, as soft or hard placement lets them. A group that asks for nothing goes to the device that
TensorFlow's placer would prefer for it (placer.cc). It prefers a GPU to a CPU, and the client's own task to others.
"""

from __future__ import annotations

from placement.plan import Plan
from placement.problem import Problem
from simulator.assignment import DEFAULT


def requested(problem: Problem) -> Plan:
    """Give every group the first of the devices that its constraints leave; costs and memory play no part."""
    return Plan([devices[0] for devices in problem.lawful], [DEFAULT] * len(problem.lawful))
